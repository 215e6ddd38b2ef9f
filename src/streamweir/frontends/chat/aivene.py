"""The dialect of Aivene (docs/spec/dialects.md). Its errors have a type and no code."""

from streamweir.core.errors import CALLER_CODES, UPSTREAM_CODES
from streamweir.core.events import FinishReason
from streamweir.frontends.chat.dialect import Dialect, ErrorWords, IdForm, ModelRule, UsageRule
from streamweir.wire import sse

AIVENE = Dialect(
    name="aivene",
    id_form=IdForm.ILBS,
    chunk_object="chat.completion.chunk",
    whole_object="chat.completion",
    model=ModelRule.ASKED,
    first_delta={"role": "assistant", "content": ""},
    finish_delta={},
    finish_words={
        FinishReason.STOP: "stop",
        FinishReason.LENGTH: "length",
        FinishReason.TOOL_CALLS: "tool_calls",
        FinishReason.CONTENT_FILTER: "content_filter",
        FinishReason.FUNCTION_CALL: "tool_calls",
    },
    usage=UsageRule.ON_REQUEST,
    prompt_details={"cached_tokens": "cache_read", "cache_write_tokens": "cache_write"},
    error_members=("message", "type"),
    error_words={
        **{code: ErrorWords(401, "authentication_error", None) for code, f in CALLER_CODES.items() if f.status == 401},
        **{code: ErrorWords(f.status, "upstream_error", None) for code, f in UPSTREAM_CODES.items() if f.status != 429},
        "insufficient_quota": ErrorWords(402, "insufficient_balance", None),
        "budget_exceeded": ErrorWords(402, "billing_error", None),
        "internal_error": ErrorWords(500, "api_error", None),
    },
    error_texts={
        "invalid_api_key": "invalid api key",
        "expired_api_key": "api key has expired",
        "insufficient_quota": "insufficient credit balance",
        "budget_exceeded": "api key spend limit exceeded",
    },
    stream_error=ErrorWords(200, "stream_error", None),
    stream_error_always=True,
    terminator=sse.DONE,
)
