"""The caller's side of an attempt: where the bytes of an answer go out, are held back, or end.

It knows the response and nothing of the upstream. Held back, it keeps what it is given, the head
included, and writes it in one go when it is let go on; who gives is told to stop meanwhile, so that
what is kept stays small. Muted, it takes everything and writes nothing: the caller has gone, or has
been told the end. When its pieces went out is kept in a strip. `write` is called for every chunk.
"""

from streamweir.frontends.base import JSON
from streamweir.server.http.message import Answer, Headers, Response
from streamweir.server.telemetry.timeline import SLOTS_PER_S, Timeline, timeline_from


class Downstream:
    __slots__ = (
        "_headers",
        "_is_mute",
        "_is_stream",
        "_kept",
        "_response",
        "bytes_out",
        "is_held",
        "spoke_at",
        "strip",
        "wrote_at",
    )

    def __init__(self, response: Response, headers: Headers, *, is_stream: bool, now: float) -> None:
        self.wrote_at = self.spoke_at = now
        """A piece of the answer, and a sign of life in place of one."""
        self.strip: Timeline | None = None
        self.bytes_out = 0
        self.is_held = False
        self._response = response
        self._headers = headers
        self._is_stream = is_stream
        self._is_mute = not is_stream
        """Looked at for every chunk, in the place of all that keeps it from being written."""
        self._kept: list[bytes] = []

    @property
    def kept_bytes(self) -> int:
        return sum(map(len, self._kept))

    def write(self, out: bytes, now: float) -> bool:
        """True: give no more for now."""
        if self._is_mute:
            return self._keep(out)
        self.wrote_at = now
        self.bytes_out += len(out)
        response, strip = self._response, self.strip
        if strip is not None:
            response.write(out)
            try:
                strip.counts[int((now - strip.start_s) * SLOTS_PER_S) >> strip.folds] += 1
            except (IndexError, OverflowError):
                strip.add(now)
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
            self.strip = timeline_from(now)

    def keep_alive(self, comment: bytes, now: float) -> bool:
        """What is no piece of the answer, within one that has begun. True: give no more for now."""
        if self._is_mute:
            return self._keep(comment)
        self.spoke_at = now
        self.bytes_out += len(comment)
        self._response.write(comment)
        return self._response.full

    def finish(self, out: bytes, now: float) -> None:
        """The last of it: of a whole answer, all."""
        response, last = self._response, b"".join([*self.take(), out])
        self.wrote_at = now
        self.bytes_out += len(last)
        if not self._is_stream:
            response.send(Answer(status=200, headers=JSON + self._headers, body=last))
            return
        if last and self.strip is not None:
            self.strip.add(now)
        elif last:
            self.strip = timeline_from(now)
        if response.started:
            response.end(last)
        else:
            response.start(200, self._headers, last)
            response.end()

    def pause_output(self) -> None:
        self.is_held = self._is_mute = True

    def take(self) -> list[bytes]:
        """What was kept. It is not held back any more."""
        kept, self._kept = self._kept, []
        self.is_held, self._is_mute = False, not self._is_stream
        return kept

    def drop(self) -> None:
        """What was kept will never be written."""
        self._kept.clear()

    def mute(self) -> None:
        """Nothing is written any more, and what was kept will never be."""
        self._kept.clear()
        self.is_held, self._is_mute = False, True

    def _keep(self, out: bytes) -> bool:
        if self.is_held and self._is_stream:
            self._kept.append(out)  # an empty one too: the head is due
        return self.is_held
