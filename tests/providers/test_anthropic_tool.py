"""Tools for Anthropic: calls and results in the conversation, definitions, the choice, and what needs a beta."""

import json
from typing import Any

import pytest

from support.anthropic_body import USER, build, sent


def messages_of(*messages: dict[str, Any]) -> Any:
    return sent({"messages": list(messages)})["messages"]


def call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_calls_and_their_results() -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}
    assert messages_of(
        USER,
        {
            "role": "assistant",
            "content": "Wait.",
            "tool_calls": [
                call("functions.f:0", "f", '{"a": 1}'),
                call("t2", "g", ""),
                call("t3", "h", '{"cut": "of'),
                call("t4", "i", "[1]"),
                {"id": "t5", "type": "custom", "custom": {"name": "grep", "input": "-r x"}},
            ],
        },
        {"role": "user", "content": "Hurry."},
        {"role": "tool", "tool_call_id": "functions.f:0", "content": "one"},
        {"role": "tool", "tool_call_id": "t2", "content": "", "is_error": True},
        {"role": "tool", "tool_call_id": "t3", "content": [{"type": "text", "text": "three"}, picture]},
        {"role": "tool", "tool_call_id": "t4", "content": [{"type": "text", "text": ""}]},
    )[1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Wait."},
                {"type": "tool_use", "id": "functions_f_0", "name": "f", "input": {"a": 1}},
                {"type": "tool_use", "id": "t2", "name": "g", "input": {}},
                {"type": "tool_use", "id": "t3", "name": "h", "input": {"INVALID_JSON": '{"cut": "of'}},
                {"type": "tool_use", "id": "t4", "name": "i", "input": {"INVALID_JSON": "[1]"}},
                {"type": "tool_use", "id": "t5", "name": "grep", "input": {"input": "-r x"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "functions_f_0", "content": "one"},
                {"type": "tool_result", "tool_use_id": "t2", "is_error": True},
                {
                    "type": "tool_result",
                    "tool_use_id": "t3",
                    "content": [
                        {"type": "text", "text": "three"},
                        {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}},
                    ],
                },
                {"type": "tool_result", "tool_use_id": "t4"},
                {"type": "text", "text": "Hurry."},
            ],
        },
    ]


def test_legacy_functions() -> None:
    body = sent(
        {
            "messages": [
                USER,
                {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a":1}'}},
                {"role": "function", "name": "f", "content": "one"},
            ],
            "functions": [{"name": "f", "description": "Does f.", "parameters": {"properties": {"a": {}}}}],
            "function_call": {"name": "f"},
        }
    )
    assert body == {
        "messages": [
            USER,
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "call_1", "name": "f", "input": {"a": 1}}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "one"}]},
        ],
        "tools": [
            {"name": "f", "description": "Does f.", "input_schema": {"type": "object", "properties": {"a": {}}}},
        ],
        "tool_choice": {"type": "tool", "name": "f"},
    }
    old = build({"functions": [{"name": "f", "strict": True}]}, "claude-opus-4-1")
    assert old.dropped == ("functions[0].strict",)


F = {"type": "function", "function": {"name": "f"}}
G = {"type": "function", "function": {"name": "g", "strict": True, "parameters": {"type": "object"}}}
F_TOOL = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
G_TOOL = {"name": "g", "input_schema": {"type": "object"}, "strict": True}

CHOICES: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
    ({}, None),
    ({"parallel_tool_calls": True}, None),
    ({"tool_choice": "auto"}, {"type": "auto"}),
    ({"tool_choice": "none", "parallel_tool_calls": False}, {"type": "none"}),
    ({"tool_choice": "required"}, {"type": "any"}),
    ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, {"type": "tool", "name": "f"}),
    ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}),
    (
        {"tool_choice": "required", "parallel_tool_calls": False},
        {"type": "any", "disable_parallel_tool_use": True},
    ),
]


@pytest.mark.parametrize(("body", "expected"), CHOICES)
def test_tool_choice(body: dict[str, Any], expected: dict[str, Any] | None) -> None:
    members = sent({"tools": [F, G], **body})
    assert members["tools"] == [F_TOOL, G_TOOL]
    assert members.get("tool_choice") == expected


def test_a_choice_without_tools_is_not_sent() -> None:
    assert sent({"tool_choice": "none", "parallel_tool_calls": False}) == {}


def test_a_choice_among_some_tools_sends_those_alone() -> None:
    allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "g"}}]}
    members = sent({"tools": [F, G], "tool_choice": {"type": "allowed_tools", "allowed_tools": allowed}})
    assert members == {"tools": [G_TOOL], "tool_choice": {"type": "any"}}


def test_a_model_that_cannot_be_forced() -> None:
    request = build({"tools": [F], "tool_choice": "required"}, "claude-opus-5-5")
    assert json.loads(request.body)["tool_choice"] == {"type": "auto"}
    assert request.dropped == ("tool_choice",)


def test_a_model_without_schemas() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    request = build({"tools": [G], "response_format": schema}, "claude-sonnet-4-20250514")
    assert json.loads(request.body)["tools"] == [{"name": "g", "input_schema": {"type": "object"}}]
    assert request.dropped == ("tools[0].function.strict", "response_format")


def test_tools_of_anthropics_own_are_taken_as_they_are() -> None:
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
    code = {"type": "code_execution_20250825", "name": "code_execution"}
    request = build({"tools": [search, code, F]})
    assert json.loads(request.body)["tools"] == [search, code, F_TOOL]
    assert dict(request.headers)["anthropic-beta"] == "code-execution-2025-08-25"


def test_a_tool_that_calls_another_model_is_left_out() -> None:
    advisor = {"type": "advisor_20260301", "name": "advisor", "model": "claude-opus-5"}
    request = build({"tools": [advisor, F]})
    assert json.loads(request.body)["tools"] == [F_TOOL]
    assert request.dropped == ("tools[0]",)


BETAS: list[tuple[dict[str, Any], str]] = [
    ({"mcp_servers": [{"type": "url"}]}, "mcp-client-2025-04-04"),
    (
        {"mcp_servers": [{"type": "url"}], "tools": [{"type": "mcp_toolset", "mcp_server_name": "x"}]},
        "mcp-client-2025-11-20",
    ),
    ({"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}, "context-management-2025-06-27"),
    (
        {"context_management": {"edits": [{"type": "compact_20260112"}, "?"]}},
        "context-management-2025-06-27,compact-2026-01-12",
    ),
    ({"context_management": "?"}, "context-management-2025-06-27"),
    (
        {"container": {"skills": [{"type": "anthropic", "skill_id": "pptx"}]}},
        "code-execution-2025-08-25,skills-2025-10-02",
    ),
    (
        {"thinking": {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}},
        "thinking-binding-controls-2026-08-01",
    ),
    ({"output_config": {"task_budget": {"type": "tokens", "total": 20_000}}}, "task-budgets-2026-03-13"),
]


@pytest.mark.parametrize(("body", "betas"), BETAS)
def test_members_of_anthropics_own_need_their_betas(body: dict[str, Any], betas: str) -> None:
    request = build(body)
    assert dict(request.headers)["anthropic-beta"] == betas
    assert {name: json.loads(request.body)[name] for name in body} == body
    assert request.dropped == ()
