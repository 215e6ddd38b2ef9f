"""Which target a request begins with: by the route's strategy, and by how the targets have been doing.

docs/spec/failures.md U39, and routing: ejection after five failures, one probe
at a time, pauses that a provider asked for. The clock is the real one; where a wait would be long,
its length is set to nothing, and where chance decides, the test is the chance.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import cycle
from typing import Any

import pytest

from support.answers import error_body, openai_stream
from support.gateway import Gate, chat_request, configured, providers, routed
from support.outcome import (
    CANARY,
    DIALECTS,
    assert_broken,
    assert_completed,
    assert_record,
    assert_refused,
    path_of,
    serving,
)
from support.script import Fin, Head, Seen, Send, Step, Wait, stream, whole
from support.wire_samples import BEGUN, OPENAI

ANSWER = stream(openai_stream())
FAILURE = whole(error_body(CANARY), 500)
FAILED = "upstream_server_error"
REFUSED = whole(error_body(CANARY), 401)


class FixedRandom:
    """Numbers in place of chance, again and again: for what is drawn, and for the pause before a retry."""

    def __init__(self) -> None:
        self.give(0.0)

    def give(self, *numbers: float) -> None:
        self._numbers = cycle(numbers)

    def __call__(self) -> float:
        return next(self._numbers)


@pytest.fixture
def chance(monkeypatch: pytest.MonkeyPatch) -> FixedRandom:
    made = FixedRandom()
    monkeypatch.setattr("streamweir.server.request.request.random", made)
    return made


def route(strategy: str, **weights: int) -> str:
    """TOML: the alias `any` over providers of these names. The requests are all equal, so no conversation chooses."""
    targets = ", ".join(
        f'{{ provider = "{name}", model = "m", weight = {weight} }}' for name, weight in weights.items()
    )
    return f'[[models]]\nid = "any"\nstrategy = "{strategy}"\naffinity = false\ntargets = [{targets}]\n'


async def chosen(gate: Gate, count: int) -> str:
    """The targets that so many requests were answered by, one letter each."""
    before = len(gate.records)
    for number in range(1, count + 1):
        assert_completed(await gate.ask(model="any", stream=True))
        await gate.settled(before + number)
    return "".join(str(record.target)[0] for record in gate.records[before:])


# Strategies.


@pytest.mark.usefixtures("chance")
async def test_priority_takes_the_first_as_long_as_it_is_well() -> None:
    sick = asyncio.Event()

    def moody(_: Seen) -> Sequence[Step]:
        return FAILURE if sick.is_set() else ANSWER

    async with routed(route("priority", a=1, b=9), a=moody, b=ANSWER) as (gate, ups):
        assert await chosen(gate, 3) == "aaa"
        sick.set()
        assert await chosen(gate, 2) == "bb"
        sick.clear()
        assert await chosen(gate, 2) == "aa"
        assert [len(up.requests) for up in ups.values()] == [7, 2]


async def test_weighted_shares_the_requests_by_weight(chance: FixedRandom) -> None:
    chance.give(0.0, 0.3, 0.6, 0.9)
    async with routed(route("weighted", a=3, b=1), a=ANSWER, b=ANSWER) as (gate, _):
        assert await chosen(gate, 12) == "aaab" * 3


async def test_weighted_tries_the_others_too(chance: FixedRandom) -> None:
    chance.give(0.0)
    async with routed(route("weighted", a=3, b=1), a=FAILURE, b=ANSWER) as (gate, _):
        assert await chosen(gate, 1) == "b"
        assert [each.target for each in gate.records[0].attempts] == ["a/m", "b/m"]


@asynccontextmanager
async def with_a_slow_a(chance: FixedRandom) -> AsyncIterator[Gate]:
    """`a` is made slow by what happens while it is waited for: ten answers of `b`, one after the other."""
    chance.give(0.5)
    late = asyncio.Event()
    async with routed(route("fastest", a=1, b=1), a=[Wait(late), *ANSWER], b=ANSWER) as (gate, ups):
        asking = asyncio.ensure_future(gate.ask(model="any", stream=True))
        await ups["a"].seen(1)
        for _ in range(10):
            assert_completed(await gate.ask(model="b/m", stream=True))
        late.set()
        assert_completed(await asking)
        await gate.settled(11)
        yield gate


async def test_fastest_takes_the_target_with_the_earliest_first_token(chance: FixedRandom) -> None:
    async with with_a_slow_a(chance) as gate:
        assert await chosen(gate, 4) == "bbbb"


async def test_fastest_measures_the_others_now_and_then(chance: FixedRandom) -> None:
    async with with_a_slow_a(chance) as gate:
        chance.give(0.04, 0.0)
        assert await chosen(gate, 1) == "a"


async def test_fastest_begins_with_unmeasured_targets(chance: FixedRandom) -> None:
    chance.give(0.5)
    async with routed(route("fastest", a=1, b=1, c=1), a=ANSWER, b=ANSWER, c=ANSWER) as (gate, _):
        assert sorted(await chosen(gate, 3)) == ["a", "b", "c"]


# Ejection: U39.


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.usefixtures("chance")
async def test_u39_a_target_that_failed_five_times_is_left_alone(dialect: str) -> None:
    async with serving(FAILURE) as (gate, up):
        ask: dict[str, Any] = {"path": path_of(dialect), "model": "up/m", "stream": True}
        for count, attempts in ((1, 3), (2, 2)):
            assert_refused(await gate.ask(**ask), FAILED, dialect)
            await assert_record(
                gate, "upstream_error", error=FAILED, status=502, attempts=[FAILED] * attempts, count=count
            )
        for count in (3, 4):
            assert_refused(await gate.ask(**ask), "no_available_deployment", dialect, retry_after="30")
            await assert_record(gate, "rejected", error="no_available_deployment", status=503, attempts=[], count=count)
        assert len(up.requests) == 5
        metrics = gate.gateway.metrics.text().split(b"\n")
        ejections = [line for line in metrics if line.startswith(b"streamweir_ejections")]
        assert [line.rpartition(b" ")[2] for line in ejections] == [b"1.0"]


async def test_u39_retry_after_is_at_most_two_minutes() -> None:
    async with serving(REFUSED, own="ejection_s = 300") as (gate, up):
        await eject(gate)
        reply = await gate.ask(model="up/m", stream=True)
        assert_refused(reply, "no_available_deployment", retry_after="120")
        await gate.settled(6)
        assert len(up.requests) == 5


@pytest.mark.usefixtures("chance")
async def test_u39_the_others_answer_for_an_ejected_target() -> None:
    async with routed(route("priority", a=1, b=1), a=FAILURE, b=ANSWER) as (gate, ups):
        assert await chosen(gate, 8) == "bbbbbbbb"
        assert [len(record.attempts) for record in gate.records] == [2, 2, 2, 2, 2, 1, 1, 1]
        assert [len(up.requests) for up in ups.values()] == [5, 8]


@pytest.mark.usefixtures("chance")
async def test_u39_streams_that_break_count_too() -> None:
    async with serving([Head(), Send(OPENAI.begun), Fin()]) as (gate, up):
        for _ in range(5):
            reply = await gate.ask(model="up/m", stream=True)
            assert_broken(reply, "upstream_stream_truncated", text=BEGUN)
        reply = await gate.ask(model="up/m", stream=True)
        assert_refused(reply, "no_available_deployment", retry_after="30")
        assert len(up.requests) == 5
        await gate.settled(6)


@pytest.mark.usefixtures("chance")
async def test_u39_an_answer_in_between_resets_the_count() -> None:
    def script(request: Seen) -> Sequence[Step]:
        return ANSWER if request.number % 5 == 4 else FAILURE

    async with serving(script) as (gate, up):
        for number in range(20):
            await gate.ask(model="up/m", stream=True)
            await gate.settled(number + 1)
        assert len(up.requests) >= 20
        assert "no_available_deployment" not in {record.error for record in gate.records}


@pytest.mark.usefixtures("chance")
@pytest.mark.parametrize("status", [400, 404, 413])
async def test_u39_what_is_no_fault_of_the_target_does_not_count(status: int) -> None:
    async with serving(whole(error_body("No."), status)) as (gate, up):
        for _ in range(10):
            await gate.ask(model="up/m", stream=True)
        await gate.settled(10)
        assert len(up.requests) == 10


class RecoveringUpstream:
    """An upstream that refuses us until it is well, and then answers when it is told to."""

    def __init__(self) -> None:
        self.is_well = False
        self.may_answer = asyncio.Event()

    def __call__(self, _: Seen) -> Sequence[Step]:
        return [Wait(self.may_answer), *ANSWER] if self.is_well else REFUSED


async def eject(gate: Gate) -> None:
    """Sends `up/m` away by five requests."""
    for count in range(1, 6):
        assert_refused(await gate.ask(model="up/m", stream=True), "upstream_auth_failed")
        await gate.settled(count)


NO_TIME_AWAY = "ejection_s = 0"
"""A target that was sent away may be probed at once."""


async def test_u39_one_request_at_a_time_probes_an_ejected_target() -> None:
    patient = RecoveringUpstream()
    async with serving(patient, own=NO_TIME_AWAY) as (gate, up):
        await eject(gate)
        patient.is_well = True
        probing = asyncio.ensure_future(gate.ask(model="up/m", stream=True))
        await up.seen(6)
        for count in (6, 7):
            reply = await gate.ask(model="up/m", stream=True)
            assert_refused(reply, "no_available_deployment", retry_after="1")
            await gate.settled(count)
        assert len(up.requests) == 6
        patient.may_answer.set()
        assert_completed(await probing)
        await assert_record(gate, "completed", count=8)
        both = await asyncio.gather(*(gate.ask(model="up/m", stream=True) for _ in range(2)))
        for reply in both:
            assert_completed(reply)
        await gate.settled(10)


async def test_u39_a_failed_probe_ejects_the_target_for_longer() -> None:
    """For as long as the settings say that are in effect then."""
    async with serving(REFUSED, own=NO_TIME_AWAY) as (gate, up):
        await eject(gate)
        gate.gateway.reload(configured(providers(up=up.base_url)))
        assert_refused(await gate.ask(model="up/m", stream=True), "upstream_auth_failed")
        await gate.settled(6)
        reply = await gate.ask(model="up/m", stream=True)
        assert_refused(reply, "no_available_deployment", retry_after="60")
        await gate.settled(7)
        assert len(up.requests) == 6


async def test_u39_a_probe_whose_caller_leaves_is_left_to_another() -> None:
    patient = RecoveringUpstream()
    async with serving(patient, own=NO_TIME_AWAY) as (gate, up):
        await eject(gate)
        patient.is_well = True
        async with await gate.connect() as client:
            await client.send(chat_request(model="up/m", stream=True))
            await up.seen(6)
        await up.aborted(1)
        await gate.settled(6)
        patient.may_answer.set()
        assert_completed(await gate.ask(model="up/m", stream=True))
        await assert_record(gate, "completed", count=7)


# Pauses that a provider asks for: U5.


def busy(status: int, seconds: int) -> list[Step]:
    return whole(error_body(CANARY), status, [("retry-after", str(seconds))])


@pytest.mark.usefixtures("chance")
async def test_u5_all_targets_limit_their_rate() -> None:
    async with routed(route("priority", a=1, b=1), a=busy(429, 9), b=busy(429, 7)) as (gate, ups):
        reply = await gate.ask(model="any", stream=True)
        assert_refused(reply, "upstream_rate_limited", retry_after="7")
        reply = await gate.ask(model="any", stream=True)
        assert_refused(reply, "upstream_rate_limited", retry_after="7")
        code = "upstream_rate_limited"
        await assert_record(gate, "upstream_error", error=code, status=429, attempts=[], count=2)
        assert [len(up.requests) for up in ups.values()] == [1, 1]


@pytest.mark.usefixtures("chance")
async def test_u10_a_pause_that_an_overloaded_provider_asks_for_is_kept() -> None:
    async with routed(route("priority", a=1, b=1), a=busy(503, 50), b=ANSWER) as (gate, ups):
        assert await chosen(gate, 3) == "bbb"
        assert [len(up.requests) for up in ups.values()] == [1, 3]
