"""The dialect of OpenToken (docs/spec/dialects.md)."""

from streamweir.core.errors import CODES, UPSTREAM_CODES
from streamweir.core.events import FinishReason
from streamweir.core.request import RequestRules
from streamweir.frontends.chat.dialect import Dialect, ErrorWords, IdForm, ModelRule, UsageRule
from streamweir.wire import sse

_INVALID = "invalid_request_error"
_AUTHENTICATION = "authentication_error"

OPENTOKEN = Dialect(
    name="opentoken",
    id_form=IdForm.CHATCMPL,
    chunk_object="chat.completion.chunk",
    whole_object="chat.completion",
    request=RequestRules(checks_stream_options=False),
    model=ModelRule.ASKED,
    first_delta={"role": "assistant"},
    finish_delta={},
    finish_words={
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
    error_words={
        **{code: ErrorWords(400, _INVALID, None) for code, facts in CODES.items() if facts.status == 400},
        **{
            code: ErrorWords(facts.status, "upstream_error", "upstream_error") for code, facts in UPSTREAM_CODES.items()
        },
        "missing_api_key": ErrorWords(401, _AUTHENTICATION, "missing_auth"),
        "invalid_api_key": ErrorWords(401, _AUTHENTICATION, "invalid_key"),
        "expired_api_key": ErrorWords(401, _AUTHENTICATION, "expired_key"),
        "key_revoked": ErrorWords(401, _AUTHENTICATION, "invalid_key"),
        "insufficient_quota": ErrorWords(402, _INVALID, "insufficient_credit"),
        "insufficient_permissions": ErrorWords(403, "permission_error", "insufficient_scope"),
        "model_not_found": ErrorWords(400, _INVALID, "model_not_found"),
        "unknown_url": ErrorWords(404, _INVALID, "not_found"),
        "budget_exceeded": ErrorWords(429, _INVALID, "spend_limit_exceeded"),
        "internal_error": ErrorWords(500, "api_error", None),
        "no_available_deployment": ErrorWords(503, "upstream_error", "no_supplier"),
        "upstream_timeout": ErrorWords(504, "upstream_error", "upstream_timeout"),
    },
    error_texts={
        "invalid_api_key": "invalid api key",
        "key_revoked": "invalid api key",
        "expired_api_key": "api key has expired",
        "insufficient_quota": "insufficient credit balance",
        "budget_exceeded": "api key spend limit exceeded",
    },
    stream_error=ErrorWords(200, "upstream_error", "stream_error"),
    terminator=sse.DONE,
)
