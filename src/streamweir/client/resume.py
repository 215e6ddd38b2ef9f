"""How far a resumable stream was read, and when its client comes back. Pure: random values are arguments.

The gateway names a stream that can be resumed (`x-streamweir-stream`). After a lost connection its client asks for what
came behind the last event that it has read whole, so the part of an event that arrived is dropped: it comes again. The
pieces are passed on as whole events, and together they are one body, as if no connection had been lost.
"""

import re
from collections.abc import Callable

from msgspec import Struct

from streamweir.wire.sse import Splitter

_STREAM_ID = re.compile(r"[A-Za-z0-9_-]{1,128}\Z")


class Resume(Struct, frozen=True, kw_only=True):
    """How a client comes back. What happened before counts no more when an event has arrived."""

    most: int = 10
    """Maximum number of attempts without a new event."""
    base_s: float = 0.25
    """The maximum pause before the first attempt; it doubles with each."""
    cap_s: float = 8.0
    silence_s: float | None = 30.0
    """A connection on which not even a keep-alive arrives for this long is given up."""


class Resumption:
    """One stream that can be resumed. `random` returns numbers from 0 to 1."""

    def __init__(self, stream_id: str, resume: Resume, max_event_bytes: int, random: Callable[[], float]) -> None:
        self.stream_id = stream_id
        self.events = 0
        """How many were read whole."""
        self.silence_s = resume.silence_s
        self._resume = resume
        self._random = random
        self._max_event_bytes = max_event_bytes
        self._attempts = 0
        self._events_at_attempt = 0
        self._splitter = Splitter(max_event_bytes)

    def feed(self, data: bytes) -> bytes:
        """The events that are whole with this piece. Raises `EventTooLarge`, after which nothing can be resumed."""
        frames = self._splitter.feed(data)
        self.events += sum(frame.data is not None for frame in frames)
        return b"".join([frame.raw for frame in frames])

    def rest(self) -> bytes:
        """The event that did not end, when nobody comes back."""
        return b"".join([frame.raw for frame in self._splitter.finish()])

    def pause_s(self) -> float | None:
        """How long to wait before the next attempt. None: there is no further one."""
        if self.events != self._events_at_attempt:
            self._events_at_attempt = self.events
            self._attempts = 0
        if self._attempts >= self._resume.most:
            return None
        max_pause_s = min(self._resume.cap_s, self._resume.base_s * 2.0 ** min(self._attempts, 30))
        self._attempts += 1
        return self._random() * max_pause_s

    def resumed(self) -> None:
        """A new connection: what had arrived of an event comes again."""
        self._splitter = Splitter(self._max_event_bytes)


def is_stream_id(text: str) -> bool:
    """It becomes a part of a URL."""
    return _STREAM_ID.match(text) is not None
