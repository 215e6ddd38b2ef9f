"""The `usage` object of an OpenAI-style wire, in the disjoint categories of `core.usage`.

Vendors agree on `prompt_tokens` and `completion_tokens`, and on little else. A report without both is partial and is
ignored. The totals are always the reported ones: counts of audio, images or reasoning are reduced to fit in them, with
each token in one category (one that is both cached and audio counts as cached). Only cached input can be outside of the
prompt (docs/spec/quirks.md Q42). There is one typed read per report; if a report does not fit the types, only its valid
counts are read.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, structs

from streamweir.core.usage import MAX_TOKEN_COUNT, Usage, missing_output, take_at_most, take_cached, token_count

Report = Mapping[str, Any]
CORE = ("prompt_tokens", "completion_tokens")

_Count = Annotated[int, Meta(ge=0, le=MAX_TOKEN_COUNT)] | None


class _CachedDetails(Struct, frozen=True, gc=False):
    audio_tokens: _Count = None


class _PromptDetails(Struct, frozen=True, gc=False):
    cached_tokens: _Count = None
    cached_tokens_details: _CachedDetails | None = None
    cache_creation_tokens: _Count = None
    cache_write_tokens: _Count = None
    audio_tokens: _Count = None
    image_tokens: _Count = None


class _CompletionDetails(Struct, frozen=True, gc=False):
    reasoning_tokens: _Count = None
    audio_tokens: _Count = None
    image_tokens: _Count = None
    accepted_prediction_tokens: _Count = None
    rejected_prediction_tokens: _Count = None


class _CacheCreation(Struct, frozen=True, gc=False):
    ephemeral_1h_input_tokens: _Count = None


class _ServerTools(Struct, frozen=True, gc=False):
    """Calls of tools that the provider runs: OpenRouter's, whose report has two names for it, and xAI's."""

    web_search_requests: _Count = None
    web_search_calls: _Count = None


class _Report(Struct, frozen=True, gc=False):
    """All names under which a vendor reports something that is counted here."""

    prompt_tokens: _Count = None
    completion_tokens: _Count = None
    total_tokens: _Count = None
    reasoning_tokens: _Count = None
    prompt_cache_hit_tokens: _Count = None
    cached_tokens: _Count = None
    num_cached_tokens: _Count = None
    cache_read_input_tokens: _Count = None
    cache_creation_input_tokens: _Count = None
    prompt_tokens_details: _PromptDetails | None = None
    prompt_token_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None
    completion_token_details: _CompletionDetails | None = None
    cache_creation: _CacheCreation | None = None
    num_search_queries: _Count = None
    """Perplexity's."""
    server_tool_use: _ServerTools | None = None
    server_tool_use_details: _ServerTools | None = None
    server_side_tool_usage_details: _ServerTools | None = None


_OBJECTS = (
    "prompt_tokens_details",
    "prompt_token_details",
    "completion_tokens_details",
    "completion_token_details",
    "cache_creation",
    "server_tool_use",
    "server_tool_use_details",
    "server_side_tool_usage_details",
)
_NO_PROMPT_DETAILS = _PromptDetails()
_NO_COMPLETION_DETAILS = _CompletionDetails()


