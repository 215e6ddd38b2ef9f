"""Which models are documented to bill no reasoning unless a request asks for it: an unknown one is not."""

import pytest

from streamweir.providers.hidden_reasoning import never_hides


@pytest.mark.parametrize(
    "model",
    [
        "gpt-4o",
        "gpt-4o-mini-2024-07-18",
        "openai/gpt-4.1-nano",
        "gpt-4",
        "gpt-3.5-turbo",
        "gemini-2.0-flash-001",
        "gemini-1.5-pro",
        "claude-3-5-sonnet-20241022",
        "claude-sonnet-4-5",
        "anthropic.claude-haiku-4-5-20251001-v1:0",
    ],
)
def test_a_model_that_reasons_only_when_it_is_asked_to(model: str) -> None:
    assert never_hides(model)


@pytest.mark.parametrize(
    "model",
    [
        "o3-mini",
        "gpt-5",
        "gpt-5.1-chat-latest",
        "gpt-40",
        "my-gpt-4o",
        "gpt-4o-search-preview",
        "gpt-4o-audio-preview",
        "gemini-2.5-flash",
        "gemini-2.0-flash-thinking-exp",
        "claude-opus-5",
        "claude-something",
        "deepseek-reasoner",
        "grok-4",
        "nobody-has-heard-of-this",
    ],
)
def test_any_other_may_hide_some(model: str) -> None:
    assert not never_hides(model)
