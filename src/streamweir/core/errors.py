"""All errors, by their origin.

    StreamweirError
    +-- CallerError     the request, the key or its limits       4xx
    +-- UpstreamError   the provider or the connection to it     429, 502, 503, 504
    +-- GatewayFault    the gateway itself                       500, 503

An error is a value: it is part of `StreamFailed` events in pure code, and it is raised elsewhere. Its `code` is part
of the API; status and type follow from the code by the tables below (those of the `openai` dialect; other dialects
override some). Messages are the gateway's own: a provider's text is included only through `scrub`. What else is known
of the cause is in `report` and `trace`: for the operator's log, never for a caller.
"""

import re
from collections.abc import Collection, Iterable
from operator import ne
from typing import Any, ClassVar, NamedTuple, overload

from msgspec import Struct

from streamweir.core.call_trace import CallTrace
from streamweir.core.text import cut


class ErrorSpec(NamedTuple):
    status: int
    type: str
    may_retry: bool = False
    """False: the response has `x-should-retry: false`, because a retry cannot help."""


_INVALID = "invalid_request_error"

CALLER_CODES: dict[str, ErrorSpec] = {
    "invalid_json": ErrorSpec(400, _INVALID),
    "duplicate_key": ErrorSpec(400, _INVALID),
    "json_too_deep": ErrorSpec(400, _INVALID),
    "invalid_type": ErrorSpec(400, _INVALID),
    "invalid_value": ErrorSpec(400, _INVALID),
    "missing_required_parameter": ErrorSpec(400, _INVALID),
    "unknown_parameter": ErrorSpec(400, _INVALID),
    "context_length_exceeded": ErrorSpec(400, _INVALID),
    "content_filter": ErrorSpec(400, _INVALID),
    "previous_response_not_found": ErrorSpec(400, _INVALID),
    "invalid_after": ErrorSpec(400, _INVALID),
    "invalid_api_key": ErrorSpec(401, _INVALID),
    "missing_api_key": ErrorSpec(401, _INVALID),
    "expired_api_key": ErrorSpec(401, _INVALID),
    "key_revoked": ErrorSpec(401, _INVALID),
    "insufficient_permissions": ErrorSpec(403, "permission_error"),
    "model_unpriced": ErrorSpec(403, "permission_error"),
    "model_not_found": ErrorSpec(404, _INVALID),
    "unknown_url": ErrorSpec(404, _INVALID),
    "not_found": ErrorSpec(404, _INVALID),
    "stream_not_found": ErrorSpec(404, _INVALID),
    "conflict": ErrorSpec(409, "conflict_error"),
    "method_not_allowed": ErrorSpec(405, _INVALID),
    "upgrade_required": ErrorSpec(426, _INVALID),
    "unsupported_media_type": ErrorSpec(415, _INVALID),
    "unsupported_content_encoding": ErrorSpec(415, _INVALID),
    "request_timeout": ErrorSpec(408, "timeout_error", may_retry=True),
    "idempotency_in_progress": ErrorSpec(409, "conflict_error", may_retry=True),
    "idempotency_key_reused": ErrorSpec(409, "conflict_error"),
    "stream_not_resumable": ErrorSpec(410, _INVALID),
    "request_too_large": ErrorSpec(413, _INVALID),
    "headers_too_large": ErrorSpec(431, _INVALID),
    "rate_limit_exceeded": ErrorSpec(429, "rate_limit_error", may_retry=True),
    "concurrency_limit_exceeded": ErrorSpec(429, "rate_limit_error", may_retry=True),
    "idempotency_completed": ErrorSpec(409, "conflict_error"),
    "insufficient_quota": ErrorSpec(429, "insufficient_quota"),
    "budget_exceeded": ErrorSpec(429, "insufficient_quota"),
}

