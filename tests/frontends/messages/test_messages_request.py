"""Bodies of the Messages API as chat requests: each member is passed on, translated, refused, or named."""

from hashlib import sha256
from typing import Any

import pytest

from streamweir.core.errors import CallerError
from streamweir.core.request import ChatRequest, NativeRequest, Reasoning, ServerTool
from streamweir.frontends.carried import carry
from streamweir.frontends.messages.frontend import MESSAGES
from streamweir.frontends.messages.request import read_messages_request

MARK = {"type": "ephemeral"}


def text(said: str, **members: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **members}


def use(id: str = "toolu_1", name: str = "f", **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def result(id: str = "toolu_1", content: Any = None, **members: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, **({} if content is None else {"content": content}), **members}


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


def assistant(*content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content)}


def read(*messages: dict[str, Any], headers: dict[str, str] | None = None, **members: Any) -> ChatRequest:
    said = list(messages) or [user(text("Hi"))]
    return MESSAGES.parse({"model": "m", "max_tokens": 9, "messages": said, **members}, headers or {})


def own(request: ChatRequest) -> NativeRequest:
    assert request.native is not None
    return request.native


def sent(*messages: dict[str, Any], **members: Any) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = read(*messages, **members).body["messages"]
    return made


def refused(*messages: dict[str, Any], **members: Any) -> tuple[str, str | None]:
    with pytest.raises(CallerError) as caught:
        read(*messages, **members)
    return caught.value.code, caught.value.param


# The members.


def test_the_plain_members() -> None:
    request = read(stream=True, temperature=0.5, top_p=0.9, top_k=3, stop_sequences=["END"])
    assert (request.model, request.max_output_tokens, request.stream, request.include_usage) == ("m", 9, True, True)
    assert (request.temperature, request.top_p, request.top_k, request.stop) == (0.5, 0.9, 3, ("END",))
    assert own(request).untranslated == ()
    assert "max_tokens" not in request.body, "the provider's own name for the limit is used"


@pytest.mark.parametrize(
    ("thinking", "effort", "expected"),
    [
        (None, None, None),
        ({"type": "enabled", "budget_tokens": 2000}, None, Reasoning(max_tokens=2000)),
        ({"type": "adaptive"}, "high", Reasoning(enabled=True, effort="high")),
        ({"type": "disabled"}, "high", Reasoning(effort="none")),
        ({"type": "between_tools"}, None, Reasoning(enabled=True)),
        (None, "low", Reasoning(effort="low")),
    ],
)
def test_thinking(thinking: Any, effort: str | None, expected: Reasoning | None) -> None:
    request = read(thinking=thinking, **({"output_config": {"effort": effort}} if effort else {}))
    assert request.reasoning == expected
    assert not own(request).hides_reasoning


def test_thinking_may_be_hidden() -> None:
    assert own(read(thinking={"type": "adaptive", "display": "omitted"})).hides_reasoning
    assert not own(read(thinking={"type": "adaptive", "display": "updates"})).hides_reasoning


@pytest.mark.parametrize("member", ["output_format", "output_config"])
def test_an_answer_in_json(member: str) -> None:
    form = {"type": "json_schema", "schema": {"type": "object"}}
    members: dict[str, Any] = {member: form if member == "output_format" else {"format": form}}
    request = read(**members)
    assert request.response_format is not None
    schema = request.response_format.json_schema
    assert schema is not None
    assert (schema.name, schema.schema, schema.strict) == ("output", {"type": "object"}, True)


def test_an_unknown_format_is_named_and_passed_on_to_a_provider_of_the_api() -> None:
    request = read(output_config={"format": {"type": "grammar", "syntax": "lark"}})
    assert (request.response_format, own(request).untranslated) == (None, ("output_config.format",))
    assert own(request).body["output_config"] == {"format": {"type": "grammar", "syntax": "lark"}}
    missing = ("missing_required_parameter", "output_config.format.schema")
    assert refused(output_config={"format": {"type": "json_schema"}}) == missing


@pytest.mark.parametrize(("enabled", "named"), [(True, ("citations", "context")), (False, ("context",))])
def test_other_members_of_a_document_are_named(enabled: bool, named: tuple[str, ...]) -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "told"}
    document = {"type": "document", "source": source, "citations": {"enabled": enabled}, "context": "old"}
    assert own(read(user(document))).untranslated == tuple(f"messages[0].content[0].{name}" for name in named)


