"""The dialect of OpenAI's chat completions (docs/spec/dialects.md)."""

from streamweir.core.events import FinishReason
from streamweir.frontends.chat.dialect import Dialect, IdFormat, ModelRule, UsageRule
from streamweir.wire import sse
from streamweir.wire.native import NativeWire

OPENAI = Dialect(
    name="openai",
    id_format=IdFormat.CHATCMPL,
    chunk_object="chat.completion.chunk",
    whole_object="chat.completion",
    native_wire=NativeWire.OPENAI_CHAT,
    model=ModelRule.REPORTED,
    labels=True,
    first_delta={"role": "assistant", "content": ""},
    finish_delta={},
    finish_reasons={
        FinishReason.STOP: "stop",
        FinishReason.LENGTH: "length",
        FinishReason.TOOL_CALLS: "tool_calls",
        FinishReason.CONTENT_FILTER: "content_filter",
        FinishReason.FUNCTION_CALL: "function_call",
    },
    usage=UsageRule.ON_REQUEST,
    null_usage=True,
    prompt_details={"cached_tokens": "cache_read", "audio_tokens": "audio_input"},
    completion_details={
        "reasoning_tokens": "reasoning",
        "audio_tokens": "audio_output",
        "accepted_prediction_tokens": "accepted_prediction",
        "rejected_prediction_tokens": "rejected_prediction",
    },
    full_details=True,
    legacy_function_call=True,
    custom_calls=True,
    reasoning_details=True,
    refusal=True,
    logprobs=True,
    extras=frozenset({"annotations", "audio", "images", "citations", "search_results"}),
    error_members=("message", "type", "param", "code"),
    has_error_details=True,
    terminator=sse.DONE,
)
