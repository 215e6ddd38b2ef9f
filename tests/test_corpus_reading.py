"""The judge of the corpus test, judged: its plain readings on small bodies, its rules on broken output.

A reading that overlooks something, or a rule that never fails, would let the corpus test pass
for nothing. Every case here is written by hand.
"""

import json
from typing import Any

import pytest

from support.comparison import differences
from support.dialect_output import read_stream, read_whole
from support.dialect_rules import AIVENE, BITSEEK, OPENAI, OPENTOKEN, Rules
from support.expected import Counts, Expected
from support.reading import read_recording


def sse(*documents: object, done: bool = True) -> bytes:
    lines = [document if isinstance(document, str) else json.dumps(document) for document in documents]
    return "".join(f"data: {line}\n\n" for line in [*lines, *(["[DONE]"] if done else [])]).encode()


def chunk(delta: dict[str, Any], finish: str | None = None, index: int = 0, **members: Any) -> dict[str, Any]:
    return {"id": "x", "choices": [{"index": index, "delta": delta, "finish_reason": finish}], **members}


def openai(*documents: object, done: bool = True, provider: str = "") -> Expected:
    return read_recording("openai-chat", sse(*documents, done=done), provider)


STOP = chunk({}, "stop")
ERROR = {"error": {"message": "overloaded"}}


@pytest.mark.parametrize(
    ("body", "ending"),
    [
        (sse(chunk({"content": "a"}), STOP), "complete"),
        (sse(chunk({"content": "a"}), STOP, done=False), "complete"),
        (sse(chunk({"content": "a"})), "truncated"),
        (sse(chunk({"content": "a"}), done=False), "truncated"),
        (sse(STOP, chunk({}, None, index=1)), "truncated"),
        (sse(STOP, ERROR), "error"),
        (sse(STOP, done=False) + b"event: error\ndata: " + json.dumps(ERROR).encode() + b"\n\n", "error"),
        (sse(chunk({"content": "a"}), done=False) + b'error: {"code":500}\n\n', "error"),
        (sse('{"a":', done=False), "error"),
        (sse(chunk({"content": "a"}), done=False) + b'data: {"id"', "truncated"),
        (sse(chunk({"content": "a"}), done=False) + b"data: " + json.dumps(STOP).encode(), "complete"),
        (sse(STOP, done=False).replace(b"\n", b"\r\n") + b"data: [DONE]", "complete"),
        (b"", "truncated"),
        (b'{"detail":"no"}', "error"),
    ],
)
def test_end_of_an_openai_stream(body: bytes, ending: str) -> None:
    assert read_recording("openai-chat", body).ended == ending


def test_vendor_without_finish_reasons_is_complete_when_done() -> None:
    assert openai(chunk({"content": "a"}), provider="snowflake").choices[0].finish == "stop"


def test_openai_text_and_reasoning_have_one_position_each() -> None:
    answer = openai(
        chunk({"reasoning_content": "a", "reasoning": "not again"}),
        chunk({"reasoning": "b", "reasoning_details": [{"text": "not again", "signature": "s"}]}),
        chunk({"reasoning_details": [{"summary": "c"}]}),
        chunk({"content": [{"type": "thinking", "thinking": [{"text": "d"}]}, {"type": "text", "text": "e"}]}),
        chunk({"content": "f", "refusal": "g"}, "eos"),
    )
    choice = answer.choices[0]
    assert (choice.reasoning, choice.text, choice.refusal) == ("abcd", "ef", "g")
    assert (choice.spoken, choice.signatures, choice.finish) == ("efg", ["s"], "stop")


