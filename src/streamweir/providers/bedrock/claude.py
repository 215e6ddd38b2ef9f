"""What Claude at Bedrock takes of a request of Messages, and what it does not.

InvokeModel refuses every beta that it does not know, members of Anthropic's own hosting (containers, MCP servers,
service tiers), and tools that Anthropic runs itself. They are left out and named. Content that must be fetched from
an address, or from Anthropic's files, is refused: without it the request would be another one.

Sources: docs.aws.amazon.com, "Anthropic Claude Messages API" (request and response, tool use), and what callers have
reported about betas.
"""

import re
from typing import Any

from streamweir.core.errors import CallerError
from streamweir.core.message import FilePart, ImagePart, Part
from streamweir.core.request import ChatRequest
from streamweir.providers.anthropic.content import is_address
from streamweir.providers.anthropic.request import MessagesCall
from streamweir.providers.base import no_server_tool
from streamweir.wire.native import NativeWire

_BETAS = frozenset(
    {
        "compact-2026-01-12",
        "computer-use-2024-10-22",
        "computer-use-2025-01-24",
        "computer-use-2025-11-24",
        "context-1m-2025-08-07",
        "context-management-2025-06-27",
        "dangerous-tool-use-2026-09-03",
        "dev-full-thinking-2025-05-14",
        "effort-2025-11-24",
        "fine-grained-tool-streaming-2025-05-14",
        "interleaved-thinking-2025-05-14",
        "mid-conversation-output-config-2026-07-01",
        "mid-conversation-tool-changes-2026-07-01",
        "output-128k-2025-02-19",
        "thinking-binding-controls-2026-08-01",
        "thinking-display-updates-2026-08-18",
        "token-efficient-tools-2025-02-19",
        "tool-examples-2025-10-29",
        "tool-search-tool-2025-10-19",
    }
)
_RENAMED_BETAS = {"advanced-tool-use-2025-11-20": ("tool-search-tool-2025-10-19", "tool-examples-2025-10-29")}
_BETAS_WITHOUT_EFFECT = frozenset(
    {
        "claude-code-20250219",
        "oauth-2025-04-20",
        "prompt-caching-2024-07-31",
        "structured-outputs-2025-11-13",
        "token-counting-2024-11-01",
    }
)
"""They say who is asking, or are for something that is always available here."""
_CACHE_SCOPE = "prompt-caching-scope-"
_TOOL_SEARCH = re.compile(r"tool_search_tool_\w+")
_TOOL_SEARCH_BETA = "tool-search-tool-2025-10-19"

_NOT_TAKEN = ("cache_control", "container", "mcp_servers")
STANDARD_TIERS = (None, "auto", "default", "standard_only")
_RUN_BY_ANTHROPIC = re.compile(r"(web_search|web_fetch|code_execution|advisor)(_\d{8})?|mcp_toolset")


def refusal_of(request: ChatRequest) -> CallerError | None:
    """Why the request cannot be served at all."""
    kinds = [kind for kind, _ in request.server_tools]
    if kinds and all(_RUN_BY_ANTHROPIC.fullmatch(kind) for kind in kinds):
        refusal = no_server_tool(request)
        if refusal is not None:
            return refusal
    for i, message in enumerate(request.messages):
        if not isinstance(message.content, tuple):
            continue
        for j, part in enumerate(message.content):
            if _is_elsewhere(part):
                path = f"messages[{i}].content[{j}]" if request.native is None else "messages"
                text = "This model takes images and files as data alone: send a data URL, not an address or an id."
                return CallerError("invalid_value", text, param=path)
    return None


def _is_elsewhere(part: Part) -> bool:
    if isinstance(part, ImagePart):
        return is_address(part.image_url.url)
    return isinstance(part, FilePart) and (bool(part.file.file_id) or is_address(part.file.file_data or ""))


