"""Upstreams that bill on when their caller has left: read to the end for the exact usage, within bounds (C3, C33).

Bounded in time (`abandoned_s`), in size (`response_bytes`) and in number (`limits.abandoned`); what
exceeds a bound is aborted, and its usage estimated. Which upstream bills on is a fact of the provider
(Google's do) or the operator's word (`cancel_stops_billing`).
"""

import asyncio

import pytest

from streamweir.core.errors import GatewayFault
from streamweir.core.verdict import Verdict
from streamweir.pipeline.settlement import UsageSource
from streamweir.server.telemetry.record import RequestRecord
from support.answers import TEXTS, USAGE, gemini_frames, openai_frames, openai_whole
from support.gateway import Gate, chat_request, gateway_to, until
from support.script import End, Flood, Head, Send, Step, Wait

BILLS_ON = "cancel_stops_billing = false"
BODY = openai_whole()


def counted(record: RequestRecord) -> tuple[int, int]:
    assert record.usage is not None
    return record.usage.prompt_tokens, record.usage.completion_tokens


def assert_drained(record: RequestRecord, *, status: int = 200) -> None:
    assert (record.verdict, record.status) == (Verdict.CLIENT_GONE, status)
    assert (counted(record), record.usage_source) == (USAGE, UsageSource.PROVIDER)


def assert_estimated(record: RequestRecord) -> None:
    assert (record.verdict, record.usage_source) == (Verdict.CLIENT_GONE, UsageSource.ESTIMATE)


def slowly(go_on: asyncio.Event, kind: str = "openai") -> list[Step]:
    """Two texts, and the rest when the test says so."""
    frames, texts = (gemini_frames(), 2) if kind == "gemini" else (openai_frames(), 3)
    return [Head(), Send(b"".join(frames[:texts])), Wait(go_on), Send(b"".join(frames[texts:])), End()]


async def leave_in_the_midst(gate: Gate, dialect: str = "openai") -> None:
    async with await gate.connect() as client:
        await client.send(chat_request(path=f"/{dialect}/v1/chat/completions", model="up/m", stream=True))
        await client.read_until(TEXTS[1].encode())


@pytest.mark.parametrize("dialect", ["openai", "opentoken", "aivene", "bitseek"])
@pytest.mark.parametrize(("kind", "provider"), [("gemini", ""), ("openai", BILLS_ON), ("mistral", "")])
async def test_an_upstream_that_bills_on_is_read_to_its_end(kind: str, provider: str, dialect: str) -> None:
    go_on = asyncio.Event()
    async with gateway_to(slowly(go_on, kind), kind=kind, provider=provider) as (gate, up):
        await leave_in_the_midst(gate, dialect)
        await until(lambda: gate.gateway.abandoned == 1)
        assert gate.records == []
        go_on.set()
        assert_drained(*await gate.settled())
        assert up.aborts == []
        assert up.served == 1


async def test_nothing_is_read_on_where_an_abort_ends_the_bill() -> None:
    async with gateway_to(slowly(asyncio.Event()), provider="cancel_stops_billing = true") as (gate, up):
        await leave_in_the_midst(gate)
        await up.aborted(1)
        assert_estimated(*await gate.settled())


async def test_the_connection_of_a_drained_upstream_is_used_again() -> None:
    go_on = asyncio.Event()
    async with gateway_to(slowly(go_on), provider=BILLS_ON) as (gate, up):
        await leave_in_the_midst(gate)
        await until(lambda: gate.gateway.abandoned == 1)
        go_on.set()
        await gate.settled()
        assert (await gate.ask(model="up/m", stream=True)).status == 200
        await gate.settled(2)
        assert [request.connection for request in up.requests] == [0, 0]


async def test_a_drain_ends_with_its_time() -> None:
    bounds = "[server.timeouts]\nabandoned_s = 0.05"
    async with gateway_to(slowly(asyncio.Event()), bounds, provider=BILLS_ON) as (gate, up):
        await leave_in_the_midst(gate)
        await up.aborted(1)
        (record,) = await gate.settled()
        assert_estimated(record)
        assert counted(record) == (3, 3)
        assert gate.gateway.abandoned == 0


