"""Finds the function of a request that writes a file, and builds the arguments of a call.

The schema decides: it must have one member for a path and one for the content, both for any text, and no other required
member without an obvious value. So the names of the function and of its members may differ between clients. A function
that requires more does more than write a file, and is not called.

Codex has no such function, but a shell. It is recognized by its name, and the command does not overwrite files.
"""

import shlex
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

_SHELL, _SHELL_COMMAND = "exec_command", "cmd"
"""The name of Codex's shell and of its member for the command."""
_REDIRECTION = " > "

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

    @property
    def description(self) -> str:
        return f"takes a path ({self.path}) and a content ({self.content})"

    def arguments(self, path: str, content: str) -> str:
        return jsonio.encode({**self.others, self.path: path, self.content: content}).decode()


class Shell(Struct, frozen=True):
    """A function that runs a command."""

    name: str
    command: str
    """The member for the command."""

    @property
    def description(self) -> str:
        return f"runs a command ({self.command})"

    def arguments(self, path: str, content: str) -> str:
        command = f"set -C; printf %s {shlex.quote(content)}{_REDIRECTION}{shlex.quote(path)}"
        return jsonio.encode({self.command: command}).decode()


def find_file_tool(functions: Iterable[Function]) -> FileTool | Shell | None:
    """The first suitable function with a fitting name, else the first suitable one, else the shell."""
    usable: FileTool | None = None
    shell: Shell | None = None
    for function, _ in zip(functions, range(_MAX_FUNCTIONS), strict=False):
        tool = _read(function)
        if tool is not None and any(word in tool.name.lower() for word in _NAME_WORDS):
            return tool
        usable = usable or tool
        shell = shell or _read_shell(function)
    return usable or shell


def written_path(value: str) -> str:
    """The path in an argument of a call: the value itself, or the last word of a shell's command."""
    if not value.startswith("set -C; "):
        return value
    try:
        words = shlex.split(value.rpartition(_REDIRECTION)[2])
    except ValueError:  # the command is not one of ours
        return value
    return words[0] if words else value


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


def _read_shell(function: Function) -> Shell | None:
    schema = function.parameters or {}
    members = schema.get("properties")
    if function.name != _SHELL or schema.get("required") != [_SHELL_COMMAND] or not isinstance(members, Mapping):
        return None
    return Shell(_SHELL, _SHELL_COMMAND) if _accepts_any_text(members.get(_SHELL_COMMAND)) else None


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
