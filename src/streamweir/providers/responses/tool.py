"""Tools and the choice among them.

Functions are flat on this wire, and `strict` is always written, because its default is true. Tools that the provider
runs itself are sent if they refer to nothing in the provider's account (a search). Others (files, containers, other
servers) may be another caller's, and are left out and named.
"""

from typing import Any

from streamweir.core.request import ChatRequest, Function
from streamweir.providers.openai.vendor import ResponsesWire

_OWN_TYPES = ("web_search", "web_search_preview", "x_search")
_WEB_SEARCH = "web_search"


def plan_tools(request: ChatRequest, wire: ResponsesWire, dropped: list[str]) -> list[dict[str, Any]]:
    sent = request.body.get("functions" if request.uses_legacy_functions else "tools") or ()
    tools: list[dict[str, Any]] = []
    for i, (tool, members) in enumerate(zip(request.tools, sent, strict=True)):
        path = f"functions[{i}]" if request.uses_legacy_functions else f"tools[{i}]"
        if tool.cache_control is not None:
            dropped.append(f"{path}.cache_control")
        if tool.function is not None:
            tools.append(_function(tool.function))
        elif tool.custom is not None and isinstance(tool.custom.get("name"), str):
            tools.append(_custom(tool.custom))
        elif tool.type in _OWN_TYPES and tool.type in wire.server_tools:
            tools.append({name: value for name, value in members.items() if name != "cache_control"})
        else:
            dropped.append(path)
    for kind, where in request.server_tools:
        if kind in wire.server_tools:
            tools.append({"type": kind})
        else:
            dropped.append(where)
    options = request.web_search_options
    if options is not None and _WEB_SEARCH in wire.server_tools:
        tools.append(_search(options))
    elif options is not None:
        dropped.append("web_search_options")
    return tools


def plan_tool_choice(request: ChatRequest, tools: list[dict[str, Any]], dropped: list[str]) -> Any:
    """None: the member is not sent, which means `auto`."""
    choice = request.tool_choice
    if choice is None:
        return None
    if not tools:
        if choice.mode not in ("auto", "none"):
            dropped.append("tool_choice" if request.body.get("tool_choice") is not None else "function_call")
        return None
    kinds = {tool["name"]: tool["type"] for tool in tools if "name" in tool}
    if choice.allowed:
        allowed = [{"type": kinds.get(name, "function"), "name": name} for name in choice.allowed]
        return {"type": "allowed_tools", "mode": choice.mode, "tools": allowed}
    if choice.mode == "function":
        return {"type": kinds.get(choice.name or "", "function"), "name": choice.name}
    return choice.mode


def _function(function: Function) -> dict[str, Any]:
    written: dict[str, Any] = {"type": "function", "name": function.name}
    if function.description:
        written["description"] = function.description
    written["parameters"] = function.parameters or {"type": "object", "properties": {}}
    written["strict"] = bool(function.strict)
    return written


def _custom(custom: dict[str, Any]) -> dict[str, Any]:
    """The same members, but a grammar is flat in `format`."""
    written = {"type": "custom", **{name: value for name, value in custom.items() if value is not None}}
    form = custom.get("format")
    if isinstance(form, dict) and isinstance(form.get("grammar"), dict):
        written["format"] = {"type": "grammar", **form["grammar"]}
    return written


def _search(options: dict[str, Any]) -> dict[str, Any]:
    written: dict[str, Any] = {"type": _WEB_SEARCH}
    if options.get("search_context_size") is not None:
        written["search_context_size"] = options["search_context_size"]
    location = options.get("user_location")
    if isinstance(location, dict) and isinstance(location.get("approximate"), dict):
        written["user_location"] = {"type": "approximate", **location["approximate"]}
    return written
