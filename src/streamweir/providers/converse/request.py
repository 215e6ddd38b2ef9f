"""A `ChatRequest` to the path, the headers and the body of Converse and ConverseStream.

Members with the same meaning are translated; a vendor's own are sent in `additionalModelRequestFields`. Everything else
is left out and named in `dropped`, unless its value is the default. Converse's own members are not passed on from a
caller: a guardrail costs money, a location in S3 is read with the gateway's permissions, and further fields can change
the price. An operator sets them with `override`.
"""

import re
from typing import Any

from msgspec import structs

from streamweir.core.request import ChatRequest
from streamweir.core.unknown_members import unknown_paths
from streamweir.providers.anthropic.thinking import ThinkingPlan, plan_sampling, plan_thinking
from streamweir.providers.base import Target, UpstreamRequest, is_default
from streamweir.providers.bedrock.inference_id import model_path
from streamweir.providers.converse.content import Writer
from streamweir.providers.converse.message import read_messages
from streamweir.providers.converse.model import Traits, traits_of
from streamweir.providers.converse.reasoning import plan_reasoning, refuses_sampling
from streamweir.providers.converse.tool import is_forced, plan_tools
from streamweir.wire import jsonio

STREAM_TYPE = "application/vnd.amazon.eventstream"
MAX_METADATA = 16
"""Entries of `requestMetadata`."""

_METADATA_NAME = re.compile(r"[a-zA-Z0-9\s:_@$#=/+,.-]{1,256}", re.ASCII)
_METADATA_VALUE = re.compile(r"[a-zA-Z0-9\s:_@$#=/+,.-]{0,256}", re.ASCII)
_NOT_IN_SCHEMA_NAME = re.compile(r"[^a-zA-Z0-9_-]")
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
    "parallel_tool_calls",
    "user",
    "safety_identifier",
)
"""Members of the OpenAI body that Converse has no equivalent for."""


def build_request(request: ChatRequest, target: Target) -> UpstreamRequest:
    traits = traits_of(target.model)
    writer = Writer(traits)
    messages = request.messages if request.native is None else request.messages_for(target.model)
    conversation = read_messages(messages, writer)
    tools = plan_tools(request, conversation.call_names, writer)
    may_use_budget = not is_forced(tools) and not conversation.continues_without_reasoning
    inference, fields = _parameters(request, traits, target, may_use_budget, writer)
    body: dict[str, Any] = {}
    if tools is not None:
        body["toolConfig"] = tools
    conversation.write(body)
    writer.limit_points()
    stops = _stop_sequences(request, traits, writer.dropped)
    if stops:
        inference["stopSequences"] = stops
        if traits.claude is not None:  # it says which of them ended the answer, if it is asked to
            body["additionalModelResponseFieldPaths"] = ["/stop_sequence"]
    if inference:
        body["inferenceConfig"] = inference
    if fields:
        body["additionalModelRequestFields"] = fields
    _add_other_members(request, traits, body, writer.dropped)
    accept = STREAM_TYPE if request.stream else "application/json"
    key = [("authorization", f"Bearer {target.api_key}")] if target.api_key else []
    return UpstreamRequest(
        path=model_path(target.model, "converse-stream" if request.stream else "converse"),
        headers=(*key, ("content-type", "application/json"), ("accept", accept)),
        body=jsonio.encode(body),
        dropped=tuple(writer.dropped),
    )


