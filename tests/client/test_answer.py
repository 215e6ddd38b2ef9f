"""An answer while it grows, its calls, and what is made of it in the end."""

import json
from typing import Any

import pytest

from streamweir.client import (
    Answer,
    ChoiceFinished,
    Event,
    Extra,
    FinishReason,
    InvalidToolArguments,
    LogprobsDelta,
    ReasoningDelta,
    RefusalDelta,
    StreamCompleted,
    StreamStarted,
    StreamTagged,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallStarted,
    Usage,
    UsageReported,
)

STARTED = StreamStarted("chatcmpl-1", "m", 7)
FINISHED = ChoiceFinished(0, FinishReason.STOP, "stop")
CALLED = ChoiceFinished(0, FinishReason.TOOL_CALLS, "tool_calls")


def fed(*events: Event) -> Answer:
    answer = Answer()
    for event in events:
        answer.feed(event)
    return answer


def called(*pieces: str) -> ToolCall:
    deltas = [ToolCallDelta(0, 0, piece) for piece in pieces]
    (call,) = fed(STARTED, ToolCallStarted(0, 0, "call_1", "look"), *deltas, CALLED, StreamCompleted()).tool_calls
    return call


def test_it_can_be_read_while_it_grows() -> None:
    answer = fed(STARTED, TextDelta(0, "Hel"))
    assert (answer.completion().text, answer.completion().is_whole, answer.usage) == ("Hel", False, None)
    for event in (TextDelta(0, "lo"), FINISHED, UsageReported(Usage(input_uncached=3, output=2)), StreamCompleted()):
        answer.feed(event)
    whole = answer.completion()
    assert (whole.text, whole.is_whole, whole.finish_reason) == ("Hello", True, "stop")
    assert whole.choices[0].reason is FinishReason.STOP
    assert answer.usage == whole.usage == Usage(input_uncached=3, output=2)
    assert (whole.id, whole.model, whole.created) == ("chatcmpl-1", "m", 7)


def test_a_call_is_read_while_its_arguments_come() -> None:
    answer = fed(STARTED, ToolCallStarted(0, 0, "call_1", "look"))
    (call,) = answer.tool_calls
    assert (call.arguments, call.partial) == ("", None)
    seen = []
    for piece in ('{"city": "Pa', 'ris", "days": 1', "2}"):
        answer.feed(ToolCallDelta(0, 0, piece))
        seen.append(json.dumps(call.partial))
    assert seen == ['{"city": "Pa"}', '{"city": "Paris"}', '{"city": "Paris", "days": 12}']
    with pytest.raises(InvalidToolArguments, match="'look' cannot be used: the answer is not whole") as raised:
        call.parsed()
    assert raised.value.call is call
    answer.feed(CALLED)
    answer.feed(StreamCompleted())
    assert call is answer.tool_calls[0], "the same object has grown"
    assert call.parsed() == call.partial == {"city": "Paris", "days": 12}
    assert (call.is_whole, call.problem) == (True, None)


def test_calls_are_distinguished_by_choice_and_by_index() -> None:
    answer = fed(
        STARTED,
        ToolCallStarted(1, 0, "c", "third"),
        ToolCallStarted(0, 0, "a", "first"),
        ToolCallStarted(0, 1, "b", "second"),
        ToolCallDelta(0, 1, "[2]"),
        ToolCallDelta(0, 0, '{"a":1}'),
    )
    assert [(call.choice, call.index, call.name, call.arguments) for call in answer.tool_calls] == [
        (0, 0, "first", '{"a":1}'),
        (0, 1, "second", "[2]"),
        (1, 0, "third", ""),
    ]


@pytest.mark.parametrize("text", ["", "  ", "{}", " {} "])
def test_no_arguments_are_an_empty_object(text: str) -> None:
    assert called(text).parsed() == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"city": "Par', "they are not valid JSON"),
        ('{"city": }', "they are not valid JSON"),
        ('{"a": 1}{"a": 1}', "they are not valid JSON"),
        ('{"a": NaN}', "they are not valid JSON"),
        ('{"amount": 1e999}', "they are not valid JSON"),
        ('["Paris"]', "they are not a JSON object"),
        ('"Paris"', "they are not a JSON object"),
        ("null", "they are not a JSON object"),
        ("Paris", "they are not valid JSON"),
    ],
)
def test_arguments_that_cannot_be_used_are_marked_and_kept(text: str, problem: str) -> None:
    call = called(text)
    assert (call.problem, call.arguments, call.is_whole) == (problem, text, True)
    with pytest.raises(InvalidToolArguments, match=problem):
        call.parsed()


