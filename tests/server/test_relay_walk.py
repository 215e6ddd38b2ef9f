"""Whatever comes, in whatever order, an attempt ends once, and is never taken for whole where it is not.

A real relay, exchange and response, between an upstream and a caller that do what a walk says. One walk follows every
act from every situation that any acts before it have led to; another takes long orders at random.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import SOAKS
from streamweir.core.call_trace import CallTrace
from streamweir.core.errors import CallerError, GatewayFault, StreamweirError, UpstreamError
from streamweir.core.verdict import Verdict
from streamweir.providers.base import Target, UpstreamRequest
from streamweir.providers.registry import provider_named
from streamweir.server.http.message import Answer
from streamweir.server.relay import large_answer
from streamweir.server.relay.relay import AttemptParts, Relay
from streamweir.server.relay.states import FINDINGS, TABLE, Action, Input, State, UnexpectedInput
from streamweir.upstream.base import Receiver
from support.answers import TEXTS, openai_frames, openai_whole
from support.attempt import Run, chat_of, prepared, texts_of
from support.deadlines import WAIT_TIMEOUT_S

FRAMES = openai_frames()
BODY = openai_whole()
LARGE = openai_whole("x" * (1 << 20))
STREAM_HEAD = {"content-type": "text/event-stream"}
WHOLE_HEAD = {"content-type": "application/json"}
STOP = GatewayFault("server_shutting_down", "The gateway is shutting down.")
BUDGET = CallerError("budget_exceeded", "The budget is spent.")
RESET = UpstreamError("upstream_stream_reset", "The provider closed the connection in the middle of its answer.")
REFUSED = UpstreamError("upstream_connect_failed", "No connection to the provider.")
TIMING = {
    "commit_at": 5.0,
    "total_at": 1000.0,
    "first_event_s": 500.0,
    "idle_s": 500.0,
    "assembly_s": 500.0,
    "keepalive_s": 3.0,
    "silence_s": 2.0,
    "abandoned_s": 100.0,
}
NAMES = ("role", "text", "finish", "done")
"""Of the pieces of an answer. One that is not streamed has two, and its end behind them."""
COUNTED = 2 if SOAKS else 1
"""So many ticks, and so many pauses, make a difference."""
TICK_S, LONG_S = 4.0, 5000.0
"""Enough for a comment, the commit or a silence; and for every deadline."""


class Traced(Relay):
    """Remembers which rows were taken, and what an action took as an input itself."""

    def __init__(self, parts: AttemptParts) -> None:
        super().__init__(parts)
        self.rows: set[tuple[State, Input]] = set()
        self.actions: list[Action] = []

    def _handle(self, what: Input, *details: object) -> None:
        state = self.state
        row = TABLE[state].get(what)
        if self.actions and what not in FINDINGS.get(self.actions[-1], ()):
            raise AssertionError(f"{self.actions[-1]} is not said to find {what.name}")
        self.rows.add((state, what))
        self.actions.append(row.action if row is not None else Action.NOTHING)
        try:
            super()._handle(what, *details)
        finally:
            self.actions.pop()

    def body_received(self, data: bytes, /) -> None:
        if self.state is not State.STREAMING:
            super().body_received(data)
            return
        self.rows.add((State.STREAMING, Input.PIECE))
        self.actions.append(Action.RELAY_PIECE)
        try:
            super().body_received(data)
        finally:
            self.actions.pop()


class ManualUpstream:
    """An upstream and its one call. It keeps to the law of `upstream.base`: see `Walk.may`."""

    def __init__(self) -> None:
        self.gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_opened = False
        self.ends: list[str] = []
        self.is_paused = False
        self.resends = 0
        self.is_refused = False
        self.trace: CallTrace | None = None

    async def open(self, _request: UpstreamRequest, _receiver: Receiver, /) -> "ManualUpstream":
        await self.gate
        self.is_opened = True
        return self

    async def close(self) -> None: ...

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False

    def abort(self) -> None:
        self.ends.append("abort")

    def release(self) -> None:
        self.ends.append("let go")


class Walk:
    """One attempt, and what it was given."""

    def __init__(self, run: Run, relay: Traced, stream: bool) -> None:
        self.run = run
        self.relay = relay
        self.puppet = ManualUpstream()
        self.acts: list[str] = []
        self._is_stream = stream
        self._elapsed_s = 0.0
        self._now = relay._time
        relay._time = self._time
        relay.on_cut = self._tell
        pieces = [*FRAMES[:2], b"".join(FRAMES[2:-1]), FRAMES[-1]] if stream else [BODY[:40], BODY[40:]]
        self._pieces = list(zip(NAMES[-len(pieces) :] if stream else NAMES[1:3], pieces, strict=True))
        self._head = ""
        self._has_ended = False

    def _time(self) -> float:
        return self._now() + self._elapsed_s

    def _tell(self, error: StreamweirError) -> None:
        """As the request does it."""
        self.run.response.send(Answer(status=429, body=error.code.encode()))

    @property
    def situation(self) -> tuple[object, ...]:
        """What decides on everything that comes. Times count by ticks, a few of them."""
        relay, response, downstream = self.relay, self.run.response, self.relay._downstream
        return (
            *(relay.state, relay._upstream.is_paused, downstream.output, min(downstream._pauses, COUNTED)),
            *(response.started, response.over, self.run.line.is_full, self._head, len(self._pieces), self._has_ended),
            *(min(self.acts.count("tick"), COUNTED), relay.verdict, relay.failure, self.puppet.gate.done()),
        )

    def may(self, act: str) -> bool:
        """Whether upstream, caller or gateway can do it now, by their own contracts."""
        puppet, is_live = self.puppet, self.puppet.is_opened and not self.puppet.ends
        if act in ("open", "no way"):
            return not puppet.gate.done()
        if act in ("head", "error head", "bad head"):
            return is_live and not self._head
        if act == "piece":
            return is_live and bool(self._head) and not self._has_ended and bool(self._pieces)
        if act == "end":
            return is_live and bool(self._head) and not self._has_ended
        if act == "reset":
            return is_live and not self._has_ended
        if act == "gone":
            return not self.run.response.over
        if act in ("slow", "ready"):
            return self.run.line.is_full is (act == "ready")
        return True

    async def do(self, act: str) -> None:
        relay, run = self.relay, self.run
        self.acts.append(act)
        if act == "open":
            self.puppet.gate.set_result(None)
        elif act == "no way":
            self.puppet.gate.set_exception(REFUSED)
        elif act in ("head", "error head", "bad head"):
            self._head = act
            relay.head_received(*self._heads()[act])
        elif act == "piece":
            name, data = self._pieces.pop(0)
            self.acts[-1] = name if self._head == "head" else "refusal"
            relay.body_received(data)
        elif act == "end":
            self._has_ended = True
            relay.body_ended()
        elif act == "reset":
            self._has_ended = True
            relay.call_failed(RESET)
        elif act == "gone":
            run.response.disconnect()
        elif act in ("slow", "ready"):
            run.line.is_full = act == "slow"
            told = run.response.on_full if act == "slow" else run.response.on_drained
            if told is not None:
                told()
        elif act in ("tick", "late"):
            self.pass_time(TICK_S if act == "tick" else LONG_S)
        elif act == "cancel":
            assert run.task is not None
            run.task.cancel()
        else:
            gateway: dict[str, Callable[[], None]] = {
                "pause": relay.pause_output,
                "resume": relay.resume_output,
                "stop": lambda: relay.stop(STOP),
                "cut": lambda: relay.cut(BUDGET),
            }
            gateway[act]()
        if act in ("open", "no way", "cancel"):
            for _ in range(3):
                await asyncio.sleep(0)

    def pass_time(self, seconds: float) -> None:
        self._elapsed_s += seconds
        self.relay.on_timer()

    def _heads(self) -> dict[str, tuple[int, dict[str, str]]]:
        fine = STREAM_HEAD if self._is_stream else WHOLE_HEAD
        return {"head": (200, fine), "error head": (503, WHOLE_HEAD), "bad head": (200, {"content-type": "text/html"})}

    async def over(self) -> None:
        assert self.run.task is not None
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            await asyncio.wait([self.run.task])


ACTS = (
    *("open", "no way", "head", "error head", "bad head", "piece", "end", "reset", "gone", "slow", "ready"),
    *("tick", "late", "pause", "resume", "stop", "cut", "cancel"),
)
GENTLE = ("open", "head", "piece", "slow", "ready", "tick", "pause", "resume")
"""What ends no attempt by itself."""


@asynccontextmanager
async def walking(stream: bool, bills_on: bool) -> AsyncIterator[Walk]:
    run = prepared(stream=stream, timeouts=TIMING, make_relay=Traced)
    assert isinstance(run.relay, Traced)
    run.relay.abort_stops_billing = not bills_on
    walk = Walk(run, run.relay, stream)
    request = provider_named("openai").build_request(chat_of("openai", stream), Target(model="m"))
    run.task = asyncio.get_running_loop().create_task(run.relay.run(walk.puppet, request))
    await asyncio.sleep(0)
    try:
        yield walk
    finally:
        run.task.cancel()
        await asyncio.wait([run.task])
        if walk.puppet.gate.done() and not walk.puppet.gate.cancelled():
            walk.puppet.gate.exception()
        run.watch.timers.stop()


def documents(run: Run) -> list[Any]:
    return run.documents if b"transfer-encoding: chunked" in run.written else []


def assert_sound(walk: Walk, until_done: Sequence[str]) -> None:
    """Of an attempt that is over. `until_done`: the acts that it was given before it was."""
    run, relay = walk.run, walk.relay
    assert (relay.state, run.watch.places, run.watch.faults) == (State.DONE, 1, []), walk.acts
    assert len(walk.puppet.ends) == walk.puppet.is_opened, walk.acts
    assert run.written.count(b"HTTP/1.1 ") <= 1, walk.acts
    settled = run.meter.settle(relay.verdict)
    has_gone = relay.verdict is not None
    assert (settled.verdict is Verdict.CLIENT_GONE) is has_gone, walk.acts
    if "cancel" in until_done:  # the request that was cancelled says what became of it
        return
    is_complete = settled.verdict is Verdict.COMPLETED
    if is_complete:
        assert {"finish", "done"} & set(until_done), walk.acts
        assert not {"cut", "gone"} & set(until_done), walk.acts
        assert relay.failure is None
        assert run.response.over
        assert relay.is_delivered
    frames = documents(run) if run.response.over and not run.response.gone else []
    if frames:
        assert [frames.count("[DONE]"), frames[-1]] == [1, "[DONE]"], walk.acts
        assert ("error" in frames[-2]) is not is_complete, walk.acts
        if is_complete:
            assert texts_of(frames) == "".join(TEXTS)
    elif relay.failure is None and not has_gone:
        assert is_complete, walk.acts
        assert json.loads(run.body)["choices"][0]["message"]["content"] == "".join(TEXTS), walk.acts


def assert_nothing_happens(walk: Walk) -> None:
    """Whatever comes after the end, be it against all contracts."""
    relay, run = walk.relay, walk.run

    def seen() -> tuple[object, ...]:
        settled = run.meter.settle(relay.verdict)
        return run.written, relay.failure, relay.verdict, walk.puppet.ends[:], settled.verdict, settled.usage

    before = seen()
    relay.head_received(200, STREAM_HEAD)
    relay.body_received(FRAMES[1])
    relay.body_ended()
    relay.call_failed(RESET)
    relay.caller_gone()
    relay.caller_slow()
    relay.caller_ready()
    relay.on_timer()
    relay.pause_output()
    relay.resume_output()
    relay.stop(STOP)
    relay.cut(BUDGET)
    assert seen() == before, walk.acts
    assert run.watch.faults == []


async def end_it(walk: Walk) -> list[str]:
    """Gives what was done until it was over."""
    if not walk.relay.is_over:
        await walk.do("stop")
    until_done = walk.acts[:]
    await walk.over()
    return until_done


UNWALKED = {
    # A large answer is read by a process: see test_large_answer.py.
    *((State.PARSING, what) for what in TABLE[State.PARSING]),
    *((state, Input.LARGE_BODY) for state in (State.STARTED, State.DRAINING)),
    (State.DRAINING, Input.PARSED),
    # An answer of which a token went out is committed, and one that drains is not paused.
    (State.STREAMING, Input.ANSWER_FAILED),
    (State.DRAINING, Input.ANSWER_PAUSED),
    # The response is over, and says nothing more.
    *((State.DRAINING, what) for what in (Input.CALLER_GONE, Input.CALLER_SLOW, Input.CALLER_READY)),
}
"""Rows that no walk takes."""


async def test_from_every_state_every_input_leads_to_one_valid_end() -> None:
    rows: set[tuple[State, Input]] = set()
    for stream, bills_on in product([True, False], repeat=2):
        await follow_everything(stream, bills_on, rows)
    listed = {(state, what) for state in State if state is not State.DONE for what in TABLE[state]}
    assert {row for row in rows if row[0] is not State.DONE} == listed - UNWALKED


async def follow_everything(stream: bool, bills_on: bool, rows: set[tuple[State, Input]]) -> None:
    """Each situation is reached by the fewest acts that lead to it."""
    seen: set[tuple[object, ...]] = set()
    todo: list[tuple[str, ...]] = [()]
    while todo:
        path = todo.pop(0)
        for act in ACTS:
            async with walking(stream, bills_on) as walk:
                for before in path:
                    await walk.do(before)
                if not walk.may(act):
                    continue
                await walk.do(act)
                if not walk.relay.is_over and walk.situation not in seen:
                    seen.add(walk.situation)
                    todo.append((*path, act))
                until_done = await end_it(walk)
                assert_sound(walk, until_done)
                rows |= walk.relay.rows
                assert_nothing_happens(walk)


@pytest.mark.usefixtures("no_parser")
@pytest.mark.parametrize("state", [State.COMPLETE, State.PARSING], ids=lambda state: state.name)
async def test_an_upstream_that_has_sent_all_is_not_idle(state: State) -> None:
    """Though output was resumed, or the caller's connection drained, since."""
    stream, path = PATHS[state]
    async with walking(stream, bills_on=True) as walk:
        for act in ("pause", *path):
            await walk.do(act)
        if state is State.PARSING:
            walk.relay.body_received(LARGE)
            walk.relay.body_ended()
        walk.relay.resume_output()
        walk.relay.caller_ready()
        walk.pass_time(TIMING["idle_s"] + 1)
        assert (walk.relay.state, walk.relay.failure) == (state, None)
        await walk.do("stop")


