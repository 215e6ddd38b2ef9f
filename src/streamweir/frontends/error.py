"""Errors as OpenAI's APIs write them: what is common to their frontends.

Before the stream starts, an error has its own status. After that the status has been sent, and an error is one frame;
its type and code depend on where the error came from (docs/spec/dialects.md D23).
"""

from typing import Any

from streamweir.core.errors import GatewayFault, StreamweirError
from streamweir.frontends.base import ErrorResponse
from streamweir.wire import jsonio

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

_GATEWAY_REASONS = frozenset({"key_revoked", "budget_exceeded"})
"""Caller errors for which the gateway ends a running stream."""


def write_openai_error(error: StreamweirError) -> ErrorResponse:
    """The answer to a request that failed before its answer began."""
    return ErrorResponse(error.spec.status, jsonio.encode({"error": _members(error, error.spec.type, error.code)}))


def stream_error_members(error: StreamweirError) -> dict[str, Any]:
    """The members of the error frame inside a stream."""
    members = _members(error, error.spec.type if ends_stream(error) else "stream_error", stream_code(error))
    return {**members, "param": None}


def ends_stream(error: StreamweirError) -> bool:
    """The gateway itself has ended the stream, and no upstream failed."""
    return isinstance(error, GatewayFault) or error.code in _GATEWAY_REASONS


def stream_code(error: StreamweirError) -> str:
    """The code of an error inside a stream."""
    return error.code if ends_stream(error) or error.code in STREAM_CODES else "upstream_server_error"


def _members(error: StreamweirError, type: str, code: str) -> dict[str, Any]:
    members: dict[str, Any] = {"message": error.message, "type": type, "param": error.param, "code": code}
    if error.event_id is not None:
        members["event_id"] = error.event_id
    return members if error.details is None else {**members, **error.details}
