"""Overload: whether one more request can be opened now, and the refusals if it cannot.

    begin    `why_refused(key)`   before a body is read: the error if this request is refused
    serve    `enter(key)`         counts it: as being opened until an upstream is called, as in flight until its end
    early    `refusal_of(data)`   a complete refusal for the bytes of a request, without parsing it completely

`policy.overload` decides by the number of requests that are being opened and the duration of turns, `policy.shares` by
the requests that each key has in flight. This module measures the turns: two callbacks, one turn apart, at most once
per target duration and only while requests arrive; while there is a limit, every `MEASURE_INTERVAL_S`. It also checks
for free file descriptors (`server.http.listener`). A refusal has no row and no log line of its own, because it must be
cheap when the load is highest: refusals are counted, and at most every `LOG_INTERVAL_S` one line reports their number.
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
from streamweir.server.request.admission import Resource, own_frontend, parse_path
from streamweir.server.telemetry.log import logger
from streamweir.server.telemetry.metric_families import Histogram

MEASURE_INTERVAL_S = 0.01
LOG_INTERVAL_S = 10.0
TURN_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0)

_BUSY = "The gateway is overloaded: it has more requests than it can answer in time. Try again later."
_TOO_MANY_OF_KEY = "This key has too many requests in flight. Wait for some of them to end."
_NO_FILES = "The gateway is overloaded: it has no file left for another upstream connection. Try again later."

_LINE = re.compile(rb"POST (/[a-z0-9/_-]{1,100}) HTTP/1\.1(?=\r\n)")
_FIELDS = re.compile(
    rb"\r\n(authorization|content-length|host|origin|x-api-key|api-key|connection|transfer-encoding|expect):"
    rb"[ \t]*([^\r\n]*)",
    re.IGNORECASE,
)
_PLAIN = re.compile(rb"(?:\r\n[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*)+")
"""Excludes everything that another parser could read as different fields: folded lines, bare CR or LF, a space before
the colon."""
_LENGTH = re.compile(rb"0|[1-9][0-9]{0,8}")
_FIELD_SETS = ({b"authorization", b"content-length", b"host"}, {b"content-length", b"host"})
_MAX_PARSED_HEADS = 4096
_MAX_WAIT_S = 5
_PARSED_HEADS_S = 1.0
"""How long the key of a head is cached: keys are created and revoked meanwhile."""


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
        """`free_files`: closes idle connections. `limit_changed`: is called when a limit is set or removed."""
        self._limit = OpeningLimit(target_s)
        self._in_flight = Shares()
        self._find_key = find_key
        self._frontend = frontend
        self._free_files = free_files
        self._limit_changed = limit_changed
        self.files: Files | None = None
        self._turns = Histogram(TURN_S)
        self._refusals: dict[str, int] = {}
        self._logged: dict[str, int] = {}
        self._logged_at = -inf
        self._measured_at = -inf
        self._is_measuring = False
        self._check_files_from = 0
        """With fewer connections and requests than this, there are files for all keys."""
        self._turn_began = 0.0
        self._is_limited = False
        self._prepared = _PreparedRefusals()
        self._parsed_heads: dict[bytes, _ParsedHead] = {}
        """By the digest of the head: most callers repeat their head, and parsing it takes longer than the rest."""
        self._parsed_heads_since = 0.0

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

    # Deciding.

    def measure(self) -> None:
        """Measures a turn, for a request that does not call `why_refused`."""
        if not self._is_measuring and perf_counter() - self._measured_at >= self._limit.target_s:
            self._measure_turn()

    def why_refused(self, key: Key) -> GatewayFault | None:
        """Why the next request of this key is refused; None: it is not."""
        now = perf_counter()
        if not self._is_measuring and now - self._measured_at >= self._limit.target_s:
            self._measure_turn()
        if not self._limit.may_open(key.id, now):
            return self.refused("queueing", _BUSY)
        files = self.files
        if files is None or self._in_flight.total + files.connections < self._check_files_from:
            return None
        max_files = files.max_files
        # Three quarters remain: more than idle connections of earlier requests need, and more than any share.
        self._check_files_from = max_files // 4
        if not files.has_files():
            self._free_files()
            if not files.has_files():
                return self.refused("files", _NO_FILES)
        self._in_flight.bound = max_files // 2 if max_files < sys.maxsize else inf
        if not self._in_flight.may_take(key.id):
            return self.refused("key_share", _TOO_MANY_OF_KEY)
        return None

    def enter(self, key: Key) -> "OpeningSlot":
        self._limit.enter(key.id, perf_counter())
        self._in_flight.take(key.id)
        return OpeningSlot(self._limit, self._in_flight, key.id)

    def refused(self, reason: str, message: str) -> GatewayFault:
        self.count(reason)
        return GatewayFault("overloaded", message, retry_after_s=retry_after_s())

    def count(self, reason: str) -> None:
        self._refusals[reason] = self._refusals.get(reason, 0) + 1

    def refusal_of(self, data: bytes, *, closes: bool) -> bytes | None:
        """The refusal of a request that consists of these bytes. None: it is not refused here, and must be parsed."""
        end = data.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = data[:end]
        name = sha256(head).digest()
        parsed = self._parsed_heads.get(name)
        if parsed is None:
            parsed = self._read(head)
            if parsed is None:
                return None
            if len(self._parsed_heads) < _MAX_PARSED_HEADS:
                self._parsed_heads[name] = parsed
        if parsed.length != len(data) - end - 4:
            return None
        limit, now = self._limit, perf_counter()
        if limit.may_reject_unknown(now) if parsed.key is None else limit.may_open(parsed.key, now):
            return None
        self.count("queueing" if parsed.key is not None else "unknown_key")
        return self._prepared.answer(parsed.frontend, _BUSY, closes=closes)

    def _read(self, head: bytes) -> "_ParsedHead | None":
        line = _LINE.match(head)
        fields = _plain_fields(head[line.end() :]) if line is not None else None
        if line is None or fields is None:
            return None
        where = parse_path(line[1].decode("ascii"))
        if where is None or where.resource is not Resource.CHAT:
            return None
        secret, length = fields
        key = self._find_key(secret) if secret is not None else None
        frontend = where.frontend or (own_frontend(key) if key is not None else None) or self._frontend()
        return _ParsedHead(key.id if key is not None else None, frontend, length)

    def no_files_refusal(self) -> bytes:
        """For a connection that is closed right after it was accepted."""
        self.count("files")
        return self._prepared.answer(self._frontend(), _NO_FILES, closes=True)

    # Measuring.

    def _measure_turn(self) -> None:
        self._is_measuring = True
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
        self._measured_at = now
        if now - self._parsed_heads_since > _PARSED_HEADS_S:
            self._parsed_heads.clear()
            self._parsed_heads_since = now
        if self._is_limited:  # until the limit is removed, even if no requests arrive
            asyncio.get_running_loop().call_later(MEASURE_INTERVAL_S, self._measure_turn)
        else:
            self._is_measuring = False

    def log_refusals(self) -> None:
        """Logs the number of refusals since the last line. To be called from time to time."""
        now = time.monotonic()
        if now - self._logged_at < LOG_INTERVAL_S or self._refusals == self._logged:
            return
        since = {reason: count - self._logged.get(reason, 0) for reason, count in self._refusals.items()}
        self._logged, self._logged_at = dict(self._refusals), now
        limit = self._limit.limit
        logger.warning(
            "requests refused: overloaded",
            **{reason: count for reason, count in since.items() if count},
            opening=self._limit.opening,
            limit=round(limit) if limit < inf else None,
            in_flight=self._in_flight.total,
        )


class _ParsedHead(Struct, frozen=True):
    """The parts of a request's head that a refusal needs."""

    key: str | None
    """None: the key is unknown."""
    frontend: Frontend
    length: int


