"""Whatever happens at the same moment, a request leaves one record: docs/spec/failures.md G6, G23 and G29.

A request is meddled with at each of its awaits in turn, and the ways in which a stream can end are
played in every order, without a turn of the loop between them and with one. After all of that every
count is where it was.
"""

import asyncio
import gc
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, cast

import pytest
from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families

from conftest import SOAKS
from streamweir.core.call_trace import CallTrace
from streamweir.core.errors import GatewayFault, UpstreamError
from streamweir.providers.base import UpstreamRequest
from streamweir.server.relay.relay import Relay
from streamweir.server.request.request import RequestHandler
from streamweir.server.request.runtime.config import ProviderRuntime
from streamweir.upstream.base import Call, Receiver, Upstream
from support.answers import openai_stream, openai_whole
from support.gateway import Gate, chat_request, gateway, gateway_to, nothing_left, providers, until
from support.raw_client import RawClient
from support.script import End, Fin, Hang, Head, Seen, Send, Step, in_turn, stream, whole
from support.scripted_upstream import ScriptedUpstream
from support.serve_process import BEGUN, REST, get

# G6: at every await.


class InterruptedTask(Coroutine[Any, Any, None]):
    """A coroutine that tells when it has been suspended for the n-th time."""

    def __init__(self, inner: Coroutine[Any, Any, None], at: int, act: Callable[[], None]) -> None:
        self._inner = inner
        self._left = at
        self._act = act

    def send(self, value: Any, /) -> Any:
        return self._suspended(self._inner.send(value))

    def throw(self, *reason: Any) -> Any:
        return self._suspended(self._inner.throw(*reason))

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._inner.__await__()

    def _suspended(self, awaited: Any) -> Any:
        self._left -= 1
        if not self._left:
            self._act()
        return awaited


class TaskInterrupter:
    """Makes the tasks of the loop, and acts when the request's own has been suspended for the n-th time."""

    def __init__(self, at: int, ways: Sequence[str]) -> None:
        self._at = at
        self._ways = ways
        self.gate: Gate | None = None
        self.has_acted = False

    def __call__(self, loop: asyncio.AbstractEventLoop, coro: Any, **more: Any) -> "asyncio.Task[Any]":
        if getattr(coro, "__qualname__", "") == RequestHandler.run.__qualname__:
            coro = InterruptedTask(coro, self._at, lambda: void(loop.call_soon(self._act)))
        return asyncio.Task(coro, loop=loop, **more)

    def _act(self) -> None:
        assert self.gate is not None
        gateway = self.gate.gateway
        self.has_acted = bool(gateway._requests)
        for way in self._ways:
            if way == "cancelled":
                for task in gateway._requests._tasks.values():
                    task.cancel()
            elif way == "stopped":
                gateway.end_streams(GatewayFault("server_shutting_down", "The gateway is shutting down."))
            else:
                leave(self.gate)


def void(_: object) -> None:
    return


def leave(gate: Gate) -> None:
    """As the loop would tell it of a caller that has reset."""
    for connection in list(gate.gateway.server._open):
        connection.abort()


FAILED: Sequence[Step] = [Head(500, "application/json"), Send(b"{}"), End()]
LONG = [{"role": "user", "content": "x" * 300_000}]
"""Parsed in a thread: one await more."""
WAYS = [["cancelled"], ["left"], ["stopped"], ["stopped", "left"], ["left", "stopped"], ["left", "cancelled"]]
VERDICTS = {"cancelled": "shutdown", "left": "client_gone", "stopped": "shutdown"}


async def meddle(at: int, ways: Sequence[str], is_streamed: bool) -> bool:
    """One request that is parsed in a thread, fails, waits, is tried again, and answered. False: it ended before."""
    loop, meddler = asyncio.get_running_loop(), TaskInterrupter(at, ways)
    answered = stream(openai_stream()) if is_streamed else whole(openai_whole())
    async with ScriptedUpstream(in_turn(FAILED, answered)) as up, gateway(providers(up=up.base_url)) as gate:
        meddler.gate = gate
        loop.set_task_factory(meddler)
        try:
            async with await gate.connect() as client:
                await client.send(chat_request(model="up/m", stream=is_streamed, messages=LONG))
                await until(lambda: bool(gate.records))
        finally:
            loop.set_task_factory(None)
        await gate.vacated()
        (record,) = gate.records
        if meddler.has_acted:
            assert record.verdict in {VERDICTS[way] for way in ways}
        else:
            assert record.verdict == "completed"
        assert metrics(gate)["streamweir_requests_total"] == 1
    return meddler.has_acted


