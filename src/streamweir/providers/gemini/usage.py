"""`usageMetadata`, in the categories of `core.usage`.

Every report is cumulative and complete: the newest one counts, and nothing is added up. Cached input is included in the
prompt's count, unless it is more (docs/spec/quirks.md Q42). Thoughts are not included in the candidates' count, nor the
prompts of Google's tools in the prompt's; the latter are input. A missing count is 0 so far; a report without any count
is ignored.
"""

from collections.abc import Sequence

from streamweir.core.usage import Usage, missing_output, take_at_most, take_cached
from streamweir.providers.gemini.answer import Modality, Report

_AUDIO = ("AUDIO", 4)
"""The name, and its number in the enum `MediaModality`."""


def usage_of(report: Report) -> Usage | None:
    prompt = report.prompt_token_count
    output = report.candidates_token_count
    if output is None:
        output = report.response_token_count
    thoughts = report.thoughts_token_count
    total = report.total_token_count
    if prompt is None and output is None and thoughts is None and total is None:
        return None  # quirk: only `trafficType` on all frames but the last (fixture vertex/traffic_type_alone)
    uncached = (prompt or 0) + (report.tool_use_prompt_token_count or 0)
    cached = report.cached_content_token_count
    output = output or 0
    if total and total > uncached + output + (thoughts or 0):
        output += missing_output(total, uncached, output + (thoughts or 0), cached, None)
    cached, uncached = take_cached(cached, uncached)
    audio_input = _audio(report.prompt_tokens_details) if report.prompt_tokens_details else None
    if audio_input is not None:
        audio_input, uncached = take_at_most(
            max(0, audio_input - (_audio(report.cache_tokens_details or ()) or 0)), uncached
        )
    details = report.candidates_tokens_details or report.response_tokens_details
    audio_output, output = take_at_most(_audio(details) if details else None, output)
    return Usage(
        input_uncached=uncached,
        cache_read=cached,
        audio_input=audio_input,
        output=output,
        reasoning=thoughts,
        audio_output=audio_output,
    )


def _audio(details: Sequence[Modality]) -> int | None:
    for detail in details:
        if detail.modality in _AUDIO:
            return detail.token_count
    return None
