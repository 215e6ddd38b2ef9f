"""What one request teaches the gateway about a target: only what the caller's own words cannot have caused.

A target that refuses the wire, `stream_options` or a stream is asked once more without it, and later requests are sent
so from the start. The refusal is a text, and a text can quote the request.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from support.answers import error_body, openai_stream, openai_whole, responses_stream
from support.gateway import gateway, providers
from support.script import Seen, Step, stream, whole
from support.scripted_upstream import ScriptedUpstream

KNOWN = {"model", "messages", "stream", "stream_options", "max_tokens"}


def refuses_unknown_members(request: Seen) -> Sequence[Step]:
    """As OpenAI does, and names the member."""
    sent = request.json
    unknown = [name for name in sent if name not in KNOWN]
    unknown += [f"stream_options.{name}" for name in sent.get("stream_options", {}) if name != "include_usage"]
    if request.path.endswith("/responses"):
        return stream(responses_stream())
    if unknown:
        return whole(error_body(f"Unknown parameter: '{unknown[0]}'.", "invalid_request_error"), 400)
    return stream(openai_stream()) if sent.get("stream") else whole(openai_whole())


@pytest.mark.parametrize(
    ("members", "status"),
    [
        ({"stream_options": {"include_usage": True, "made_up": 1}}, 200),
        ({"x stream_options": 1}, 400),
        ({"This is only supported in v1/responses": 1}, 200),
    ],
    ids=["an option of its own", "the name of the option", "the name of the other API"],
)
async def test_no_caller_changes_what_is_sent_for_others(members: dict[str, Any], status: int) -> None:
    async with ScriptedUpstream(refuses_unknown_members) as up, gateway(providers(up=up.base_url)) as gate:
        assert (await gate.ask(model="up/m", stream=True, **members)).status == status
        assert len(up.requests) == 2, "for itself it is tried without"
        assert (await gate.ask(model="up/m", stream=True)).status == 200
        assert up.requests[-1].path.endswith("/chat/completions")
        assert up.requests[-1].json["stream_options"] == {"include_usage": True}
        assert len(up.requests) == 3


@pytest.mark.parametrize(("member", "status"), [("insufficient_quota", 503), ("invalid_api_key", 502)])
async def test_no_caller_makes_a_target_fail_with_words_of_its_own(member: str, status: int) -> None:
    """Five failures in a row would eject it. The words of a provider do."""
    async with ScriptedUpstream(refuses_unknown_members) as up, gateway(providers(up=up.base_url)) as gate:
        members: dict[str, Any] = {member: 1}
        assert [(await gate.ask(model="up/m", **members)).status for _ in range(6)] == [status] * 6
        assert (await gate.ask(model="up/m", stream=True)).status == 200
    low = whole(error_body("Your credit balance is too low.", "invalid_request_error"), 400)
    async with ScriptedUpstream(low) as up, gateway(providers(up=up.base_url)) as gate:
        assert [(await gate.ask(model="up/m")).status for _ in range(6)] == [503] * 6
        assert len(up.requests) == 5, "it is ejected"


async def test_what_a_target_does_refuse_is_learned_when_it_has_answered_without() -> None:
    def refuses_options(request: Seen) -> Sequence[Step]:
        if "stream_options" in request.json:
            return whole(error_body("Unknown parameter: 'stream_options'.", "invalid_request_error"), 400)
        return stream(openai_stream())

    async with ScriptedUpstream(refuses_options) as up, gateway(providers(up=up.base_url)) as gate:
        for _ in range(3):
            assert (await gate.ask(model="up/m", stream=True, stream_options={"include_usage": True})).status == 200
        assert ["stream_options" in each.json for each in up.requests] == [True, False, False, False]
