"""`usageMetadata`, in the categories of `core.usage`.

Every report is cumulative and complete: the newest one counts, and nothing is added up. Cached input is included in the
prompt's count, unless it is more (docs/spec/quirks.md Q42). Thoughts are not included in the candidates' count, nor the
prompts of Google's tools in the prompt's; the latter are input. A missing count is 0 so far; a report without any count
is ignored. Searches are not in the report, but in the candidates.
"""

import re
from collections.abc import Collection, Sequence

from streamweir.core.usage import Usage, missing_output, take_at_most, take_cached
from streamweir.providers.gemini.answer import Modality, Report

_AUDIO = ("AUDIO", 4)
"""The name, and its number in the enum `MediaModality`."""
_IMAGE = ("IMAGE", 2)
_BILLED_BY_PROMPT = re.compile(r"gemini-[12]\b")
"""Models before Gemini 3 charge once for a prompt with searches, however many there are."""


def searches_of(queries: Collection[str], model: str | None) -> int | None:
    """How many searches are charged for. `queries`: without repetitions and without empty ones, which are free."""
    if not queries:
        return None
    return 1 if model is not None and _BILLED_BY_PROMPT.search(model) is not None else len(queries)


def usage_of(report: Report, searches: int | None = None) -> Usage | None:
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
    audio_input = image_input = audio_output = image_output = None
    if report.prompt_tokens_details:
        audio_input, image_input = _media(report.prompt_tokens_details)
    if audio_input is not None or image_input is not None:
        cached_audio, cached_images = _media(report.cache_tokens_details or ())
        audio_input, uncached = take_at_most(_less(audio_input, cached_audio), uncached)
        image_input, uncached = take_at_most(_less(image_input, cached_images), uncached)
    details = report.candidates_tokens_details or report.response_tokens_details
    if details:
        audio_output, image_output = _media(details)
    if audio_output is not None or image_output is not None:
        audio_output, output = take_at_most(audio_output, output)
        image_output, output = take_at_most(image_output, output)
    return Usage(
        input_uncached=uncached,
        cache_read=cached,
        audio_input=audio_input,
        image_input=image_input,
        output=output,
        reasoning=thoughts,
        audio_output=audio_output,
        image_output=image_output,
        searches=searches,
    )


def _media(details: Sequence[Modality]) -> tuple[int | None, int | None]:
    """The tokens of audio and of images: the first entry of each."""
    audio = images = None
    for detail in details:
        if audio is None and detail.modality in _AUDIO:
            audio = detail.token_count
        elif images is None and detail.modality in _IMAGE:
            images = detail.token_count
    return audio, images


def _less(tokens: int | None, cached: int | None) -> int | None:
    return None if tokens is None else max(0, tokens - (cached or 0))
