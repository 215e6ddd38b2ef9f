"""Anthropic's errors: classified, and kept as `NativeError` for callers of the Messages API.

Such a client reacts to the type and the text of an error: it shortens its conversation, leaves its thinking out, or
waits.
"""

import re
from collections.abc import Mapping
from typing import Any

from streamweir.core.errors import NativeError, StreamweirError, scrub
from streamweir.providers.failure import ErrorDetails, classify, retry_after_s
from streamweir.wire import jsonio
from streamweir.wire.native import NativeWire

_TYPE = re.compile(r"[a-z][a-z_]{0,63}")
IN_STREAM = 200


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> StreamweirError:
    """The error of a failed response. A body that is not JSON is ignored."""
    try:
        value = jsonio.decode(body)
    except jsonio.InvalidJson:
        value = None
    return _with_native(classify(ErrorDetails(value), status, retry_after_s(headers)), value, status)


def error_in(data: bytes) -> StreamweirError:
    """The error in the document of an error frame."""
    value = jsonio.decode(data)
    return _with_native(classify(ErrorDetails(value)), value, IN_STREAM)


def _with_native(error: StreamweirError, value: Any, status: int) -> StreamweirError:
    inner = value.get("error") if isinstance(value, dict) else None
    kind, message = (inner.get("type"), inner.get("message")) if isinstance(inner, dict) else (None, None)
    if isinstance(kind, str) and _TYPE.fullmatch(kind):
        text = scrub(message) if isinstance(message, str) else ""
        error.native = NativeError(NativeWire.ANTHROPIC_MESSAGES, status, kind, text)
    return error
