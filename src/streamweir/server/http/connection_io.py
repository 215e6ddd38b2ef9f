"""A caller's connection as a thing of bytes and time: how fast it goes, how long it may stand still, how it ends.

`Connection` adds what the bytes mean. Here is what holds for any of them: one alarm for all
deadlines; a caller that takes nothing for `write_stall_s` is dropped, however little waits;
whoever writes is told when to stop, never from inside a write. It ends in one of three ways:
`_linger` (answered; the other side may still be sending), `_close` (what waits is delivered),
`_lose` (at once). Knows neither HTTP nor the application.
"""

import asyncio
from abc import ABC, abstractmethod
from enum import Enum, auto
from math import inf
from typing import cast

from streamweir.server.http.limits import HttpLimits
from streamweir.server.http.timers import SLACK_S, DeadlineTimer, TimerQueue, WriteStall

_STALL_LOOKS = 4
"""How often the waiting bytes are looked at within `write_stall_s`."""


class Phase(Enum):
    IDLE = auto()
    HEAD = auto()
    UNREAD = auto()
    """The head is with the application. The body stays in the kernel until it is wanted."""
    BODY = auto()
    SERVING = auto()
    LINGERING = auto()
    CLOSED = auto()


class ConnectionIO(asyncio.Protocol, ABC):
    __slots__ = (
        "_alarm",
        "_deadline",
        "_discarded",
        "_flow_is_told",
        "_is_paused",
        "_limits",
        "_loop",
        "_peer",
        "_phase",
        "_sent",
        "_stall",
        "_transport",
        "is_full",
    )

    _transport: asyncio.Transport

    def __init__(self, limits: HttpLimits, loop: asyncio.AbstractEventLoop, clock: TimerQueue) -> None:
        self._limits = limits
        self._loop = loop
        self._peer = ""
        self._phase = Phase.IDLE
        self._deadline = inf
        """Of the phase."""
        self._alarm = DeadlineTimer(clock, self)
        self._stall = WriteStall()
        self._sent = 0
        """All that was handed to the transport, but for the answer that is under way."""
        self._is_paused = False
        self._discarded = 0
        self.is_full = False
        self._flow_is_told = True

    # For the heir to fill in.

    @abstractmethod
    def _expire(self, now: float) -> None:
        """The deadline of the phase has come."""
        ...

    @abstractmethod
    def _under_way(self) -> int | None:
        """How much of an answer has been handed over; None where none is under way."""
        ...

    @abstractmethod
    def _flow_changed(self) -> None: ...

    @abstractmethod
    def _lost(self) -> None:
        """The line is dead, and nobody has been told."""
        ...

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are not of asyncio's class
        self._transport.set_write_buffer_limits(high=self._limits.high_water)
        peer = transport.get_extra_info("peername")
        self._peer = str(peer[0]) if isinstance(peer, tuple) else ""

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (whatever it was, the caller has gone)
        self._alarm.end()
        self._lose()

    def pause_writing(self) -> None:
        self.is_full = True
        self._tell_flow_soon()

    def resume_writing(self) -> None:
        self.is_full = False
        self._tell_flow_soon()

    def _tell_flow_soon(self) -> None:
        if self._flow_is_told:
            self._flow_is_told = False
            self._loop.call_soon(self._tell_flow)

    def _tell_flow(self) -> None:
        """Also where it has changed back meanwhile: who looked for himself in between must not wait for ever."""
        self._flow_is_told = True
        self._flow_changed()

    # Reading.

    def _read_on(self, does: bool) -> None:
        if does is not self._is_paused or self._transport.is_closing():
            return
        self._is_paused = not does
        if does:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _discard(self, count: int) -> None:
        """Bytes that nobody will read. Past the limit the connection ends, also within an answer: not to read on would
        be not to notice that the caller has gone."""
        self._discarded += count
        if self._discarded > self._limits.linger_bytes:
            self._lose()

    # Time.

    def _watch_writing(self) -> None:
        self._alarm.by(self._loop.time() + self._limits.write_stall_s / _STALL_LOOKS)

    def wake(self) -> None:
        now = self._loop.time()
        if now >= self._deadline - SLACK_S:
            self._deadline = inf
            self._expire(now)
        waiting = self._transport.get_write_buffer_size()
        under_way = self._under_way()
        if self._stall.lasts_s(self._sent + (under_way or 0), waiting, now) >= (self._limits.write_stall_s - SLACK_S):
            self._lose()
            return
        if waiting or under_way is not None:
            self._watch_writing()
        self._alarm.by(self._deadline)

    # The end.

    def _linger(self) -> None:
        """End our side and wait for the other, lest a reset destroy the answer before it is read."""
        if not self._transport.can_write_eof():  # TLS has a farewell of its own
            self._close()
            return
        self._phase = Phase.LINGERING
        self._deadline = self._loop.time() + self._limits.linger_s
        self._read_on(True)
        self._transport.write_eof()
        self._alarm.by(self._deadline)

    def _close(self) -> None:
        """What waits is still delivered, if the other side takes it."""
        self._phase = Phase.CLOSED
        self._deadline = inf
        self._transport.close()
        self._watch_writing()

    def _lose(self) -> None:
        """At once, whatever waits."""
        self._phase = Phase.CLOSED
        self._deadline = inf
        self._transport.abort()
        self._lost()
