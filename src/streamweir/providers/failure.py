"""Providers' failures as errors of the gateway.

`classify` is the one mapping from a provider's error (HTTP status, type, code, message) to `core.errors`, for failed
responses and for errors inside a stream. Messages are the gateway's own; the provider's message is shown, scrubbed,
only if the caller must act on it (a request that the provider refused).
"""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any, NamedTuple

from streamweir.core.errors import CallerError, ErrorReport, StreamweirError, UpstreamError, scrub
from streamweir.wire import jsonio

MAX_RETRY_AFTER_S = 120
_MAX_WORD_LENGTH = 80
_MAX_TEXT_LENGTH = 8000
"""Of a message in a report. It is cut further when it is read."""

_STATUS_OF_CODE = {
    # Values of `type`, `code` or `status` in the providers' error objects.
    "overloaded_error": 529,
    "overloaded": 529,
    "engine_overloaded_error": 529,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "rate_limit_reached_error": 429,
    "too_many_requests": 429,
    "api_error": 500,
    "server_error": 500,
    "internal_server_error": 500,
    "timeout_error": 504,
    "request_timeout": 504,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "billing_error": 402,
    "insufficient_quota": 402,
    "not_found_error": 404,
    "model_not_found": 404,
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "invalid_encrypted_content": 400,
    "previous_response_not_found": 400,
    "context_length_exceeded": 400,
    "server_is_overloaded": 529,
    "request_too_large": 413,
    # google.rpc.Code
    "invalid_argument": 400,
    "failed_precondition": 400,
    "out_of_range": 400,
    "unauthenticated": 401,
    "permission_denied": 403,
    "not_found": 404,
    "aborted": 409,
    "resource_exhausted": 429,
    "cancelled": 499,
    "internal": 500,
    "unknown": 500,
    "unavailable": 503,
    "deadline_exceeded": 504,
}

# For `ErrorDetails.mentions`: in lower case; searched in the message and in the codes.
_TOO_LONG = (
    "context_length_exceeded",
    "exceed_context_size_error",
    "context length",
    "context limit",
    "context size",
    "context window",
    "maximum context",
    "maximum prompt length",
    "prompt is too long",
    "input token count",
    "too many tokens",
    "input is too long",  # Bedrock
    "input tokens exceed",
    "exceeds the maximum tokens",
)
# Not just "billing": Gemini's message for a plain rate limit contains that word too.
_OUT_OF_CREDIT = (
    "insufficient_quota",
    "insufficient_balance",
    "insufficient balance",
    "insufficient credits",
    "credit balance",
    "billing_error",
    "billing_hard_limit_reached",
    "billing_not_active",
    "exceeded_current_quota_error",  # Moonshot
    "used all available credits",  # xAI, with 403
)
_FILTERED = ("content_filter", "content_policy_violation", "responsibleaipolicyviolation", "input was flagged")
_BAD_KEY = ("invalid_api_key", "invalid api key", "incorrect api key", "api key not valid")
_BAD_ACCOUNT = (
    "account_deactivated",
    "account has been deactivated",
    "account is not active",
    "account has been disabled",
    "account has been suspended",
    "organization has been disabled",  # Anthropic
    "organization_restricted",  # Groq
    "api_key_disabled",
    "key has been disabled",
    "key has been revoked",
    "key has expired",
    "key was reported as leaked",  # Gemini
    "has been suspended",  # Gemini: Consumer 'api_key:...' has been suspended.
)
_TOO_EXPENSIVE = ("fewer max_tokens",)
"""OpenRouter, with 402: a smaller request could be paid for."""
_NO_SCOPE = ("missing scopes", "insufficient permissions")
"""OpenAI, of a key that is restricted to some endpoints."""
_NO_MODEL = ("model_not_found", "invalid_model", "is not a valid model id")


class _FieldError(NamedTuple):
    message: str
    param: str


