"""How many searches of the web a request allows its provider, in each API."""

from typing import Any

import pytest

from streamweir.core.request import read_request
from streamweir.frontends.messages.frontend import MESSAGES
from streamweir.frontends.responses.frontend import RESPONSES
from streamweir.pipeline.search_bound import SEARCHES, searches_of, searches_unasked

ASK = {"role": "user", "content": "hi"}
FUNCTION = {"type": "function", "function": {"name": "web_search", "parameters": {}}}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, 0),
        ({"tools": [FUNCTION]}, 0),
        ({"web_search_options": None, "enable_search": False, "plugins": []}, 0),
        ({"web_search_options": {}}, SEARCHES),
        ({"enable_search": True}, SEARCHES),
        ({"plugins": [{"id": "web"}]}, SEARCHES),
        ({"search_parameters": {"mode": "auto"}}, SEARCHES),
        ({"tools": [FUNCTION, {"type": "web_search", "max_uses": 1}]}, SEARCHES),
        ({"tools": [{"type": "openrouter:web_search"}]}, SEARCHES),
    ],
    ids=str,
)
def test_chat_completions(members: dict[str, Any], expected: int) -> None:
    assert searches_of(read_request({"model": "m", "messages": [ASK], **members})) == expected


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        ([], 0),
        ([{"name": "web_search", "input_schema": {"type": "object"}}], 0),
        ([SEARCH], SEARCHES),
        ([{**SEARCH, "max_uses": 3}], 3),
        ([{**SEARCH, "max_uses": 5000}], 1000),
        ([{**SEARCH, "max_uses": True}], SEARCHES),
        ([{**SEARCH, "max_uses": 0}], SEARCHES),
    ],
    ids=str,
)
def test_messages(tools: list[dict[str, Any]], expected: int) -> None:
    body = {"model": "m", "max_tokens": 9, "messages": [ASK], "tools": tools}
    assert searches_of(MESSAGES.parse(body, {})) == expected


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, 0),
        ({"max_tool_calls": 4}, 0),
        ({"tools": [{"type": "web_search"}]}, SEARCHES),
        ({"tools": [{"type": "web_search_preview"}], "max_tool_calls": 4}, 4),
    ],
    ids=str,
)
def test_responses(members: dict[str, Any], expected: int) -> None:
    assert searches_of(RESPONSES.parse({"model": "m", "input": "hi", **members}, {})) == expected


def test_models_that_search_unasked() -> None:
    assert searches_unasked(["openai/gpt-5", "anthropic/claude-opus-5"]) == 0
    assert searches_unasked([]) == 0
    for model in ("perplexity/sonar-pro", "openai/gpt-5-search-api", "openrouter/openai/gpt-5:online"):
        assert searches_unasked(["openai/gpt-5", model]) == SEARCHES
