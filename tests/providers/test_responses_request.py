"""Requests to OpenAI's Responses API, from the body that a caller of chat completions would send."""

import json
from typing import Any

import pytest
from msgspec import structs

from streamweir.core.request import NativeRequest, ServerTool, read_request
from streamweir.providers.base import Target, UpstreamRequest, Wire
from streamweir.providers.registry import provider_named
from streamweir.wire.native import NativeWire

USER = {"role": "user", "content": "Hi"}
ALWAYS = {"store": False, "include": ["reasoning.encrypted_content"]}
F = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
OURS = "openai-responses-v1"


def build(body: dict[str, Any], kind: str = "openai", model: str = "gpt-5.1") -> UpstreamRequest:
    request = read_request({"model": "any", "messages": [USER], **body})
    return provider_named(f"{kind}-responses").build_request(request, Target(model=model, api_key="sk-1"))


def sent(body: dict[str, Any], kind: str = "openai", model: str = "gpt-5.1") -> dict[str, Any]:
    """The body, without the members that every one of them has."""
    members: dict[str, Any] = json.loads(build(body, kind, model).body)
    assert members.pop("model") == model
    for name, value in ALWAYS.items():
        if name in members and members[name] == value:
            del members[name]
    if "messages" not in body:
        members.pop("input")
    return members


def items(*messages: dict[str, Any], kind: str = "openai") -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = sent({"messages": list(messages)}, kind)["input"]
    return made


def test_path_key_and_wire() -> None:
    request = build({"stream": True})
    assert (request.path, request.wire) == ("/responses", Wire.RESPONSES)
    assert dict(request.headers) == {
        "authorization": "Bearer sk-1",
        "content-type": "application/json",
        "accept": "text/event-stream",
    }
    azure = build({}, "azure")
    assert azure.path == "/openai/v1/responses"
    assert dict(azure.headers)["api-key"] == "sk-1"
    assert json.loads(azure.body) == {"model": "gpt-5.1", "input": [_message("user", "Hi")], **ALWAYS}


