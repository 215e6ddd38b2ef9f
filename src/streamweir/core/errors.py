"""Everything that can go wrong, and whose fault it is.

    StreamweirError
    +-- CallerError     the request, the key or its limits       4xx
    +-- UpstreamError   the provider or the way to it            429, 502, 503, 504
    +-- GatewayFault    ourselves                                500, 503

An error is a value: it travels inside `StreamFailed` through pure code as well as up
a call stack. Its `code` is API; status and type follow from the code by the tables
below (the `openai` wording; dialects word some of them differently). A message is
written by us: a provider's text enters only through `scrub`.
"""

import re
from typing import ClassVar, NamedTuple


class CodeFacts(NamedTuple):
    status: int
    type: str
    may_retry: bool = False
    """False: the response says `x-should-retry: false`, for a retry cannot help."""


_INVALID = "invalid_request_error"

CALLER_CODES: dict[str, CodeFacts] = {
    "invalid_json": CodeFacts(400, _INVALID),
    "duplicate_key": CodeFacts(400, _INVALID),
    "json_too_deep": CodeFacts(400, _INVALID),
    "invalid_type": CodeFacts(400, _INVALID),
    "invalid_value": CodeFacts(400, _INVALID),
    "missing_required_parameter": CodeFacts(400, _INVALID),
    "unknown_parameter": CodeFacts(400, _INVALID),
    "context_length_exceeded": CodeFacts(400, _INVALID),
    "content_filter": CodeFacts(400, _INVALID),
    "idempotency_key_reused": CodeFacts(400, _INVALID),
    "invalid_api_key": CodeFacts(401, _INVALID),
    "missing_api_key": CodeFacts(401, _INVALID),
    "expired_api_key": CodeFacts(401, _INVALID),
    "key_revoked": CodeFacts(401, _INVALID),
    "insufficient_permissions": CodeFacts(403, "permission_error"),
    "ip_not_allowed": CodeFacts(403, "permission_error"),
    "model_unpriced": CodeFacts(403, "permission_error"),
    "model_not_found": CodeFacts(404, _INVALID),
    "unknown_url": CodeFacts(404, _INVALID),
    "not_found": CodeFacts(404, _INVALID),
    "conflict": CodeFacts(409, "conflict_error"),
    "method_not_allowed": CodeFacts(405, _INVALID),
    "unsupported_media_type": CodeFacts(415, _INVALID),
    "unsupported_content_encoding": CodeFacts(415, _INVALID),
    "request_timeout": CodeFacts(408, "timeout_error", may_retry=True),
    "idempotency_in_progress": CodeFacts(409, "conflict_error", may_retry=True),
    "request_too_large": CodeFacts(413, _INVALID),
    "headers_too_large": CodeFacts(431, _INVALID),
    "rate_limit_exceeded": CodeFacts(429, "rate_limit_error", may_retry=True),
    "concurrency_limit_exceeded": CodeFacts(429, "rate_limit_error", may_retry=True),
    "idempotency_completed": CodeFacts(409, "conflict_error"),
    "insufficient_quota": CodeFacts(429, "insufficient_quota"),
    "budget_exceeded": CodeFacts(429, "insufficient_quota"),
}

UPSTREAM_CODES: dict[str, CodeFacts] = {
    "upstream_rate_limited": CodeFacts(429, "rate_limit_error", may_retry=True),
    "upstream_connect_failed": CodeFacts(502, "upstream_error", may_retry=True),
    "upstream_dns_failed": CodeFacts(502, "upstream_error", may_retry=True),
    "upstream_tls_failed": CodeFacts(502, "upstream_error", may_retry=True),
    "upstream_auth_failed": CodeFacts(502, "upstream_error"),
    "upstream_bad_response": CodeFacts(502, "upstream_error", may_retry=True),
    "upstream_bad_encoding": CodeFacts(502, "upstream_error", may_retry=True),
    "upstream_empty_response": CodeFacts(502, "upstream_error", may_retry=True),
    "upstream_redirect_blocked": CodeFacts(502, "upstream_error"),
    "upstream_model_not_found": CodeFacts(502, "upstream_error"),
    "upstream_server_error": CodeFacts(502, "upstream_error", may_retry=True),
    "upstream_stream_truncated": CodeFacts(502, "upstream_error", may_retry=True),
    "upstream_stream_reset": CodeFacts(502, "upstream_error", may_retry=True),
    "upstream_invalid_frame": CodeFacts(502, "upstream_error", may_retry=True),
    "upstream_frame_too_large": CodeFacts(502, "upstream_error", may_retry=True),
    "response_too_large": CodeFacts(502, "upstream_error"),
    "no_available_deployment": CodeFacts(503, "upstream_error", may_retry=True),
    "upstream_overloaded": CodeFacts(503, "upstream_error", may_retry=True),
    "upstream_quota_exhausted": CodeFacts(503, "upstream_error"),
    "upstream_timeout": CodeFacts(504, "upstream_error", may_retry=True),
    "stream_idle_timeout": CodeFacts(504, "upstream_error", may_retry=True),
    "stream_deadline_exceeded": CodeFacts(504, "upstream_error", may_retry=True),
}

