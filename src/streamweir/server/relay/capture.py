"""The content of requests whose keys store it: prompt, answer, and the bytes in both directions with their times.

A capture is bounded: it keeps the beginning of each direction, and whether there was more. No piece is split, because
half a secret would not be recognised when it is redacted (`store.requests.content`). A capture belongs to one request
and includes all of its attempts. Requests without one have a plain `Relay`, at no cost. Of binary frames the text in
them is kept: in base64 no secret would be recognised.
"""

from codecs import getincrementaldecoder

from streamweir.providers.base import framing_of, max_event_bytes
from streamweir.server.relay.downstream import Downstream, Output
from streamweir.server.relay.relay import AttemptParts, Relay
from streamweir.store.requests.content import MAX_BYTES, Content
from streamweir.wire.amazon import readable
from streamweir.wire.body import BodyFormat, BodySplitter, Framing
from streamweir.wire.sse import SplitError

_FRAME_BYTES = 100
"""Memory that a frame needs besides its bytes."""


class TimedBytes:
    """Pieces of bytes with their times, up to a size."""

    __slots__ = ("_pieces", "_remaining", "is_cut")

    def __init__(self, max_bytes: int) -> None:
        self.is_cut = False
        self._remaining = max_bytes
        self._pieces: list[tuple[float, bytes]] = []

    def add(self, data: bytes, now: float) -> None:
        if self.is_cut or not data:
            return
        self._remaining -= _FRAME_BYTES + len(data)
        if self._remaining < 0:
            self.is_cut = True
        else:
            self._pieces.append((now, data))

    @property
    def size(self) -> int:
        return sum(_FRAME_BYTES + len(data) for _, data in self._pieces)

    def frames(self, since_s: float) -> list[tuple[int, str]]:
        """Texts with milliseconds since `since_s`. A character that was split between two pieces is in the second."""
        decode = getincrementaldecoder("utf-8")("replace").decode
        return [(round((at - since_s) * 1000), decode(data)) for at, data in self._pieces]


class Capture:
    def __init__(self, prompt: bytes, arrived_s: float, max_bytes: int = MAX_BYTES) -> None:
        """`prompt`: the request's body. `arrived_s`: its arrival by the loop's clock. `max_bytes`: per direction."""
        self._prompt = prompt
        self._arrived_s = arrived_s
        self.upstream = TimedBytes(max_bytes)
        self.caller = TimedBytes(max_bytes)

    @property
    def size(self) -> int:
        return len(self._prompt) + self.upstream.size + self.caller.size

    def content(self, request_id: str, workspace_id: str, key_id: str, at_ms: int, answer: str) -> Content:
        """`answer`: the text that was delivered. Call it in a thread: it may decode megabytes."""
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
    __slots__ = ("_timed_bytes",)

    def __init__(self, timed_bytes: TimedBytes, parts: AttemptParts, *, is_stream: bool, now: float) -> None:
        super().__init__(parts.response, parts.headers, parts.more_headers, is_stream=is_stream, now=now)
        self._timed_bytes = timed_bytes

    def write(self, out: bytes, now: float) -> bool:
        if self.output is Output.OPEN:
            self._timed_bytes.add(out, now)
        return super().write(out, now)

    def keep_alive(self, comment: bytes, now: float) -> bool:
        if self.output is Output.OPEN:
            self._timed_bytes.add(comment, now)
        return super().keep_alive(comment, now)

    def finish(self, out: bytes, now: float) -> None:
        last = b"".join([*self.take(), out])
        self._timed_bytes.add(last, now)
        super().finish(last, now)


class CapturedRelay(Relay):
    __slots__ = ("_capture", "_splitter")

    def __init__(self, capture: Capture, parts: AttemptParts) -> None:
        super().__init__(parts)
        self._capture = capture
        framing = framing_of(parts.provider)
        self._splitter = (
            BodySplitter(max_event_bytes(parts.provider), framing=framing) if framing is not Framing.TEXT else None
        )
        is_stream = self._stream is not None
        self._downstream = CapturedDownstream(capture.caller, parts, is_stream=is_stream, now=self._read_at)
        self._write_out = self._downstream.write

    @property
    def memory_bytes(self) -> int:
        return super().memory_bytes + self._capture.size

    def body_received(self, data: bytes, /) -> None:
        text = data if self._splitter is None else _text_of(self._splitter, data)
        self._capture.upstream.add(text, self._time())
        super().body_received(data)


def _text_of(splitter: BodySplitter, data: bytes) -> bytes:
    """What is in the frames that these bytes complete; of a whole document the bytes."""
    try:
        frames = splitter.feed(data)
    except SplitError as reason:
        frames = reason.frames
    return data if splitter.format is BodyFormat.WHOLE else b"".join([readable(frame) for frame in frames])
