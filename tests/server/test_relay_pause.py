"""An answer that is held back: not a byte of it goes out before it may, and then all of it, in one go."""

import asyncio
import json
from collections.abc import Callable

import pytest

from streamweir.core.errors import CallerError, GatewayFault, UpstreamError
from streamweir.core.verdict import Verdict
from streamweir.pipeline.plan import Mode
from streamweir.pipeline.settlement import UsageSource
from streamweir.server.relay.relay import Relay
from support.answers import TEXTS, USAGE, error_body, error_frame, openai_frames, openai_stream, openai_whole
from support.attempt import Run, attempt, texts_of
from support.messages import read_stream, said_in
from support.outcome import DIALECTS
from support.responses import text_so_far
from support.script import End, Fin, Flood, Hang, Head, Send, Step, Wait, stream, whole

BUDGET = CallerError("budget_exceeded", "The budget is spent.")
UNAVAILABLE = GatewayFault("ledger_unavailable", "Accounting is unavailable at the moment. Try again later.")
FRAMES = openai_frames()
BEGUN: list[Step] = [Head(), Send(b"".join(FRAMES[:3])), Hang()]


def held(relay: Relay) -> None:
    relay.pause_output()


async def has_ended(run: Run) -> None:
    """The answer is whole, and waits."""
    await run.until(lambda: run.relay.is_complete)
    assert run.written == b""


@pytest.mark.parametrize(
    ("mode", "dialect"),
    [(Mode.PASS, "openai"), (Mode.FILTER, "openai"), *((Mode.TRANSLATE, dialect) for dialect in DIALECTS)],
)
async def test_a_stream_goes_out_when_it_may(mode: Mode, dialect: str) -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(b"".join(FRAMES[:3])), Wait(go_on), Send(b"".join(FRAMES[3:])), End()]
    async with attempt(script, dialect=dialect, mode=mode, prepare=held) as (run, _):
        await run.until(lambda: run.relay.first_token_at is not None)
        assert run.written == b""
        run.relay.resume_output()
        assert (run.writes, run.status) == (1, 200)
        assert TEXTS[1].encode() in run.written
        go_on.set()
        await run.over()
        if dialect == "responses":
            said = text_so_far(run.body)
        else:
            said = said_in(read_stream(run.body)) if dialect == "messages" else texts_of(run.documents)
        assert said == "".join(TEXTS)
        assert run.relay.bytes_out == len(run.body)


async def test_paused_twice_it_must_be_resumed_twice() -> None:
    async with attempt(stream(openai_stream()), prepare=held) as (run, _):
        run.relay.pause_output()
        await has_ended(run)
        run.relay.resume_output()
        assert run.written == b""
        run.relay.resume_output()
        assert run.status == 200


async def test_a_resume_before_the_start_has_no_effect() -> None:
    go_on = asyncio.Event()
    async with attempt([Wait(go_on), *stream(openai_stream())], prepare=held) as (run, _):
        run.relay.resume_output()
        run.relay.resume_output()
        go_on.set()
        await run.over()
        assert texts_of(run.documents) == "".join(TEXTS)


@pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "buffered"])
async def test_an_answer_that_ended_meanwhile(is_streamed: bool) -> None:
    script = stream(openai_stream()) if is_streamed else whole(openai_whole())
    async with attempt(script, stream=is_streamed, prepare=held) as (run, up):
        await has_ended(run)
        await up.played(1)
        assert (up.aborts, up.open_connections) == ([], 1)
        run.relay.resume_output()
        assert run.status == 200
        await run.over()
        text = texts_of(run.documents) if is_streamed else json.loads(run.body)["choices"][0]["message"]["content"]
        assert text == "".join(TEXTS)
        settled = run.meter.settle()
        assert (settled.verdict, settled.usage_source) == (Verdict.COMPLETED, UsageSource.PROVIDER)


async def test_an_answer_that_broke_off_meanwhile_goes_out_as_that() -> None:
    script: list[Step] = [Head(), Send(b"".join(FRAMES[:3])), Fin()]
    async with attempt(script, prepare=held) as (run, _):
        await run.until(lambda: run.relay.first_token_at is not None)
        run.relay.resume_output()
        await run.over()
        *before, error, _ = run.documents
        assert texts_of(before) == "".join(TEXTS[:2])
        assert error["error"]["code"] == "upstream_stream_truncated"


async def test_a_failure_before_the_commit_does_not_wait() -> None:
    async with attempt(stream(error_frame(error_body("busy", "overloaded_error"))), prepare=held) as (run, _):
        await run.over()
        assert run.relay.failure is not None
        assert run.written == b""
        run.relay.resume_output()
        assert run.written == b""


