"""Our own count: which vocabulary a model has, what is counted on the event loop and what is not."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import splintr

from streamweir.core.request import ChatRequest, read_request
from streamweir.pipeline.settlement import UsageSource, estimate
from streamweir.server.accounting.token_count import (
    MAX_COUNTED,
    MAX_ON_LOOP,
    VOCABULARIES,
    PromptCount,
    Vocabularies,
    VocabularyChoice,
    has_media,
    vocabulary_of,
)

TOKENIZER, ESTIMATE = UsageSource.TOKENIZER, UsageSource.ESTIMATE
LOADED = Vocabularies()
"""One for most of the tests: loading takes its time."""
PROSE = "A weir is a low wall across a river — it holds the water back. "


def chat(*messages: dict[str, Any], **members: Any) -> ChatRequest:
    return read_request({"model": "m", "messages": list(messages), **members})


def said(text: str = "hello world") -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.mark.parametrize(
    ("model", "vocabulary", "is_own"),
    [
        ("gpt-4o-mini-2024-07-18", "o200k_base", True),
        ("openai/gpt-4.1-nano", "o200k_base", True),
        ("gpt4o", "o200k_base", True),
        ("GPT_4O", "o200k_base", True),
        ("gpt-5.2", "o200k_base", True),
        ("gpt-oss-120b", "o200k_base", True),
        ("o1", "o200k_base", True),
        ("openai/o3-mini", "o200k_base", True),
        ("gpt-4-1106-preview", "cl100k_base", True),
        ("gpt-35-turbo", "cl100k_base", True),
        ("gpt-3.5-turbo-0125", "cl100k_base", True),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama3", True),
        ("accounts/fireworks/models/llama-v3p1-8b-instruct", "llama3", True),
        ("deepseek-r1-distill-llama-70b", "llama3", True),
        ("llama-4-scout", "o200k_base", False),
        ("deepseek-chat", "deepseek_v3", True),
        ("deepseek-r1-distill-qwen-32b", "qwen3", True),
        ("qwen2.5-72b-instruct", "qwen3", True),
        ("qwen3-32b", "qwen3", True),
        ("qwen3.5-397b", "o200k_base", False),
        ("glm-4.6", "glm4", True),
        ("moonshotai/kimi-k2-instruct", "kimi_k2", True),
        ("gemma-3-27b-it", "gemma3", True),
        ("gemini-2.5-flash", "gemma3", False),
        ("open-mixtral-8x7b", "mistral_v1", True),
        ("open-mistral-nemo", "mistral_v3", True),
        ("mistral-large-latest", "mistral_v3", False),
        ("devstral-small", "mistral_v3", False),
        ("nemotron-70b", "o200k_base", False),
        ("claude-sonnet-4-5", "o200k_base", False),
        ("smollm2", "o200k_base", False),
        ("", "o200k_base", False),
    ],
)
def test_the_vocabulary_of_a_model(model: str, vocabulary: str, is_own: bool) -> None:
    assert vocabulary_of(model) == VocabularyChoice(vocabulary, is_own)


def test_every_vocabulary_is_there() -> None:
    """Which ones there are the library tells when it is asked for another."""
    with pytest.raises(ValueError, match="Supported: ") as told:
        splintr.Tokenizer.from_pretrained("another")
    assert set(VOCABULARIES) <= set(str(told.value).partition("Supported: ")[2].split(", "))


@pytest.mark.soak
@pytest.mark.parametrize("name", VOCABULARIES)
def test_every_vocabulary_counts(name: str) -> None:
    count = Vocabularies().load(name)
    assert count is not None
    assert 2 <= count("hello world") <= 4
    assert count("") == 0


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("hello world", 2), ("<|endoftext|>", 7), ("a\ud83d", 2), (PROSE, 18)]
)
def test_a_text(text: str, tokens: int) -> None:
    """A special token that is spelled out is a text, and half an emoji is a character like any other."""
    tokenizer = LOADED.tokenizer("gpt-4o")
    assert tokenizer(text) == (tokens, TOKENIZER)


def test_another_familys_vocabulary_gives_an_estimate() -> None:
    assert LOADED.tokenizer("claude-sonnet-4-5")("hello world") == (2, ESTIMATE)


def test_a_long_text_is_counted_in_pieces() -> None:
    text = PROSE * 6_000
    whole = len(splintr.Tokenizer.from_pretrained("o200k_base").encode_ordinary(text))
    assert LOADED.tokenizer("gpt-4o")(text) == (whole, TOKENIZER)
    assert LOADED.tokenizer("gpt-4o")("x" * 300_000)[0] == pytest.approx(300_000 / 8, rel=0.01)


def test_the_count_of_a_long_text_is_extrapolated_from_its_beginning() -> None:
    text = PROSE * (MAX_COUNTED // len(PROSE)) * 2
    tokens, source = LOADED.tokenizer("gpt-4o")(text)
    assert source is ESTIMATE
    assert tokens == pytest.approx(len(text) / len(PROSE) * 17, rel=0.1)


def test_on_the_loop_only_what_is_loaded_and_short_is_counted() -> None:
    with ThreadPoolExecutor(1) as executor:
        vocabularies = Vocabularies(executor)
        tokenizer = vocabularies.tokenizer("gpt-4o")
        started, loading = threading.Event(), threading.Event()
        executor.submit(started.set)
        executor.submit(loading.wait, 10)
        started.wait(10)
        assert tokenizer.count_on_loop("hello world") == estimate("hello world")
        assert tokenizer.count_on_loop("hello world") == estimate("hello world")
        loading.set()
        executor.submit(int).result(10)
        assert tokenizer.count_on_loop("hello world") == (2, TOKENIZER)
        long = "x" * (MAX_ON_LOOP + 1)
        assert tokenizer.count_on_loop(long) == estimate(long)


def test_without_an_executor_nothing_is_loaded_from_the_loop() -> None:
    tokenizer = Vocabularies().tokenizer("gpt-4o")
    assert tokenizer.count_on_loop("hello world") == estimate("hello world")
    tokenizer("load it")
    assert tokenizer.count_on_loop("hello world") == (2, TOKENIZER)


def test_many_threads_load_it_once() -> None:
    vocabularies = Vocabularies()
    with ThreadPoolExecutor(4) as executor:
        counts = list(executor.map(lambda _: vocabularies.load("mistral_v1"), range(8)))
    assert len(set(counts)) == 1


def test_without_the_library_everything_is_an_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "splintr", None)
    tokenizer = Vocabularies().tokenizer("gpt-4o")
    assert tokenizer("hello world") == tokenizer.count_on_loop("hello world") == estimate("hello world")
    assert tokenizer.count_prompt(chat(said()))[1] is ESTIMATE


def test_a_vocabulary_that_the_library_does_not_have_is_an_estimate() -> None:
    assert Vocabularies().load("no_such_vocabulary") is None


def test_a_prompt_by_openais_rule() -> None:
    """Three for each message and three for the answer, one for a role, one for having a name."""
    tokenizer = LOADED.tokenizer("gpt-4o")
    system = {"role": "system", "content": "You are helpful."}
    assert tokenizer.count_prompt(chat(said())) == (3 + 1 + 2 + 3, TOKENIZER)
    assert tokenizer.count_prompt(chat(system, said())) == (3 + 1 + 4 + 3 + 1 + 2 + 3, TOKENIZER)
    assert tokenizer.count_prompt(chat({**said(), "name": "bob"})) == (3 + 1 + 1 + 1 + 2 + 3, TOKENIZER)
    assert tokenizer.count_prompt_on_loop(chat(system, said())) == tokenizer.count_prompt(chat(system, said()))


def test_what_is_kept_of_a_request_counts_as_the_whole_of_it() -> None:
    tokenizer = LOADED.tokenizer("gpt-4o")
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    for asked in (chat(said()), chat(said(), {**said("a"), "name": "bob"}, temperature=1), chat(said(), tools=[tool])):
        assert tokenizer.count_prompt(asked.prompt) == tokenizer.count_prompt(asked)
        assert PromptCount(tokenizer, asked.prompt)() == tokenizer.count_prompt_on_loop(asked)


def test_the_calls_of_a_prompt_are_counted() -> None:
    function = {"name": "look", "arguments": '{"a":1}'}
    call = {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": function}]}
    custom = {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "f", "input": "x"}}]}
    refusal = {"role": "assistant", "content": [{"type": "refusal", "refusal": "No, never."}]}
    tokenizer = LOADED.tokenizer("gpt-4o")
    bare = tokenizer.count_prompt(chat(said()))[0]
    for message in (call, custom, refusal):
        tokens, source = tokenizer.count_prompt(chat(said(), message))
        assert tokens >= bare + 3 + 1 + 2
        assert source is TOKENIZER


def part(kind: str, **members: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": kind, kind: members}]}


IMAGE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}]}
SMALL = {
    "role": "user",
    "content": [{"type": "image_url", "image_url": {"url": "https://a.example/b.png", "detail": "low"}}],
}
MEDIA = [
    (IMAGE, 1105),
    (SMALL, 85),
    (part("input_audio", data="A" * 10_000, format="wav"), 11),
    (part("file", file_data="A" * 3200), 101),
    (part("file", file_id="f"), 4096),
    (part("video_url", url="https://a.example/b.mp4"), 4096),
]


@pytest.mark.parametrize(("message", "tokens"), MEDIA)
def test_what_is_no_text_is_a_guess(message: dict[str, Any], tokens: int) -> None:
    tokenizer = LOADED.tokenizer("gpt-4o")
    assert tokenizer.count_prompt(chat(message)) == (3 + 1 + 3 + tokens, ESTIMATE)
    assert has_media(chat(message))
    assert not has_media(chat(said()))


def test_tools_make_it_an_estimate() -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    tokenizer = LOADED.tokenizer("gpt-4o")
    tokens, source = tokenizer.count_prompt(chat(said(), tools=[tool]))
    assert tokens > tokenizer.count_prompt(chat(said()))[0] + 10
    assert source is ESTIMATE
    assert not has_media(chat(said(), tools=[tool]))
    assert has_media(chat(said(), tools=[{"type": "web_search"}]))
    assert tokenizer.count_prompt_on_loop(chat(said(), tools=[tool]))[1] is ESTIMATE


@pytest.mark.parametrize("messages", [[said("x" * (MAX_ON_LOOP + 1))], [said()] * 200])
def test_a_long_prompt_is_not_counted_on_the_loop(messages: list[dict[str, Any]]) -> None:
    tokenizer = LOADED.tokenizer("gpt-4o")
    assert tokenizer.count_prompt(chat(*messages))[1] is TOKENIZER  # and now it is loaded
    assert tokenizer.count_prompt_on_loop(chat(*messages))[1] is ESTIMATE
