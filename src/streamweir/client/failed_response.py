"""Parses the errors that a server sends: the error object of a failed response, or of an error frame.

The four dialects use `{"error": {"message", "type", "code"}}`, with some members optional; other servers send a text,
or the object without its envelope. What cannot be parsed is ignored. If a server repeats the caller's key, the key is
masked. Pure; what an error means for the caller is decided elsewhere.
"""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any, NamedTuple

from streamweir.client.error import RequestFailed, error_class
from streamweir.wire import jsonio

MAX_TEXT_LENGTH = 2000
"""A longer text of a server is cut."""
_MIN_KEY_LENGTH = 8
_TEMPORARY_STATUSES = frozenset({408, 429, 500, 502, 503, 504, 529})
"""The same request may succeed a moment later."""
_PERMANENT_ERRORS = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
"""Codes and types of 429 for which a retry does not help."""


class FailedResponse(NamedTuple):
    message: str
    type: str | None = None
    code: str | None = None
    param: str | None = None


def find_error(value: object, secret: str = "") -> FailedResponse | None:
    """The error in a JSON document. None if it contains none."""
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, Mapping):
        return None
    error = value.get("error")
    if isinstance(error, str) and error:
        return _read_error({**value, "message": error}, secret)
    if isinstance(error, Mapping) and error:
        return _read_error(error, secret)
    for choice in _objects(value.get("choices")):
        if choice.get("error"):
            return find_error({"error": choice["error"]}, secret)
    groq = value.get("x_groq")
    if isinstance(groq, Mapping) and groq.get("error"):
        return find_error(groq, secret)
    if "choices" not in value and isinstance(value.get("message"), str | Mapping):
        return _read_error(value, secret)
    return None


def find_error_in_bytes(data: bytes, secret: str = "") -> FailedResponse | None:
    try:
        return find_error(jsonio.decode(data), secret)
    except jsonio.InvalidJson:
        return None


def read_failure(
    status: int, headers: Mapping[str, str], body: bytes, *, now: float, secret: str = ""
) -> RequestFailed:
    """The error for a response whose status is not a success. `headers` have lower-case names; `now` is Unix time."""
    failure = find_error_in_bytes(body, secret) or FailedResponse(f"the server answered with status {status}")
    return error_class(status)(
        status,
        failure.message,
        type=failure.type,
        code=failure.code,
        param=failure.param,
        retry_after_s=retry_after_s(headers, now),
        request_id=request_id_of(headers, secret),
        may_retry=_may_retry(status, headers, failure),
    )


def request_id_of(headers: Mapping[str, str], secret: str = "") -> str | None:
    return mask_secret(headers.get("x-request-id") or headers.get("request-id") or "", secret) or None


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """The delay that the server's `Retry-After` (seconds, or a date) requires. None if it cannot be parsed.

    A date is compared with the response's own `Date` if there is one, so that neither clock has to be right.
    """
    value = headers.get("retry-after", "")
    milliseconds = headers.get("retry-after-ms", "")
    try:
        seconds = float(milliseconds) / 1000 if milliseconds else float(value)
    except ValueError:
        when = _timestamp(value)
        if when is None:
            return None
        seconds = when - (_timestamp(headers.get("date", "")) or now)
    return max(seconds, 0.0) if isfinite(seconds) else None


def mask_secret(text: str, secret: str) -> str:
    """Masks the secret. A very short one (`none`, for a server without keys) is not secret and is not masked."""
    return text.replace(secret, "***") if len(secret) >= _MIN_KEY_LENGTH else text


def _may_retry(status: int, headers: Mapping[str, str], failure: FailedResponse) -> bool:
    """Decided by the server's `x-should-retry`; without it, by the status."""
    should_retry = headers.get("x-should-retry", "").lower()
    if should_retry in ("true", "false"):
        return should_retry == "true"
    if status == 409:
        return "retry-after" in headers  # the server says when the conflict is over
    return status in _TEMPORARY_STATUSES and not {failure.type, failure.code} & _PERMANENT_ERRORS


def _read_error(members: Mapping[str, Any], secret: str) -> FailedResponse:
    message = members.get("message")
    if isinstance(message, Mapping):
        message = message.get("detail") or message.get("message")
    text = message if isinstance(message, str) and message else "the server gave no reason"
    words = (_text_of(members.get(name), secret) for name in ("type", "code", "param"))
    return FailedResponse(mask_secret(text, secret)[:MAX_TEXT_LENGTH], *words)


def _text_of(value: object, secret: str) -> str | None:
    """The text of a member; a code may be a number."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return mask_secret(str(value), secret)[:MAX_TEXT_LENGTH] or None


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _timestamp(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
