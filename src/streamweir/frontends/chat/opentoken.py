"""The dialect of OpenToken (docs/spec/dialects.md)."""

from streamweir.core.errors import CODES, UPSTREAM_CODES
from streamweir.core.events import FinishReason
from streamweir.core.request import RequestRules
from streamweir.frontends.chat.dialect import Dialect, ErrorFields, IdFormat, ModelRule, UsageRule
from streamweir.wire import sse

_INVALID = "invalid_request_error"
_AUTHENTICATION = "authentication_error"

OPENTOKEN = Dialect(
    name="opentoken",
    id_format=IdFormat.CHATCMPL,
    chunk_object="chat.completion.chunk",
    whole_object="chat.completion",
    request=RequestRules(checks_stream_options=False),
    model=ModelRule.REQUESTED,
    first_delta={"role": "assistant"},
    finish_delta={},
    finish_reasons={
        FinishReason.STOP: "stop",
        FinishReason.LENGTH: "length",
        FinishReason.TOOL_CALLS: "tool_calls",
        FinishReason.CONTENT_FILTER: "content_filter",
        FinishReason.FUNCTION_CALL: "tool_calls",
    },
    usage=UsageRule.ALWAYS,
    prompt_details={"cached_tokens": "cache_read", "cache_creation_tokens": "cache_write"},
    completion_details={"reasoning_tokens": "reasoning"},
    reasoning_details=True,
    error_members=("message", "type", "code"),
    error_overrides={
        **{code: ErrorFields(400, _INVALID, None) for code, spec in CODES.items() if spec.status == 400},
        **{code: ErrorFields(spec.status, "upstream_error", "upstream_error") for code, spec in UPSTREAM_CODES.items()},
        "missing_api_key": ErrorFields(401, _AUTHENTICATION, "missing_auth"),
        "invalid_api_key": ErrorFields(401, _AUTHENTICATION, "invalid_key"),
        "expired_api_key": ErrorFields(401, _AUTHENTICATION, "expired_key"),
        "key_revoked": ErrorFields(401, _AUTHENTICATION, "invalid_key"),
        "insufficient_quota": ErrorFields(402, _INVALID, "insufficient_credit"),
        "insufficient_permissions": ErrorFields(403, "permission_error", "insufficient_scope"),
        "model_not_found": ErrorFields(400, _INVALID, "model_not_found"),
        "unknown_url": ErrorFields(404, _INVALID, "not_found"),
        "budget_exceeded": ErrorFields(429, _INVALID, "spend_limit_exceeded"),
        "internal_error": ErrorFields(500, "api_error", None),
        "no_available_deployment": ErrorFields(503, "upstream_error", "no_supplier"),
        "upstream_timeout": ErrorFields(504, "upstream_error", "upstream_timeout"),
    },
    error_messages={
        "invalid_api_key": "invalid api key",
        "key_revoked": "invalid api key",
        "expired_api_key": "api key has expired",
        "insufficient_quota": "insufficient credit balance",
        "budget_exceeded": "api key spend limit exceeded",
    },
    stream_error=ErrorFields(200, "upstream_error", "stream_error"),
    terminator=sse.DONE,
)
