"""`x-request-timeout`: a caller bounds the whole of its request, within what the operator allows."""

from typing import Any

import pytest

from streamweir.core.errors import CallerError
from streamweir.frontends.table import FRONTENDS
from streamweir.policy.routing.health import TargetId
from streamweir.server.relay.deadlines import AttemptTimeouts
from streamweir.server.request.attempt.attempt_setup import timeouts_of
from streamweir.server.request.request_headers import read_timeout
from streamweir.server.request.runtime.config import build_runtime_config
from streamweir.upstream.sim import SimUpstream
from support.answers import error_body, openai_stream, openai_whole
from support.gateway import MESSAGES, Gate, chat_request, configured, gateway, providers
from support.outcome import ALIAS, assert_broken, assert_completed, assert_refused, serving
from support.raw_client import Reply
from support.script import Hang, Head, Seen, Send, Step, stream, whole
from support.scripted_upstream import ScriptedUpstream
from support.wire_samples import BEGUN, OPENAI

CODE = "stream_deadline_exceeded"
SOON = "0.05"
"""For an upstream that hangs: nothing must happen within it."""


async def ask(gate: Gate, timeout: str, **members: Any) -> Reply:
    async with await gate.connect() as client:
        await client.send(chat_request(headers=(("X-Request-Timeout", timeout),), **members))
        return await client.response()


@pytest.mark.parametrize("sent", ["", "0", "0.0", "-1", "abc", "30s", "1e3", "inf", "nan", "1,5", "1.", "9" * 10])
def test_what_is_no_number_of_seconds_is_refused(sent: str) -> None:
    with pytest.raises(CallerError) as refused:
        read_timeout({"x-request-timeout": sent})
    assert refused.value.code == "invalid_value"
    assert "x-request-timeout must be a number of seconds above 0" in refused.value.message


def test_numbers_of_seconds_are_read() -> None:
    assert [read_timeout({"x-request-timeout": sent}) for sent in ("30", "2.5", "0.001")] == [30.0, 2.5, 0.001]
    assert read_timeout({}) is None
    assert read_timeout({"x-stainless-timeout": "600"}) is None, "an SDK's own timeout is not that of the request"


@pytest.mark.parametrize(
    ("allowed", "sent", "total_s", "is_callers"),
    [
        (None, None, 300.0, False),
        (None, 20.0, 20.0, True),
        (None, 900.0, 300.0, False),
        (1000.0, None, 300.0, False),
        (1000.0, 900.0, 900.0, True),
        (1000.0, 5000.0, 1000.0, False),
        (100.0, 200.0, 100.0, False),
    ],
)
def test_a_callers_timeout_is_bounded_by_the_operator(
    allowed: float | None, sent: float | None, total_s: float, is_callers: bool
) -> None:
    server = "[server.timeouts]\n" + (f"max_request_s = {allowed}\n" if allowed is not None else "")
    toml = f'{server}[[providers]]\nname = "up"\nkind = "openai"\ntotal_s = 300\n'
    made = build_runtime_config(configured(toml), lambda _: SimUpstream())
    chat = FRONTENDS.by_name["openai"].parse({"model": "up/m", "messages": MESSAGES}, {})
    timeouts: AttemptTimeouts = timeouts_of(
        made,
        chat,
        TargetId("up", "m"),
        FRONTENDS.by_name["openai"],
        1000.0,
        is_last=True,
        has_events=False,
        request_s=sent,
    )
    assert (timeouts.total_at, timeouts.is_callers, timeouts.first_event_s) == (1000.0 + total_s, is_callers, total_s)


async def test_an_invalid_timeout_is_refused_before_a_target_is_asked() -> None:
    async with serving(whole(openai_whole())) as (gate, up):
        message = assert_refused(await ask(gate, "soon", model="up/m"), "invalid_value")
        assert "above 0" in message
        await gate.settled()
        assert not up.requests


@pytest.mark.parametrize("is_streamed", [True, False], ids=["stream", "whole"])
async def test_a_callers_timeout_ends_a_request_and_is_no_failure_of_the_target(is_streamed: bool) -> None:
    """Neither is another target tried: the time is over for all of them."""

    def script(request: Seen) -> list[Step]:
        answer = stream(openai_stream()) if request.json.get("stream") else whole(openai_whole())
        return [Hang()] if request.number < 2 else answer

    async with ScriptedUpstream(script) as first, ScriptedUpstream([Hang()]) as second:
        toml = providers(first=first.base_url) + "max_failures = 1\n" + providers(second=second.base_url) + ALIAS
        async with gateway(toml) as gate:
            for count in (1, 2):
                message = assert_refused(await ask(gate, SOON, model="either", stream=is_streamed), CODE)
                assert "x-request-timeout" in message
                record = (await gate.settled(count))[-1]
                assert (record.verdict, record.error, record.status) == ("deadline", CODE, 504)
                assert [attempt.error for attempt in record.attempts] == [CODE]
            reply = await ask(gate, "86400", model="either", stream=is_streamed)
            assert reply.status == 200
            await gate.settled(3)
            assert not second.requests
        await first.vacated()


async def test_a_callers_timeout_ends_a_stream_with_an_error_frame() -> None:
    async with serving([Head(), Send(OPENAI.begun), Hang()]) as (gate, _):
        # Long enough to begin on any machine would be too long to wait for: either way it ends with this error.
        reply = await ask(gate, "0.5", model="up/m", stream=True)
        if reply.status == 200:
            assert_broken(reply, CODE, text=BEGUN)
        else:
            assert_refused(reply, CODE)
        await gate.settled()


async def test_a_callers_timeout_bounds_all_attempts_together() -> None:
    """The pause before a repeat would end after it: the error that the target gave is the answer."""
    refused = whole(error_body("Slow down."), 429, [("retry-after", "2")])
    async with serving(refused) as (gate, up):
        reply = await ask(gate, "1.5", model="up/m")
        assert reply.status in (429, 504), "on a very slow machine the time is over before the refusal"
        await gate.settled()
        assert len(up.requests) == 1
        assert len(gate.records[0].attempts) == 1


async def test_a_long_timeout_changes_nothing() -> None:
    async with serving(stream(openai_stream())) as (gate, _):
        assert_completed(await ask(gate, "3600", model="up/m", stream=True))
        await gate.settled()