def _parameters(
    request: ChatRequest, traits: Traits, target: Target, may_use_budget: bool, writer: Writer
) -> tuple[dict[str, Any], dict[str, Any]]:
    """`inferenceConfig` and `additionalModelRequestFields`: what the answer's length, sampling and reasoning need."""
    inference: dict[str, Any] = {}
    if traits.claude is not None:
        claude = traits.claude
        if target.max_output_tokens is not None:
            claude = structs.replace(claude, max_output_tokens=target.max_output_tokens)
        plan = plan_thinking(request, claude, may_use_budget, writer.dropped)
        sampling = plan_sampling(request, claude, plan, writer.dropped)
        # Without a limit, the quota of the account is charged for the longest answer that the model can give.
        inference["maxTokens"] = plan.max_tokens
        fields = _thinking_fields(plan)
    else:
        fields = plan_reasoning(request, traits, writer.dropped)
        sampling = _sampling(request, traits, fields, writer.dropped)
        if request.max_output_tokens is not None:
            inference["maxTokens"] = request.max_output_tokens
    inference |= {
        name: sampling[of] for name, of in (("temperature", "temperature"), ("topP", "top_p")) if of in sampling
    }
    if "top_k" in sampling:
        own = {"top_k": sampling["top_k"]}
        fields |= own if traits.claude is not None else {"inferenceConfig": {"topK": sampling["top_k"]}}
    return inference, fields


def _thinking_fields(plan: ThinkingPlan) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if plan.thinking is not None:
        fields["thinking"] = plan.thinking
    if plan.effort is not None:
        fields["output_config"] = {"effort": plan.effort}
    return fields


def _sampling(request: ChatRequest, traits: Traits, fields: dict[str, Any], dropped: list[str]) -> dict[str, Any]:
    """temperature, top_p and top_k. A temperature above Converse's range becomes the highest."""
    sampling: dict[str, Any] = {}
    if request.temperature is not None:
        sampling["temperature"] = min(request.temperature, 1)
    if request.top_p is not None:
        sampling["top_p"] = request.top_p
    if request.top_k:
        sampling["top_k"] = request.top_k
    if not traits.takes_sampling or refuses_sampling(fields):
        dropped += [name for name in sampling if not is_default(name, getattr(request, name))]
        return {}
    if "top_k" in sampling and not traits.has_top_k:
        dropped.append("top_k")
        del sampling["top_k"]
    return sampling


def _stop_sequences(request: ChatRequest, traits: Traits, dropped: list[str]) -> list[str]:
    stops: list[str] = []
    for i, stop in enumerate(request.stop):
        if stop.strip() or (stop and traits.claude is None):
            stops.append(stop)
        else:  # an empty one is refused, and by Claude one that is only white space
            dropped.append("stop" if isinstance(request.body.get("stop"), str) else f"stop[{i}]")
    return stops


def _add_other_members(request: ChatRequest, traits: Traits, body: dict[str, Any], dropped: list[str]) -> None:
    _add_format(request, traits, body, dropped)
    if not is_default("service_tier", request.service_tier):
        dropped.append("service_tier")  # each tier has prices of its own, which the price list does not have
    metadata: dict[str, str] = {}
    for name, value in (request.metadata or {}).items():
        if len(metadata) < MAX_METADATA and _METADATA_NAME.fullmatch(name) and _METADATA_VALUE.fullmatch(value):
            metadata[name] = value
        else:
            dropped.append(f"metadata.{name}")
    if metadata:
        body["requestMetadata"] = metadata
    dropped += [name for name in _NOT_TAKEN if not is_default(name, request.body.get(name))]
    dropped += unknown_paths(request)
    taken = ("thinking",) if traits.claude is not None else ()
    dropped += [name for name in request.unknown_members if name not in taken and request.body[name] is not None]
    dropped += [path for _, path in request.server_tools]


def _add_format(request: ChatRequest, traits: Traits, body: dict[str, Any], dropped: list[str]) -> None:
    wanted = request.response_format
    if wanted is None or wanted.type == "text":
        return
    schema = wanted.json_schema
    if schema is None or schema.schema is None or not traits.takes_schema:
        dropped.append("response_format")  # there is no JSON output without a schema
        return
    structure = {"schema": jsonio.encode(schema.schema).decode()}
    name = _NOT_IN_SCHEMA_NAME.sub("_", schema.name)[:64]
    if name:
        structure["name"] = name
    if schema.description:
        structure["description"] = schema.description
    body["outputConfig"] = {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": structure}}}
