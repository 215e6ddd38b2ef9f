"""OpenAI-style usage reports: every number in exactly one bucket, the totals as they were reported."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.core.usage import Usage
from streamweir.providers.openai.usage import read_usage

BUCKETS = (
    "input_uncached",
    "cache_read",
    "cache_write_5m",
    "cache_write_1h",
    "audio_input",
    "output",
    "reasoning",
    "audio_output",
    "image_input",
    "image_output",
    "searches",
)
CORE = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}


def buckets(usage: Usage | None) -> dict[str, int]:
    assert usage is not None
    return {name: getattr(usage, name) for name in BUCKETS if getattr(usage, name) is not None}


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        ({}, {}),
        ({"prompt_tokens_details": {"cached_tokens": 30}}, {"input_uncached": 70, "cache_read": 30}),
        ({"prompt_token_details": {"cached_tokens": 30}}, {"input_uncached": 70, "cache_read": 30}),
        ({"prompt_cache_hit_tokens": 30, "prompt_cache_miss_tokens": 70}, {"input_uncached": 70, "cache_read": 30}),
        ({"cached_tokens": 30}, {"input_uncached": 70, "cache_read": 30}),
        ({"prompt_tokens_details": {"image_tokens": 60}}, {"input_uncached": 40, "image_input": 60}),
        ({"completion_tokens_details": {"image_tokens": 45}}, {"output": 5, "image_output": 45}),
        (
            {"completion_tokens_details": {"reasoning_tokens": 30, "image_tokens": 45}},
            {"output": 0, "reasoning": 30, "image_output": 20},
        ),
        ({"num_search_queries": 18, "citation_tokens": 9}, {"searches": 18}),
        ({"server_tool_use": {"web_search_requests": 2, "tool_calls_requested": 3}}, {"searches": 2}),
        ({"server_tool_use_details": {"web_search_requests": 2}}, {"searches": 2}),
        ({"server_side_tool_usage_details": {"web_search_calls": 4, "x_search_calls": 1}}, {"searches": 4}),
        ({"server_tool_use": {"web_search_requests": -2}}, {}),
        ({"num_search_queries": "many"}, {}),
        ({"cache_read_input_tokens": 30}, {"input_uncached": 70, "cache_read": 30}),
        ({"cache_creation_input_tokens": 30}, {"input_uncached": 70, "cache_write_5m": 30}),
        ({"prompt_tokens_details": {"cache_creation_tokens": 30}}, {"input_uncached": 70, "cache_write_5m": 30}),
        ({"prompt_tokens_details": {"cache_write_tokens": 30}}, {"input_uncached": 70, "cache_write_5m": 30}),
        (
            {"cache_creation_input_tokens": 30, "cache_creation": {"ephemeral_1h_input_tokens": 10}},
            {"input_uncached": 70, "cache_write_5m": 20, "cache_write_1h": 10},
        ),
        (
            {"prompt_tokens_details": {"cached_tokens": 90, "audio_tokens": 40}},
            {"input_uncached": 0, "cache_read": 90, "audio_input": 10},
        ),
        # Of a token that is both cached and audio: where it is told how many are, and where that cannot be.
        (
            {
                "prompt_tokens_details": {
                    "cached_tokens": 60,
                    "audio_tokens": 40,
                    "cached_tokens_details": {"text_tokens": 30, "audio_tokens": 30},
                }
            },
            {"input_uncached": 30, "cache_read": 60, "audio_input": 10},
        ),
        (
            {
                "prompt_tokens_details": {
                    "cached_tokens": 60,
                    "audio_tokens": 40,
                    "cached_tokens_details": {"audio_tokens": 90},
                }
            },
            {"input_uncached": 40, "cache_read": 60, "audio_input": 0},
        ),
        (
            {
                "prompt_tokens_details": {
                    "cached_tokens": 60,
                    "audio_tokens": 40,
                    "cached_tokens_details": {"audio_tokens": "many"},
                }
            },
            {"input_uncached": 0, "cache_read": 60, "audio_input": 40},
        ),
        ({"completion_tokens_details": {"reasoning_tokens": 20}}, {"output": 30, "reasoning": 20}),
        ({"reasoning_tokens": 20}, {"output": 30, "reasoning": 20}),
        ({"completion_tokens_details": {"reasoning_tokens": 70}}, {"output": 0, "reasoning": 50}),
        ({"completion_tokens_details": {"audio_tokens": 20}}, {"output": 30, "audio_output": 20}),
        ({"total_tokens": 170}, {"output": 70}),
        ({"total_tokens": 170, "completion_tokens_details": {"reasoning_tokens": 20}}, {"output": 50, "reasoning": 20}),
        ({"total_tokens": 10}, {}),
        ({"total_tokens": None, "prompt_tokens_details": None, "completion_tokens_details": "none"}, {}),
    ],
)
def test_buckets(report: dict[str, Any], expected: dict[str, int]) -> None:
    assert buckets(read_usage({**CORE, **report})) == {"input_uncached": 100, "output": 50, **expected}


@pytest.mark.parametrize(
    "report",
    [
        {},
        {"total_tokens": 3},
        {"prompt_tokens": 3},
        {"completion_tokens": 3},
        {"prompt_tokens": -1, "completion_tokens": 3},
        {"prompt_tokens": True, "completion_tokens": 3},
        {"prompt_tokens": "3", "completion_tokens": 3},
        {"prompt_tokens": 3, "completion_tokens": 10**18},
        {"prompt_tokens": 1.5, "completion_tokens": 3},
        {"prompt_tokens_details": {"cached_tokens": 0}},
    ],
)
def test_a_partial_or_absurd_report_is_ignored(report: dict[str, Any]) -> None:
    assert read_usage(report) is None


def test_details_are_kept_as_they_were_reported() -> None:
    prompt, completion = (
        {"cached_tokens": 1, "x": None},
        {"accepted_prediction_tokens": 4, "rejected_prediction_tokens": 2},
    )
    usage = read_usage({**CORE, "prompt_tokens_details": prompt, "completion_tokens_details": completion})
    assert usage is not None
    assert usage.prompt_details == prompt
    assert usage.completion_details == completion
    assert (usage.accepted_prediction, usage.rejected_prediction) == (4, 2)


counts = st.integers(0, 1000) | st.none()


OUTSIDE = {"prompt_tokens": 7, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 163}}
"""docs/spec/quirks.md Q42: the cached tokens are no part of the prompt."""


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        ({}, {}),
        ({"prompt_tokens_details": {"cached_tokens": 163, "text_tokens": 7, "audio_tokens": 0}}, {"audio_input": 0}),
        ({"prompt_tokens_details": None, "prompt_cache_hit_tokens": 163}, {}),
        ({"prompt_tokens_details": None, "cache_read_input_tokens": 163}, {}),
        ({"prompt_tokens_details": None, "cached_tokens": 163}, {}),
        ({"cache_creation_input_tokens": 5}, {"input_uncached": 2, "cache_write_5m": 5}),
        ({"prompt_tokens": 0}, {"input_uncached": 0}),
        # What the total is made of: prompt and completion, the cached ones too, reasoning that is in neither, or all.
        ({"total_tokens": 27}, {}),
        ({"total_tokens": 190}, {}),
        ({"total_tokens": 127, "reasoning_tokens": 100}, {"output": 20, "reasoning": 100}),
        ({"total_tokens": 327, "reasoning_tokens": 300}, {"output": 20, "reasoning": 300}),
        ({"total_tokens": 490, "reasoning_tokens": 300}, {"output": 20, "reasoning": 300}),
    ],
    ids=str,
)
def test_more_cached_tokens_than_the_prompt_has_are_beside_it(report: dict[str, Any], expected: dict[str, int]) -> None:
    usage = read_usage({**OUTSIDE, **report})
    assert usage is not None
    assert buckets(usage) == {"input_uncached": 7, "cache_read": 163, "output": 20, **expected}
    assert usage.prompt_tokens == 163 + {**OUTSIDE, **report}["prompt_tokens"]
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def test_as_many_cached_tokens_as_the_prompt_has_are_all_of_it() -> None:
    usage = read_usage({**OUTSIDE, "prompt_tokens": 163})
    assert usage is not None
    assert (usage.prompt_tokens, usage.input_uncached, usage.cache_read) == (163, 0, 163)


@given(counts, counts, counts, counts, counts, counts)
def test_the_totals_are_those_of_the_report(
    cached: int | None, written: int | None, hour: int | None, heard: int | None, thought: int | None, said: int | None
) -> None:
    usage = read_usage(
        {
            **CORE,
            "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written, "audio_tokens": heard},
            "cache_creation": {"ephemeral_1h_input_tokens": hour},
            "completion_tokens_details": {"reasoning_tokens": thought, "audio_tokens": said},
        }
    )
    assert usage is not None
    outside = cached if cached is not None and cached > 100 else 0
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (100 + outside, 50, 150 + outside)
    assert min(buckets(usage).values()) >= 0