def test_the_user_and_the_service_tier() -> None:
    request = read(metadata={"user_id": '{"device":1}', "more": 1}, service_tier="standard_only")
    assert request.safety_identifier == sha256(b'{"device":1}').hexdigest()
    assert (request.service_tier, own(request).untranslated) == ("default", ("metadata.more",))


def test_what_is_not_known_is_named() -> None:
    request = read(
        context_management={"edits": [1]},
        safeguards=1,
        unheard_of=[1],
        mcp_servers=[],
        output_config={"task_budget": 1},
    )
    assert own(request).untranslated == ("output_config.task_budget", "context_management", "safeguards", "unheard_of")


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"model": None}, ("invalid_type", "model")),
        ({"max_tokens": None}, ("missing_required_parameter", "max_tokens")),
        ({"max_tokens": 0}, ("invalid_value", "max_tokens")),
        ({"messages": []}, ("invalid_value", "messages")),
        ({"messages": [{"role": "tool", "content": "x"}]}, ("invalid_value", "messages[0].role")),
        ({"messages": [{"role": "user"}]}, ("missing_required_parameter", "messages[0].content")),
        ({"messages": [user({"text": "x"})]}, ("missing_required_parameter", "messages[0].content[0].type")),
        ({"messages": [user({"type": "text"})]}, ("missing_required_parameter", "messages[0].content[0].text")),
        ({"messages": [user(text(""))]}, ("invalid_value", "messages")),
        ({"temperature": 1.5}, ("invalid_value", "temperature")),
        ({"thinking": {"type": "enabled"}}, ("missing_required_parameter", "thinking.budget_tokens")),
        ({"tool_choice": {"type": "some"}}, ("invalid_value", "tool_choice.type")),
        ({"tools": [{"description": "d"}]}, ("missing_required_parameter", "tools[0].name")),
        ({"tools": [{"name": "f", "input_schema": 1}]}, ("invalid_type", "tools[0].input_schema")),
        ({"container": "container_1"}, ("invalid_value", "container")),
        ({"container": {"id": "container_1"}}, ("invalid_value", "container")),
        ({"api_base": "http://evil"}, ("unknown_parameter", "api_base")),
    ],
)
def test_what_is_wrong_is_named_by_its_path(members: dict[str, Any], expected: tuple[str, str]) -> None:
    assert refused(**members) == expected


def test_a_count_of_tokens_needs_no_limit() -> None:
    document = {"model": "m", "messages": [user(text("Hi"))]}
    assert read_messages_request(document, {}, needs_limit=False).max_output_tokens is None


# The conversation.


def test_the_system_prompt() -> None:
    assert sent(system="Be brief.")[0] == {"role": "system", "content": "Be brief."}
    blocks = [text("x-anthropic-billing-header: cc=1"), text("One"), text("Two", cache_control=MARK)]
    request = read(system=blocks)
    assert request.body["messages"][0] == {"role": "system", "content": [text("One"), text("Two", cache_control=MARK)]}
    assert own(request).untranslated == ("system[0]",)


def test_a_system_message_keeps_its_position() -> None:
    system = {"role": "system", "content": [text("It is noon.")]}
    assert [message["role"] for message in sent(user(text("Hi")), system, assistant(text("Yo")))] == [
        "user",
        "system",
        "assistant",
    ]


def test_a_mark_on_the_whole_is_one_on_the_last_message() -> None:
    assert sent(cache_control=MARK)[-1]["cache_control"] == MARK


