"""Tools and the choice among them.

Chat completions have functions with flat names. A tool of a namespace is sent as `NAMESPACE__NAME`, a custom tool as a
function with one text; the caller's form of it is kept (`ToolShape`), and its calls are written in that form. Two
tools that would have one flat name, and a name that other families do not take, get a derived one. A tool that is
loaded on demand is sent once a search has found it. Tools that a provider runs itself are left out and named, except
the web search, which some providers have.
"""

import hashlib
import re
from typing import Any

from msgspec import Struct, field

from streamweir.core.errors import CallerError
from streamweir.core.request import ServerTool, ToolShape
from streamweir.core.validation import missing_parameter
from streamweir.frontends.members import Drops, text_in
from streamweir.frontends.responses.content import objects_in
from streamweir.frontends.tool_name import ToolNames

Tool = dict[str, Any]

_FUNCTIONS = "functions"
"""The namespace whose tools have no prefix: calls of them may name it or not."""
_WEB_SEARCH = re.compile(r"web_search(_preview)?(_20\d\d_?\d\d_?\d\d)?")
_FUNCTION = frozenset({"type", "name", "description", "parameters", "strict", "defer_loading"})
_CUSTOM = frozenset({"type", "name", "description", "format", "defer_loading"})
_NAMESPACE = frozenset({"type", "name", "description", "tools"})
_MODES = ("auto", "none", "required")
_NOT_MEANT: tuple[Any, ...] = (None, False, [], {})


class FlatNames:
    """The names of tools in the body of chat completions, by the caller's namespace and name."""

    def __init__(self) -> None:
        self.shapes: dict[str, ToolShape] = {}
        """Of tools that have another form for the caller."""
        self._names = ToolNames()
        self._flat: dict[tuple[str | None, str], str] = {}
        self._taken: set[str] = set()

    def flat(self, namespace: str | None, name: str, *, custom: bool = False) -> str:
        key = (None if namespace == _FUNCTIONS else namespace, name)
        known = self._flat.get(key)
        if known is not None:
            return known
        joined = name if key[0] is None else f"{namespace}__{name}"
        flat = self._names.sent(joined)
        while flat in self._taken:
            digest = hashlib.sha256(f"{namespace}\0{name}\0{flat}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
            flat = self._names.sent(f"{joined[:40]}_{digest}")
        self._taken.add(flat)
        self._flat[key] = flat
        self._shape(flat, namespace, name, custom=custom)
        return flat

    def declare(self, namespace: str | None, name: str, *, custom: bool) -> str:
        """As `flat`, for a tool itself: declared again, it is what it is now."""
        flat = self.flat(namespace, name, custom=custom)
        self._shape(flat, namespace, name, custom=custom)
        return flat

    def _shape(self, flat: str, namespace: str | None, name: str, *, custom: bool) -> None:
        if custom or flat != name or namespace is not None:
            self.shapes[flat] = ToolShape(name, custom, namespace)
        else:
            self.shapes.pop(flat, None)


class ToolPlan(Struct):
    tools: list[Tool] = field(default_factory=list)
    choice: str | dict[str, Any] | None = None
    server_tools: tuple[ServerTool, ...] = ()


class ToolReader:
    """Reads the tools of one request, which are in `tools` and in items of the input."""

    def __init__(self, names: FlatNames, loaded: set[str], drops: Drops) -> None:
        """`loaded`: own names of tools that were found by a search."""
        self._names = names
        self._loaded = loaded
        self._drops = drops
        self._functions: dict[str, tuple[str, Tool]] = {}
        self._server_tools: list[ServerTool] = []

    def add(self, tools: Any, path: str) -> None:
        for i, tool in enumerate(objects_in(tools, path)):
            self._add(tool, f"{path}[{i}]")

    def plan(self, choice: Any) -> ToolPlan:
        plan = ToolPlan([tool for _, tool in self._functions.values()], None, tuple(self._server_tools))
        if choice is not None:
            plan.choice = self._choice(choice)
        return plan

    def _add(self, tool: Tool, path: str, namespace: str | None = None) -> None:
        kind = text_in(tool, "type", path)
        if kind in ("function", "custom"):
            self._add_own(tool, path, namespace, custom=kind == "custom")
        elif kind == "namespace" and namespace is None:
            self._add_namespace(tool, path)
        elif _WEB_SEARCH.fullmatch(kind):
            self._server_tools.append(ServerTool("web_search", path))
        else:
            self._drops.add(path)

    def _add_namespace(self, tool: Tool, path: str) -> None:
        name = _name_in(tool, path)
        self._name_others(tool, _NAMESPACE, path)
        for i, inner in enumerate(objects_in(tool.get("tools", []), f"{path}.tools")):
            self._add(inner, f"{path}.tools[{i}]", name)

    def _add_own(self, tool: Tool, path: str, namespace: str | None, *, custom: bool) -> None:
        name = _name_in(tool, path)
        if tool.get("defer_loading") is True and name not in self._loaded:
            self._drops.add(path)
            return
        flat = self._names.declare(namespace, name, custom=custom)
        function = _custom(tool, flat, path) if custom else _function(tool, flat, path)
        self._name_others(tool, _CUSTOM if custom else _FUNCTION, path)
        before = self._functions.get(flat)
        if before is not None and before[1]["function"] != function:
            self._drops.add(before[0])  # declared anew: the newest counts
        self._functions[flat] = (path, {"type": "function", "function": function})

    def _name_others(self, tool: Tool, taken: frozenset[str], path: str) -> None:
        for member, value in tool.items():
            if member not in taken and value not in _NOT_MEANT:
                self._drops.add(f"{path}.{member}")

    def _choice(self, choice: Any) -> str | dict[str, Any] | None:
        if isinstance(choice, str):
            if choice not in _MODES:
                message = f"tool_choice must be one of {', '.join(_MODES)}, or an object."
                raise CallerError("invalid_value", message, param="tool_choice")
            if choice == "required" and not self._functions:
                self._drops.add("tool_choice")
            return choice if self._functions else None  # a choice among none is refused
        if not isinstance(choice, dict):
            raise CallerError("invalid_type", "tool_choice must be a string or an object.", param="tool_choice")
        kind = text_in(choice, "type", "tool_choice")
        if kind in ("function", "custom"):
            flat = self._chosen(choice, "tool_choice")
            if flat is not None:
                return {"type": "function", "function": {"name": flat}}
        elif kind == "allowed_tools":
            return self._allowed(choice)
        self._drops.add("tool_choice")
        return None

    def _allowed(self, choice: dict[str, Any]) -> dict[str, Any] | None:
        mode = choice.get("mode", "auto")
        if mode not in ("auto", "required"):
            raise CallerError("invalid_value", "tool_choice.mode must be auto or required.", param="tool_choice.mode")
        names: list[str] = []
        for i, tool in enumerate(objects_in(choice.get("tools"), "tool_choice.tools")):
            flat = self._chosen(tool, f"tool_choice.tools[{i}]") if isinstance(tool.get("name"), str) else None
            if flat is None:
                self._drops.add(f"tool_choice.tools[{i}]")
            else:
                names.append(flat)
        if not names:
            self._drops.add("tool_choice")
            return None
        tools = [{"type": "function", "function": {"name": name}} for name in names]
        return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}

    def _chosen(self, choice: dict[str, Any], path: str) -> str | None:
        """None: there is no such tool."""
        flat = self._names.flat(namespace_in(choice, path), _name_in(choice, path))
        return flat if flat in self._functions else None