class OpeningSlot:
    """One request, counted among those that are being opened and among those of its key that are in flight."""

    __slots__ = ("_in_flight", "_is_opening", "_key", "_limit")

    def __init__(self, limit: OpeningLimit, in_flight: Shares, key: str) -> None:
        self._limit = limit
        self._in_flight = in_flight
        self._key = key
        self._is_opening = True

    def opened(self) -> None:
        """An upstream is called: from now on the request does not wait for the gateway. May be called again."""
        if self._is_opening:
            self._is_opening = False
            self._limit.leave()

    def end(self) -> None:
        """To be called once."""
        self.opened()
        self._in_flight.release(self._key)


class _PreparedRefusals:
    """Refusals as bytes: only the date and the id are written each time."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str, int, bool], tuple[bytes, bytes]] = {}
        self._wait_s = 0

    def answer(self, frontend: Frontend, message: str, *, closes: bool) -> bytes:
        wait_s = self._wait_s = self._wait_s % _MAX_WAIT_S + 1  # so that not all callers retry at the same moment
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
    """The secret, if there is one, and the body's length, of a head with only common fields. None: it must be parsed
    completely."""
    if not _PLAIN.fullmatch(head):
        return None
    found = _FIELDS.findall(head)
    fields = {name.lower(): value for name, value in found}
    if len(found) > len(fields):
        return None
    connection = fields.pop(b"connection", b"keep-alive")
    if fields.keys() not in _FIELD_SETS or connection.lower() != b"keep-alive":
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