def _message(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def test_messages_are_items() -> None:
    system, developer = {"role": "system", "content": "s"}, {"role": "developer", "content": "d"}
    assert items(system, developer, USER, {"role": "assistant", "content": "a"}, USER) == [
        _message("developer", "s"),
        _message("developer", "d"),
        _message("user", "Hi"),
        _message("assistant", "a"),
        _message("user", "Hi"),
    ]
    assert items(system, USER, kind="vllm")[0]["role"] == "system"


def test_parts() -> None:
    parts = [
        {"type": "text", "text": "see", "cache_control": {"type": "ephemeral"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"}},
        {"type": "file", "file": {"file_data": "https://x.test/a.pdf"}},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
        {"type": "video_url", "video_url": {"url": "https://x.test/a.mp4"}},
    ]
    request = build({"messages": [{"role": "user", "content": parts, "name": "me"}]})
    assert json.loads(request.body)["input"][0]["content"] == [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"},
        {"type": "input_image", "image_url": "https://x.test/a.png", "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="},
        {"type": "input_file", "file_url": "https://x.test/a.pdf"},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
    ]
    assert request.dropped == (
        "messages[0].name",
        "messages[0].content[0].cache_control",
        "messages[0].content[6]",
    )


def test_calls_and_results_follow_their_turn() -> None:
    long = "x" * 70
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
        {"id": long, "type": "function", "function": {"name": "g", "arguments": ""}},
        {"id": "c3", "type": "custom", "custom": {"name": "patch", "input": "any"}},
    ]
    made = items(
        USER,
        {"role": "assistant", "content": "so", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": long, "content": [{"type": "text", "text": "two"}]},
        {"role": "tool", "tool_call_id": "c3", "content": ""},
    )[1:]
    short = made[2]["call_id"]
    assert len(short) <= 64
    assert made == [
        _message("assistant", "so"),
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a":1}'},
        {"type": "function_call", "call_id": short, "name": "g", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "c3", "name": "patch", "input": "any"},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
        {"type": "function_call_output", "call_id": short, "output": [{"type": "input_text", "text": "two"}]},
        {"type": "custom_tool_call_output", "call_id": "c3", "output": ""},
    ]


def test_legacy_calls_and_results() -> None:
    made = items(
        USER,
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "one"},
    )[1:]
    assert [(item["type"], item["call_id"]) for item in made] == [
        ("function_call", "call_1"),
        ("function_call_output", "call_1"),
    ]


def entry(kind: str, index: int | None, format: str | None = OURS, **members: Any) -> dict[str, Any]:
    return {"type": f"reasoning.{kind}", "format": format, "index": index, **members}


def turn(*details: dict[str, Any], **members: Any) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    return {"role": "assistant", "content": "so", "tool_calls": [call], "reasoning_details": list(details), **members}


def test_reasoning_goes_back_where_it_stood_and_without_its_id() -> None:
    details = [
        entry("summary", 0, summary="First"),
        entry("summary", 0, summary=" a look"),
        entry("encrypted", 0, data="ZW5j", id="rs_1"),
        entry("encrypted", 2, data="ZW5k", id="rs_2"),
    ]
    made = items(USER, turn(*details))[1:]
    summary = [{"type": "summary_text", "text": "First a look"}]
    assert [item["type"] for item in made] == ["reasoning", "message", "reasoning", "function_call"]
    assert made[0] == {"type": "reasoning", "summary": summary, "encrypted_content": "ZW5j"}
    assert made[2] == {"type": "reasoning", "summary": [], "encrypted_content": "ZW5k"}


def test_reasoning_of_others_is_left_out_and_named() -> None:
    details = [
        entry("text", 0, "anthropic-claude-v1", text="hm", signature="s"),
        entry("encrypted", 0, "xai-responses-v1", data="x"),
        entry("summary", 1, summary="without its content"),
        entry("encrypted", 2, data="ZW5j"),
    ]
    request = build({"messages": [USER, turn(*details, reasoning_content="hm")]})
    assert [item["type"] for item in json.loads(request.body)["input"][1:]] == ["reasoning", "message", "function_call"]
    assert request.dropped == tuple(f"messages[1].reasoning_details[{j}]" for j in (0, 1, 2))
    own = build({"messages": [USER, turn(details[1])]}, "xai", "grok-4.3")
    assert json.loads(own.body)["input"][1] == {"type": "reasoning", "summary": [], "encrypted_content": "x"}


def test_text_of_reasoning_goes_back_where_it_is_taken() -> None:
    message = {"role": "assistant", "content": "so", "reasoning_content": "hm"}
    part = {"type": "reasoning_text", "text": "hm"}
    assert items(USER, message, kind="lmstudio")[1] == {"type": "reasoning", "summary": [], "content": [part]}
    assert build({"messages": [USER, message]}).dropped == ("messages[1].reasoning_content",)


def test_reasoning_of_another_model_is_left_out_and_named() -> None:
    request = read_request({"model": "any", "messages": [USER, turn(entry("encrypted", 0, data="ZW5j"))]})
    at = "messages[1].reasoning_details[0]"
    native = NativeRequest(wire="anthropic_messages", body={}, reasoning_models={at: "gpt-4.9"})
    request = structs.replace(request, native=native)
    provider = provider_named("openai-responses")
    assert provider.build_request(request, Target(model="gpt-5.1")).dropped == (at,)
    assert provider.build_request(request, Target(model="openai/gpt-4.9")).dropped == ()


def test_tools_are_flat_and_have_strict() -> None:
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: x"}}
    tools = [
        {"type": "function", "function": {"name": "f", "description": "d", "strict": True, "parameters": {"a": 1}}},
        {"type": "function", "function": {"name": "g"}},
        {"type": "custom", "custom": {"name": "patch", "format": grammar}},
        {"type": "web_search", "search_context_size": "low"},
        {"type": "file_search", "vector_store_ids": ["vs_1"]},
    ]
    request = build({"tools": tools})
    assert json.loads(request.body)["tools"] == [
        {"type": "function", "name": "f", "description": "d", "parameters": {"a": 1}, "strict": True},
        {"type": "function", "name": "g", "parameters": {"type": "object", "properties": {}}, "strict": False},
        {"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}},
        {"type": "web_search", "search_context_size": "low"},
    ]
    assert request.dropped == ("tools[4]",)
    assert "tools" not in sent({"tools": [{"type": "web_search"}]}, "groq")


CHOICES: list[tuple[Any, Any]] = [
    ("auto", "auto"),
    ("required", "required"),
    ("none", "none"),
    ({"type": "function", "function": {"name": "f"}}, {"type": "function", "name": "f"}),
    ({"type": "custom", "custom": {"name": "p"}}, {"type": "custom", "name": "p"}),
    (
        {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"function": {"name": "f"}}]}},
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
    ),
]


@pytest.mark.parametrize(("choice", "written"), CHOICES)
def test_tool_choice(choice: Any, written: Any) -> None:
    tools = [F, {"type": "custom", "custom": {"name": "p"}}]
    assert sent({"tools": tools, "tool_choice": choice})["tool_choice"] == written


def test_a_choice_among_none_is_named() -> None:
    assert build({"tools": [{"type": "mcp"}], "tool_choice": "required"}).dropped == ("tools[0]", "tool_choice")


def test_a_search_that_was_asked_for_in_another_way() -> None:
    location = {"type": "approximate", "approximate": {"country": "NO"}}
    body = {"web_search_options": {"search_context_size": "low", "user_location": location}}
    searches = [
        {
            "type": "web_search",
            "search_context_size": "low",
            "user_location": {"type": "approximate", "country": "NO"},
        }
    ]
    assert sent(body)["tools"] == searches
    assert build(body, "groq", "m").dropped == ("web_search_options",)
    request = read_request({"model": "any", "messages": [USER]})
    search = (ServerTool("web_search", "tools[0]"),)
    native = NativeRequest(wire="anthropic_messages", body={}, server_tools=search, requires_server_tools=True)
    request = structs.replace(request, native=native)
    made = provider_named("openai-responses").build_request(request, Target(model="gpt-5.1"))
    assert json.loads(made.body)["tools"] == [{"type": "web_search"}]
    assert provider_named("openai-responses").refusal_of(request, "gpt-5.1") is None
    refusal = provider_named("groq-responses").refusal_of(request, "m")
    assert refusal is not None
    assert refusal.param == "tools[0]"
    own = structs.replace(request, native=structs.replace(native, wire=NativeWire.OPENAI_RESPONSES))
    assert provider_named("groq-responses").refusal_of(own, "m") is None, "it goes as it came"