UPSTREAM_CODES: dict[str, ErrorSpec] = {
    "upstream_rate_limited": ErrorSpec(429, "rate_limit_error", may_retry=True),
    "upstream_connect_failed": ErrorSpec(502, "upstream_error", may_retry=True),
    "upstream_dns_failed": ErrorSpec(502, "upstream_error", may_retry=True),
    "upstream_tls_failed": ErrorSpec(502, "upstream_error", may_retry=True),
    "upstream_auth_failed": ErrorSpec(502, "upstream_error"),
    "upstream_bad_response": ErrorSpec(502, "upstream_error", may_retry=True),
    "upstream_bad_encoding": ErrorSpec(502, "upstream_error", may_retry=True),
    "upstream_empty_response": ErrorSpec(502, "upstream_error", may_retry=True),
    "upstream_redirect_blocked": ErrorSpec(502, "upstream_error"),
    "upstream_model_not_found": ErrorSpec(502, "upstream_error"),
    "upstream_server_error": ErrorSpec(502, "upstream_error", may_retry=True),
    "upstream_stream_truncated": ErrorSpec(502, "upstream_error", may_retry=True),
    "upstream_stream_reset": ErrorSpec(502, "upstream_error", may_retry=True),
    "upstream_invalid_frame": ErrorSpec(502, "upstream_error", may_retry=True),
    "upstream_frame_too_large": ErrorSpec(502, "upstream_error", may_retry=True),
    "response_too_large": ErrorSpec(502, "upstream_error"),
    "no_available_deployment": ErrorSpec(503, "upstream_error", may_retry=True),
    "upstream_overloaded": ErrorSpec(503, "upstream_error", may_retry=True),
    "upstream_quota_exhausted": ErrorSpec(503, "upstream_error"),
    "upstream_timeout": ErrorSpec(504, "upstream_error", may_retry=True),
    "stream_idle_timeout": ErrorSpec(504, "upstream_error", may_retry=True),
    "stream_deadline_exceeded": ErrorSpec(504, "upstream_error", may_retry=True),
}

GATEWAY_CODES: dict[str, ErrorSpec] = {
    "internal_error": ErrorSpec(500, "server_error", may_retry=True),
    "overloaded": ErrorSpec(503, "overloaded_error", may_retry=True),
    "server_shutting_down": ErrorSpec(503, "overloaded_error", may_retry=True),
    "ledger_unavailable": ErrorSpec(503, "overloaded_error", may_retry=True),
    "streams_unavailable": ErrorSpec(503, "overloaded_error", may_retry=True),
    "stream_lost": ErrorSpec(503, "server_error", may_retry=True),
    "stopped_by_operator": ErrorSpec(503, "server_error"),
}

CODES: dict[str, ErrorSpec] = {**CALLER_CODES, **UPSTREAM_CODES, **GATEWAY_CODES}


class NativeError(NamedTuple):
    """The error as the provider sent it, scrubbed, for callers who use the same API and react to its type or text."""

    wire: str
    """A value of `wire.native.NativeWire`."""
    status: int
    """The HTTP status of the response; 200 for an error inside a stream."""
    type: str
    message: str
    code: str | None = None
    param: str | None = None


MAX_RECORDED_LENGTH = 300
"""Of a provider's message in the log."""


class ErrorReport(Struct, frozen=True, kw_only=True, gc=False):
    """What the provider, or the operating system, reported with an error. For the operator: no caller sees it.

    The text is as it came, because a known secret must be masked before a text is cut. Read it with `message`.
    """

    status: int | None = None
    """The HTTP status, if another response than the first of an attempt failed."""
    request_id: str | None = None
    """The provider's own id of that response."""
    code: str | None = None
    type: str | None = None
    param: str | None = None
    text: str = ""
    advice: str | None = None
    """The gateway's own words about what to do, where the cause is known."""

    def message(self, secrets: Iterable[str] = (), max_length: int = MAX_RECORDED_LENGTH) -> str:
        """One line without anything that could be a secret, an address or a control character."""
        return scrub(without_secrets(self.text, secrets), max_length)

    def __repr__(self) -> str:
        return f"ErrorReport({self.code!r}, {self.type!r})"


