"""docs/messages.md says what becomes of a request: every row of its tables is tried."""

import re
from pathlib import Path
from typing import Any

import pytest

from streamweir.core.errors import CallerError
from streamweir.core.request import ChatRequest
from streamweir.frontends.messages.frontend import MESSAGES
from streamweir.frontends.messages.request import _KNOWN as KNOWN_MEMBERS

PAGE = (Path(__file__).parents[3] / "docs" / "messages.md").read_text()
HELLO = {"role": "user", "content": "Say hello."}
LEAST: dict[str, Any] = {"model": "m", "max_tokens": 100, "messages": [HELLO]}
TOOL = {"name": "f", "input_schema": {"type": "object"}}
SCHEMA = {"type": "json_schema", "schema": {"type": "object"}}

MEMBERS: dict[str, dict[str, Any]] = {
    # A request with the member, besides the least that there is.
    "model": {},
    "messages": {},
    "max_tokens": {},
    "system": {"system": "Be brief."},
    "stream": {"stream": True},
    "temperature": {"temperature": 0.5},
    "top_p": {"top_p": 0.5},
    "top_k": {"top_k": 5},
    "stop_sequences": {"stop_sequences": ["END"]},
    "tools": {"tools": [TOOL]},
    "tool_choice": {"tools": [TOOL], "tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
    "thinking": {"thinking": {"type": "enabled", "budget_tokens": 50}},
    "output_config.effort": {"output_config": {"effort": "low"}},
    "output_config.format": {"output_config": {"format": SCHEMA}},
    "output_format": {"output_format": SCHEMA},
    "output_config.task_budget": {"output_config": {"task_budget": {"type": "tokens", "total": 9}}},
    "metadata.user_id": {"metadata": {"user_id": "somebody"}},
    "service_tier": {"service_tier": "standard_only"},
    "cache_control": {"cache_control": {"type": "ephemeral"}},
    "context_management": {"context_management": {"edits": [{}]}},
    "mcp_servers": {"mcp_servers": [{"type": "url"}]},
    "container": {"container": {"skills": [{}]}},
    "fallbacks": {"fallbacks": [{"model": "other"}]},
    "fallback_credit_token": {"fallback_credit_token": "x"},
    "speed": {"speed": "fast"},
    "inference_geo": {"inference_geo": "eu"},
    "any other": {"unheard_of": 1},
}
BLOCKS: dict[str, tuple[str, dict[str, Any]]] = {
    "text": ("user", {"text": "Hi."}),
    "image": ("user", {"source": {"type": "url", "url": "https://example.com/a.png"}}),
    "document": ("user", {"source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}}),
    "search_result": ("user", {"title": "t", "source": "s", "content": [{"type": "text", "text": "x"}]}),
    "tool_use": ("assistant", {"id": "toolu_1", "name": "f", "input": {}}),
    "tool_result": ("user", {"tool_use_id": "toolu_1", "content": "x"}),
    "thinking": ("assistant", {"thinking": "Hm.", "signature": "c2ln"}),
    "redacted_thinking": ("assistant", {"data": "AAAA"}),
    "server_tool_use": ("assistant", {"id": "s", "name": "web_search", "input": {}}),
    "web_search_tool_result": ("assistant", {"tool_use_id": "s", "content": []}),
    "mcp_tool_use": ("assistant", {"id": "s", "name": "x", "input": {}}),
    "any other": ("user", {}),
}


def table(name: str) -> dict[str, list[str]]:
    """By the first cell."""
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- end -->", PAGE, re.DOTALL)
    assert found is not None
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in found[1].splitlines()[2:]]
    return {row[0].strip("`"): row[1:] for row in rows}


def parse(**members: Any) -> ChatRequest:
    return MESSAGES.parse({**LEAST, **members}, {})


def names_in(paths: tuple[str, ...]) -> set[str]:
    return {path.partition("[")[0] for path in paths}


def test_every_member_that_is_read_has_a_row() -> None:
    listed = table("members").keys()
    assert listed == MEMBERS.keys()
    assert {name.partition(".")[0] for name in listed} >= KNOWN_MEMBERS
    assert table("blocks").keys() == BLOCKS.keys()


@pytest.mark.parametrize("member", MEMBERS)
def test_a_member(member: str) -> None:
    translated, passed = table("members")[member]
    request, native_body = parse(**MEMBERS[member]), {**LEAST, **MEMBERS[member]}
    native = request.native
    assert native is not None
    name = "unheard_of" if member == "any other" else member
    assert (name in native.untranslated) == translated.startswith("dropped")
    for path in re.findall(r"(?:mapped|and `\w+`) to `([\w.]+)`", translated):
        value: Any = request.body
        for step in path.split("."):
            value = value[step]
        assert value not in (None, [], {})
    assert translated.split()[0].strip(",;") in ("carried", "mapped", "dropped")
    assert (name in names_in(native.dropped)) == passed.startswith("dropped")
    assert native.body == {key: value for key, value in native_body.items() if key not in native.dropped}


@pytest.mark.parametrize("kind", BLOCKS)
def test_a_block(kind: str) -> None:
    (translated,) = table("blocks")[kind]
    role, members = BLOCKS[kind]
    block = {"type": "unheard_of" if kind == "any other" else kind, **members}
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
    before = [{"role": "assistant", "content": [call]}] if kind == "tool_result" else []
    request = parse(messages=[HELLO, *before, {"role": role, "content": [block]}])
    assert request.native is not None
    assert bool(request.native.untranslated) == translated.startswith("dropped")
    if kind == "tool_result":
        assert request.body["messages"][-1]["role"] == "tool"
    for name in re.findall(r"`(reasoning_\w+)`", translated):
        assert request.body["messages"][-1][name]


@pytest.mark.parametrize("kind", ["image", "document"])
def test_files_of_the_provider_are_refused(kind: str) -> None:
    assert "refused with the source `file`" in table("blocks")[kind][0]
    with pytest.raises(CallerError):
        parse(messages=[{"role": "user", "content": [{"type": kind, "source": {"type": "file", "file_id": "f"}}]}])


def test_a_container_with_an_id_is_refused() -> None:
    assert all("refused with an id" in cell for cell in table("members")["container"])
    for container in ("container_1", {"id": "container_1"}):
        with pytest.raises(CallerError):
            parse(container=container)


def test_a_tool_that_names_a_model_is_not_passed() -> None:
    assert "a tool with a member `model` is dropped" in table("members")["tools"][1]
    native = parse(tools=[TOOL, {"type": "advisor_20260301", "name": "advisor", "model": "other"}]).native
    assert native is not None
    assert (native.dropped, native.body["tools"]) == (("tools[1]",), [TOOL])
