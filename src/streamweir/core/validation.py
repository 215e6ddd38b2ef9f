"""Validation of a request's members: an invalid member is a `CallerError` with its JSON path.

This is the one place where msgspec's validation errors become the gateway's, with the path from the top of the body
(`messages[2].content[0].image_url.url`). It does not depend on what is validated.
"""

import re
from typing import TypeVar

import msgspec

from streamweir.core.errors import CallerError

T = TypeVar("T")

_MAX_REASON_LENGTH = 200
_AT = re.compile(r" - at `\$(?P<path>[^`]*)`$")
_MISSING = re.compile(r"^Object missing required field `(?P<name>[^`]*)`")


def missing_parameter(path: str) -> CallerError:
    return CallerError("missing_required_parameter", f"Missing required parameter: '{path}'.", param=path)


def convert(value: object, model: type[T], path: str) -> T:
    """`value` as a `model`; `path` is its JSON path in the body ("" for the body itself)."""
    try:
        return msgspec.convert(value, model)
    except msgspec.ValidationError as complaint:
        text = str(complaint)
    at = _AT.search(text)
    where = (path + (at["path"] if at else "")).lstrip(".")
    reason = _AT.sub("", text)
    absent = _MISSING.match(reason)
    if absent:
        raise missing_parameter(f"{where}.{absent['name']}".lstrip("."))
    is_type = reason.startswith("Expected") and ", got " in reason
    code, word = ("invalid_type", "type") if is_type else ("invalid_value", "value")
    raise CallerError(code, f"Invalid {word} for '{where}': {reason[:_MAX_REASON_LENGTH]}.", param=where or None)