@pytest.mark.parametrize("ways", WAYS, ids="-".join)
@pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "buffered"])
async def test_g6_one_record_wherever_it_is_cancelled(
    monkeypatch: pytest.MonkeyPatch, ways: Sequence[str], is_streamed: bool
) -> None:
    monkeypatch.setattr("streamweir.server.request.request.random", lambda: 0.01)
    awaits = 0
    async with nothing_left():
        while await meddle(awaits + 1, ways, is_streamed):
            awaits += 1
    assert awaits >= 5, "the parsing, the way, the attempt, the pause, the attempt"


def metrics(gate: Gate) -> dict[str, float]:
    """Without the labels: the sum over them."""
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(gate.gateway.metrics_text().decode()):
        for sample in family.samples:
            sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    return sums


# G23: every order.


@dataclass
class CapturedCall:
    is_refused = False
    inner: Call
    is_over: bool = False

    @property
    def resends(self) -> int:
        return self.inner.resends

    @property
    def trace(self) -> CallTrace | None:
        return self.inner.trace

    def pause(self) -> None:
        self.inner.pause()

    def resume(self) -> None:
        self.inner.resume()

    def abort(self) -> None:
        self.is_over = True
        self.inner.abort()

    def release(self) -> None:
        self.is_over = True
        self.inner.abort()  # the end was made up: on the wire it never comes


class Capture:
    """An upstream that keeps the relay of the call which is under way."""

    def __init__(self, inner: Upstream) -> None:
        self._inner = inner
        self.relay: Relay | None = None
        self.call: CapturedCall | None = None

    async def open(self, request: UpstreamRequest, receiver: Receiver, /) -> Call:
        assert isinstance(receiver, Relay)
        self.relay = receiver
        self.call = CapturedCall(await self._inner.open(request, receiver))
        return self.call

    async def close(self) -> None:
        await self._inner.close()

    def finish(self, rest: bytes) -> None:
        """The upstream's end. By the law of `upstream.base` nothing is told after the call is over."""
        assert self.relay is not None
        assert self.call is not None
        if not self.call.is_over:
            self.relay.body_received(rest)
        if not self.call.is_over:
            self.relay.body_ended()


def capture(gate: Gate) -> Capture:
    places = cast(dict[str, ProviderRuntime], gate.gateway.runtime.providers)
    captured = Capture(places["up"].upstream)
    places["up"] = structs.replace(places["up"], upstream=captured)
    return captured


ENDS = {"finish": "completed", "leave": "client_gone", "timeout": "idle_timeout", "shutdown": "shutdown"}
ORDERS = [order for count in range(1, len(ENDS) + 1) for order in permutations(ENDS, count)]
STAGES = ["begun", "waiting", "buffered"]
BODY = openai_whole()


def script(request: Seen) -> Sequence[Step]:
    if not request.json.get("stream"):
        return [Head(200, "application/json", framing=len(BODY)), Send(BODY[:20]), Hang()]
    return [Head(), Send(BEGUN), Hang()] if request.json["model"].startswith("begun") else [Head(), Hang()]


async def race(gate: Gate, captured: Capture, stage: str, order: Sequence[str], has_turns: bool) -> None:
    """One request, brought to the stage and then ended in these ways, one right after the other."""
    count = len(gate.records)
    model = f"up/{stage}-{count}"  # a new target each time, lest one be ejected
    async with await gate.connect() as client:
        captured.relay = None
        await client.send(chat_request(model=model, stream=stage != "buffered"))
        await reach(stage, client, captured)
        relay = captured.relay
        assert relay is not None
        for end in order:
            if end == "finish":
                captured.finish({"begun": REST, "waiting": BEGUN + REST, "buffered": BODY[20:]}[stage])
            elif end == "leave":
                leave(gate)
            elif end == "cancel":
                for task in gate.gateway._requests._tasks.values():
                    task.cancel()
            elif end == "timeout":
                relay.stop(UpstreamError("stream_idle_timeout", "The provider stopped in the middle of its answer."))
            else:
                gate.gateway.end_streams(GatewayFault("server_shutting_down", "The gateway is shutting down."))
            if has_turns:
                await asyncio.sleep(0)
        record = (await gate.settled(count + 1))[-1]
    await gate.vacated()
    expected = (
        {ENDS[order[0]]}
        if "cancel" in order or stage == "begun" or order[0] == "finish"
        else {ENDS[end] for end in order}
    )
    assert record.verdict in expected, (stage, order)


async def reach(stage: str, client: RawClient, captured: Capture) -> None:
    if stage == "begun":
        await client.read_until(b'" from"')
    else:
        size = 20 if stage == "buffered" else 0
        await until(lambda: captured.relay is not None and captured.relay._upstream.status == 200)
        await until(lambda: captured.relay is not None and captured.relay.bytes_in == size)


