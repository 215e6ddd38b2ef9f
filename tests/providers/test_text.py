"""Text completions of providers: on the path itself, and by way of chat completions."""

import json
from typing import Any

import pytest

from streamweir.core.events import (
    ChoiceFinished,
    Event,
    FinishReason,
    LogprobsDelta,
    ReasoningDelta,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    TextDelta,
    UsageDiscarded,
    UsageReported,
)
from streamweir.core.request import ChatRequest
from streamweir.core.usage import Usage
from streamweir.frontends.completions.request import read_completions_request
from streamweir.pipeline.intake import Intake
from streamweir.providers.base import PART, Target
from streamweir.providers.prompts import add_usage
from streamweir.providers.registry import has_text, provider_named, provider_names
from streamweir.wire import sse
from support.answers import anthropic_stream, openai_stream, openai_whole
from support.completions import TEXTS, text_stream, text_whole

TARGET = Target(model="m", api_key="k")
BETWEEN = b"\n\n" + sse.write_event(PART, b"{}")


def asked(**members: Any) -> ChatRequest:
    return read_completions_request({"model": "caller's", "prompt": "Hi", **members})


def read(name: str, body: bytes, choices: int = 1, size: int | None = None) -> list[Event]:
    intake = Intake(provider_named(name), choices)
    events: list[Event] = []
    for at in range(0, len(body), size or len(body) or 1):
        events += intake.feed(body[at : at + (size or len(body))])
    return [*events, *intake.finish()]


def texts_of(events: list[Event]) -> dict[int, str]:
    assert isinstance(events[-1], StreamCompleted), events[-1]
    texts: dict[int, str] = {}
    for event in events:
        if isinstance(event, TextDelta):
            texts[event.choice] = texts.get(event.choice, "") + event.text
    return texts


def usage_of(events: list[Event]) -> tuple[int, int] | None:
    found = [event.usage for event in events if isinstance(event, UsageReported)]
    return (found[-1].prompt_tokens, found[-1].completion_tokens) if found else None


def code_of(events: list[Event]) -> str:
    (failed,) = [event for event in events if isinstance(event, StreamFailed)]
    assert failed is events[-1]
    return failed.error.code


# The path itself.


def test_who_has_the_path() -> None:
    assert {name for name in provider_names() if has_text(name, "any-model")} == {
        "cerebras",
        "fireworks",
        "gpustack",
        "hyperbolic",
        "litellm-proxy",
        "llamacpp",
        "lmstudio",
        "mistralrs",
        "nebius",
        "novita",
        "ollama",
        "openrouter",
        "together",
        "vllm",
    }
    for model in ("gpt-3.5-turbo-instruct", "davinci-002", "babbage-002"):
        assert has_text("openai", model)
    assert has_text("azure", "my-instruct")
    assert has_text("vllm", "m", prompts=2)
    assert not has_text("ollama", "m", prompts=2), "its path takes one prompt"
    assert not has_text("openai", "gpt-5")


def test_the_body_goes_on_as_it_came() -> None:
    request = asked(suffix="s", echo=True, logprobs=2, best_of=3, strange=[1], stream=True, top_k=4)
    built = provider_named("text/openai").build_request(request, TARGET)
    assert built.path == "/completions"
    assert ("authorization", "Bearer k") in built.headers
    assert json.loads(built.body) == {
        "model": "m",
        "prompt": "Hi",
        "suffix": "s",
        "echo": True,
        "logprobs": 2,
        "best_of": 3,
        "strange": [1],
        "stream": True,
        "max_tokens": 16,
        "stream_options": {"include_usage": True},
    }
    assert built.dropped == ("top_k",)
    azure = provider_named("text/azure").build_request(
        asked(), Target(model="i", api_version="2024-10-21", api_key="k")
    )
    assert azure.path == "/openai/deployments/i/completions?api-version=2024-10-21"
    assert ("api-key", "k") in azure.headers


def test_a_router_is_not_told_of_other_models() -> None:
    built = provider_named("text/openrouter").build_request(asked(models=["dear"], fallbacks=[1]), TARGET)
    assert set(built.dropped) == {"models", "fallbacks"}
    assert not {"models", "fallbacks"} & json.loads(built.body).keys()


def test_a_vendor_with_one_choice() -> None:
    provider = provider_named("text/ollama")
    assert provider.refusal_of(asked(), "m") is None
    assert provider.refusal_of(asked(prompt=["a", "b"]), "m") is None
    refusal = provider.refusal_of(asked(n=2), "m")
    assert refusal is not None
    assert refusal.param == "n"