def test_pictures_and_documents() -> None:
    png = {"type": "base64", "media_type": "image/png", "data": "aQ=="}
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "cA=="}
    (message,) = sent(
        user(
            {"type": "image", "source": png, "cache_control": MARK},
            {"type": "image", "source": {"type": "url", "url": "https://a/b.png"}},
            {"type": "document", "source": pdf, "title": "a.pdf"},
            {"type": "document", "source": {"type": "url", "url": "https://a/b.pdf"}},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "told"}, "title": "T"},
            {"type": "document", "source": {"type": "content", "content": [text("inner")]}},
            {"type": "search_result", "title": "T", "source": "https://s", "content": [text("found")]},
        )
    )
    assert message["content"] == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aQ=="}, "cache_control": MARK},
        {"type": "image_url", "image_url": {"url": "https://a/b.png"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,cA=="}},
        {"type": "file", "file": {"filename": "document.pdf", "file_data": "https://a/b.pdf"}},
        text("T\n\ntold"),
        text("inner"),
        text("T\nhttps://s\nfound"),
    ]


@pytest.mark.parametrize("kind", ["image", "document"])
def test_uploaded_files_are_refused(kind: str) -> None:
    block = {"type": kind, "source": {"type": "file", "file_id": "file_1"}}
    assert refused(user(block)) == ("invalid_value", "messages[0].content[0].source")
    assert refused(user(text("Hi")), assistant(block)) == ("invalid_value", "messages[1].content[0].source")
    upload = {"type": "container_upload", "file_id": "file_1"}
    assert refused(user(text("Hi"), upload)) == ("invalid_value", "messages[0].content[1]")
    assert refused(user(text("Hi")), assistant(use()), user(result(content=[upload])))[0] == "invalid_value"


def test_what_has_no_part_is_named() -> None:
    request = read(
        user(text("Hi"), {"type": "something_new"}),
        assistant({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}, text("Yo")),
    )
    assert own(request).untranslated == ("messages[0].content[1]", "messages[1].content[0]")


def test_calls_and_their_results_in_order_with_the_rest_behind_them() -> None:
    messages = sent(
        user(text("Go")),
        assistant(text("So"), use("a", "f", x=1), use("b", "g")),
        user(text("and"), result("a", "one"), result("b", [text("two"), text("three")], is_error=True), text("now")),
    )
    assert messages[1] == {
        "role": "assistant",
        "content": "So",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
            {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
        ],
    }
    assert messages[2:] == [
        {"role": "tool", "tool_call_id": "a", "content": "one"},
        {"role": "tool", "tool_call_id": "b", "content": "two\nthree", "is_error": True},
        {"role": "user", "content": [text("and"), text("now")]},
    ]


def test_a_result_without_content_is_empty_and_one_may_hold_a_picture() -> None:
    image = {"type": "image", "source": {"type": "url", "url": "https://a/b.png"}}
    messages = sent(user(text("Go")), assistant(use("a"), use("b")), user(result("a"), result("b", [image])))
    assert messages[2]["content"] == ""
    assert messages[3]["content"] == [{"type": "image_url", "image_url": {"url": "https://a/b.png"}}]


def test_a_result_without_its_call_becomes_user_text() -> None:
    messages = sent(assistant(use("a")), user(text("no")), user(result("a", "late"), result("b", "never")))
    assert messages[-1] == {"role": "user", "content": [text("late"), text("never")]}
    assert [message["role"] for message in messages] == ["assistant", "user", "user"]


# Reasoning.


def test_reasoning_comes_back_with_its_position() -> None:
    (message,) = sent(
        assistant(
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            text("So"),
            text("on"),
            {"type": "redacted_thinking", "data": "ZA"},
            use(),
            {"type": "thinking", "thinking": "unsigned"},
        )
    )
    claude = {"format": "anthropic-claude-v1"}
    assert message["reasoning_details"] == [
        {"type": "reasoning.text", "text": "hm", "signature": "c2ln", **claude, "index": 0},
        {"type": "reasoning.encrypted", "data": "ZA", **claude, "index": 2},
        {"type": "reasoning.text", "text": "unsigned", **claude, "index": 4},
    ]
    assert message["reasoning_content"] == "hm\n\nunsigned"


def test_reasoning_of_others_comes_out_of_its_envelope_and_never_reaches_anthropic() -> None:
    entry = {"type": "reasoning.encrypted", "data": "ZA", "format": "google-gemini-v1", "id": "call:0", "index": 3}
    request = read(
        user(text("Go")),
        assistant(
            {"type": "thinking", "thinking": "", "signature": carry("m", [entry], "hidden")},
            {"type": "redacted_thinking", "data": carry("m", [entry])},
            use("functions.f:0"),
        ),
        user(result("functions.f:0", "done")),
        assistant({"type": "thinking", "thinking": "x", "signature": ""}),
        user(text("So?")),
    )
    message = request.body["messages"][1]
    assert (message["reasoning_details"], message["reasoning_content"]) == ([entry, entry], "hidden")
    assert message["tool_calls"][0]["id"] == "functions.f:0"
    assert request.native is not None
    assert request.native.body["messages"] == [
        user(text("Go")),
        assistant(use("functions_f_0")),
        user(result("functions_f_0", "done")),
        user(text("So?")),
    ]
    assert request.native.dropped == ("messages[1].content[0]", "messages[1].content[1]", "messages[3].content[0]")


# Tools.


def test_tools_are_functions() -> None:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}
    request = read(
        tools=[
            {"name": "f", "description": "d", "input_schema": schema, "cache_control": MARK},
            {"type": "custom", "name": "g", "strict": True, "input_examples": [{}]},
        ]
    )
    assert request.body["tools"] == [
        {
            "type": "function",
            "function": {"name": "f", "description": "d", "parameters": {"type": "object"}},
            "cache_control": MARK,
        },
        {"type": "function", "function": {"name": "g", "strict": True}},
    ]
    assert own(request).untranslated == ("tools[1].input_examples",)


