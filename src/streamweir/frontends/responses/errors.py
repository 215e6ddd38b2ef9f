"""Errors as the Responses API words them.

Before an answer: a status and OpenAI's error object. Inside a stream: the frame `error`, at which SDKs raise, and
`response.failed`, by whose code agents decide whether to shorten the conversation, to stop or to try again.
"""

import re
from typing import Any, NamedTuple

from streamweir.core.errors import NativeError, StreamweirError
from streamweir.wire.native import NativeWire


class StreamWords(NamedTuple):
    code: str
    type: str


_QUOTA = StreamWords("insufficient_quota", "insufficient_quota")
_OVERLOADED = StreamWords("server_is_overloaded", "service_unavailable_error")
_RATE = StreamWords("rate_limit_exceeded", "rate_limit_error")
_SERVER = StreamWords("server_error", "server_error")
STREAM_WORDS = {
    "context_length_exceeded": StreamWords("context_length_exceeded", "invalid_request_error"),
    "insufficient_quota": _QUOTA,
    "budget_exceeded": _QUOTA,
    "overloaded": _OVERLOADED,
    "upstream_overloaded": _OVERLOADED,
    "rate_limit_exceeded": _RATE,
    "upstream_rate_limited": _RATE,
}
"""By our code; all others are `server_error`."""
_SAYS_WHEN = re.compile(r"try again in\s*\d", re.IGNORECASE)


_ACCOUNT_CODES = frozenset({"upstream_auth_failed", "upstream_quota_exhausted"})
"""Failures of the operator's account: the provider's own text about them is not shown to callers."""


def status_of(error: StreamweirError) -> int:
    native = _native_in(error)
    return native.status if native is not None and native.status >= 400 else error.spec.status


def document_of(error: StreamweirError) -> dict[str, Any]:
    """The body of an error before the answer. A provider of the same API is quoted: clients go by its words."""
    native = _native_in(error)
    members = {"message": error.message, "type": error.spec.type, "param": error.param, "code": error.code}
    if native is not None:
        own = {"message": native.message, "type": native.type or error.spec.type}
        members = {**own, "param": native.param, "code": native.code}
    if error.event_id is not None:
        members["event_id"] = error.event_id
    return {"error": members}


def stream_members(error: StreamweirError) -> dict[str, Any]:
    """Of the frame `error`."""
    words, message, param = STREAM_WORDS.get(error.code, _SERVER), error.message, error.param
    native = _native_in(error)
    if native is not None:
        own = StreamWords(native.code or words.code, native.type or words.type)
        return {"type": own.type, "code": own.code, "message": native.message, "param": native.param}
    if words is _RATE and error.retry_after_s is not None and not _SAYS_WHEN.search(message):
        message = f"{message} Please try again in {error.retry_after_s:g}s."  # agents wait for as long as this says
    return {"type": words.type, "code": words.code, "message": message, "param": param}


def _native_in(error: StreamweirError) -> NativeError | None:
    native = error.native
    is_own = native is not None and native.wire == NativeWire.OPENAI_RESPONSES and error.code not in _ACCOUNT_CODES
    return native if is_own else None