def namespace_in(value: dict[str, Any], path: str) -> str | None:
    return text_in(value, "namespace", path) if value.get("namespace") is not None else None


def _name_in(tool: Tool, path: str) -> str:
    name = text_in(tool, "name", path)
    if not name:
        raise missing_parameter(f"{path}.name")
    return name


def _function(tool: Tool, name: str, path: str) -> Tool:
    function = _named(tool, name)
    schema = tool.get("parameters")
    if schema is not None and not isinstance(schema, dict):
        raise CallerError("invalid_type", f"{path}.parameters must be an object.", param=f"{path}.parameters")
    if schema:
        # `$schema` names the version of JSON Schema. No provider needs it, and some refuse it.
        function["parameters"] = {key: value for key, value in schema.items() if key != "$schema"}
    if isinstance(tool.get("strict"), bool):
        function["strict"] = tool["strict"]
    return function


def _custom(tool: Tool, name: str, path: str) -> Tool:
    function = _named(tool, name)
    form = tool.get("format")
    if form is not None and not isinstance(form, dict):
        raise CallerError("invalid_type", f"{path}.format must be an object.", param=f"{path}.format")
    definition = (form or {}).get("definition")
    if isinstance(definition, str) and definition:
        syntax = str((form or {}).get("syntax") or "grammar")
        grammar = f"The input must match this {syntax} grammar:\n{definition}"
        function["description"] = "\n\n".join(text for text in (function.get("description"), grammar) if text)
    function["parameters"] = {
        "type": "object",
        "properties": {"input": {"type": "string", "description": "The whole input of the tool, as plain text."}},
        "required": ["input"],
        "additionalProperties": False,
    }
    return function


def _named(tool: Tool, name: str) -> Tool:
    description = tool.get("description")
    return {"name": name, "description": description} if isinstance(description, str) else {"name": name}
