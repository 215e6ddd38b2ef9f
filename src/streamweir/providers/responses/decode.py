"""Frames of the Responses wire to events.

A response is a list of output items, each with a start, pieces and an end (`item.py`). Messages, reasoning and the
caller's calls become events; tools that the provider runs itself do not. The type of a frame is read from its
JSON, because some providers send no `event` lines. `output` of the last frame is not read: it may be empty.

The terminal condition is `response.completed`, `.incomplete` or `.failed`, or an `error` frame: anything else is
truncated. An `error` frame decides, but its usage comes in the `response.failed` that may follow it, so the failure is
held until then. The decoder does not depend on the frontend.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET, UnsetType

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
from streamweir.core.usage import has_invalid_count, token_count
from streamweir.providers.base import documents_in, invalid_frame, truncated
from streamweir.providers.failure import ErrorDetails, classify, error_in_dataless_block
from streamweir.providers.members import object_of, objects_in, text_of
from streamweir.providers.responses.error import error_in, error_of
from streamweir.providers.responses.frame import StreamEvent, decode_stream_event
from streamweir.providers.responses.item import MAX_PARTS, ItemTable
from streamweir.providers.responses.usage import CORE, read_usage
from streamweir.wire import jsonio
from streamweir.wire.responses import INCOMPLETE_REASONS, REASONING_FORMAT
from streamweir.wire.sse import Frame

PREFIX = "response."
ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_STATUSES = {end: end.removeprefix(PREFIX) for end in ENDS}
_ANNOTATIONS = ("output_text.annotation.added", "output_text_annotation.added")
"""quirk: the second is the older name (fixture openai-responses/annotations)."""


class ResponsesDecoder:
    """See `providers.base.Decoder`."""

    lacks_terminator = False

    __slots__ = ("_ended", "_failure", "_started", "_tier", "items")

    def __init__(self, reasoning_format: str = REASONING_FORMAT) -> None:
        self.items = ItemTable(reasoning_format)
        """The item whose text is being sent is also kept here: nearly every frame is a piece of that text."""
        self._started = False
        self._tier: str | UnsetType = UNSET
        self._failure: StreamweirError | None = None
        self._ended = False

    @property
    def may_end_when_idle(self) -> bool:
        """The answer has failed, and its usage may be missing."""
        return self._failure is not None

    def feed(self, frame: Frame, /) -> Sequence[Event]:
        data = frame.data
        if data is None:
            return self._read_dataless(frame)
        try:
            event = decode_stream_event(data)
        except jsonio.InvalidJson:
            return self._read_unreadable(frame, data)
        items = self.items
        # The hot path. Only an item that has sent text before has this index.
        if (
            event.delta
            and event.output_index == items.text_index
            and event.content_index == items.text_part
            and event.type == "response.output_text.delta"
            and not event.logprobs
        ):
            items.text_length += len(event.delta)
            return [TextDelta(0, event.delta)]
        return self.read(event, frame)

    def finish(self) -> Sequence[Event]:
        return self._end(truncated() if self._failure is None else StreamFailed(self._failure))

    def fail(self, error: StreamweirError, /) -> Sequence[Event]:
        return self._end(StreamFailed(self._failure or error))

    def read_whole(self, response: Mapping[str, Any]) -> Sequence[Event]:
        """An answer that was not streamed."""
        events = self._start(response)
        for index, item in enumerate(objects_in(response, "output")):
            self.items.end(index, item, events)
        events += self._read_end(response, text_of(response, "status") or "completed")
        return events

    def read(self, event: StreamEvent, frame: Frame) -> Sequence[Event]:
        if self._ended:
            return ()
        kind = event.type or ""
        if self._failure is not None or kind == "error" or (event.error and not kind.startswith(PREFIX)):
            return self._read_error(event, kind, frame)
        if kind in _STATUSES:
            return self._read_end(event.response_members, _STATUSES[kind])
        if kind == "response.created":
            return self._read_created(event.response_members)
        name = kind.removeprefix(PREFIX)
        if name == kind:
            return ()  # keepalive, and types that are not known
        if name.endswith(".delta"):
            events = self._open()
            self.items.add(event, name, events)
        elif name == "output_item.added":
            events = self._open()
            self.items.start(event.output_index, event.item or {}, events)
        elif name == "output_item.done":
            events = self._open()
            self.items.end(event.output_index, event.item or {}, events)
        elif name in _ANNOTATIONS:
            events = self._open()
            self.items.annotate(event.output_index, event.annotation or {}, events)
        elif name.endswith(".done"):
            events = self._open()
            self.items.complete(event, name, events)
        else:
            return ()
        if self.items.parts > MAX_PARTS:
            error = UpstreamError("response_too_large", "The answer has too many items.")
            return self._end(StreamFailed(error))
        return events

    def _read_created(self, response: Mapping[str, Any]) -> list[Event]:
        if not self._started:
            return self._start(response)
        # Another answer that begins in the midst of this one is not a part of it (fixture
        # openai-responses/another_answer_spliced_in). Ids are not compared: Copilot's differ in every frame.
        return [] if self.items.is_empty else self._end(truncated())

    def _start(self, response: Mapping[str, Any]) -> list[Event]:
        self._started = True
        self.items.declare(response.get("tools"))
        tier = text_of(response, "service_tier")
        self._tier = tier if tier else UNSET
        return [
            StreamStarted(
                id=text_of(response, "id") or None,
                model=text_of(response, "model") or None,
                created=token_count(response.get("created_at")) or None,
                service_tier=self._tier,
            )
        ]

    def _read_end(self, response: Mapping[str, Any], status: str) -> list[Event]:
        events = self._start(response) if not self._started and response else self._open()
        tier = text_of(response, "service_tier")
        if tier and tier != self._tier:
            events.append(StreamTagged(service_tier=tier))
        self._report(object_of(response, "usage"), events)
        reported = text_of(response, "status") or status
        reason = text_of(object_of(response, "incomplete_details") or {}, "reason") or ""
        if "failed" in (status, reported) or response.get("error"):
            error = error_of({"error": response.get("error")})
            return [*events, *self._end(StreamFailed(error))]
        if "incomplete" in (status, reported):
            finish, raw = INCOMPLETE_REASONS.get(reason, FinishReason.OTHER), reason or "incomplete"
        elif status == "completed" and reported == "completed":
            self.items.close(events)
            if self.items.has_lost_call:
                return [*events, *self._end(invalid_frame())]
            finish = FinishReason.TOOL_CALLS if self.items.has_calls else FinishReason.STOP
            raw = reported
        else:  # cancelled, or (only in a whole body) still in progress
            return [*events, *self._end(truncated())]
        return [*events, ChoiceFinished(0, finish, raw), *self._end(StreamCompleted())]

    def _read_error(self, event: StreamEvent, kind: str, frame: Frame) -> list[Event]:
        """The first error decides; of what follows it, only the usage counts."""
        events: list[Event] = []
        self.items.leave_text()
        if self._failure is None:
            self._failure = error_in(frame.data or b"")
            return events
        if kind in _STATUSES and self._started:
            self._report(object_of(event.response_members, "usage"), events)
        return [*events, *self._end(StreamFailed(self._failure))]

    def _read_dataless(self, frame: Frame) -> list[Event]:
        error = error_in_dataless_block(frame.raw)
        return [] if error is None else self._end(StreamFailed(self._failure or error))

    def _read_unreadable(self, frame: Frame, data: bytes) -> list[Event]:
        documents = documents_in(frame)
        if documents:
            return [event for document in documents for event in self.feed(document)]
        if self._failure is None and frame.event == b"error":
            return self._end(StreamFailed(classify(ErrorDetails(data.decode("utf-8", "replace")))))
        # quirk: a [DONE] that is not of this wire. `finish` reports an answer that was cut.
        if not frame.terminated or data.strip() in (b"[DONE]", b""):
            return []
        return self._end(invalid_frame() if self._failure is None else StreamFailed(self._failure))

    def _open(self) -> list[Event]:
        """The events of a frame, after StreamStarted if `response.created` is missing."""
        if self._started:
            return []
        self._started = True
        return [StreamStarted()]

    def _report(self, report: Mapping[str, Any] | None, events: list[Event]) -> None:
        if report is None:
            return
        usage = read_usage(report, self.items.searches)
        if usage is not None:
            events.append(UsageReported(usage))
        elif has_invalid_count(report, *CORE):
            events.append(UsageDiscarded(is_final=True))

    def _end(self, terminal: Event) -> list[Event]:
        if self._ended:
            return []
        self._ended = True
        self.items.text_index = None
        return [terminal]


def decode_whole(body: bytes, reasoning_format: str = REASONING_FORMAT) -> Sequence[Event]:
    try:
        value = jsonio.decode(body)
    except jsonio.InvalidJson:
        value = None
    if isinstance(value, dict):
        if isinstance(value.get("output"), list):
            return ResponsesDecoder(reasoning_format).read_whole(value)
        if value.get("error"):
            return [StreamFailed(error_of(value))]
    return [StreamFailed(UpstreamError("upstream_bad_response", "The upstream's answer cannot be read."))]
