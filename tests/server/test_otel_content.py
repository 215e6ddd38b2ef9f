"""The content of a span has one form for every API: messages with parts, redacted first and then cut."""

import json
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from streamweir.policy.redact import Redactor
from streamweir.server.telemetry.otel.content import MAX_CHARACTERS, content_attributes
from streamweir.server.telemetry.record import RequestRecord
from streamweir.store.requests.content import Content
from support.answers import anthropic_stream, openai_stream, responses_stream
from support.collector import attributes_of

CALL = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": '{"q":1}'}}
CALLED = {"type": "tool_call", "id": "call_1", "name": "look_up", "arguments": '{"q":1}'}


def found(
    prompt: dict[str, Any] | str,
    answer: bytes = b"",
    dialect: str = "openai",
    *,
    text: str = "",
    is_cut: bool = False,
    finish: str | None = None,
) -> dict[str, Any]:
    content = Content(
        request_id="req_1",
        workspace_id="w",
        key_id="k",
        at_ms=1,
        prompt=prompt if isinstance(prompt, str) else json.dumps(prompt),
        answer=text,
        upstream_frames=(),
        caller_frames=[(1, answer[:40].decode()), (2, answer[40:].decode())],
        is_cut=is_cut,
    )
    record = RequestRecord(id="req_1", method="POST", path="/", dialect=dialect, finish=finish)
    attributes = Span.FromString(content_attributes(content, record, Redactor(["swordfish"]))).attributes
    return {name.removeprefix("gen_ai."): json.loads(value) for name, value in attributes_of(attributes).items()}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


def test_each_kind_of_message_of_a_chat() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    messages = [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": [{"type": "text", "text": "Look."}, picture]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "42"},
    ]
    assert found({"model": "m", "messages": messages}) == {
        "system_instructions": [{"type": "text", "content": "Be short."}],
        "input.messages": [
            {"role": "user", "parts": [{"type": "text", "content": "Look."}, {"type": "image_url"}]},
            {"role": "assistant", "parts": [CALLED]},
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": "42"}]},
        ],
    }


@pytest.mark.parametrize(
    ("dialect", "prompt", "answer"),
    [
        ("openai", {"messages": [{"role": "user", "content": "Hi."}]}, openai_stream()),
        ("messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "Hi."}]}, anthropic_stream()),
        ("responses", {"input": "Hi."}, responses_stream()),
    ],
)
def test_a_stream_of_each_api_is_read_as_a_client_reads_it(dialect: str, prompt: dict[str, Any], answer: bytes) -> None:
    content = found({"model": "m", **prompt}, answer, dialect)
    assert content["input.messages"] == [user("Hi.")]
    (message,) = content["output.messages"]
    assert message["role"] == "assistant"
    assert [part["type"] for part in message["parts"]] == ["text"]
    assert message["parts"][0]["content"]


def test_a_call_in_a_whole_answer() -> None:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": None, "tool_calls": [CALL]},
        "finish_reason": "tool_calls",
    }
    answer = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    content = found({"model": "m", "messages": [{"role": "user", "content": "Hi."}]}, json.dumps(answer).encode())
    assert content["output.messages"] == [{"role": "assistant", "parts": [CALLED], "finish_reason": "tool_call"}]


def test_the_texts_of_embeddings_are_the_input() -> None:
    content = found({"model": "m", "input": ["one", "two"]}, b"{}", "embeddings")
    parts = [{"type": "text", "content": "one"}, {"type": "text", "content": "two"}]
    assert content == {"input.messages": [{"role": "user", "parts": parts}]}


def test_of_an_answer_that_was_cut_the_delivered_text_is_kept() -> None:
    content = found("{", b'data: {"half', text="Half an ans", is_cut=True)
    parts = [{"type": "text", "content": "Half an ans"}]
    assert content == {"output.messages": [{"role": "assistant", "parts": parts, "finish_reason": "error"}]}


def test_an_answer_that_is_too_long_to_be_kept_whole_has_not_failed() -> None:
    content = found("{", b'data: {"half', text="Half an ans", is_cut=True, finish="length")
    assert [each["finish_reason"] for each in content["output.messages"]] == ["length"]


def test_a_refusal_of_the_model_is_its_answer() -> None:
    message = {"role": "assistant", "content": None, "refusal": "I will not."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    answer = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    content = found({"model": "m", "messages": [{"role": "user", "content": "Hi."}]}, json.dumps(answer).encode())
    parts = [{"type": "text", "content": "I will not."}]
    assert content["output.messages"] == [{"role": "assistant", "parts": parts, "finish_reason": "stop"}]


@pytest.mark.parametrize("prompt", ["", "{", "[]", '"text"', '{"messages": 1}', '{"model": "m"}'])
def test_a_prompt_that_cannot_be_read_is_left_out(prompt: str) -> None:
    assert found(prompt) == {}


def test_secrets_are_masked_before_anything_is_cut() -> None:
    long = "x" * (MAX_CHARACTERS - 4)
    messages = [
        {"role": "user", "content": f"swordfish {long}"},
        {"role": "user", "content": "sk-live-8d1f0a93c57b28e4aa"},
    ]
    content = found({"model": "m", "messages": messages})
    text = json.dumps(content)
    assert "8d1f0a93" not in text
    assert "sword" not in text


def test_of_very_long_conversations_the_end_is_kept() -> None:
    messages = [{"role": "user", "content": str(number) * 50_000} for number in range(1, 6)]
    kept = found({"model": "m", "messages": messages})["input.messages"]
    lengths = [len(message["parts"][0]["content"]) for message in kept]
    assert lengths == [MAX_CHARACTERS - 100_000, 50_000, 50_000]
    assert kept[-1] == user("5" * 50_000)