class ErrorDetails:
    """The content of an error object, in any of the usual formats."""

    def __init__(self, value: object) -> None:
        error = value
        if isinstance(value, Mapping) and "error" in value:
            error = value["error"]
            if isinstance(error, str):
                error = {**value, "message": error}
        if isinstance(error, str):
            error = {"message": error}
        members: Mapping[str, Any] = error if isinstance(error, Mapping) else {}
        field_error = _field_error_in(members)
        self.message = _first_text(members, "message", "msg", "detail", "error_description") or field_error.message
        self.codes = tuple(
            code_text.lower()
            for code_text in (members.get(name) for name in ("code", "type", "status", "reason"))
            if isinstance(code_text, str)
        )
        param = members.get("param")
        self.param = scrub(param if isinstance(param, str) else field_error.param) or None
        self.status = _status_of(members, self.codes)
        self._members = members

    def mentions(self, *needles: str) -> bool:
        text = self.message.lower()
        return any(needle in text or needle in self.codes for needle in needles)

    def has_code(self, *needles: str) -> bool:
        """As `mentions`, but not in the message: that can quote the request."""
        return any(needle in self.codes for needle in needles)

    def report(self) -> ErrorReport:
        """The provider's own words, for the operator."""
        members = self._members
        kind = members.get("type")
        return ErrorReport(
            code=scrub(_first_text(members, "code", "status", "reason") or _number_in(members), _MAX_WORD_LENGTH)
            or None,
            type=scrub(kind, _MAX_WORD_LENGTH) or None if isinstance(kind, str) and kind != "error" else None,
            param=self.param,
            text=self.message[:_MAX_TEXT_LENGTH],
        )


def classify(details: ErrorDetails, status: int | None = None, retry_after_s: float | None = None) -> StreamweirError:
    """The error for a failed response (`status` given) or for an error object inside a stream (None)."""
    error = _classify(details, status, retry_after_s)
    error.report = details.report()
    return error


def _classify(details: ErrorDetails, status: int | None, retry_after_s: float | None) -> StreamweirError:
    code = status if status is not None and status >= 300 else (details.status or 500)
    if details.mentions(*_FILTERED):
        return _refused(details)
    # quirk: Anthropic answers 400 for an account without credit, xAI for a wrong key, Mistral for an unknown
    # model. None of these is the caller's fault.
    if code == 402 or (code in (400, 403, 429) and details.mentions(*_OUT_OF_CREDIT)):
        error = UpstreamError("upstream_quota_exhausted", "The provider's account has no credit left.")
        error.is_of_account = True
        is_certain = (code == 402 and not details.mentions(*_TOO_EXPENSIVE)) or details.has_code(*_OUT_OF_CREDIT)
        error.is_only_in_text = not is_certain
        return error
    if code in (401, 403) or (code == 400 and details.mentions(*_BAD_KEY)):
        error = auth_failed(is_of_account=_names_account(details) if code == 403 else not details.mentions(*_NO_SCOPE))
        error.is_only_in_text = code != 401 and not details.has_code(*_BAD_KEY, *_BAD_ACCOUNT)
        return error
    if code in (404, 410) or (code == 400 and details.mentions(*_NO_MODEL)):
        return UpstreamError("upstream_model_not_found", "The provider does not know this model.")
    if code in (400, 422):
        return _refused(details)
    if code == 413:
        return CallerError("request_too_large", "The provider refused the request as too large.")
    if code == 429:
        message = "The provider's rate limit is reached."
        return UpstreamError("upstream_rate_limited", message, retry_after_s=retry_after_s)
    if code in (408, 504):
        return UpstreamError("upstream_timeout", "The provider took too long.")
    if code in (503, 529):
        return UpstreamError("upstream_overloaded", "The provider is overloaded.", retry_after_s=retry_after_s)
    if 300 <= code < 400:
        return UpstreamError(
            "upstream_redirect_blocked", "The provider answered with a redirect, which is not followed."
        )
    return UpstreamError("upstream_server_error", "The provider failed to answer.")


def auth_failed(*, is_of_account: bool) -> UpstreamError:
    error = UpstreamError("upstream_auth_failed", "The provider refused the gateway's credentials.")
    error.is_of_account = is_of_account
    return error


