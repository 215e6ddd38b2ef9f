"""The allowance of an answer: its owner is called when the answer exceeds it (C24)."""

import asyncio
import json

import pytest

from streamweir.core.errors import CallerError
from streamweir.core.verdict import Verdict
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.plan import Mode
from streamweir.server.relay.deadlines import next_check_at
from streamweir.server.relay.relay import Relay
from support.answers import gemini_frames, openai_frames, openai_stream, openai_whole
from support.attempt import attempt, texts_of
from support.script import End, Flood, Hang, Head, Send, Step, Wait, stream, whole

BUDGET = CallerError("budget_exceeded", "The budget is spent.")
WORDS = ["word" * 10] * 200
"""Each is ten tokens, by the rule of thumb."""


class Overruns:
    """Counts them, and does what the test wants done."""

    def __init__(self, relay: Relay, meter: Meter, does: str, grants: int) -> None:
        self.at: list[int] = []
        self._relay, self._meter, self._does, self._grants = relay, meter, does, grants

    def __call__(self) -> None:
        self.at.append(self._meter.tokens_so_far())
        if self._does == "grant":
            self._grants += 500
            self._relay.set_allowance(self._grants)
        elif self._does == "cut":
            self._relay.cut(BUDGET)
        elif self._does == "hold":
            self._relay.pause_output()


class Watched:
    """An attempt's relay with an allowance, and its overruns."""

    def __init__(self, tokens: int, does: str = "") -> None:
        self.meter = Meter(3)
        self._tokens, self._does = tokens, does

    def prepare(self, relay: Relay) -> None:
        self.overruns = relay.on_overrun = Overruns(relay, self.meter, self._does, self._tokens)
        relay.set_allowance(self._tokens)


def piecewise(frames: list[bytes]) -> list[Step]:
    return [Head(), *(Send(frame) for frame in frames), End()]


@pytest.mark.parametrize("mode", list(Mode))
async def test_an_answer_within_its_reservation_causes_no_callback(mode: Mode) -> None:
    watched = Watched(2000)
    async with attempt(piecewise(openai_frames(WORDS)), mode=mode, meter=watched.meter, prepare=watched.prepare) as (
        run,
        _,
    ):
        await run.over()
        assert watched.overruns.at == []
        assert texts_of(run.documents) == "".join(WORDS)


@pytest.mark.parametrize(("tokens", "is_counted"), [(4 * 40 * 200, False), (4 * 40 * 200 - 1000, True)])
async def test_an_answer_is_counted_only_where_it_could_be_longer_than_its_allowance(
    tokens: int, is_counted: bool
) -> None:
    """A character is four bytes at the most, and no text has more tokens than bytes."""
    counted = []

    def prepare(relay: Relay) -> None:
        def exceeds(allowed: int) -> bool:
            counted.append(allowed)
            return False

        relay.exceeds = exceeds
        relay.set_allowance(tokens)

    async with attempt(piecewise(openai_frames(WORDS)), meter=Meter(3), prepare=prepare) as (run, _):
        await run.over()
        assert texts_of(run.documents) == "".join(WORDS)
        assert bool(counted) is is_counted


@pytest.mark.parametrize("mode", list(Mode))
async def test_an_overrun_is_reported_once_and_soon(mode: Mode) -> None:
    watched = Watched(1000)
    async with attempt(piecewise(openai_frames(WORDS)), mode=mode, meter=watched.meter, prepare=watched.prepare) as (
        run,
        _,
    ):
        await run.over()
        (at,) = watched.overruns.at
        assert 1000 < at <= 1000 + 64 + 10, "a few frames more, at the most"
        assert texts_of(run.documents) == "".join(WORDS)


