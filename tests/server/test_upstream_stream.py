"""A stream that is not as it should be: docs/spec/failures.md U18 to U24, U28, U29, U34 and U35.

What can be read in one way only is read so; everything else ends in an error frame and the
terminator, in each dialect, and the upstream's connection is closed. Cuts at every byte (U17) are
in `test_upstream_cuts`, usage is in `test_upstream_usage`.
"""

import asyncio
import json
import random
from collections.abc import Callable, Sequence

import pytest

from support.answers import error_body, error_frame, openai_frames, openai_stream
from support.outcome import (
    BUFFERING,
    CANARY,
    DIALECTS,
    ESTIMATED_PROMPT,
    TEXT,
    ask_and_signal,
    assert_broken,
    assert_completed,
    assert_record,
    assert_refused,
    assert_whole,
    path_of,
    serving,
)
from support.script import End, Fin, Hang, Head, Rst, Send, Step, Wait, stream
from support.wire_samples import ANTHROPIC, BEGUN, OPENAI, VOICES, Voice

pytestmark = [pytest.mark.usefixtures("no_jitter"), pytest.mark.diagonal]

DONE = b"data: [DONE]\n\n"
LAST_WORD = b'"."'
BEGUN_WORD = b'" from"'
TRUNCATED, RESET, INVALID = "upstream_stream_truncated", "upstream_stream_reset", "upstream_invalid_frame"
PARTIAL = {"openai": "estimate", "anthropic": "estimate", "gemini": "provider"}
"""Who counted the tokens of a stream that broke: OpenAI's wire tells the usage at its end only."""

OWN_WORDS = ("messages", "responses")
"""The APIs with words of their own for what fails inside a stream, and with `event` lines."""
each_dialect = pytest.mark.parametrize("dialect", DIALECTS)
each_buffering = pytest.mark.parametrize("dialect", BUFFERING)
each_voice = pytest.mark.parametrize("voice", VOICES, ids=lambda voice: voice.kind)
each_usage = pytest.mark.parametrize(
    ("has_usage", "source", "usage"),
    [(True, "provider", (7, 5)), (False, "estimate", (ESTIMATED_PROMPT, 5))],
    ids=["usage", "no_usage"],
)


async def assert_breaks(
    voice: Voice, steps: Sequence[Step], code: str, dialect: str, *, verdict: str, text: str = BEGUN
) -> None:
    """The stream breaks with this code, and its connection is not kept, unless its body was whole."""
    async with serving(steps, voice.kind) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        assert_broken(reply, code, dialect, text=text)
        await assert_record(gate, verdict, error=code, source=PARTIAL[voice.kind])
        await (up.idle() if isinstance(steps[-1], End) else up.vacated())
        assert len(up.requests) == 1


async def assert_fails_whole(
    voice: Voice, steps: Sequence[Step], code: str, dialect: str, *, verdict: str, attempts: int
) -> None:
    """The same for a caller who waits for the whole: a status, and no attempt left open."""
    async with serving(steps, voice.kind) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=False)
        assert_refused(reply, code, dialect)
        record = await assert_record(gate, verdict, error=code, status=reply.status, attempts=[code] * attempts)
        assert record.usage is None
        await (up.idle() if isinstance(steps[-1], End) else up.vacated())
        assert len(up.requests) == attempts


# U18, U19, U20, U21: how it ends.


@each_dialect
@each_voice
async def test_u18_a_clean_end_without_a_finish(voice: Voice, dialect: str) -> None:
    await assert_breaks(voice, stream(voice.unfinished), TRUNCATED, dialect, verdict="truncated", text=TEXT)


@each_buffering
@each_voice
async def test_u18_a_clean_end_without_a_finish_buffered(voice: Voice, dialect: str) -> None:
    await assert_fails_whole(voice, stream(voice.unfinished), TRUNCATED, dialect, verdict="truncated", attempts=3)


@each_dialect
async def test_u18_done_without_a_finish(dialect: str) -> None:
    await assert_breaks(OPENAI, stream(OPENAI.unfinished + DONE), TRUNCATED, dialect, verdict="truncated", text=TEXT)


@each_dialect
@each_usage
async def test_u19_a_finish_without_done(has_usage: bool, source: str, usage: tuple[int, int], dialect: str) -> None:
    async with serving(stream(openai_stream(usage=has_usage, done=False))) as (gate, up):
        assert_completed(await gate.ask(path=path_of(dialect), model="up/m", stream=True), dialect)
        await assert_record(gate, "completed", source=source, usage=usage)
        await up.idle()
        assert up.open_connections == 1