def read_usage(report: Report) -> Usage | None:
    """The usage; None if the core counts are not valid."""
    try:
        reported_usage = msgspec.convert(report, _Report)
    except msgspec.ValidationError:
        reported_usage = msgspec.convert(_usable(report), _Report)
    prompt, completion, total = (
        reported_usage.prompt_tokens,
        reported_usage.completion_tokens,
        reported_usage.total_tokens,
    )
    if prompt is None or completion is None:
        return None
    in_prompt = reported_usage.prompt_tokens_details or reported_usage.prompt_token_details or _NO_PROMPT_DETAILS
    in_completion = (
        reported_usage.completion_tokens_details or reported_usage.completion_token_details or _NO_COMPLETION_DETAILS
    )

    cached = _cached(reported_usage, in_prompt)
    reasoning = _first(in_completion.reasoning_tokens, reported_usage.reasoning_tokens)
    if total is not None and total > prompt + completion:
        # quirk: xAI does not include reasoning in completion_tokens (fixture xai/reasoning_beside_completion).
        completion += missing_output(total, prompt, completion, cached, reasoning)

    cache_read, prompt_left = take_cached(cached, prompt)
    written_1h = (
        reported_usage.cache_creation.ephemeral_1h_input_tokens if reported_usage.cache_creation is not None else None
    )
    if written_1h is not None:
        written_1h, prompt_left = take_at_most(written_1h, prompt_left)
    written_5m = _written(reported_usage, in_prompt, written_1h)
    if written_5m is not None:
        written_5m, prompt_left = take_at_most(written_5m, prompt_left)
    audio_input = _audio_input(in_prompt) if in_prompt.audio_tokens is not None else None
    if audio_input is not None:
        audio_input, prompt_left = take_at_most(audio_input, prompt_left)
    image_input = in_prompt.image_tokens
    if image_input is not None:
        image_input, prompt_left = take_at_most(image_input, prompt_left)

    completion_left = completion
    if reasoning is not None:
        reasoning, completion_left = take_at_most(reasoning, completion_left)
    audio_output = in_completion.audio_tokens
    if audio_output is not None:
        audio_output, completion_left = take_at_most(audio_output, completion_left)
    image_output = in_completion.image_tokens
    if image_output is not None:
        image_output, completion_left = take_at_most(image_output, completion_left)
    tools = (
        reported_usage.server_tool_use
        or reported_usage.server_tool_use_details
        or reported_usage.server_side_tool_usage_details
    )
    searches = reported_usage.num_search_queries
    if searches is None and tools is not None:
        searches = _first(tools.web_search_requests, tools.web_search_calls)
    usage = Usage(
        input_uncached=prompt_left,
        cache_read=cache_read,
        cache_write_5m=written_5m,
        cache_write_1h=written_1h,
        audio_input=audio_input,
        image_input=image_input,
        output=completion_left,
        reasoning=reasoning,
        audio_output=audio_output,
        image_output=image_output,
        searches=searches,
        openai_style=True,
        prompt_details=_details(report, "prompt_tokens_details", "prompt_token_details"),
        completion_details=_details(report, "completion_tokens_details", "completion_token_details"),
    )
    accepted, rejected = in_completion.accepted_prediction_tokens, in_completion.rejected_prediction_tokens
    if accepted is None and rejected is None:  # nearly always
        return usage
    return structs.replace(usage, accepted_prediction=accepted, rejected_prediction=rejected)


def _cached(reported_usage: _Report, details: _PromptDetails) -> int | None:
    if details.cached_tokens is not None:
        return details.cached_tokens
    return _first(
        reported_usage.prompt_cache_hit_tokens,
        reported_usage.cached_tokens,
        reported_usage.num_cached_tokens,
        reported_usage.cache_read_input_tokens,
    )


def _audio_input(details: _PromptDetails) -> int | None:
    """Audio that was not read from a cache. OpenAI counts a cached audio token as both, and seldom reports how many
    there are: if it does not, the minimum that the total allows, because a discount is given only if it is known."""
    audio, cached = details.audio_tokens, details.cached_tokens_details
    if audio is None or cached is None or cached.audio_tokens is None:
        return audio
    return max(0, audio - cached.audio_tokens)


def _written(reported_usage: _Report, details: _PromptDetails, written_1h: int | None) -> int | None:
    """Input written to the cache for five minutes: all of it, except what is known to be kept for an hour."""
    written = _first(
        details.cache_creation_tokens, details.cache_write_tokens, reported_usage.cache_creation_input_tokens
    )
    return written if written is None else max(0, written - (written_1h or 0))


def _first(*counts: int | None) -> int | None:
    for count in counts:
        if count is not None:
            return count
    return None


def _details(report: Report, name: str, other_name: str) -> dict[str, Any] | None:
    details = report.get(name)
    if not isinstance(details, dict):
        details = report.get(other_name)
    return details if isinstance(details, dict) else None


def _usable(report: Report) -> dict[str, Any]:
    """The members of a report that have the right type: valid counts, and objects that are objects."""
    objects = {name: _counts(report[name]) for name in _OBJECTS if isinstance(report.get(name), Mapping)}
    counts = {name: count for name, count in _counts(report).items() if name not in _OBJECTS}
    return {**counts, **objects}


def _counts(members: Report) -> dict[str, int]:
    return {name: count for name, value in members.items() if (count := token_count(value)) is not None}
