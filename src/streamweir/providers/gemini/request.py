"""A `ChatRequest` to a `generateContent` or `streamGenerateContent` request.

Members with the same meaning are translated. Gemini's own members in the list below are passed on as the caller wrote
them. Everything else is left out and named in `dropped`, unless its value is the default. AI Studio and Vertex differ
in the address, in the header with the key, and in a few members.
"""

from typing import Any
from urllib.parse import quote

from streamweir.core.request import ChatRequest
from streamweir.core.unknown_members import unknown_paths
from streamweir.providers.base import Target, UpstreamRequest, is_default, json_headers
from streamweir.providers.gemini.content import Conversation
from streamweir.providers.gemini.thinking import Model, thinking_config
from streamweir.providers.gemini.tool import plan_tools
from streamweir.wire import jsonio

MAX_STOP_SEQUENCES = 5
MAX_SEED = 2**31 - 1

# Spelling in a request -> Gemini's member, and whether only Vertex has it.
_OWN_MEMBERS = {
    "safetySettings": ("safetySettings", False),
    "safety_settings": ("safetySettings", False),
    "cachedContent": ("cachedContent", False),
    "cached_content": ("cachedContent", False),
    "labels": ("labels", True),
}
_SERVICE_TIERS = {"flex": "flex", "priority": "priority", "default": "standard", "standard": "standard"}
_MODALITIES = {"text": "TEXT", "image": "IMAGE", "audio": "AUDIO"}
_NOT_TAKEN = (
    "parallel_tool_calls",
    "logit_bias",
    "user",
    "audio",
    "prediction",
    "verbosity",
    "store",
    "metadata",
    "web_search_options",
    "prompt_cache_key",
    "safety_identifier",
)


def build_request(request: ChatRequest, target: Target) -> UpstreamRequest:
    is_vertex = target.project is not None
    model = Model(target.model)
    dropped: list[str] = []
    conversation = Conversation(request, model=target.model, is_vertex=is_vertex, demands_signatures=model.has_levels)
    dropped += conversation.dropped
    body: dict[str, Any] = {"contents": conversation.contents}
    if conversation.system:
        body["systemInstruction"] = {"parts": conversation.system}
    body |= plan_tools(request, dropped)
    takes_penalties = is_vertex or not model.thinks
    config = _sampling(request, takes_penalties, dropped) | _output(request, dropped)
    thinking, unsupported = thinking_config(request.reasoning, model)
    dropped += [request.reasoning_path(member) for member in unsupported]
    if thinking:
        config["thinkingConfig"] = thinking
    if config:
        body["generationConfig"] = config
    _add_other_members(request, body, is_vertex, dropped)
    key = ("authorization", f"Bearer {target.api_key}") if is_vertex else ("x-goog-api-key", target.api_key)
    return UpstreamRequest(
        path=_path(target, request.stream),
        headers=(*((key,) if target.api_key else ()), *json_headers(request)),
        body=jsonio.encode(body),
        dropped=tuple(dropped),
    )


def _path(target: Target, stream: bool) -> str:
    model = quote(target.model.removeprefix("publishers/google/").removeprefix("models/"), safe="")
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    if target.project is None:
        return f"/models/{model}:{method}"
    project, location = quote(target.project, safe=""), quote(target.location or "global", safe="")
    return f"/projects/{project}/locations/{location}/publishers/google/models/{model}:{method}"


def _sampling(request: ChatRequest, takes_penalties: bool, dropped: list[str]) -> dict[str, Any]:
    penalties = {"presencePenalty": request.presence_penalty, "frequencyPenalty": request.frequency_penalty}
    if not takes_penalties:  # AI Studio answers them with 400 on every model since 2.5
        dropped += [name for name in ("presence_penalty", "frequency_penalty") if request.body.get(name)]
        penalties = {}
    if request.top_logprobs and not request.logprobs:
        dropped.append("top_logprobs")
    seed = request.seed
    if seed is not None and not -MAX_SEED - 1 <= seed <= MAX_SEED:
        dropped.append("seed")
        seed = None
    dropped += [f"stop[{number}]" for number in range(MAX_STOP_SEQUENCES, len(request.stop))]
    members = {
        "maxOutputTokens": request.max_output_tokens,
        "temperature": request.temperature,
        "topP": request.top_p,
        "topK": request.top_k or None,  # 0 means off, the same as leaving it out
        "seed": seed,
        "stopSequences": list(request.stop[:MAX_STOP_SEQUENCES]) or None,
        **{name: value or None for name, value in penalties.items()},
        "candidateCount": request.n if request.n > 1 else None,
        "responseLogprobs": request.logprobs or None,
        "logprobs": request.top_logprobs if request.logprobs else None,
    }
    return {name: value for name, value in members.items() if value is not None}


def _output(request: ChatRequest, dropped: list[str]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    requested = request.response_format
    if requested is not None and requested.type != "text":
        members["responseMimeType"] = "application/json"
        if requested.json_schema is not None and requested.json_schema.schema is not None:
            members["responseJsonSchema"] = requested.json_schema.described_schema
    modalities = []
    for number, modality in enumerate(request.modalities):
        if modality in _MODALITIES:
            modalities.append(_MODALITIES[modality])
        else:
            dropped.append(f"modalities[{number}]")
    if modalities and modalities != ["TEXT"]:
        members["responseModalities"] = modalities
    return members


def _add_other_members(request: ChatRequest, body: dict[str, Any], is_vertex: bool, dropped: list[str]) -> None:
    tier = request.service_tier
    if tier in _SERVICE_TIERS and not is_vertex:
        body["serviceTier"] = _SERVICE_TIERS[tier]
    elif not is_default("service_tier", tier):
        dropped.append("service_tier")
    dropped += [name for name in _NOT_TAKEN if not is_default(name, request.body.get(name))]
    dropped += unknown_paths(request)
    for name in request.unknown_members:
        if request.body[name] is None:
            continue
        member, of_vertex_alone = _OWN_MEMBERS.get(name, (None, False))
        if member is None or (of_vertex_alone and not is_vertex):
            dropped.append(name)
        else:
            body[member] = request.body[name]
