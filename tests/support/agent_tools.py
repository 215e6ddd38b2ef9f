"""The calls with which a scripted model writes and reads a file by the tools that an agent offers.

Claude Code and opencode have a tool for each, spelled in their own ways. Codex has a shell (`exec_command`); for models
that it knows also patches (`apply_patch`, a custom tool), or one tool (`exec`, a custom tool too) that runs JavaScript,
from which the others are called.
"""

import json
import shlex

from support.agent_turn import ModelRequest, ToolCall


def can_write(request: ModelRequest) -> bool:
    return any(_find(request, tool) is not None for tool in ("write", "exec_command", "exec"))


def write_call(request: ModelRequest, number: int, path: str, content: str) -> ToolCall:
    if _find(request, "exec") is not None:
        return _call(
            request, "exec", number, input=f"text(await tools.apply_patch({json.dumps(_patch(path, content))}))"
        )
    if _find(request, "apply_patch") is not None:
        return _call(request, "apply_patch", number, input=_patch(path, content))
    if _find(request, "exec_command") is not None:
        return _call(request, "exec_command", number, cmd=f"printf %s {shlex.quote(content)} > {shlex.quote(path)}")
    return _call(request, "write", number, filepath=path, content=content)


def read_call(request: ModelRequest, number: int, path: str) -> ToolCall:
    command = f"cat {shlex.quote(path)}"
    if _find(request, "exec") is not None:
        source = f"text((await tools.exec_command({json.dumps({'cmd': command})})).output)"
        return _call(request, "exec", number, input=source)
    if _find(request, "exec_command") is not None:
        return _call(request, "exec_command", number, cmd=command)
    return _call(request, "read", number, filepath=path)


def other_call(request: ModelRequest, number: int, tool: str, **arguments: str) -> ToolCall:
    """Of any tool, in whatever namespace."""
    name = next(each for each in request.tools if each.endswith(tool))
    return ToolCall(f"call_{number:02d}scripted", name, arguments)


def _patch(path: str, content: str) -> str:
    added = "".join(f"+{line}\n" for line in content.splitlines())
    return f"*** Begin Patch\n*** Add File: {path}\n{added}*** End Patch\n"


def _call(request: ModelRequest, tool: str, number: int, **values: str) -> ToolCall:
    """With the agent's own spelling of the tool and its arguments (`file_path`, `filePath`)."""
    name = _find(request, tool)
    if name is None:
        raise AssertionError(f"no tool {tool} among {sorted(request.tools)}")
    members = request.tools[name].get("properties", {})
    spelled = {member.replace("_", "").lower(): member for member in members}
    arguments = {spelled[each]: value for each, value in values.items()}
    return ToolCall(f"call_{number:02d}scripted", name, arguments, name in request.custom_tools)


def _find(request: ModelRequest, tool: str) -> str | None:
    return next((name for name in request.tools if name.lower() == tool), None)