MEMBERS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"max_completion_tokens": 100}, {"max_output_tokens": 100}),
    ({"max_tokens": 3}, {"max_output_tokens": 16}),
    ({"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}),
    ({"verbosity": "low"}, {"text": {"verbosity": "low"}}),
    ({"response_format": {"type": "json_object"}}, {"text": {"format": {"type": "json_object"}}}),
    ({"response_format": {"type": "text"}}, {}),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"a": 1}, "strict": True}}},
        {"text": {"format": {"type": "json_schema", "name": "n", "schema": {"a": 1}, "strict": True}}},
    ),
    (
        {"logprobs": True, "top_logprobs": 2},
        {"include": ["reasoning.encrypted_content", "message.output_text.logprobs"], "top_logprobs": 2},
    ),
    ({"reasoning_effort": "high"}, {"reasoning": {"effort": "high", "summary": "auto"}}),
    ({"reasoning": {"effort": "low", "summary": "detailed"}}, {"reasoning": {"effort": "low", "summary": "detailed"}}),
    ({"reasoning": {"effort": "low", "exclude": True}}, {"reasoning": {"effort": "low"}}),
    ({"reasoning": {"enabled": False}}, {"reasoning": {"effort": "none"}}),
    ({"reasoning": {"enabled": True}}, {"reasoning": {"summary": "auto"}}),
    ({"metadata": {"a": "b"}, "user": "u", "service_tier": "flex"}, None),  # type: ignore[list-item]
    ({"prompt_cache_key": "k", "safety_identifier": "s", "truncation": "auto"}, None),  # type: ignore[list-item]
    ({"stream": True, "stream_options": {"include_usage": True}}, {"stream": True}),
    (
        {"stream": True, "stream_options": {"include_obfuscation": False}},
        {"stream": True, "stream_options": {"include_obfuscation": False}},
    ),
    ({"tools": [F], "parallel_tool_calls": True}, {"tools": None}),
    ({"n": 1, "presence_penalty": 0, "store": False}, {}),
]


@pytest.mark.parametrize(("body", "written"), MEMBERS)
def test_members(body: dict[str, Any], written: dict[str, Any] | None) -> None:
    made = sent(body)
    if "tools" in body:
        made["tools"] = None
    assert made == (body if written is None else written)
    assert build(body).dropped == ()


DROPPED = {
    "stop": ["END"],
    "seed": 3,
    "presence_penalty": 1,
    "frequency_penalty": 1,
    "logit_bias": {"5": 1},
    "prediction": {"type": "content", "content": "x"},
    "audio": {"voice": "v", "format": "wav"},
    "modalities": ["text", "audio"],
    "store": True,
    "top_k": 4,
    "best_of": 2,
}


def test_what_has_no_equivalent_is_left_out_and_named() -> None:
    request = build(DROPPED)
    assert set(request.dropped) == set(DROPPED)
    assert json.loads(request.body).keys() == {"model", "input", "store", "include"}
    assert build({"reasoning": {"max_tokens": 100}}).dropped == ("reasoning.max_tokens",)
    assert build({"metadata": {"a": "b"}, "reasoning_effort": "low"}, "xai", "grok-4").dropped == (
        "reasoning_effort",
        "metadata",
    )


def test_several_choices_are_refused() -> None:
    request = read_request({"model": "any", "messages": [USER], "n": 2})
    refusal = provider_named("openai-responses").refusal_of(request, "gpt-5.1")
    assert refusal is not None
    assert refusal.param == "n"


def test_a_body_of_its_own_wire_goes_as_it_came() -> None:
    own = {"input": "Hi", "model": "any", "zeta": [1], "max_output_tokens": 5, "alpha": {"b": None}}
    native = NativeRequest(
        wire=NativeWire.OPENAI_RESPONSES, body=own, headers=(("x-own", "1"),), dropped=("background",)
    )
    request = structs.replace(
        read_request({"model": "any", "messages": [USER], "max_completion_tokens": 5}), native=native
    )
    provider, target = provider_named("openai-responses"), Target(model="gpt-5.1", api_key="k")
    made = provider.build_request(request, target)
    assert made.body == json.dumps({**own, "model": "gpt-5.1"}, separators=(",", ":")).encode()
    assert made.dropped == ("background",)
    assert dict(made.headers)["x-own"] == "1"
    limited = provider.build_request(structs.replace(request, max_output_tokens=3), target)
    assert json.loads(limited.body)["max_output_tokens"] == 16, "a limit of the gateway's holds, where it is taken"
