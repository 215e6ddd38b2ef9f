"""A `ChatRequest` to the body and the headers of `POST /responses`.

Members with the same meaning are translated, members of this wire in the list below are sent unchanged, and all
others are left out and named in `dropped`. Nothing is stored at the provider, and reasoning is always requested
in a form that can be sent back.
"""

from typing import Any

from streamweir.core.request import ChatRequest, NativeRequest
from streamweir.core.unknown_members import unknown_paths
from streamweir.providers.base import Target, UpstreamRequest, Wire, is_default, json_headers
from streamweir.providers.openai.effort import efforts_of, nearest_effort
from streamweir.providers.openai.vendor import ResponsesWire, Vendor
from streamweir.providers.responses.message import write_items
from streamweir.providers.responses.tool import plan_tool_choice, plan_tools
from streamweir.wire import jsonio
from streamweir.wire.native import NativeWire

MIN_OUTPUT_TOKENS = 16
"""A smaller limit is refused by OpenAI."""
ENCRYPTED_REASONING = "reasoning.encrypted_content"
_LOGPROBS = "message.output_text.logprobs"

_SAME = ("user", "safety_identifier", "prompt_cache_key", "metadata", "service_tier", "parallel_tool_calls")
_OWN_MEMBERS = ("truncation", "prompt_cache_retention", "max_tool_calls")
"""Only of this wire, sent unchanged."""
_NOT_TAKEN = (
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "prediction",
    "audio",
    "modalities",
    "store",
    "top_k",
)
"""Members of chat completions without a counterpart here, or that the gateway sets."""


def build_request(
    request: ChatRequest, target: Target, vendor: Vendor, wire: ResponsesWire, key: tuple[tuple[str, str], ...]
) -> UpstreamRequest:
    native = request.native
    if native is not None and native.wire == NativeWire.OPENAI_RESPONSES:
        return _pass_on(native, request, target, wire, key)
    dropped: list[str] = []
    refused = vendor.refused_by(target.model)
    messages = request.messages if native is None else request.messages_for(target.model)
    system_role = "developer" if vendor.takes_developer_role else "system"
    body: dict[str, Any] = {
        "model": target.model,
        "input": write_items(messages, wire, system_role, dropped),
        "store": False,
    }
    tools = plan_tools(request, wire, dropped)
    if tools:
        body["tools"] = tools
    choice = plan_tool_choice(request, tools, dropped)
    if choice is not None:
        body["tool_choice"] = choice
    if request.max_output_tokens is not None:
        body["max_output_tokens"] = max(request.max_output_tokens, MIN_OUTPUT_TOKENS)
    reasoning = _reasoning(request, target.model, vendor, dropped)
    if reasoning:
        body["reasoning"] = reasoning
    text = _text(request, vendor, dropped)
    if text:
        body["text"] = text
    _add_sampling(request, body, refused, vendor, dropped)
    _add_other_members(request, body, refused, dropped)
    dropped += [name for name in _NOT_TAKEN if not is_default(name, request.body.get(name))]
    dropped += [path for path in unknown_paths(request) if path != "stream_options.include_obfuscation"]
    if request.stream:
        body["stream"] = True
        _add_stream_options(request, body)
    return UpstreamRequest(
        path=wire.path,
        headers=(*key, *json_headers(request)),
        body=jsonio.encode(body),
        dropped=tuple(dropped),
        wire=Wire.RESPONSES,
    )


def _pass_on(
    native: NativeRequest,
    request: ChatRequest,
    target: Target,
    wire: ResponsesWire,
    key: tuple[tuple[str, str], ...],
) -> UpstreamRequest:
    """The caller's own body, in the order of its members, with the target's model and the effective limit."""
    body = {**native.body, "model": target.model}
    limit = request.max_output_tokens
    if limit is not None and limit != body.get("max_output_tokens"):
        body["max_output_tokens"] = max(limit, MIN_OUTPUT_TOKENS)
    return UpstreamRequest(
        path=wire.path,
        headers=(*key, *json_headers(request), *native.headers),
        body=jsonio.encode(body),
        dropped=native.dropped,
        wire=Wire.RESPONSES,
    )


def _reasoning(request: ChatRequest, model: str, vendor: Vendor, dropped: list[str]) -> dict[str, Any]:
    """As the caller requested it. Without a summary the provider sends no text of it."""
    requested = request.reasoning
    if requested is None:
        return {}
    written: dict[str, Any] = {}
    is_off = requested.effort == "none" or requested.enabled is False
    effort = requested.effort or ("none" if is_off else None)
    sent_effort = effort
    if request.native is not None and effort is not None:
        sent_effort = nearest_effort(effort, vendor.efforts or efforts_of(model))
    if sent_effort is not None and "reasoning_effort" not in vendor.refused_by(model):
        written["effort"] = sent_effort
    elif effort is not None and requested.effort is not None:
        dropped.append(request.reasoning_path("effort"))
    if requested.max_tokens is not None:
        dropped.append("reasoning.max_tokens")
    can_reason = request.native is None or bool(vendor.efforts or efforts_of(model))
    if not requested.exclude and not is_off and can_reason:
        written["summary"] = requested.summary or "auto"
    return written


def _text(request: ChatRequest, vendor: Vendor, dropped: list[str]) -> dict[str, Any]:
    written: dict[str, Any] = {}
    wanted = request.response_format
    if wanted is not None and wanted.type == "json_object":
        written["format"] = {"type": "json_object"}
    elif wanted is not None and wanted.json_schema is not None:
        schema = wanted.json_schema
        form: dict[str, Any] = {"type": "json_schema", "name": schema.name, "schema": schema.schema or {}}
        if schema.description:
            form["description"] = schema.description
        form["strict"] = bool(schema.strict)
        written["format"] = form
    if "format" in written and written["format"]["type"] not in vendor.formats:
        del written["format"]
        dropped.append("response_format")
    if request.verbosity is not None:
        written["verbosity"] = request.verbosity
    return written


def _add_sampling(
    request: ChatRequest, body: dict[str, Any], refused: frozenset[str], vendor: Vendor, dropped: list[str]
) -> None:
    for name in ("temperature", "top_p"):
        value = getattr(request, name)
        if value is None:
            continue
        if name in refused:
            dropped += [] if is_default(name, value) else [name]
        else:
            body[name] = min(value, vendor.max_temperature) if name == "temperature" else value
    include = [ENCRYPTED_REASONING]
    if request.logprobs:
        include.append(_LOGPROBS)
        if request.top_logprobs:
            body["top_logprobs"] = request.top_logprobs
    body["include"] = include


def _add_other_members(request: ChatRequest, body: dict[str, Any], refused: frozenset[str], dropped: list[str]) -> None:
    for name in _SAME:
        value = getattr(request, name)
        if is_default(name, value) and name != "service_tier":
            continue
        if name in refused:
            dropped += [] if is_default(name, value) else [name]
        elif value is not None and (name != "parallel_tool_calls" or "tools" in body):
            body[name] = value
    for name in request.unknown_members:
        value = request.body[name]
        if name in _OWN_MEMBERS and value is not None:
            body[name] = value
        elif value is not None:
            dropped.append(name)


def _add_stream_options(request: ChatRequest, body: dict[str, Any]) -> None:
    sent = request.body.get("stream_options")
    obfuscates = sent.get("include_obfuscation") if isinstance(sent, dict) else None
    if obfuscates is not None:
        body["stream_options"] = {"include_obfuscation": obfuscates}