def test_openai_calls_are_distinguished() -> None:
    def call(entry: dict[str, Any]) -> dict[str, Any]:
        return chunk({"tool_calls": [entry]})

    answer = openai(
        call({"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}),
        call({"index": 1, "id": "b", "function": {"name": "g", "arguments": "{"}}),
        call({"index": 0, "id": "", "function": {"name": None, "arguments": "[]"}}),
        call({"index": 1, "function": {"arguments": "}"}}),
        call({"id": "c", "function": {"name": "h", "arguments": "{}"}}),
        call({"index": 0, "id": "d", "function": {"name": "i", "arguments": "{}"}}),
        chunk({}, "unheard of"),
    )
    calls = [(call.id, call.name, call.arguments) for call in answer.choices[0].calls]
    assert calls == [("a", "f", "[]"), ("b", "g", "{}"), ("c", "h", "{}"), ("d", "i", "{}")]
    assert answer.choices[0].finish == "tool_calls"


def test_openai_usage_is_the_newest_valid_report() -> None:
    answer = openai(
        chunk({}, usage={"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}),
        chunk({}, "stop", x_groq={"usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 9}}),
        chunk({}, usage={"prompt_tokens_details": {}}),
        chunk({}, usage={"prompt_tokens": -1, "completion_tokens": 1}),
    )
    assert answer.usage == Counts(3, 6, is_openai=True)


def test_whole_openai_answer() -> None:
    message = {"content": None, "function_call": {"name": "f", "arguments": "{}"}}
    body = {"choices": [{"message": message, "finish_reason": "function_call"}]}
    answer = read_recording("openai-chat", json.dumps(body).encode())
    assert answer.ended == "complete"
    assert (answer.choices[0].finish, answer.choices[0].calls[0].legacy) == ("function_call", True)


ANTHROPIC = [
    {
        "type": "message_start",
        "message": {"model": "m", "content": [], "usage": {"input_tokens": 5, "output_tokens": 1}},
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "a"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s"}},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "b"}},
    {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}},
    },
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": ""}},
    {"type": "content_block_start", "index": 3, "content_block": {"type": "server_tool_use", "id": "u", "name": "web"}},
    {"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": "{"}},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use"},
        "usage": {"output_tokens": 9, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 3},
    },
    {"type": "message_stop"},
]


def test_anthropic_stream() -> None:
    answer = read_recording("anthropic-messages", sse(*ANTHROPIC, done=False))
    choice = answer.choices[0]
    assert (answer.ended, choice.text, choice.reasoning, choice.finish) == ("complete", "b", "a", "tool_calls")
    assert [(call.id, call.name, call.arguments) for call in choice.calls] == [("t", "f", "")]
    assert answer.usage == Counts(10, 9, cached=2, cache_write=3)


@pytest.mark.parametrize(
    ("events", "ending"),
    [(ANTHROPIC[:-1], "truncated"), ([*ANTHROPIC[:3], {"type": "error", **ERROR}], "error")],
)
def test_end_of_an_anthropic_stream(events: list[object], ending: str) -> None:
    assert read_recording("anthropic-messages", sse(*events, done=False)).ended == ending


def candidate(*parts: dict[str, Any], finish: object = None, **members: Any) -> dict[str, Any]:
    told = {"finishReason": finish} if finish else {}
    return {"candidates": [{"content": {"parts": list(parts)}, **told}], **members}


GEMINI = [
    candidate({"text": "a", "thought": True}, usageMetadata={"promptTokenCount": 4, "totalTokenCount": 4}),
    candidate({"text": "b"}, finish="STOP"),
    candidate({"functionCall": {"name": "f", "willContinue": True}}),
    candidate({"functionCall": {"partialArgs": [{"jsonPath": "$.x.y", "stringValue": "p"}], "willContinue": True}}),
    candidate({"functionCall": {"partialArgs": [{"jsonPath": "$.x.y", "stringValue": "q"}], "willContinue": True}}),
    candidate({"functionCall": {}}, {"functionCall": {"name": "g", "args": {"z": 1}}, "thoughtSignature": "s"}),
    candidate(
        finish=1,
        usageMetadata={
            "promptTokenCount": 4,
            "toolUsePromptTokenCount": 2,
            "candidatesTokenCount": 3,
            "thoughtsTokenCount": 5,
            "totalTokenCount": 20,
        },
    ),
]


@pytest.mark.parametrize("body", [sse(*GEMINI, done=False), json.dumps(GEMINI, indent=1).encode()])
def test_gemini_stream_and_array(body: bytes) -> None:
    answer = read_recording("gemini", body)
    choice = answer.choices[0]
    assert (answer.ended, choice.text, choice.reasoning, choice.finish) == ("complete", "b", "a", "tool_calls")
    assert [(call.name, call.arguments) for call in choice.calls] == [("f", {"x": {"y": "pq"}}), ("g", {"z": 1})]
    assert answer.usage == Counts(6, 14, reasoning=5)


@pytest.mark.parametrize(
    ("body", "ending"),
    [
        (sse(candidate({"text": "a"}), done=False), "truncated"),
        (sse(candidate({"text": "a"}, finish="STOP"), done=False) + b'{\n  "error": {"code": 499}\n}\n', "error"),
        (sse(candidate(finish="MALFORMED_FUNCTION_CALL"), done=False), "error"),
        (json.dumps(GEMINI).encode()[:-1], "truncated"),
        (b'[{"error": {"code": 400}}]', "error"),
    ],
)
def test_end_of_a_gemini_stream(body: bytes, ending: str) -> None:
    assert read_recording("gemini", body).ended == ending


def test_blocked_gemini_prompt_is_filtered() -> None:
    answer = read_recording("gemini", sse({"promptFeedback": {"blockReason": "SAFETY"}}, done=False))
    assert (answer.ended, answer.choices[0].finish) == ("complete", "content_filter")


ID = "chatcmpl-" + "a" * 29
HEAD = f'{{"id":"{ID}","object":"chat.completion.chunk","created":0,"model":"m","choices":['
ROLE = HEAD + '{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}'
TEXT = HEAD + '{"index":0,"delta":{"content":"a"},"finish_reason":null}]}'
FINISH = HEAD + '{"index":0,"delta":{},"finish_reason":"stop"}]}'
TOKENS = '{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}'
USAGE = HEAD + f'],"usage":{TOKENS}}}'
FAILURE = '{"error":{"message":"m","type":"stream_error","param":null,"code":"upstream_stream_truncated"}}'


def call_frame(entry: str) -> str:
    return HEAD + f'{{"index":0,"delta":{{"tool_calls":[{entry}]}},"finish_reason":null}}]}}'


OPENER = '{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":""}}'
PIECE = '{"index":0,"function":{"arguments":"{}"}}'


def with_null(*frames: str) -> list[str]:
    return [frame[:-1] + ',"usage":null}' for frame in frames]


@pytest.mark.parametrize(
    ("frames", "rules", "asked"),
    [
        ([ROLE, TEXT, FINISH], OPENAI, False),
        ([*with_null(ROLE, TEXT, FINISH), USAGE], OPENAI, True),
        ([ROLE, call_frame(OPENER), call_frame(PIECE), FINISH.replace("stop", "tool_calls")], OPENAI, False),
        ([ROLE, TEXT, FAILURE], OPENAI, False),
        ([FAILURE], OPENAI, True),
        ([ROLE.replace(',"content":""', ""), TEXT, FINISH, USAGE], OPENTOKEN, False),
        ([ROLE, TEXT, FINISH, USAGE], AIVENE, True),
    ],
)
def test_output_by_the_rules(frames: list[str], rules: Rules, asked: bool) -> None:
    read_stream(sse(*frames), rules, asked)


@pytest.mark.parametrize(
    "data",
    [
        sse(ROLE, TEXT, FINISH, done=False),
        sse(ROLE, TEXT, FINISH) + b"data: [DONE]\n\n",
        sse(ROLE, TEXT, FINISH).replace(b"\n\n", b"\r\n\r\n"),
        sse(ROLE, TEXT, FINISH)[:-1],
        b"event: error\n" + sse(ROLE, TEXT, FINISH),
        sse(TEXT, FINISH),
        sse(ROLE, ROLE, FINISH),
        sse(ROLE, TEXT),
        sse(ROLE, FINISH, TEXT),
        sse(ROLE, FINISH, FINISH),
        sse(ROLE, TEXT, FINISH, USAGE),
        sse(*with_null(ROLE, TEXT, FINISH)),
        sse(ROLE, TEXT.replace('"a"', '""'), FINISH),
        sse(ROLE, TEXT.replace('"a"', '"\\u00e9"'), FINISH),
        sse(ROLE, TEXT.replace(":", ": ", 1), FINISH),
        sse(ROLE, TEXT.replace(ID, "chatcmpl-b000000000000001"), FINISH),
        sse(ROLE, TEXT.replace('"created":0', '"created":1'), FINISH),
        sse(ROLE, TEXT.replace('"model":"m"', '"model":"n"'), FINISH),
        sse(ROLE, TEXT.replace('"created":0,"model":"m"', '"model":"m","created":0'), FINISH),
        sse(ROLE, FINISH.replace("stop", "eos")),
        sse(ROLE, FINISH.replace('"delta":{}', '"delta":{"content":"a"}')),
        sse(ROLE, call_frame(PIECE), FINISH),
        sse(ROLE, call_frame(OPENER.replace('"arguments":""', '"arguments":"{"')), FINISH),
        sse(ROLE, call_frame(OPENER), call_frame(OPENER), FINISH),
        sse(ROLE, call_frame(OPENER.replace('"index":0', '"index":1')), FINISH),
        sse(FAILURE, ROLE),
        sse(ROLE, FAILURE.replace(',"param":null', "")),
        sse(ROLE, FAILURE.replace("stream_error", "upstream_error")),
        sse(ROLE, FAILURE.replace("upstream_stream_truncated", "rate_limit_exceeded")),
        sse(ROLE, '{"error":"text"}'),
    ],
)
def test_output_against_the_rules(data: bytes) -> None:
    with pytest.raises((AssertionError, KeyError, TypeError)):
        read_stream(data, OPENAI, asked=False)


def bitseek(created: int, delta: str, finish: str = "null") -> str:
    """A chunk without its closing brace."""
    return (
        '{"id":"stream:chat:00000000-0000-4000-8000-000000000000","object":"chat.completion",'
        f'"created":{created},"model":"","choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]'
    )


@pytest.mark.parametrize(
    ("frames", "is_lawful"),
    [
        ([bitseek(1, '{"content":"a"}') + "}", bitseek(2, '{"content":""}', '"stop"') + f',"usage":{TOKENS}}}'], True),
        ([bitseek(1, '{"content":"a"}') + "}", bitseek(2, '{"content":""}', '"stop"') + "}"], False),
        ([bitseek(1, '{"role":"assistant"}') + "}", bitseek(2, "{}", '"stop"') + f',"usage":{TOKENS}}}'], False),
        ([bitseek(1, '{"reasoning_content":"a"}') + "}", bitseek(2, '{"content":""}', '"length"') + "}"], False),
    ],
)
def test_bitseek_output(frames: list[str], is_lawful: bool) -> None:
    if is_lawful:
        read_stream(sse(*frames, done=False), BITSEEK, asked=True)
    else:
        with pytest.raises((AssertionError, KeyError)):
            read_stream(sse(*frames, done=False), BITSEEK, asked=True)


def test_passed_frame_keeps_its_order_in_openai_alone() -> None:
    passed = TEXT.replace('"created":0,"model":"m"', '"model":"m","created":0')
    read_stream(sse(ROLE, passed, FINISH), OPENAI, False, {passed.encode()})
    with pytest.raises(AssertionError):
        read_stream(sse(ROLE, passed, FINISH, USAGE), AIVENE, True, {passed.encode()})


def test_differences_are_found() -> None:
    expected = openai(chunk({"content": "a"}, id="x", model="m"), chunk({}, "stop"))
    assert differences(expected, read_stream(sse(ROLE, TEXT, FINISH), OPENAI, False), OPENAI, None) == []
    for broken in (
        sse(ROLE, FINISH),
        sse(ROLE, TEXT, TEXT, FINISH),
        sse(ROLE, TEXT, FINISH.replace("stop", "length")),
        sse(ROLE, TEXT, call_frame(OPENER), FINISH),
        sse(ROLE, TEXT, FAILURE),
        sse(*(frame.replace('"created":0', '"created":1') for frame in (ROLE, TEXT, FINISH))),
        sse(*(frame.replace('"model":"m"', '"model":"n"') for frame in (ROLE, TEXT, FINISH))),
    ):
        assert differences(expected, read_stream(broken, OPENAI, False), OPENAI, None)


def test_whole_output() -> None:
    message = '{"role":"assistant","content":"a","refusal":null}'
    body = (
        f'{{"id":"{ID}","object":"chat.completion","created":0,"model":"m",'
        f'"choices":[{{"index":0,"message":{message},"finish_reason":"stop"}}],"usage":{TOKENS}}}'
    )
    assert read_whole(body.encode(), OPENAI).choices[0].text == "a"
    for broken in (body.replace(f',"usage":{TOKENS}', ""), body.replace("stop", "eos"), '{"error":{"message":"m"}}'):
        with pytest.raises((AssertionError, KeyError)):
            read_whole(broken.encode(), OPENAI)