@pytest.mark.parametrize("has_turns", [False, True], ids=["at once", "in turn"])
@pytest.mark.parametrize("stage", STAGES)
async def test_g23_one_record_in_whatever_order_it_ends(stage: str, has_turns: bool) -> None:
    async with gateway_to(script) as (gate, up):
        captured = capture(gate)
        for _ in range(20 if SOAKS else 1):
            for order in ORDERS:
                await race(gate, captured, stage, order, has_turns)
        # G29: nothing is counted that is not there any more.
        counts = metrics(gate)
        assert len(gate.records) == counts["streamweir_requests_total"] == len(up.requests)
        assert counts["streamweir_open_streams"] == 0
        assert gate.gateway.abandoned == 0
        assert not gate.gateway._requests


@pytest.mark.parametrize(
    ("stage", "end"), [*((stage, "finish") for stage in STAGES), ("begun", "timeout")], ids=lambda each: each
)
async def test_the_end_of_the_process_in_the_turn_of_the_end_of_an_answer_does_not_change_what_became_of_it(
    stage: str, end: str
) -> None:
    """The cancellation comes before the task has gone on: its caller has the whole answer, or its error frame."""
    async with gateway_to(script) as (gate, _):
        await race(gate, capture(gate), stage, [end, "cancel"], has_turns=False)
        (record,) = gate.records
        assert (record.verdict, record.status) == (ENDS[end], 200)
        assert record.bytes_out > 0
        assert (record.finish is not None) == (end == "finish")
        assert record.usage is not None


OUTCOMES: dict[str, Sequence[Step]] = {
    "streamed": stream(openai_stream()),
    "buffered": whole(BODY),
    "refused": whole(b"{}", 400),
    "failed": FAILED,
    "cut": [Head(), Send(BEGUN), Fin()],
    "left": [Head(), Send(BEGUN), Hang()],
    "stopped": [Head(), Send(BEGUN), Hang()],
}


async def bring_about(gate: Gate, outcome: str) -> None:
    async with await gate.connect() as client:
        await client.send(chat_request(model=f"up/{outcome}", stream=outcome != "buffered"))
        if outcome in ("left", "stopped"):
            await client.read_until(b'" from"')
        if outcome == "stopped":
            gate.gateway.end_streams(GatewayFault("overloaded", "The gateway is overloaded."))
        elif outcome != "left":
            await client.response()
    await gate.vacated()


@pytest.fixture
def _no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_g29_what_a_request_held_is_free_when_it_is_over(monkeypatch: pytest.MonkeyPatch, outcome: str) -> None:
    """And not only when the collector of cycles comes by: under memory pressure that may be never."""
    monkeypatch.setattr("streamweir.server.request.request.random", lambda: 0.0)
    async with gateway_to(OUTCOMES[outcome]) as (gate, _):
        await bring_about(gate, outcome)
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        await bring_about(gate, outcome)
        await asyncio.sleep(0)
        gc.collect()
        left = {type(each).__name__ for each in gc.garbage if type(each).__module__.startswith("streamweir.")}
        gc.set_debug(0)
        assert not left


async def test_g29_every_count_is_back_where_it_was() -> None:
    """After one of each: an answer, a refusal, an upstream that fails, a caller that leaves, one that is stopped."""
    outcomes = in_turn(stream(openai_stream()), FAILED, FAILED, FAILED, [Head(), Send(BEGUN), Hang()], [Hang()])
    async with gateway_to(outcomes) as (gate, _):
        assert (await gate.ask(model="up/m", stream=True)).status == 200
        assert (await gate.ask(model="nobody/m")).status == 404
        assert (await gate.ask(model="up/m", key=None)).status == 401
        assert (await gate.ask(model="up/m")).status == 502
        async with await gate.connect() as client:
            await client.send(chat_request(model="up/m", stream=True))
            await client.read_until(b'" from"')
        await gate.settled(5)
        async with await gate.connect() as client:
            await client.send(chat_request(model="up/m", stream=True))
            await until(lambda: gate.gateway.open_streams == 1)
            assert metrics(gate)["streamweir_open_streams"] == 1
            gate.gateway.end_streams(GatewayFault("overloaded", "The gateway is overloaded."))
            assert (await client.response()).status == 503
        async with await gate.connect() as client:
            await client.send(get("/metrics"))
            assert (await client.response()).status == 200
        await gate.vacated()
        after = metrics(gate)
        assert after["streamweir_requests_total"] == 6
        assert after["streamweir_open_streams"] == 0
        assert after["streamweir_upstream_connections"] == 0, "those who left early took the only one with them"