@each_dialect
@each_usage
async def test_u19_silence_after_the_finish_is_the_end(
    has_usage: bool, source: str, usage: tuple[int, int], dialect: str
) -> None:
    steps: list[Step] = [Head(), Send(openai_stream(usage=has_usage, done=False)), Hang()]
    async with serving(steps, toml="[server.timeouts]\nsilence_s = 0.02\n") as (gate, up):
        assert_completed(await gate.ask(path=path_of(dialect), model="up/m", stream=True), dialect)
        await assert_record(gate, "completed", source=source, usage=usage)
        await up.aborted(1)
        await up.vacated()


@each_dialect
@pytest.mark.parametrize(("ending", "code"), [(Fin(), TRUNCATED), (Rst(), RESET)], ids=["fin", "rst"])
async def test_u19_a_cut_after_the_finish_is_not_the_end(ending: Step, code: str, dialect: str) -> None:
    seen = asyncio.Event()
    async with serving([Head(), Send(openai_stream(done=False)), Wait(seen), ending]) as (gate, up):
        reply = await ask_and_signal(gate, LAST_WORD, seen, path=path_of(dialect), model="up/m")
        assert_broken(reply, code, dialect, text=TEXT)
        await assert_record(gate, "truncated", error=code, usage=(7, 5))
        await up.vacated()


@each_dialect
@each_voice
async def test_u20_a_reset_in_the_middle(voice: Voice, dialect: str) -> None:
    seen = asyncio.Event()
    async with serving([Head(), Send(voice.begun), Wait(seen), Rst()], voice.kind) as (gate, up):
        reply = await ask_and_signal(gate, BEGUN_WORD, seen, path=path_of(dialect), model="up/m")
        assert_broken(reply, RESET, dialect, text=BEGUN)
        await assert_record(gate, "truncated", error=RESET, source=PARTIAL[voice.kind])
        await up.vacated()
        assert len(up.requests) == 1


@each_dialect
@pytest.mark.parametrize("voice", [OPENAI, ANTHROPIC], ids=lambda voice: voice.kind)
@pytest.mark.parametrize("ending", [Fin(), Rst()], ids=["fin", "rst"])
async def test_u21_no_end_of_the_body_after_the_last_frame(voice: Voice, ending: Step, dialect: str) -> None:
    seen = asyncio.Event()
    async with serving([Head(), Send(voice.stream), Wait(seen), ending], voice.kind) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        assert_completed(reply, dialect)
        await assert_record(gate, "completed", usage=(7, 5))
        seen.set()
        await up.vacated()


async def test_u21_a_connection_that_falls_silent_after_the_last_frame_is_not_waited_for() -> None:
    async with serving([Head(), Send(openai_stream()), Hang()]) as (gate, up):
        assert_completed(await gate.ask(model="up/m", stream=True))
        await assert_record(gate, "completed", usage=(7, 5))
        await up.aborted(1)
        await up.vacated()


# U22, U23, U24: what is in a frame.


BROKEN = {
    "half": b'data: {"a":\n\n',
    "word": b"data: nul\n\n",
    "text": b"data: foo\n\n",
    "number": b"data: 5\n\n",
    "deep": b"data: " + b"[" * 100_000 + b"\n\n",
    "surrogate": b'data: {"candidates":[{"index":0,"content":{"parts":[{"text":"\xed\xa0\x80"}]}}]}\n\n',
    "utf8": b'data: {"choices":[{"index":0,"delta":{"content":"canary \xff"}}]}\n\n',
}
each_broken = pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())


@each_dialect
@each_voice
@each_broken
async def test_u22_u24_a_frame_that_cannot_be_read(voice: Voice, broken: bytes, dialect: str) -> None:
    steps: list[Step] = [Head(), Send(voice.begun), Send(broken), Send(voice.stream), Hang()]
    await assert_breaks(voice, steps, INVALID, dialect, verdict="upstream_error")


@each_voice
@each_broken
async def test_u22_u24_a_frame_that_cannot_be_read_before_the_first_token(voice: Voice, broken: bytes) -> None:
    async with serving([Head(), Send(broken), Send(voice.stream), Hang()], voice.kind) as (gate, up):
        assert_refused(await gate.ask(model="up/m", stream=True), INVALID)
        await assert_record(gate, "upstream_error", error=INVALID, status=502)
        await up.vacated()