def test_a_tool_that_is_loaded_on_demand_is_sent_when_it_was_found() -> None:
    tools = [{"name": "search"}, {"name": "f", "defer_loading": True}, {"name": "g", "defer_loading": True}]
    found = [{"type": "tool_reference", "tool_name": "g"}]
    request = read(user(text("Go")), assistant(use("a", "search")), user(result("a", found)), tools=tools)
    assert [tool.function.name for tool in request.tools if tool.function is not None] == ["search", "g"]
    assert request.body["messages"][-1]["content"] == "Tool g is loaded."
    assert own(request).untranslated == ()


@pytest.mark.parametrize(
    ("choice", "expected", "parallel"),
    [
        ({"type": "auto"}, "auto", None),
        ({"type": "any", "disable_parallel_tool_use": True}, "required", False),
        ({"type": "none"}, "none", None),
        ({"type": "tool", "name": "f"}, {"type": "function", "function": {"name": "f"}}, None),
        ({"type": "tool", "name": "gone"}, None, None),
    ],
)
def test_the_choice_among_them(choice: dict[str, Any], expected: Any, parallel: bool | None) -> None:
    request = read(tools=[{"name": "f"}], tool_choice=choice)
    assert (request.body.get("tool_choice"), request.parallel_tool_calls) == (expected, parallel)
    assert own(request).untranslated == (("tool_choice",) if expected is None else ())
    assert "tool_choice" not in read(tool_choice=choice).body, "there is nothing to choose among"


def test_tools_that_anthropic_runs_are_left_out_and_named() -> None:
    request = read(tools=[{"name": "f"}, {"type": "bash_20250124", "name": "bash"}, {"type": "mcp_toolset"}])
    assert (len(request.tools), own(request).untranslated) == (1, ("tools[1]", "tools[2]"))
    alone = read(tools=[{"type": "bash_20250124", "name": "bash"}])
    assert (alone.server_tools, own(alone).untranslated) == ((ServerTool("bash_20250124", "tools[0]"),), ())


def test_a_web_search_is_the_providers_to_take() -> None:
    request = read(tools=[{"type": "web_search_20250305", "name": "web_search"}])
    assert (request.tools, request.server_tools) == ((), (ServerTool("web_search", "tools[0]"),))


def test_names_that_others_do_not_take_are_shortened_everywhere() -> None:
    name = "mcp__some.server__" + "x" * 60
    request = read(
        user(text("Go")), assistant(use("a", name)), tools=[{"name": name}], tool_choice={"type": "tool", "name": name}
    )
    (short,) = own(request).tool_names
    assert own(request).tool_names[short] == name
    assert len(short) == 64
    assert request.tools[0].function is not None
    assert request.tools[0].function.name == short
    assert request.body["tool_choice"]["function"]["name"] == short
    assert request.body["messages"][1]["tool_calls"][0]["function"]["name"] == short


# For an upstream that speaks it.


def test_a_body_is_passed_on_unchanged() -> None:
    document = {"messages": [user(text("Hi"))], "zzz": 1, "max_tokens": 9, "model": "m"}
    native = MESSAGES.parse(document, {}).native
    assert native is not None
    assert native.body is document


def test_what_costs_more_or_asks_others_is_left_out() -> None:
    native = read(
        speed="fast", inference_geo="x", fallbacks=[1], tools=[{"name": "f"}, {"name": "g", "model": "o"}]
    ).native
    assert native is not None
    assert native.dropped == ("fallbacks", "speed", "inference_geo", "tools[1]")
    assert native.body.keys() == {"model", "max_tokens", "messages", "tools"}
    assert native.body["tools"] == [{"name": "f"}]


def test_the_headers_that_are_passed_on() -> None:
    headers = {
        "anthropic-version": "2026-10-21",
        "anthropic-beta": "a,b",
        "anthropic-new": "1",
        "anthropic-workspace-id": "w",
        "anthropic-dangerous-direct-browser-access": "true",
        "authorization": "Bearer x",
        "x-api-key": "x",
        "cookie": "c",
    }
    native = read(headers=headers).native
    assert native is not None
    assert native.headers == (("anthropic-version", "2026-10-21"), ("anthropic-beta", "a,b"), ("anthropic-new", "1"))
