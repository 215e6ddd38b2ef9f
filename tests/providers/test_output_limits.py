"""The longest answers of models: a limit above them is refused."""

import pytest

from streamweir.providers.output_limits import documented_output_limit, output_limit


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("gpt-4o", 16_384),
        ("openai/gpt-4.1-mini", 32_768),
        ("gpt-5-chat-latest", 16_384),
        ("o3-mini", 100_000),
        ("claude-3-5-haiku-20241022", 8192),
        ("anthropic/claude-sonnet-4.5", 64_000),
        ("gemini-2.0-flash", 8192),
        ("google/gemini-2.5-pro", 65_535),
        ("gemini-2.5-flash-image", 32_767),
        ("google/gemini-3-pro-image-preview", 32_767),
        ("gemini-2.5-flash-preview-tts", 8192),
        ("gemini-2.5-flash-native-audio-latest", 8192),
        ("made-up", None),
    ],
)
def test_the_longest_answer_is_known_by_the_name(model: str, tokens: int | None) -> None:
    assert output_limit(model) == tokens


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("openai/gpt-4o-mini", 16_384),
        ("gpt-5.2", 128_000),
        ("gpt-5-pro-2025-10-06", 272_000),
        ("gpt-4", 8192),
        ("gpt-3.5-turbo", 4096),
        ("o4-mini", 100_000),
        ("claude-sonnet-4-6", 128_000),
        ("us.anthropic.claude-opus-4-1-20250805-v1:0", 32_000),
        ("google/gemini-3-pro-preview", 65_535),
        ("gemini-2.0-flash", 8192),
        ("gemini-2.5-flash-native-audio-latest", 8192),
    ],
)
def test_a_maximum_that_is_documented_is_known(model: str, tokens: int) -> None:
    assert documented_output_limit(model) == output_limit(model) == tokens


@pytest.mark.parametrize(
    "model",
    [
        "made-up",
        "claude",
        "claude-opus",
        "claude-of-another-house-3",
        "gpt-4-32k",
        "gpt-4.7",
        "gpt-3.5-turbo-16k",
        "gpt-oss-120b",
        "deepseek-chat",
        "deepseek/deepseek-reasoner",
        "gemini-2.0-flash-thinking-exp",
        "gemini-2.5-flash-preview-tts",
    ],
)
def test_a_guess_is_no_maximum(model: str) -> None:
    """Lowered to it, an answer could be cut that its caller would have got."""
    assert documented_output_limit(model) is None
