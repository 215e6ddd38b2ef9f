"""The caller's side of an attempt: where the bytes of an answer go out, are kept back, or end.

It knows the response and nothing of the upstream. Paused, it keeps what it is given, the head
included, and writes it in one go when it is resumed; who gives is told to stop meanwhile, so that
what is kept stays small. Closed, it takes everything and writes nothing: the caller has gone, or an
error is answered elsewhere. `timeline` has when its pieces went out. `write` is called for every chunk.

    OPEN <-> PAUSED        OPEN, PAUSED -> ENDED: all was written        OPEN, PAUSED -> CLOSED: nothing more will be
"""

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
        "_kept",
        "_pauses",
        "_response",
        "bytes_out",
        "output",
        "spoke_at",
        "timeline",
        "wrote_at",
    )

    def __init__(self, response: Response, headers: Headers, *, is_stream: bool, now: float) -> None:
        self.wrote_at = self.spoke_at = now
        """A piece of the answer, and a sign of life in place of one."""
        self.timeline: Timeline | None = None
        self.bytes_out = 0
        self.output = _OPEN
        """Looked at for every chunk, in the place of all that keeps it from being written."""
        self._response = response
        self._headers = headers
        self._is_stream = is_stream
        self._pauses = 0
        self._kept: list[bytes] = []

    @property
    def kept_bytes(self) -> int:
        return sum(map(len, self._kept))

    def write(self, out: bytes, now: float) -> bool:
        """True: give no more for now."""
        if self.output is not _OPEN:
            return self._keep(out)
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
        """The head, and the first piece with it or after it."""
        if self._response.started:
            self._response.write(out)
        else:
            self._response.start(200, self._headers, out)
        if out:
            self.timeline = timeline_from(now)

    def keep_alive(self, comment: bytes, now: float) -> bool:
        """What is no piece of the answer, within one that has begun. True: give no more for now."""
        if self.output is not _OPEN:
            return self._keep(comment)
        self.spoke_at = now
        self.bytes_out += len(comment)
        self._response.write(comment)
        return self._response.full

    def finish(self, out: bytes, now: float) -> None:
        """The last of it, behind what was kept: of a whole answer, all."""
        response, last = self._response, b"".join([*self.take(), out])
        self.wrote_at = now
        self.bytes_out += len(last)
        if not self._is_stream:
            response.send(Answer(status=200, headers=JSON + self._headers, body=last))
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
        """True: now, and not already before. Paused twice, it must be resumed twice."""
        self._pauses += 1
        if self.output is not _OPEN:
            return False
        self.output = _PAUSED
        return True

    def may_resume(self) -> bool:
        """It is to be resumed. True: it may be now, by `take` or `finish`."""
        self._pauses = max(self._pauses - 1, 0)
        return self.output is _PAUSED and not self._pauses

    def take(self) -> list[bytes]:
        """What was kept. It is open again."""
        kept, self._kept = self._kept, []
        self.output, self._pauses = _OPEN, 0
        return kept

    def drop(self) -> None:
        """What was kept will never be written."""
        self._kept.clear()

    def close(self) -> None:
        """Nothing is written any more, and what was kept will never be."""
        self._kept.clear()
        if self.output is not Output.ENDED:
            self.output = Output.CLOSED

    def _keep(self, out: bytes) -> bool:
        if self.output is not _PAUSED:
            return False
        self._kept.append(out)  # an empty one too: the head is due
        return True
