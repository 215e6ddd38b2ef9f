"""Failures on the Responses wire, with the provider's own error for callers of the same API.

An error is in the body of a failed response, in an `error` frame (inside `error`, or next to its type), or in the
`error` of a response with the status `failed`.
"""

import re
from collections.abc import Mapping
from typing import Any

from streamweir.core.errors import NativeError, StreamweirError, scrub
from streamweir.providers.failure import ErrorDetails, classify, retry_after_s
from streamweir.wire import jsonio
from streamweir.wire.native import NativeWire

_WORD = re.compile(r"[a-zA-Z][\w.-]{0,63}", re.ASCII)
IN_STREAM = 200


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> StreamweirError:
    """A failed response. A body that cannot be read is ignored."""
    try:
        value = jsonio.decode(body)
    except jsonio.InvalidJson:
        value = None
    return _with_native(classify(ErrorDetails(value), status, retry_after_s(headers)), value, status)


def error_in(data: bytes) -> StreamweirError:
    """An `error` frame's document."""
    return error_of(jsonio.decode(data))


def error_of(value: Any) -> StreamweirError:
    """An error inside a stream: a frame's document, or the response that failed."""
    return _with_native(classify(ErrorDetails(value)), value, IN_STREAM)


def _with_native(error: StreamweirError, value: Any, status: int) -> StreamweirError:
    inner = value.get("error", value) if isinstance(value, dict) else None
    if not isinstance(inner, dict):
        return error
    message, kind, code, param = (inner.get(name) for name in ("message", "type", "code", "param"))
    if inner is value and kind == "error":
        kind = None  # the type of the frame
    if isinstance(message, str) and message:
        error.native = NativeError(
            NativeWire.OPENAI_RESPONSES,
            status,
            _word(kind) or "",
            scrub(message),
            _word(code),
            scrub(param) or None if isinstance(param, str) else None,
        )
    return error


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and _WORD.fullmatch(value) else None
