"""The scripts without a loop: their text, and how it is cut, counted and timed."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.upstream.script import MODELS, SCRIPTS, play
from streamweir.upstream.script.deltas import MAX_TOKENS, count_tokens, split_tokens
from support.script_player import CREATED, USER, body_of, deltas, finish_of, frames, said, steps, whole

HELLO = "Hello! I am the simulator of Streamweir: every word of mine is scripted."
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    },
}
CLOCK = {"type": "function", "function": {"name": "clock"}}


def test_the_text_of_each_script() -> None:
    assert said("hello") == HELLO
    assert said("slow-start") == HELLO
    assert said("echo") == "Say this, please."
    assert said("refusal", member="refusal").startswith("I'm sorry")
    assert said("refusal") == ""
    assert said("reasoning", member="reasoning_content").startswith("The caller wants")
    assert said("reasoning").startswith("I have thought")
    assert json.loads(said("json")) == {"answer": "example", "items": [1, 2, 3]}


def test_echo_says_the_last_user_message_in_all_its_text_parts() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    parts = [{"type": "text", "text": "one "}, image, {"type": "text", "text": "two"}]
    messages = [USER, {"role": "assistant", "content": "ok"}, {"role": "user", "content": parts}]
    assert said("echo", messages=messages) == "one two"
    assert said("echo", messages=[{"role": "system", "content": "be brief"}]) == ""


def test_lorem_has_the_requested_words_and_depends_on_the_seed() -> None:
    text = said("lorem?words=50")
    assert len(text.split()) == 50
    assert text.endswith(".")
    assert said("lorem?words=50&seed=0") == text
    assert said("lorem?words=50&seed=1") != text


@pytest.mark.parametrize("name", [name for name in SCRIPTS if name not in ("error", "empty", "html", "redirect")])
def test_the_parameter_text_replaces_the_text(name: str) -> None:
    blocks = [step.action for step in steps(f"{name}?text=Gr%C3%BC%C3%9Fe+%E2%9C%93&chunk=100", most=100)]
    found = [block for block in blocks if isinstance(block, bytes) and "Grüße ✓".encode() in block]
    assert len(found) == 1 or name == "endless"


def test_a_token_is_a_delta_unless_a_length_is_given() -> None:
    assert deltas("hello?text=Hi, you  there") == ["Hi", ",", " you", "  ", "there"]
    assert deltas("hello?text=Hi, you  there&chunk=4") == ["Hi, ", "you ", " the", "re"]
    assert deltas("hello?text=Hi&chunk=100") == ["Hi"]
    opener, *pieces = [calls[0]["function"] for calls in deltas("tools?chunk=10&calls=1", member="tool_calls")]
    assert opener == {"name": "get_weather", "arguments": ""}
    assert [piece["arguments"] for piece in pieces] == ['{"city":"P', 'aris","uni', 't":"celsiu', 's"}']


@given(st.text())
def test_tokens_make_up_the_text_and_are_short(text: str) -> None:
    tokens = list(split_tokens(text))
    assert "".join(tokens) == text
    assert count_tokens(text) == len(tokens)
    assert all(1 <= len(token) <= 17 for token in tokens)


def test_the_limit_of_the_caller_is_kept() -> None:
    assert said("hello", max_completion_tokens=3) == "Hello! I"
    assert finish_of("hello", max_completion_tokens=3) == "length"
    assert finish_of("hello?finish=content_filter", max_tokens=3) == "length"
    assert finish_of("hello", max_tokens=count_tokens(HELLO)) == "stop"
    assert whole("hello", max_tokens=3)["choices"][0]["finish_reason"] == "length"
    assert said("reasoning", max_tokens=5) == ""


def test_the_limit_cuts_calls_as_well() -> None:
    choice = whole("tools", max_tokens=4)["choices"][0]
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "get_weather", "arguments": '{"city'}
    assert choice["finish_reason"] == "length"
    first = 1 + count_tokens('{"city":"Paris","unit":"celsius"}')
    assert len(whole("tools", max_tokens=first)["choices"][0]["message"]["tool_calls"]) == 1


def test_an_answer_has_a_limit_of_its_own() -> None:
    long = [{"role": "user", "content": "a " * MAX_TOKENS * 2}]
    assert frames("echo", messages=long)[-1]["usage"]["completion_tokens"] == MAX_TOKENS
    assert finish_of("echo", messages=long) == "length"
    assert frames("echo", messages=long, n=4)[-1]["usage"]["completion_tokens"] == MAX_TOKENS


@pytest.mark.parametrize("word", ["stop", "length", "content_filter"])
def test_the_finish_can_be_chosen(word: str) -> None:
    assert finish_of(f"hello?finish={word}") == word
    assert finish_of(f"tools?finish={word}") == word


def test_choices_take_turns() -> None:
    order = [frame["choices"][0]["index"] for frame in frames("lorem?words=3", n=3)[:-1]]
    assert order[:9] == [0, 1, 2] * 3
    texts = [said("lorem?words=3", n=3, index=index) for index in range(3)]
    assert len(set(texts)) == 3
    buffered = whole("lorem?words=3", n=3)
    assert [choice["message"]["content"] for choice in buffered["choices"]] == texts
    assert [choice["index"] for choice in buffered["choices"]] == [0, 1, 2]


def calls_of(model: str = "tools", **more: Any) -> list[tuple[str, Any]]:
    message = whole(model, **more)["choices"][0]["message"]
    functions = [call["function"] for call in message.get("tool_calls", ())]
    return [(function["name"], json.loads(function["arguments"])) for function in functions]


def test_tools_calls_the_callers_own_first_functions() -> None:
    pair = [("weather", {"city": "Paris", "days": 1}), ("clock", {})]
    assert calls_of(tools=[WEATHER, CLOCK]) == pair
    assert calls_of("tools?calls=1", tools=[WEATHER, CLOCK]) == pair[:1]
    assert calls_of("tools?calls=3", tools=[WEATHER, CLOCK]) == [*pair, ("weather", {"city": "Nairobi", "days": 3})]
    assert calls_of() == [
        ("get_weather", {"city": "Paris", "unit": "celsius"}),
        ("get_weather", {"city": "Oslo", "unit": "celsius"}),
    ]
    assert finish_of("tools") == "tool_calls"


def test_tools_obeys_the_callers_choice() -> None:
    both = [WEATHER, CLOCK]
    assert calls_of(tools=both, tool_choice={"type": "function", "function": {"name": "clock"}}) == [("clock", {})]
    assert [name for name, _ in calls_of(tools=both, tool_choice="required")] == ["weather", "clock"]
    allowed = {"mode": "auto", "tools": [{"type": "function", "function": {"name": "clock"}}]}
    choice = {"type": "allowed_tools", "allowed_tools": allowed}
    assert {name for name, _ in calls_of(tools=both, tool_choice=choice)} == {"clock"}
    assert len(calls_of(tools=both, parallel_tool_calls=False)) == 1
    assert calls_of(tools=both, tool_choice="none") == []
    assert said("tools", tools=both, tool_choice="none") == "There is no tool that I may call."
    assert said("tools", tools=[{"type": "web_search"}]) == "There is no tool that I may call."


def test_a_call_may_come_after_a_text() -> None:
    choice = whole("tools?text=Let me see.")["choices"][0]
    assert choice["message"]["content"] == "Let me see."
    assert len(choice["message"]["tool_calls"]) == 2
    assert frames("tools?text=Let me see.")[0]["choices"][0]["delta"]["content"] == ""
    assert frames("tools")[0]["choices"][0]["delta"]["content"] is None


def test_tools_answers_once_the_results_are_there() -> None:
    results = [{"role": "tool", "tool_call_id": str(i), "content": f"{i} degrees"} for i in (20, 21)]
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "20", "function": {"name": "weather"}}]}
    assert said("tools", messages=[USER, call, *results], tools=[WEATHER]) == "The tools say: 20 degrees; 21 degrees"


def test_legacy_functions_are_called_in_the_legacy_way() -> None:
    legacy = {"functions": [CLOCK["function"]]}
    assert finish_of("tools", **legacy) == "function_call"
    message = whole("tools", **legacy)["choices"][0]["message"]
    assert message["function_call"] == {"name": "clock", "arguments": "{}"}
    assert "tool_calls" not in message


def test_json_follows_the_callers_schema() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    form = {"type": "json_schema", "json_schema": {"name": "place", "schema": schema}}
    assert said("json", response_format=form) == '{"city":"Paris"}'
    assert json.loads(said("json", response_format={"type": "json_object"}))


@pytest.mark.parametrize("name", MODELS)
def test_a_whole_answer_says_the_same_as_a_streamed_one(name: str) -> None:
    document = whole(name)
    message = document["choices"][0]["message"]
    assert (message["content"] or "") == said(name)
    assert (message["refusal"] or "") == said(name, member="refusal")
    assert message.get("reasoning_content", "") == said(name, member="reasoning_content")
    assert document["choices"][0]["finish_reason"] == finish_of(name)
    assert document["usage"] == frames(name)[-1]["usage"]


def usages(model: str, asked: bool) -> list[Any]:
    """Per frame: the two counts, None for null, or "absent"."""
    found = [frame.get("usage", "absent") for frame in frames(model, asked=asked)]
    return [(use["prompt_tokens"], use["completion_tokens"]) if isinstance(use, dict) else use for use in found]


@pytest.mark.parametrize("asked", [True, False])
def test_the_position_of_the_usage(asked: bool) -> None:
    def recorder(word: str) -> list[Any]:
        return usages(f"hello?text=a b&usage={word}", asked)

    nothing = ["absent"] * 4  # role, a, b, finish
    assert recorder("own") == ([None] * 4 + [(5, 2)] if asked else nothing)
    assert recorder("zero") == ([None] * 4 + [(0, 0)] if asked else nothing)
    assert recorder("absurd") == ([None] * 4 + [(-1, 10**18)] if asked else nothing)
    assert recorder("none") == nothing
    assert recorder("finish") == ["absent"] * 3 + [(5, 2)]
    assert recorder("twice") == ["absent"] * 3 + [(5, 2), (5, 2)]
    assert recorder("every") == [(5, 0), (5, 1), (5, 2), (5, 2)]


def test_usage_of_a_whole_answer() -> None:
    assert whole("hello?text=a b")["usage"]["total_tokens"] == 7
    assert whole("hello?usage=zero")["usage"]["total_tokens"] == 0
    assert whole("hello?usage=absurd")["usage"]["total_tokens"] == "plenty"
    assert "usage" not in whole("hello?usage=none")


def test_usage_counts_reasoning_calls_and_every_choice() -> None:
    usage = frames("reasoning")[-1]["usage"]
    thought = count_tokens(said("reasoning", member="reasoning_content"))
    assert usage["completion_tokens_details"]["reasoning_tokens"] == thought
    assert usage["completion_tokens"] == thought + count_tokens(said("reasoning"))
    assert usage["total_tokens"] == usage["completion_tokens"] + usage["prompt_tokens"]
    assert frames("hello?text=a b", n=3)[-1]["usage"]["completion_tokens"] == 6
    assert frames("tools?calls=1", tools=[CLOCK])[-1]["usage"]["completion_tokens"] == 3  # clock, {, }


def test_frames_are_those_of_the_real_service() -> None:
    first, *_, finish, usage = frames("hello")
    opening = {"role": "assistant", "content": "", "refusal": None}
    members = ["id", "object", "created", "model", "service_tier", "system_fingerprint", "choices", "usage"]
    assert first["choices"] == [{"index": 0, "delta": opening, "logprobs": None, "finish_reason": None}]
    assert finish["choices"] == [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}]
    assert usage["choices"] == []
    for frame in (first, finish, usage):
        assert list(frame) == members
        assert re.fullmatch(r"chatcmpl-[A-Za-z0-9]{29}", frame["id"])
        assert (frame["object"], frame["created"], frame["model"]) == ("chat.completion.chunk", CREATED, "hello")


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_same_request_has_the_same_answer(name: str) -> None:
    assert steps(name, most=50) == steps(name, most=50)


def test_ids_come_from_what_is_handed_in() -> None:
    mine, yours = (b"".join(_bytes(body_of("tools"), seed)) for seed in (b"a" * 24, b"b" * 24))
    names = re.compile(rb"(chatcmpl-|call_)\w+")
    assert mine != yours
    assert names.sub(b"", mine) == names.sub(b"", yours)


def _bytes(body: bytes, entropy: bytes) -> list[bytes]:
    return [step.action for step in play(body, created=1, entropy=entropy) if isinstance(step.action, bytes)]


def test_waits() -> None:
    assert {step.after_s for step in steps("hello")} == {0.0}
    waits = [step.after_s for step in steps("hello?text=a&first_ms=1500&pace_ms=20")]
    assert waits == [1.5, 0.0, 0.02, 0.02, 0.02, 0.02, 0.0]  # head, role, a, finish, usage, [DONE], end
    assert steps("slow-start")[0].after_s == 3.0
    assert steps("slow-start?first_ms=7")[0].after_s == 0.007
    assert [step.after_s for step in steps("error?first_ms=100")] == [0.1, 0.0, 0.0]
    assert [step.after_s for step in steps("cut?at=2&pace_ms=10")] == [0.0, 0.0, 0.01, 0.01]
