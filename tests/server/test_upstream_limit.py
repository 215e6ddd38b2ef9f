"""An upstream that takes too long, or sends too much: docs/spec/failures.md U14, U15, U16, U25 and U26.

The timers are the real ones, set to milliseconds by the configuration. No test waits for a time:
each waits for the answer, and for the upstream to be hung up on.
"""

import resource

import pytest

from support.answers import openai_frames
from support.outcome import (
    BUFFERING,
    DIALECTS,
    ESTIMATED_PROMPT,
    assert_broken,
    assert_record,
    assert_refused,
    path_of,
    serving,
)
from support.script import Drip, Flood, Hang, Head, Line, Send, Step, chunk_bytes, whole
from support.wire_samples import BEGUN, OPENAI, VOICES, Voice

each_dialect = pytest.mark.parametrize("dialect", DIALECTS)
each_buffering = pytest.mark.parametrize("dialect", BUFFERING)
each_voice = pytest.mark.parametrize("voice", VOICES, ids=lambda voice: voice.kind)
PARTIAL = {"openai": "estimate", "anthropic": "estimate", "gemini": "provider"}
BEGUN_TOKENS = 3
"""What `BEGUN` is worth by our own count."""
MIB = 1024 * 1024
KERNEL = 8 * MIB
"""More than the sockets between two ends hold. What is sent beyond it has been read."""


def timers(**seconds: float) -> str:
    """The server's timeouts; those that are not named are too long to ever ring here."""
    chosen = {"first_event_s": 60, "idle_s": 60, "assembly_s": 60, "total_s": 60, "silence_s": 0.01, **seconds}
    return "[server.timeouts]\n" + "".join(f"{name} = {value}\n" for name, value in chosen.items())


# U14


@each_dialect
@pytest.mark.parametrize("steps", [[Hang()], [Head(), Hang()]], ids=["no_head", "head"])
async def test_u14_no_answer_before_the_commit(steps: list[Step], dialect: str) -> None:
    async with serving(steps, toml=timers(first_event_s=0.05)) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        assert_refused(reply, "upstream_timeout", dialect)
        await assert_record(gate, "first_token_timeout", error="upstream_timeout", status=504, source="estimate")
        await up.vacated()


@each_voice
async def test_u14_scaffolding_is_no_answer(voice: Voice) -> None:
    first = b": hello\n\n" + b"".join(voice.frames[: {"openai": 1, "anthropic": 2, "gemini": 0}[voice.kind]])
    async with serving([Head(), Send(first), Hang()], voice.kind, timers(first_event_s=0.05)) as (gate, up):
        assert_refused(await gate.ask(model="up/m", stream=True), "upstream_timeout")
        await assert_record(gate, "first_token_timeout", error="upstream_timeout", status=504, source="estimate")
        await up.vacated()


async def test_u14_comments_are_no_answer() -> None:
    async with serving([Head(), Drip(b": ping\n" * 2000, 0.002, 7), Hang()], toml=timers(first_event_s=0.05)) as both:
        gate, up = both
        assert_refused(await gate.ask(model="up/m", stream=True), "upstream_timeout")
        await assert_record(gate, "first_token_timeout", error="upstream_timeout", status=504, source="estimate")
        await up.vacated()


@each_dialect
@pytest.mark.parametrize("steps", [[Hang()], [Head(), Hang()], [Head(), Send(b": x\n"), Hang()]])
async def test_u14_no_answer_after_the_commit(steps: list[Step], dialect: str) -> None:
    async with serving(steps, toml=timers(first_event_s=0.1, commit_s=0)) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        assert_broken(reply, "upstream_timeout", dialect, text="")
        await assert_record(
            gate,
            "first_token_timeout",
            error="upstream_timeout",
            source="estimate",
            usage=(ESTIMATED_PROMPT, 0),
        )
        await up.aborted(1)
        await up.vacated()


