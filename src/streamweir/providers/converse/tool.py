"""Tools and the choice among them.

Functions are sent; tools that a vendor runs itself, and free-form tools, are left out and named. Converse has no word
for a choice of none, and requires the tools as soon as the conversation has calls. So the tools are left out if
nothing was called yet, which is the same to the model; else they stay, and the choice is named as dropped. A
conversation with calls whose request has no tools any more gets tools of the same names.
"""

from collections.abc import Iterable
from typing import Any

from streamweir.core.request import ChatRequest, Function
from streamweir.providers.converse.content import Writer
from streamweir.providers.converse.model import Forced

_NO_PARAMETERS = {"type": "object", "properties": {}}


def plan_tools(request: ChatRequest, called: Iterable[str], writer: Writer) -> dict[str, Any] | None:
    """`toolConfig`; None: it is not sent. `called`: the names of the tools that were called before."""
    choice = request.tool_choice
    mode = "auto" if choice is None else choice.mode
    at = "tool_choice" if request.body.get("tool_choice") is not None else "function_call"
    names = list(called)
    if mode == "none":
        if not names:
            return None
        writer.dropped.append(at)
    allowed = choice.allowed if choice is not None else ()
    name = choice.name if choice is not None and mode == "function" else None
    forced = writer.traits.forced
    if forced is Forced.ANY and any(tool.function is not None and tool.function.name == name for tool in request.tools):
        # Only the tools that may be called are sent: to the model that is the same as a choice among all of them.
        allowed, name, mode = (name or "",), None, "required"
    tools = _tools_of(request, allowed, writer)
    if not tools:
        if mode in ("required", "function"):
            writer.dropped.append(at)
        return {"tools": [_tool(each) for each in names]} if names else None
    config: dict[str, Any] = {"tools": tools}
    if mode in ("required", "function") and forced is Forced.NONE:
        writer.dropped.append(at)
    elif name is not None:
        config["toolChoice"] = {"tool": {"name": name}}
    elif mode == "required":
        config["toolChoice"] = {"any": {}}
    return config


def is_forced(config: dict[str, Any] | None) -> bool:
    return config is not None and "toolChoice" in config


def _tools_of(request: ChatRequest, allowed: Iterable[str], writer: Writer) -> list[dict[str, Any]]:
    allowed = frozenset(allowed)
    tools: list[dict[str, Any]] = []
    for i, tool in enumerate(request.tools):
        path = f"functions[{i}]" if request.uses_legacy_functions else f"tools[{i}]"
        if tool.function is None:
            writer.dropped.append(path)
        elif not allowed or tool.function.name in allowed:
            tools.append(_function_tool(tool.function, path, writer))
            if tool.cache_control is not None:
                mark_path = f"{path}.cache_control"
                writer.add_point(tools, tool.cache_control, mark_path, is_taken=writer.traits.caches_tools)
    return tools


def _function_tool(function: Function, path: str, writer: Writer) -> dict[str, Any]:
    tool = _tool(function.name, function.description or "", _schema_of(function.parameters))
    if function.strict and writer.traits.takes_schema:
        tool["toolSpec"]["strict"] = True
    elif function.strict:
        writer.dropped.append(f"{path}.strict" if path.startswith("functions") else f"{path}.function.strict")
    return tool


def _tool(name: str, description: str = "", schema: dict[str, Any] = _NO_PARAMETERS) -> dict[str, Any]:
    spec: dict[str, Any] = {"name": name}
    if description.strip():  # refused if it is blank
        spec["description"] = description
    spec["inputSchema"] = {"json": schema}
    return {"toolSpec": spec}


def _schema_of(parameters: dict[str, Any] | None) -> dict[str, Any]:
    """A type is required: a function without parameters takes an empty object."""
    if not parameters:
        return _NO_PARAMETERS
    return parameters if "type" in parameters else {"type": "object", **parameters}
