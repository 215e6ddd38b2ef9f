"""Converts parameters of requests that the old file sets for a deployment into `defaults` and `drop`.

LiteLLM names them as OpenAI does, and translates them for each provider. Here they are members of the body in the
provider's own names. A parameter that a provider's API has under no name, or in another form, is left out with a
reason. In both, a value of the caller has priority.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from streamweir.config.error import member
from streamweir.config.file.variable import quoted
from streamweir.config.litellm.fallback import items_of
from streamweir.config.litellm.tree import Branch, is_empty
from streamweir.config.litellm.variable import REFERENCE
from streamweir.pipeline.body_members import Path, fault_of_drop, fault_of_member, leaves
from streamweir.providers.registry import vendor_of, wire_for

_LIMITS = ("max_completion_tokens", "max_tokens")
"""Two names for the longest answer; the first one counts."""
_SAME = (
    "frequency_penalty logit_bias logprobs modalities parallel_tool_calls prediction presence_penalty reasoning_effort "
    "response_format safety_identifier seed service_tier stop temperature tool_choice tools top_logprobs top_p user "
    "verbosity web_search_options"
)
_OF_SERVERS = (
    "chat_template_kwargs enable_thinking include_reasoning min_p min_tokens reasoning reasoning_format "
    "repetition_penalty stop_token_ids thinking top_a top_k"
)
"""Parameters that OpenAI does not have, but other servers with its protocol."""
_NOT_OURS = {
    "n": "one answer is the default, and a caller can ask for more",
    "metadata": "LiteLLM uses it for its own log",
    "stream": "the caller decides whether an answer is streamed",
    "stream_options": "the caller decides whether usage is sent",
}


class Names(NamedTuple):
    """How one API names parameters: the path of each in the body."""

    api: str
    paths: Mapping[str, Path]
    lists: frozenset[str] = frozenset()
    """Parameters whose single value becomes a list of one."""


_ANTHROPIC = Names(
    "Anthropic's API",
    {
        "max_completion_tokens": ("max_tokens",),
        "max_tokens": ("max_tokens",),
        "stop": ("stop_sequences",),
        "temperature": ("temperature",),
        "thinking": ("thinking",),
        "top_k": ("top_k",),
        "top_p": ("top_p",),
        "user": ("metadata", "user_id"),
    },
    frozenset({"stop"}),
)
_GEMINI = Names(
    "Gemini's API",
    {
        **{
            theirs: ("generationConfig", ours)
            for theirs, ours in {
                "frequency_penalty": "frequencyPenalty",
                "max_completion_tokens": "maxOutputTokens",
                "max_tokens": "maxOutputTokens",
                "presence_penalty": "presencePenalty",
                "seed": "seed",
                "stop": "stopSequences",
                "temperature": "temperature",
                "top_k": "topK",
                "top_p": "topP",
            }.items()
        },
        "safety_settings": ("safetySettings",),
    },
    frozenset({"stop"}),
)
_CONVERSE = Names(
    "Bedrock's Converse",
    {
        theirs: ("inferenceConfig", ours)
        for theirs, ours in {
            "max_completion_tokens": "maxTokens",
            "max_tokens": "maxTokens",
            "stop": "stopSequences",
            "temperature": "temperature",
            "top_p": "topP",
        }.items()
    },
    frozenset({"stop"}),
)
_RESPONSES = Names(
    "the Responses API",
    {
        "max_completion_tokens": ("max_output_tokens",),
        "max_tokens": ("max_output_tokens",),
        "reasoning_effort": ("reasoning", "effort"),
        "verbosity": ("text", "verbosity"),
        "parallel_tool_calls": ("parallel_tool_calls",),
        "reasoning": ("reasoning",),
        "safety_identifier": ("safety_identifier",),
        "service_tier": ("service_tier",),
        "temperature": ("temperature",),
        "top_p": ("top_p",),
        "user": ("user",),
    },
)
_KNOWN = {*_LIMITS, *_SAME.split(), *_OF_SERVERS.split(), *_ANTHROPIC.paths, *_GEMINI.paths, *_RESPONSES.paths}


def take_parameters(params: Branch, kind: str, model: str, wire: str | None) -> dict[str, Any]:
    """`defaults` and `drop`, if there are any."""
    names = _names_for(kind, model, wire)
    found: dict[str, Any] = {}
    defaults = _take_defaults(params, names)
    for name, value in _take_table(params, "extra_body").items():
        defaults.setdefault(name, value)
    if defaults:
        found["defaults"] = defaults
    drop = _take_dropped(params, names)
    if drop:
        found["drop"] = drop
    for name, reason in _NOT_OURS.items():
        if params.open(name) is not None:
            params.drop(name, reason)
    return found


def _names_for(kind: str, model: str, wire: str | None) -> Names:
    wire = wire or wire_for(kind, model)
    if kind == "anthropic" or wire == "messages":
        return _ANTHROPIC
    if wire == "converse":
        return _CONVERSE
    if kind in ("gemini", "vertex"):
        return _GEMINI
    if wire == "responses":
        return _RESPONSES
    vendor = vendor_of(kind)
    limit = vendor.limit_member or vendor.limit_added_for(model)
    names = {name: name for name in (*_SAME.split(), *_OF_SERVERS.split()) if name not in vendor.refused_by(model)}
    names |= dict(vendor.renames) | dict.fromkeys(_LIMITS, limit)
    return Names("this provider", {theirs: (ours,) for theirs, ours in names.items()})


def _take_defaults(params: Branch, names: Names) -> dict[str, Any]:
    defaults: dict[str, Any] = {}
    for name in (*_LIMITS, *params.names()):
        if name not in _KNOWN or params.get(name) is None:
            continue
        value = _written(params.take(name))
        path = names.paths.get(name)
        if path is None:
            params.drop(name, f"{names.api} has no such parameter")
            continue
        if name in names.lists and not isinstance(value, list):
            value = [value]
        fault = _fault(path, value)
        if fault is not None:
            params.drop(name, fault)
        elif not _put(defaults, path, value):
            params.drop(name, f"{_LIMITS[0]} overrides it" if name in _LIMITS else "it is set twice")
    return defaults


def _fault(path: Path, value: Any) -> str | None:
    """Why a member cannot be a default."""
    if _has_none(value):
        return "its value cannot be written here"
    parts = [((*path, *inner), each) for inner, each in leaves(value)] if isinstance(value, dict) else []
    fault = next((each for part in parts or [(path, value)] if (each := fault_of_member(*part)) is not None), None)
    return f"it {fault}" if fault is not None else None


def _take_dropped(params: Branch, names: Names) -> list[str]:
    """The members of `additional_drop_params`, which the caller may not set."""
    found: dict[str, None] = {}
    for place, name in items_of(params.open("additional_drop_params"), params.place("additional_drop_params")):
        path = names.paths.get(name) if isinstance(name, str) else None
        if path is None and isinstance(name, str) and name not in _KNOWN and name.isidentifier():
            path = (name,)  # a member of this provider alone
        fault = fault_of_drop(path) if path is not None else f"is no member of {names.api}"
        if fault is not None:
            params.report.drop(place, f"it {fault}")
        else:
            params.report.convert(place)
            found[".".join(path or ())] = None
    return list(found)


def _take_table(params: Branch, name: str) -> dict[str, Any]:
    """The members of a table that can be defaults as they are."""
    value = params.open(name)
    if value is not None and not isinstance(value, dict):
        params.drop(name, "a table was expected")
        return {}
    found: dict[str, Any] = {}
    for key, item in (value or {}).items():
        if is_empty(item):
            continue
        place = params.place(name)._replace(path=member(params.path_of(name), key))
        written = _written(item)
        fault = _fault((key,), written)
        if fault is not None:
            params.report.drop(place, fault)
        else:
            params.report.convert(place)
            found[key] = written
    return found


def _put(body: dict[str, Any], path: Path, value: object) -> bool:
    """False: there is a value already."""
    *tables, name = path
    for table in tables:
        body = body.setdefault(table, {})
    return body.setdefault(name, value) is value


def _has_none(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_none, value.values()))
    return any(map(_has_none, value)) if isinstance(value, list) else value is None


def _written(value: object) -> Any:
    """As TOML has it; None, also inside of it, is what cannot be written."""
    match value:
        case bool() | int():
            return value
        case float():
            number = Decimal(str(value))
            return number if number.is_finite() else None
        case str():
            return quoted(value) if not value.startswith(REFERENCE) else None
        case dict():
            return {name: _written(item) for name, item in value.items() if item is not None}
        case list():
            return list(map(_written, value))
    return None
