"""Tools and the choice among them.

The caller's own tools are functions. A tool that is loaded on demand is sent only after a search has found it. Tools
that Anthropic runs itself are left out and named, with two exceptions: the web search, which other providers have too,
and a request that has no other tools. Then the provider decides (`ChatRequest.server_tools`): one without such a tool
refuses the request, because its answer would be taken for the result of the tool.
"""

import re
from typing import Any

from msgspec import Struct, field

from streamweir.core.errors import CallerError
from streamweir.core.request import ServerTool
from streamweir.frontends.members import Drops, text_in
from streamweir.frontends.tool_name import ToolNames

_WEB_SEARCH = re.compile(r"web_search_20\d{6}")
_TAKEN = frozenset({"type", "name", "description", "input_schema", "strict", "cache_control", "defer_loading"})
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


class ToolPlan(Struct):
    tools: list[dict[str, Any]] = field(default_factory=list)
    choice: str | dict[str, Any] | None = None
    is_parallel: bool | None = None
    server_tools: tuple[ServerTool, ...] = ()


def plan_tools(
    sent: list[dict[str, Any]], choice: dict[str, Any] | None, loaded: set[str], names: ToolNames, drops: Drops
) -> ToolPlan:
    plan = ToolPlan()
    left_out: list[ServerTool] = []
    for i, tool in enumerate(sent):
        path, kind = f"tools[{i}]", tool.get("type")
        if kind in (None, "custom"):
            name = text_in(tool, "name", path)
            if tool.get("defer_loading") is not True or name in loaded:
                plan.tools.append(_function(tool, names.sent(name), path, drops))
        elif isinstance(kind, str) and _WEB_SEARCH.fullmatch(kind):
            plan.server_tools += (ServerTool("web_search", path),)
        else:
            left_out.append(ServerTool(str(kind), path))
    if plan.tools or plan.server_tools:
        for tool_left_out in left_out:
            drops.add(tool_left_out.path)
    else:
        plan.server_tools = tuple(left_out)
    if choice is not None:
        _plan_choice(plan, choice, names, drops)
    return plan


def _function(tool: dict[str, Any], name: str, path: str, drops: Drops) -> dict[str, Any]:
    function: dict[str, Any] = {"name": name}
    description, schema = tool.get("description"), tool.get("input_schema")
    if isinstance(description, str):
        function["description"] = description
    if schema is not None and not isinstance(schema, dict):
        raise CallerError("invalid_type", f"{path}.input_schema must be an object.", param=f"{path}.input_schema")
    if schema:
        # `$schema` names the rules by which the schema is written: no provider needs it, and some refuse it.
        function["parameters"] = {key: value for key, value in schema.items() if key != "$schema"}
    if isinstance(tool.get("strict"), bool):
        function["strict"] = tool["strict"]
    for member in tool:
        if member not in _TAKEN and tool[member] not in (None, False, [], {}):
            drops.add(f"{path}.{member}")
    made: dict[str, Any] = {"type": "function", "function": function}
    if isinstance(tool.get("cache_control"), dict):
        made["cache_control"] = tool["cache_control"]
    return made


def _plan_choice(plan: ToolPlan, choice: dict[str, Any], names: ToolNames, drops: Drops) -> None:
    kind = text_in(choice, "type", "tool_choice")
    if kind != "tool" and kind not in _CHOICES:
        expected = ", ".join([*_CHOICES, "tool"])
        raise CallerError("invalid_value", f"tool_choice.type must be one of {expected}.", param="tool_choice.type")
    if not plan.tools:  # a choice without tools is refused
        return
    if choice.get("disable_parallel_tool_use") is True:
        plan.is_parallel = False
    if kind in _CHOICES:
        plan.choice = _CHOICES[kind]
        return
    name = names.sent(text_in(choice, "name", "tool_choice"))
    if any(tool["function"]["name"] == name for tool in plan.tools):
        plan.choice = {"type": "function", "function": {"name": name}}
    else:
        drops.add("tool_choice")