@each_buffering
@each_voice
async def test_u22_a_frame_that_cannot_be_read_buffered(voice: Voice, dialect: str) -> None:
    steps: list[Step] = [Head(), Send(voice.begun), Send(BROKEN["text"]), Hang()]
    await assert_fails_whole(voice, steps, INVALID, dialect, verdict="upstream_error", attempts=1)


@each_dialect
@each_voice
@pytest.mark.parametrize("is_overloaded", [True, False], ids=["overloaded", "failed"])
async def test_u23_an_error_in_the_middle(voice: Voice, is_overloaded: bool, dialect: str) -> None:
    frame = voice.error_frame(CANARY, voice.overloaded if is_overloaded else voice.failed)
    code = "upstream_overloaded" if is_overloaded else "upstream_server_error"
    steps: list[Step] = [Head(), Send(voice.begun), Send(frame), Send(voice.stream), Hang()]
    await assert_breaks(voice, steps, code, dialect, verdict="upstream_error")


@each_dialect
@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("rate_limit_exceeded", "upstream_rate_limited"),
        ("insufficient_quota", "upstream_quota_exhausted"),
        ("invalid_api_key", "upstream_auth_failed"),
        ("model_not_found", "upstream_model_not_found"),
    ],
)
async def test_u23_an_error_without_a_code_of_its_own_in_a_stream(kind: str, code: str, dialect: str) -> None:
    frame = error_frame(error_body(CANARY, kind, kind))
    async with serving([Head(), Send(OPENAI.begun), Send(frame), Hang()]) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        assert_broken(reply, code if dialect in OWN_WORDS else "upstream_server_error", dialect, text=BEGUN)
        await assert_record(gate, "upstream_error", error=code, source="estimate")
        await up.vacated()


@each_dialect
async def test_u23_a_refusal_of_the_request_in_mid_stream_is_a_failure(dialect: str) -> None:
    frame = error_frame(error_body(CANARY, "invalid_request_error", "context_length_exceeded"))
    async with serving([Head(), Send(OPENAI.begun), Send(frame), Hang()]) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        code = "context_length_exceeded"
        assert_broken(reply, code if dialect in OWN_WORDS else "upstream_server_error", dialect, text=BEGUN)
        await assert_record(gate, "rejected", error=code, source="estimate")
        await up.vacated()


@each_dialect
@each_voice
async def test_u23_an_error_before_the_first_token_has_a_status(voice: Voice, dialect: str) -> None:
    first = b"".join(voice.frames[: {"openai": 1, "anthropic": 2, "gemini": 0}[voice.kind]])
    steps: list[Step] = [Head(), Send(first), Send(voice.error_frame(CANARY, voice.overloaded)), Hang()]
    async with serving(steps, voice.kind) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        code = "upstream_overloaded"
        assert_refused(reply, code, dialect)
        await assert_record(gate, "upstream_error", error=code, status=reply.status, attempts=[code] * 3)
        await up.vacated()


@each_dialect
@each_voice
async def test_u24_a_byte_order_mark_is_skipped(voice: Voice, dialect: str) -> None:
    async with serving(stream(b"\xef\xbb\xbf" + voice.stream, pieces_of=1), voice.kind) as (gate, _):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        assert_completed(reply, dialect)
        assert b"\xef\xbb\xbf" not in reply.body
        await assert_record(gate, "completed", usage=(7, 5))


# U28, U29: what comes after the end.


@each_dialect
@pytest.mark.parametrize("more", [DONE, DONE * 3], ids=["twice", "often"])
async def test_u28_done_more_than_once(more: bytes, dialect: str) -> None:
    async with serving(stream(openai_stream() + more)) as (gate, up):
        assert_completed(await gate.ask(path=path_of(dialect), model="up/m", stream=True), dialect)
        await assert_record(gate, "completed", usage=(7, 5))
        await up.idle()


JUNK = b"".join(openai_frames(["canary"], usage=(1000, 1000)))


@each_dialect
@pytest.mark.parametrize("voice", [OPENAI, ANTHROPIC], ids=lambda voice: voice.kind)
async def test_u29_frames_after_the_end_in_the_same_read(voice: Voice, dialect: str) -> None:
    async with serving(stream(voice.stream + JUNK), voice.kind) as (gate, up):
        assert_completed(await gate.ask(path=path_of(dialect), model="up/m", stream=True), dialect)
        await assert_record(gate, "completed", usage=(7, 5))
        await up.vacated()