async def test_what_is_kept_is_bounded() -> None:
    """The upstream is not read while there is something to be written."""
    flood = Flood(openai_frames(["x" * 4096])[1])
    async with attempt([Head(), Send(FRAMES[0]), flood], prepare=held, bills_on=False) as (run, up):
        await up.stalled()
        kept = run.relay.memory_bytes
        assert 0 < kept < 2 << 20
        assert run.relay._snapshot().is_paused
        run.relay.resume_output()
        assert not run.relay._snapshot().is_paused
        await run.until(lambda: run.relay.bytes_in > 4 * kept)
        run.relay.stop(UNAVAILABLE)
        await run.over()


async def test_the_head_alone_is_held_back_as_well() -> None:
    async with attempt([Head(), Send(FRAMES[0]), Hang()], prepare=held, commit_at=0.01) as (run, _):
        await run.until(lambda: run.relay._snapshot().is_committed)
        assert run.written == b""
        run.relay.resume_output()
        assert run.status == 200
        run.relay.stop(UNAVAILABLE)
        await run.over()
        assert run.documents[-2]["error"]["code"] == "ledger_unavailable"


def begun(run: Run) -> bool:
    return run.relay.first_token_at is not None


def ended(run: Run) -> bool:
    return run.relay.is_complete


@pytest.mark.parametrize("way", ["stop", "cut"])
@pytest.mark.parametrize(
    ("script", "is_streamed", "holds"),
    [(BEGUN, True, begun), (stream(openai_stream()), True, ended), (whole(openai_whole()), False, ended)],
    ids=["begun", "ended", "buffered"],
)
async def test_one_that_is_ended_while_nothing_was_sent_is_a_failure(
    script: list[Step], is_streamed: bool, holds: Callable[[Run], bool], way: str
) -> None:
    async with attempt(script, stream=is_streamed, prepare=held, bills_on=False) as (run, _):
        await run.until(lambda: holds(run))
        getattr(run.relay, way)(BUDGET)
        await run.over()
        assert (run.relay.failure, run.written) == (BUDGET, b"")
        settled = run.meter.settle()
        assert (settled.verdict, settled.error) == (Verdict.STOPPED, BUDGET)
        if holds is ended:
            assert settled.usage_source is UsageSource.PROVIDER
        else:
            assert settled.usage.completion_tokens == 0, "nothing was delivered"
        run.relay.resume_output()
        assert run.written == b""


async def test_one_that_is_cut_while_nothing_was_sent_is_read_on() -> None:
    go_on, told = asyncio.Event(), list[object]()

    def prepare(relay: Relay) -> None:
        relay.pause_output()
        relay.on_cut = told.append

    script: list[Step] = [Head(), Send(b"".join(FRAMES[:3])), Wait(go_on), Send(b"".join(FRAMES[3:])), End()]
    async with attempt(script, prepare=prepare) as (run, up):
        await run.until(lambda: begun(run))
        run.relay.cut(BUDGET)
        assert told == [BUDGET]
        go_on.set()
        await run.over()
        assert (run.relay.failure, run.written, up.aborts) == (BUDGET, b"", [])
        settled = run.meter.settle()
        assert (settled.usage.prompt_tokens, settled.usage.completion_tokens) == USAGE
        assert run.meter.record.delivered.getvalue() == ""


@pytest.mark.parametrize("bills_on", [True, False])
async def test_a_caller_that_leaves_meanwhile_has_got_nothing(bills_on: bool) -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(b"".join(FRAMES[:3])), Wait(go_on), Send(b"".join(FRAMES[3:])), End()]
    async with attempt(script, prepare=held, bills_on=bills_on) as (run, _):
        await run.until(lambda: begun(run))
        run.leave()
        go_on.set()
        await run.over()
        assert (run.relay.verdict, run.written) == (Verdict.CLIENT_GONE, b"")
        settled = run.meter.settle(run.relay.verdict)
        assert settled.usage.completion_tokens == (USAGE[1] if bills_on else 0)


async def test_a_caller_that_leaves_an_answer_that_has_ended() -> None:
    async with attempt(stream(openai_stream()), prepare=held) as (run, _):
        await has_ended(run)
        run.leave()
        await run.over()
        settled = run.meter.settle(run.relay.verdict)
        assert (settled.verdict, settled.usage_source) == (Verdict.CLIENT_GONE, UsageSource.PROVIDER)


async def test_an_answer_is_not_held_back_for_ever() -> None:
    async with attempt(stream(openai_stream()), prepare=held, total_at=0.05, silence_s=0.01) as (run, _):
        await run.over()
        assert run.relay.failure == UpstreamError(
            "stream_deadline_exceeded", "The answer took longer than the configured total timeout."
        )


