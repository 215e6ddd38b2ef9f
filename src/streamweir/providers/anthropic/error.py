"""Anthropic's own words for a failure, kept for callers who speak its API: they act on them.

A client shortens its conversation, leaves its thinking out or waits, by the type and the text of an error.
"""

import re
from collections.abc import Mapping
from typing import Any

from streamweir.core.errors import StreamweirError, ToldError, scrub
from streamweir.providers.failure import ErrorDetails, classify, retry_after_s
from streamweir.wire import jsonio
from streamweir.wire.native import NativeWire

_TYPE = re.compile(r"[a-z][a-z_]{0,63}")
IN_STREAM = 200


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> StreamweirError:
    """A failed response. What cannot be read says nothing."""
    try:
        value = jsonio.decode(body)
    except jsonio.InvalidJson:
        value = None
    return _with_told(classify(ErrorDetails(value), status, retry_after_s(headers)), value, status)


def error_in(data: bytes) -> StreamweirError:
    """An error frame's document."""
    value = jsonio.decode(data)
    return _with_told(classify(ErrorDetails(value)), value, IN_STREAM)


def _with_told(error: StreamweirError, value: Any, status: int) -> StreamweirError:
    inner = value.get("error") if isinstance(value, dict) else None
    kind, message = (inner.get("type"), inner.get("message")) if isinstance(inner, dict) else (None, None)
    if isinstance(kind, str) and _TYPE.fullmatch(kind):
        text = scrub(message) if isinstance(message, str) else ""
        error.told = ToldError(NativeWire.ANTHROPIC_MESSAGES, status, kind, text)
    return error
