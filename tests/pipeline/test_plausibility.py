"""Reports of usage that can be true of their request, and those that cannot."""

import pytest
from msgspec import structs

from streamweir.core.usage import MAX_TOKEN_COUNT, Usage
from streamweir.pipeline.plausibility import UsageBounds, bounded, is_possible

INPUT = ("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h", "audio_input", "image_input")
COUNTS = (*INPUT, "output", "reasoning", "audio_output", "image_output")
TEXT = UsageBounds(request_bytes=1000)
CAPPED = UsageBounds(request_bytes=1000, max_output=100)
PICTURE = UsageBounds(request_bytes=1000, is_unbounded=True)


@pytest.mark.parametrize(
    ("usage", "bounds"),
    [
        (Usage(), TEXT),
        (Usage(input_uncached=250, output=100), CAPPED),
        # A template, and what a provider's own search has found.
        (Usage(input_uncached=1000 + 30_000), TEXT),
        # Every byte a token, with the answer cut by its limit.
        (Usage(input_uncached=1000, output=100), CAPPED),
        # Reasoning that nobody sees, with a limit that does not count it, and without.
        (Usage(output=20, reasoning=128_000), CAPPED),
        (Usage(output=128_000), TEXT),
        # Reasoning that is shown, and not told apart from the answer.
        (Usage(output=4000), UsageBounds(request_bytes=1000, max_output=1)),
        # A picture in an answer that was to be one token.
        (Usage(output=1290), UsageBounds(request_bytes=1000, max_output=1)),
        # An hour of film, behind a link.
        (Usage(input_uncached=1_000_000), PICTURE),
        (Usage(cache_read=30_000, cache_write_5m=30_000, audio_input=1000), TEXT),
        (Usage(output=5, audio_output=5000), CAPPED),
        # A cache that was made before, and what the provider's own tools have read in several steps.
        (Usage(input_uncached=20, cache_read=500_000), PICTURE),
        (Usage(output=100_000), UsageBounds(request_bytes=1000, max_output=100, is_unbounded=True)),
    ],
)
def test_possible(usage: Usage, bounds: UsageBounds) -> None:
    assert is_possible(usage, bounds, response_bytes=400)


@pytest.mark.parametrize(
    ("usage", "bounds"),
    [
        (Usage(input_uncached=MAX_TOKEN_COUNT), PICTURE),
        (Usage(input_uncached=3_000_000), PICTURE),
        (Usage(input_uncached=100_000), TEXT),
        (Usage(cache_read=100_000), TEXT),
        (Usage(cache_write_1h=100_000), TEXT),
        (Usage(audio_input=100_000), TEXT),
        (Usage(output=300_000), TEXT),
        (Usage(output=10_000), CAPPED),
        (Usage(reasoning=300_000), TEXT),
        (Usage(audio_output=300_000), CAPPED),
        (Usage(image_output=300_000), CAPPED),
        (Usage(output=5, searches=1001), PICTURE),
    ],
)
def test_not_possible(usage: Usage, bounds: UsageBounds) -> None:
    assert not is_possible(usage, bounds, response_bytes=400)


def test_what_came_bears_out_what_is_reported() -> None:
    assert not is_possible(Usage(output=50_000), CAPPED, response_bytes=400)
    assert is_possible(Usage(output=50_000), CAPPED, response_bytes=200_000)


def test_up_to_the_bound_a_report_is_as_it_was_made() -> None:
    usage = Usage(
        input_uncached=10, cache_read=500_000, output=7, openai_style=True, prompt_details={"cached_tokens": 1}
    )
    assert bounded(usage, 500_017) is usage


def test_beyond_the_bound_every_count_keeps_its_proportion() -> None:
    usage = Usage(
        input_uncached=4000,
        cache_read=2000,
        cache_write_1h=1000,
        output=2000,
        reasoning=1000,
        openai_style=True,
        accepted_prediction=3,
        completion_details={"reasoning_tokens": 1000},
    )
    less = Usage(input_uncached=40, cache_read=20, cache_write_1h=10, output=20, reasoning=10, openai_style=True)
    assert bounded(usage, 100) == less
    limit = structs.replace(Usage(), **dict.fromkeys(COUNTS, MAX_TOKEN_COUNT))
    assert bounded(Usage(output=7, searches=10**9), 100) == Usage(output=7, searches=1000)
    assert 0.99e9 < bounded(limit, 10**9).total_tokens <= 10**9
