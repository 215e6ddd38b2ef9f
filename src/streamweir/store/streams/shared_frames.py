"""The frames of resumable streams in Valkey or Redis: one stream of Valkey's for each stream, and its head.

Every call is one atomic step of `frames.lua`, and may be repeated. Frames are numbered by their events: the id of an
entry is the number of its last event, so a reader begins behind any event, and nothing is written twice or out of
order. One process owns a stream, and only it appends. It has a lease, which each call of its publisher renews. A live
stream whose owner has no lease is ended as `lost` by the first node that looks at it; the owner, if it was only
delayed, is refused from then on. What is stored about a stream (`meta`) and its data are bytes to this package.

Nothing is kept longer than `Lifetimes` says. What was published is in the memory of Valkey, and on its disk if its
operator has configured that.
"""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from streamweir.policy.routing.breaker import Breaker
from streamweir.store.limits.errors import SharedUnavailable
from streamweir.store.limits.shared import server_url

if TYPE_CHECKING:
    from streamweir.store.limits.valkey import Valkey

MAX_ENTRIES = 1_000_000
"""A bound for Valkey; the publisher's bound in bytes is reached before."""
PAUSE_S = 2.0
_INCOMPLETE = "?"


class SharedState(StrEnum):
    """Of a stream in Valkey."""

    LIVE = "live"
    LOST = "lost"
    """Its owner is dead."""
    COMPLETE = "complete"
    CUT = "cut"
    LEFT = "left"
    DELETED = "deleted"
    GIVEN_UP = "given_up"
    """Its frames were dropped."""


class Lifetimes(Struct, frozen=True, kw_only=True):
    """For how long something is kept, in seconds."""

    lease_s: float = 5.0
    """A process that has not published for so long is dead."""
    live_s: float = 900.0
    """A live stream, after its publisher has renewed it for the last time."""
    keep_s: float = 300.0
    """The frames of a stream that has ended."""
    known_s: float = 900.0
    """Its head, so that it is known for a while that its frames are gone."""
    message_s: float = 60.0
    recovery_s: float = 10.0
    """After Valkey has lost its data: by then every process has published again what it has in memory."""


class FoundStream(Struct, frozen=True, kw_only=True):
    """The head of a stream as it is at this moment."""

    id: str
    owner: str
    state: SharedState
    events: int
    is_owner_alive: bool
    meta: str


class Published(Struct, frozen=True, kw_only=True):
    """The answer to the steps of one call."""

    had_lease: bool
    """False: this is the first call, or it was considered dead, or Valkey has lost its data."""
    answers: list[str]
    """For each step the number of events that are known then, or one of `Answer`."""


class Answer(StrEnum):
    MISSING = "m"
    """The stream is not known (any more): open it, and publish all of it."""
    REFUSED = "x"
    """Another process owns it or has ended it."""
    ENDED = "e"
    STOPPED = "d"
    """Its caller has deleted it at another node."""
    DONE = "-"


class Deletion(Struct, frozen=True, kw_only=True):
    """What is known when a stream was deleted."""

    before: SharedState
    is_owner_alive: bool
    was_stopped: bool | None
    """Whether the owner has ended it. False: the owner did not have it any more. None: the owner has not answered."""


class SharedIncomplete(SharedUnavailable):
    """What was asked for is not there, but Valkey may have lost it a moment ago."""


