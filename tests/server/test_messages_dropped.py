"""What a translation of a Messages request leaves out is named: in the record, and in a header of the answer."""

from typing import Any

from support.answers import openai_stream
from support.gateway import gateway_to
from support.messages import ask
from support.script import stream


async def test_what_is_left_out_is_in_the_record_and_in_a_header() -> None:
    async with gateway_to(stream(openai_stream())) as (gate, _):
        mark = {"type": "ephemeral"}
        system = [{"type": "text", "text": text, "cache_control": mark} for text in ("Be brief.", "Be kind.")]
        reply = await ask(gate, system=system, context_management={"edits": [{}]}, thinking={"type": "adaptive"})
        (record,) = await gate.settled()
        assert record.dropped == ("context_management", "cache_control")
        assert reply.header("x-streamweir-dropped") == "context_management, cache_control"


async def test_the_header_is_short_for_any_member_names() -> None:
    async with gateway_to(stream(openai_stream())) as (gate, _):
        members: dict[str, Any] = {f"{number}\r\nx: y" + "n" * 5000: 1 for number in range(100)}
        reply = await ask(gate, **members)
        assert reply.status == 200
        assert len(str(reply.header("x-streamweir-dropped"))) < 2000
        assert reply.header("x") is None
        await gate.settled()


async def test_what_the_provider_leaves_out_has_the_callers_names() -> None:
    tools = [{"name": "f"}, {"type": "web_search_20250305", "name": "web_search"}]
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    calls = [{"type": "tool_use", "id": id, "name": "f", "input": {}} for id in "ab"]
    results = [{"type": "tool_result", "tool_use_id": id, "content": "no", "is_error": True} for id in "ab"]
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [thinking, *calls]},
        {"role": "user", "content": results},
    ]
    async with gateway_to(stream(openai_stream())) as (gate, _):
        reply = await ask(gate, system="Be brief.", tools=tools, messages=messages)
        expected = "tools[1], messages[].content[].thinking, messages[].content[].is_error"
        assert reply.header("x-streamweir-dropped") == expected
        await gate.settled()