class StreamweirError(Exception):
    """The base class. Only its three subclasses are raised; `codes` are the valid codes of each."""

    codes: ClassVar[dict[str, ErrorSpec]] = {}
    native: NativeError | None = None
    report: ErrorReport | None = None
    trace: CallTrace | None = None
    """Of a connection that could not be opened."""
    is_of_target_limits: bool = False
    """The targets are at the limits that the operator has configured: none was asked for that reason."""
    is_of_wire: bool = False
    """The provider does not serve this model on the API through which it was requested, but on another one."""
    is_of_account: bool = False
    """The provider refuses the gateway's credential itself, for every model."""
    is_only_in_text: bool = False
    """That is known only from a text, which can quote the request: it needs a confirmation."""
    is_of_caller: bool = False
    """The caller has set the limit that was exceeded, or the refusal can be its own words: it says nothing about the
    target."""
    details: dict[str, Any] | None = None
    """Further members of the error object, for APIs whose format allows them."""

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
    def spec(self) -> ErrorSpec:
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


MAX_MESSAGE_LENGTH = 400
"""Of a provider's text in an answer to a caller."""
_MAX_SOURCE_LENGTH = 4 * MAX_MESSAGE_LENGTH
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
    | \barn:aws[a-z-]*:[\w:/.+=@-]+                        # Amazon's resources, with the number of the account
    | \b[\w.+-]+@[\w-]+\.[\w.]+                            # mail
    | \b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b      # UUIDs
    | \b(?=[\w+/=]*\d)[\w+/=]{32,}                         # anything that looks like a token
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_MIN_PART = 8
"""The length from which the beginning or the end of a secret is masked."""
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


def scrub(text: str, max_length: int = MAX_MESSAGE_LENGTH) -> str:
    """A provider's text without anything that could be a secret, an address or a control character."""
    if len(text) > _MAX_SOURCE_LENGTH:  # cut between words, because a part of a secret is not recognised
        text = text[:_MAX_SOURCE_LENGTH].rpartition(" ")[0]
    text = text.partition("Traceback (most recent call last)")[0]
    text = _SECRETS.sub("***", _CONTROLS.sub(" ", text)).strip()
    return cut(text, max_length)


def hide_secrets(error: StreamweirError, secrets: Collection[str]) -> None:
    """Masks the secrets in what the caller gets. A message with the provider's text was cut, and maybe within a secret:
    it is made again from the whole text."""
    report, native = error.report, error.native
    if report is None or not secrets:
        return
    text = scrub(report.text)

    def hide(message: str) -> str:
        return report.message(secrets, MAX_MESSAGE_LENGTH) if message == text else without_secrets(message, secrets)

    error.message, error.param = hide(error.message), without_secrets(error.param, secrets)
    error.args = (error.code, error.message)
    if native is not None:
        error.native = native._replace(
            type=without_secrets(native.type, secrets),
            message=hide(native.message),
            code=without_secrets(native.code, secrets),
            param=without_secrets(native.param, secrets),
        )


@overload
def without_secrets(text: str, secrets: Iterable[str]) -> str: ...
@overload
def without_secrets(text: None, secrets: Iterable[str]) -> None: ...
@overload
def without_secrets(text: str | None, secrets: Iterable[str]) -> str | None: ...
def without_secrets(text: str | None, secrets: Iterable[str]) -> str | None:
    """A text without these secrets, and without their beginnings and ends: providers quote a part of a key, and a text
    may have been cut. The longest first, because one secret can contain another."""
    if text is None:
        return None
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = _without_beginnings(text, secret)
        text = _without_beginnings(text[::-1], secret[::-1])[::-1]
    return text


def _without_beginnings(text: str, secret: str) -> str:
    kept, at, beginning = [], 0, secret[:_MIN_PART]
    while (found := text.find(beginning, at)) >= 0:
        kept += [text[at:found], "***"]
        quoted = text[found : found + len(secret)]
        at = found + next((length for length, is_other in enumerate(map(ne, quoted, secret)) if is_other), len(quoted))
    return "".join([*kept, text[at:]]) if kept else text
