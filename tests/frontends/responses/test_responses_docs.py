"""docs/responses.md says what becomes of a request: every row of its tables is tried."""

import re
from pathlib import Path
from typing import Any

import pytest

from streamweir.core.errors import CallerError
from streamweir.core.request import ChatRequest
from streamweir.frontends.responses.frontend import RESPONSES
from streamweir.frontends.responses.request import _KNOWN as KNOWN_MEMBERS

PAGE = (Path(__file__).parents[3] / "docs" / "responses.md").read_text()
LEAST: dict[str, Any] = {"model": "m", "input": "Say hello."}
TOOL: dict[str, Any] = {"type": "function", "name": "f", "parameters": {"type": "object"}}
SCHEMA = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}

MEMBERS: dict[str, dict[str, Any]] = {
    # A request with the member, besides the least that there is.
    "model": {},
    "input": {},
    "instructions": {"instructions": "Be brief."},
    "stream": {"stream": True},
    "max_output_tokens": {"max_output_tokens": 100},
    "temperature": {"temperature": 0.5},
    "top_p": {"top_p": 0.5},
    "top_logprobs": {"top_logprobs": 2},
    "user": {"user": "u"},
    "safety_identifier": {"safety_identifier": "s"},
    "prompt_cache_key": {"prompt_cache_key": "k"},
    "metadata": {"metadata": {"a": "b"}},
    "service_tier": {"service_tier": "flex"},
    "parallel_tool_calls": {"tools": [TOOL], "parallel_tool_calls": True},
    "tools": {"tools": [TOOL]},
    "tool_choice": {"tools": [TOOL], "tool_choice": "required"},
    "reasoning.effort": {"reasoning": {"effort": "low"}},
    "reasoning.summary": {"reasoning": {"summary": "auto"}},
    "reasoning.context": {"reasoning": {"context": "all_turns"}},
    "text.format": {"text": {"format": SCHEMA}},
    "text.verbosity": {"text": {"verbosity": "low"}},
    "include": {"include": ["message.output_text.logprobs"]},
    "store": {"store": True},
    "truncation": {"truncation": "auto"},
    "background": {"background": False},
    "previous_response_id": {"previous_response_id": "resp_1"},
    "conversation": {"conversation": "conv_1"},
    "prompt": {"prompt": {"id": "pmpt_1"}},
    "max_tool_calls": {"max_tool_calls": 3},
    "stream_options": {"stream_options": {"include_obfuscation": True}},
    "client_metadata": {"client_metadata": {"a": "b"}},
    "context_management": {"context_management": [{"type": "compaction"}]},
    "any other": {"unheard_of": 1},
}
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
ITEMS: dict[str, dict[str, Any]] = {
    "message": {"role": "user", "content": "Hi."},
    "function_call": {"call_id": "c2", "name": "f", "arguments": "{}"},
    "function_call_output": {"call_id": "c1", "output": "x"},
    "custom_tool_call": {"call_id": "c2", "name": "f", "input": "x"},
    "custom_tool_call_output": {"call_id": "c1", "output": "x"},
    "reasoning": {"summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "gAAAA"},
    "additional_tools": {"tools": [TOOL]},
    "item_reference": {"id": "msg_1"},
    "web_search_call": {"id": "ws_1"},
    "mcp_call": {"id": "mcp_1"},
    "image_generation_call": {"id": "ig_1"},
    "compaction": {"encrypted_content": "gAAAA"},
    "any other": {},
}


def table(name: str) -> dict[str, list[str]]:
    """By the first cell."""
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- end -->", PAGE, re.DOTALL)
    assert found is not None
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in found[1].splitlines()[2:]]
    return {row[0].strip("`"): row[1:] for row in rows}


def parse(**members: Any) -> ChatRequest:
    return RESPONSES.parse({**LEAST, **members}, {})


def test_every_member_that_is_read_has_a_row() -> None:
    listed = table("members").keys()
    assert listed == MEMBERS.keys()
    assert {name.partition(".")[0] for name in listed} >= KNOWN_MEMBERS
    assert table("items").keys() == ITEMS.keys()


@pytest.mark.parametrize("member", MEMBERS)
def test_a_member(member: str) -> None:
    translated, passed = table("members")[member]
    first = translated.split()[0].strip(",;")
    assert first in ("carried", "mapped", "dropped", "refused")
    if first == "refused":
        assert passed == "refused"
        with pytest.raises(CallerError) as caught:
            parse(**MEMBERS[member])
        assert (caught.value.spec.status, caught.value.param) == (400, member)
        return
    request = parse(**MEMBERS[member])
    native = request.native
    assert native is not None
    name = "unheard_of" if member == "any other" else member
    assert (name in native.untranslated) == (first == "dropped")
    for path in re.findall(r"mapped to `([\w.]+)`", translated):
        value: Any = request.body
        for step in path.split("."):
            value = value[step]
        assert value not in (None, [], {})
    assert native.dropped == ()
    asked = [*MEMBERS[member].get("include", []), "reasoning.encrypted_content"]
    assert native.body == {**LEAST, **MEMBERS[member], "store": False, "include": asked}


def test_a_background_response_is_refused() -> None:
    assert all("refused if it is true" in cell for cell in table("members")["background"])
    with pytest.raises(CallerError):
        parse(background=True)


@pytest.mark.parametrize("kind", ITEMS)
def test_an_item(kind: str) -> None:
    (translated,) = table("items")[kind]
    item = {"type": "unheard_of" if kind == "any other" else kind, **ITEMS[kind]}
    items = [{"role": "user", "content": "Hi."}, CALL, item, {"role": "assistant", "content": "Yes."}]
    if translated.startswith("refused"):
        with pytest.raises(CallerError) as caught:
            parse(input=items)
        assert caught.value.param == "input[2]"
        return
    request = parse(input=items)
    assert request.native is not None
    assert bool(request.native.untranslated) == translated.startswith("dropped")
    said = [message for message in request.body["messages"] if message["role"] == "assistant"]
    if "a tool message" in translated:
        assert request.body["messages"][2] == {"role": "tool", "tool_call_id": "c1", "content": "x"}
    if "a tool call" in translated:
        assert [call["id"] for call in said[0]["tool_calls"]] == ["c1", "c2"]
    for name in re.findall(r"`(reasoning_\w+)`", translated):
        assert said[0][name]
    if "`tools`" in translated:
        assert len(request.body["tools"]) == 1


def test_an_unknown_tier_and_a_tool_with_a_model_are_not_passed() -> None:
    assert "dropped if it is none of" in table("members")["service_tier"][1]
    assert "with a member `model` is dropped" in table("members")["tools"][1]
    native = parse(service_tier="golden", tools=[TOOL, {"type": "image_generation", "model": "big"}]).native
    assert native is not None
    assert (native.dropped, native.body["tools"]) == (("service_tier", "tools[1]"), [TOOL])
