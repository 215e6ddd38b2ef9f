"""The tap of Anthropic's Messages wire: passes frames on unchanged, including those of unknown types.

The callers use this wire themselves, so only the gateway's own promises are checked: the stop reason waits for
`message_stop`, and an answer that breaks off ends with an error. A stream of this wire is never translated in
mid-stream: a frame that cannot be passed on (`failure`) ends it. The data for accounting goes into the meter's record.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import DecodeError
from msgspec.json import Decoder

from streamweir.core.errors import StreamweirError, UpstreamError
from streamweir.core.events import FinishReason, StreamFailed
from streamweir.core.usage import has_invalid_count
from streamweir.pipeline.meter import Record, note
from streamweir.pipeline.usage_cost import (
    body_with_price,
    frame_with_price,
    frame_without_cost,
    has_usage,
    settled_price,
)
from streamweir.providers.anthropic.decode import AnthropicDecoder
from streamweir.providers.anthropic.error import error_in
from streamweir.providers.anthropic.frame import StreamEvent, decode_stream_event
from streamweir.providers.anthropic.usage import CORE, UsageFold
from streamweir.providers.base import invalid_frame, truncated
from streamweir.providers.blocks import NO_INDEX
from streamweir.providers.failure import error_in_dataless_block
from streamweir.providers.members import object_of, text_of
from streamweir.wire import jsonio
from streamweir.wire.messages import STOP_REASONS
from streamweir.wire.sse import Frame

_decode = Decoder(StreamEvent).decode
"""For text only: it checks neither types nor depth of other members."""
_ENDS = {b"message_stop": "message_stop", b"error": "error"}
"""The `event` lines by which a client recognises an end, and the types that belong to them."""
MAX_END_BYTES = 1024 * 1024
"""The size of the frames from the stop reason on, which wait for `message_stop`. Normally it is some hundred bytes."""


class MessagesTap:
    """See `pipeline.native.Tap`."""

    has_finished = False  # message_stop is required
    next_number = 0

    held: list[tuple[Frame, bytes]] = []  # noqa: RUF012 (never filled: what was not sent is never sent)

    def __init__(self, record: Record, _include_usage: bool = True, _choices: int | None = None) -> None:
        self.record = record
        self.ended = False
        self.has_reasoned = False
        self.failure: StreamweirError | None = None
        self._usage = UsageFold()
        self._start: Frame | None = None
        self._finish: Frame | None = None  # the frame with the stop reason
        self._end_frames: list[Frame] = []  # from the stop reason on; sent with message_stop
        self._end_bytes = 0
        self._reason = ""
        self._foreign: set[int] = set()  # indexes of blocks that are not the model's own output
        self._has_blocks = False
        self._has_first = False  # usage was reported at the start of the answer
        self._wants_last = False  # content followed, and no further report
        self._deliver = record.delivered.write

    def feed(self, frame: Frame, /) -> bytes | None:
        data, raw = frame.data, frame.raw
        if not raw.isascii() and not _is_utf8(raw):  # clients fail on any line that is not UTF-8
            return None if self.ended else self._fail(invalid_frame())
        if data is None or self.ended:
            return self._feed_dataless(frame)
        try:
            event = _decode(data)
        except (DecodeError, RecursionError):
            return self._feed_any(frame, data)
        delta = event.delta
        if (
            delta is not None
            and delta.text
            and delta.type == "text_delta"
            and event.type == "content_block_delta"
            and frame.event not in _ENDS
            and not self._end_frames
        ):  # nearly every frame
            self._has_blocks, self._wants_last = True, self._has_first
            self._deliver(delta.text)
            return raw if frame.terminated else self._fail(truncated())
        return self._feed_any(frame, data)

    def replay_frames(self) -> Iterator[Frame]:
        if self._start is not None:
            yield self._start
        if self._finish is not None:
            yield self._finish

    def _feed_any(self, frame: Frame, data: bytes) -> bytes | None:
        try:
            event = decode_stream_event(data)
        except jsonio.InvalidJson:
            return self._feed_unreadable(frame, data)
        kind = event.type
        if event.error or kind == "error" or (kind is None and frame.event == b"error"):
            self._report(event.usage)
            self.failure = error_in(data)
            return None
        if _ENDS.get(frame.event, kind) != kind:  # a client that reads only the line would take it for the end
            return self._fail(invalid_frame())
        if kind == "message_stop":
            return self._end(frame)
        if not frame.terminated:
            return self._fail(truncated())
        if kind == "content_block_delta":
            self._take_delta(event)
        elif kind == "content_block_start":
            self._has_blocks = True
            self._take_block(event.index, event.content_block or {})
        elif kind == "message_start":
            if not self._take_start(event.message or {}, frame):
                return self._fail(truncated())
            frame = frame_without_cost(frame, "message")
        elif kind == "message_delta":
            self._report(event.usage)
            frame = frame_without_cost(frame)
            if event.delta is not None and event.delta.stop_reason:
                self._reason, self._finish = event.delta.stop_reason, frame
                return self._hold(frame)
        return self._pass(frame)

    def _feed_dataless(self, frame: Frame) -> bytes | None:
        if self.ended:
            return None
        self.failure = error_in_dataless_block(frame.raw)
        if self.failure is not None:
            return None
        return self._pass(frame) if frame.terminated else b""  # the remainder of a frame that was cut

    def _feed_unreadable(self, frame: Frame, data: bytes) -> bytes | None:
        if data.strip() in (b"[DONE]", b""):
            return b""  # not of this wire: clients would try to read it
        return self._fail(invalid_frame() if frame.terminated else truncated())

    def _fail(self, reason: StreamFailed) -> bytes | None:
        self.failure = reason.error
        return None

    def _pass(self, frame: Frame) -> bytes | None:
        """At once; after a stop reason, with the end."""
        return self._hold(frame) if self._end_frames else frame.raw

    def _hold(self, frame: Frame) -> bytes | None:
        self._end_frames.append(frame)
        self._end_bytes += len(frame.raw)
        if self._end_bytes > MAX_END_BYTES:
            self.failure = UpstreamError("response_too_large", "The upstream sent too much after its stop reason.")
            return None
        return b""

    def _take_start(self, message: Mapping[str, Any], frame: Frame) -> bool:
        """False: it is a different message inside this one."""
        record, id = self.record, text_of(message, "id")
        if self._start is not None and self._has_blocks and id != record.completion_id:
            return False
        if self._start is None:
            self._start = frame
            record.completion_id, record.model = id, text_of(message, "model")
            self._reason = text_of(message, "stop_reason") or ""
            content = message.get("content")
            for index, block in enumerate(content if isinstance(content, list) else ()):
                if isinstance(block, dict):
                    self._take_block(index, block)
        self._report(object_of(message, "usage"))
        return True

    def _take_block(self, index: int, block: Mapping[str, Any]) -> None:
        kind = block.get("type")
        if kind == "tool_use":
            self._deliver(text_of(block, "name") or "")
            if block.get("input"):
                self._deliver(jsonio.encode(block["input"]).decode())
        elif kind == "text":
            self._deliver(text_of(block, "text") or "")
        elif kind == "thinking":
            self._note_reasoning(text_of(block, "thinking"))
        elif kind == "redacted_thinking":
            self.has_reasoned = True
        elif index != NO_INDEX:
            self._foreign.add(index)

    def _take_delta(self, event: StreamEvent) -> None:
        self._has_blocks, self._wants_last = True, self._has_first
        delta = event.delta
        if delta is None or event.index in self._foreign:
            return
        if delta.thinking:
            self._note_reasoning(delta.thinking)
        else:
            self._deliver(delta.text or delta.partial_json or "")

    def _note_reasoning(self, text: str | None) -> None:
        if text:
            self.has_reasoned = True
            self.record.reasoning_text.write(text)

    def _report(self, report: Mapping[str, Any] | None) -> None:
        if report is None:
            return
        record, usage = self.record, self._usage.add(report)
        if usage is not None:
            self._has_first, self._wants_last = not self._has_blocks, False
            record.usage, record.is_interim, record.usage_at = usage, False, record.written
        elif has_invalid_count(report, *CORE):
            record.anomaly = True

    def _end(self, frame: Frame) -> bytes:
        record = self.record
        record.finishes[0] = STOP_REASONS.get(self._reason, FinishReason.OTHER)
        if self._wants_last:
            record.anomaly = record.is_interim = True
        self.ended = record.completed = True
        if record.price_of is not None:
            self._show_price()
        held = b"".join([each.raw for each in self._end_frames])
        self._end_frames.clear()
        return held + (frame.raw if frame.terminated else frame.raw.rstrip(b"\r\n") + b"\n\n")

    def _show_price(self) -> None:
        """In the last usage."""
        frames = self._end_frames
        at = next((at for at in reversed(range(len(frames))) if has_usage(frames[at])), None)
        if at is not None:
            frames[at] = frame_with_price(frames[at], settled_price(self.record))


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def take_message(body: bytes, record: Record, _choices: int | None = None) -> bytes | None:
    """The body of a whole message, unchanged; its data is written to the record. None: it is not a message."""
    try:
        value = jsonio.decode(body)
    except jsonio.InvalidJson:
        return None
    if not isinstance(value, dict) or value.get("type") != "message" or not isinstance(value.get("content"), list):
        return None
    for each in AnthropicDecoder().read_whole(value):
        note(record, each)
    record.completion_id = text_of(value, "id")
    return body_with_price(body, record)
