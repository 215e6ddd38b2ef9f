"""Which of a request's functions writes a file, and the arguments of a call to it.

Decided by the schema: one member that is a path, one that is a content, both of any text, and nothing
else that would have to be made up. So it is the same for clients that name the function and its members
differently. A function that requires more than this does more than write a file, and is not called.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from streamweir.core.request import Function
from streamweir.wire import jsonio

_PATHS = ("filepath", "absolutepath", "path", "targetfile", "filename", "file")
_CONTENTS = ("content", "contents", "filetext", "filecontent", "filecontents")
"""Without case, hyphens and underscores; the first that is there is taken."""

_NAMED_AFTER_IT = ("write", "create", "save", "file", "edit")
_COMMANDS = ("create", "write")
"""Where one function does several things, the word for this one."""

_MOST_FUNCTIONS = 1024
_MOST_MEMBERS = 64
"""More are not looked at: the schemas are the caller's, and no tool that writes a file has as many."""


class FileTool(Struct, frozen=True):
    name: str
    path: str
    """The member that takes the path."""
    content: str
    others: dict[str, Any]
    """The members that it requires besides, with their values."""

    def arguments(self, path: str, content: str) -> str:
        return jsonio.encode({**self.others, self.path: path, self.content: content}).decode()


def find_file_tool(functions: Iterable[Function]) -> FileTool | None:
    """The first that is named after what it does, else the first that can do it."""
    usable: FileTool | None = None
    for function, _ in zip(functions, range(_MOST_FUNCTIONS), strict=False):
        tool = _read(function)
        if tool is not None and any(word in tool.name.lower() for word in _NAMED_AFTER_IT):
            return tool
        usable = usable or tool
    return usable


def _read(function: Function) -> FileTool | None:
    schema = function.parameters or {}
    members, required = schema.get("properties"), schema.get("required", [])
    if not isinstance(members, Mapping) or not isinstance(required, list):
        return None
    if max(len(members), len(required)) > _MOST_MEMBERS:
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
        if name is not None and _takes_any_text(members[name]):
            return name
    return None


def _takes_any_text(schema: object) -> bool:
    return isinstance(schema, Mapping) and "string" in _types(schema) and not {"enum", "const"} & schema.keys()


def _values(schema: object) -> tuple[Any, ...]:
    """What may be said for a member without knowing what it is for: nothing, no, or the command itself."""
    if not isinstance(schema, Mapping):
        return ()
    listed = schema.get("enum")
    if isinstance(listed, list):
        return tuple(word for word in _COMMANDS if word in listed)
    if "null" in _types(schema):
        return (None,)
    return (False,) if "boolean" in _types(schema) else ()


def _types(schema: Mapping[str, Any]) -> list[Any]:
    """The names of the types that it allows."""
    kind, either = schema.get("type"), schema.get("anyOf")
    if isinstance(kind, list):
        return kind
    if isinstance(either, list):
        return [inner.get("type") for inner in either if isinstance(inner, Mapping)]
    return [kind]
