"""Errors in the format of the Responses API.

Before an answer: a status and OpenAI's error object. Inside a stream: the frame `error`, at which SDKs raise, and
`response.failed`, whose code decides whether agents shorten the conversation, stop or try again.
"""

import re
from typing import Any, NamedTuple

from streamweir.core.errors import NativeError, StreamweirError
from streamweir.wire.native import NativeWire


class StreamErrorNames(NamedTuple):
    code: str
    type: str


_QUOTA = StreamErrorNames("insufficient_quota", "insufficient_quota")
_OVERLOADED = StreamErrorNames("server_is_overloaded", "service_unavailable_error")
_RATE = StreamErrorNames("rate_limit_exceeded", "rate_limit_error")
_SERVER = StreamErrorNames("server_error", "server_error")
STREAM_ERRORS = {
    "context_length_exceeded": StreamErrorNames("context_length_exceeded", "invalid_request_error"),
    "insufficient_quota": _QUOTA,
    "budget_exceeded": _QUOTA,
    "overloaded": _OVERLOADED,
    "upstream_overloaded": _OVERLOADED,
    "rate_limit_exceeded": _RATE,
    "upstream_rate_limited": _RATE,
}
"""By our code; all others are `server_error`."""
_RETRY_HINT = re.compile(r"try again in\s*\d", re.IGNORECASE)


_ACCOUNT_CODES = frozenset({"upstream_auth_failed", "upstream_quota_exhausted"})
"""Failures of the operator's account: the provider's own text about them is not shown to callers."""


def status_of(error: StreamweirError) -> int:
    native = _native_in(error)
    return native.status if native is not None and native.status >= 400 else error.spec.status


def document_of(error: StreamweirError) -> dict[str, Any]:
    """The body of an error before the answer. The error of a provider of the same API is passed on: clients
    react to its code and its message."""
    native = _native_in(error)
    members: dict[str, Any] = {
        "message": error.message,
        "type": error.spec.type,
        "param": error.param,
        "code": error.code,
    }
    if native is not None:
        own = {"message": native.message, "type": native.type or error.spec.type}
        members = {**own, "param": native.param, "code": native.code}
    if error.event_id is not None:
        members["event_id"] = error.event_id
    return {"error": {**members, **(error.details or {})}}


def stream_members(error: StreamweirError) -> dict[str, Any]:
    """Of the frame `error`."""
    names, message, param = STREAM_ERRORS.get(error.code, _SERVER), error.message, error.param
    native = _native_in(error)
    if native is not None:
        own = StreamErrorNames(native.code or names.code, native.type or names.type)
        return {"type": own.type, "code": own.code, "message": native.message, "param": native.param}
    if names is _RATE and error.retry_after_s is not None and not _RETRY_HINT.search(message):
        message = f"{message} Please try again in {error.retry_after_s:g}s."  # agents read the seconds from it
    return {"type": names.type, "code": names.code, "message": message, "param": param}


def _native_in(error: StreamweirError) -> NativeError | None:
    native = error.native
    is_own = native is not None and native.wire == NativeWire.OPENAI_RESPONSES and error.code not in _ACCOUNT_CODES
    return native if is_own else None
