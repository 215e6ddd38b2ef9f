"""Paused, resumed, cut, stopped, disconnected, finished: in any order an attempt ends once, with valid output."""

import asyncio
import json
import random
from itertools import permutations

import pytest

from conftest import SOAKS
from streamweir.core.errors import CallerError, GatewayFault
from streamweir.core.verdict import Verdict
from streamweir.server.relay.relay import Relay
from support.answers import openai_frames, openai_whole
from support.attempt import Run, attempt, texts_of
from support.script import End, Head, Send, Step, Wait

ACTS = ("hold", "go", "cut", "stop", "leave", "rest", "allow")
LONG = list(permutations(ACTS, 3))
ORDERS = [*permutations(ACTS, 1), *permutations(ACTS, 2), *(LONG if SOAKS else random.Random(7).sample(LONG, 40))]
FRAMES, BODY = openai_frames(), openai_whole()


def script(go_on: asyncio.Event, stage: str) -> list[Step]:
    if stage == "buffered":
        head = Head(200, "application/json", framing=len(BODY))
        return [head, Send(BODY[:40]), Wait(go_on), Send(BODY[40:]), End()]
    begun = 3 if stage == "begun" else 1
    return [Head(), Send(b"".join(FRAMES[:begun])), Wait(go_on), Send(b"".join(FRAMES[begun:])), End()]


async def act(run: Run, what: str, go_on: asyncio.Event) -> None:
    relay = run.relay
    if what == "hold":
        relay.pause_output()
    elif what == "go":
        relay.resume_output()
    elif what == "cut":
        relay.cut(CallerError("budget_exceeded", "The budget is spent."))
    elif what == "stop":
        relay.stop(GatewayFault("server_shutting_down", "The gateway is shutting down."))
    elif what == "leave":
        run.leave()
    elif what == "allow":
        relay.set_allowance(1)
    else:
        go_on.set()
        for _ in range(20):  # most often long enough for the rest to come; the outcome is sound either way
            await asyncio.sleep(0)


def assert_sound(run: Run) -> None:
    if run.response.gone or not run.written:
        assert run.relay.failure is not None or run.relay.verdict is not None
    elif run.written.startswith(b"HTTP/1.1 429"):
        assert run.relay.failure is not None
    elif b"transfer-encoding: chunked" in run.written:
        *documents, done = run.documents
        assert (done, documents.count("[DONE]")) == ("[DONE]", 0)
        has_error = "error" in documents[-1]
        finishes = [choice["finish_reason"] for each in documents for choice in each.get("choices", ())]
        assert any(finishes) is not has_error
        if not has_error:
            assert texts_of(documents) == "Hello from the weir."
    else:
        assert json.loads(run.body)["choices"]


@pytest.mark.parametrize("bills_on", [True, False], ids=["bills on", "stops"])
@pytest.mark.parametrize("stage", ["begun", "waiting", "buffered"])
async def test_every_order_ends_once(stage: str, bills_on: bool) -> None:
    for order in ORDERS:
        go_on, told = asyncio.Event(), list[object]()

        def prepare(relay: Relay, told: list[object] = told) -> None:
            relay.on_cut = told.append
            relay.on_overrun = relay.pause_output

        async with attempt(script(go_on, stage), stream=stage != "buffered", bills_on=bills_on, prepare=prepare) as (
            run,
            _,
        ):
            await run.until(lambda run=run: run.relay.bytes_in > 0)  # type: ignore[misc]
            for what in order:
                await act(run, what, go_on)
            go_on.set()
            while not run.relay.is_over:
                run.relay.set_allowance(None)
                run.relay.resume_output()
                await asyncio.sleep(0.001)
            await run.over()
            assert_sound(run)
            settled = run.meter.settle(run.relay.verdict)
            if run.relay.verdict is not None:
                assert settled.verdict is Verdict.CLIENT_GONE
            elif settled.error is not None:
                assert settled.verdict in (Verdict.STOPPED, Verdict.SHUTDOWN), order
            elif run.relay.failure is None:
                assert settled.verdict is Verdict.COMPLETED, order
            assert len(told) <= 1
