"""Tools and the choice among them.

Functions become Anthropic's tools. Anthropic's own tools (their types end in a date) are passed on as the caller wrote
them, so that server tools can be used. The exception is a tool that calls another model (the advisor): callers do
not decide which model is called. Tools of other vendors and free-form tools are left out and named.
"""

import re
from typing import Any

from streamweir.core.request import ChatRequest, Function
from streamweir.providers.anthropic.content import DroppedMembers
from streamweir.providers.anthropic.model import Traits

MCP_TOOLSET = "mcp_toolset"

_OWN_TYPE = re.compile(r"[a-z_]+_20\d{6}")
_BETAS = {
    # Anthropic's own tools that require a beta header.
    "code_execution_20250522": "code-execution-2025-05-22",
    "code_execution_20250825": "code-execution-2025-08-25",
    "computer_20241022": "computer-use-2024-10-22",
    "computer_20250124": "computer-use-2025-01-24",
    "computer_20251124": "computer-use-2025-11-24",
    "memory_20250818": "context-management-2025-06-27",
    "web_fetch_20250910": "web-fetch-2025-09-10",
}


def plan_tools(request: ChatRequest, traits: Traits, drops: DroppedMembers) -> list[dict[str, Any]]:
    allowed = request.tool_choice.allowed if request.tool_choice is not None else ()
    sent = request.body.get("functions" if request.uses_legacy_functions else "tools") or ()
    tools: list[dict[str, Any]] = []
    for i, (tool, members) in enumerate(zip(request.tools, sent, strict=True)):
        path = f"functions[{i}]" if request.uses_legacy_functions else f"tools[{i}]"
        if tool.function is not None:
            # Only the tools that may be called are sent: to the model that is the same as a choice among all of them.
            if not allowed or tool.function.name in allowed:
                planned = _function_tool(tool.function, path, traits, drops)
                tools.append(
                    planned if tool.cache_control is None else {**planned, "cache_control": tool.cache_control}
                )
        elif (_OWN_TYPE.fullmatch(tool.type) or tool.type == MCP_TOOLSET) and "model" not in members:
            if tool.type in _BETAS:
                drops.add_beta(_BETAS[tool.type])
            tools.append(members)
        else:
            drops.paths.append(path)
    return tools


def plan_tool_choice(
    request: ChatRequest, traits: Traits, has_tools: bool, drops: DroppedMembers
) -> dict[str, Any] | None:
    choice = request.tool_choice
    mode = "auto" if choice is None else choice.mode
    name = "tool_choice" if request.body.get("tool_choice") is not None else "function_call"
    if mode in ("required", "function") and (not has_tools or not traits.takes_forced_tool):
        drops.paths.append(name)
        mode = "auto"
    if not has_tools:  # Anthropic refuses a choice without tools
        return None
    if mode == "none":
        return {"type": "none"}
    planned: dict[str, Any] = {"type": "any" if mode == "required" else "auto"}
    if mode == "function" and choice is not None:
        planned = {"type": "tool", "name": choice.name}
    if request.parallel_tool_calls is False:
        planned["disable_parallel_tool_use"] = True
    return planned if choice is not None or len(planned) > 1 else None


def _function_tool(function: Function, path: str, traits: Traits, drops: DroppedMembers) -> dict[str, Any]:
    planned: dict[str, Any] = {"name": function.name}
    if function.description:
        planned["description"] = function.description
    planned["input_schema"] = _schema_of(function.parameters)
    if function.strict and traits.takes_schema:
        planned["strict"] = True
    elif function.strict:
        drops.paths.append(f"{path}.strict" if path.startswith("functions") else f"{path}.function.strict")
    return planned


def _schema_of(parameters: dict[str, Any] | None) -> dict[str, Any]:
    """Anthropic requires a type: a function without parameters takes an empty object."""
    if not parameters:
        return {"type": "object", "properties": {}}
    return parameters if "type" in parameters else {"type": "object", **parameters}
