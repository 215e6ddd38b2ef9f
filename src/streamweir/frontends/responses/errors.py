"""Errors as the Responses API words them.

Before an answer: a status and OpenAI's error object. Inside a stream: the frame `error`, at which SDKs raise, and
`response.failed`, by whose code agents decide whether to shorten the conversation, to stop or to try again.
"""

import re
from typing import Any, NamedTuple

from streamweir.core.errors import StreamweirError


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


def document_of(error: StreamweirError) -> dict[str, Any]:
    """The body of an error before the answer."""
    members = {"message": error.message, "type": error.spec.type, "param": error.param, "code": error.code}
    if error.event_id is not None:
        members["event_id"] = error.event_id
    return {"error": members}


def stream_members(error: StreamweirError) -> dict[str, Any]:
    """Of the frame `error`."""
    words = STREAM_WORDS.get(error.code, _SERVER)
    message = error.message
    if words is _RATE and error.retry_after_s is not None and not _SAYS_WHEN.search(message):
        message = f"{message} Please try again in {error.retry_after_s:g}s."  # agents wait for as long as this says
    return {"type": words.type, "code": words.code, "message": message, "param": error.param}
