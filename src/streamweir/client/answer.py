"""Folds the events of one answer into its content, at any time during the answer.

An `Answer` grows with every event; `completion` returns its current content. The fold is the one of `core.completion`,
so the client and the gateway join deltas in the same way. This module adds the tool calls: their arguments are parsed
while they arrive, and validated when the answer is complete. Arguments that are not a JSON object are marked
(`ToolCall.problem`) and never repaired. This module knows neither dialects nor sockets.
"""

from typing import Any

from msgspec import UNSET, Struct

from streamweir.client.error import InvalidToolArguments
from streamweir.client.partial import NOTHING, PartialJson
from streamweir.core import completion as core
from streamweir.core.completion import Accumulator, FoldedChoice, join_text
from streamweir.core.events import (
    Event,
    FinishReason,
    StreamCompleted,
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
    UsageReported,
)
from streamweir.core.usage import Usage
from streamweir.wire import jsonio


class ToolCall:
    """One tool call. It grows while its answer arrives; `parsed` can be used when the answer is complete."""

    def __init__(
        self, choice: int, index: int, id: str | None, name: str, *, legacy: bool = False, custom: bool = False
    ) -> None:
        self.choice = choice
        self.index = index
        self.id = id
        self.name = name
        self.legacy = legacy
        """OpenAI's deprecated `function_call`."""
        self.custom = custom
        """A free-form call: `arguments` is any text, and never parsed."""
        self.is_whole = False
        self.problem: str | None = None
        """Why the arguments cannot be used. None if they can, or if the answer is not complete yet."""
        self._pieces: list[str] = []
        self._unread: list[str] = []  # pieces that `partial` has not parsed yet
        self._reader = PartialJson()
        self._parsed: dict[str, Any] | None = None

    @property
    def arguments(self) -> str:
        """The text of the arguments so far."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return join_text(self._pieces)

    @property
    def partial(self) -> Any:
        """The value of the arguments so far; later pieces only add to it. None before there is one."""
        for piece in self._unread:
            self._reader.feed(piece)
        self._unread.clear()
        value = self._reader.value
        return None if value is NOTHING else value

    def parsed(self) -> dict[str, Any]:
        """The arguments of a complete call. Raises `InvalidToolArguments` if they cannot be used."""
        if self._parsed is None:
            why = self.problem or "the answer is not whole"
            raise InvalidToolArguments(f"the arguments of {self.name!r} cannot be used: {why}", self)
        return self._parsed

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        self._unread.append(piece)

    def settle(self) -> None:
        """The answer is complete: validates the arguments. Empty arguments are an empty object."""
        self.is_whole = True
        if self.custom:
            self.problem = "the call is a free-form one, whose text is in `arguments`"
            return
        text = self.arguments
        try:
            value = jsonio.decode(text.encode("utf-8", "surrogatepass")) if text.strip() else {}
        except jsonio.InvalidJson:
            self.problem = "they are not valid JSON"
            return
        if not isinstance(value, dict):
            self.problem = "they are not a JSON object"
        elif text.strip() and not self._is_valid_json():  # the codec reads NaN and 1e999 as null
            self.problem = "they are not valid JSON"
        else:
            self._parsed = value

    def to_dict(self) -> dict[str, Any]:
        """In the form of a message's `tool_calls`."""
        if self.custom:
            return {"id": self.id, "type": "custom", "custom": {"name": self.name, "input": self.arguments}}
        function = {"name": self.name, "arguments": self.arguments}
        return function if self.legacy else {"id": self.id, "type": "function", "function": function}

    def _is_valid_json(self) -> bool:
        _ = self.partial
        self._reader.finish()
        return self._reader.is_complete

    def __repr__(self) -> str:
        return f"ToolCall(index={self.index}, id={self.id!r}, name={self.name!r}, arguments={self.arguments!r})"


