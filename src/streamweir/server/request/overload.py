"""Whether one more request can be opened now: the gateway's answer to more work than it can do.

    begin    `why_not(key)`           before a body is read: an error where this one is refused
    serve    `enter(key)`             counts it: until an upstream is asked as being opened, until its end as in flight
    early    `refusal_of(data)`       a whole refusal for the bytes of a request, without reading it in full

What is judged is in `policy.overload` (how many are being opened, by the loop's turns) and `policy.shares` (how many
each key has in flight). Here the turns are measured: two callbacks, one turn apart, no more often than a turn may take
and only while requests come; while there is a limit, every `LOOK_S`. Beyond that: files (`server.http.listener`). A
refusal has no row and no line of its own, for it must cost next to nothing when it is needed most; they are counted,
and every `SAY_S` at most one line says how many there were.
"""

import asyncio
import re
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from math import inf
from time import perf_counter
from typing import Protocol

from msgspec import Struct

from streamweir.core.errors import GatewayFault
from streamweir.frontends.base import Frontend
from streamweir.policy.access import Key
from streamweir.policy.overload import OpeningLimit
from streamweir.policy.shares import Shares
from streamweir.server.http.answers import failure_answer
from streamweir.server.http.ids import new_id
from streamweir.server.http.pressure import retry_after_s
from streamweir.server.http.response import http_date
from streamweir.server.request.admission import Resource, find, own_frontend
from streamweir.server.telemetry.log import logger
from streamweir.server.telemetry.metrics import Histogram

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
_LENGTH = re.compile(rb"0|[1-9][0-9]{0,8}")
_OURS = ({b"authorization", b"content-length", b"host"}, {b"content-length", b"host"})
_MOST_ASKED = 4096
_LONGEST_WAIT_S = 5
_ASKED_S = 1.0
"""For so long it is remembered whose a head is: a key may be made meanwhile, or revoked."""


class Files(Protocol):
    """See `server.http.listener.HttpServer`."""

    @property
    def connections(self) -> int: ...

    @property
    def max_files(self) -> int: ...

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
        frontend: Callable[[], Frontend],
        free_files: Callable[[], None],
        limit_changed: Callable[[bool], None],
    ) -> None:
        """`free_files`: closes what is kept open for later. `limit_changed`: whether there is a limit now."""
        self._limit = OpeningLimit(target_s)
        self._in_flight = Shares()
        self._find_key = find_key
        self._frontend = frontend
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
        self._canned = _PreparedRefusals()
        self._asked: dict[bytes, _Asked] = {}
        """By the digests of heads: most callers send the same one again, and to read it takes longer than all else."""
        self._asked_since = 0.0

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

    def look(self) -> None:
        """At how long turns take, for somebody has come who is not asked about below."""
        if not self._is_looking and perf_counter() - self._looked_at >= self._limit.target_s:
            self._look()

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
        most = files.max_files
        self._roomy = most // 4  # the rest is more than what is kept of earlier requests, and than any share
        if not files.has_files():
            self._free_files()
            if not files.has_files():
                return self.refused("files", _NO_FILES)
        self._in_flight.bound = most // 2 if most < sys.maxsize else inf
        if not self._in_flight.may_take(key.id):
            return self.refused("key_share", _TOO_MANY_OF_KEY)
        return None

    def enter(self, key: Key) -> "OpeningSlot":
        self._limit.opened(key.id, perf_counter())
        self._in_flight.take(key.id)
        return OpeningSlot(self._limit, self._in_flight, key.id)

    def refused(self, reason: str, message: str) -> GatewayFault:
        self.count(reason)
        return GatewayFault("overloaded", message, retry_after_s=retry_after_s())

    def count(self, reason: str) -> None:
        self._refusals[reason] = self._refusals.get(reason, 0) + 1

    def refusal_of(self, data: bytes, *, closes: bool) -> bytes | None:
        """The answer to a request of which these are all the bytes, where it is refused. None: it must be read."""
        end = data.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = data[:end]
        name = sha256(head).digest()
        asked = self._asked.get(name)
        if asked is None:
            asked = self._read(head)
            if asked is None:
                return None
            if len(self._asked) < _MOST_ASKED:
                self._asked[name] = asked
        if asked.length != len(data) - end - 4:
            return None
        limit, now = self._limit, perf_counter()
        if limit.may_tell(now) if asked.key is None else limit.may_open(asked.key, now):
            return None
        self.count("queueing" if asked.key is not None else "unknown_key")
        return self._canned.answer(asked.frontend, _BUSY, closes=closes)

    def _read(self, head: bytes) -> "_Asked | None":
        line = _LINE.match(head)
        fields = _plain_fields(head[line.end() :]) if line is not None else None
        if line is None or fields is None:
            return None
        where = find(line[1].decode("ascii"))
        if where is None or where.resource is not Resource.CHAT:
            return None
        secret, length = fields
        key = self._find_key(secret) if secret is not None else None
        frontend = where.frontend or (own_frontend(key) if key is not None else None) or self._frontend()
        return _Asked(key.id if key is not None else None, frontend, length)

    def no_file(self) -> bytes:
        """For a connection that is closed as soon as it is open."""
        self.count("files")
        return self._canned.answer(self._frontend(), _NO_FILES, closes=True)

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
        if now - self._asked_since > _ASKED_S:
            self._asked.clear()
            self._asked_since = now
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


class _Asked(Struct, frozen=True):
    """What a head asks for, as far as a refusal needs it."""

    key: str | None
    """None: nobody's."""
    frontend: Frontend
    length: int


class OpeningSlot:
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


class _PreparedRefusals:
    """Refusals as bytes, of which only the date and the id are written each time."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str, int, bool], tuple[bytes, bytes]] = {}
        self._wait_s = 0

    def answer(self, frontend: Frontend, message: str, *, closes: bool) -> bytes:
        wait_s = self._wait_s = self._wait_s % _LONGEST_WAIT_S + 1  # not everybody comes back at the same moment
        name = (frontend.name, message, wait_s, closes)
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = _whole(frontend, message, wait_s, closes=closes)
        before, after = made
        return b"%bdate: %b\r\nx-request-id: %b%b" % (before, http_date(), new_id().encode(), after)


def _whole(frontend: Frontend, message: str, wait_s: int, *, closes: bool) -> tuple[bytes, bytes]:
    answer = failure_answer(GatewayFault("overloaded", message, retry_after_s=wait_s), frontend)
    lines = ["HTTP/1.1 503 Service Unavailable", *(f"{name}: {value}" for name, value in answer.headers)]
    lines += [f"content-length: {len(answer.body)}", *(["connection: close"] if closes else []), ""]
    return "\r\n".join(lines).encode("latin-1"), b"\r\n\r\n" + answer.body


def _plain_fields(head: bytes) -> tuple[str | None, int] | None:
    """The secret, if there is one, and the body's length, of a head that is as plain as can be. None: it must be read
    in full."""
    if not _PLAIN.fullmatch(head):
        return None
    found = _FIELDS.findall(head)
    fields = {name.lower(): value for name, value in found}
    if len(found) > len(fields):
        return None
    connection = fields.pop(b"connection", b"keep-alive")
    if fields.keys() not in _OURS or connection.lower() != b"keep-alive":
        return None
    length = _LENGTH.fullmatch(fields[b"content-length"])
    if length is None:
        return None
    if b"authorization" not in fields:
        return None, int(length[0])
    scheme, _, secret = fields[b"authorization"].partition(b" ")
    secret = secret.strip()
    if scheme.lower() != b"bearer" or not secret.isascii() or not secret:
        return None
    return secret.decode("ascii"), int(length[0])
