"""What an upstream says of its tokens, and what is made of it: docs/spec/failures.md U30 to U33.

A report that can be true is the truth, 0 included, and the newest of several. Without one the
gateway counts by itself and says so. The caller sees the same numbers as the record.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from support.answers import openai_frames, openai_whole
from support.outcome import (
    ALWAYS_TOLD,
    BUFFERING,
    DIALECTS,
    ESTIMATED_PROMPT,
    assert_completed,
    assert_record,
    assert_whole,
    path_of,
    serving,
)
from support.script import End, Head, Send, stream, whole
from support.wire_samples import ANTHROPIC, GEMINI, OPENAI, VOICES, Voice

ESTIMATE = (ESTIMATED_PROMPT, 5)
NAMES = {"openai": "usage", "anthropic": "usage", "gemini": "usageMetadata"}
COUNTS = {
    "openai": ("prompt_tokens", "completion_tokens"),
    "anthropic": ("input_tokens", "output_tokens"),
    "gemini": ("promptTokenCount", "candidatesTokenCount"),
}

each_dialect = pytest.mark.parametrize("dialect", DIALECTS)
each_voice = pytest.mark.parametrize("voice", VOICES, ids=lambda voice: voice.kind)


def edited(body: bytes, kind: str, edit: Callable[[dict[str, Any]], None]) -> bytes:
    """A stream or a document in which every object that holds a report of usage was edited."""
    lines = []
    for line in body.split(b"\n"):
        start = b"data: " if line.startswith(b"data: {") else b""
        if line[len(start) :].startswith(b"{"):
            document = json.loads(line[len(start) :])
            for holder in (document, document.get("message")):
                if isinstance(holder, dict) and holder.get(NAMES[kind]) is not None:
                    edit(holder)
            line = start + json.dumps(document).encode()
        lines.append(line)
    return b"\n".join(lines)


def without_usage(body: bytes, kind: str) -> bytes:
    return edited(body, kind, lambda holder: holder.pop(NAMES[kind]))


def with_counts(body: bytes, kind: str, *values: object) -> bytes:
    """Both counts, each with this value; a wire's total is left out."""

    def edit(holder: dict[str, Any]) -> None:
        report = holder[NAMES[kind]]
        for total in ("total_tokens", "totalTokenCount"):
            report.pop(total, None)
        for name, value in zip(COUNTS[kind], values, strict=True):
            if name in report:
                report[name] = value

    return edited(body, kind, edit)


def is_passed(voice: Voice, dialect: str) -> bool:
    """The caller gets what the provider sent, whatever that says of the usage."""
    return (voice.kind, dialect) == ("anthropic", "messages")


async def assert_counted(
    voice: Voice, body: bytes, usage: tuple[int, int], source: str, dialects: Sequence[str] = DIALECTS
) -> None:
    """The stream completes; the record and the caller get this usage."""
    async with serving(stream(body), voice.kind) as (gate, _):
        for count, dialect in enumerate(dialects, start=1):
            options: dict[str, Any] = {"stream_options": {"include_usage": True}}
            options = options if dialect not in ("messages", "responses") else {}
            reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True, **options)
            if is_passed(voice, dialect):
                assert (reply.status, reply.body) == (200, body)
            else:
                assert_completed(reply, dialect, usage=usage)
            await assert_record(gate, "completed", usage=usage, source=source, count=count)


async def assert_counted_whole(voice: Voice, body: bytes, usage: tuple[int, int], source: str) -> None:
    async with serving(whole(body), voice.kind) as (gate, _):
        for count, dialect in enumerate(BUFFERING, start=1):
            reply = await gate.ask(path=path_of(dialect), model="up/m")
            assert_whole(reply, usage=usage if not is_passed(voice, dialect) else None)
            await assert_record(gate, "completed", usage=usage, source=source, count=count)


@each_voice
async def test_usage_as_reported(voice: Voice) -> None:
    await assert_counted(voice, voice.stream, (7, 5), "provider")
    await assert_counted_whole(voice, voice.whole, (7, 5), "provider")


@each_voice
async def test_u30_no_usage_is_counted_and_flagged(voice: Voice) -> None:
    await assert_counted(voice, without_usage(voice.stream, voice.kind), ESTIMATE, "estimate")
    await assert_counted_whole(voice, without_usage(voice.whole, voice.kind), ESTIMATE, "estimate")


@each_dialect
async def test_u30_usage_is_counted_without_a_request_for_it(dialect: str) -> None:
    async with serving(stream(b"".join(openai_frames(usage=None)))) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        assert_completed(reply, dialect)
        assert (b'"usage"' in reply.body) == (dialect in ALWAYS_TOLD)
        await assert_record(gate, "completed", usage=ESTIMATE, source="estimate")
        assert up.requests[0].json["stream_options"] == {"include_usage": True}


