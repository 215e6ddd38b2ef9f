"""A `ChatRequest` to the body and the headers of `POST /messages`.

Members with the same meaning are translated. Anthropic's own members in the list below are passed on as the caller
wrote them. Everything else is left out and named in `dropped`, unless its value is the default (n of 1, a penalty
of 0).
"""

from typing import Any, NamedTuple

from msgspec import structs

from streamweir.core.request import ChatRequest, NativeRequest
from streamweir.core.unknown_members import unknown_paths
from streamweir.providers.anthropic.content import DroppedMembers
from streamweir.providers.anthropic.message import read_messages
from streamweir.providers.anthropic.model import Traits, traits_of
from streamweir.providers.anthropic.thinking import ThinkingPlan, plan_sampling, plan_thinking
from streamweir.providers.anthropic.tool import MCP_TOOLSET, plan_tool_choice, plan_tools
from streamweir.providers.base import Target, UpstreamRequest, is_default, json_headers
from streamweir.wire import jsonio
from streamweir.wire.messages import VERSION
from streamweir.wire.native import NativeWire

_OWN_MEMBERS = ("cache_control", "container", "context_management", "mcp_servers")
"""Passed on unchanged. `thinking` and `output_config` are too, but the gateway may add members to them. Members that
change the price of a token (speed, inference_geo, fallbacks) are not in this list."""
_JOINED_MEMBERS = ("thinking", "output_config")

_SERVICE_TIERS = {
    # `auto` uses the account's priority capacity if there is any: the nearest that Anthropic has to `priority`.
    "auto": "auto",
    "priority": "auto",
    "default": "standard_only",
    "standard_only": "standard_only",
}
_NOT_TAKEN = (
    "n",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "modalities",
    "audio",
    "prediction",
    "verbosity",
    "store",
    "web_search_options",
    "prompt_cache_key",
)
"""Members of the OpenAI body that Anthropic has no equivalent for."""


class MessagesCall(NamedTuple):
    """What Anthropic's API is asked, and a cloud that has the same API: without its address and its key."""

    body: dict[str, Any]
    """The first level is a new object; what is in it can be the caller's."""
    version: str
    headers: tuple[tuple[str, str], ...]
    """Further headers, such as `anthropic-beta`."""
    dropped: tuple[str, ...]


def build_request(request: ChatRequest, target: Target) -> UpstreamRequest:
    call = plan_call(request, target)
    key = (("x-api-key", target.api_key),) if target.api_key else ()
    return UpstreamRequest(
        path="/messages",
        headers=(*key, ("anthropic-version", call.version), *json_headers(request), *call.headers),
        body=jsonio.encode(call.body),
        dropped=call.dropped,
    )


def plan_call(request: ChatRequest, target: Target) -> MessagesCall:
    native = request.native
    if native is not None and native.wire == NativeWire.ANTHROPIC_MESSAGES:
        return _pass_on(native, target)
    traits = traits_of(target.model)
    if target.max_output_tokens is not None:
        traits = structs.replace(traits, max_output_tokens=target.max_output_tokens)
    drops = DroppedMembers()
    body: dict[str, Any] = {"model": target.model}
    messages = request.messages if native is None else request.messages_for(target.model)
    conversation = read_messages(messages, drops)
    tools = plan_tools(request, traits, drops)
    choice = plan_tool_choice(request, traits, bool(tools), drops)
    is_forced = choice is not None and choice["type"] in ("any", "tool")
    may_use_budget = not is_forced and not conversation.continues_without_thinking
    plan = plan_thinking(request, traits, may_use_budget, drops.paths)
    body["max_tokens"] = plan.max_tokens
    conversation.write(body)
    if tools:
        body["tools"] = tools
    if choice is not None:
        body["tool_choice"] = choice
    if plan.thinking is not None:
        body["thinking"] = plan.thinking
    output = _output_config(request, traits, plan, drops)
    if output:
        body["output_config"] = output
    body |= plan_sampling(request, traits, plan, drops.paths)
    _add_other_members(request, body, drops)
    drops.paths += [name for name in _NOT_TAKEN if not is_default(name, request.body.get(name))]
    drops.paths += unknown_paths(request)
    drops.paths += [path for _, path in request.server_tools]
    if request.stream:
        body["stream"] = True
    return MessagesCall(body, VERSION, _beta_header(request, drops), tuple(drops.paths))


