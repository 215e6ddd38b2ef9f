"""The encoder of all chat dialects: events in, frames out.

Every difference between dialects is read from the `Dialect` value; nothing here depends on a provider or on the name
of a dialect. It relies on the rules of `core.events`. Every stream ends in one of two ways: finish and terminator, or
error frame and terminator; nothing follows the terminator. Only `wire.jsonio` writes JSON, so no text can forge a
frame.
"""

from collections.abc import Callable, Collection
from typing import Any

from msgspec import UNSET, Struct, UnsetType, field

from streamweir.core.completion import extend_logprobs, join_text
from streamweir.core.events import (
    ChoiceFinished,
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
from streamweir.core.usage import Usage
from streamweir.frontends.base import Reply, with_cost
from streamweir.frontends.chat.dialect import Dialect, UsageRule, call_id, identity_of
from streamweir.frontends.chat.errors import stream_envelope
from streamweir.frontends.chat.usage import usage_object
from streamweir.wire import jsonio, sse

_NONE = -1
_CUT_SHORT = (FinishReason.LENGTH, FinishReason.CONTENT_FILTER)


class _ChunkChoice(Struct, gc=False):
    index: int
    delta: dict[str, Any]
    logprobs: dict[str, Any] | None | UnsetType
    finish_reason: str | None


class _Chunk(Struct, gc=False, kw_only=True):
    """Members in the order of docs/spec/dialects.md A3."""

    id: str
    object: str
    created: int
    model: str
    system_fingerprint: str | None | UnsetType = UNSET
    service_tier: str | None | UnsetType = UNSET
    choices: list[_ChunkChoice]
    usage: dict[str, Any] | None | UnsetType


class _Call(Struct):
    """A tool call whose arguments are collected, for a dialect that sends a call in one frame."""

    index: int
    id: str
    name: str
    arguments: list[str] = field(default_factory=list)
    is_complete: bool = False
    """Its arguments were complete when the next call started."""


class _Choice(Struct):
    chunk_choices: list[_ChunkChoice]
    """The `choices` member of this choice's chunks: one object, reused for each frame."""
    text: dict[str, str]
    """The delta of a piece of text; between two frames it is the delta of `chunk_choices`."""
    null_logprobs: UnsetType | None = UNSET
    """The `logprobs` member of a frame without log probabilities."""
    has_logprobs: bool = False
    """`chunk_choices` has log probabilities, for the next frame only."""
    owns_logprobs: bool = False
    """They were joined here and can be extended in place; otherwise they belong to the event."""
    has_calls: bool = False
    legacy: bool = False
    custom_calls: Collection[int] = ()
    """The ordinals of those that are free-form."""
    calls: list[_Call] = field(default_factory=list)
    processed_calls: int = 0
    """The number of calls, from the first, that were sent or dropped."""
    finish: ChoiceFinished | None = None
    """Held back to the end if its chunk contains the usage."""


class Encoder:
    """Events to frames. One per stream."""

    def __init__(self, dialect: Dialect, reply: Reply) -> None:
        self._dialect = dialect
        self._reply = reply
        self._choices: dict[int, _Choice] = {}
        self._usage: Usage | None = None
        self._extras: dict[str, Any] = {}
        self._chunk = _Chunk(
            **identity_of(StreamStarted(), dialect, reply)._asdict(),
            object=dialect.chunk_object,
            choices=[],
            usage=None if dialect.null_usage and reply.include_usage else UNSET,
        )
        self._ready = _NONE  # the choice for which `_chunk` is prepared: only the text has to be set
        self._text: dict[str, str] = {}  # the delta in which it is set
        self._is_ended = False

    @property
    def completion_id(self) -> str:
        """The id in the chunks."""
        return self._chunk.id

    def feed(self, event: Event, /) -> list[bytes]:
        if type(event) is TextDelta and event.choice == self._ready:  # nearly every event; never after the end
            self._text["content"] = event.text
            return [sse.write_frame(jsonio.encode(self._chunk))]
        if self._is_ended:
            return []
        return _WRITE[type(event)](self, event)

    def begin(self) -> list[bytes]:
        return []

    def finish(self) -> list[bytes]:
        """Nothing: the end of a stream is an event."""
        return []

    def _write_start(self, event: StreamStarted) -> list[bytes]:
        chunk = self._chunk
        chunk.id, chunk.created, chunk.model = identity_of(event, self._dialect, self._reply)
        if self._dialect.labels:
            chunk.system_fingerprint = event.system_fingerprint
            chunk.service_tier = event.service_tier
        return []

    def _write_tags(self, event: StreamTagged) -> list[bytes]:
        if self._dialect.labels:
            if event.system_fingerprint is not UNSET:
                self._chunk.system_fingerprint = event.system_fingerprint
            if event.service_tier is not UNSET:
                self._chunk.service_tier = event.service_tier
        return []

    def _write_text(self, event: TextDelta) -> list[bytes]:
        return self._delta_frames(event.choice, {"content": event.text})

    def _write_refusal(self, event: RefusalDelta) -> list[bytes]:
        member = "refusal" if self._dialect.refusal else "content"
        return self._delta_frames(event.choice, {member: event.text})

    def _write_reasoning(self, event: ReasoningDelta) -> list[bytes]:
        if not self._dialect.reasoning or self._reply.exclude_reasoning:
            return []
        delta: dict[str, Any] = {"reasoning_content": event.text} if event.text else {}
        if event.details and self._dialect.reasoning_details:
            delta["reasoning_details"] = event.details
        return self._delta_frames(event.choice, delta) if delta else []

    def _write_call(self, event: ToolCallStarted) -> list[bytes]:
        dialect = self._dialect
        choice = self._choices.get(event.choice)
        frames = [] if choice is not None else self._open_choice(event.choice)
        choice = self._choices.get(event.choice)
        if choice is None:
            return frames
        choice.has_calls = True
        if event.legacy and dialect.legacy_function_call:
            choice.legacy = True
            frames.append(self._delta_frame(choice, {"function_call": {"name": event.name, "arguments": ""}}))
            return frames
        id = event.id or call_id(self._chunk.id, event.choice, event.call)
        if dialect.whole_tool_calls:
            frames += self._complete_calls(choice)
            choice.calls.append(_Call(event.call, id, event.name))
        elif event.custom and dialect.custom_calls:
            choice.custom_calls = {*choice.custom_calls, event.call}
            opened = {"index": event.call, "id": id, "type": "custom", "custom": {"name": event.name, "input": ""}}
            frames.append(self._delta_frame(choice, {"tool_calls": [opened]}))
        else:
            frames.append(self._delta_frame(choice, {"tool_calls": [_call_object(event.call, id, event.name, "")]}))
        return frames

    def _write_arguments(self, event: ToolCallDelta) -> list[bytes]:
        choice = self._choices.get(event.choice)
        if choice is None:
            return []
        if choice.legacy:
            return [self._delta_frame(choice, {"function_call": {"arguments": event.arguments}})]
        if self._dialect.whole_tool_calls:
            choice.calls[event.call].arguments.append(event.arguments)
            return []
        piece: dict[str, Any] = {"index": event.call, "function": {"arguments": event.arguments}}
        if event.call in choice.custom_calls:
            piece = {"index": event.call, "custom": {"input": event.arguments}}
        return [self._delta_frame(choice, {"tool_calls": [piece]})]

    def _write_logprobs(self, event: LogprobsDelta) -> list[bytes]:
        if not self._dialect.logprobs:
            return []
        frames = [] if event.choice in self._choices else self._open_choice(event.choice, event.logprobs)
        choice = self._choices.get(event.choice)
        if choice is None:
            return frames
        chunk_choice = choice.chunk_choices[0]
        if isinstance(event.logprobs, dict):
            waiting = chunk_choice.logprobs if choice.has_logprobs else None
            if not isinstance(waiting, dict):
                chunk_choice.logprobs = event.logprobs
            else:  # entries without a delta of their own are sent with the next one
                own = waiting if choice.owns_logprobs else extend_logprobs({}, waiting)
                choice.owns_logprobs = True
                chunk_choice.logprobs = extend_logprobs(own, event.logprobs)
            choice.has_logprobs = True
            self._ready = _NONE
        else:
            choice.null_logprobs = event.logprobs
            if not choice.has_logprobs:
                chunk_choice.logprobs = event.logprobs
        return frames

    def _write_finish(self, event: ChoiceFinished) -> list[bytes]:
        frames = [] if event.choice in self._choices else self._open_choice(event.choice)
        choice = self._choices.get(event.choice)
        if choice is None:
            return frames
        frames += self._complete_calls(choice, event)
        if self._dialect.usage is UsageRule.ON_FINISH:
            choice.finish = event
            return frames
        frames.append(self._finish_frame(choice, event))
        return frames

    def _write_usage(self, event: UsageReported) -> list[bytes]:
        self._usage = event.usage
        return []

    def _write_nothing(self, _: UsageDiscarded) -> list[bytes]:
        return []

    def _write_extra(self, event: Extra) -> list[bytes]:
        fields = {name: value for name, value in event.fields.items() if name in self._dialect.extras}
        if not fields:
            return []
        if event.choice is None:
            self._extras.update(fields)
            self._ready = _NONE
            return []
        return self._delta_frames(event.choice, fields)

    def _write_completion(self, _: StreamCompleted) -> list[bytes]:
        frames = []
        requested = self._reply.include_usage
        includes_usage = self._dialect.includes_usage(requested)
        usage: dict[str, Any] | UnsetType = UNSET
        if includes_usage:
            counted = self._usage or self._reply.count_usage()
            usage = with_cost(usage_object(counted, self._dialect), counted, self._reply)
        if self._dialect.usage is UsageRule.ON_FINISH:
            self._chunk.usage = usage
            held = [(choice, choice.finish) for choice in self._choices.values() if choice.finish is not None]
            frames += [self._finish_frame(choice, finish) for choice, finish in held]
        elif includes_usage:
            self._chunk.choices = []
            self._chunk.usage = usage
            frames.append(self._chunk_frame())
        return self._end(frames)

    def _write_failure(self, event: StreamFailed) -> list[bytes]:
        document = stream_envelope(event.error, self._dialect)
        if self._dialect.error_in_chunk:
            chunk = self._chunk
            created = self._reply.now() if self._dialect.created_per_chunk else chunk.created
            head = {"id": chunk.id, "object": chunk.object, "created": created, "model": chunk.model, "choices": []}
            document = {**head, **document}
        return self._end([sse.write_frame(jsonio.encode(document))])

    def _end(self, frames: list[bytes]) -> list[bytes]:
        self._is_ended = True
        self._ready = _NONE
        if self._dialect.terminator:
            frames.append(self._dialect.terminator)
        return frames

    def _delta_frames(self, index: int, delta: dict[str, Any]) -> list[bytes]:
        """The frame of a delta, after the choice's first frame if that was not sent yet."""
        choice = self._choices.get(index)
        if choice is not None:
            return [self._delta_frame(choice, delta)]
        frames = self._open_choice(index)
        choice = self._choices.get(index)
        if choice is not None:
            frames.append(self._delta_frame(choice, delta))
        return frames

    def _open_choice(self, index: int, logprobs: object = UNSET) -> list[bytes]:
        """The first frame of a choice. A choice beyond the dialect's `max_choices` is ignored."""
        if index >= self._dialect.request.max_choices:
            return []
        choice = self._choices[index] = _Choice([_ChunkChoice(index, {}, UNSET, None)], {})
        if logprobs is None:
            choice.null_logprobs = choice.chunk_choices[0].logprobs = None
        if self._dialect.first_delta is None:
            return []
        return [self._delta_frame(choice, dict(self._dialect.first_delta))]

    def _complete_calls(self, choice: _Choice, finish: ChoiceFinished | None = None) -> list[bytes]:
        """Frames for the calls whose arguments are complete, in their order.

        While the stream runs, each call is checked once, when the next one starts. At the finish all are checked:
        empty arguments become `{}`, and incomplete JSON is an unfinished call, which is not sent. Other text (of a
        custom tool) is complete. If the answer was cut short, its calls are sent as far as they came: its finish reason
        does not say that they are to be run.
        """
        is_cut = finish is not None and finish.reason in _CUT_SHORT
        calls, frames = choice.calls, []
        if finish is None and calls:
            calls[-1].is_complete = _is_complete(join_text(calls[-1].arguments))
        while choice.processed_calls < len(calls) and (finish is not None or calls[choice.processed_calls].is_complete):
            call = calls[choice.processed_calls]
            choice.processed_calls += 1
            arguments = join_text(call.arguments)
            if not arguments.strip() and not (is_cut and call is calls[-1]):
                arguments = "{}"
            is_text = not arguments.lstrip().startswith("{")
            if is_cut or _is_complete(arguments) or (is_text and finish is not None):
                call_object = _call_object(call.index, call.id, call.name, arguments)
                frames.append(self._delta_frame(choice, {"tool_calls": [call_object]}))
        return frames

    def _finish_frame(self, choice: _Choice, event: ChoiceFinished) -> bytes:
        reason = event.reason
        if choice.legacy and reason is FinishReason.OTHER:
            reason = FinishReason.FUNCTION_CALL
        finish_reason = self._dialect.finish_reason(reason, choice.has_calls)
        return self._delta_frame(choice, dict(self._dialect.finish_delta), finish_reason)

    def _delta_frame(self, choice: _Choice, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        """The frame of a delta. Afterwards the chunk is prepared for a piece of text of the same choice."""
        chunk, shown = self._chunk, choice.chunk_choices[0]
        shown.delta, shown.finish_reason = delta, finish_reason
        chunk.choices = choice.chunk_choices
        frame = self._chunk_frame()
        shown.delta, shown.finish_reason = choice.text, None
        if choice.has_logprobs:
            choice.has_logprobs = choice.owns_logprobs = False
            shown.logprobs = choice.null_logprobs
        if not self._dialect.created_per_chunk:
            self._ready, self._text = shown.index, choice.text
        return frame

    def _chunk_frame(self) -> bytes:
        chunk = self._chunk
        if self._dialect.created_per_chunk:
            chunk.created = self._reply.now()
        if not self._extras:
            return sse.write_frame(jsonio.encode(chunk))
        document = {**jsonio.to_members(chunk), **self._extras}
        self._extras = {}
        return sse.write_frame(jsonio.encode(document))


def _call_object(index: int, id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _is_complete(arguments: str) -> bool:
    try:
        return isinstance(jsonio.decode(arguments.encode("utf-8", "surrogatepass")), dict)
    except jsonio.InvalidJson:
        return False


_WRITE: dict[type[Event], Callable[[Encoder, Any], list[bytes]]] = {
    TextDelta: Encoder._write_text,
    ReasoningDelta: Encoder._write_reasoning,
    RefusalDelta: Encoder._write_refusal,
    ToolCallStarted: Encoder._write_call,
    ToolCallDelta: Encoder._write_arguments,
    LogprobsDelta: Encoder._write_logprobs,
    ChoiceFinished: Encoder._write_finish,
    UsageReported: Encoder._write_usage,
    UsageDiscarded: Encoder._write_nothing,
    Extra: Encoder._write_extra,
    StreamStarted: Encoder._write_start,
    StreamTagged: Encoder._write_tags,
    StreamCompleted: Encoder._write_completion,
    StreamFailed: Encoder._write_failure,
}
