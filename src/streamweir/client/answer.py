"""What has been said so far, and the whole of it in the end: events folded for whoever asked.

An `Answer` grows with every event and can be looked at any time; `completion` is a picture of it. The fold itself is
`core.completion`'s, so that what a client joins and what the gateway buffers cannot differ. Added here is what a caller
wants beside it: tool calls with their arguments read while they grow, and judged when the answer is whole. Arguments
that are no JSON object are marked (`ToolCall.problem`) and never repaired. It must not know a dialect or a socket.
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
    """One call. While its answer comes in it grows; `parsed` is for when it is whole."""

    def __init__(self, choice: int, index: int, id: str | None, name: str, *, legacy: bool = False) -> None:
        self.choice = choice
        self.index = index
        self.id = id
        self.name = name
        self.legacy = legacy
        """OpenAI's deprecated `function_call`."""
        self.is_whole = False
        self.problem: str | None = None
        """Why the arguments cannot be used. None: they can, or the answer is not whole yet."""
        self._pieces: list[str] = []
        self._unread: list[str] = []  # pieces that `partial` has not seen
        self._reader = PartialJson()
        self._parsed: dict[str, Any] | None = None

    @property
    def arguments(self) -> str:
        """As they came, up to now."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return join_text(self._pieces)

    @property
    def partial(self) -> Any:
        """What the arguments say so far, which more of them only adds to. None while they say nothing."""
        for piece in self._unread:
            self._reader.feed(piece)
        self._unread.clear()
        value = self._reader.value
        return None if value is NOTHING else value

    def parsed(self) -> dict[str, Any]:
        """The arguments of a whole call. Raises `InvalidToolArguments` where they are not whole, or no JSON object."""
        if self._parsed is None:
            why = self.problem or "the answer is not whole"
            raise InvalidToolArguments(f"the arguments of {self.name!r} cannot be used: {why}", self)
        return self._parsed

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        self._unread.append(piece)

    def settle(self) -> None:
        """The answer is whole, and so must be the arguments. None at all are an empty object."""
        self.is_whole = True
        text = self.arguments
        try:
            value = jsonio.decode(text.encode("utf-8", "surrogatepass")) if text.strip() else {}
        except jsonio.InvalidJson:
            self.problem = "they are not valid JSON"
            return
        if not isinstance(value, dict):
            self.problem = "they are not a JSON object"
        elif text.strip() and not self._agrees():  # the codec reads NaN and 1e999 as null; here nothing is guessed
            self.problem = "they are not valid JSON"
        else:
            self._parsed = value

    def to_dict(self) -> dict[str, Any]:
        """As a message holds it."""
        function = {"name": self.name, "arguments": self.arguments}
        return function if self.legacy else {"id": self.id, "type": "function", "function": function}

    def _agrees(self) -> bool:
        _ = self.partial
        self._reader.finish()
        return self._reader.is_complete

    def __repr__(self) -> str:
        return f"ToolCall(index={self.index}, id={self.id!r}, name={self.name!r}, arguments={self.arguments!r})"


class Choice(Struct):
    index: int
    text: str | None
    """None: no text was sent, which is not the same as an empty one."""
    reasoning: str | None
    refusal: str | None
    tool_calls: list[ToolCall]
    finish_reason: str | None
    """The server's own word. None: it never said one."""
    reason: FinishReason | None
    """The same in our words, of which there are few."""
    reasoning_details: list[dict[str, Any]]
    """What must be sent back with the message, where a model reasons with signatures."""
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
    """A whole answer; or, where it hangs on an error, what arrived of one."""

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
    """The server's own name of the request (`x-request-id`)."""

    @property
    def text(self) -> str:
        """Of the first choice; empty where it has none."""
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
    def message(self) -> dict[str, Any]:
        return self.choices[0].message if self.choices else {"role": "assistant", "content": ""}

    @property
    def is_empty(self) -> bool:
        """Nothing was said, by any choice."""
        return not any(
            choice.text or choice.reasoning or choice.refusal or choice.tool_calls or choice.extras
            for choice in self.choices
        )

    def to_dict(self) -> dict[str, Any]:
        """In the form of OpenAI's whole body, with what is not known left out."""
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
                pass  # by far the most
            case ToolCallDelta():
                self._calls[event.choice][event.call].add(event.arguments)
            case ToolCallStarted():
                calls = self._calls.setdefault(event.choice, [])
                calls.append(ToolCall(event.choice, event.call, event.id, event.name, legacy=event.legacy))
            case UsageReported():
                self.usage = event.usage
            case StreamCompleted():
                self.is_whole = True
                for calls in self._calls.values():
                    for call in calls:
                        call.settle()

    @property
    def tool_calls(self) -> list[ToolCall]:
        """Of every choice, as far as they have come; the same objects grow."""
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