class SharedFrames:
    def __init__(
        self,
        valkey: "Valkey",
        *,
        instance: str,
        node: str = "",
        prefix: str = "streamweir",
        lifetimes: Lifetimes | None = None,
    ) -> None:
        """`instance`: the id of this process. `node`: the name that its workers share."""
        self._valkey = valkey
        self._node = node or instance
        lifetimes = lifetimes or Lifetimes()
        self.prefix = "{" + prefix + "}:st"
        self.instance = instance
        self.lifetimes = lifetimes
        self._ended = (_ms(lifetimes.keep_s), _ms(lifetimes.known_s))

    async def publish(self, steps: Sequence[str | bytes]) -> Published:
        """`steps`: the words of one step after the other, see `frames.lua`. Raises `SharedUnavailable`."""
        lifetimes = (_ms(self.lifetimes.lease_s), _ms(self.lifetimes.live_s), str(MAX_ENTRIES), *self._ended)
        had_lease, *answers = (await self._call("publish", self.instance, *lifetimes, *steps)).split()
        return Published(had_lease=had_lease == "1", answers=answers)

    async def find(self, stream_id: str) -> FoundStream | None:
        """Raises `SharedUnavailable`."""
        return _found(await self._call("find", _ms(self.lifetimes.recovery_s), stream_id))

    async def find_idempotent(self, key: str) -> FoundStream | None:
        """The stream that was opened with this key of an Idempotency-Key. Raises `SharedUnavailable`."""
        return _found(await self._call("find_idempotent", _ms(self.lifetimes.recovery_s), key))

    async def delete(self, stream_id: str) -> Deletion | None:
        """Drops its frames, and ends it for all who follow it. Its owner is to be told. None: it is unknown. Raises
        `SharedUnavailable`."""
        before, *more = (await self._call("delete", *self._ended, stream_id)).split()
        if before == Answer.MISSING:
            return None
        is_alive, stopped = more
        return Deletion(
            before=SharedState(before),
            is_owner_alive=is_alive == "1",
            was_stopped=None if stopped == Answer.DONE else stopped == "1",
        )

    async def check(self, stream_ids: Sequence[str]) -> dict[str, SharedState | None]:
        """The states; None: it is unknown, or its frames are. A live one whose owner is dead is ended as `lost`.

        Raises `SharedUnavailable`.
        """
        if not stream_ids:
            return {}
        answers = (await self._call("check", *self._ended, *stream_ids)).split()
        states = [None if answer == Answer.MISSING else SharedState(answer) for answer in answers]
        return dict(zip(stream_ids, states, strict=True))

    async def tell(self, instance: str, **message: str) -> None:
        """A message to a process, which it reads soon (`store.streams.follower`). Raises `SharedUnavailable`."""
        words = [word for item in message.items() for word in item]
        await self._call("tell", instance, _ms(self.lifetimes.message_s), *words)

    async def serve(self, *, serves: bool = True) -> None:
        """This process takes requests, or does not any longer. To be repeated within `lease_s`. Raises
        `SharedUnavailable`."""
        await self._call("serve", self._node, self.instance, _ms(self.lifetimes.lease_s) if serves else "0")

    async def is_other_serving(self) -> bool:
        """Whether another node takes requests. Raises `SharedUnavailable`."""
        return await self._call("others", self._node) == "1"

    async def leave(self) -> None:
        """This process ends. Does not raise: its lease expires in any case."""
        try:
            await self._call("leave", self.instance)
        except SharedUnavailable:
            return

    async def close(self) -> None:
        await self._valkey.close()

    async def _call(self, *words: str | bytes) -> str:
        return await self._valkey.call([self.prefix, *words])


def open_shared_frames(url: str, instance: str, node: str, lifetimes: Lifetimes, timeout_s: float) -> SharedFrames:
    """On a connection of its own, because frames are many bytes. Does not connect yet. The address was checked when
    that of the limits was opened."""
    from streamweir.store.limits.valkey import Valkey

    valkey = Valkey(server_url(url), script(), timeout_s=timeout_s, breaker=Breaker(open_s=PAUSE_S))
    return SharedFrames(valkey, instance=instance, node=node, lifetimes=lifetimes)


def script() -> str:
    return Path(__file__).with_name("frames.lua").read_text("utf-8")


def idempotency_key(key_id: str, digest: bytes) -> str:
    return f"{key_id}:{digest.hex()}"


def _found(answer: str) -> FoundStream | None:
    if not answer:
        return None
    if answer == _INCOMPLETE:
        raise SharedIncomplete("Valkey has lost its data a moment ago")
    stream_id, owner, state, events, is_alive, meta = answer.split("\n", 5)
    return FoundStream(
        id=stream_id,
        owner=owner,
        state=SharedState(state),
        events=int(events),
        is_owner_alive=is_alive == "1",
        meta=meta,
    )


def _ms(seconds: float) -> str:
    return str(round(seconds * 1000))
