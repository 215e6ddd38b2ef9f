"""`read_request`: every member, role and part, valid and wrong; what is wrong is named exactly."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.core.errors import CallerError
from streamweir.core.message import (
    AudioPart,
    CustomCall,
    FilePart,
    FileRef,
    FunctionCall,
    ImagePart,
    ImageUrl,
    InputAudio,
    Message,
    OtherPart,
    RefusalPart,
    TextPart,
    ToolCall,
)
from streamweir.core.request import (
    KNOWN_MEMBERS,
    ChatRequest,
    Function,
    JsonSchema,
    Reasoning,
    RequestRules,
    ResponseFormat,
    Tool,
    ToolChoice,
    read_request,
)

HELLO: dict[str, Any] = {"role": "user", "content": "hello"}


def body_of(**members: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [HELLO], **members}


def refused(body: dict[str, Any], rules: RequestRules | None = None) -> tuple[str, str | None]:
    with pytest.raises(CallerError) as caught:
        read_request(body, rules or RequestRules())
    assert caught.value.spec.status == 400
    return caught.value.code, caught.value.param


def message(**members: Any) -> Message:
    return read_request({"model": "m", "messages": [members]}).messages[0]


def message_refused(**members: Any) -> tuple[str, str | None]:
    return refused({"model": "m", "messages": [HELLO, members]})


def test_a_word_that_is_not_in_a_list_is_answered_with_the_list() -> None:
    with pytest.raises(CallerError) as caught:
        read_request(body_of(messages=[HELLO, {"role": "robot", "content": "hello"}]), RequestRules())
    assert caught.value.message == (
        "Invalid value for 'messages[1].role': it must be one of assistant, developer, function, system, tool, user, "
        "not 'robot'."
    )
    with pytest.raises(CallerError) as caught:
        read_request(body_of(response_format={"type": "x" * 999}), RequestRules())
    assert caught.value.message.startswith(
        "Invalid value for 'response_format.type': it must be one of json_object, json_schema, text, not 'xxx"
    )
    assert len(caught.value.message) < 300


def test_the_least_request() -> None:
    body = body_of()
    assert read_request(body) == ChatRequest(
        model="m", messages=(Message(role="user", content="hello"),), stream=False, include_usage=False, body=body
    )


MEMBERS: list[tuple[str, Any, str, Any]] = [
    # member as sent, its value, the field of ChatRequest, its value
    ("stream", True, "stream", True),
    ("stream", None, "stream", False),
    ("n", 3, "n", 3),
    ("n", None, "n", 1),
    ("max_tokens", 10, "max_output_tokens", 10),
    ("max_completion_tokens", 11, "max_output_tokens", 11),
    ("temperature", 0.7, "temperature", 0.7),
    ("temperature", 2, "temperature", 2.0),
    ("temperature", 0, "temperature", 0.0),
    ("top_p", 1, "top_p", 1.0),
    ("top_k", 0, "top_k", 0),
    ("stop", "END", "stop", ("END",)),
    ("stop", ["a", "b"], "stop", ("a", "b")),
    ("stop", [], "stop", ()),
    ("seed", -(2**70), "seed", -(2**70)),
    ("presence_penalty", -2, "presence_penalty", -2.0),
    ("frequency_penalty", 1.5, "frequency_penalty", 1.5),
    ("logit_bias", {"50256": -100}, "logit_bias", {"50256": -100.0}),
    ("logprobs", True, "logprobs", True),
    ("top_logprobs", 20, "top_logprobs", 20),
    ("user", "u\0", "user", "u\0"),
    ("parallel_tool_calls", False, "parallel_tool_calls", False),
    ("modalities", ["text", "audio"], "modalities", ("text", "audio")),
    ("audio", {"voice": "alloy"}, "audio", {"voice": "alloy"}),
    ("prediction", {"type": "content", "content": "x"}, "prediction", {"type": "content", "content": "x"}),
    ("reasoning", {"effort": "low", "exclude": True}, "reasoning", Reasoning(effort="low", exclude=True)),
    ("reasoning", {"max_tokens": 0, "enabled": False}, "reasoning", Reasoning(max_tokens=0, enabled=False)),
    ("reasoning_effort", "xhigh", "reasoning", Reasoning(effort="xhigh")),
    ("reasoning_effort", None, "reasoning", None),
    ("verbosity", "low", "verbosity", "low"),
    ("service_tier", "flex", "service_tier", "flex"),
    ("store", False, "store", False),
    ("metadata", {"a": "b"}, "metadata", {"a": "b"}),
    ("web_search_options", {}, "web_search_options", {}),
    ("prompt_cache_key", "k", "prompt_cache_key", "k"),
    ("safety_identifier", "s", "safety_identifier", "s"),
    ("response_format", {"type": "json_object"}, "response_format", ResponseFormat("json_object")),
    (
        "response_format",
        {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True}},
        "response_format",
        ResponseFormat("json_schema", JsonSchema("n", {"type": "object"}, strict=True)),
    ),
    ("tools", [], "tools", ()),
    (
        "tools",
        [{"type": "function", "function": {"name": "f", "parameters": {}}, "cache_control": {"type": "ephemeral"}}],
        "tools",
        (Tool("function", Function("f", parameters={}), cache_control={"type": "ephemeral"}),),
    ),
    ("tools", [{"type": "web_search", "max": 1}], "tools", (Tool("web_search"),)),
    ("tools", [{"type": "custom", "custom": {"name": "c"}}], "tools", (Tool("custom", custom={"name": "c"}),)),
    ("functions", [{"name": "f", "description": "d"}], "tools", (Tool("function", Function("f", "d")),)),
    ("tool_choice", None, "tool_choice", None),
    ("tool_choice", "auto", "tool_choice", ToolChoice("auto")),
    ("tool_choice", "none", "tool_choice", ToolChoice("none")),
    ("tool_choice", "required", "tool_choice", ToolChoice("required")),
    ("tool_choice", "any", "tool_choice", ToolChoice("required")),
    ("tool_choice", {"type": "function", "function": {"name": "f"}}, "tool_choice", ToolChoice("function", "f")),
    ("tool_choice", {"type": "custom", "custom": {"name": "c"}}, "tool_choice", ToolChoice("function", "c")),
    ("tool_choice", {"type": "tool", "name": "t"}, "tool_choice", ToolChoice("function", "t")),
    (
        "tool_choice",
        {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}, {}]},
        },
        "tool_choice",
        ToolChoice("required", allowed=("f",)),
    ),
    (
        "tool_choice",
        {"type": "allowed_tools", "tools": [{"type": "function", "name": "g"}]},
        "tool_choice",
        ToolChoice("auto", allowed=("g",)),
    ),
    ("function_call", "none", "tool_choice", ToolChoice("none")),
    ("function_call", {"name": "f"}, "tool_choice", ToolChoice("function", "f")),
]


@pytest.mark.parametrize(("name", "value", "field", "expected"), MEMBERS, ids=lambda value: str(value)[:30])
def test_member(name: str, value: Any, field: str, expected: Any) -> None:
    request = read_request(body_of(**{name: value}))
    assert getattr(request, field) == expected
    assert request.body[name] == value, "what was sent is kept as it was sent"
    assert request.unknown_members == ()


def test_every_member_has_a_row() -> None:
    assert {row[0] for row in MEMBERS} == KNOWN_MEMBERS - {"model", "messages", "stream_options"}
    assert {row[0] for row in WRONG_MEMBERS} == KNOWN_MEMBERS


def test_which_of_two_members_counts() -> None:
    assert read_request(body_of(max_tokens=5, max_completion_tokens=6)).max_output_tokens == 6
    assert read_request(body_of(tool_choice="none", function_call="auto")).tool_choice == ToolChoice("none")
    both = read_request(body_of(reasoning={"effort": "low"}, reasoning_effort="high"))
    assert both.reasoning == Reasoning(effort="low")
    filled = read_request(body_of(reasoning={"exclude": True}, reasoning_effort="high"))
    assert filled.reasoning == Reasoning(effort="high", exclude=True)


def test_legacy_functions_are_marked() -> None:
    assert read_request(body_of(functions=[{"name": "f"}])).uses_legacy_functions
    tools = [{"type": "function", "function": {"name": "t"}}]
    request = read_request(body_of(functions=[{"name": "f"}], tools=tools))
    assert not request.uses_legacy_functions
    assert request.tools == (Tool("function", Function("t")),)


def test_unknown_members_are_kept() -> None:
    request = read_request(body_of(min_p=0.1, transforms=[]))
    assert request.unknown_members == ("min_p", "transforms")
    assert request.body["min_p"] == 0.1


TYPE, VALUE, MISSING = "invalid_type", "invalid_value", "missing_required_parameter"
A_TOOL = {"type": "function", "function": {"name": "f"}}

WRONG_MEMBERS: list[tuple[str, Any, str, str]] = [
    # member, its value, the code, the param
    ("model", None, MISSING, "model"),
    ("model", "", VALUE, "model"),
    ("model", "m" * 257, VALUE, "model"),
    ("model", 3, TYPE, "model"),
    ("messages", None, TYPE, "messages"),
    ("messages", {}, TYPE, "messages"),
    ("messages", [], VALUE, "messages"),
    ("messages", [HELLO] * 4097, VALUE, "messages"),
    ("messages", [HELLO, "hi"], TYPE, "messages[1]"),
    ("stream", "true", TYPE, "stream"),
    ("stream", 1, TYPE, "stream"),
    ("stream_options", {"include_usage": True}, VALUE, "stream_options"),
    ("stream_options", {}, VALUE, "stream_options"),
    ("stream_options", True, TYPE, "stream_options"),
    ("stream_options", {"include_usage": "yes"}, TYPE, "stream_options.include_usage"),
    ("stream_options", {"include_obfuscation": 1}, TYPE, "stream_options.include_obfuscation"),
    ("n", 0, VALUE, "n"),
    ("n", 129, VALUE, "n"),
    ("n", 1.5, TYPE, "n"),
    ("max_tokens", True, TYPE, "max_tokens"),
    ("max_tokens", "10", TYPE, "max_tokens"),
    ("max_tokens", -1, VALUE, "max_tokens"),
    ("max_tokens", 0, VALUE, "max_tokens"),
    ("max_tokens", 10**9, VALUE, "max_tokens"),
    ("max_completion_tokens", 1e9, TYPE, "max_completion_tokens"),
    ("max_completion_tokens", 2**70, VALUE, "max_completion_tokens"),
    ("temperature", 2.1, VALUE, "temperature"),
    ("temperature", -0.1, VALUE, "temperature"),
    ("temperature", "hot", TYPE, "temperature"),
    ("temperature", True, TYPE, "temperature"),
    ("top_p", 1.01, VALUE, "top_p"),
    ("top_k", -1, VALUE, "top_k"),
    ("top_k", 0.5, TYPE, "top_k"),
    ("stop", 5, TYPE, "stop"),
    ("stop", ["a", None], TYPE, "stop[1]"),
    ("seed", 0.5, TYPE, "seed"),
    ("presence_penalty", 2.5, VALUE, "presence_penalty"),
    ("frequency_penalty", -3, VALUE, "frequency_penalty"),
    ("logit_bias", [], TYPE, "logit_bias"),
    ("logit_bias", {"1": 0, "2": "x"}, TYPE, "logit_bias.2"),
    ("logprobs", 5, TYPE, "logprobs"),
    ("top_logprobs", 21, VALUE, "top_logprobs"),
    ("user", 7, TYPE, "user"),
    ("tools", {}, TYPE, "tools"),
    ("tools", [A_TOOL, "f"], TYPE, "tools[1]"),
    ("tools", [A_TOOL, {"function": {"name": "f"}}], MISSING, "tools[1].type"),
    ("tools", [{"type": "function"}], MISSING, "tools[0].function"),
    ("tools", [{"type": "function", "function": {}}], MISSING, "tools[0].function.name"),
    ("tools", [{"type": "function", "function": {"name": ""}}], VALUE, "tools[0].function.name"),
    (
        "tools",
        [{"type": "function", "function": {"name": "f", "parameters": "{}"}}],
        TYPE,
        "tools[0].function.parameters",
    ),
    ("tools", [{"type": "function", "function": {"name": "f", "strict": 1}}], TYPE, "tools[0].function.strict"),
    ("functions", [{"name": 5}], TYPE, "functions[0].name"),
    ("tool_choice", "maybe", VALUE, "tool_choice"),
    ("tool_choice", 5, TYPE, "tool_choice"),
    ("tool_choice", ["auto"], TYPE, "tool_choice"),
    ("tool_choice", {"type": "function"}, MISSING, "tool_choice.function.name"),
    ("tool_choice", {"type": "function", "function": {"name": 1}}, MISSING, "tool_choice.function.name"),
    ("tool_choice", {"type": "allowed_tools", "tools": 5}, TYPE, "tool_choice.tools"),
    ("tool_choice", {"type": "allowed_tools", "allowed_tools": []}, TYPE, "tool_choice.allowed_tools"),
    ("tool_choice", {"type": "allowed_tools", "allowed_tools": {}}, MISSING, "tool_choice.allowed_tools.tools"),
    ("tool_choice", {"type": "allowed_tools", "tools": [], "mode": "none"}, VALUE, "tool_choice.mode"),
    ("function_call", "required", VALUE, "function_call"),
    ("function_call", 5, TYPE, "function_call"),
    ("function_call", {}, MISSING, "function_call.name"),
    ("parallel_tool_calls", "no", TYPE, "parallel_tool_calls"),
    ("response_format", "json", TYPE, "response_format"),
    ("response_format", {}, MISSING, "response_format.type"),
    ("response_format", {"type": "xml"}, VALUE, "response_format.type"),
    ("response_format", {"type": "json_schema"}, MISSING, "response_format.json_schema"),
    ("response_format", {"type": "json_schema", "json_schema": {}}, MISSING, "response_format.json_schema.name"),
    (
        "response_format",
        {"type": "json_schema", "json_schema": {"name": "n", "schema": []}},
        TYPE,
        "response_format.json_schema.schema",
    ),
    ("modalities", "text", TYPE, "modalities"),
    ("modalities", [1], TYPE, "modalities[0]"),
    ("audio", "alloy", TYPE, "audio"),
    ("prediction", [], TYPE, "prediction"),
    ("reasoning", "high", TYPE, "reasoning"),
    ("reasoning", {"max_tokens": -1}, VALUE, "reasoning.max_tokens"),
    ("reasoning", {"effort": 3}, TYPE, "reasoning.effort"),
    ("reasoning_effort", 3, TYPE, "reasoning_effort"),
    ("verbosity", 1, TYPE, "verbosity"),
    ("service_tier", [], TYPE, "service_tier"),
    ("store", "yes", TYPE, "store"),
    ("metadata", "a", TYPE, "metadata"),
    ("metadata", {"a": "b", "c": 1}, TYPE, "metadata.c"),
    ("web_search_options", True, TYPE, "web_search_options"),
    ("prompt_cache_key", 1, TYPE, "prompt_cache_key"),
    ("safety_identifier", 1, TYPE, "safety_identifier"),
]


@pytest.mark.parametrize(("name", "value", "code", "param"), WRONG_MEMBERS, ids=lambda value: str(value)[:30])
def test_wrong_member(name: str, value: Any, code: str, param: str) -> None:
    assert refused(body_of(**{name: value})) == (code, param)


@pytest.mark.parametrize("name", ["model", "messages"])
def test_required_member(name: str) -> None:
    body = body_of()
    del body[name]
    assert refused(body) == (MISSING, name)


@pytest.mark.parametrize(
    "name",
    [
        "api_base",
        "base_url",
        "api_key",
        "api_version",
        "extra_headers",
        "extra_query",
        "extra_body",
        "headers",
        "proxy",
    ],
)
def test_a_caller_does_not_choose_the_destination(name: str) -> None:
    assert refused(body_of(**{name: None})) == ("unknown_parameter", name)


MESSAGES: list[tuple[dict[str, Any], Message]] = [
    ({"role": "system", "content": "s"}, Message(role="system", content="s")),
    ({"role": "developer", "content": "d", "name": "n"}, Message(role="developer", content="d", name="n")),
    ({"role": "user", "content": ""}, Message(role="user", content="")),
    ({"role": "user", "content": [{"type": "text", "text": "t"}]}, Message(role="user", content=(TextPart("t"),))),
    (
        {"role": "user", "content": "x", "cache_control": {"type": "ephemeral"}},
        Message(role="user", content="x", cache_control={"type": "ephemeral"}),
    ),
    ({"role": "assistant", "content": "a", "refusal": None}, Message(role="assistant", content="a")),
    ({"role": "assistant", "content": None, "refusal": "no"}, Message(role="assistant", refusal="no")),
    (
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        Message(role="assistant", tool_calls=(ToolCall("c", function=FunctionCall("f", "{}")),)),
    ),
    (
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "x", "input": "i"}}]},
        Message(role="assistant", tool_calls=(ToolCall("c", "custom", custom=CustomCall("x", "i")),)),
    ),
    (
        {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
        Message(role="assistant", function_call=FunctionCall("f", "{}")),
    ),
    ({"role": "assistant", "audio": {"id": "a"}}, Message(role="assistant")),
    ({"role": "assistant", "reasoning_content": "r"}, Message(role="assistant", reasoning_content="r")),
    (
        {"role": "assistant", "content": "a", "reasoning": "r"},
        Message(role="assistant", content="a", reasoning_content="r", reasoning_member="reasoning"),
    ),
    (
        {"role": "assistant", "content": "a", "reasoning": "r", "reasoning_content": ""},
        Message(role="assistant", content="a", reasoning_content="r", reasoning_member="reasoning"),
    ),
    (
        {"role": "assistant", "content": "a", "reasoning": "x", "reasoning_content": "r"},
        Message(role="assistant", content="a", reasoning_content="r"),
    ),
    (
        {"role": "assistant", "reasoning_details": [{"type": "reasoning.text", "signature": "s"}]},
        Message(role="assistant", reasoning_details=({"type": "reasoning.text", "signature": "s"},)),
    ),
    (
        {"role": "tool", "tool_call_id": "c", "content": "42"},
        Message(role="tool", tool_call_id="c", content="42"),
    ),
    (
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "no"}], "is_error": True},
        Message(role="tool", tool_call_id="c", content=(TextPart("no"),), is_error=True),
    ),
    ({"role": "function", "name": "f", "content": None}, Message(role="function", name="f")),
]


@pytest.mark.parametrize(("sent", "expected"), MESSAGES, ids=lambda value: str(value)[:60])
def test_message(sent: dict[str, Any], expected: Message) -> None:
    assert message(**sent) == expected


WRONG_MESSAGES: list[tuple[dict[str, Any], str, str]] = [
    ({"content": "x"}, MISSING, "role"),
    ({"role": "robot", "content": "x"}, VALUE, "role"),
    ({"role": 5, "content": "x"}, TYPE, "role"),
    ({"role": "user"}, MISSING, "content"),
    ({"role": "user", "content": None}, MISSING, "content"),
    ({"role": "system", "content": None}, MISSING, "content"),
    ({"role": "user", "content": None, "refusal": "x"}, MISSING, "content"),
    ({"role": "user", "content": 5}, TYPE, "content"),
    ({"role": "user", "content": {"type": "text"}}, TYPE, "content"),
    ({"role": "user", "content": ["x"]}, TYPE, "content[0]"),
    ({"role": "user", "content": "x", "name": 1}, TYPE, "name"),
    ({"role": "user", "content": "x", "cache_control": "ephemeral"}, TYPE, "cache_control"),
    ({"role": "assistant"}, MISSING, "content"),
    ({"role": "assistant", "content": None, "tool_calls": []}, MISSING, "content"),
    ({"role": "assistant", "tool_calls": {}}, TYPE, "tool_calls"),
    ({"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}, MISSING, "tool_calls[0].id"),
    ({"role": "assistant", "tool_calls": [{"id": "c"}]}, MISSING, "tool_calls[0].function"),
    ({"role": "assistant", "tool_calls": [{"id": "c", "type": "custom"}]}, MISSING, "tool_calls[0].custom"),
    ({"role": "assistant", "tool_calls": [{"id": "c", "function": {}}]}, MISSING, "tool_calls[0].function.name"),
    (
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {}}}]},
        TYPE,
        "tool_calls[0].function.arguments",
    ),
    ({"role": "assistant", "content": "x", "reasoning_details": [1]}, TYPE, "reasoning_details[0]"),
    ({"role": "assistant", "content": "x", "reasoning_content": 1}, TYPE, "reasoning_content"),
    ({"role": "tool", "content": "x"}, MISSING, "tool_call_id"),
    ({"role": "tool", "content": "x", "tool_call_id": ""}, MISSING, "tool_call_id"),
    ({"role": "tool", "tool_call_id": "c"}, MISSING, "content"),
    ({"role": "tool", "tool_call_id": "c", "content": "x", "is_error": "no"}, TYPE, "is_error"),
    ({"role": "function", "content": "x"}, MISSING, "name"),
]


@pytest.mark.parametrize(("sent", "code", "member"), WRONG_MESSAGES, ids=lambda value: str(value)[:60])
def test_wrong_message(sent: dict[str, Any], code: str, member: str) -> None:
    assert message_refused(**sent) == (code, f"messages[1].{member}")


CACHE = {"type": "ephemeral", "ttl": "1h"}
PARTS: list[tuple[dict[str, Any], Any]] = [
    ({"type": "text", "text": "t", "cache_control": CACHE}, TextPart("t", CACHE)),
    ({"type": "image_url", "image_url": {"url": "data:,"}}, ImagePart(ImageUrl("data:,"))),
    (
        {"type": "image_url", "image_url": {"url": "https://x/y", "detail": "low"}, "cache_control": CACHE},
        ImagePart(ImageUrl("https://x/y", "low"), CACHE),
    ),
    ({"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}, AudioPart(InputAudio("AA==", "wav"))),
    (
        {"type": "file", "file": {"file_data": "data:,", "filename": "a.pdf"}, "cache_control": CACHE},
        FilePart(FileRef(file_data="data:,", filename="a.pdf"), CACHE),
    ),
    ({"type": "file", "file": {"file_id": "f"}}, FilePart(FileRef(file_id="f"))),
    ({"type": "refusal", "refusal": "no"}, RefusalPart("no")),
    ({"type": "video_url", "video_url": {}}, OtherPart("video_url", {"type": "video_url", "video_url": {}})),
]


@pytest.mark.parametrize(("sent", "expected"), PARTS, ids=lambda value: str(value)[:40])
def test_part(sent: dict[str, Any], expected: Any) -> None:
    assert message(role="user", content=[sent]).content == (expected,)


WRONG_PARTS: list[tuple[dict[str, Any], str, str]] = [
    ({}, MISSING, "type"),
    ({"type": None}, MISSING, "type"),
    ({"type": 5}, TYPE, "type"),
    ({"type": "text"}, MISSING, "text"),
    ({"type": "text", "text": None}, TYPE, "text"),
    ({"type": "text", "text": "t", "cache_control": []}, TYPE, "cache_control"),
    ({"type": "image_url"}, MISSING, "image_url"),
    ({"type": "image_url", "image_url": "https://x"}, TYPE, "image_url"),
    ({"type": "image_url", "image_url": {}}, MISSING, "image_url.url"),
    ({"type": "image_url", "image_url": {"url": 5}}, TYPE, "image_url.url"),
    ({"type": "image_url", "image_url": {"url": "x", "detail": 1}}, TYPE, "image_url.detail"),
    ({"type": "input_audio", "input_audio": {"data": ""}}, MISSING, "input_audio.format"),
    ({"type": "input_audio", "input_audio": {"data": 1, "format": "wav"}}, TYPE, "input_audio.data"),
    ({"type": "file"}, MISSING, "file"),
    ({"type": "file", "file": {"file_id": 1}}, TYPE, "file.file_id"),
    ({"type": "refusal"}, MISSING, "refusal"),
]


@pytest.mark.parametrize(("sent", "code", "member"), WRONG_PARTS, ids=lambda value: str(value)[:40])
def test_wrong_part(sent: dict[str, Any], code: str, member: str) -> None:
    content = [{"type": "text", "text": "t"}, sent]
    assert message_refused(role="user", content=content) == (code, f"messages[1].content[1].{member}")


def test_the_content_as_parts() -> None:
    assert Message(role="assistant").parts == ()
    assert Message(role="user", content="x", cache_control=CACHE).parts == (TextPart("x", CACHE),)
    mixed = Message(role="user", content=(TextPart("a"), ImagePart(ImageUrl("u")), TextPart("b")))
    assert mixed.parts == mixed.content


def test_a_schema_takes_its_description_in() -> None:
    schema = {"type": "object"}
    assert JsonSchema("n", schema, "What it is.").described_schema == {"type": "object", "description": "What it is."}
    own = {"type": "object", "description": "Its own."}
    for unchanged in (JsonSchema("n", own, "d"), JsonSchema("n", own), JsonSchema("n")):
        assert unchanged.described_schema is unchanged.schema
    assert schema == {"type": "object"}


def test_where_the_reasoning_was_asked_for() -> None:
    request = read_request(body_of(reasoning={"max_tokens": 5}, reasoning_effort="low"))
    assert request.reasoning_path("max_tokens") == "reasoning.max_tokens"
    assert request.reasoning_path("effort") == "reasoning_effort"


def test_what_dialects_allow() -> None:
    lenient = RequestRules(model_required=False, always_streams=True, checks_stream_options=False, max_choices=1)
    request = read_request({"messages": [HELLO], "stream": False, "stream_options": {"include_usage": True}}, lenient)
    assert (request.model, request.stream, request.include_usage) == (None, True, True)
    for ignored in (5, {"include_usage": "yes"}, {}, None):
        assert not read_request(body_of(stream_options=ignored), lenient).include_usage
    assert refused(body_of(n=2), lenient) == (VALUE, "n")


@pytest.mark.parametrize(("options", "expected"), [({"include_usage": True}, True), ({}, False), (None, False)])
def test_usage_is_asked_for(options: Any, expected: bool) -> None:
    assert read_request(body_of(stream=True, stream_options=options)).include_usage is expected


def test_what_a_caller_sent_is_not_repeated_at_length() -> None:
    with pytest.raises(CallerError) as caught:
        read_request(body_of(messages=[{"role": "x" * 100_000}], metadata={"k": "v"}))
    assert len(caught.value.message) < 400
    with pytest.raises(CallerError) as caught:
        read_request(body_of(metadata={"k" * 100_000: 1}))
    assert caught.value.param == "metadata." + "k" * 64


def test_a_value_cannot_forge_the_path() -> None:
    assert message_refused(role="x` - at `$.model`", content="x") == (VALUE, "messages[1].role")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["", "function", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "name", "function", "tools", "text", "mode", "allowed_tools"]), inner
        )
    ),
    max_leaves=8,
)
PART = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image_url", "input_audio", "file", "refusal", "x"])},
    optional=dict.fromkeys(("text", "image_url", "input_audio", "file", "refusal", "cache_control"), JSON),
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "developer", "user", "assistant", "tool", "function"])},
    optional={
        "content": st.text() | st.lists(PART | JSON, max_size=3) | JSON,
        **dict.fromkeys(("name", "tool_calls", "tool_call_id", "function_call", "refusal", "reasoning_details"), JSON),
    },
)


@given(
    st.fixed_dictionaries(
        {},
        optional={**dict.fromkeys(sorted(KNOWN_MEMBERS), JSON), "messages": st.lists(MESSAGE | JSON, max_size=3)},
    )
)
def test_any_body_is_read_or_refused(body: dict[str, Any]) -> None:
    outcome = outcome_of(body)
    assert outcome.param if isinstance(outcome, CallerError) else outcome.body == body


@given(st.sampled_from(sorted(KNOWN_MEMBERS - {"model", "messages"})), JSON)
def test_any_member_is_read_or_refused_by_its_own_name(name: str, value: Any) -> None:
    outcome = outcome_of(body_of(**{"stream": True, name: value}))
    if isinstance(outcome, CallerError):
        assert outcome.param is not None
        assert outcome.param.startswith(name)


def outcome_of(body: dict[str, Any]) -> ChatRequest | CallerError:
    try:
        return read_request(body)
    except CallerError as error:
        return error
