"""A completion as one JSON body: the answer to a request without `stream`.

Concatenating the deltas of the streamed answer gives exactly this message: both are written
from the same events, by the same `Dialect` value. It always contains usage.
"""

from typing import Any

from msgspec import UNSET

from streamweir.core.completion import Completion, FoldedChoice
from streamweir.core.events import FinishReason
from streamweir.frontends.base import Reply, with_cost
from streamweir.frontends.chat.dialect import Dialect, call_id, identity_of
from streamweir.frontends.chat.usage import usage_object
from streamweir.wire import jsonio


def encode_whole(completion: Completion, dialect: Dialect, reply: Reply) -> bytes:
    """The body of a completed answer. `dialect` must be one that has whole bodies (`whole_object`)."""
    started = completion.started
    id, created, model = identity_of(started, dialect, reply)
    body: dict[str, Any] = {"id": id, "object": dialect.whole_object, "created": created, "model": model}
    if dialect.labels and started.system_fingerprint is not UNSET:
        body["system_fingerprint"] = started.system_fingerprint
    if dialect.labels and started.service_tier is not UNSET:
        body["service_tier"] = started.service_tier
    body["choices"] = [_choice(choice, id, dialect, reply) for choice in completion.choices]
    usage = completion.usage or reply.count_usage()
    body["usage"] = with_cost(usage_object(usage, dialect), usage, reply)
    body.update((name, value) for name, value in completion.extras.items() if name in dialect.extras)
    return jsonio.encode(body)


def _choice(choice: FoldedChoice, id: str, dialect: Dialect, reply: Reply) -> dict[str, Any]:
    shown: dict[str, Any] = {"index": choice.index, "message": _message(choice, id, dialect, reply)}
    if dialect.logprobs and choice.logprobs is not UNSET:
        shown["logprobs"] = choice.logprobs
    reason = choice.reason or FinishReason.OTHER
    if reason is FinishReason.OTHER and dialect.legacy_function_call and any(call.legacy for call in choice.calls):
        reason = FinishReason.FUNCTION_CALL
    shown["finish_reason"] = dialect.finish_reason(reason, bool(choice.calls))
    return shown


def _message(choice: FoldedChoice, id: str, dialect: Dialect, reply: Reply) -> dict[str, Any]:
    text = choice.text
    if choice.refusal is not None and not dialect.refusal:
        text = (text or "") + choice.refusal
    if text is None and not choice.calls and choice.refusal is None:
        text = ""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if dialect.reasoning and not reply.exclude_reasoning:
        if choice.reasoning is not None:
            message["reasoning_content"] = choice.reasoning
        if dialect.reasoning_details and choice.reasoning_details:
            message["reasoning_details"] = choice.reasoning_details
    if dialect.refusal and choice.refusal is not None:
        message["refusal"] = choice.refusal
    calls = []
    for ordinal, call in enumerate(choice.calls):
        function = {"name": call.name, "arguments": call.arguments}
        if call.legacy and dialect.legacy_function_call:
            message["function_call"] = function
        else:
            own_id = call.id or call_id(id, choice.index, ordinal)
            if call.custom and dialect.custom_calls:
                custom = {"name": call.name, "input": call.arguments}
                calls.append({"id": own_id, "type": "custom", "custom": custom})
            else:
                calls.append({"id": own_id, "type": "function", "function": function})
    if calls:
        message["tool_calls"] = calls
    message.update((name, value) for name, value in choice.extras.items() if name in dialect.extras)
    return message