def _names_account(details: ErrorDetails) -> bool:
    """Whether a 403 is about the key or the account, and not about one model, which is what most are about."""
    return details.mentions(*_BAD_KEY, *_BAD_ACCOUNT) and not details.mentions(*_NO_SCOPE)


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> StreamweirError:
    """The error of a failed response. A body that is not JSON is ignored."""
    try:
        value = jsonio.decode(body)
    except jsonio.InvalidJson:
        value = None
    if isinstance(value, list) and value:  # quirk: Gemini without alt=sse wraps the error in an array
        value = value[0]
    return classify(ErrorDetails(value), status, retry_after_s(headers))


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """`Retry-After` in seconds, at most `MAX_RETRY_AFTER_S`; None if it is invalid.

    A date is compared with the response's own `Date`, so that neither clock has to be right.
    """
    value = headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            wait = parsedate_to_datetime(value) - parsedate_to_datetime(headers.get("date", ""))
        except (ValueError, TypeError, OverflowError):
            return None
        seconds = wait.total_seconds()
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_S) if isfinite(seconds) else None


def error_in_dataless_block(raw: bytes) -> StreamweirError | None:
    """The error in a block without `data` lines, if there is one.

    quirk: llama.cpp and GPUStack write `error: {...}`, Vertex a bare pretty-printed
    `{"error": ...}` (fixtures gpustack/error_on_unknown_field, vertex/bare_json_error).
    """
    text = b"\n".join(line for line in raw.splitlines() if not line.startswith(b":")).strip()
    inside = text.startswith(b"error:")
    if inside:
        text = text[len(b"error:") :].strip()
    elif not text.startswith((b"{", b"[")):
        return None
    try:
        value = jsonio.decode(text)
    except jsonio.InvalidJson:
        return classify(ErrorDetails(None)) if inside else None
    if isinstance(value, list) and value:
        value = value[0]
    if inside or (isinstance(value, Mapping) and value.get("error")):
        return classify(ErrorDetails(value))
    return None


def _refused(details: ErrorDetails) -> CallerError:
    message = scrub(details.message) or "The provider refused the request."
    if details.mentions(*_TOO_LONG):
        return CallerError("context_length_exceeded", message, param=details.param)
    if details.mentions(*_FILTERED):
        return CallerError("content_filter", message, param=details.param)
    return CallerError("invalid_value", message, param=details.param)


def _status_of(members: Mapping[str, Any], codes: tuple[str, ...]) -> int | None:
    for name in ("status_code", "code", "http_code", "status"):
        value = members.get(name)
        if isinstance(value, str) and value.isdecimal() and len(value) == 3:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 300 <= value < 600:
            return value
    for code_text in codes:
        if code_text in _STATUS_OF_CODE:
            return _STATUS_OF_CODE[code_text]
    return None


def _field_error_in(members: Mapping[str, Any]) -> _FieldError:
    """The first of pydantic's errors: `[{"loc": ["body", "top_k"], "msg": "Extra inputs ..."}]`.

    quirk: servers built on it send the list as `detail`, Mistral also as `message` or `message.detail`.
    """
    message = members.get("message")
    inner = message.get("detail") if isinstance(message, Mapping) else None
    for found in (inner, message, members.get("detail")):
        if isinstance(found, list) and found and isinstance(found[0], Mapping):
            loc = found[0].get("loc")
            steps = loc if isinstance(loc, list) else []
            steps = steps[1:] if steps[:1] == ["body"] else steps
            path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
            return _FieldError(_first_text(found[0], "msg"), path.removeprefix("."))
    return _FieldError("", "")


def _number_in(members: Mapping[str, Any]) -> str:
    code = members.get("code")
    return str(code) if isinstance(code, int) and not isinstance(code, bool) else ""


def _first_text(members: Mapping[str, Any], *names: str) -> str:
    for name in names:
        value = members.get(name)
        if isinstance(value, str) and value:
            return value
    return ""