@pytest.mark.parametrize("size", [None, 1, 7])
@pytest.mark.parametrize("choices", [1, 3])
def test_chunks_of_text(size: int | None, choices: int) -> None:
    events = read("text/openai", text_stream(choices=choices), choices, size)
    assert texts_of(events) == dict.fromkeys(range(choices), "".join(TEXTS))
    assert usage_of(events) == (3, 3 * choices)
    finishes = [event for event in events if isinstance(event, ChoiceFinished)]
    assert [event.reason for event in finishes] == [FinishReason.LENGTH] * choices
    assert isinstance(events[0], StreamStarted)
    assert events[0].id == "cmpl-upstream00000001"


@pytest.mark.parametrize("choices", [1, 3])
def test_a_whole_text(choices: int) -> None:
    events = list(provider_named("text/openai").decode_whole(text_whole(choices=choices), choices))
    assert texts_of(events) == dict.fromkeys(range(choices), "".join(TEXTS))
    assert usage_of(events) == (3, 3 * choices)


def test_log_probabilities_are_carried() -> None:
    logprobs = {"tokens": ["a"], "token_logprobs": [-0.5], "top_logprobs": None, "text_offset": [0]}
    events = read("text/openai", text_stream(["a"], logprobs=logprobs))
    assert [event.logprobs for event in events if isinstance(event, LogprobsDelta)] == [logprobs]
    events = list(provider_named("text/openai").decode_whole(text_whole("a", logprobs=logprobs), 1))
    assert LogprobsDelta(0, logprobs) in events


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (text_stream()[:-20], "upstream_stream_truncated"),
        (text_stream().partition(b"data: [DONE]")[0].rpartition(b'"length"')[0], "upstream_stream_truncated"),
        (text_stream(choices=1).replace(b'"index": 0', b'"index": 1'), "upstream_bad_response"),
        (b'data: {"error":{"message":"x","type":"server_error"}}\n\n', "upstream_server_error"),
        (b"", "upstream_empty_response"),
        (b"data: {\n\n", "upstream_invalid_frame"),
        (b'{"choices":[]}', "upstream_bad_response"),
        (text_whole(), "upstream_bad_response"),
    ],
)
def test_a_broken_answer(body: bytes, code: str) -> None:
    assert code_of(read("text/openai", body, 2 if body == text_whole() else 1)) == code


def test_wrong_types_are_read_as_far_as_they_go() -> None:
    body = text_stream().replace(b'"created": 1700000000', b'"created": "now"')
    assert texts_of(read("text/openai", body)) == {0: "".join(TEXTS)}


# By way of chat.


def test_each_prompt_is_a_chat_of_its_own() -> None:
    request = asked(prompt=["a", "b"], n=2, stream=True, temperature=0.5)
    built = provider_named("prompts/2/2/openai").build_request(request, TARGET)
    bodies = [json.loads(body) for body in (built.body, *built.more)]
    assert [body["messages"] for body in bodies] == [[{"role": "user", "content": text}] for text in ("a", "b")]
    assert [(body["n"], body["max_completion_tokens"], body["temperature"]) for body in bodies] == [(2, 16, 0.5)] * 2
    assert (built.is_streamed, built.parallel) == (True, 1)
    single = provider_named("prompts/1/1/anthropic").build_request(asked(), TARGET)
    assert (single.more, json.loads(single.body)["max_tokens"]) == ((), 16)


@pytest.mark.parametrize(
    ("members", "param"), [({"prompt": [1, 2]}, "prompt"), ({"max_tokens": 0}, "max_tokens"), ({"n": 2}, "n")]
)
def test_what_chat_cannot_do_is_refused(members: dict[str, Any], param: str) -> None:
    request = asked(**members)
    refusal = provider_named(f"prompts/1/{request.n}/anthropic").refusal_of(request, "m")
    assert refusal is not None
    assert (refusal.code, refusal.param) == ("invalid_value", param)


def test_prompts_on_a_provider_with_one_choice() -> None:
    request = asked(prompt=["a", "b", "c"])
    assert provider_named("prompts/3/1/anthropic").refusal_of(request, "m") is None


@pytest.mark.parametrize("size", [None, 1, 13])
def test_streams_of_several_prompts_become_one(size: int | None) -> None:
    body = BETWEEN.join([openai_stream(["one"]), openai_stream(["two", "!"]), openai_stream(["three"])])
    events = read("prompts/3/1/openai", body, 3, size)
    assert texts_of(events) == {0: "one", 1: "two!", 2: "three"}
    assert usage_of(events) == (21, 4)
    assert len([event for event in events if isinstance(event, StreamStarted)]) == 1
    assert [event.choice for event in events if isinstance(event, ChoiceFinished)] == [0, 1, 2]


