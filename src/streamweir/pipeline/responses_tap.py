"""The tap of OpenAI's Responses wire: passes frames on unchanged, including those of unknown types.

The callers use this wire themselves, so only two rules are checked: the answer ends with its terminal
frame, and an answer that is cut ends with an error. A stream of this wire is never translated in mid-stream: a
frame that cannot be passed on (`failure`) ends it. An error of the provider is one of these: its text may name the
account. The provider's decoder reads every frame, so that the data for accounting is that of a translated answer.
"""

from collections.abc import Iterator

from msgspec import DecodeError, Struct
from msgspec.json import Decoder

from streamweir.core.errors import StreamweirError
from streamweir.core.events import ReasoningDelta, StreamCompleted, StreamFailed, StreamStarted
from streamweir.pipeline.meter import Record, note
from streamweir.pipeline.usage_cost import body_with_price, frame_with_price, settled_price
from streamweir.providers.base import invalid_frame, truncated
from streamweir.providers.failure import error_in_dataless_block
from streamweir.providers.responses.decode import ENDS, ResponsesDecoder, decode_whole
from streamweir.providers.responses.frame import StreamEvent, decode_stream_event
from streamweir.wire import jsonio
from streamweir.wire.sse import Frame

_decode = Decoder(StreamEvent).decode
"""For text only: it checks neither types nor depth of other members."""


class _Numbered(Struct):
    sequence_number: object = None


_decode_number = Decoder(_Numbered).decode
_END_LINES = {kind.encode(): kind for kind in (*ENDS, "error")}
"""The `event` lines by which a client can recognise an end, and the types that belong to them."""


class ResponsesTap:
    """See `pipeline.native.Tap`."""

    def __init__(self, record: Record, _include_usage: bool = True, _choices: int | None = None) -> None:
        self.record = record
        self.ended = False
        self.has_reasoned = False
        self.failure: StreamweirError | None = None
        self.held: list[tuple[Frame, bytes]] = []
        self._decoder = ResponsesDecoder()
        self._items = self._decoder.items
        self._start: Frame | None = None
        self._last: bytes | None = None  # the document of the last frame that was passed on
        self._deliver = record.delivered.write

    @property
    def has_finished(self) -> bool:
        """The answer has failed, and its usage may be missing."""
        return self._decoder.may_end_when_idle

    @property
    def next_number(self) -> int:
        """The `sequence_number` of the frame after the last one that was passed on. 0: there is none."""
        if self._last is None:
            return 0
        number = _number_in(self._last)
        return number + 1 if isinstance(number, int) and number >= 0 else 1  # some providers do not number them

    def feed(self, frame: Frame, /) -> bytes | None:
        data, raw = frame.data, frame.raw
        if not raw.isascii() and not _is_utf8(raw):  # no line of it, or a client fails
            return None if self.ended else self._fail(invalid_frame())
        if data is None or self.ended:
            return self._feed_dataless(frame)
        try:
            event = _decode(data)
        except (DecodeError, RecursionError):
            return self._feed_any(frame, data)
        delta, items = event.delta, self._items
        if (
            delta
            and event.output_index == items.text_index
            and event.content_index == items.text_part
            and event.type == "response.output_text.delta"
            and frame.event not in _END_LINES
        ):  # nearly every frame
            items.text_length += len(delta)
            self._deliver(delta)
            if not frame.terminated:
                return self._fail(truncated())
            self._last = data
            return raw
        return self._feed_any(frame, data)

    def replay_frames(self) -> Iterator[Frame]:
        if self._start is not None:
            yield self._start

    def _feed_any(self, frame: Frame, data: bytes) -> bytes | None:
        try:
            event = decode_stream_event(data)
        except jsonio.InvalidJson:
            if data.strip() in (b"[DONE]", b""):
                return b""  # not of this wire: clients would try to read it
            return self._fail(invalid_frame() if frame.terminated else truncated())
        if (
            _END_LINES.get(frame.event, event.type) != event.type
        ):  # a client that reads only this line treats it as the end
            return self._fail(invalid_frame())
        start = self._start
        for each in self._decoder.read(event, frame):
            kind = type(each)
            if kind is StreamFailed:
                return self._fail(each)  # type: ignore[arg-type]
            note(self.record, each)
            if kind is StreamStarted:
                start = frame
                self.record.completion_id = each.id  # type: ignore[attr-defined]
            elif kind is ReasoningDelta:
                self.has_reasoned = True
            elif kind is StreamCompleted:
                self.ended = True
                frame = frame_with_price(frame, settled_price(self.record), "response")
                return frame.raw if frame.terminated else frame.raw.rstrip(b"\r\n") + b"\n\n"
        self._start = start  # of a frame that did not end the answer: it may be read again
        if self.has_finished:
            self.held = [(frame, b"")]
            return b""
        if not frame.terminated:
            return self._fail(truncated())
        self._last = data
        return frame.raw

    def _feed_dataless(self, frame: Frame) -> bytes | None:
        if self.ended:
            return None
        self.failure = error_in_dataless_block(frame.raw)
        if self.failure is not None:
            return None
        if frame.event:  # clients would try to read its data, or treat the line as the end
            return b""
        return frame.raw if frame.terminated and not self.has_finished else b""  # the rest of a frame that was cut

    def _fail(self, reason: StreamFailed) -> bytes | None:
        self.failure = reason.error
        return None


def _number_in(data: bytes) -> object:
    """Of a frame that was passed on: its other members may be nested deeper than is read."""
    try:
        return _decode_number(data).sequence_number
    except (DecodeError, RecursionError):
        return None


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def take_response(body: bytes, record: Record, _choices: int | None = None) -> bytes | None:
    """The body of a whole response unchanged; its data is written to the record. None: it is not one, or failed."""
    events = decode_whole(body)
    if type(events[-1]) is not StreamCompleted:
        return None
    for each in events:
        note(record, each)
        if type(each) is StreamStarted:
            record.completion_id = each.id
    return body_with_price(body, record)
