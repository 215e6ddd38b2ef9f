"""Whether one more request can be opened now: the gateway's answer to more work than it can do.

    begin    `why_not(key)`           before a body is read: an error where this one is refused
    serve    `enter(key)`             counts it: until an upstream is asked as being opened, until its end as in flight
    early    `refusal_of(data)`       a whole refusal for the bytes of a request, without reading it in full

What is judged is in `policy.overload` (how many are being opened, by the loop's turns) and `policy.shares` (how many
each key has in flight). Here the turns are measured: two callbacks, one turn apart, no more often than a turn may take
and only while requests come; while there is a limit, every `LOOK_S`. Beyond that: files (`server.http`). A refusal has
no row and no line of its own, for it must cost next to nothing when it is needed most; they are counted, and every
`SAY_S` at most one line says how many there were.
"""

import asyncio
import re
import sys
import time
from collections.abc import Callable
from math import inf
from time import perf_counter
from typing import Protocol

from msgspec import Struct

from streamweir.core.errors import GatewayFault
from streamweir.dialects.base import Dialect
from streamweir.policy.access import Key
from streamweir.policy.overload import OpeningLimit
from streamweir.policy.shares import Shares
from streamweir.server.admit import Resource, find, own_dialect
from streamweir.server.chance import new_id
from streamweir.server.log import logger
from streamweir.server.metrics import Histogram
from streamweir.server.pressure import come_back_s
from streamweir.server.respond import failure_answer
from streamweir.server.response import http_date

LOOK_S = 0.01
SAY_S = 10.0
TURN_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0)

_BUSY = "The gateway is overloaded: it has more requests than it can answer in time. Try again later."
_TOO_MANY_OF_KEY = "This key has too many requests in flight. Wait for some of them to end."
_NO_FILES = "The gateway is overloaded: it has no file left for another upstream connection. Try again later."

_LINE = re.compile(rb"POST (/[a-z0-9/_-]{1,100}) HTTP/1\.1(?=\r\n)")
_FIELDS = re.compile(
    rb"\r\n(authorization|content-length|host|x-api-key|api-key|connection|transfer-encoding|expect):[ \t]*([^\r\n]*)",
    re.IGNORECASE,
)
_PLAIN = re.compile(rb"(?:\r\n[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*)+")
"""What another reader could take for other fields is not among them: folded lines, bare CR or LF, a space before the
colon."""
_OURS = frozenset({b"authorization", b"content-length", b"host"})


class Files(Protocol):
    """See `server.http.HttpServer`."""

    @property
    def connections(self) -> int: ...

    @property
    def most_files(self) -> int: ...

    def has_files(self) -> bool: ...


class Reading(Struct, frozen=True, kw_only=True):
    opening: int
    limit: float
    in_flight: int
    refusals: dict[str, int]
    turns: Histogram