@each_buffering
@pytest.mark.parametrize(
    "steps", [[Hang()], [Head(200, "application/json", framing=9), Hang()]], ids=["no_head", "head"]
)
async def test_u14_a_buffered_answer_has_until_the_deadline(steps: list[Step], dialect: str) -> None:
    async with serving(steps, toml=timers(first_event_s=0.01, total_s=0.05)) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=False)
        assert_refused(reply, "stream_deadline_exceeded", dialect)
        await assert_record(gate, "deadline", error="stream_deadline_exceeded", status=504, source="estimate")
        await up.aborted(1)
        await up.vacated()


# U15


@each_dialect
@each_voice
async def test_u15_silence_in_the_middle(voice: Voice, dialect: str) -> None:
    async with serving([Head(), Send(voice.begun), Hang()], voice.kind, timers(idle_s=0.05)) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        assert_broken(reply, "stream_idle_timeout", dialect, text=BEGUN)
        await assert_record(gate, "idle_timeout", error="stream_idle_timeout", source=PARTIAL[voice.kind])
        await up.aborted(1)
        await up.vacated()


@pytest.mark.parametrize("dialect", ["openai", "messages", "responses"])
async def test_u15_keep_alives_are_sent_until_the_timeout(dialect: str) -> None:
    toml = timers(idle_s=1, keepalive_s=0.01)
    async with serving([Head(), Send(OPENAI.begun), Hang()], toml=toml) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        assert_broken(reply, "stream_idle_timeout", dialect, text=BEGUN)
        if dialect == "messages":
            assert b"\n\nevent: ping\n" in reply.body
        elif dialect == "responses":
            assert b"\n\nevent: keepalive\n" in reply.body
        else:
            assert b"\n\n: keep-alive\n" in reply.body
        assert b": keep-alive\n\n" not in reply.body
        await assert_record(
            gate,
            "idle_timeout",
            error="stream_idle_timeout",
            source="estimate",
            usage=(ESTIMATED_PROMPT, BEGUN_TOKENS),
        )
        await up.vacated()


@each_buffering
async def test_u15_silence_in_the_middle_of_a_buffered_answer(dialect: str) -> None:
    cut: list[Step] = [*whole(OPENAI.whole)[:1], Send(OPENAI.whole[:30]), Hang()]
    async with serving(cut, toml=timers(idle_s=0.05)) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=False)
        assert_refused(reply, "stream_idle_timeout", dialect)
        await assert_record(gate, "idle_timeout", error="stream_idle_timeout", status=504, source="estimate")
        await up.vacated()


# U16


@each_dialect
@each_voice
async def test_u16_one_event_that_drips_for_ever(voice: Voice, dialect: str) -> None:
    steps: list[Step] = [Head(), Send(voice.begun), Drip(b"data: " + b" " * 5000, 0.002), Hang()]
    async with serving(steps, voice.kind, timers(assembly_s=0.05)) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        assert_broken(reply, "stream_deadline_exceeded", dialect, text=BEGUN)
        await assert_record(gate, "deadline", error="stream_deadline_exceeded", source=PARTIAL[voice.kind])
        await up.aborted(1)
        await up.vacated()


@each_dialect
async def test_u16_an_answer_that_takes_longer_than_all_of_it_may(dialect: str) -> None:
    word = openai_frames(["a"], usage=None, finish=None, done=False)[1]
    steps: list[Step] = [Head(), Send(OPENAI.begun), Drip(word * 5000, 0.002, len(word)), Hang()]
    async with serving(steps, toml=timers(total_s=0.1)) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        count = reply.body.count(b'"a"')
        assert_broken(reply, "stream_deadline_exceeded", dialect, text=BEGUN + "a" * count)
        record = await assert_record(gate, "deadline", error="stream_deadline_exceeded", source="estimate")
        assert record.usage is not None
        assert record.usage.completion_tokens == -(-(len(BEGUN) + count) // 4)
        await up.aborted(1)
        await up.vacated()


@each_buffering
async def test_u16_a_buffered_answer_that_drips_for_ever(dialect: str) -> None:
    steps: list[Step] = [Head(200, "application/json", framing=10_000), Drip(b" " * 10_000, 0.002), Hang()]
    async with serving(steps, toml=timers(total_s=0.1)) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=False)
        assert_refused(reply, "stream_deadline_exceeded", dialect)
        await assert_record(gate, "deadline", error="stream_deadline_exceeded", status=504, source="estimate")
        await up.vacated()


