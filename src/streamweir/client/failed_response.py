"""Errors as a server reports them: the error object of a failed response, or of an error frame.

The four dialects agree on `{"error": {"message", "type", "code"}}`, with members left out; others send a text, or the
object without its envelope. Whatever cannot be read says nothing. The caller's own key, where a server repeats it, is
taken out. Pure; what an error means for the caller is decided elsewhere.
"""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any, NamedTuple

from streamweir.client.error import RequestFailed, kind_of
from streamweir.wire import jsonio

LONGEST = 2000
"""Characters of a server's text that are kept."""
_SHORTEST_KEY = 8
_PASSES = frozenset({408, 429, 500, 502, 503, 504, 529})
"""Statuses after which the same request may succeed a moment later."""
_LASTS = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
"""Codes and types of 429 that no waiting helps against."""


class FailedResponse(NamedTuple):
    message: str
    type: str | None = None
    code: str | None = None
    param: str | None = None


def told_in(value: object, secret: str = "") -> FailedResponse | None:
    """The error that a document tells. None: it tells none."""
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, Mapping):
        return None
    error = value.get("error")
    if isinstance(error, str) and error:
        return _told({**value, "message": error}, secret)
    if isinstance(error, Mapping) and error:
        return _told(error, secret)
    for choice in _objects(value.get("choices")):
        if choice.get("error"):
            return told_in({"error": choice["error"]}, secret)
    groq = value.get("x_groq")
    if isinstance(groq, Mapping) and groq.get("error"):
        return told_in(groq, secret)
    if "choices" not in value and isinstance(value.get("message"), str | Mapping):
        return _told(value, secret)
    return None


def told_in_bytes(data: bytes, secret: str = "") -> FailedResponse | None:
    try:
        return told_in(jsonio.decode(data), secret)
    except jsonio.InvalidJson:
        return None


def read_failure(
    status: int, headers: Mapping[str, str], body: bytes, *, now: float, secret: str = ""
) -> RequestFailed:
    """A response with a status that is no success. `headers` have lower-case names; `now` is Unix time."""
    told = told_in_bytes(body, secret) or FailedResponse(f"the server answered with status {status}")
    return kind_of(status)(
        status,
        told.message,
        type=told.type,
        code=told.code,
        param=told.param,
        retry_after_s=retry_after_s(headers, now),
        request_id=request_id_in(headers, secret),
        may_retry=_may_retry(status, headers, told),
    )


def request_id_in(headers: Mapping[str, str], secret: str = "") -> str | None:
    return hide(headers.get("x-request-id") or headers.get("request-id") or "", secret) or None


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """How long the server wants to be left alone, by its `Retry-After` (seconds, or a date). Garbage is None.

    A date is read against the response's own `Date` where there is one, so that neither clock has to be right.
    """
    told = headers.get("retry-after", "")
    milliseconds = headers.get("retry-after-ms", "")
    try:
        seconds = float(milliseconds) / 1000 if milliseconds else float(told)
    except ValueError:
        when = _date(told)
        if when is None:
            return None
        seconds = when - (_date(headers.get("date", "")) or now)
    return max(seconds, 0.0) if isfinite(seconds) else None


def hide(text: str, secret: str) -> str:
    """Without the secret; one that is shorter than any key (`none`, for a server that wants none) hides nothing."""
    return text.replace(secret, "***") if len(secret) >= _SHORTEST_KEY else text


def _may_retry(status: int, headers: Mapping[str, str], told: FailedResponse) -> bool:
    """The server's own word counts; without it, what statuses are known to mean."""
    word = headers.get("x-should-retry", "").lower()
    if word in ("true", "false"):
        return word == "true"
    if status == 409:
        return "retry-after" in headers  # what is in the way goes away, and it is known when
    return status in _PASSES and not {told.type, told.code} & _LASTS


def _told(members: Mapping[str, Any], secret: str) -> FailedResponse:
    message = members.get("message")
    if isinstance(message, Mapping):
        message = message.get("detail") or message.get("message")
    text = message if isinstance(message, str) and message else "the server gave no reason"
    words = (_word(members.get(name), secret) for name in ("type", "code", "param"))
    return FailedResponse(hide(text, secret)[:LONGEST], *words)


def _word(value: object, secret: str) -> str | None:
    """A code may be a number."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return hide(str(value), secret)[:LONGEST] or None


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
