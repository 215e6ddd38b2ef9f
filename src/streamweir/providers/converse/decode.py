"""Converse frames to events.

A message is a sequence of content blocks. The name of a frame says which event it is; failures are frames, too. The
stop reason comes before the usage, and nothing marks the end: the answer is complete if the body ends cleanly after
messageStop, and truncated if it ends before. So the choice is finished at the end of the body. An answer whose stop
reason says that the model's output was unusable is a failure, but its usage counts.

Calls are numbered here. A call without arguments gets `{}` when its block ends, not before (docs/spec/quirks.md Q35).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from streamweir.core.errors import StreamweirError, UpstreamError
from streamweir.core.events import (
    ChoiceFinished,
    Event,
    FinishReason,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    StreamTagged,
    TextDelta,
    UsageDiscarded,
    UsageReported,
)
from streamweir.core.usage import has_invalid_count
from streamweir.providers.base import invalid_frame, truncated
from streamweir.providers.bedrock.error import read_exception
from streamweir.providers.converse.block import BlockTable
from streamweir.providers.converse.frame import StreamEvent, decode_stream_event
from streamweir.providers.converse.usage import CORE, usage_of
from streamweir.providers.members import object_of, objects_in, text_of
from streamweir.wire import jsonio
from streamweir.wire.amazon import ERROR, EXCEPTION
from streamweir.wire.sse import Frame

STOP_REASONS = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_use": FinishReason.TOOL_CALLS,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "guardrail_intervened": FinishReason.CONTENT_FILTER,
    "content_filtered": FinishReason.CONTENT_FILTER,
    "refusal": FinishReason.CONTENT_FILTER,
}
_UNUSABLE = ("malformed_model_output", "malformed_tool_use")


class ConverseDecoder:
    """See `providers.base.Decoder`."""

    lacks_terminator = False  # this protocol has none

    __slots__ = ("_blocks", "_ended", "_reason", "_repeats_cached_input", "_sequence", "_started")

    def __init__(self, *, repeats_cached_input: bool = False) -> None:
        """`repeats_cached_input`: of streams; see `converse.usage`."""
        self._blocks = BlockTable()
        self._repeats_cached_input = repeats_cached_input
        self._started = False
        self._reason: str | None = None
        self._sequence: str | None = None
        self._ended = False

    @property
    def may_end_when_idle(self) -> bool:
        return self._reason is not None

    def feed(self, frame: Frame, /) -> Sequence[Event]:
        data = frame.data
        if self._ended:
            return ()
        if data is None:
            # No event, or what the end of the body cut off: then also an answer that had stopped has no clean end.
            return () if frame.terminated else self._end(truncated())
        name = frame.event
        if name[:1] == b":":
            return self._read_failure(name, data)
        try:
            stream_event = decode_stream_event(data)
        except jsonio.InvalidJson:
            return self._end(invalid_frame() if frame.terminated else truncated())
        delta = stream_event.delta
        if name == b"contentBlockDelta":
            # The hot path: only a block that has sent text before has this index.
            if delta is not None and delta.text and stream_event.content_block_index == self._blocks.text_index:
                return [TextDelta(0, delta.text)]
            events = self._open()
            if delta is not None:
                self._blocks.add(stream_event.content_block_index, delta, events)
            return events
        return self._read(name, stream_event)

    def finish(self) -> Sequence[Event]:
        if self._ended:
            return ()
        if self._reason is None:
            return self._end(truncated())
        return self._finish(self._reason)

    def fail(self, error: StreamweirError, /) -> Sequence[Event]:
        return () if self._ended else self._end(StreamFailed(error))

    def read_whole(self, answer: Mapping[str, Any], message: Mapping[str, Any]) -> Sequence[Event]:
        """An answer that was not streamed. It is complete by itself, so a stop reason may be missing."""
        events = self._open()
        for block in objects_in(message, "content"):
            self._blocks.read_whole(block, events)
        self._note_fields(object_of(answer, "additionalModelResponseFields"))
        self._report(object_of(answer, "usage"), object_of(answer, "serviceTier"), events)
        events += self._finish(text_of(answer, "stopReason") or "")
        return events

    def _read(self, name: bytes, stream_event: StreamEvent) -> Sequence[Event]:
        index = stream_event.content_block_index
        if name == b"contentBlockStart":
            events = self._open()
            self._blocks.start(index, stream_event.start or {}, events)
        elif name == b"contentBlockStop":
            events = self._open()
            self._blocks.stop(index, events)
        elif name == b"messageStart":
            if self._started and not self._blocks.is_empty:
                return self._end(truncated())  # another message begins inside this one
            events = self._open()
        elif name == b"messageStop":
            events = self._open()
            self._reason = stream_event.stop_reason or ""
            self._note_fields(stream_event.additional_model_response_fields)
        elif name == b"metadata":
            events = self._open()
            self._report(stream_event.usage, stream_event.service_tier, events)
        else:  # types that are not known here
            return ()
        return events

    def _read_failure(self, name: bytes, data: bytes) -> Sequence[Event]:
        if not name.startswith((EXCEPTION, ERROR)):
            return ()
        return self._end(StreamFailed(read_exception(name.partition(b"/")[2].decode("utf-8", "replace"), data)))

    def _note_fields(self, fields: Mapping[str, Any] | None) -> None:
        if fields is not None:
            self._sequence = text_of(fields, "stop_sequence")

    def _report(self, report: Mapping[str, Any] | None, tier: Mapping[str, Any] | None, events: list[Event]) -> None:
        if tier is not None and text_of(tier, "type"):
            events.append(StreamTagged(service_tier=text_of(tier, "type")))
        if report is None:
            return
        usage = usage_of(report, repeats_cached_input=self._repeats_cached_input)
        if usage is not None:
            events.append(UsageReported(usage))
        elif has_invalid_count(report, *CORE):
            events.append(UsageDiscarded())

    def _finish(self, reason: str) -> list[Event]:
        events: list[Event] = []
        if reason in _UNUSABLE:
            message = "The model wrote an answer that cannot be read."
            events += self._end(StreamFailed(UpstreamError("upstream_server_error", message)))
            return events
        self._blocks.close(events)
        events.append(ChoiceFinished(0, STOP_REASONS.get(reason, FinishReason.OTHER), reason, self._sequence))
        events += self._end(StreamCompleted())
        return events

    def _open(self) -> list[Event]:
        """The event list of a frame: begins with StreamStarted, once. Id and model are not on this wire."""
        if self._started:
            return []
        self._started = True
        return [StreamStarted()]

    def _end(self, terminal: Event) -> list[Event]:
        self._ended = True
        return [terminal]


def decode_whole(body: bytes) -> Sequence[Event]:
    try:
        value = jsonio.decode(body)
    except jsonio.InvalidJson:
        value = None
    if isinstance(value, dict):
        message = object_of(object_of(value, "output") or {}, "message")
        if message is not None:
            return ConverseDecoder().read_whole(value, message)
        if any(name in value for name in ("message", "Message", "__type")):
            return [StreamFailed(read_exception(text_of(value, "__type") or "", body))]
    return [StreamFailed(UpstreamError("upstream_bad_response", "The upstream's answer cannot be read."))]
