"""The caller's side of an attempt: where the bytes of an answer go out, are held back, or end.

It knows the response and nothing of the upstream. Held back, it keeps what it is given, the head
included, and writes it in one go when it is let go on; who gives is told to stop meanwhile, so that
what is kept stays small. Muted, it takes everything and writes nothing: the caller has gone, or has
been told the end. `write` is called for every chunk.
"""

from streamweir.server import respond
from streamweir.server.message import Answer, Headers, Response


class Outlet:
    __slots__ = ("_headers", "_is_mute", "_is_stream", "_kept", "_response", "bytes_out", "is_held", "wrote_at")

    def __init__(self, response: Response, headers: Headers, *, is_stream: bool, now: float) -> None:
        self.wrote_at = now
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
        response = self._response
        if response.started:
            response.write(out)
        else:
            response.start(200, self._headers, out)
        return response.full

    def finish(self, out: bytes, now: float) -> None:
        """The last of it: of a whole answer, all."""
        response, last = self._response, b"".join([*self.take(), out])
        self.wrote_at = now
        self.bytes_out += len(last)
        if not self._is_stream:
            response.send(Answer(status=200, headers=respond.JSON + self._headers, body=last))
        elif response.started:
            response.end(last)
        else:
            response.start(200, self._headers, last)
            response.end()

    def hold_back(self) -> None:
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