def test_other_wires_are_joined_alike() -> None:
    body = BETWEEN.join([anthropic_stream(["one"]), anthropic_stream(["two"])])
    assert texts_of(read("prompts/2/1/anthropic", body, 2)) == {0: "one", 1: "two"}


def test_whole_answers_of_several_prompts_become_one() -> None:
    body = b'{"parts":[%b,%b]}' % (openai_whole("one"), openai_whole("two"))
    events = list(provider_named("prompts/2/1/openai").decode_whole(body, 2))
    assert texts_of(events) == {0: "one", 1: "two"}
    assert usage_of(events) == (14, 10)


def test_a_discarded_report_of_a_later_answer_is_noted() -> None:
    second = openai_stream(["two"]).replace(b'"prompt_tokens":', b'"prompt_tokens":-')
    events = read("prompts/2/1/openai", BETWEEN.join([openai_stream(["one"]), second]), 2)
    assert UsageDiscarded() in events
    assert usage_of(events) is None


def test_usage_needs_every_answer() -> None:
    body = BETWEEN.join([openai_stream(["one"]), openai_stream(["two"], usage=False)])
    assert usage_of(read("prompts/2/1/openai", body, 2)) is None
    assert usage_of(read("prompts/1/1/openai", openai_stream(["one"]))) == (7, 1)


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ([openai_stream(["one"])], "upstream_bad_response"),
        ([openai_stream(["one"], finish=None, done=False), openai_stream(["two"])], "upstream_stream_truncated"),
        ([openai_stream(["one"]), openai_stream(["two"], finish=None, done=False)], "upstream_stream_truncated"),
        ([openai_stream(["one"]), b""], "upstream_empty_response"),
        ([openai_stream(["one"])[:-30], openai_stream(["two"])], "upstream_invalid_frame"),
    ],
    ids=["one missing", "first cut", "second cut", "second empty", "cut inside a frame"],
)
def test_streams_that_do_not_fit_together(parts: list[bytes], code: str) -> None:
    assert code_of(read("prompts/2/1/openai", BETWEEN.join(parts), 2)) == code


@pytest.mark.parametrize("body", [b'{"parts":[{}]}', b"{}", b'{"parts":[', b'{"parts":[{},{}]}'])
def test_whole_answers_that_do_not_fit_together(body: bytes) -> None:
    assert code_of(list(provider_named("prompts/2/1/openai").decode_whole(body, 2))) == "upstream_bad_response"


CALL = {"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "x", "function": {"name": "f", "arguments": "{}"}}]}}


def test_a_call_is_text_that_cannot_be_shown() -> None:
    frame = b"data: " + json.dumps({"id": "c", "choices": [CALL]}).encode() + b"\n\n"
    assert code_of(read("prompts/1/1/openai", frame + openai_stream())) == "upstream_bad_response"


@pytest.mark.parametrize("text", [{}, {"text": ""}, {"text": "Hi"}], ids=["no text", "empty text", "text"])
@pytest.mark.parametrize("place", ["delta", "message"])
@pytest.mark.parametrize("created", [1, "now"], ids=["typed", "wrong types"])
def test_a_call_on_the_path_itself_cannot_be_shown_either(text: dict[str, str], place: str, created: object) -> None:
    choice = {"index": 0, **text, place: CALL["delta"], "finish_reason": "tool_calls"}
    body = json.dumps({"id": "c", "created": created, "choices": [choice]}).encode()
    assert code_of(list(provider_named("text/openai").decode_whole(body, 1))) == "upstream_bad_response"
    assert code_of(read("text/openai", b"data: " + body + b"\n\ndata: [DONE]\n\n")) == "upstream_bad_response"


def test_reasoning_is_counted_and_not_shown() -> None:
    """The encoder leaves it out; a meter must see it."""
    frame = b'data: {"id":"c","choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}\n\n'
    events = read("prompts/1/1/openai", frame + openai_stream(["one"]))
    assert [event.text for event in events if isinstance(event, ReasoningDelta)] == ["hm"]


def test_the_sum_of_two_reports() -> None:
    first, second = Usage(input_uncached=1, cache_read=2, output=3), Usage(input_uncached=4, output=5, reasoning=6)
    total = add_usage(first, second)
    assert total == Usage(input_uncached=5, cache_read=2, output=8, reasoning=6)
    assert add_usage(None, second) is add_usage(first, None) is None


def test_a_prompts_decoder_ends_once() -> None:
    decoder = provider_named("prompts/1/1/openai").decoder()
    splitter = sse.Splitter()
    for frame in splitter.feed(openai_stream(["one"])):
        decoder.feed(frame)
    assert not decoder.finish()
    assert not decoder.fail(ValueError)  # type: ignore[arg-type]
