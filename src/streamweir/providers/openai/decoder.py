"""OpenAI-style frames to events.

The one decoder for all OpenAI-style vendors: a difference between them is either tolerated from all of them or a field
of the vendor's row. Its rules, in addition to those of `core.events`:

- choices and calls are identified by their index, never by their position in a list;
- a finish is held until a later frame shows that no content of that choice follows, and the last one until the end: so
  late content is not lost, a repeated finish is one event, and an answer whose stream fails has no finish;
- the end is `[DONE]`, or a clean end of the body after every choice has finished. A choice without a finish makes the
  stream truncated, and so does a requested choice that is missing. A choice that was not requested ends the stream;
- a finish is inferred in one case: at `[DONE]`, if the usage was reported behind the last content, or if the vendor
  sends no finish reasons; and if no call is cut (docs/spec/quirks.md Q41).

The decoder does not depend on the dialect that is written from its events, and does not guess anything else.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from streamweir.core.errors import StreamweirError, UpstreamError
from streamweir.core.events import (
    Event,
    Extra,
    FinishReason,
    LogprobsDelta,
    ReasoningDelta,
    RefusalDelta,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    StreamTagged,
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
    UsageDiscarded,
    UsageReported,
)
from streamweir.core.usage import Usage, has_invalid_count
from streamweir.providers.base import documents_in, invalid_frame, missing_choices, too_many_choices, truncated
from streamweir.providers.failure import ErrorDetails, classify, error_in_dataless_block
from streamweir.providers.openai.choice import ChoiceState
from streamweir.providers.openai.chunk import Choice, Chunk, decode_chunk
from streamweir.providers.openai.finish import failure_of, read_finish
from streamweir.providers.openai.usage import CORE, read_usage
from streamweir.wire import jsonio
from streamweir.wire.sse import Frame

_STREAM_EXTRAS = ("citations", "search_results", "prompt_filter_results", "moderation")
_CONTENT = (TextDelta, ReasoningDelta, RefusalDelta, ToolCallStarted, ToolCallDelta)
_CONTENT_EXTRAS = {"audio", "images"}


class OpenAIDecoder:
    """See `providers.base.Decoder`."""

    decode_chunk: Callable[[bytes], Chunk] = staticmethod(decode_chunk)
    """Bytes to a chunk."""

    def __init__(
        self, sends_finish: bool = True, choices: int | None = None, names_stop_sequence: bool = False
    ) -> None:
        self.lacks_terminator = False
        self._requested = choices
        self._sends_finish = sends_finish
        self._names_stop_sequence = names_stop_sequence
        self._ended = False
        self._saw_data = False
        self._identity: StreamStarted | None = StreamStarted()  # None once it was sent
        self._fingerprint: str | None | UnsetType = UNSET
        self._tier: str | None | UnsetType = UNSET
        self._choices: dict[int, ChoiceState] = {}
        self._held: list[ChoiceState] = []  # choices that have finished, with their finish not sent yet
        self._usage: Usage | None = None
        self._is_reported = False  # the frame that is read has a valid report of usage
        self._is_reported_early = False  # content came with a report or behind one: it may be an interim report
        self._is_reported_last = False  # the last report came behind the last content
        self._extras: dict[str, Any] = {}  # as last sent
        self._early: list[Event] = []  # extras that arrived before the stream had an id

    @property
    def may_end_when_idle(self) -> bool:
        """Every choice has finished, although the finish events may not be sent yet (docs/spec/quirks.md Q16)."""
        return self._has_all_choices and all(state.finish is not None for state in self._choices.values())

    @property
    def _has_all_choices(self) -> bool:
        """Every requested choice has started."""
        return len(self._choices) >= (self._requested or 1)

    def feed(self, frame: Frame, /) -> Sequence[Event]:
        if self._ended:
            return ()
        data = frame.data
        if data is None:
            return self._read_dataless(frame)
        if frame.event and frame.event == b"error":
            return self._read_error_event(data)
        try:
            chunk = self.decode_chunk(data)
        except jsonio.InvalidJson:
            return self._read_unreadable(frame, data)
        if self._identity is not None:
            return self._read_early(chunk, self._identity)
        return self._read(chunk)

    def finish(self) -> Sequence[Event]:
        if self._ended:
            return ()
        if not self._saw_data:
            return self.fail(UpstreamError("upstream_empty_response", "The upstream's answer is empty."))
        events = self._end()
        self.lacks_terminator = isinstance(events[-1], StreamCompleted)
        return events

    def fail(self, error: StreamweirError, /) -> Sequence[Event]:
        return () if self._ended else self._fail([], StreamFailed(error))

    def read_whole(self, chunk: Chunk) -> Sequence[Event]:
        """An answer that was not streamed. It is complete by itself, so a finish reason may be missing."""
        for choice in chunk.choices or ():
            # quirk: an empty delta beside the message (fixture perplexity/whole_with_empty_delta).
            choice.delta = choice.message or choice.delta
        events = [*self._read_early(chunk, self._identity or StreamStarted())]
        if self._ended:
            return events
        if self._requested is not None and not self._has_all_choices:
            return [*events, *self._fail([], missing_choices(len(self._choices), self._requested))]
        for state in self._choices.values():
            if state.finish is None:
                if self._sends_finish:
                    state.hold(FinishReason.OTHER, "")
                else:
                    state.hold_default_finish(is_inferred=False)
                self._held = [*self._held, state]
        return [*events, *self._end(is_done=True)]

    def _read(self, chunk: Chunk) -> list[Event]:
        """The hot path: one frame, usually one choice with one piece of text."""
        events: list[Event] = []
        if chunk.system_fingerprint != self._fingerprint or chunk.service_tier != self._tier:
            self._tag(chunk, events)
        choices = chunk.choices
        if choices is None or chunk.error or chunk.x_groq is not None:
            error = error_in(chunk)
            if error is not None:
                return self._read_failure(chunk, events, StreamFailed(error))
            choices = choices or []
        held = self._held  # from earlier frames: `_read_choice` makes a new list
        for choice in choices:
            delta = choice.delta
            state = self._choices.get(choice.index)
            if (
                state is None
                or delta is None
                or delta.tool_calls
                or delta.reasoning_content
                or delta.reasoning
                or delta.reasoning_details
                or delta.refusal
                or delta.function_call is not None
                or delta.annotations
                or delta.images
                or delta.audio
                or delta.reasoning_encrypted
                or choice.finish_reason
                or choice.logprobs is not state.logprobs
                or choice.content_filter_results
                or choice.usage
                or choice.error
                or state.finish is not None
                or delta.content.__class__ is list
            ):
                failure = self._read_choice(choice, state, events)
                if failure is not None:
                    return self._read_failure(chunk, events, failure)
            elif delta.content:
                events.append(TextDelta(choice.index, delta.content))  # type: ignore[arg-type]  # no list: see above
        if held:
            self._release(held, events)
        if chunk.usage is not None or chunk.x_groq is not None:
            self._report(chunk, events)
        if chunk.citations or chunk.search_results or chunk.prompt_filter_results or chunk.moderation:
            self._add_extras(chunk, events)
        if self._usage is not None:
            self._place_report(chunk, events)
        return events

    def _read_choice(self, choice: Choice, state: ChoiceState | None, events: list[Event]) -> StreamFailed | None:
        """A choice that is new, or has more than plain text."""
        delta = choice.delta
        if state is None:
            if self._requested is not None and choice.index >= self._requested:
                return too_many_choices(self._requested)
            state = self._choices[choice.index] = ChoiceState(choice.index)
            # quirk: a whole answer instead of a stream (fixture openai-compatible/whole_message_in_a_frame).
            delta = delta or choice.message
        if delta is not None:
            if choice.logprobs is not state.logprobs and not state.closed:
                state.logprobs = choice.logprobs
                events.append(LogprobsDelta(choice.index, choice.logprobs))
            if not state.read_delta(delta, events):
                return invalid_frame()
        if choice.content_filter_results:
            state.add_extra("content_filter_results", choice.content_filter_results, events)
        if choice.usage:
            self._report_usage(choice.usage, events)
        if choice.error:
            return StreamFailed(classify(ErrorDetails(choice.error)))
        finish_reason = choice.finish_reason
        if finish_reason:
            error = failure_of(finish_reason)
            if error is not None:
                return StreamFailed(error)
            if state.finish is None:
                self._held = [*self._held, state]
            stop_reason = choice.stop_reason if self._names_stop_sequence else None
            stop_sequence = stop_reason if stop_reason.__class__ is str and stop_reason else None
            state.hold(read_finish(finish_reason), finish_reason, stop_sequence)
        return None

    def _read_early(self, chunk: Chunk, known: StreamStarted) -> list[Event]:
        """A frame before the stream has started; the first event that cannot wait starts it.

        quirk: Azure's first frame has neither id nor model, but has filter results, which wait for
        the next frame (fixture azure/prompt_filter_first).
        """
        self._saw_data = True
        self._fingerprint = _newest(chunk.system_fingerprint, known.system_fingerprint)
        self._tier = _newest(chunk.service_tier, known.service_tier)
        self._identity = StreamStarted(
            known.id or chunk.id or None,
            known.model or chunk.model or None,
            known.created or chunk.created or None,
            self._fingerprint,
            self._tier,
        )
        events = self._read(chunk)
        if not self._ended and all(_may_wait(event) for event in events):
            self._early += events
            return []
        return self._started(events)

    def _started(self, events: list[Event]) -> list[Event]:
        """The events, after the start event if that was not sent yet. A failure without usage needs no start."""
        identity = self._identity
        is_failure = bool(events) and isinstance(events[0], StreamFailed)
        if identity is None or (is_failure and self._usage is None):
            return events
        self._identity = None
        return [identity, *self._early, *events]

    def _read_error_event(self, data: bytes) -> list[Event]:
        """quirk: an error that is marked only by the name of its event (fixture groq/error_event)."""
        try:
            value = jsonio.decode(data)
        except jsonio.InvalidJson:
            value = None
        events: list[Event] = []
        if isinstance(value, Mapping):
            self._report_usage(value.get("usage"), events)
        return self._fail(events, StreamFailed(classify(ErrorDetails(value))))

    def _read_dataless(self, frame: Frame) -> Sequence[Event]:
        error = error_in_dataless_block(frame.raw)
        if error is not None:
            return self.fail(error)
        if not frame.terminated and not frame.raw.startswith(b":"):
            return self._fail([], truncated())  # part of a line: the body was cut (docs/spec/failures.md U17)
        return ()

    def _read_unreadable(self, frame: Frame, data: bytes) -> list[Event]:
        documents = documents_in(frame)
        if documents:
            return [event for document in documents for event in self.feed(document)]
        data = data.strip()
        if not data and frame.terminated:  # a keep-alive of some servers
            return []
        if data == b"[DONE]":
            return self._end(is_done=True)
        return self._fail([], invalid_frame() if frame.terminated else truncated())

    def _read_failure(self, chunk: Chunk, events: list[Event], failure: StreamFailed) -> list[Event]:
        """The stream ends here; usage in the same frame is reported first."""
        self._report(chunk, events)
        return self._fail(events, failure)

    def _fail(self, events: list[Event], failure: StreamFailed) -> list[Event]:
        self._ended = True
        return self._started([*events, failure])

    def _release(self, held: list[ChoiceState], events: list[Event]) -> None:
        """Sends the finishes of earlier frames whose choices have no content in this one.

        When no choice is open any more they wait for the end of the stream: if it fails, the answer has not finished.
        They are sent before this frame's events, but after what was carried beside the choice itself
        (fixture azure/choice_without_delta).
        """
        if self.may_end_when_idle:
            return
        finishes: list[Event] = []
        for state in held:
            if state.has_new_content:
                state.has_new_content = False
            else:
                carried = any(isinstance(event, Extra) and event.choice == state.index for event in events)
                state.close(events if carried else finishes)
        events[:0] = finishes
        self._held = [state for state in self._held if not state.closed]

    def _tag(self, chunk: Chunk, events: list[Event]) -> None:
        fingerprint, tier = chunk.system_fingerprint, chunk.service_tier
        if fingerprint == self._fingerprint:
            fingerprint = UNSET
        if tier == self._tier:
            tier = UNSET
        if fingerprint is UNSET and tier is UNSET:
            return
        self._fingerprint = _newest(fingerprint, self._fingerprint)
        self._tier = _newest(tier, self._tier)
        events.append(StreamTagged(fingerprint, tier))

    def _report(self, chunk: Chunk, events: list[Event]) -> None:
        if not self._report_usage(chunk.usage, events) and chunk.x_groq is not None:
            self._report_usage(chunk.x_groq.get("usage"), events)

    def _report_usage(self, report: object, events: list[Event]) -> bool:
        """Whether there was a valid report. An event is added if it differs from the last one."""
        if not isinstance(report, Mapping):
            return False
        usage = read_usage(report)
        if usage is None:
            if has_invalid_count(report, *CORE):
                events.append(UsageDiscarded())
        elif usage != self._usage:
            self._usage = usage
            events.append(UsageReported(usage))
        self._is_reported = self._is_reported or usage is not None
        return usage is not None

    def _place_report(self, chunk: Chunk, events: list[Event]) -> None:
        """Notes whether the last report came behind the last content. If others came before, it is one without choices:
        some vendors report with every frame, also with those that have no content."""
        if any(_is_content(event) for event in events):
            self._is_reported_early, self._is_reported_last = True, False
        elif self._is_reported:
            self._is_reported_last = not self._is_reported_early or not chunk.choices
        self._is_reported = False

    def _add_extras(self, chunk: Chunk, events: list[Event]) -> None:
        """quirk: Perplexity repeats its citations on each frame (fixture perplexity/citations_on_every_frame)."""
        fields: dict[str, Any] = {}
        for name in _STREAM_EXTRAS:
            value = getattr(chunk, name)
            if value and self._extras.get(name) != value:
                fields[name] = self._extras[name] = value
        if fields:
            events.append(Extra(None, fields))

    def _end(self, is_done: bool = False) -> list[Event]:
        """`[DONE]`, or the end of the body."""
        self._ended = True
        unfinished = [state for state in self._choices.values() if state.finish is None]
        if unfinished and is_done and self._may_infer(unfinished):
            # quirk: no finish reason in the whole stream (fixture snowflake/no_finish_reason), or of the first choice
            # alone (fixture litellm-proxy/finish_of_the_first_choice_alone).
            for state in unfinished:
                state.hold_default_finish(is_inferred=True)
            self._held = [*self._held, *unfinished]
            unfinished = []
        if unfinished or not self._has_all_choices:
            return self._fail([], truncated())
        events: list[Event] = []
        for state in self._held:
            state.close(events)
        return self._started([*events, StreamCompleted()])

    def _may_infer(self, unfinished: list[ChoiceState]) -> bool:
        """Whether the answer is complete although these choices have no finish.

        Proxies write `[DONE]` behind a cut, too. A report of usage behind the content shows that the model has stopped.
        """
        if self._sends_finish:
            is_empty = self._identity is not None  # no choice has any content
            if not self._is_reported_last or (is_empty and not (self._usage and self._usage.completion_tokens)):
                return False
        return all(state.has_only_whole_calls for state in unfinished)


def _is_content(event: Event) -> bool:
    return isinstance(event, _CONTENT) or (isinstance(event, Extra) and not _CONTENT_EXTRAS.isdisjoint(event.fields))


def _may_wait(event: Event) -> bool:
    """Whether it does not belong to a choice: a better id, model or time can still arrive before one does."""
    return isinstance(event, UsageReported | UsageDiscarded) or (isinstance(event, Extra) and event.choice is None)


def _newest(value: str | None | UnsetType, before: str | None | UnsetType) -> str | None | UnsetType:
    return before if value is UNSET else value


def error_in(chunk: Chunk) -> StreamweirError | None:
    """The error in a frame or a whole answer, beside or instead of its choices."""
    if chunk.error:
        return classify(ErrorDetails({"error": chunk.error}))
    if chunk.x_groq is not None and chunk.x_groq.get("error"):
        return classify(ErrorDetails(chunk.x_groq))
    if chunk.choices is None and chunk.message:
        # quirk: the document itself is the error (fixture vllm/error_object).
        return classify(ErrorDetails({"code": chunk.code, "type": chunk.type, "message": chunk.message}))
    return None
