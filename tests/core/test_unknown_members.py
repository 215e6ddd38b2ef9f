"""Members without a field in the typed view are named; empty ones are not."""

from typing import Any

import pytest

from streamweir.core.request import read_request
from streamweir.core.unknown_members import unknown_paths

HELLO: dict[str, Any] = {"role": "user", "content": "hello"}
CALL: dict[str, Any] = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def paths_of(**members: Any) -> list[str]:
    return unknown_paths(read_request({"model": "m", "messages": [HELLO], **members}))


def test_all_that_is_read_is_not_named() -> None:
    mark = {"type": "ephemeral"}
    content = [
        {"type": "text", "text": "t", "cache_control": mark},
        {"type": "image_url", "image_url": {"url": "https://x.test/a", "detail": "low"}, "cache_control": mark},
        {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
        {"type": "file", "file": {"file_data": "AA", "file_id": "f", "filename": "a.pdf"}},
        {"type": "refusal", "refusal": "no"},
        {"type": "hologram", "voxels": [1]},  # left out whole
    ]
    messages = [
        {"role": "user", "content": content, "name": "ann", "cache_control": mark},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{**CALL, "index": 0}, {"id": "d", "type": "custom", "custom": {"name": "g", "input": "x"}}],
            "reasoning": "r",
            "reasoning_content": "r",
            "reasoning_details": [{"type": "reasoning.text", "text": "r"}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "x", "is_error": True},
    ]
    function = {"name": "f", "description": "d", "parameters": {}, "strict": True}
    assert (
        paths_of(
            messages=messages,
            tools=[{"type": "function", "function": function, "cache_control": mark}, {"type": "web_search", "max": 1}],
            tool_choice="auto",
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": {}, "strict": True, "description": "d"},
            },
            reasoning={"effort": "low", "max_tokens": 1, "enabled": True, "exclude": True, "summary": "auto"},
            stream=True,
            stream_options={"include_usage": True, "include_obfuscation": False},
        )
        == []
    )


UNREAD: list[tuple[dict[str, Any], list[str]]] = [
    ({"messages": [{**HELLO, "extra": 1, "empty": [], "null": None, "false": False}]}, ["messages[0].extra"]),
    ({"messages": [HELLO, {"role": "assistant", "audio": {"id": "a"}}]}, ["messages[1].audio"]),
    ({"messages": [{**HELLO, "reasoning_member": "x"}]}, ["messages[0].reasoning_member"]),
    (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "t", "citations": True}]}]},
        ["messages[0].content[0].citations"],
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u", "format": "x"}}]}]},
        ["messages[0].content[0].image_url.format"],
    ),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{**CALL, "extra_content": {"google": {}}}]}]},
        ["messages[0].tool_calls[0].extra_content"],
    ),
    (
        {
            "messages": [
                {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "parsed": {"a": 1}}}]}
            ]
        },
        ["messages[0].tool_calls[0].function.parsed"],
    ),
    (
        {"tools": [{"type": "function", "function": {"name": "f", "examples": [1]}, "defer": True}]},
        ["tools[0].defer", "tools[0].function.examples"],
    ),
    ({"functions": [{"name": "f", "examples": [1]}]}, ["functions[0].examples"]),
    (
        {
            "functions": [{"name": "f"}],
            "function_call": "auto",
            "tools": [{"type": "function", "function": {"name": "g"}}],
            "tool_choice": "none",
        },
        ["functions", "function_call"],
    ),
    ({"function_call": "none"}, []),
    ({"response_format": {"type": "json_object", "schema": {"a": 1}}}, ["response_format.schema"]),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "examples": [1]}}},
        ["response_format.json_schema.examples"],
    ),
    ({"reasoning": {"effort": "low", "style": "terse"}}, ["reasoning.style"]),
    ({"stream": True, "stream_options": {"include_obfuscation": True}}, ["stream_options.include_obfuscation"]),
]


@pytest.mark.parametrize(("members", "paths"), UNREAD, ids=lambda value: str(value)[:60])
def test_what_is_not_read_is_named(members: dict[str, Any], paths: list[str]) -> None:
    assert paths_of(**members) == paths
