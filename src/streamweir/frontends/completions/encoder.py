"""Events to the frames and the body of a text completion (docs/spec/completions.md).

Only text is written: this API has no reasoning, and a refusal is text. The finish of a choice is a chunk with
empty text. A stream ends with `[DONE]`, after an error frame too, as in chat completions.
"""

from typing import Any

from streamweir.core.completion import Completion
from streamweir.core.events import (
    ChoiceFinished,
    Event,
    FinishReason,
    LogprobsDelta,
    RefusalDelta,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    TextDelta,
    UsageReported,
)
from streamweir.core.usage import Usage
from streamweir.frontends.base import Reply, with_cost
from streamweir.frontends.error import stream_error_members
from streamweir.frontends.identifier import ALNUM, digest_text, is_unique
from streamweir.wire import jsonio, sse

PREFIX = "cmpl-"
_WORDS = {FinishReason.LENGTH: "length", FinishReason.CONTENT_FILTER: "content_filter"}


def make_id(entropy: bytes) -> str:
    return PREFIX + digest_text(entropy, ALNUM, 29)


def finish_word(reason: FinishReason | None) -> str:
    return _WORDS.get(reason, "stop") if reason is not None else "stop"


class CompletionsEncoder:
    """See `frontends.base.StreamEncoder`."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._head = _head(StreamStarted(), reply)
        self._usage: Usage | None = None
        self._logprobs: dict[int, dict[str, Any]] = {}
        self._is_ended = False

    @property
    def completion_id(self) -> str:
        return str(self._head["id"])

    def begin(self) -> list[bytes]:
        return []

    def feed(self, event: Event, /) -> list[bytes]:
        if type(event) is TextDelta:
            return [self._chunk(event.choice, event.text)] if not self._is_ended else []
        if self._is_ended:
            return []
        match event:
            case StreamStarted():
                self._head = _head(event, self._reply)
            case RefusalDelta():
                return [self._chunk(event.choice, event.text)]
            case LogprobsDelta(choice=choice, logprobs=dict(logprobs)):
                self._logprobs[choice] = logprobs
            case ChoiceFinished():
                return [self._chunk(event.choice, "", finish_word(event.reason))]
            case UsageReported():
                self._usage = event.usage
            case StreamCompleted():
                self._is_ended = True
                return [*self._usage_chunk(), sse.DONE]
            case StreamFailed():
                self._is_ended = True
                return [_frame({"error": stream_error_members(event.error)}), sse.DONE]
        return []

    def _chunk(self, choice: int, text: str, finish: str | None = None) -> bytes:
        shown = {"index": choice, "text": text, "logprobs": self._logprobs.pop(choice, None), "finish_reason": finish}
        usage = {"usage": None} if self._reply.include_usage else {}
        return _frame({**self._head, "choices": [shown], **usage})

    def _usage_chunk(self) -> list[bytes]:
        if not self._reply.include_usage:
            return []
        usage = _usage(self._usage or self._reply.count_usage(), self._reply)
        return [_frame({**self._head, "choices": [], "usage": usage})]


def encode_whole(completion: Completion, reply: Reply) -> tuple[str, bytes]:
    """The id and the body."""
    head = _head(completion.started, reply)
    choices = [
        {
            "index": choice.index,
            "text": (choice.text or "") + (choice.refusal or ""),
            "logprobs": choice.logprobs if isinstance(choice.logprobs, dict) else None,
            "finish_reason": finish_word(choice.reason),
        }
        for choice in completion.choices
    ]
    usage = _usage(completion.usage or reply.count_usage(), reply)
    return str(head["id"]), jsonio.encode({**head, "choices": choices, "usage": usage})


def _head(started: StreamStarted, reply: Reply) -> dict[str, Any]:
    is_own = not reply.pinned and started.id is not None and is_unique(started.id, PREFIX)
    return {
        "id": started.id if is_own else reply.id,
        "object": "text_completion",
        "created": reply.created if reply.created is not None else started.created or reply.now(),
        "model": started.model or reply.target_model or reply.model or "",
    }


def _usage(usage: Usage, reply: Reply) -> dict[str, Any]:
    shown = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
    }
    return with_cost(shown, usage, reply)


def _frame(document: dict[str, Any]) -> bytes:
    return sse.write_frame(jsonio.encode(document))
