"""The content of requests whose keys store it: prompt, answer, and the bytes in both directions with their times.

A recording is bounded: of each direction the beginning is kept, and of the rest only that there was more. Nothing is
cut in two, because half a secret would not be recognised when it is redacted (`store.requests.content`). It belongs
to one request and includes all of its attempts. Requests that are not recorded pay nothing: they have a plain
`Relay`.
"""

from codecs import getincrementaldecoder

from streamweir.server.http.message import Headers, Response
from streamweir.server.relay.downstream import Downstream, Output
from streamweir.server.relay.relay import AttemptParts, Relay
from streamweir.store.requests.content import MOST_BYTES, Content

_FRAME_BYTES = 100
"""What a frame takes besides its own."""


class TimedBytes:
    """Pieces of bytes with their times, up to a size."""

    __slots__ = ("_left", "_pieces", "is_cut")

    def __init__(self, most_bytes: int) -> None:
        self.is_cut = False
        self._left = most_bytes
        self._pieces: list[tuple[float, bytes]] = []

    def add(self, data: bytes, now: float) -> None:
        if self.is_cut or not data:
            return
        self._left -= _FRAME_BYTES + len(data)
        if self._left < 0:
            self.is_cut = True
        else:
            self._pieces.append((now, data))

    @property
    def size(self) -> int:
        return sum(_FRAME_BYTES + len(data) for _, data in self._pieces)

    def frames(self, since_s: float) -> list[tuple[int, str]]:
        """As text, in milliseconds since then. A character that was cut in two is whole in the second piece."""
        decode = getincrementaldecoder("utf-8")("replace").decode
        return [(round((at - since_s) * 1000), decode(data)) for at, data in self._pieces]


class Capture:
    def __init__(self, prompt: bytes, arrived_s: float, most_bytes: int = MOST_BYTES) -> None:
        """`prompt` is the request's body; `arrived_s` the loop's time when it had come. `most_bytes`: each way."""
        self._prompt = prompt
        self._arrived_s = arrived_s
        self.upstream = TimedBytes(most_bytes)
        self.caller = TimedBytes(most_bytes)

    @property
    def size(self) -> int:
        return len(self._prompt) + self.upstream.size + self.caller.size

    def content(self, request_id: str, workspace_id: str, key_id: str, at_ms: int, answer: str) -> Content:
        """`answer` is the text that was delivered. For a thread: it may be megabytes that are decoded here."""
        return Content(
            request_id=request_id,
            workspace_id=workspace_id,
            key_id=key_id,
            at_ms=at_ms,
            prompt=self._prompt.decode(errors="replace"),
            answer=answer,
            upstream_frames=self.upstream.frames(self._arrived_s),
            caller_frames=self.caller.frames(self._arrived_s),
            is_cut=self.upstream.is_cut or self.caller.is_cut,
        )


class CapturedDownstream(Downstream):
    __slots__ = ("_tape",)

    def __init__(self, tape: TimedBytes, response: Response, headers: Headers, *, is_stream: bool, now: float) -> None:
        super().__init__(response, headers, is_stream=is_stream, now=now)
        self._tape = tape

    def write(self, out: bytes, now: float) -> bool:
        if self.output is Output.OPEN:
            self._tape.add(out, now)
        return super().write(out, now)

    def keep_alive(self, comment: bytes, now: float) -> bool:
        if self.output is Output.OPEN:
            self._tape.add(comment, now)
        return super().keep_alive(comment, now)

    def finish(self, out: bytes, now: float) -> None:
        last = b"".join([*self.take(), out])
        self._tape.add(last, now)
        super().finish(last, now)


class CapturedRelay(Relay):
    __slots__ = ("_recording",)

    def __init__(self, recording: Capture, parts: AttemptParts) -> None:
        super().__init__(parts)
        self._recording = recording
        self._downstream = CapturedDownstream(
            recording.caller, parts.response, parts.headers, is_stream=self._stream is not None, now=self._read_at
        )
        self._write_out = self._downstream.write

    @property
    def held_bytes(self) -> int:
        return super().held_bytes + self._recording.size

    def body_received(self, data: bytes, /) -> None:
        self._recording.upstream.add(data, self._time())
        super().body_received(data)
