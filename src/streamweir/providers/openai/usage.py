"""The `usage` object of an OpenAI-style wire, sorted into the disjoint buckets of `core.usage`.

Vendors agree on `prompt_tokens` and `completion_tokens` and on little else. A report without
both is partial and says nothing. The derived totals are always those that were reported:
what a vendor says of cached, audio or reasoning tokens is cut to fit inside them.
"""

from collections.abc import Mapping
from typing import Any

from streamweir.core.usage import Usage, member_count, token_count, within

Report = Mapping[str, Any]
CORE = ("prompt_tokens", "completion_tokens")


def read_usage(report: Report) -> Usage | None:
    """The report, or None where its core counts are not valid."""
    prompt = token_count(report.get("prompt_tokens"))
    completion = token_count(report.get("completion_tokens"))
    if prompt is None or completion is None:
        return None
    total = token_count(report.get("total_tokens"))
    if total is not None and total > prompt + completion:
        # quirk: xAI leaves reasoning out of completion_tokens (fixture xai/reasoning_beside_completion).
        completion = total - prompt
    prompt_details = _object(report, "prompt_tokens_details", "prompt_token_details")
    completion_details = _object(report, "completion_tokens_details", "completion_token_details")

    cache_read, prompt_left = within(_cached(report, prompt_details), prompt)
    written_1h, prompt_left = within(member_count(report, "cache_creation", "ephemeral_1h_input_tokens"), prompt_left)
    written_5m, prompt_left = within(_written(report, prompt_details, written_1h), prompt_left)
    audio_input, prompt_left = within(member_count(prompt_details or {}, "audio_tokens"), prompt_left)

    reasoning, completion_left = within(_reasoning(report, completion_details), completion)
    audio_output, completion_left = within(member_count(completion_details or {}, "audio_tokens"), completion_left)
    return Usage(
        input_uncached=prompt_left,
        cache_read=cache_read,
        cache_write_5m=written_5m,
        cache_write_1h=written_1h,
        audio_input=audio_input,
        output=completion_left,
        reasoning=reasoning,
        audio_output=audio_output,
        accepted_prediction=member_count(completion_details or {}, "accepted_prediction_tokens"),
        rejected_prediction=member_count(completion_details or {}, "rejected_prediction_tokens"),
        openai_style=True,
        prompt_details=prompt_details,
        completion_details=completion_details,
    )


def _cached(report: Report, details: Report | None) -> int | None:
    return _first(
        member_count(details or {}, "cached_tokens"),
        member_count(report, "prompt_cache_hit_tokens"),
        member_count(report, "cached_tokens"),
        member_count(report, "num_cached_tokens"),
        member_count(report, "cache_read_input_tokens"),
    )


def _written(report: Report, details: Report | None, written_1h: int | None) -> int | None:
    """Input written to the cache for five minutes: all of it, but what is known to be kept for an hour."""
    written = _first(
        member_count(details or {}, "cache_creation_tokens"),
        member_count(details or {}, "cache_write_tokens"),
        member_count(report, "cache_creation_input_tokens"),
    )
    return written if written is None else max(0, written - (written_1h or 0))


def _reasoning(report: Report, details: Report | None) -> int | None:
    return _first(member_count(details or {}, "reasoning_tokens"), member_count(report, "reasoning_tokens"))


def _first(*counts: int | None) -> int | None:
    return next((count for count in counts if count is not None), None)


def _object(report: Report, *names: str) -> dict[str, Any] | None:
    for name in names:
        value = report.get(name)
        if isinstance(value, dict):
            return value
    return None
