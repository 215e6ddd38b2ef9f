"""Writes tables as TOML text. Empty tables are left out."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from json import dumps
from typing import Any


def write(tables: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Writes `[name]` for each table, or `[[name]]` if the name has these brackets."""
    parts = []
    for name, members in tables:
        lines = [f"{_key(key)} = {_value(value)}" for key, value in members.items() if value is not None]
        if lines:
            parts.append("\n".join([name if name.startswith("[[") else f"[{name}]", *lines]))
    return "\n\n".join(parts) + "\n" if parts else ""


def _key(name: str) -> str:
    return name if name.isascii() and name.replace("-", "").replace("_", "").isalnum() else _text(name)


def _value(value: object, *, in_table: bool = False) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case Decimal():
            text = format(value.normalize(), "f")
            return text if "." in text else f"{text}.0"
        case str():
            return _text(value)
        case Mapping():
            if not value:
                return "{}"
            return (
                "{ "
                + ", ".join(
                    f"{_key(name)} = {_value(item, in_table=True)}" for name, item in value.items() if item is not None
                )
                + " }"
            )
        case [*items] if items and isinstance(items[0], Mapping) and not in_table:
            return "[\n" + "".join(f"    {_value(item)},\n" for item in items) + "]"
        case [*items]:
            return "[" + ", ".join(_value(item, in_table=True) for item in items) + "]"
    raise TypeError(type(value))


def _text(text: str) -> str:
    """TOML escapes strings as JSON does, and DEL in addition."""
    whole = text.encode("utf-8", "replace").decode()
    return dumps(whole, ensure_ascii=False).replace("\x7f", "\\u007f")