# In the midst of an answer.


@pytest.mark.parametrize("has_ended_meanwhile", [False, True])
async def test_one_that_is_held_back_in_its_middle(has_ended_meanwhile: bool) -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(b"".join(FRAMES[:3])), Wait(go_on)]
    script += [Send(b"".join(FRAMES[3:])), End()] if has_ended_meanwhile else [Send(b"".join(FRAMES[3:5])), Hang()]
    async with attempt(script, bills_on=False) as (run, _):
        await run.until(lambda: TEXTS[1].encode() in run.written)
        run.relay.pause_output()
        writes, size = run.writes, run.relay.bytes_in
        go_on.set()
        await run.until(lambda: ended(run) if has_ended_meanwhile else run.relay.bytes_in > size)
        assert run.writes == writes
        run.relay.resume_output()
        assert TEXTS[3].encode() in run.written
        if not has_ended_meanwhile:
            run.relay.stop(UNAVAILABLE)
        await run.over()
        assert texts_of(run.documents) == ("".join(TEXTS) if has_ended_meanwhile else "".join(TEXTS[:4]))


@pytest.mark.parametrize("way", ["stop", "cut", "leave"])
async def test_one_that_is_ended_in_its_middle(way: str) -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(b"".join(FRAMES[:3])), Wait(go_on), Send(b"".join(FRAMES[3:5])), Hang()]
    async with attempt(script, bills_on=False) as (run, _):
        await run.until(lambda: TEXTS[1].encode() in run.written)
        run.relay.pause_output()
        size = run.relay.bytes_in
        go_on.set()
        await run.until(lambda: run.relay.bytes_in > size)
        if way == "leave":
            run.leave()
            await run.over()
            assert run.meter.record.delivered.getvalue() == "".join(TEXTS[:2])
        else:
            getattr(run.relay, way)(BUDGET)
            await run.over()
            *before, error, _ = run.documents
            delivered = TEXTS[:2] if way == "cut" else TEXTS[:4]  # a cut is for want of money: it is not paid for
            assert (texts_of(before), error["error"]["code"]) == ("".join(delivered), "budget_exceeded")
            assert run.meter.record.delivered.getvalue() == "".join(delivered)


async def test_a_received_whole_answer_is_delivered_despite_a_stop() -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(b"".join(FRAMES[:3])), Wait(go_on), Send(b"".join(FRAMES[3:])), End()]
    async with attempt(script) as (run, _):
        await run.until(lambda: TEXTS[1].encode() in run.written)
        run.relay.pause_output()
        go_on.set()
        await run.until(lambda: ended(run))
        run.relay.stop(UNAVAILABLE)
        await run.over()
        assert texts_of(run.documents) == "".join(TEXTS)
        assert run.meter.settle().verdict is Verdict.COMPLETED


async def test_a_caller_that_does_not_read_is_still_waited_for_afterwards() -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(b"".join(FRAMES[:3])), Wait(go_on), Send(b"".join(FRAMES[3:])), End()]
    async with attempt(script) as (run, _):
        await run.until(lambda: TEXTS[1].encode() in run.written)
        run.line.is_full = True
        assert run.response.on_full is not None
        run.response.on_full()
        run.relay.pause_output()
        run.relay.resume_output()
        assert run.relay._snapshot().is_paused
        go_on.set()
        run.line.is_full = False
        assert run.response.on_drained is not None
        run.response.on_drained()
        await run.over()
        assert texts_of(run.documents) == "".join(TEXTS)


@pytest.mark.parametrize("mode", list(Mode))
async def test_a_whole_answer_whose_end_was_not_paid_for_ends_with_the_error(mode: Mode) -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(b"".join(FRAMES[:3])), Wait(go_on), Send(b"".join(FRAMES[3:])), End()]
    async with attempt(script, mode=mode) as (run, up):
        await run.until(lambda: TEXTS[1].encode() in run.written)
        run.relay.pause_output()
        go_on.set()
        await run.until(lambda: ended(run))
        run.relay.cut(BUDGET)
        await run.over()
        *before, error, done = run.documents
        assert (error["error"]["code"], done) == ("budget_exceeded", "[DONE]")
        assert texts_of(before) == "".join(TEXTS[:2])
        assert all(choice["finish_reason"] is None for each in before for choice in each["choices"])
        settled = run.meter.settle()
        assert (settled.verdict, settled.error) == (Verdict.STOPPED, BUDGET)
        assert (settled.usage.prompt_tokens, settled.usage.completion_tokens) == USAGE
        assert up.aborts == []
