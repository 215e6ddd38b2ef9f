"""Usage in disjoint buckets: the numbers that overlap are derived, and only from valid counts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.core.usage import MAX_TOKEN_COUNT, Usage, member_count, token_count

COUNT = st.none() | st.integers(0, 10**6)


@given(
    st.builds(
        Usage,
        input_uncached=st.integers(0, 10**6),
        cache_read=COUNT,
        cache_write_5m=COUNT,
        cache_write_1h=COUNT,
        audio_input=COUNT,
        image_input=COUNT,
        output=st.integers(0, 10**6),
        reasoning=COUNT,
        audio_output=COUNT,
        image_output=COUNT,
        searches=COUNT,
    )
)
def test_every_bucket_counts_once(usage: Usage) -> None:
    buckets = [
        usage.input_uncached,
        usage.cache_read,
        usage.cache_write_5m,
        usage.cache_write_1h,
        usage.audio_input,
        usage.image_input,
        usage.output,
        usage.reasoning,
        usage.audio_output,
        usage.image_output,
    ]
    assert usage.total_tokens == sum(bucket or 0 for bucket in buckets)
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.completion_tokens == sum(bucket or 0 for bucket in buckets[6:])


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (Usage(), None),
        (Usage(cache_write_5m=0), 0),
        (Usage(cache_write_1h=4), 4),
        (Usage(cache_write_5m=3, cache_write_1h=4), 7),
    ],
)
def test_cache_write_is_none_unless_reported(usage: Usage, expected: int | None) -> None:
    assert usage.cache_write == expected


def test_a_prediction_stands_inside_the_output() -> None:
    usage = Usage(output=10, accepted_prediction=4, rejected_prediction=3)
    assert usage.completion_tokens == 10


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (17, 17),
        (17.0, 17),
        (MAX_TOKEN_COUNT, MAX_TOKEN_COUNT),
        (MAX_TOKEN_COUNT + 1, None),
        (10**18, None),
        (1e18, None),
        (-1, None),
        (1.5, None),
        (float("inf"), None),
        (float("nan"), None),
        ("17", None),
        (True, None),
        (None, None),
        ([], None),
    ],
)
def test_token_count(value: object, expected: int | None) -> None:
    assert token_count(value) == expected


@pytest.mark.parametrize(
    ("report", "path", "expected"),
    [
        ({"a": 1}, ("a",), 1),
        ({"a": 1}, ("b",), None),
        ({"a": {"b": 2}}, ("a", "b"), 2),
        ({"a": None}, ("a", "b"), None),
        ({"a": [1]}, ("a", "b"), None),
        ({"a": {"b": "x"}}, ("a", "b"), None),
    ],
)
def test_member_count(report: dict[str, Any], path: tuple[str, ...], expected: int | None) -> None:
    assert member_count(report, *path) == expected
