"""Errors in a dialect's format: the body of a failed response, and the frame inside a stream.

Before the stream starts, an error has its own status. After that the status has been sent, and an error is one frame;
its type and code depend on where the error came from (docs/spec/dialects.md D23).
"""

from typing import Any

from streamweir.core.errors import StreamweirError
from streamweir.frontends.chat.dialect import Dialect, ErrorFields
from streamweir.frontends.error import ends_stream, stream_code


def error_fields(error: StreamweirError, dialect: Dialect) -> ErrorFields:
    """Status, type and code before the stream starts."""
    fields = dialect.error_overrides.get(error.code)
    if fields is not None:
        return fields
    spec = error.spec
    return ErrorFields(spec.status, spec.type, error.code)


def stream_error_fields(error: StreamweirError, dialect: Dialect) -> ErrorFields:
    """Type and code inside a stream."""
    is_ours = ends_stream(error)
    if dialect.stream_error is not None and (dialect.stream_error_always or not is_ours):
        return dialect.stream_error
    if is_ours:
        return error_fields(error, dialect)
    return ErrorFields(200, "stream_error", stream_code(error))


def envelope(error: StreamweirError, dialect: Dialect) -> dict[str, Any]:
    """The body of a failed response."""
    return {"error": _members(error, error_fields(error, dialect), dialect, error.param)}


def stream_envelope(error: StreamweirError, dialect: Dialect) -> dict[str, Any]:
    """The document of the error frame (with `error_in_chunk`: the value of its `error` member)."""
    return {"error": _members(error, stream_error_fields(error, dialect), dialect, None)}


def _members(error: StreamweirError, fields: ErrorFields, dialect: Dialect, param: str | None) -> dict[str, Any]:
    every = {
        "message": dialect.error_messages.get(error.code, error.message),
        "type": fields.type,
        "param": param,
        "code": fields.code,
    }
    members: dict[str, Any] = {name: every[name] for name in dialect.error_members}
    if error.event_id is not None:
        members["event_id"] = error.event_id
    if error.details is not None and dialect.has_error_details:
        members |= error.details
    return members