async def test_a_drain_ends_with_its_time_though_bytes_keep_coming() -> None:
    bounds = "[server.timeouts]\nabandoned_s = 0.05"
    frame = openai_frames()[1]
    script: list[Step] = [Head(), Send(b"".join(openai_frames()[:3])), Flood(frame)]
    async with gateway_to(script, bounds, provider=BILLS_ON) as (gate, up):
        await leave_in_the_midst(gate)
        await up.aborted(1)
        assert_estimated(*await gate.settled())


async def test_a_drain_ends_with_its_size() -> None:
    bounds = "[server.limits]\nresponse_bytes = 65536"
    text = openai_frames(["x" * 4096])[1]
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(b"".join(openai_frames()[:3])), Wait(go_on), Flood(text)]
    async with gateway_to(script, bounds, provider=BILLS_ON) as (gate, up):
        await leave_in_the_midst(gate)
        await until(lambda: gate.gateway.abandoned == 1)
        go_on.set()
        await up.aborted(1)
        (record,) = await gate.settled()
        assert_estimated(record)
        assert record.error == "response_too_large"


async def test_one_drain_more_than_the_limit_is_an_abort() -> None:
    go_on = asyncio.Event()
    async with gateway_to(slowly(go_on), "[server.limits]\nabandoned = 2", provider=BILLS_ON) as (gate, up):
        for number in (1, 2):
            await leave_in_the_midst(gate)
            await until(lambda number=number: gate.gateway.abandoned == number)  # type: ignore[misc]
        await leave_in_the_midst(gate)
        await up.aborted(1)
        assert_estimated(*await gate.settled())
        assert gate.gateway.abandoned == 2
        go_on.set()
        _, *drained = await gate.settled(3)
        for record in drained:
            assert_drained(record)
        assert len(up.aborts) == 1
        go_on.clear()
        await leave_in_the_midst(gate)  # the places are free again
        await until(lambda: gate.gateway.abandoned == 1)
        go_on.set()
        assert_drained((await gate.settled(4))[-1])


async def test_without_drain_slots_every_disconnect_is_an_abort() -> None:
    async with gateway_to(slowly(asyncio.Event()), "[server.limits]\nabandoned = 0", provider=BILLS_ON) as (gate, up):
        await leave_in_the_midst(gate)
        await up.aborted(1)
        assert_estimated(*await gate.settled())


@pytest.mark.parametrize("leaves", [True, False], ids=["leaves", "stays"])
async def test_a_caller_that_stopped_reading_does_not_hold_up_the_drain(leaves: bool) -> None:
    text = openai_frames(["x" * 4096])[1]
    end = b"".join(openai_frames()[-3:])
    script: list[Step] = [Head(), Send(openai_frames()[0]), Flood(text, 2500), Send(end), End()]
    patience = "" if leaves else "[server.timeouts]\nwrite_stall_s = 0.1"
    async with gateway_to(script, patience, provider=BILLS_ON, send_buffer=65536) as (gate, up):
        async with await gate.connect(receive_buffer=4096) as client:
            await client.send(chat_request(model="up/m", stream=True))
            await up.stalled()
            if leaves:
                client.reset()
            assert_drained(*await gate.settled())
        assert up.aborts == []


@pytest.mark.parametrize("is_begun", [False, True], ids=["silent", "half of it"])
async def test_a_whole_answer_is_read_to_its_end(is_begun: bool) -> None:
    go_on = asyncio.Event()
    head = Head(200, "application/json", framing=len(BODY))
    script: list[Step] = [Wait(go_on), head, Send(BODY), End()]
    if is_begun:
        script = [head, Send(BODY[:30]), Wait(go_on), Send(BODY[30:]), End()]
    async with gateway_to(script, provider=BILLS_ON) as (gate, up):
        async with await gate.connect() as client:
            await client.send(chat_request(model="up/m"))
            await up.seen(1)
        await until(lambda: gate.gateway.abandoned == 1)
        go_on.set()
        assert_drained(*await gate.settled(), status=499)
        assert up.aborts == []


async def test_a_drain_is_ended_with_the_streams() -> None:
    async with gateway_to(slowly(asyncio.Event()), provider=BILLS_ON) as (gate, up):
        await leave_in_the_midst(gate)
        await until(lambda: gate.gateway.abandoned == 1)
        gate.gateway.end_streams(GatewayFault("server_shutting_down", "The gateway is shutting down."))
        await up.aborted(1)
        assert_estimated(*await gate.settled())
