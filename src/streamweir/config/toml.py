"""Writes TOML: whole tables for the importer, and single keys and values for the display of a configuration.

What the standard library's reader makes of it is what was written. A character that would not be visible is written as
its escape, so that a text can be shown anywhere.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from json import dumps
from typing import Any

_EXACT = Decimal("1e-9")
_LARGE = Decimal("1e16")
"""Numbers beyond these are written with an exponent."""


def write(tables: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Writes `[name]` for each table, or `[[name]]` if the name has these brackets. Empty tables are left out."""
    parts = []
    for name, members in tables:
        lines = [f"{key_text(key)} = {_value(value)}" for key, value in members.items() if value is not None]
        if lines:
            parts.append("\n".join([name if name.startswith("[[") else f"[{name}]", *lines]))
    return "\n\n".join(parts) + "\n" if parts else ""


def key_text(name: str) -> str:
    return name if name.isascii() and name.replace("-", "").replace("_", "").isalnum() else _text(name)


def value_text(value: object) -> str:
    """On one line."""
    return _value(value, in_table=True)


def _value(value: object, *, in_table: bool = False) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case float():
            number = Decimal(repr(value))
            return _decimal(number) if not value or _EXACT <= abs(number) < _LARGE else repr(value)
        case Decimal():
            return _decimal(value)
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case str():
            return _text(value)
        case Mapping():
            if not value:
                return "{}"
            return (
                "{ "
                + ", ".join(
                    f"{key_text(name)} = {_value(item, in_table=True)}"
                    for name, item in value.items()
                    if item is not None
                )
                + " }"
            )
        case [*items] if items and isinstance(items[0], Mapping) and not in_table:
            return "[\n" + "".join(f"    {_value(item)},\n" for item in items) + "]"
        case [*items]:
            return "[" + ", ".join(_value(item, in_table=True) for item in items) + "]"
    raise TypeError(type(value))


def _decimal(number: Decimal) -> str:
    text = format(number.normalize(), "f")
    return text if "." in text else f"{text}.0"


def _text(text: str) -> str:
    """TOML escapes strings as JSON does."""
    whole = dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=False)
    return whole if whole.isprintable() else "".join(each if each.isprintable() else _escape(each) for each in whole)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