def _pass_on(native: NativeRequest, target: Target) -> MessagesCall:
    """The caller's own body, with its members in the same order and the model of the target."""
    sent = tuple((name, value) for name, value in native.headers if name != "anthropic-version")
    version = dict(native.headers).get("anthropic-version", VERSION)
    return MessagesCall({**native.body, "model": target.model}, version, sent, native.dropped)


def _output_config(request: ChatRequest, traits: Traits, plan: ThinkingPlan, drops: DroppedMembers) -> dict[str, Any]:
    native = request.body.get("output_config")
    output: dict[str, Any] = dict(native) if isinstance(native, dict) else {}
    if plan.effort is not None:
        output.setdefault("effort", plan.effort)
    wanted = request.response_format
    if wanted is None or wanted.type == "text":
        return output
    schema = wanted.json_schema.described_schema if wanted.json_schema is not None else None
    if schema is not None and traits.takes_schema:
        output.setdefault("format", {"type": "json_schema", "schema": schema})
    else:
        # Anthropic has no JSON output without a schema (an object schema must forbid members that it does not name),
        # and asking for JSON in the prompt would change the caller's request.
        drops.paths.append("response_format")
    return output


def _add_other_members(request: ChatRequest, body: dict[str, Any], drops: DroppedMembers) -> None:
    stops: list[str] = []
    for i, stop in enumerate(request.stop):
        if stop.strip():
            stops.append(stop)
        else:  # Anthropic refuses a stop sequence that is only white space
            drops.paths.append("stop" if isinstance(request.body.get("stop"), str) else f"stop[{i}]")
    if stops:
        body["stop_sequences"] = stops
    _add_user(request, body, drops)
    if request.service_tier in _SERVICE_TIERS:
        body["service_tier"] = _SERVICE_TIERS[request.service_tier]
    elif request.service_tier is not None:
        drops.paths.append("service_tier")
    for name in request.unknown_members:
        if name in _OWN_MEMBERS and request.body[name] is not None:
            body[name] = request.body[name]
        elif name not in _JOINED_MEMBERS and request.body[name] is not None:
            drops.paths.append(name)


def _add_user(request: ChatRequest, body: dict[str, Any], drops: DroppedMembers) -> None:
    """Anthropic has one member for the user's id, and no other metadata."""
    metadata = request.metadata or {}
    names = {
        "user": request.user,
        "safety_identifier": request.safety_identifier,
        "metadata.user_id": metadata.get("user_id"),
    }
    given = [path for path, name in names.items() if name]
    if given:
        body["metadata"] = {"user_id": names[given[0]]}
    drops.paths += [path for path in given[1:] if names[path] != names[given[0]]]
    drops.paths += [f"metadata.{name}" for name in metadata if name != "user_id"]


def _beta_header(request: ChatRequest, drops: DroppedMembers) -> tuple[tuple[str, str], ...]:
    for beta in _betas(request):
        drops.add_beta(beta)
    return (("anthropic-beta", ",".join(drops.betas)),) if drops.betas else ()


def _betas(request: ChatRequest) -> list[str]:
    """The beta headers that Anthropic's own members of this request require."""
    betas: list[str] = []
    if request.body.get("mcp_servers"):
        has_toolset = any(tool.type == MCP_TOOLSET for tool in request.tools)
        betas.append("mcp-client-2025-11-20" if has_toolset else "mcp-client-2025-04-04")
    management = request.body.get("context_management")
    if management is not None:
        betas.append("context-management-2025-06-27")
    edits = management.get("edits") if isinstance(management, dict) else None
    if any(str(edit.get("type")).startswith("compact_") for edit in edits or () if isinstance(edit, dict)):
        betas.append("compact-2026-01-12")
    thinking, output = request.body.get("thinking"), request.body.get("output_config")
    if isinstance(thinking, dict) and "block_binding" in thinking:
        betas.append("thinking-binding-controls-2026-08-01")
    if isinstance(output, dict) and "task_budget" in output:
        betas.append("task-budgets-2026-03-13")
    container = request.body.get("container")
    if isinstance(container, dict) and container.get("skills"):
        betas += ["code-execution-2025-08-25", "skills-2025-10-02"]
    return betas