@each_voice
async def test_u31_a_reported_zero_is_zero(voice: Voice) -> None:
    await assert_counted(voice, with_counts(voice.stream, voice.kind, 0, 0), (0, 0), "provider")
    await assert_counted_whole(voice, with_counts(voice.whole, voice.kind, 0, 0), (0, 0), "provider")


def usage_on_every_frame(counts: Sequence[tuple[int, int]]) -> bytes:
    """OpenAI's frames, each with the next of these counts; the last ones keep the last."""
    body = b""
    for number, frame in enumerate(openai_frames(usage=None)[:-1]):
        document = json.loads(frame[6:])
        prompt, answer = counts[min(number, len(counts) - 1)]
        document["usage"] = {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}
        body += b"data: %b\n\n" % json.dumps(document, separators=(",", ":")).encode()
    return body + b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    "counts",
    [[(7, number) for number in range(6)], [(7, 5)], [(9, 9), (7, 5)], [(7, 4), (7, 5), (7, 5)]],
    ids=["growing", "the_same", "falling", "twice"],
)
async def test_u32_the_last_of_many_reports_counts(counts: list[tuple[int, int]]) -> None:
    await assert_counted(OPENAI, usage_on_every_frame(counts), (7, 5), "provider")


async def test_u32_two_usage_frames_are_one_usage() -> None:
    frames = openai_frames(usage=(7, 3))
    body = b"".join([*frames[:-1], openai_frames(usage=(7, 5))[-2], frames[-1]])
    await assert_counted(OPENAI, body, (7, 5), "provider")


@pytest.mark.parametrize("voice", [ANTHROPIC, GEMINI], ids=lambda voice: voice.kind)
async def test_u32_reports_that_grow_are_not_added_up(voice: Voice) -> None:
    assert voice.stream.count(COUNTS[voice.kind][1].encode()) > 1
    await assert_counted(voice, voice.stream, (7, 5), "provider")


ABSURD = {
    "negative": -1,
    "huge": 10**18,
    "beyond_64_bits": 10**30,
    "part": 1.5,
    "text": "12",
    "flag": True,
    "list": [5],
    "object": {"n": 5},
}


@each_voice
@pytest.mark.parametrize("value", ABSURD.values(), ids=ABSURD.keys())
async def test_u33_an_absurd_report_is_ignored(voice: Voice, value: object) -> None:
    await assert_counted(voice, with_counts(voice.stream, voice.kind, value, value), ESTIMATE, "estimate")
    await assert_counted_whole(voice, with_counts(voice.whole, voice.kind, value, value), ESTIMATE, "estimate")


@pytest.mark.parametrize("report", [None, 5, "12", [], {}], ids=["null", "number", "text", "list", "empty"])
async def test_u33_a_report_of_another_format_is_ignored(report: object) -> None:
    def edit(holder: dict[str, Any]) -> None:
        holder["usage"] = report

    await assert_counted(OPENAI, edited(OPENAI.stream, "openai", edit), ESTIMATE, "estimate")
    await assert_counted_whole(OPENAI, edited(OPENAI.whole, "openai", edit), ESTIMATE, "estimate")


async def test_u33_an_absurd_report_does_not_undo_a_good_one() -> None:
    body = usage_on_every_frame([(7, 5)]).replace(b'"completion_tokens":5', b'"completion_tokens":-5', 6)
    assert body.count(b'"completion_tokens":5') == 1
    await assert_counted(OPENAI, body, (7, 5), "provider")
    front, _, back = usage_on_every_frame([(7, 5)]).rpartition(b'"completion_tokens":5')
    await assert_counted(OPENAI, front + b'"completion_tokens":-5' + back, (7, 5), "provider")


async def test_a_frame_of_usage_that_is_cut_off_does_not_count() -> None:
    frames = openai_frames(usage=(7000, 5000))
    body = b"".join(frames[:-2]) + frames[-2][:-3]
    async with serving([Head(framing="close"), Send(body), End()]) as (gate, _):
        await gate.ask(model="up/m", stream=True)
        record = (await gate.settled())[0]
        assert (record.verdict, record.usage_source) == ("truncated", "estimate")


@pytest.mark.parametrize("usage", [(7, 5), (0, 0), None], ids=["told", "zero", "none"])
async def test_a_buffered_answer(usage: tuple[int, int] | None) -> None:
    source = "estimate" if usage is None else "provider"
    await assert_counted_whole(OPENAI, openai_whole(usage=usage), usage or ESTIMATE, source)
