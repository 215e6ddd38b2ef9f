"""A body of the Responses API to a `ChatRequest`: members, items, tools, reasoning, and the body as it goes on."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.core.errors import CallerError
from streamweir.core.request import ChatRequest, NativeRequest, Reasoning, ServerTool, ToolChoice, ToolShape
from streamweir.frontends.carried import carry
from streamweir.frontends.responses.frontend import RESPONSES
from streamweir.frontends.responses.request import _KNOWN as KNOWN_MEMBERS
from streamweir.wire import jsonio

FUNCTION: dict[str, Any] = {"type": "function", "name": "f", "parameters": {"type": "object"}}
SEALED = "gAAAAABopaque"


def user(*content: Any) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": list(content)}


def said(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def call(call_id: Any = "c1", name: str = "f", arguments: Any = "{}", **members: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **members}


def result(call_id: str = "c1", output: Any = "ok", kind: str = "function_call_output") -> dict[str, Any]:
    return {"type": kind, "call_id": call_id, "output": output}


def thought(text: str = "", sealed: Any = None, **members: Any) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text}] if text else []
    return {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": sealed, **members}


def read(*items: Any, **members: Any) -> ChatRequest:
    return RESPONSES.parse({"model": "m", "input": list(items) or "Hi", **members}, {})


def own(request: ChatRequest) -> NativeRequest:
    assert request.native is not None
    return request.native


def sent(*items: Any, **members: Any) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = read(*items, **members).body["messages"]
    return made


def refused(*items: Any, **members: Any) -> tuple[str, str | None]:
    with pytest.raises(CallerError) as caught:
        read(*items, **members)
    return caught.value.code, caught.value.param


def tool_call(id: str = "c1", name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def answered(id: str = "c1", content: Any = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


# The members.


def test_the_plain_members() -> None:
    request = read(
        stream=True,
        max_output_tokens=99,
        temperature=0.5,
        top_p=0.5,
        user="u",
        safety_identifier="s",
        prompt_cache_key="k",
        metadata={"a": "b"},
        service_tier="flex",
        tools=[FUNCTION],
        parallel_tool_calls=False,
    )
    assert (request.model, request.stream, request.include_usage) == ("m", True, True)
    assert (request.max_output_tokens, request.temperature, request.top_p) == (99, 0.5, 0.5)
    assert (request.user, request.safety_identifier, request.prompt_cache_key) == ("u", "s", "k")
    assert (request.metadata, request.service_tier, request.parallel_tool_calls) == ({"a": "b"}, "flex", False)
    assert own(request).untranslated == ()
    assert read(parallel_tool_calls=True).parallel_tool_calls is None, "refused by others without tools"


def test_a_text_is_the_users_and_instructions_are_the_developers() -> None:
    assert sent(instructions="Be brief.") == [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
    ]


@pytest.mark.parametrize(
    ("reasoning", "expected", "summarizes", "named"),
    [
        (None, None, False, ()),
        ({}, None, False, ()),
        ({"effort": "low", "summary": None}, Reasoning(effort="low"), False, ()),
        ({"summary": "auto"}, Reasoning(summary="auto"), True, ()),
        ({"generate_summary": "concise"}, Reasoning(summary="concise"), True, ()),
        (
            {"effort": "high", "context": "all_turns", "mode": "pro"},
            Reasoning(effort="high"),
            False,
            ("reasoning.context", "reasoning.mode"),
        ),
    ],
)
def test_reasoning(reasoning: Any, expected: Reasoning | None, summarizes: bool, named: tuple[str, ...]) -> None:
    request = read(reasoning=reasoning)
    assert (request.reasoning, own(request).summarizes_reasoning) == (expected, summarizes)
    assert own(request).untranslated == named


SCHEMA = {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ({"format": {"type": "text"}}, {}),
        ({"format": {"type": "json_object"}}, {"response_format": {"type": "json_object"}}),
        (
            {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}, "verbosity": "low"},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": SCHEMA, "strict": True},
                },
                "verbosity": "low",
            },
        ),
    ],
)
def test_the_form_of_the_text(text: dict[str, Any], body: dict[str, Any]) -> None:
    request = read(text=text)
    assert {name: value for name, value in request.body.items() if name in ("response_format", "verbosity")} == body
    assert own(request).untranslated == ()


def test_a_form_that_is_not_known_is_named() -> None:
    request = read(text={"format": {"type": "grammar"}, "other": 1})
    assert own(request).untranslated == ("text.other", "text.format")


def test_log_probabilities_are_asked_for() -> None:
    request = read(include=["message.output_text.logprobs"], top_logprobs=3)
    assert (request.logprobs, request.top_logprobs, own(request).shows_logprobs) == (True, 3, True)
    request = read(include=["reasoning.encrypted_content", "something.else"])
    assert (request.logprobs, own(request).shows_logprobs) == (None, False)


@pytest.mark.parametrize(
    ("members", "named"),
    [
        ({"store": True}, ("store",)),
        ({"store": False, "truncation": "disabled", "background": False, "prompt": None}, ()),
        ({"truncation": "auto"}, ("truncation",)),
        ({"max_tool_calls": 3, "client_metadata": {"a": "b"}}, ("max_tool_calls", "client_metadata")),
        ({"stream_options": {"include_obfuscation": True}, "unheard_of": None}, ("stream_options",)),
        ({"context_management": [{}], "moderation": {"a": 1}}, ("context_management", "moderation")),
    ],
)
def test_what_is_not_done_is_named(members: dict[str, Any], named: tuple[str, ...]) -> None:
    assert own(read(**members)).untranslated == named


def test_the_answer_repeats_what_was_asked() -> None:
    members = {"temperature": 0.5, "tools": [FUNCTION], "instructions": "Be brief.", "text": {"verbosity": "low"}}
    assert own(read(**members)).echoed == {**members, "text": {"verbosity": "low", "format": {"type": "text"}}}
    assert own(read(stream=True, **members)).echoed.keys() == {"temperature", "text"}
    assert own(read(reasoning={"effort": "low", "mode": "x"})).echoed == {
        "reasoning": {"effort": "low", "summary": None}
    }


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"model": None}, ("invalid_type", "model")),
        ({"model": ""}, ("invalid_value", "model")),
        ({"input": None}, ("invalid_type", "input")),
        ({"input": 5}, ("invalid_type", "input")),
        ({"input": ""}, ("invalid_value", "input")),
        ({"input": []}, ("invalid_value", "input")),
        ({"input": ["text"]}, ("invalid_type", "input[0]")),
        ({"input": [{}]}, ("missing_required_parameter", "input[0].role")),
        ({"input": [{"type": 5}]}, ("invalid_type", "input[0].type")),
        ({"input": [{"role": "tool", "content": "x"}]}, ("invalid_value", "input[0].role")),
        ({"input": [{"role": "user"}]}, ("invalid_type", "input[0].content")),
        ({"input": [{"role": "user", "content": [{}]}]}, ("missing_required_parameter", "input[0].content[0].type")),
        ({"input": [user({"type": "input_text"})]}, ("missing_required_parameter", "input[0].content[0].text")),
        ({"input": [user({"type": "input_text", "text": 5})]}, ("invalid_type", "input[0].content[0].text")),
        ({"input": [call(call_id=None)]}, ("missing_required_parameter", "input[0].call_id")),
        ({"input": [call(arguments={})]}, ("invalid_type", "input[0].arguments")),
        ({"input": [call(namespace=5)]}, ("invalid_type", "input[0].namespace")),
        ({"input": [thought(sealed=5)]}, ("invalid_type", "input[0].encrypted_content")),
        ({"input": [{"type": "reasoning", "summary": "x"}]}, ("invalid_type", "input[0].summary")),
        (
            {"input": [{"type": "reasoning", "summary": [{}]}]},
            ("missing_required_parameter", "input[0].summary[0].text"),
        ),
        ({"input": [result(output=5)]}, ("invalid_type", "input[0].output")),
        ({"input": [{"type": "additional_tools", "tools": 5}]}, ("invalid_type", "input[0].tools")),
        ({"instructions": [1]}, ("invalid_type", "instructions")),
        ({"stream": "yes"}, ("invalid_type", "stream")),
        ({"max_output_tokens": 0}, ("invalid_value", "max_output_tokens")),
        ({"temperature": 3}, ("invalid_value", "temperature")),
        ({"top_logprobs": 21}, ("invalid_value", "top_logprobs")),
        ({"metadata": {"a": 1}}, ("invalid_type", "metadata[...]")),
        ({"reasoning": {"effort": 1}}, ("invalid_type", "reasoning.effort")),
        ({"text": {"format": {}}}, ("missing_required_parameter", "text.format.type")),
        ({"text": {"format": {"type": "json_schema"}}}, ("missing_required_parameter", "text.format.name")),
        (
            {"text": {"format": {"type": "json_schema", "name": "n"}}},
            ("missing_required_parameter", "text.format.schema"),
        ),
        ({"tools": {}}, ("invalid_type", "tools")),
        ({"tools": [{}]}, ("missing_required_parameter", "tools[0].type")),
        ({"tools": [{"type": "function"}]}, ("missing_required_parameter", "tools[0].name")),
        ({"tools": [{"type": "custom", "name": ""}]}, ("missing_required_parameter", "tools[0].name")),
        ({"tools": [{**FUNCTION, "parameters": []}]}, ("invalid_type", "tools[0].parameters")),
        ({"tools": [{"type": "namespace", "name": "n", "tools": {}}]}, ("invalid_type", "tools[0].tools")),
        ({"tool_choice": "maybe"}, ("invalid_value", "tool_choice")),
        ({"tool_choice": 5}, ("invalid_type", "tool_choice")),
        ({"tool_choice": {}}, ("missing_required_parameter", "tool_choice.type")),
        ({"include": "all"}, ("invalid_type", "include")),
        ({"previous_response_id": "resp_1"}, ("previous_response_not_found", "previous_response_id")),
        ({"conversation": {"id": "c"}}, ("invalid_value", "conversation")),
        ({"prompt": {"id": "p"}}, ("invalid_value", "prompt")),
        ({"background": True}, ("invalid_value", "background")),
        ({"base_url": "http://x"}, ("unknown_parameter", "base_url")),
    ],
)
def test_what_is_wrong_is_named_by_its_path(members: dict[str, Any], expected: tuple[str, str]) -> None:
    assert refused(**members) == expected


# Items.


def test_parts_of_messages() -> None:
    picture = "data:image/png;base64,AAAA"
    (message,) = sent(
        user(
            {"type": "input_text", "text": "Look:"},
            {"type": "input_text", "text": ""},
            {"type": "input_image", "image_url": picture, "detail": "low"},
            {"type": "input_image", "image_url": picture, "detail": "original"},
            {"type": "input_file", "file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"},
            {"type": "input_file", "file_url": "https://example.com/b.pdf"},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        )
    )
    assert message["content"] == [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": picture, "detail": "low"}},
        {"type": "image_url", "image_url": {"url": picture, "detail": "high"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}},
        {"type": "file", "file": {"filename": "document.pdf", "file_data": "https://example.com/b.pdf"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    ]


def test_messages_keep_their_roles_and_their_order() -> None:
    items = [
        {"role": "system", "content": "a"},
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "b"}]},
        user({"type": "input_text", "text": "c"}),
        {**said("d"), "phase": "commentary"},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
        {"role": "user", "content": "e"},
    ]
    assert sent(*items) == [
        {"role": "system", "content": "a"},
        {"role": "developer", "content": "b"},
        {"role": "user", "content": "c"},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "d"}, {"type": "refusal", "refusal": "No."}],
        },
        {"role": "user", "content": "e"},
    ]


@pytest.mark.parametrize("kind", ["input_image", "input_file", "something_new"])
def test_uploaded_files_are_refused(kind: str) -> None:
    assert refused(user({"type": kind, "file_id": "file_1"})) == ("invalid_value", "input[0].content[0].file_id")
    assert refused(result(output=[{"type": kind, "file_id": "x"}])) == ("invalid_value", "input[0].output[0].file_id")


@pytest.mark.parametrize(
    "kind",
    [
        "compaction",
        "web_search_call",
        "mcp_call",
        "mcp_list_tools",
        "local_shell_call",
        "shell_call_output",
        "tool_search_call",
        "image_generation_call",
        "something_new",
    ],
)
def test_an_item_that_has_no_counterpart_is_named(kind: str) -> None:
    request = read(user({"type": "input_text", "text": "Hi"}, {"type": kind}), {"type": kind, "id": "x"})
    assert own(request).untranslated == ("input[0].content[1]", "input[1]")


def test_items_of_the_assistant_in_a_row_are_one_message() -> None:
    items = [thought("Hm."), said("I look."), call("a"), call("b", "g", '{"x":1}'), result("a"), result("b", "two")]
    assert sent(*items, said("Done.")) == [
        {
            "role": "assistant",
            "content": "I look.",
            "reasoning_content": "Hm.",
            "tool_calls": [tool_call("a"), tool_call("b", "g", '{"x":1}')],
        },
        answered("a"),
        answered("b", "two"),
        {"role": "assistant", "content": "Done."},
    ]


def test_results_stand_behind_their_calls_in_the_order_of_the_calls() -> None:
    items = [call("a"), call("b"), result("b", "2"), user({"type": "input_text", "text": "x"}), result("a", "1")]
    assert sent(*items) == [
        {"role": "assistant", "content": None, "tool_calls": [tool_call("a"), tool_call("b")]},
        answered("a", "1"),
        answered("b", "2"),
        {"role": "user", "content": "x"},
    ]


def test_a_call_after_a_result_is_another_turn() -> None:
    roles = [message["role"] for message in sent(call("a"), result("a"), call("b"), result("b"))]
    assert roles == ["assistant", "tool", "assistant", "tool"]


def test_a_call_without_a_result_gets_one_and_a_result_without_a_call_is_the_users() -> None:
    assert sent(call("a"), result("z", "lost"), call("b")) == [
        {"role": "assistant", "content": None, "tool_calls": [tool_call("a")]},
        answered("a", "aborted"),
        {"role": "user", "content": "lost"},
        {"role": "assistant", "content": None, "tool_calls": [tool_call("b")]},
        answered("b", "aborted"),
    ]
    assert sent(call("a"), result("a", "1"), result("a", "2"))[1:] == [
        answered("a", "1"),
        {"role": "user", "content": "2"},
    ]


def test_an_id_that_is_used_again_belongs_to_the_call_that_waits() -> None:
    messages = sent(call("a"), result("a", "1"), call("a"), result("a", "2"), call("a"), call("a"), result("a", "3"))
    assert [m["content"] for m in messages if m["role"] == "tool"] == ["1", "2", "3", "aborted"]


def test_the_output_of_a_call() -> None:
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    texts = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]
    for output, content in (
        ("", ""),
        (None, ""),
        (texts, "a\nb"),
        ([], ""),
        (
            [texts[0], picture],
            [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}],
        ),
    ):
        assert sent(call(), result(output=output))[1] == answered(content=content)


def test_a_custom_call_is_a_call_with_its_text_wrapped() -> None:
    custom = {"type": "custom_tool_call", "call_id": "c1", "name": "exec", "input": 'ls "x"'}
    assert sent(custom, result(kind="custom_tool_call_output")) == [
        {"role": "assistant", "content": None, "tool_calls": [tool_call("c1", "exec", '{"input":"ls \\"x\\""}')]},
        answered(),
    ]
    assert sent(call(arguments=""), result())[0]["tool_calls"] == [tool_call()]


# Reasoning.


def test_sealed_reasoning_of_the_own_family_comes_back_in_its_entries() -> None:
    (message,) = sent(thought("Hm.", SEALED), said("a"))
    entry = {"format": "openai-responses-v1", "index": 0, "id": "rs_1"}
    assert message["reasoning_details"] == [
        {"type": "reasoning.summary", "summary": "Hm.", **entry},
        {"type": "reasoning.encrypted", "data": SEALED, **entry},
    ]
    assert message["reasoning_content"] == "Hm."


def test_reasoning_of_others_comes_out_of_its_envelope() -> None:
    entry = {"type": "reasoning.text", "signature": "s", "format": "anthropic-claude-v1", "index": 0}
    request = read(thought("Hm.", carry("claude", [entry])), call(), result())
    message = request.body["messages"][0]
    assert message["reasoning_details"] == [{**entry, "text": "Hm."}]
    assert (message["reasoning_content"], message["content"]) == ("Hm.", None)
    assert own(request).reasoning_models == {"messages[0].reasoning_details[0]": "claude"}
    (message,) = sent(thought("", carry("m", [], "hidden")), said("a"))
    assert message["reasoning_content"] == "hidden"


def test_the_text_of_reasoning_is_its_content_else_its_summary() -> None:
    content = [{"type": "reasoning_text", "text": "raw"}]
    (message,) = sent(thought("short", content=content), said("a"))
    assert message["reasoning_content"] == "raw"
    assert "reasoning_details" not in message
    (message,) = sent(thought(), said("a"))
    assert message == {"role": "assistant", "content": "a"}


def test_reasoning_that_nothing_followed_is_left_out_and_named() -> None:
    request = read(thought("Hm.", SEALED), {"role": "user", "content": "Stop."})
    assert (request.body["messages"], own(request).untranslated) == (
        [{"role": "user", "content": "Stop."}],
        ("input[0]",),
    )


@pytest.mark.parametrize("sealed", ["sw1.", "sw1.!!", "sw1.AAAA", "sw1." + "A" * 100_000])
def test_an_envelope_that_cannot_be_opened_is_ignored(sealed: str) -> None:
    assert sent(thought("", sealed), said("a")) == [{"role": "assistant", "content": "a"}]


# Tools.


def test_functions_and_custom_tools() -> None:
    custom = {
        "type": "custom",
        "name": "patch",
        "description": "Edits.",
        "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"},
    }
    function = {**FUNCTION, "description": "d", "strict": True, "parameters": {"$schema": "x", "type": "object"}}
    request = read(tools=[function, custom, {"type": "custom", "name": "plain", "format": {"type": "text"}}])
    parameters = {
        "type": "object",
        "properties": {"input": {"type": "string", "description": "The whole input of the tool, as plain text."}},
        "required": ["input"],
        "additionalProperties": False,
    }
    grammar = "Edits.\n\nThe input must match this lark grammar:\nstart: x"
    assert [tool["function"] for tool in request.body["tools"]] == [
        {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True},
        {"name": "patch", "description": grammar, "parameters": parameters},
        {"name": "plain", "parameters": parameters},
    ]
    assert own(request).tools == {"patch": ToolShape("patch", True), "plain": ToolShape("plain", True)}
    assert own(request).untranslated == ()


def test_namespaces_are_flat_and_known_again() -> None:
    inner = [{**FUNCTION, "name": "read"}, {"type": "custom", "name": "exec"}]
    tools = [
        {"type": "namespace", "name": "mcp__fs", "description": "Files.", "tools": inner},
        {"type": "namespace", "name": "functions", "tools": [FUNCTION]},
    ]
    request = read(call(name="read", namespace="mcp__fs"), result(), tools=tools)
    names = ["mcp__fs__read", "mcp__fs__exec", "f"]
    assert [tool["function"]["name"] for tool in request.body["tools"]] == names
    assert own(request).tools == {
        "mcp__fs__read": ToolShape("read", False, "mcp__fs"),
        "mcp__fs__exec": ToolShape("exec", True, "mcp__fs"),
        "f": ToolShape("f", False, "functions"),
    }
    assert request.body["messages"][0]["tool_calls"] == [tool_call(name="mcp__fs__read")]


@pytest.mark.parametrize("namespace", [None, "functions"])
def test_calls_of_the_namespace_functions_may_leave_it_out(namespace: str | None) -> None:
    tools = [{"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}]
    custom = {"type": "custom_tool_call", "call_id": "c1", "name": "exec", "input": "ls", "namespace": namespace}
    request = read(custom, result(kind="custom_tool_call_output"), tools=tools)
    assert request.body["messages"][0]["tool_calls"] == [tool_call("c1", "exec", '{"input":"ls"}')]
    assert own(request).tools == {"exec": ToolShape("exec", True, "functions")}


def test_two_tools_never_have_one_flat_name() -> None:
    def namespace(name: str, *tools: str) -> dict[str, Any]:
        inner = [{"type": "function", "name": tool} for tool in tools]
        return {"type": "namespace", "name": name, "tools": inner}

    tools = [namespace("a__b", "c"), namespace("a", "b__c"), {"type": "function", "name": "a__b__c"}]
    history = [
        call("1", "c", namespace="a__b"),
        call("2", "b__c", namespace="a"),
        call("3", "a__b__c"),
        *(result(str(i)) for i in (1, 2, 3)),
    ]
    request = read(*history, tools=tools)
    names = [tool["function"]["name"] for tool in request.body["tools"]]
    assert (names[0], len(set(names))) == ("a__b__c", 3)
    called = [each["function"]["name"] for each in request.body["messages"][0]["tool_calls"]]
    assert called == names
    shapes = own(request).tools
    assert [(shapes[name].namespace, shapes[name].name) for name in names] == [
        ("a__b", "c"),
        ("a", "b__c"),
        (None, "a__b__c"),
    ]
    # The name that a collision leads to may be taken, too.
    request = read(tools=[*tools[:2], {"type": "function", "name": names[1]}])
    assert len({tool["function"]["name"] for tool in request.body["tools"]}) == 3


def test_names_that_others_do_not_take_are_replaced() -> None:
    long, odd = "x" * 200, "größe.of/it"
    request = read(tools=[{"type": "function", "name": long}, {"type": "function", "name": odd}])
    names = [tool["function"]["name"] for tool in request.body["tools"]]
    assert all(len(name) <= 64 and name.isascii() for name in names)
    assert [own(request).tools[name].name for name in names] == [long, odd]


def test_tools_in_the_input_are_tools() -> None:
    more = {"type": "additional_tools", "role": "developer", "tools": [{**FUNCTION, "name": "g"}]}
    request = read(more, {"role": "user", "content": "Hi"}, tools=[FUNCTION])
    assert [tool["function"]["name"] for tool in request.body["tools"]] == ["f", "g"]
    assert request.body["messages"] == [{"role": "user", "content": "Hi"}]
    assert own(request).untranslated == ()


def test_a_tool_that_is_declared_again_is_the_newest() -> None:
    request = read(tools=[FUNCTION, FUNCTION, {**FUNCTION, "description": "new"}])
    assert [tool["function"].get("description") for tool in request.body["tools"]] == ["new"]
    assert own(request).untranslated == ("tools[1]",)


def test_tools_that_are_loaded_on_demand() -> None:
    deferred = {**FUNCTION, "name": "g", "defer_loading": True}
    request = read(tools=[FUNCTION, deferred])
    assert ([tool["function"]["name"] for tool in request.body["tools"]], own(request).untranslated) == (
        ["f"],
        ("tools[1]",),
    )
    found = {"type": "tool_search_output", "tools": [{"type": "namespace", "name": "n", "tools": [deferred, 5]}, 5]}
    request = read({"role": "user", "content": "Hi"}, found, tools=[FUNCTION, deferred])
    assert [tool["function"]["name"] for tool in request.body["tools"]] == ["f", "g"]


@pytest.mark.parametrize(
    "kind", ["web_search", "web_search_preview", "web_search_2025_08_26", "web_search_preview_2025_03_11"]
)
def test_a_web_search_is_the_providers_to_take(kind: str) -> None:
    request = read(tools=[{"type": kind}, FUNCTION])
    assert (own(request).server_tools, own(request).requires_server_tools) == (
        (ServerTool("web_search", "tools[0]"),),
        False,
    )


@pytest.mark.parametrize("kind", ["image_generation", "local_shell", "mcp", "computer", "tool_search", "new_one"])
def test_other_tools_of_a_provider_are_named(kind: str) -> None:
    request = read(tools=[{"type": kind, "server_url": "https://example.com"}])
    assert (own(request).untranslated, "tools" in request.body) == (("tools[0]",), False)


NAMESPACED = {"type": "namespace", "name": "n", "tools": [{**FUNCTION, "name": "g"}]}


@pytest.mark.parametrize(
    ("choice", "expected", "named"),
    [
        ("auto", ToolChoice("auto"), ()),
        ("none", ToolChoice("none"), ()),
        ("required", ToolChoice("required"), ()),
        ({"type": "function", "name": "f"}, ToolChoice("function", "f"), ()),
        ({"type": "function", "name": "g", "namespace": "n"}, ToolChoice("function", "n__g"), ()),
        ({"type": "function", "name": "other"}, None, ("tool_choice",)),
        ({"type": "web_search"}, None, ("tool_choice",)),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
            ToolChoice("required", None, ("f",)),
            (),
        ),
        (
            {"type": "allowed_tools", "tools": [{"type": "mcp"}, {"type": "function", "name": "f"}]},
            ToolChoice("auto", None, ("f",)),
            ("tool_choice.tools[0]",),
        ),
        (
            {"type": "allowed_tools", "tools": [{"type": "mcp"}]},
            None,
            ("tool_choice.tools[0]", "tool_choice"),
        ),
    ],
)
def test_the_choice_among_them(choice: Any, expected: ToolChoice | None, named: tuple[str, ...]) -> None:
    request = read(tools=[FUNCTION, NAMESPACED], tool_choice=choice)
    assert (request.tool_choice, own(request).untranslated) == (expected, named)


def test_a_choice_among_none_is_left_out() -> None:
    assert read(tool_choice="required").tool_choice is None
    assert read(tool_choice="auto", tools=[{"type": "web_search"}]).tool_choice is None


# The body as it goes on.


def test_a_body_is_passed_on_in_order_and_not_stored() -> None:
    document = {
        "store": True,
        "unheard_of": [1],
        "input": [said("a"), {"type": "something_new"}],
        "model": "m",
        "include": ["x"],
        "tools": [{"type": "web_search"}, FUNCTION],
        "text": {"verbosity": "low"},
    }
    native = own(RESPONSES.parse(document, {}))
    assert (native.wire, native.dropped, native.headers) == ("openai_responses", (), ())
    expected = {**document, "store": False, "include": ["x", "reasoning.encrypted_content"]}
    assert jsonio.encode(native.body) == jsonio.encode(expected)


def test_reasoning_that_the_provider_cannot_read_is_taken_out() -> None:
    ours, bare, theirs = thought("a", carry("m", [])), thought("b"), thought("c", SEALED)
    native = own(read(ours, said("x"), bare, theirs, said("y")))
    assert (native.body["input"], native.dropped) == ([said("x"), theirs, said("y")], ("input[0]", "input[2]"))


def test_what_costs_more_or_asks_others_is_left_out() -> None:
    native = own(read(tools=[{"type": "image_generation", "model": "big"}, FUNCTION], service_tier="golden"))
    assert (native.dropped, native.body["tools"]) == (("service_tier", "tools[0]"), [FUNCTION])
    assert "service_tier" not in native.body
    assert own(read(service_tier="priority")).body["service_tier"] == "priority"


@pytest.mark.parametrize(
    ("tool", "path"),
    [
        ({"type": "file_search", "vector_store_ids": ["vs_1"]}, "vector_store_ids"),
        ({"type": "code_interpreter", "container": "cntr_1"}, "container"),
        ({"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file_1"]}}, "container.file_ids"),
        ({"type": "shell", "environment": {"container_id": "cntr_1"}}, "environment.container_id"),
    ],
)
def test_things_of_the_account_are_refused(tool: dict[str, Any], path: str) -> None:
    assert refused(tools=[tool]) == ("invalid_value", f"tools[0].{path}")
    more = {"type": "additional_tools", "tools": [tool]}
    assert refused({"role": "user", "content": "Hi"}, more) == ("invalid_value", f"input[1].tools[0].{path}")


# Whatever a caller sends.

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
ITEM_MEMBERS: tuple[str, ...] = (
    "type",
    "role",
    "content",
    "call_id",
    "name",
    "namespace",
    "arguments",
    "input",
    "output",
    "summary",
)
ITEM_MEMBERS += ("encrypted_content", "tools", "id", "text", "image_url", "file_data", "input_audio")
KINDS = st.sampled_from(
    [
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "additional_tools",
        "tool_search_output",
        "item_reference",
        "input_text",
        "input_image",
        "input_audio",
        "input_file",
        "namespace",
    ]
)
ITEM = st.dictionaries(
    st.sampled_from(ITEM_MEMBERS),
    JSON | KINDS | st.lists(st.fixed_dictionaries({"type": KINDS}), max_size=2),
    max_size=5,
)


def read_or_refused(document: dict[str, Any]) -> CallerError | None:
    try:
        request = RESPONSES.parse(document, {})
    except CallerError as error:
        return error
    assert request.messages
    assert jsonio.encode(own(request).body)
    return None


@given(st.dictionaries(st.sampled_from(sorted(KNOWN_MEMBERS)), JSON, max_size=3), st.lists(ITEM, max_size=3))
def test_a_body_is_read_or_refused_with_a_path(members: dict[str, Any], items: list[Any]) -> None:
    for document in ({"model": "m", "input": "Hi", **members}, {"model": "m", "input": items}):
        error = read_or_refused(document)
        if error is not None:
            assert error.spec.status == 400
            assert not (error.param or "").startswith(("messages", "response_format", "tools[0].function"))


@pytest.mark.parametrize(
    "items",
    [
        [{"role": "user", "content": "x"}] * 4_096,
        [{"role": "user", "content": "x"}] * 16_384,
        [call(str(i)) for i in range(4_000)],
        [result(str(i)) for i in range(4_000)],
        [call("same")] * 4_000 + [result("same")] * 4_000,
        [thought("x", carry("m", [{"type": "reasoning.text", "text": "y"}]))] * 4_000 + [said("a")],
        [{"type": "additional_tools", "tools": [{**FUNCTION, "name": f"f{i}"}]} for i in range(4_000)],
    ],
    ids=["messages", "too_many", "calls", "results", "same_id", "envelopes", "tools"],
)
def test_very_many_items_are_read_or_refused(items: list[Any]) -> None:
    error = read_or_refused({"model": "m", "input": [{"role": "user", "content": "Hi"}, *items]})
    assert error is None or (error.code, error.param) == ("invalid_value", "input")
