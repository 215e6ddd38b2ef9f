"""A stream that the gateway cuts: the caller gets an error at once, an upstream that bills is drained (C23, C24)."""

import asyncio
import json
from collections.abc import Sequence

import pytest

from streamweir.core.errors import CallerError, GatewayFault, StreamweirError
from streamweir.core.verdict import Verdict
from streamweir.pipeline.plan import Mode
from streamweir.pipeline.settlement import UsageSource
from streamweir.server.relay.relay import Relay
from support.answers import TEXTS, USAGE, openai_frames, openai_whole
from support.attempt import Run, attempt, texts_of
from support.messages import read_stream, said_in
from support.outcome import BUFFERING, DIALECTS
from support.responses import read_stream as read_response
from support.responses import text_so_far
from support.script import End, Flood, Hang, Head, Send, Step, Wait
from support.wire_samples import VOICES, Voice

BUDGET = CallerError("budget_exceeded", "The budget is spent.")
BEGUN = {"openai": 3, "anthropic": 4, "gemini": 2}
"""How many frames bring the first two texts."""
BODY = openai_whole()

each_voice = pytest.mark.parametrize("voice", VOICES, ids=lambda voice: voice.kind)
each_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def slowly(go_on: asyncio.Event, voice: Voice = VOICES[0]) -> list[Step]:
    """Two texts, and the rest when the test says so."""
    frames, count = voice.frames, BEGUN[voice.kind]
    return [Head(), Send(b"".join(frames[:count])), Wait(go_on), Send(b"".join(frames[count:])), End()]


async def cut(run: Run) -> bytes:
    await run.until(lambda: TEXTS[1].encode() in run.written)
    run.relay.cut(BUDGET)
    assert run.response.over
    return run.body


def assert_told(run: Run, dialect: str = "openai") -> None:
    if dialect == "messages":
        message = read_stream(run.body)
        assert (message["error"]["type"], message["stop_reason"]) == ("billing_error", None)
        assert said_in(message) == "".join(TEXTS[:2])
        return
    if dialect == "responses":
        response = read_response(run.body)
        assert (response["status"], response["error"]["code"]) == ("failed", "insufficient_quota")
        assert text_so_far(run.body) == "".join(TEXTS[:2])
        return
    documents = run.documents
    if dialect != "bitseek":
        assert documents.pop() == "[DONE]"
    error = documents.pop()["error"]
    assert error["message"]
    if dialect == "openai":
        assert (error["type"], error["code"]) == ("insufficient_quota", "budget_exceeded")
    assert texts_of(documents) == "".join(TEXTS[:2])
    assert all(choice["finish_reason"] is None for each in documents for choice in each["choices"])


def assert_booked(run: Run, usage: tuple[int, int], source: UsageSource) -> None:
    settled = run.meter.settle(run.relay.verdict)
    assert (settled.verdict, settled.error) == (Verdict.STOPPED, BUDGET)
    assert (settled.usage.prompt_tokens, settled.usage.completion_tokens, settled.usage_source) == (*usage, source)


@each_voice
@each_dialect
async def test_the_caller_gets_the_error_now_and_the_usage_is_that_of_the_end(voice: Voice, dialect: str) -> None:
    go_on = asyncio.Event()
    async with attempt(slowly(go_on, voice), voice.kind, dialect) as (run, up):
        body = await cut(run)
        assert not run.relay.is_over
        assert run.watch.places == 0
        go_on.set()
        await run.over()
        assert run.body == body
        assert_told(run, dialect)
        assert_booked(run, USAGE, UsageSource.PROVIDER)
        assert run.relay.failure is None
        assert run.relay.bytes_out == len(body)
        assert up.aborts == []


@each_voice
@each_dialect
async def test_an_upstream_that_ends_its_bill_is_aborted(voice: Voice, dialect: str) -> None:
    async with attempt(slowly(asyncio.Event(), voice), voice.kind, dialect, bills_on=False) as (run, up):
        await cut(run)
        await run.over()
        await up.aborted(1)
        assert_told(run, dialect)
        settled = run.meter.settle()
        assert (settled.verdict, settled.error, settled.usage_source) == (
            Verdict.STOPPED,
            BUDGET,
            # Gemini reports with every frame.
            UsageSource.PROVIDER if voice.kind == "gemini" else UsageSource.ESTIMATE,
        )


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("end", [1, 2, 3], ids=["before the word", "before the usage", "before the finish"])
async def test_a_cut_near_the_end_is_an_error_and_no_finish(mode: Mode, end: int) -> None:
    frames, go_on = openai_frames(), asyncio.Event()
    script: list[Step] = [Head(), Send(b"".join(frames[:-end])), Wait(go_on), Send(b"".join(frames[-end:])), End()]
    async with attempt(script, mode=mode) as (run, _):
        await run.until(lambda: TEXTS[-1].encode() in run.written)
        run.relay.cut(BUDGET)
        *before, error, done = run.documents
        assert (error["error"]["code"], done) == ("budget_exceeded", "[DONE]")
        assert texts_of(before) == "".join(TEXTS)
        assert all(choice["finish_reason"] is None for each in before for choice in each["choices"])
        go_on.set()
        await run.over()
        assert_booked(run, USAGE, UsageSource.PROVIDER)


async def test_in_the_middle_of_an_event() -> None:
    body, go_on = b"".join(openai_frames()), asyncio.Event()
    at = len(b"".join(openai_frames()[:3])) + 20
    async with attempt([Head(), Send(body[:at]), Wait(go_on), Send(body[at:]), End()]) as (run, _):
        await cut(run)
        go_on.set()
        await run.over()
        assert_told(run)
        assert_booked(run, USAGE, UsageSource.PROVIDER)


