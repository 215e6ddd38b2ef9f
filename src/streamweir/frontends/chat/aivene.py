"""The dialect of Aivene (docs/spec/dialects.md). Its errors have a type and no code."""

from streamweir.core.errors import CALLER_CODES, UPSTREAM_CODES
from streamweir.core.events import FinishReason
from streamweir.frontends.chat.dialect import Dialect, ErrorFields, IdFormat, ModelRule, UsageRule
from streamweir.wire import sse

AIVENE = Dialect(
    name="aivene",
    id_format=IdFormat.ILBS,
    chunk_object="chat.completion.chunk",
    whole_object="chat.completion",
    model=ModelRule.REQUESTED,
    first_delta={"role": "assistant", "content": ""},
    finish_delta={},
    finish_reasons={
        FinishReason.STOP: "stop",
        FinishReason.LENGTH: "length",
        FinishReason.TOOL_CALLS: "tool_calls",
        FinishReason.CONTENT_FILTER: "content_filter",
        FinishReason.FUNCTION_CALL: "tool_calls",
    },
    usage=UsageRule.ON_REQUEST,
    prompt_details={"cached_tokens": "cache_read", "cache_write_tokens": "cache_write"},
    shows_cost=False,
    error_members=("message", "type"),
    error_overrides={
        **{
            code: ErrorFields(401, "authentication_error", None)
            for code, spec in CALLER_CODES.items()
            if spec.status == 401
        },
        **{
            code: ErrorFields(spec.status, "upstream_error", None)
            for code, spec in UPSTREAM_CODES.items()
            if spec.status != 429
        },
        "insufficient_quota": ErrorFields(402, "insufficient_balance", None),
        "budget_exceeded": ErrorFields(402, "billing_error", None),
        "internal_error": ErrorFields(500, "api_error", None),
    },
    error_messages={
        "invalid_api_key": "invalid api key",
        "expired_api_key": "api key has expired",
        "insufficient_quota": "insufficient credit balance",
        "budget_exceeded": "api key spend limit exceeded",
    },
    stream_error=ErrorFields(200, "stream_error", None),
    stream_error_always=True,
    terminator=sse.DONE,
)
