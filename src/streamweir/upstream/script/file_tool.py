"""Finds the function of a request that writes a file, and builds the arguments of a call.

The schema decides: it must have one member for a path and one for the content, both for any text, and no other required
member without an obvious value. So the names of the function and of its members may differ between clients. A function
that requires more does more than write a file, and is not called.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from streamweir.core.request import Function
from streamweir.wire import jsonio

_PATHS = ("filepath", "absolutepath", "path", "targetfile", "filename", "file")
_CONTENTS = ("content", "contents", "filetext", "filecontent", "filecontents")
"""Compared without case, hyphens and underscores; the first match is used."""

_NAME_WORDS = ("write", "create", "save", "file", "edit")
_COMMANDS = ("create", "write")
"""The command for writing, if a function has several commands."""

_MAX_FUNCTIONS = 1024
_MAX_MEMBERS = 64
"""Further ones are ignored: the schemas come from the caller, and no tool that writes a file has as many."""


class FileTool(Struct, frozen=True):
    name: str
    path: str
    """The member for the path."""
    content: str
    others: dict[str, Any]
    """Its other required members, with their values."""

    def arguments(self, path: str, content: str) -> str:
        return jsonio.encode({**self.others, self.path: path, self.content: content}).decode()


def find_file_tool(functions: Iterable[Function]) -> FileTool | None:
    """The first suitable function with a fitting name, else the first suitable one."""
    usable: FileTool | None = None
    for function, _ in zip(functions, range(_MAX_FUNCTIONS), strict=False):
        tool = _read(function)
        if tool is not None and any(word in tool.name.lower() for word in _NAME_WORDS):
            return tool
        usable = usable or tool
    return usable


def _read(function: Function) -> FileTool | None:
    schema = function.parameters or {}
    members, required = schema.get("properties"), schema.get("required", [])
    if not isinstance(members, Mapping) or not isinstance(required, list):
        return None
    if max(len(members), len(required)) > _MAX_MEMBERS:
        return None
    path, content = _member(members, _PATHS), _member(members, _CONTENTS)
    if path is None or content is None:
        return None
    others: dict[str, Any] = {}
    for name in required:
        if name in (path, content):
            continue
        values = _values(members.get(name)) if isinstance(name, str) else ()
        if not values:
            return None
        others[name] = values[0]
    return FileTool(function.name, path, content, others)


def _member(members: Mapping[str, Any], known: tuple[str, ...]) -> str | None:
    plain = {name.lower().replace("_", "").replace("-", ""): name for name in members}
    for word in known:
        name = plain.get(word)
        if name is not None and _accepts_any_text(members[name]):
            return name
    return None


def _accepts_any_text(schema: object) -> bool:
    return isinstance(schema, Mapping) and "string" in _types(schema) and not {"enum", "const"} & schema.keys()


def _values(schema: object) -> tuple[Any, ...]:
    """Safe values for a member of unknown meaning: null, false, or the command."""
    if not isinstance(schema, Mapping):
        return ()
    listed = schema.get("enum")
    if isinstance(listed, list):
        return tuple(word for word in _COMMANDS if word in listed)
    if "null" in _types(schema):
        return (None,)
    return (False,) if "boolean" in _types(schema) else ()


def _types(schema: Mapping[str, Any]) -> list[Any]:
    """The allowed types."""
    kind, either = schema.get("type"), schema.get("anyOf")
    if isinstance(kind, list):
        return kind
    if isinstance(either, list):
        return [inner.get("type") for inner in either if isinstance(inner, Mapping)]
    return [kind]