@given(
    acts=st.lists(st.sampled_from([*ACTS, *(4 * GENTLE)]), min_size=20, max_size=100),
    stream=st.booleans(),
    bills_on=st.booleans(),
)
def test_a_long_order_of_acts_ends_once_and_soundly(acts: list[str], stream: bool, bills_on: bool) -> None:
    async def walk_on() -> None:
        async with walking(stream, bills_on) as walk:
            for act in acts:
                if walk.may(act) and not walk.relay.is_over:
                    await walk.do(act)
            until_done = await end_it(walk)
            assert_sound(walk, until_done)
            assert_nothing_happens(walk)

    asyncio.run(walk_on())


PATHS: dict[State, tuple[bool, tuple[str, ...]]] = {
    State.CONNECTING: (True, ()),
    State.WAITING: (True, ("open",)),
    State.REFUSED: (True, ("open", "error head")),
    State.STARTED: (True, ("open", "head")),
    State.STREAMING: (True, ("open", "head", "piece", "piece")),
    State.PARSING: (False, ("open", "head")),
    State.COMPLETE: (True, ("open", "pause", "head", "piece", "piece", "piece", "piece")),
    State.DRAINING: (True, ("open", "head", "piece", "piece", "cut")),
}
"""How each state is reached, in an attempt that is streamed or not."""
DETAILS: dict[Input, tuple[object, ...]] = {
    Input.OPEN_FAILED: (REFUSED,),
    Input.HEAD: (200, STREAM_HEAD),
    Input.PIECE: (FRAMES[-1],),
    Input.RESET: (RESET,),
    Input.PARSED: (BODY,),
    Input.ANSWER_ENDED: (FRAMES[-1],),
    Input.ANSWER_PAUSED: (FRAMES[-1],),
    Input.FAILED: (RESET,),
    Input.CUT_OFF: (BUDGET,),
}