async def test_with_a_new_allowance_the_overrun_is_reported_again() -> None:
    watched = Watched(500, "grant")
    async with attempt(piecewise(openai_frames(WORDS)), meter=watched.meter, prepare=watched.prepare) as (run, _):
        await run.over()
        assert [at // 500 for at in watched.overruns.at] == [1, 2, 3]
        assert run.meter.settle().verdict is Verdict.COMPLETED


@pytest.mark.parametrize("bills_on", [True, False])
async def test_it_may_be_cut_from_within(bills_on: bool) -> None:
    watched, go_on = Watched(500, "cut"), asyncio.Event()
    frames = openai_frames(WORDS)
    script: list[Step] = [Head(), *(Send(frame) for frame in frames[:120]), Wait(go_on)]
    script += [Send(b"".join(frames[120:])), End()]
    async with attempt(script, bills_on=bills_on, meter=watched.meter, prepare=watched.prepare) as (run, _):
        await run.until(lambda: run.response.over)
        go_on.set()
        await run.over()
        *before, error, _ = run.documents
        assert error["error"]["code"] == "budget_exceeded"
        assert 1900 < len(texts_of(before)) < 2000 + 256 + 40
        settled = run.meter.settle()
        assert settled.verdict is Verdict.STOPPED
        assert settled.usage.completion_tokens == (200 if bills_on else len(texts_of(before)) // 4)


async def test_it_may_be_held_back_from_within_until_more_is_paid_for() -> None:
    watched = Watched(500, "hold")
    async with attempt(piecewise(openai_frames(WORDS)), meter=watched.meter, prepare=watched.prepare) as (run, _):
        await run.until(lambda: len(watched.overruns.at) == 1)
        written = run.written
        await asyncio.sleep(0)
        assert run.written == written
        run.relay.set_allowance(10_000)
        run.relay.resume_output()
        await run.over()
        assert len(watched.overruns.at) == 1
        assert texts_of(run.documents) == "".join(WORDS)


async def test_the_providers_own_count_is_used_if_it_is_higher() -> None:
    """Reasoning that nobody sees is in it; it is looked at with the clock."""
    frames = gemini_frames(["a", "b"], usage=(7, 90_000), finish=None)
    watched = Watched(500)
    script: list[Step] = [Head(), *(Send(frame) for frame in frames), Hang()]
    async with attempt(
        script, "gemini", meter=watched.meter, prepare=watched.prepare, keepalive_s=0.02, bills_on=False
    ) as (run, _):
        await run.until(lambda: bool(watched.overruns.at))
        assert watched.overruns.at == [90_000]
        run.relay.stop(BUDGET)
        await run.over()


@pytest.mark.parametrize("is_streamed", [False, True], ids=["buffered", "in one piece"])
async def test_an_answer_that_is_whole_is_delivered_whatever_its_length(is_streamed: bool) -> None:
    """It will be billed: nothing is saved by throwing it away."""
    text, watched = "word" * 5000, Watched(1000, "cut")
    script = stream(openai_stream([text], usage=(7, 5000))) if is_streamed else whole(openai_whole(text, (7, 5000)))
    async with attempt(script, stream=is_streamed, meter=watched.meter, prepare=watched.prepare) as (run, _):
        await run.over()
        assert watched.overruns.at == []
        settled = run.meter.settle()
        assert (settled.verdict, settled.usage.completion_tokens) == (Verdict.COMPLETED, 5000)
        if is_streamed:
            assert texts_of(run.documents) == text
        else:
            assert json.loads(run.body)["choices"][0]["message"]["content"] == text


async def test_an_allowance_can_be_taken_back() -> None:
    watched = Watched(10)

    def prepare(relay: Relay) -> None:
        watched.prepare(relay)
        relay.set_allowance(None)

    async with attempt(piecewise(openai_frames(WORDS)), meter=watched.meter, prepare=prepare) as (run, _):
        await run.over()
        assert watched.overruns.at == []


async def test_the_largest_answer_is_bounded_all_the_same() -> None:
    watched = Watched(1 << 40)
    script: list[Step] = [Head(), Send(openai_frames()[0]), Flood(openai_frames(["x" * 4096])[1])]
    async with attempt(script, meter=watched.meter, prepare=watched.prepare, max_bytes=65536) as (run, up):
        await run.over()
        await up.aborted(1)
        assert run.documents[-2]["error"]["code"] == "response_too_large"


@pytest.mark.parametrize(
    ("tokens", "left", "step"),
    [
        (0, 0, 256),
        (0, 10, 256),
        (0, 1000, 1000),
        (0, 1 << 40, 1 << 20),
        # 200 bytes a token: half of that is foretold for each that is left.
        (50, 0, 256),
        (50, 15, 1500),
        (50, 100, 10_000),
        (50, 1000, 1000 + 16_384),
        (50, 1 << 40, 1 << 20),
        # Nothing but text, or fewer bytes than tokens: the provider counts what nobody sees.
        (2500, 1000, 2000),
        (90_000, 1000, 1000),
    ],
)
def test_when_it_is_checked_next(tokens: int, left: int, step: int) -> None:
    assert next_check_at(10_000, tokens, left, 1 << 20) == min(1 << 20, 10_000 + step)


@pytest.mark.parametrize("mode", list(Mode))
async def test_frames_that_suddenly_carry_more_text_pass_unseen_for_a_bounded_length(mode: Mode) -> None:
    watched = Watched(3000)
    frames = openai_frames([*["word"] * 500, *["word" * 100] * 100])
    async with attempt(piecewise(frames), mode=mode, meter=watched.meter, prepare=watched.prepare) as (run, _):
        await run.over()
        (at,) = watched.overruns.at
        assert 3000 < at <= 3000 + 16_384 // 4 + 100
