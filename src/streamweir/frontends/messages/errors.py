"""Errors in the format of the Messages API: the status, the type, the document.

Clients react to the text: on `prompt is too long` an agent shortens its conversation, on `overloaded_error` it waits.
If the provider uses the same API, its own status, type and text are shown, scrubbed, unless they are about the
operator's account.
"""

import re
from typing import Any, NamedTuple

from streamweir.core.errors import CODES, StreamweirError
from streamweir.wire.native import NativeWire


class ErrorWords(NamedTuple):
    status: int
    type: str


_TYPES = {
    # The type for a status, unless the code has a row of its own.
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    409: "conflict_error",
    410: "not_found_error",
    413: "request_too_large",
    415: "invalid_request_error",
    426: "invalid_request_error",
    429: "rate_limit_error",
    431: "invalid_request_error",
    500: "api_error",
    502: "api_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_OWN_WORDS = {
    "insufficient_quota": ErrorWords(402, "billing_error"),
    "budget_exceeded": ErrorWords(402, "billing_error"),
    "model_unpriced": ErrorWords(503, "overloaded_error"),
    "upstream_overloaded": ErrorWords(529, "overloaded_error"),
    "stream_lost": ErrorWords(503, "api_error"),
    "stopped_by_operator": ErrorWords(503, "api_error"),
}
WORDS = {code: _OWN_WORDS.get(code, ErrorWords(facts.status, _TYPES[facts.status])) for code, facts in CODES.items()}

_ACCOUNT_CODES = frozenset({"upstream_auth_failed", "upstream_quota_exhausted"})
"""Failures of the operator's account: the provider's own text about them is not shown to callers."""
_TOO_LONG = "prompt is too long"
_NUMBER = re.compile(r"\d[\d,]{2,}")
_UNKNOWN_MODEL = re.compile(r'model "(.*)" not found(?:\. (Did you mean [^?]*\?))?', re.DOTALL)
_FORBIDDEN_MODEL = re.compile(r'This key may not use the model "(.*)"\. (It may use(?::| no).*)', re.DOTALL)


def words_of(error: StreamweirError) -> ErrorWords:
    """Status and type. Inside a stream only the type is shown."""
    words, native = WORDS[error.code], error.native
    if native is None or native.wire != NativeWire.ANTHROPIC_MESSAGES or error.code in _ACCOUNT_CODES:
        return words
    return ErrorWords(native.status if native.status >= 400 else words.status, native.type or words.type)


def message_of(error: StreamweirError) -> str:
    native = error.native
    is_native = native is not None and native.wire == NativeWire.ANTHROPIC_MESSAGES and error.code not in _ACCOUNT_CODES
    if native is not None and is_native and native.message:
        return native.message
    if error.code == "context_length_exceeded":
        return _too_long(error.message)
    if error.code == "model_not_found":
        return _unusable_model(error.message)
    return error.message


def document_of(error: StreamweirError, request_id: str) -> dict[str, Any]:
    inner = {"type": words_of(error).type, "message": message_of(error), **(error.details or {})}
    return {"type": "error", "error": inner, "request_id": request_id or None}


def _unusable_model(message: str) -> str:
    """In the wording that clients recognise: it begins with the name."""
    found = _UNKNOWN_MODEL.fullmatch(message)
    if found is not None:
        return f"model: {found[1]}" + (f" ({found[2]})" if found[2] else "")
    found = _FORBIDDEN_MODEL.fullmatch(message)
    return f"model: {found[1]} (This key may not use it. {found[2]})" if found is not None else message


def _too_long(message: str) -> str:
    """In the wording that clients recognise. The larger of two numbers is the prompt, the smaller one the limit."""
    if message.startswith(_TOO_LONG):
        return message
    counts = sorted({int(digits.replace(",", "")) for digits in _NUMBER.findall(message)})
    if len(counts) == 2:
        return f"{_TOO_LONG}: {counts[1]} tokens > {counts[0]} maximum. {message}"
    return f"{_TOO_LONG}: {message}"
