"""One stream in the process that owns it: what Valkey has of it, and the steps that bring it up to date.

It keeps no frames, but reads them from `Source`. `steps` are the words of the next call of the publisher, `apply` takes
the answers. Valkey answers with the number of events that it has, and what follows them comes next; so it does not
matter which calls were lost.

    open, append ..., end                  as the stream goes on
    open, append from the first event on   after Valkey has lost its data (`reset`)
    open, append ..., end                  from where Valkey is, if it may have gone back to an older copy (`confirm`)
    give_up                                its frames were dropped from memory before Valkey had all of them, or Valkey
                                           shall have no more of them, or its caller has deleted it
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from streamweir.store.streams.shared_frames import Answer, SharedState

MAX_ENTRY_BYTES = 32 * 1024


class Source(Protocol):
    """The frames of a stream in memory."""

    @property
    def events(self) -> int: ...

    def read(self, after: int, max_bytes: int, /) -> list[bytes]:
        """Nothing if they were dropped."""
        ...


class Publisher(Protocol):
    def add_dirty(self, stream: "PublishedStream", /) -> None: ...

    def note_sent(self, size: int, /) -> None:
        """Of the memory that this process uses in Valkey."""
        ...

    def unlink(self, stream_id: str, idempotency: str, /) -> None: ...

    def stream_done(self, stream: "PublishedStream", /) -> None:
        """It has nothing more to publish."""
        ...

    def deleted_elsewhere(self, stream: "PublishedStream", /) -> None:
        """Its caller has ended it at another node."""
        ...


class PublishedStream:
    """No method waits but `flushed`."""

    __slots__ = (
        "_flushes",
        "_is_dirty",
        "_is_open",
        "_publisher",
        "_was_drop_sent",
        "id",
        "idempotency",
        "is_done",
        "is_dropped",
        "is_refused",
        "meta",
        "sent",
        "sent_bytes",
        "source",
        "state",
    )

    def __init__(self, publisher: Publisher, stream_id: str, meta: str, idempotency: str, source: Source) -> None:
        self._publisher = publisher
        self.id = stream_id
        self.meta = meta
        self.idempotency = idempotency
        self.source: Source | None = source
        """None: its frames are not in memory any more."""
        self.state = SharedState.LIVE
        """As it shall be in Valkey."""
        self.sent = 0
        """The number of events that Valkey has."""
        self.sent_bytes = 0
        self.is_done = False
        """Valkey has its end."""
        self.is_dropped = False
        """Valkey shall have nothing of it but its state."""
        self.is_refused = False
        """Another node has ended it."""
        self._is_open = False
        self._is_dirty = False
        self._was_drop_sent = False
        self._flushes: list[tuple[int, asyncio.Future[bool]]] = []

    @property
    def is_published(self) -> bool:
        """Valkey has all that there is."""
        if self.source is None or not self._is_open or self.sent != self.source.events:
            return False
        return self.is_done or self.state is SharedState.LIVE

    def appended(self) -> None:
        """Its source has more events. Called for every event."""
        if not (self._is_dirty or self.is_done or self.is_refused):
            self._is_dirty = True
            self._publisher.add_dirty(self)

    def ended(self, state: SharedState) -> None:
        """Its source has all events."""
        if self.state is SharedState.LIVE:
            self.state = state
            self.appended()

    def give_up(self) -> None:
        """Nobody can come back to it any more, at any node."""
        if self.state in (SharedState.LIVE, SharedState.COMPLETE):
            self._drop(SharedState.GIVEN_UP)
        else:
            self._drop(self.state)

    def delete(self) -> None:
        """Its caller ends it."""
        self._drop(SharedState.DELETED)

    def publish_again(self) -> None:
        """Valkey may have lost everything."""
        if self.source is not None:
            self.reset()
        elif self.is_dropped:
            self.is_done = False
        self.appended()

    def unlink(self) -> None:
        """Its Idempotency-Key does not lead to it any more."""
        if self.idempotency:
            self._publisher.unlink(self.id, self.idempotency)
            self.idempotency = ""

    def forget(self) -> None:
        """Its frames are not in memory any more. Valkey keeps them if it has all."""
        if self.is_done:
            self.source = None
        else:
            self.give_up()

    async def flushed(self, timeout_s: float) -> bool:
        """Whether Valkey has all that there is now, and if it has ended, its end."""
        if self.source is None or self.is_refused:
            return False
        if self.is_published:
            return True
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._flushes.append((self.source.events, future))
        self.appended()
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            return False

    # For the publisher.

    def steps(self, max_bytes: int) -> tuple[list[str | bytes], int, int]:
        """The words of the next steps, how many steps they are, and how many bytes of frames."""
        words: list[str | bytes] = []
        count, size, at, source = 0, 0, self.sent, self.source
        if not self._is_open and source is not None:
            words += ("open", self.id, self.meta, self.idempotency)
            count += 1
        while source is not None and at < source.events and size < max_bytes:
            events = source.read(at, MAX_ENTRY_BYTES)
            if not events:
                self.give_up()
                break
            data = b"".join(events)
            words += ("append", self.id, str(at + 1), str(at + len(events)), _lengths(events), data)
            at, size, count = at + len(events), size + len(data), count + 1
        if self.is_dropped:
            self._was_drop_sent = True
            return ["give_up", self.id, self.state, self.meta], 1, 0
        if self.state is not SharedState.LIVE and (source is None or at == source.events):
            words += ("end", self.id, str(at), self.state)
            count += 1
        return words, count, size

    def apply(self, answers: Sequence[str], size: int) -> None:
        """The answers to these steps. None: there was nothing to do."""
        self._is_dirty = False
        last = answers[-1] if answers else str(self.sent)
        if self.is_dropped:
            self._apply_drop(last)
        elif self.source is None:
            self._apply_without_source(last)
        elif last.isdigit():
            if int(last) < self.sent:  # that part of it is lost there
                size -= self.sent_bytes * (self.sent - int(last)) // self.sent
            self._is_open, self.sent = True, int(last)
            self._note_sent(size)
            self._resolve(is_published=True)
            if not self.is_published:
                self.appended()
        elif last == Answer.ENDED:
            self._is_open = self.is_done = True
            self.sent = self.source.events
            self._note_sent(size)
            self._resolve(is_published=True)
            self._publisher.stream_done(self)
        elif last == Answer.MISSING:
            self.reset()
            self.appended()
        else:
            self._refuse(is_deleted=last == Answer.STOPPED)

    def retry(self) -> None:
        """It is not known whether the steps were done."""
        self._is_dirty = self._is_open = False
        self.appended()

    def reset(self) -> None:
        """Valkey may have lost it."""
        self._is_open = self.is_done = False
        self.sent = 0
        self._note_sent(-self.sent_bytes)

    def confirm(self) -> None:
        """Valkey may have gone back to an older copy of it, as a replica that was behind."""
        if not self.is_refused:
            self._is_open = self.is_done = False
            self.appended()

    def _apply_without_source(self, last: str) -> None:
        """It had all of it before."""
        if last.isdigit():
            self._drop(SharedState.GIVEN_UP)
        else:
            self.is_done = True

    def _drop(self, state: SharedState) -> None:
        if not (self.is_dropped or self.is_refused):
            self.source, self.state, self.is_dropped, self.is_done = None, state, True, False
            self._resolve(is_published=False)
            self.appended()

    def _apply_drop(self, last: str) -> None:
        if last == Answer.REFUSED:
            self._refuse()
        elif last == Answer.STOPPED and self.state is not SharedState.DELETED:
            self._refuse(is_deleted=True)
        elif self._was_drop_sent:
            self.is_done = True
            self._note_sent(-self.sent_bytes)
            self._publisher.stream_done(self)
        else:
            self.appended()  # it was given up after its steps were sent

    def _refuse(self, *, is_deleted: bool = False) -> None:
        self.is_refused = True
        self._note_sent(-self.sent_bytes)
        self._resolve(is_published=False)
        self._publisher.stream_done(self)
        if is_deleted:
            self._publisher.deleted_elsewhere(self)

    def _note_sent(self, size: int) -> None:
        self.sent_bytes += size
        self._publisher.note_sent(size)

    def _resolve(self, *, is_published: bool) -> None:
        waiting, self._flushes = self._flushes, []
        for events, future in waiting:
            if future.done():
                continue
            if is_published and not self.is_published and (self.sent < events or self.state is not SharedState.LIVE):
                self._flushes.append((events, future))
            else:
                future.set_result(is_published)


def _lengths(events: Sequence[bytes]) -> str:
    return ",".join(str(len(event)) for event in events)