class Overload:
    def __init__(
        self,
        *,
        target_s: float,
        find_key: Callable[[str], Key | None],
        dialect: Callable[[], Dialect],
        free_files: Callable[[], None],
        limit_changed: Callable[[bool], None],
    ) -> None:
        """`free_files`: closes what is kept open for later. `limit_changed`: whether there is a limit now."""
        self._limit = OpeningLimit(target_s)
        self._in_flight = Shares()
        self._find_key = find_key
        self._dialect = dialect
        self._free_files = free_files
        self._limit_changed = limit_changed
        self.files: Files | None = None
        self._turns = Histogram(TURN_S)
        self._refusals: dict[str, int] = {}
        self._said: dict[str, int] = {}
        self._say_at = -inf
        self._looked_at = -inf
        self._is_looking = False
        self._roomy = 0
        """With fewer connections and requests than this there are files for everybody."""
        self._turn_began = 0.0
        self._is_limited = False
        self._canned = _Canned()

    @property
    def reading(self) -> Reading:
        limit = self._limit
        return Reading(
            opening=limit.opening,
            limit=limit.limit,
            in_flight=self._in_flight.total,
            refusals=self._refusals,
            turns=self._turns,
        )

    def use_target(self, target_s: float) -> None:
        self._limit.target_s = target_s

    # Judging.

    def why_not(self, key: Key) -> GatewayFault | None:
        """Why this key's next request is refused; None: it is not."""
        now = perf_counter()
        if not self._is_looking and now - self._looked_at >= self._limit.target_s:
            self._look()
        if not self._limit.may_open(key.id, now):
            return self.refused("queueing", _BUSY)
        files = self.files
        if files is None or self._in_flight.total + files.connections < self._roomy:
            return None
        most = files.most_files
        self._roomy = most // 4  # the rest is more than what is kept of earlier requests, and than any share
        if not files.has_files():
            self._free_files()
            if not files.has_files():
                return self.refused("files", _NO_FILES)
        self._in_flight.bound = most // 2 if most < sys.maxsize else inf
        if not self._in_flight.may_take(key.id):
            return self.refused("key_share", _TOO_MANY_OF_KEY)
        return None

    def enter(self, key: Key) -> "Place":
        self._limit.opened(key.id, perf_counter())
        self._in_flight.take(key.id)
        return Place(self._limit, self._in_flight, key.id)

    def refused(self, reason: str, message: str) -> GatewayFault:
        self.count(reason)
        return GatewayFault("overloaded", message, retry_after_s=come_back_s())

    def count(self, reason: str) -> None:
        self._refusals[reason] = self._refusals.get(reason, 0) + 1

    def refusal_of(self, data: bytes, *, closes: bool) -> bytes | None:
        """The answer to a request of which these are all the bytes, where it is refused. None: it must be read."""
        line = _LINE.match(data)
        end = data.find(b"\r\n\r\n")
        if line is None or end < line.end():
            return None
        secret = _secret_of(data[line.end() : end], len(data) - end - 4)
        where = find(line[1].decode("ascii"))
        if secret is None or where is None or where.resource is not Resource.CHAT:
            return None
        key = self._find_key(secret)
        if key is None or self._limit.may_open(key.id, perf_counter()):
            return None
        self.count("queueing")
        return self._canned.answer(where.dialect or own_dialect(key) or self._dialect(), _BUSY, closes=closes)

    def no_file(self) -> bytes:
        """For a connection that is closed as soon as it is open."""
        self.count("files")
        return self._canned.answer(self._dialect(), _NO_FILES, closes=True)

    # Measuring.

    def _look(self) -> None:
        self._is_looking = True
        asyncio.get_running_loop().call_soon(self._turn_begins)

    def _turn_begins(self) -> None:
        self._turn_began = perf_counter()
        asyncio.get_running_loop().call_soon(self._turn_ends)

    def _turn_ends(self) -> None:
        now = perf_counter()
        turn_s = now - self._turn_began
        self._turns.observe(turn_s)
        self._limit.turn_took(turn_s, now)
        if self._limit.is_limited is not self._is_limited:
            self._is_limited = self._limit.is_limited
            self._limit_changed(self._is_limited)
        self._looked_at = now
        if self._is_limited:  # until it is not, whether or not anybody comes
            asyncio.get_running_loop().call_later(LOOK_S, self._look)
        else:
            self._is_looking = False

    def say(self) -> None:
        """A line for what was refused since the last one. To be called from time to time."""
        now = time.monotonic()
        if now - self._say_at < SAY_S or self._refusals == self._said:
            return
        since = {reason: count - self._said.get(reason, 0) for reason, count in self._refusals.items()}
        self._said, self._say_at = dict(self._refusals), now
        limit = self._limit.limit
        logger.warning(
            "requests refused: overloaded",
            **{reason: count for reason, count in since.items() if count},
            opening=self._limit.opening,
            limit=round(limit) if limit < inf else None,
            in_flight=self._in_flight.total,
        )


class Place:
    """Of one request: among those that are being opened, and among those of its key that are in flight."""

    __slots__ = ("_in_flight", "_is_opening", "_key", "_limit")

    def __init__(self, limit: OpeningLimit, in_flight: Shares, key: str) -> None:
        self._limit = limit
        self._in_flight = in_flight
        self._key = key
        self._is_opening = True

    def opened(self) -> None:
        """An upstream is asked: from now on it is waited for, and not for us. Once, or more often."""
        if self._is_opening:
            self._is_opening = False
            self._limit.left()

    def end(self) -> None:
        """Once."""
        self.opened()
        self._in_flight.give_back(self._key)


class _Canned:
    """Refusals as bytes, of which only the date and the id are written each time."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str, int, bool], tuple[bytes, bytes]] = {}

    def answer(self, dialect: Dialect, message: str, *, closes: bool) -> bytes:
        wait_s = int(come_back_s())
        name = (dialect.name, message, wait_s, closes)
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = _whole(dialect, message, wait_s, closes=closes)
        before, after = made
        return b"%bdate: %b\r\nx-request-id: %b%b" % (before, http_date(), new_id().encode(), after)


def _whole(dialect: Dialect, message: str, wait_s: int, *, closes: bool) -> tuple[bytes, bytes]:
    answer = failure_answer(GatewayFault("overloaded", message, retry_after_s=wait_s), dialect)
    lines = ["HTTP/1.1 503 Service Unavailable", *(f"{name}: {value}" for name, value in answer.headers)]
    lines += [f"content-length: {len(answer.body)}", *(["connection: close"] if closes else []), ""]
    return "\r\n".join(lines).encode("latin-1"), b"\r\n\r\n" + answer.body


def _secret_of(head: bytes, length: int) -> str | None:
    """Of a head that is as plain as can be, whose body has that length. None: it must be read in full."""
    if not _PLAIN.fullmatch(head):
        return None
    found = _FIELDS.findall(head)
    fields = {name.lower(): value for name, value in found}
    if len(found) > len(fields):
        return None
    connection = fields.pop(b"connection", b"keep-alive")
    if fields.keys() != _OURS or connection.lower() != b"keep-alive":
        return None
    scheme, _, secret = fields[b"authorization"].partition(b" ")
    if fields[b"content-length"] != b"%d" % length or scheme.lower() != b"bearer" or not secret.isascii():
        return None
    return secret.strip().decode("ascii") or None
