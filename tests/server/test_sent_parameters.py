"""What is recorded of a request that was sent: its parameters in each API, and never a text of it."""

import json
from typing import Any

import pytest

from streamweir.core.errors import CallerError
from streamweir.frontends.table import FRONTENDS
from streamweir.server.request.sent_parameters import MAX_TOOL_LENGTH, MAX_TOOLS, model_in, parameters_of, refusal_of

KEY_LIKE = "sk-proj-0123456789abcdef"
SAID = "the canary of a prompt"
MESSAGES = [{"role": "system", "content": SAID}, {"role": "user", "content": SAID}]
FUNCTION = {"name": "get_weather", "description": SAID, "parameters": {"type": "object", "title": SAID}}


def sent(api: str, body: dict[str, Any]) -> dict[str, Any]:
    chat = FRONTENDS.by_name[api].parse({"model": "m", **body}, {})
    text = parameters_of(chat)
    assert SAID not in text
    assert len(text) < 4096
    found: dict[str, Any] = json.loads(text)
    return found


CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("openai", {"messages": MESSAGES}, {"messages": 2}),
    (
        "openai",
        {"messages": MESSAGES, "temperature": 0, "max_completion_tokens": 9, "top_p": 0.5, "n": 2, "seed": 7},
        {"messages": 2, "temperature": 0, "max_tokens": 9, "top_p": 0.5, "n": 2, "seed": 7},
    ),
    (
        "openai",
        {
            "messages": MESSAGES,
            "stop": [SAID, "b"],
            "logit_bias": {"5": 1},
            "reasoning_effort": "low",
            "verbosity": "high",
        },
        {"messages": 2, "stop": 2, "logit_bias": 1, "effort": "low", "verbosity": "high"},
    ),
    ("openai", {"messages": MESSAGES, "seed": 10**30, "reasoning_effort": KEY_LIKE}, {"messages": 2, "effort": "***"}),
    (
        "openai",
        {
            "messages": MESSAGES,
            "tools": [{"type": "function", "function": FUNCTION}, {"type": "custom", "custom": {"name": "c"}}],
            "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
            "parallel_tool_calls": False,
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"title": SAID}}},
        },
        {
            "messages": 2,
            "tools": ["get_weather", "c"],
            "tool_choice": "get_weather",
            "parallel_tool_calls": False,
            "response_format": "json_schema",
        },
    ),
    (
        "messages",
        {
            "messages": MESSAGES[1:],
            "system": SAID,
            "max_tokens": 300,
            "top_k": 5,
            "stop_sequences": [SAID],
            "thinking": {"type": "enabled", "budget_tokens": 200},
            "tools": [{"name": "find", "description": SAID, "input_schema": {"type": "object"}}],
        },
        {"messages": 2, "max_tokens": 300, "top_k": 5, "stop": 1, "reasoning_tokens": 200, "tools": ["find"]},
    ),
    (
        "responses",
        {
            "input": SAID,
            "max_output_tokens": 20,
            "reasoning": {"effort": "high"},
            "tools": [{"type": "function", **FUNCTION}, {"type": "web_search"}],
        },
        {"messages": 1, "max_tokens": 20, "effort": "high", "tools": ["get_weather", "web_search"]},
    ),
    ("embeddings", {"input": [SAID, SAID, SAID], "dimensions": 8}, {"messages": 3, "dimensions": 8}),
    ("completions", {"prompt": [SAID, SAID], "max_tokens": 4}, {"messages": 2, "max_tokens": 4}),
]


@pytest.mark.parametrize(("api", "body", "recorded"), CASES)
def test_the_parameters_are_recorded(api: str, body: dict[str, Any], recorded: dict[str, Any]) -> None:
    assert sent(api, body) == recorded


def test_names_of_tools_are_bounded() -> None:
    names = [f"tool {number} {'x-' * 99}" for number in range(100)]
    tools = [{"type": "function", "function": {"name": name}} for name in [f"key {KEY_LIKE}", *names]]
    found = sent("openai", {"messages": MESSAGES, "tools": tools})
    assert found["tools"][0] == "key ***"
    assert (len(found["tools"]), found["tool_count"]) == (MAX_TOOLS, 101)
    assert max(map(len, found["tools"])) == MAX_TOOL_LENGTH


def test_a_refusal_has_its_message_without_what_it_quotes_at_length() -> None:
    error = CallerError("invalid_value", f"it is {'x' * 41!r}, not 'y', {KEY_LIKE}", param="messages[0].role")
    shown = {"message": "it is '...', not 'y', ***", "param": "messages[0].role"}
    assert json.loads(refusal_of(error, has_content=False)) == shown
    assert "x" * 41 in json.loads(refusal_of(error, has_content=True))["message"]
    assert len(json.loads(refusal_of(CallerError("invalid_value", "a " * 999), has_content=True))["message"]) == 300


@pytest.mark.parametrize(
    ("body", "model"),
    [
        (b'{"model":"m","messages":5}', "m"),
        (b'{"model":""}', None),
        (b'{"model":null}', None),
        (b'{"messages":[{"model":"n"}]}', None),
        (b'{"model":"a\\nb"}', "ab"),
        (b'{"model":"' + b"x" * 300 + b'"}', "x" * 253 + "..."),
        (b'{"model":"m"', None),
        (b"\xff", None),
        (b'{"model":"\xff"}', None),
        (b"", None),
        (b'{"model":"m","x":"' + b" " * 2**20 + b'"}', None),
    ],
)
def test_the_model_of_a_refused_body(body: bytes, model: str | None) -> None:
    assert model_in(body) == model
