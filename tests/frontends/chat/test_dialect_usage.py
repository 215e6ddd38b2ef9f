"""The usage object of each dialect (docs/spec/dialects.md D14)."""

from typing import Any

import pytest

from streamweir.core.usage import Usage
from streamweir.frontends.chat.table import DIALECTS
from streamweir.frontends.chat.usage import usage_object

FULL = Usage(input_uncached=3, cache_read=4, cache_write_5m=2, cache_write_1h=1, output=5, reasoning=6)
REPORTED_ZERO = Usage(input_uncached=3, cache_read=0, output=5, reasoning=0)
OPENAI_STYLE = Usage(
    input_uncached=3,
    cache_read=4,
    output=5,
    openai_style=True,
    prompt_details={"cached_tokens": 4, "odd": 1},
    completion_details=None,
)


def details(usage: Usage, dialect: str) -> dict[str, Any]:
    shown = usage_object(usage, DIALECTS[dialect])
    assert shown.pop("total_tokens") == shown.pop("prompt_tokens") + shown.pop("completion_tokens")
    return shown


@pytest.mark.parametrize(
    ("dialect", "usage", "expected"),
    [
        (
            "opentoken",
            FULL,
            {
                "prompt_tokens_details": {"cached_tokens": 4, "cache_creation_tokens": 3},
                "completion_tokens_details": {"reasoning_tokens": 6},
            },
        ),
        (
            "opentoken",
            REPORTED_ZERO,
            {"prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 0}},
        ),
        ("opentoken", Usage(), {}),
        ("aivene", FULL, {"prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3}}),
        ("aivene", Usage(), {}),
        ("bitseek", FULL, {}),
        ("openai", OPENAI_STYLE, {"prompt_tokens_details": {"cached_tokens": 4, "odd": 1}}),
        ("openai", Usage(openai_style=True), {}),
        ("openai", Usage(openai_style=True, reasoning=2), {"completion_tokens_details": {"reasoning_tokens": 2}}),
        (
            "openai",
            FULL,
            {
                "completion_tokens_details": {
                    "reasoning_tokens": 6,
                    "audio_tokens": 0,
                    "accepted_prediction_tokens": 0,
                    "rejected_prediction_tokens": 0,
                },
                "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0},
            },
        ),
    ],
)
def test_details(dialect: str, usage: Usage, expected: dict[str, Any]) -> None:
    shown = details(usage, dialect)
    assert shown == expected
    assert list(shown) == list(expected)
