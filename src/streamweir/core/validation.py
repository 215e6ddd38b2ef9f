"""Validation of a request's members: an invalid member is a `CallerError` with its JSON path.

This is the one place where msgspec's validation errors become the gateway's, with the path from the top of the body
(`messages[2].content[0].image_url.url`). It does not depend on what is validated.
"""

import re
from typing import TypeVar

import msgspec
from msgspec import inspect

from streamweir.core.errors import CallerError

T = TypeVar("T")

_MAX_REASON_LENGTH = 200
_AT = re.compile(r" - at `\$(?P<path>[^`]*)`$")
_MISSING = re.compile(r"^Object missing required field `(?P<name>[^`]*)`")
_STEP = re.compile(r"\.(?P<member>\w+)|\[\d+\]|\[\.\.\.\]")


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
    if reason.startswith("Invalid enum value"):
        choices = _choices(model, at["path"] if at else "")
        if choices:
            reason = f"it must be one of {', '.join(choices)}, not {reason.removeprefix('Invalid enum value ')}"
    is_type = reason.startswith("Expected") and ", got " in reason
    code, word = ("invalid_type", "type") if is_type else ("invalid_value", "value")
    raise CallerError(code, f"Invalid {word} for '{where}': {reason[:_MAX_REASON_LENGTH]}.", param=where or None)


def _choices(model: object, path: str) -> tuple[str, ...]:
    """The values that the member of `model` at this path may have, if it is one of a list of words."""
    reached: list[inspect.Type] = [inspect.type_info(model)]
    for step in _STEP.finditer(path):
        reached = [inner for outer in _members_of_unions(reached) for inner in _inside(outer, step["member"])]
    words = [each.values for each in _members_of_unions(reached) if isinstance(each, inspect.LiteralType)]
    return tuple(str(value) for values in words for value in values)


def _members_of_unions(types: list[inspect.Type]) -> list[inspect.Type]:
    return [each for one in types for each in (one.types if isinstance(one, inspect.UnionType) else (one,))]


def _inside(outer: inspect.Type, member: str | None) -> list[inspect.Type]:
    """The type of a member of an object, or of an item of a list (`member` is None)."""
    if member is None:
        return [outer.item_type] if isinstance(outer, inspect.ListType | inspect.VarTupleType) else []
    fields = outer.fields if isinstance(outer, inspect.StructType) else ()
    return [field.type for field in fields if field.encode_name == member]
