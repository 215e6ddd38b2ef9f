"""Members of a provider's request body: which of them the operator may set or drop for every request.

`defaults`, `override` and `drop` of a provider or a target change the body after the provider's own code has written
it. What decides which model answers, what is paid, or how the answer is read must stay as it was when the request was
admitted: those members are refused, each with the reason. The limit of the answer may be set: it is applied as an upper
bound, never beyond what was reserved (`server.request.attempt.attempt_setup.limit_for`). Names are compared without
case, hyphens and underscores, because some APIs accept several spellings.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from streamweir.core.request import REFUSED_MEMBERS

Path = tuple[str, ...]

_INPUT = "is the caller's input, whose tokens were counted when the request was admitted"
_MORE_INPUT = "adds input and costs that were not reserved when the request was admitted"
_READING = "decides how the answer is read, so the gateway sets it itself"
_CHOICES = "decides how many answers are made and paid, which only the caller may"
_PRICE = "changes the price at which the request was admitted"
_MODEL = "chooses the model: use the target's model, or another target"
_STORAGE = "lets the provider store the conversation, which the gateway promises not to do"
_SETTING = "is no member of the body: it is a setting of the provider or the target"
_LIMIT = "is the limit of the answer, for which the request was admitted: lower it with override"

_REASONS: dict[str, str] = {
    **dict.fromkeys(("model", "models", "route", "fallbacks"), _MODEL),
    **dict.fromkeys(
        (
            "messages",
            "input",
            "inputs",
            "contents",
            "content",
            "prompt",
            "suffix",
            "system",
            "system_instruction",
            "instructions",
            "requests",
            "cached_content",
            "prediction",
            "prompt_variables",
        ),
        _INPUT,
    ),
    **dict.fromkeys(
        (
            "tools",
            "functions",
            "mcp_servers",
            "plugins",
            "web_search_options",
            "search_parameters",
            "documents",
            "data_sources",
            "tool_config",
            "additional_model_request_fields.tools",
            "additional_model_request_fields.mcp_servers",
        ),
        _MORE_INPUT,
    ),
    **dict.fromkeys(
        (
            "stream",
            "stream_options",
            "background",
            "echo",
            "include",
            "encoding_format",
            "modalities",
            "audio",
            "generation_config.response_modalities",
            "generation_config.speech_config",
        ),
        _READING,
    ),
    **dict.fromkeys(
        ("n", "best_of", "use_beam_search", "candidate_count", "generation_config.candidate_count"), _CHOICES
    ),
    **dict.fromkeys(
        (
            "service_tier",
            "speed",
            "inference_geo",
            "performance_config",
            "additional_model_request_fields.service_tier",
            "additional_model_request_fields.speed",
            "additional_model_request_fields.inference_geo",
        ),
        _PRICE,
    ),
    **dict.fromkeys(("store", "previous_response_id", "conversation"), _STORAGE),
    **dict.fromkeys(REFUSED_MEMBERS, _SETTING),
}
_LIMITS = (
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "max_new_tokens",
    "n_predict",
    "num_predict",
    "generation_config.max_output_tokens",
    "inference_config.max_tokens",
    "additional_model_request_fields.max_tokens",
)
"""The names of the limit of an answer, with any provider."""


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


_REFUSED = {_plain(name): reason for name, reason in _REASONS.items()}
_LIMIT_PATHS = frozenset(_plain(name) for name in _LIMITS)


def is_limit(path: Path) -> bool:
    return ".".join(map(_plain, path)) in _LIMIT_PATHS


def leaves(table: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The members of the table and of the tables in it, with their paths; a table itself only if it is empty."""
    for name, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, (*path, name))
        else:
            yield (*path, name), value


def fault_of_member(path: Path, value: Any) -> str | None:
    """Why the member must not be set."""
    names = list(map(_plain, path))
    for count in range(1, len(names) + 1):
        reason = _REFUSED.get(".".join(names[:count]))
        if reason is not None:
            return reason
    if _is_above_others(names):
        return "must be a table: other members of it are the gateway's"
    if is_limit(path) and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        return "must be a whole number above 0"
    return None


def fault_of_drop(path: Path) -> str | None:
    """Why the member must not be dropped."""
    names = list(map(_plain, path))
    if not all(names):
        return "expected the name of a member, or a path such as thinking.budget_tokens"
    for count in range(1, len(names) + 1):
        reason = _REFUSED.get(".".join(names[:count]))
        if reason is not None and reason is not _MORE_INPUT:
            return reason
    if is_limit(path):
        return _LIMIT
    return "has members that the gateway sets: name those to drop, with a dot" if _is_above_others(names) else None


def _is_above_others(names: Sequence[str]) -> bool:
    start = ".".join(names) + "."
    return any(path.startswith(start) for path in (*_REFUSED, *_LIMIT_PATHS))