async def test_the_connection_of_a_drained_upstream_is_used_again() -> None:
    go_on = asyncio.Event()
    async with attempt(slowly(go_on)) as (run, up):
        await cut(run)
        go_on.set()
        await run.over()
        await up.played(1)
        assert (up.open_connections, up.aborts) == (1, [])


async def test_a_drain_ends_with_its_time_and_then_what_was_delivered_counts() -> None:
    async with attempt(slowly(asyncio.Event()), abandoned_s=0.02) as (run, up):
        await cut(run)
        await run.over()
        await up.aborted(1)
        assert_booked(run, (3, 3), UsageSource.ESTIMATE)


async def test_a_drain_ends_with_its_size() -> None:
    go_on = asyncio.Event()
    flood = Flood(openai_frames(["x" * 4096])[1])
    script: list[Step] = [Head(), Send(b"".join(openai_frames()[:3])), Wait(go_on), flood]
    async with attempt(script, max_bytes=65536) as (run, up):
        await cut(run)
        go_on.set()
        await run.over()
        await up.aborted(1)
        assert_told(run)
        assert_booked(run, (3, 3), UsageSource.ESTIMATE)
        assert run.relay.memory_bytes < 65536 + 8192, "counted, and not kept"


async def test_without_a_drain_slot_it_is_aborted() -> None:
    async with attempt(slowly(asyncio.Event()), places=0) as (run, up):
        await cut(run)
        await run.over()
        await up.aborted(1)
        assert_booked(run, (3, 3), UsageSource.ESTIMATE)


@pytest.mark.parametrize("how", ["stop", "cut", "leave"])
async def test_events_during_the_drain_do_not_change_accounting(how: str) -> None:
    go_on = asyncio.Event()
    async with attempt(slowly(go_on)) as (run, up):
        body = await cut(run)
        if how == "stop":
            run.relay.stop(GatewayFault("server_shutting_down", "The gateway is shutting down."))
            await up.aborted(1)
        elif how == "cut":
            run.relay.cut(CallerError("key_revoked", "The API key has been revoked."))
        else:
            run.leave()
        go_on.set()
        await run.over()
        assert run.body == body
        assert run.relay.verdict is None
        if how == "stop":
            assert_booked(run, (3, 3), UsageSource.ESTIMATE)
        else:
            assert_booked(run, USAGE, UsageSource.PROVIDER)


async def test_before_anything_was_sent_it_is_a_failure() -> None:
    async with attempt([Head(), Send(openai_frames()[0]), Hang()]) as (run, up):
        await run.until(lambda: run.relay.bytes_in > 0)
        run.relay.cut(BUDGET)
        await run.over()
        await up.aborted(1)
        assert (run.relay.failure, run.written) == (BUDGET, b"")


async def test_after_the_end_it_is_too_late() -> None:
    async with attempt([Head(), Send(b"".join(openai_frames())), End()]) as (run, _):
        await run.over()
        body = run.body
        run.relay.cut(BUDGET)
        assert run.body == body
        assert run.meter.settle().verdict is Verdict.COMPLETED


def half_of_it(go_on: asyncio.Event) -> list[Step]:
    head = Head(200, "application/json", framing=len(BODY))
    return [head, Send(BODY[:40]), Wait(go_on), Send(BODY[40:]), End()]


@pytest.mark.parametrize("dialect", BUFFERING)
async def test_the_caller_of_a_whole_answer_gets_the_error_from_the_owner_of_the_relay(dialect: str) -> None:
    go_on, told = asyncio.Event(), list[StreamweirError]()

    def prepare(relay: Relay) -> None:
        relay.on_cut = told.append

    async with attempt(half_of_it(go_on), dialect=dialect, stream=False, prepare=prepare) as (run, up):
        await run.until(lambda: run.relay.bytes_in > 0)
        run.relay.cut(BUDGET)
        assert told == [BUDGET]
        assert run.relay.failure is BUDGET
        assert not run.relay.is_over
        go_on.set()
        await run.over()
        assert run.written == b""
        assert run.relay.failure is BUDGET
        assert_booked(run, USAGE, UsageSource.PROVIDER)
        assert up.aborts == []


@pytest.mark.parametrize(("bills_on", "tells"), [(False, True), (True, False)])
async def test_a_whole_answer_that_is_not_read_on(bills_on: bool, tells: bool) -> None:
    def prepare(relay: Relay) -> None:
        relay.on_cut = (lambda _: pytest.fail("nothing is read on")) if tells else None

    async with attempt(half_of_it(asyncio.Event()), stream=False, bills_on=bills_on, prepare=prepare) as (run, up):
        await run.until(lambda: run.relay.bytes_in > 0)
        run.relay.cut(BUDGET)
        await run.over()
        await up.aborted(1)
        assert (run.relay.failure, run.written) == (BUDGET, b"")


async def test_undelivered_text_of_a_caller_that_left_is_not_counted() -> None:
    frames, go_on = openai_frames(usage=None), asyncio.Event()
    script: Sequence[Step] = [Head(), Send(b"".join(frames[:3])), Wait(go_on), Send(b"".join(frames[3:])), End()]
    async with attempt(script) as (run, _):
        await run.until(lambda: TEXTS[1].encode() in run.written)
        run.leave()
        go_on.set()
        await run.over()
        settled = run.meter.settle(run.relay.verdict)
        assert (settled.verdict, settled.usage.completion_tokens) == (Verdict.CLIENT_GONE, 3)
        assert run.meter.record.completed


async def test_u29_data_after_the_end_is_flagged() -> None:
    body = b"".join(openai_frames()) + openai_frames()[1]
    async with attempt([Head(), Send(body), End()]) as (run, _):
        await run.over()
        assert run.meter.settle().flags == ("junk_after_done",)
        assert json.dumps(run.documents).count("Hello") == 1