def test_half_an_emoji_in_two_pieces_is_one() -> None:
    call = called('{"a": "\ud83d', '\ude00"}')
    assert call.arguments == '{"a": "\U0001f600"}'
    assert call.parsed() == {"a": "\U0001f600"}


def test_the_message_can_be_sent_back() -> None:
    details = ({"type": "reasoning.text", "text": "Hm.", "signature": "s", "index": 0},)
    answer = fed(
        STARTED,
        ReasoningDelta(0, "Hm.", details),
        TextDelta(0, "Let me look."),
        ToolCallStarted(0, 0, "call_1", "look"),
        ToolCallDelta(0, 0, "{}"),
        CALLED,
        StreamCompleted(),
    ).completion()
    assert answer.reasoning == "Hm."
    assert answer.message == {
        "role": "assistant",
        "content": "Let me look.",
        "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
        "reasoning_details": list(details),
    }


def test_messages_of_other_kinds() -> None:
    refused = fed(STARTED, RefusalDelta(0, "No."), FINISHED, StreamCompleted()).completion()
    assert refused.message == {"role": "assistant", "content": None, "refusal": "No."}
    legacy = fed(STARTED, ToolCallStarted(0, 0, None, "look", legacy=True), ToolCallDelta(0, 0, "{}")).completion()
    assert legacy.message["function_call"] == {"name": "look", "arguments": "{}"}
    silent = fed(STARTED, FINISHED, StreamCompleted()).completion()
    assert silent.message == {"role": "assistant", "content": ""}


def test_an_answer_of_which_nothing_came() -> None:
    nothing = Answer().completion()
    assert (nothing.text, nothing.reasoning, nothing.tool_calls, nothing.finish_reason) == ("", "", [], None)
    assert nothing.message == {"role": "assistant", "content": ""}
    assert nothing.is_empty
    assert nothing.to_dict() == {"object": "chat.completion", "choices": []}
    assert not fed(TextDelta(0, "x")).completion().is_empty


def test_it_can_be_written_as_a_document() -> None:
    usage = Usage(input_uncached=3, output=2, prompt_details={"cached_tokens": 0}, completion_details={"x": 1})
    answer = fed(
        STARTED,
        StreamTagged("fp_1", "default"),
        ReasoningDelta(0, "Hm."),
        LogprobsDelta(0, {"content": [1]}),
        TextDelta(0, "Hello"),
        Extra(0, {"annotations": ["a"]}),
        Extra(None, {"citations": ["c"]}),
        FINISHED,
        UsageReported(usage),
        StreamCompleted(),
    ).completion()
    document: dict[str, Any] = answer.to_dict()
    assert document == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 7,
        "model": "m",
        "system_fingerprint": "fp_1",
        "service_tier": "default",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "Hello",
                    "reasoning_content": "Hm.",
                    "annotations": ["a"],
                },
                "logprobs": {"content": [1]},
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": 2,
            "total_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"x": 1},
        },
        "citations": ["c"],
    }
    assert json.dumps(document)


def test_a_call_is_shown_as_what_it_is() -> None:
    assert repr(called("{}")) == "ToolCall(index=0, id='call_1', name='look', arguments='{}')"


def test_a_free_form_call_is_a_text_and_goes_back_as_one() -> None:
    started = ToolCallStarted(0, 0, "call_c", "shell", custom=True)
    answer = fed(STARTED, started, ToolCallDelta(0, 0, '{"a": 1}'), CALLED, StreamCompleted())
    (call,) = answer.tool_calls
    assert (call.custom, call.arguments) == (True, '{"a": 1}')
    with pytest.raises(InvalidToolArguments, match="free-form"):
        call.parsed()
    sent = {"id": "call_c", "type": "custom", "custom": {"name": "shell", "input": '{"a": 1}'}}
    assert answer.completion().message["tool_calls"] == [sent]
