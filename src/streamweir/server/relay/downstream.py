"""The caller's side of an attempt: writes the bytes of an answer, or keeps them while output is paused.

It knows the response and nothing of the upstream. While paused, it keeps the pieces, including the head, and writes all
of them when it is resumed. `write` returns True then, so that the upstream is paused and few bytes are kept. When
closed, it ignores all pieces: the caller has gone, or an error is answered elsewhere. `timeline` records when pieces
were written. `write` is called for every chunk.

    OPEN <-> PAUSED        OPEN, PAUSED -> ENDED: all was written        OPEN, PAUSED -> CLOSED: nothing more will be
"""

from collections.abc import Callable
from enum import Enum, auto

from streamweir.frontends.base import JSON
from streamweir.server.http.message import Answer, Headers, Response
from streamweir.server.telemetry.timeline import SLOTS_PER_S, Timeline, timeline_from


class Output(Enum):
    OPEN = auto()
    PAUSED = auto()
    CLOSED = auto()
    ENDED = auto()


_OPEN, _PAUSED = Output.OPEN, Output.PAUSED


class Downstream:
    __slots__ = (
        "_headers",
        "_is_stream",
        "_more_headers",
        "_pauses",
        "_pending",
        "_response",
        "bytes_out",
        "kept_alive_at",
        "output",
        "timeline",
        "wrote_at",
    )

    def __init__(
        self,
        response: Response,
        headers: Headers,
        more_headers: Callable[[], Headers] | None = None,
        *,
        is_stream: bool,
        now: float,
    ) -> None:
        """`more_headers`: of a whole answer, those that are known at its end."""
        self.wrote_at = self.kept_alive_at = now
        """When a piece of the answer, and a keep-alive comment, was last written."""
        self.timeline: Timeline | None = None
        self.bytes_out = 0
        self.output = _OPEN
        """The one condition that is checked for every chunk."""
        self._response = response
        self._headers = headers
        self._more_headers = more_headers
        self._is_stream = is_stream
        self._pauses = 0
        self._pending: list[bytes] = []

    @property
    def pending_bytes(self) -> int:
        return sum(map(len, self._pending))

    def write(self, out: bytes, now: float) -> bool:
        """True: pause the upstream."""
        if self.output is not _OPEN:
            return self._add_pending(out)
        self.wrote_at = now
        self.bytes_out += len(out)
        response, timeline = self._response, self.timeline
        if timeline is not None:
            response.write(out)
            try:
                timeline.counts[int((now - timeline.start_s) * SLOTS_PER_S) >> timeline.folds] += 1
            except (IndexError, OverflowError):
                timeline.add(now)
        else:
            self._write_first(out, now)
        return response.full

    def _write_first(self, out: bytes, now: float) -> None:
        """Writes the head, and the first piece with it or after it."""
        if self._response.started:
            self._response.write(out)
        else:
            self._response.start(200, self._headers, out)
        if out:
            self.timeline = timeline_from(now)

    def keep_alive(self, comment: bytes, now: float) -> bool:
        """Writes a comment into an answer that has begun. True: pause the upstream."""
        if self.output is not _OPEN:
            return self._add_pending(comment)
        self.kept_alive_at = now
        self.bytes_out += len(comment)
        self._response.write(comment)
        return self._response.full

    def finish(self, out: bytes, now: float) -> None:
        """Writes what was kept, then the last bytes. A whole answer is written here only."""
        response, kept = self._response, self.take()
        last = b"".join([*kept, out]) if kept else out
        self.wrote_at = now
        self.bytes_out += len(last)
        if not self._is_stream:
            more = self._more_headers() if self._more_headers is not None else ()
            response.send(Answer(status=200, headers=JSON + self._headers + more, body=last))
            self.output = Output.ENDED
            return
        if last and self.timeline is not None:
            self.timeline.add(now)
        elif last:
            self.timeline = timeline_from(now)
        if response.started:
            response.end(last)
        else:
            response.start(200, self._headers, last)
            response.end()
        self.output = Output.ENDED

    def pause(self) -> bool:
        """True: output was open before. Paused twice, it must be resumed twice."""
        self._pauses += 1
        if self.output is not _OPEN:
            return False
        self.output = _PAUSED
        return True

    def may_resume(self) -> bool:
        """Counts one resume. True: call `take` or `finish` now."""
        self._pauses = max(self._pauses - 1, 0)
        return self.output is _PAUSED and not self._pauses

    def take(self) -> list[bytes]:
        """Opens output again, and returns what was kept."""
        pending, self._pending = self._pending, []
        self.output, self._pauses = _OPEN, 0
        return pending

    def drop(self) -> None:
        """Discards what was kept."""
        self._pending.clear()

    def close(self) -> None:
        """Nothing more is written. Discards what was kept."""
        self._pending.clear()
        if self.output is not Output.ENDED:
            self.output = Output.CLOSED

    def _add_pending(self, out: bytes) -> bool:
        if self.output is not _PAUSED:
            return False
        self._pending.append(out)  # also an empty piece: the head must be written
        return True
