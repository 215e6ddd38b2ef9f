"""Anthropic's API at a cloud: what a cloud takes of a call.

A cloud answers a beta or a member that it does not know with 400, and agents send new ones with every release. So a
cloud gets the betas that it is known to take, under its own names, and no member that needs another one. What is left
out is named: a beta that the caller sent as `anthropic-beta.NAME`.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from streamweir.core.errors import CallerError
from streamweir.core.request import ChatRequest
from streamweir.providers.anthropic.request import MessagesCall
from streamweir.providers.base import is_default, no_server_tool
from streamweir.wire.native import NativeWire

_HEADER = "anthropic-beta"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SCOPES = "prompt-caching-scope-2026-01-05"
_NEEDS: Mapping[tuple[str, ...], frozenset[str]] = {
    ("container",): frozenset({"code-execution-2025-08-25", "skills-2025-10-02"}),
    ("context_management",): frozenset(
        {"context-management-2025-06-27", "compact-2026-01-12", "compact-2026-09-04"}
    ),
    ("mcp_servers",): frozenset({"mcp-client-2025-04-04", "mcp-client-2025-11-20"}),
    ("output_config", "task_budget"): frozenset({"task-budgets-2026-03-13"}),
    ("thinking", "block_binding"): frozenset({"thinking-binding-controls-2026-08-01"}),
}  # fmt: skip
"""Members, and the betas of which they need one."""


_WITHOUT_EFFECT = frozenset(
    {
        "claude-code-20250219",
        "effort-2025-11-24",
        "fine-grained-tool-streaming-2025-05-14",
        "oauth-2025-04-20",
        "output-128k-2025-02-19",
        "prompt-caching-2024-07-31",
        "structured-outputs-2025-11-13",
        "token-counting-2024-11-01",
        "token-efficient-tools-2025-02-19",
        _SCOPES,
    }
)
"""They say who is asking, change nothing but the order of bytes, or are for what needs no beta any more: leaving them
out changes no answer."""


class CloudRules(Struct, frozen=True, kw_only=True):
    """What a cloud takes."""

    betas: Mapping[str, str]
    """By Anthropic's names: the cloud's."""
    refuses: frozenset[str] = frozenset()
    """Members of the first level that it does not take at all."""
    refused_tools: str = ""
    """A pattern of the kinds of tools that Anthropic runs itself, and this cloud does not."""
    tool_betas: Mapping[str, str] = {}
    """By patterns of the kinds of tools: the beta that this cloud wants for them, and Anthropic does not."""

    def betas_for(self, tools: object) -> Iterable[str]:
        kinds = [str(tool.get("type")) for tool in tools] if isinstance(tools, list) else []
        return [beta for pattern, beta in self.tool_betas.items() if any(re.fullmatch(pattern, kind) for kind in kinds)]

    def refuses_tool(self, kind: object) -> bool:
        return bool(self.refused_tools) and re.fullmatch(self.refused_tools, str(kind)) is not None


class CloudCall(NamedTuple):
    body: dict[str, Any]
    betas: tuple[str, ...]
    """The cloud's names."""
    dropped: tuple[str, ...]


def adapt(call: MessagesCall, request: ChatRequest, rules: CloudRules) -> CloudCall:
    is_native = request.native is not None and request.native.wire == NativeWire.ANTHROPIC_MESSAGES
    own = call.body.get("anthropic_beta")  # of a caller that has written its request for a cloud
    asked = [*_betas_in(call.headers), *(beta for beta in (own if isinstance(own, list) else ()) if type(beta) is str)]
    taken = dict.fromkeys(rules.betas[beta] for beta in asked if beta in rules.betas)
    dropped = list(call.dropped)
    if is_native:
        dropped += _named(beta for beta in asked if beta not in rules.betas and beta not in _WITHOUT_EFFECT)
    body = {name: value for name, value in call.body.items() if name != "anthropic_beta"}
    body = _with_taken_tools(body, request, rules, is_native, dropped)
    taken |= dict.fromkeys(rules.betas_for(body.get("tools")))
    for name in sorted(rules.refuses & body.keys()):
        body = {each: value for each, value in body.items() if each != name}
        if not is_default(name, (call.body if is_native else request.body).get(name)):
            dropped.append(name)
    for path, betas in _NEEDS.items():
        if not any(rules.betas.get(beta) in taken for beta in betas if beta in rules.betas):
            body = _without(body, path, dropped)
    if _SCOPES in asked and _SCOPES not in rules.betas:
        body = _without_scopes(body)
    return CloudCall(body, tuple(taken), tuple(dict.fromkeys(dropped)))


def refusal_of(request: ChatRequest, rules: CloudRules) -> CallerError | None:
    """Of a request whose only tools are those that this cloud does not have."""
    if request.native is None or not all(rules.refuses_tool(kind) for kind, _ in request.server_tools):
        return None
    return no_server_tool(request)


def _with_taken_tools(
    body: dict[str, Any], request: ChatRequest, rules: CloudRules, is_native: bool, dropped: list[str]
) -> dict[str, Any]:
    tools = body.get("tools")
    if not isinstance(tools, list) or not any(rules.refuses_tool(tool.get("type")) for tool in tools):
        return body
    sent = tools if is_native else request.body.get("tools") or ()
    dropped += [f"tools[{i}]" for i, tool in enumerate(sent) if rules.refuses_tool(tool.get("type"))]
    kept = [tool for tool in tools if not rules.refuses_tool(tool.get("type"))]
    if kept:
        return {**body, "tools": kept}
    if body.get("tool_choice") is not None:  # it is refused without tools
        dropped.append("tool_choice")
    return {name: value for name, value in body.items() if name not in ("tools", "tool_choice")}


def _betas_in(headers: Iterable[tuple[str, str]]) -> list[str]:
    sent = [value for name, value in headers if name == _HEADER]
    return [beta for value in sent for each in value.split(",") if (beta := each.strip())]


def _named(betas: Iterable[str]) -> list[str]:
    """Only names can be in a header of the answer."""
    return [f"{_HEADER}.{beta}" if _NAME.fullmatch(beta) else _HEADER for beta in betas]


def _without(body: dict[str, Any], path: tuple[str, ...], dropped: list[str]) -> dict[str, Any]:
    """The body is not changed, because what is in it can be the caller's."""
    name = path[0]
    inner = body.get(name)
    if inner is None:
        return body
    if len(path) == 1:
        dropped.append(name)
        return {each: value for each, value in body.items() if each != name}
    if not isinstance(inner, dict) or inner.get(path[1]) is None:
        return body
    dropped.append(".".join(path))
    rest = {each: value for each, value in inner.items() if each != path[1]}
    if rest:
        return {**body, name: rest}
    return {each: value for each, value in body.items() if each != name}


def _without_scopes(body: dict[str, Any]) -> dict[str, Any]:
    """Marks of the prompt cache without `scope`, which only says for whom an entry is: they are not named."""
    made: dict[str, Any] = _without_scope(body)
    lists = {name: made[name] for name in ("system", "tools", "messages") if isinstance(made.get(name), list)}
    return {**made, **{name: [_without_scope(entry) for entry in entries] for name, entries in lists.items()}}


def _without_scope(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    mark, content = entry.get("cache_control"), entry.get("content")
    if isinstance(mark, dict) and "scope" in mark:
        entry = {**entry, "cache_control": {name: value for name, value in mark.items() if name != "scope"}}
    if isinstance(content, list):
        entry = {**entry, "content": [_without_scope(block) for block in content]}
    return entry