def invoke_body(call: MessagesCall, request: ChatRequest) -> tuple[dict[str, Any], list[str]]:
    """The body of InvokeModel apart from its version, and what was left out of the request."""
    body, dropped = dict(call.body), list(call.dropped)
    for name in ("model", "stream", "anthropic_version"):
        body.pop(name, None)  # in the path, or written anew
    for name in _NOT_TAKEN:
        if body.pop(name, None) is not None:
            dropped.append(name)
    if body.pop("service_tier", None) is not None and request.service_tier not in STANDARD_TIERS:
        dropped.append("service_tier")
    _move_format(body)
    _leave_out_tools(body, request, dropped)
    sent = [*betas_of(call), *take_betas(body)]
    body = without_cache_scope(body, sent)
    taken, refused = split_betas(sent)
    if any(_TOOL_SEARCH.fullmatch(str(tool.get("type"))) for tool in body.get("tools") or ()):
        taken = list(dict.fromkeys((*taken, _TOOL_SEARCH_BETA)))
    if taken:
        body["anthropic_beta"] = taken
    return body, dropped + named_betas(refused, request)


def betas_of(call: MessagesCall) -> list[str]:
    values = [value for name, value in call.headers if name == "anthropic-beta"]
    betas = [beta.strip() for value in values for beta in value.split(",")]
    return [beta for beta in dict.fromkeys(betas) if beta]


def take_betas(body: dict[str, Any]) -> list[str]:
    """Those of a caller that has written its request for Bedrock; they are removed from the body."""
    own = body.pop("anthropic_beta", None)
    return [beta for beta in own if isinstance(beta, str)] if isinstance(own, list) else []


def named_betas(refused: list[str], request: ChatRequest) -> list[str]:
    """As what is left out, if the caller has sent them. Others belong to members that are named themselves."""
    is_native = request.native is not None and request.native.wire == NativeWire.ANTHROPIC_MESSAGES
    return [f"anthropic-beta.{beta}" for beta in refused] if is_native else []


def split_betas(sent: list[str]) -> tuple[list[str], list[str]]:
    """Those that InvokeModel takes, and those that it would refuse, with an effect that is now missing."""
    taken: dict[str, None] = {}
    refused: dict[str, None] = {}
    for beta in sent:
        if beta in _BETAS:
            taken[beta] = None
        elif beta in _RENAMED_BETAS:
            taken |= dict.fromkeys(_RENAMED_BETAS[beta])
        elif beta not in _BETAS_WITHOUT_EFFECT:
            refused[beta] = None
    return list(taken), list(refused)


def _move_format(body: dict[str, Any]) -> None:
    """`output_format` is the older place of the format, which Bedrock does not know."""
    wanted, output = body.get("output_format"), body.get("output_config")
    if isinstance(wanted, dict):
        del body["output_format"]
        body["output_config"] = {"format": wanted, **(output if isinstance(output, dict) else {})}


def _leave_out_tools(body: dict[str, Any], request: ChatRequest, dropped: list[str]) -> None:
    tools = body.get("tools")
    if not isinstance(tools, list):
        return
    kept = [tool for tool in tools if not _RUN_BY_ANTHROPIC.fullmatch(str(tool.get("type")))]
    if len(kept) == len(tools):
        return
    is_native = request.native is not None and request.native.wire == NativeWire.ANTHROPIC_MESSAGES
    sent = tools if is_native else request.body.get("tools") or ()
    dropped += [f"tools[{i}]" for i, tool in enumerate(sent) if _RUN_BY_ANTHROPIC.fullmatch(str(tool.get("type")))]
    if kept:
        body["tools"] = kept
        return
    del body["tools"]
    if body.pop("tool_choice", None) is not None:  # it is refused without tools
        dropped.append("tool_choice")


def without_cache_scope(body: dict[str, Any], betas: list[str]) -> dict[str, Any]:
    """Without the members of `cache_control` that belong to one of the caller's betas, which is not sent."""
    if not any(beta.startswith(_CACHE_SCOPE) for beta in betas):
        return body
    changed = dict(body)
    for name in ("system", "tools"):
        if isinstance(body.get(name), list):
            changed[name] = [_without_scope(block) for block in body[name]]
    changed["messages"] = [
        {**message, "content": [_without_scope(block) for block in message["content"]]}
        if isinstance(message.get("content"), list)
        else message
        for message in body.get("messages") or ()
    ]
    return changed


def _without_scope(block: Any) -> Any:
    mark = block.get("cache_control") if isinstance(block, dict) else None
    if not isinstance(mark, dict) or "scope" not in mark:
        return block
    return {**block, "cache_control": {name: value for name, value in mark.items() if name != "scope"}}