class Choice(Struct):
    index: int
    text: str | None
    """None if no text was sent, which differs from an empty text."""
    reasoning: str | None
    refusal: str | None
    tool_calls: list[ToolCall]
    finish_reason: str | None
    """As the server sent it. None if it sent none."""
    reason: FinishReason | None
    """The same as a member of `FinishReason`."""
    reasoning_details: list[dict[str, Any]]
    """Must be sent back with the message, for models that sign their reasoning."""
    logprobs: dict[str, Any] | None
    extras: dict[str, Any]

    @property
    def message(self) -> dict[str, Any]:
        """The assistant's message, to be sent back in the next request."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        calls = [call.to_dict() for call in self.tool_calls if not call.legacy]
        if calls:
            message["tool_calls"] = calls
        for call in self.tool_calls:
            if call.legacy:
                message["function_call"] = call.to_dict()
        if self.refusal is not None:
            message["refusal"] = self.refusal
        if self.reasoning_details:
            message["reasoning_details"] = self.reasoning_details
        if len(message) == 2:
            message["content"] = self.text or ""
        return message


class Completion(Struct):
    """A complete answer, or the part of an answer that arrived before an error."""

    id: str | None
    model: str | None
    created: int | None
    choices: list[Choice]
    usage: Usage | None
    system_fingerprint: str | None
    service_tier: str | None
    extras: dict[str, Any]
    is_whole: bool
    request_id: str | None = None
    """The server's id of the request (`x-request-id`)."""
    document: dict[str, Any] | None = None
    """The answer in the form of the Messages or the Responses API. None for chat completions."""

    @property
    def text(self) -> str:
        """Of the first choice; empty if it has none."""
        return (self.choices[0].text or "") if self.choices else ""

    @property
    def reasoning(self) -> str:
        return (self.choices[0].reasoning or "") if self.choices else ""

    @property
    def tool_calls(self) -> list[ToolCall]:
        return self.choices[0].tool_calls if self.choices else []

    @property
    def finish_reason(self) -> str | None:
        return self.choices[0].finish_reason if self.choices else None

    @property
    def content(self) -> list[dict[str, Any]]:
        """The blocks of the Messages API, in their order. Empty for the others."""
        blocks: list[dict[str, Any]] = (self.document or {}).get("content", [])
        return blocks

    @property
    def output(self) -> list[dict[str, Any]]:
        """The items of the Responses API, in their order: to be sent back in the next request. Empty for the others."""
        items: list[dict[str, Any]] = (self.document or {}).get("output", [])
        return items

    @property
    def stop_sequence(self) -> str | None:
        """The stop sequence that ended the answer, where the Messages API tells it."""
        return (self.document or {}).get("stop_sequence")

    @property
    def message(self) -> dict[str, Any]:
        """The assistant's message, to be sent back in the next request. The Responses API has `output` instead."""
        if self.document is not None and "output" in self.document:
            raise TypeError("an answer of the Responses API is sent back as its `output`: it is no single message")
        if self.document is not None:
            return {"role": "assistant", "content": self.content}
        return self.choices[0].message if self.choices else {"role": "assistant", "content": ""}

    @property
    def is_empty(self) -> bool:
        """No choice has any content."""
        return not any(
            choice.text or choice.reasoning or choice.refusal or choice.tool_calls or choice.extras
            for choice in self.choices
        )

    def to_dict(self) -> dict[str, Any]:
        """In the form of the API's response body, without members that are not known."""
        if self.document is not None:
            return self.document
        document: dict[str, Any] = {
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.system_fingerprint,
            "service_tier": self.service_tier,
        }
        document = {name: value for name, value in document.items() if value is not None}
        document["choices"] = [_to_dict(choice) for choice in self.choices]
        if self.usage is not None:
            document["usage"] = _usage_to_dict(self.usage)
        return {**document, **self.extras}


class Answer:
    """Feed it every event of one stream, in order."""

    def __init__(self) -> None:
        self.is_whole = False
        self.usage: Usage | None = None
        self.request_id: str | None = None
        self._fold = Accumulator()
        self._calls: dict[int, list[ToolCall]] = {}

    def feed(self, event: Event, /) -> None:
        self._fold.feed(event)
        match event:
            case TextDelta():
                pass  # the most frequent event: tested first
            case ToolCallDelta():
                self._calls[event.choice][event.call].add(event.arguments)
            case ToolCallStarted():
                calls = self._calls.setdefault(event.choice, [])
                calls.append(
                    ToolCall(event.choice, event.call, event.id, event.name, legacy=event.legacy, custom=event.custom)
                )
            case UsageReported():
                self.usage = event.usage
            case StreamCompleted():
                self.is_whole = True
                for calls in self._calls.values():
                    for call in calls:
                        call.settle()

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The calls of every choice so far; the same objects grow."""
        return [call for _, calls in sorted(self._calls.items()) for call in calls]

    def completion(self) -> Completion:
        folded: core.Completion = self._fold.fold()
        started = folded.started
        return Completion(
            id=started.id,
            model=started.model,
            created=started.created,
            choices=[self._choice(choice) for choice in folded.choices],
            usage=folded.usage,
            system_fingerprint=started.system_fingerprint or None,
            service_tier=started.service_tier or None,
            extras=folded.extras,
            is_whole=self.is_whole,
            request_id=self.request_id,
        )

    def _choice(self, folded: FoldedChoice) -> Choice:
        return Choice(
            index=folded.index,
            text=folded.text,
            reasoning=folded.reasoning,
            refusal=folded.refusal,
            tool_calls=list(self._calls.get(folded.index, ())),
            finish_reason=folded.raw_reason or None,
            reason=folded.reason,
            reasoning_details=folded.reasoning_details,
            logprobs=None if folded.logprobs is UNSET else folded.logprobs,
            extras=folded.extras,
        )


def _to_dict(choice: Choice) -> dict[str, Any]:
    message = dict(choice.message)
    if choice.reasoning is not None:
        message["reasoning_content"] = choice.reasoning
    document: dict[str, Any] = {"index": choice.index, "message": {**message, **choice.extras}}
    if choice.logprobs is not None:
        document["logprobs"] = choice.logprobs
    return {**document, "finish_reason": choice.finish_reason}


def _usage_to_dict(usage: Usage) -> dict[str, Any]:
    document: dict[str, Any] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
    }
    if usage.prompt_details:
        document["prompt_tokens_details"] = usage.prompt_details
    if usage.completion_details:
        document["completion_tokens_details"] = usage.completion_details
    return document