@each_dialect
@pytest.mark.parametrize("voice", [OPENAI, ANTHROPIC], ids=lambda voice: voice.kind)
async def test_u29_frames_after_the_end_in_a_later_read(voice: Voice, dialect: str) -> None:
    over = asyncio.Event()
    async with serving([Head(), Send(voice.stream), Wait(over), Send(JUNK), End()], voice.kind) as (gate, up):
        assert_completed(await gate.ask(path=path_of(dialect), model="up/m", stream=True), dialect)
        await assert_record(gate, "completed", usage=(7, 5))
        over.set()
        await up.vacated()


# U34, U35: how it is written.


def with_crlf(body: bytes) -> bytes:
    return body.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def with_cr(body: bytes) -> bytes:
    return body.replace(b"\r\n", b"\n").replace(b"\n", b"\r")


def with_any_line_end(body: bytes) -> bytes:
    chance = random.Random(34)
    lines = body.replace(b"\r\n", b"\n").split(b"\n")
    # A CR before an empty line that ends in LF would be one line end: there, only LF and CRLF.
    ends = [chance.choice([b"\n", b"\r\n"] if follower == b"" else [b"\n", b"\r\n", b"\r"]) for follower in lines[1:]]
    return b"".join(line + end for line, end in zip(lines, [*ends, b""], strict=True))


def with_many_lines(body: bytes) -> bytes:
    """Each document over several `data` lines."""
    lines = []
    for line in body.replace(b"\r\n", b"\n").split(b"\n"):
        if line.startswith(b"data: {"):
            indented = json.dumps(json.loads(line[6:]), indent=1, ensure_ascii=False).encode()
            lines += [b"data: " + each for each in indented.split(b"\n")]
        else:
            lines.append(line)
    return b"\n".join(lines)


def with_other_fields(body: bytes) -> bytes:
    """Comments and fields that mean nothing to us, before, between and behind the data lines."""
    noise = b": canary\nid: canary\nretry: 10\nfoo: canary\n"
    stripped = body.replace(b"\r\n", b"\n")
    return b": canary\n\nretry: 10\n\nevent: ping\n\n" + stripped.replace(b"data: ", noise + b"data:") + b": canary\n"


WAYS: dict[str, Callable[[bytes], bytes]] = {
    "crlf": with_crlf,
    "cr": with_cr,
    "any_line_end": with_any_line_end,
    "many_lines": with_many_lines,
    "other_fields": with_other_fields,
}


@each_voice
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("pieces_of", [1, 7, None], ids=["bytes", "sevens", "one_piece"])
async def test_u34_u35_one_stream_written_in_many_ways(
    voice: Voice, way: Callable[[bytes], bytes], pieces_of: int | None
) -> None:
    async with serving(stream(way(voice.stream), pieces_of), voice.kind) as (gate, _):
        for count, dialect in enumerate(DIALECTS, start=1):
            reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
            if (voice.kind, dialect) == ("anthropic", "messages"):  # it goes out as it came, but for blank lines
                assert reply.status == 200
                assert reply.body.split() == way(voice.stream).split()[: len(reply.body.split())]
                assert b"message_stop" in reply.body
            else:
                assert_completed(reply, dialect)
            if dialect not in OWN_WORDS:
                assert all(line.startswith(b"data: ") for line in reply.body.split(b"\n") if line)
            await assert_record(gate, "completed", usage=(7, 5), count=count)


@each_voice
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
async def test_u34_u35_a_stream_for_a_whole_answer(voice: Voice, way: Callable[[bytes], bytes]) -> None:
    async with serving(stream(way(voice.stream), pieces_of=5), voice.kind) as (gate, _):
        for count, dialect in enumerate(BUFFERING, start=1):
            assert_whole(await gate.ask(path=path_of(dialect), model="up/m", stream=False), usage=(7, 5))
            await assert_record(gate, "completed", usage=(7, 5), count=count)


UNUSUAL = ["a\u2028b", "c\u0085d\x0be\x1cf", "g\u2029\r\n\ndata: [DONE]\n\n", "Grüße 😀", "\u0000"]


@each_dialect
@each_voice
@pytest.mark.parametrize("pieces_of", [1, None], ids=["bytes", "one_piece"])
async def test_u34_text_that_looks_like_a_line_end_is_text(voice: Voice, pieces_of: int | None, dialect: str) -> None:
    async with serving(stream(b"".join(voice.speak(UNUSUAL)), pieces_of), voice.kind) as (gate, _):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        assert_completed(reply, dialect, text="".join(UNUSUAL))
        await assert_record(gate, "completed", usage=(7, 5))