@pytest.fixture
async def no_parser() -> AsyncIterator[None]:
    """A large answer waits to be read."""
    places = large_answer._semaphores.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(2))
    async with places, places:
        yield


@pytest.mark.usefixtures("no_parser")
@pytest.mark.parametrize("state", PATHS, ids=lambda state: state.name)
async def test_what_is_not_in_the_table_is_a_fault_and_ends_the_attempt(state: State) -> None:
    """With an error frame or a failure, and never as complete."""
    stream, path = PATHS[state]
    for what in [each for each in Input if each not in TABLE[state]]:
        async with walking(stream, bills_on=True) as walk:
            for act in path:
                await walk.do(act)
            relay, run = walk.relay, walk.run
            if state is State.PARSING:
                relay.body_received(LARGE)
                relay.body_ended()
            assert relay.state is state
            started = run.response.started
            Relay._handle(relay, what, *DETAILS.get(what, ()))
            await walk.over()
            (fault,) = run.watch.faults
            assert isinstance(fault, UnexpectedInput)
            assert (fault.state, fault.input) == (state, what)
            assert (relay.state, run.watch.places) == (State.DONE, 1)
            assert len(walk.puppet.ends) == walk.puppet.is_opened
            settled = run.meter.settle(relay.verdict)
            if state is State.DRAINING:
                assert settled.verdict is Verdict.STOPPED, what.name
            else:
                assert settled.verdict is Verdict.GATEWAY_FAULT, what.name
                assert (relay.failure is None) is started
            if started:
                assert b'"finish_reason":"stop"' not in run.written
            run.watch.faults.clear()
            assert_nothing_happens(walk)


async def test_a_fault_after_the_end_is_reported_and_changes_nothing() -> None:
    """The response may be another attempt's by then."""
    async with walking(stream=True, bills_on=False) as walk:
        for act in ("open", "head", "error head"):
            await walk.do(act)
        walk.run.watch.faults.clear()
        relay = walk.relay
        assert (relay.state, relay.failure is not None) == (State.DONE, True)
        walk.run.response.start(200, (), b"of another attempt")
        failure, written = relay.failure, walk.run.written
        for what in [each for each in Input if each not in TABLE[State.DONE]]:
            Relay._handle(relay, what)
            assert isinstance(walk.run.watch.faults.pop(), UnexpectedInput)
        assert (relay.failure, walk.run.written, walk.run.line.is_cut) == (failure, written, False)
