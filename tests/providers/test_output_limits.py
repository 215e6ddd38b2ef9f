"""The longest answers of models: a limit above them is refused."""

import pytest

from streamweir.providers.output_limits import longest_answer


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
    assert longest_answer(model) == tokens
