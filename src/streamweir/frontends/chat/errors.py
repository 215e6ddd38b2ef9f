"""Errors in a dialect's words: the envelope of a failed response, and the frame inside a stream.

Before the stream starts an error has a status of its own. After that the status is gone and
an error is one frame; which words it then carries depends on whose fault it was
(docs/spec/dialects.md D23).
"""

from typing import Any

from streamweir.core.errors import GatewayFault, StreamweirError
from streamweir.frontends.chat.dialect import Dialect, ErrorWords

STREAM_CODES = frozenset(
    {
        "upstream_stream_truncated",
        "upstream_stream_reset",
        "upstream_invalid_frame",
        "upstream_frame_too_large",
        "stream_idle_timeout",
        "stream_deadline_exceeded",
        "response_too_large",
        "upstream_timeout",
        "upstream_overloaded",
        "upstream_server_error",
    }
)
"""The upstream failures that have a code of their own inside a stream; the others are `upstream_server_error`."""

_OUR_REASONS = frozenset({"key_revoked", "budget_exceeded"})
"""What the gateway itself ends a running stream for, though the caller is at fault."""


def words_of(error: StreamweirError, dialect: Dialect) -> ErrorWords:
    """Status, type and code before the stream starts."""
    words = dialect.error_words.get(error.code)
    if words is not None:
        return words
    facts = error.facts
    return ErrorWords(facts.status, facts.type, error.code)


def stream_words_of(error: StreamweirError, dialect: Dialect) -> ErrorWords:
    """Type and code inside a stream."""
    is_ours = isinstance(error, GatewayFault) or error.code in _OUR_REASONS
    if dialect.stream_error is not None and (dialect.stream_error_always or not is_ours):
        return dialect.stream_error
    if is_ours:
        return words_of(error, dialect)
    return ErrorWords(200, "stream_error", error.code if error.code in STREAM_CODES else "upstream_server_error")


def envelope(error: StreamweirError, dialect: Dialect) -> dict[str, Any]:
    """The body of a failed response."""
    return {"error": _members(error, words_of(error, dialect), dialect, error.param)}


def stream_envelope(error: StreamweirError, dialect: Dialect) -> dict[str, Any]:
    """The error frame's document (in a dialect with `error_in_chunk`, its `error` member's)."""
    return {"error": _members(error, stream_words_of(error, dialect), dialect, None)}


def _members(error: StreamweirError, words: ErrorWords, dialect: Dialect, param: str | None) -> dict[str, Any]:
    every = {
        "message": dialect.error_texts.get(error.code, error.message),
        "type": words.type,
        "param": param,
        "code": words.code,
    }
    members: dict[str, Any] = {name: every[name] for name in dialect.error_members}
    if error.event_id is not None:
        members["event_id"] = error.event_id
    return members
