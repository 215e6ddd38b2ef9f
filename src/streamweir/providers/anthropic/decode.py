"""Anthropic frames to events.

A message is a sequence of content blocks, each with a start, deltas and a stop. Text, thinking and the caller's tool
calls become events. What Anthropic runs itself (server tools and their results, MCP, compaction, fallback) and block
types that are not known here are not part of the answer: they are skipped, and never become a tool call of the caller.
The type of a frame is read from its JSON; the `event` line is used only if the JSON has no type.

The answer is complete only after message_stop: without it, it is truncated. The stop reason arrives before message_stop
and is held until then, so that a truncated answer never has a finish. Calls are numbered here. A call without arguments
gets `{}` when its block ends, not before (docs/spec/quirks.md Q35). The decoder does not depend on the dialect that is
written from its events.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from streamweir.core.errors import StreamweirError, UpstreamError
from streamweir.core.events import (
    ChoiceFinished,
    Event,
    FinishReason,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    TextDelta,
    UsageDiscarded,
    UsageReported,
)
from streamweir.core.usage import has_invalid_count
from streamweir.providers.anthropic.block import BlockTable
from streamweir.providers.anthropic.error import error_in
from streamweir.providers.anthropic.frame import StreamEvent, decode_stream_event
from streamweir.providers.anthropic.usage import CORE, UsageFold
from streamweir.providers.base import documents_in, invalid_frame, truncated
from streamweir.providers.failure import ErrorDetails, classify, error_in_dataless_block
from streamweir.providers.members import object_of, text_of
from streamweir.wire import jsonio
from streamweir.wire.messages import STOP_REASONS
from streamweir.wire.sse import Frame


class AnthropicDecoder:
    """See `providers.base.Decoder`."""

    may_end_when_idle = False  # message_stop is required
    lacks_terminator = False
    stop_reasons: ClassVar[Mapping[str, FinishReason]] = STOP_REASONS
    """A cloud that serves Claude has further ones."""
    marker: ClassVar[bytes] = b""
    """A member that a cloud adds to some events: `_note_marked` gets each event that contains its name. Empty: none."""

    __slots__ = (
        "_blocks",
        "_ended",
        "_has_first",
        "_identity",
        "_reason",
        "_sequence",
        "_started",
        "_usage",
        "_wants_last",
    )

    def __init__(self) -> None:
        self._blocks = BlockTable()
        self._usage = UsageFold()
        self._started = False
        self._identity: str | None = None
        self._reason = ""
        self._sequence: str | None = None
        self._ended = False
        self._has_first = False  # usage was reported at the start of the answer
        self._wants_last = False  # content followed, and no further report

    def feed(self, frame: Frame, /) -> Sequence[Event]:
        data = frame.data
        if data is None:
            return self._read_dataless(frame)
        if self.marker and self.marker in data:
            self._note_marked(data)
        try:
            stream_event = decode_stream_event(data)
        except jsonio.InvalidJson:
            return self._read_unreadable(frame, data)
        delta = stream_event.delta
        # The hot path: only a block that has sent text before has this index.
        if (
            delta is not None
            and stream_event.index == self._blocks.text_index
            and delta.type == "text_delta"
            and delta.text
            and not self._ended
        ):
            return [TextDelta(0, delta.text)]
        return self._read(stream_event, frame)

    def finish(self) -> Sequence[Event]:
        return self._end(truncated())

    def fail(self, error: StreamweirError, /) -> Sequence[Event]:
        return self._end(StreamFailed(error))

    def read_whole(self, message: Mapping[str, Any]) -> Sequence[Event]:
        """An answer that was not streamed. It is complete by itself, so a stop reason may be missing."""
        return [*self._read_start(message), *self._read_stop()]

    def _note_marked(self, data: bytes) -> None:
        """`data` may also have the marker in a text."""

    def _read(self, stream_event: StreamEvent, frame: Frame) -> Sequence[Event]:
        if self._ended:
            return ()
        kind = stream_event.type
        if stream_event.error or kind == "error" or (kind is None and frame.event == b"error"):
            return self._read_error(stream_event, frame)
        if kind == "content_block_delta":
            events = self._open()
            self._wants_last = self._has_first
            if stream_event.delta is not None:
                self._blocks.add(stream_event.index, stream_event.delta, events)
            return events
        if kind == "content_block_start":
            events = self._open()
            self._blocks.start(stream_event.index, stream_event.content_block or {}, events)
            return events
        if kind == "content_block_stop":
            events = self._open()
            self._blocks.stop(stream_event.index, events)
            return events
        if kind == "message_start":
            return self._read_start(stream_event.message or {})
        if kind == "message_delta":
            return self._read_message_delta(stream_event)
        if kind == "message_stop":
            return self._read_stop()
        return ()  # ping, and types that are not known here

    def _read_start(self, message: Mapping[str, Any]) -> list[Event]:
        identity = text_of(message, "id") or None
        if self._started:
            return self._read_second_start(message, identity)
        self._identity = identity
        self._started = True
        events: list[Event] = [StreamStarted(id=identity, model=text_of(message, "model") or None)]
        self._report(object_of(message, "usage"), events)
        self._reason = text_of(message, "stop_reason") or ""
        self._sequence = text_of(message, "stop_sequence")
        # quirk: message_start contains content, or all of it
        # (fixture anthropic/content_in_message_start).
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            if isinstance(block, dict):
                self._blocks.start(index, block, events)
                self._blocks.stop(index, events)
        return events

    def _read_second_start(self, message: Mapping[str, Any], identity: str | None) -> list[Event]:
        # quirk: proxies repeat message_start (fixture anthropic/message_start_twice). A different message that starts
        # inside this one is not part of it (fixture anthropic/another_message_spliced_in).
        if self._blocks.is_empty or identity == self._identity:
            events: list[Event] = []
            self._report(object_of(message, "usage"), events)
            return events
        return self._end(truncated())

    def _read_message_delta(self, stream_event: StreamEvent) -> list[Event]:
        events = self._open()
        self._report(stream_event.usage, events)
        if stream_event.delta is not None and stream_event.delta.stop_reason:
            self._reason, self._sequence = stream_event.delta.stop_reason, stream_event.delta.stop_sequence
        return events

    def _read_stop(self) -> list[Event]:
        events = self._open()
        self._blocks.close(events)
        if self._wants_last:
            events.append(UsageDiscarded(is_final=True))
        events.append(
            ChoiceFinished(0, self.stop_reasons.get(self._reason, FinishReason.OTHER), self._reason, self._sequence)
        )
        events += self._end(StreamCompleted())
        return events

    def _read_error(self, stream_event: StreamEvent, frame: Frame) -> list[Event]:
        events: list[Event] = []
        if self._started:
            self._report(stream_event.usage, events)
        events += self._end(StreamFailed(error_in(frame.data or b"")))
        return events

    def _read_dataless(self, frame: Frame) -> list[Event]:
        error = error_in_dataless_block(frame.raw)
        return [] if error is None else self._end(StreamFailed(error))

    def _read_unreadable(self, frame: Frame, data: bytes) -> list[Event]:
        documents = documents_in(frame)
        if documents:
            return [event for document in documents for event in self.feed(document)]
        if frame.event == b"error":
            return self._end(StreamFailed(classify(ErrorDetails(data.decode("utf-8", "replace")))))
        # quirk: a [DONE] that Anthropic itself does not send (fixture anthropic/stray_done). `finish` reports what
        # the end of the body cut off.
        if not frame.terminated or data.strip() in (b"[DONE]", b""):
            return []
        return self._end(invalid_frame())

    def _open(self) -> list[Event]:
        """The event list of a frame: starts with StreamStarted if message_start was missing."""
        if self._started:
            return []
        self._started = True
        return [StreamStarted()]

    def _report(self, report: Mapping[str, Any] | None, events: list[Event]) -> None:
        if report is None:
            return
        usage = self._usage.add(report)
        if usage is not None:
            self._has_first, self._wants_last = self._blocks.is_empty, False
            events.append(UsageReported(usage))
        elif has_invalid_count(report, *CORE):
            events.append(UsageDiscarded())

    def _end(self, terminal: Event) -> list[Event]:
        if self._ended:
            return []
        self._ended = True
        return [terminal]


def decode_whole(body: bytes, make_decoder: Callable[[], AnthropicDecoder] = AnthropicDecoder) -> Sequence[Event]:
    try:
        value = jsonio.decode(body)
    except jsonio.InvalidJson:
        value = None
    if isinstance(value, dict):
        if value.get("type") == "error" or value.get("error"):
            return [StreamFailed(error_in(body))]
        if isinstance(value.get("content"), list):
            return make_decoder().read_whole(value)
    return [StreamFailed(UpstreamError("upstream_bad_response", "The upstream's answer cannot be read."))]
