"""Members of a document that may have any type: each is read as the type that is needed, or not at all."""

from collections.abc import Mapping
from typing import Any


def text_of(value: Mapping[str, Any], name: str) -> str | None:
    member = value.get(name)
    return member if isinstance(member, str) else None


def object_of(value: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    member = value.get(name)
    return member if isinstance(member, dict) else None


def objects_in(value: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The objects of a list."""
    member = value.get(name)
    return [each for each in member if isinstance(each, dict)] if isinstance(member, list) else []