# U25


@each_dialect
@each_voice
async def test_u25_a_line_without_an_end(voice: Voice, dialect: str) -> None:
    steps: list[Step] = [Head(), Send(voice.begun), Send(b"data: "), Flood(b"x" * 65536)]
    async with serving(steps, voice.kind) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        assert_broken(reply, "upstream_frame_too_large", dialect, text=BEGUN)
        await assert_record(gate, "upstream_error", error="upstream_frame_too_large", source=PARTIAL[voice.kind])
        await up.aborted(1)
        assert up.body_sent < MIB + KERNEL
        await up.vacated()


@each_voice
@pytest.mark.parametrize("is_streamed", [True, False])
async def test_u25_a_line_without_an_end_before_the_first_token(voice: Voice, is_streamed: bool) -> None:
    async with serving([Head(), Flood(b"x" * 65536)], voice.kind) as (gate, up):
        assert_refused(await gate.ask(model="up/m", stream=is_streamed), "upstream_frame_too_large")
        await assert_record(gate, "upstream_error", error="upstream_frame_too_large", status=502)
        await up.vacated()


@pytest.mark.soak
async def test_u25_a_gibibyte_without_an_end_takes_no_memory() -> None:
    block = chunk_bytes(b"x" * 65536)  # made once: the upstream shares the process whose memory is looked at

    async def flood(line: Line) -> None:
        for _ in range(1024**3 // 65536):
            await line.raw(block)

    async with serving([Head(), Send(OPENAI.begun), flood, Hang()]) as (gate, up):
        assert_broken(await gate.ask(model="up/0", stream=True), "upstream_frame_too_large", text=BEGUN)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for number in range(1, 50):
            await gate.ask(model=f"up/{number}", stream=True)
        await gate.settled(50)
        await up.aborted(50)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before <= 2048


# U26


@each_dialect
async def test_u26_more_bytes_than_an_answer_may_have(dialect: str) -> None:
    word = openai_frames(["a"], usage=None, finish=None, done=False)[1]
    toml = "[server.limits]\nresponse_bytes = 50000\n"
    async with serving([Head(), Send(OPENAI.begun), Flood(word)], toml=toml) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        count = reply.body.count(b'"a"')
        assert_broken(reply, "response_too_large", dialect, text=BEGUN + "a" * count)
        assert count >= 50_000 // len(word) - 10
        await assert_record(gate, "upstream_error", error="response_too_large", source="estimate")
        await up.aborted(1)
        await up.vacated()


@each_buffering
async def test_u26_more_bytes_than_a_buffered_answer_may_have(dialect: str) -> None:
    toml = "[server.limits]\nresponse_bytes = 50000\n"
    async with serving([Head(200, "application/json"), Send(b'{"a":"'), Flood(b"x" * 1000)], toml=toml) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=False)
        assert_refused(reply, "response_too_large", dialect)
        await assert_record(gate, "upstream_error", error="response_too_large", status=502)
        await up.aborted(1)
        await up.vacated()


@each_dialect
async def test_u26_far_more_tokens_than_were_asked_for(dialect: str) -> None:
    word = openai_frames(["a" * 100], usage=None, finish=None, done=False)[1]
    steps: list[Step] = [Head(), Send(OPENAI.begun), Drip(word * 5000, 0.001, len(word)), Hang()]
    async with serving(steps, toml=timers()) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True, max_tokens=100)
        count = reply.body.count(b'"aaa')
        assert_broken(reply, "response_too_large", dialect, text=BEGUN + "a" * 100 * count)
        assert count * 100 > 4 * 4 * 100 - len(BEGUN) - 100
        await assert_record(gate, "upstream_error", error="response_too_large", source="estimate")
        await up.aborted(1)
        await up.vacated()