GATEWAY_CODES: dict[str, CodeFacts] = {
    "internal_error": CodeFacts(500, "server_error", may_retry=True),
    "overloaded": CodeFacts(503, "overloaded_error", may_retry=True),
    "server_shutting_down": CodeFacts(503, "overloaded_error", may_retry=True),
    "ledger_unavailable": CodeFacts(503, "overloaded_error", may_retry=True),
    "stopped_by_operator": CodeFacts(503, "server_error"),
}

CODES: dict[str, CodeFacts] = {**CALLER_CODES, **UPSTREAM_CODES, **GATEWAY_CODES}


class StreamweirError(Exception):
    """The base. Raised as one of its three children, whose `codes` say what each may carry."""

    codes: ClassVar[dict[str, CodeFacts]] = {}

    def __init__(
        self,
        code: str,
        message: str,
        *,
        param: str | None = None,
        retry_after_s: float | None = None,
        event_id: str | None = None,
    ) -> None:
        if code not in self.codes:
            raise ValueError(f"{type(self).__name__} has no code {code!r}")
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s
        self.event_id = event_id

    @property
    def facts(self) -> CodeFacts:
        return self.codes[self.code]

    def _identity(self) -> tuple[object, ...]:
        return (type(self), self.code, self.message, self.param, self.retry_after_s, self.event_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamweirError) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        param = f", param={self.param!r}" if self.param is not None else ""
        return f"{type(self).__name__}({self.code!r}, {self.message!r}{param})"


class CallerError(StreamweirError):
    codes = CALLER_CODES


class UpstreamError(StreamweirError):
    codes = UPSTREAM_CODES


class GatewayFault(StreamweirError):
    codes = GATEWAY_CODES


_LONGEST_MESSAGE = 400
_LONGEST_SOURCE = 4 * _LONGEST_MESSAGE
_SECRETS = re.compile(
    r"""
      [a-z][a-z0-9+.-]*://\S+                              # addresses
    | \b(?:[\w-]+\.)+(?:com|net|org|io|ai|co|cn|eu|xyz|dev|app|cloud|local|internal|svc)\b(?:[:/]\S*)?   # hosts
    | \blocalhost\b(?:[:/]\S*)?
    | \b\d{1,3}(?:\.\d{1,3}){3}(?:[:/]\S*)?               # IPv4
    | \[[0-9a-f]*:[0-9a-f:.]*\](?::\d+)?                  # IPv6
    | \bbearer\s+\S+                                       # credentials in a header
    | \bbasic\s+(?=\S*[\d=])[\w+/=]{8,}
    | \b(?:sk|pk|rk|gsk|xai|hf|nvapi|pplx|csk|fw)[-_][\w*.-]{4,}   # keys by their beginning
    | \b(?:key|org|proj|user|acct)[-_](?=[\w*.-]*[\d*])[\w*.-]{4,}
    | \b(?:AIza|eyJ|ya29\.)[\w*.-]{8,}
    | \b(?:AKIA|ASIA)(?=[a-z]*\d)[a-z\d]{12,}
    | \b[\w.+-]+@[\w-]+\.[\w.]+                            # mail
    | \b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b      # UUIDs
    | \b(?=[\w+/=]*\d)[\w+/=]{32,}                         # anything that looks like a token
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


def scrub(text: str) -> str:
    """A provider's text with nothing in it that could be a secret, an address or a control character."""
    if len(text) > _LONGEST_SOURCE:  # never into the midst of a word, for half a secret is not recognised
        text = text[:_LONGEST_SOURCE].rpartition(" ")[0]
    text = text.partition("Traceback (most recent call last)")[0]
    text = _SECRETS.sub("***", _CONTROLS.sub(" ", text)).strip()
    return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 3] + "..."
