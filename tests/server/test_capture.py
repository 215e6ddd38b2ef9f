"""Stored content, for keys with `log_content`."""

import asyncio
import json
from base64 import b64encode

import pytest

from streamweir.core.errors import CallerError
from streamweir.server.relay.capture import Capture, TimedBytes
from streamweir.server.relay.relay import Relay
from streamweir.wire.amazon import write_message
from support.answers import TEXTS, openai_frames, openai_stream, openai_whole
from support.attempt import attempt
from support.script import End, Head, Send, Step, Wait, stream, whole

PROMPT = b'{"model":"m","messages":[]}'
BUDGET = CallerError("budget_exceeded", "The budget is spent.")


def event(kind: str, payload: object) -> bytes:
    return write_message({":event-type": kind, ":message-type": "event"}, json.dumps(payload).encode())


def text_of(frames: list[tuple[int, str]]) -> bytes:
    return "".join(text for _, text in frames).encode()


def test_pieces_are_kept_with_their_times() -> None:
    tape = TimedBytes(1000)
    tape.add(b"one", 10.001)
    tape.add(b"", 10.5)
    tape.add("wörld".encode()[:2], 11.0)
    tape.add("wörld".encode()[2:], 12.25)
    assert tape.frames(10.0) == [(1, "one"), (1000, "w"), (2250, "örld")]
    assert not tape.is_cut


def test_bytes_that_are_no_text_are_shown_as_that() -> None:
    tape = TimedBytes(1000)
    tape.add(b"a\xffb", 0.0)
    assert tape.frames(0.0) == [(0, "a\ufffdb")]


@pytest.mark.parametrize("size", [1, 500])
def test_a_tape_has_an_end(size: int) -> None:
    tape = TimedBytes(10_000)
    for _ in range(100_000 // size):
        tape.add(b"x" * size, 1.0)
    tape.add(b"y", 1.0)
    assert tape.is_cut
    assert 9000 < tape.size <= 10_000
    assert "y" not in tape.frames(0.0)[-1][1]


@pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "buffered"])
async def test_an_answer_both_ways(is_streamed: bool) -> None:
    capture = Capture(PROMPT, asyncio.get_running_loop().time())
    sent = openai_stream() if is_streamed else openai_whole()
    script = stream(sent) if is_streamed else whole(sent)
    async with attempt(script, stream=is_streamed, capture=capture, dialect="aivene") as (run, _):
        await run.over()
        answer = run.meter.record.delivered.getvalue()
        assert run.relay.memory_bytes > capture.size
    content = capture.content("req", "ws", "key", 5, answer)
    assert (content.request_id, content.workspace_id, content.key_id, content.at_ms) == ("req", "ws", "key", 5)
    assert (content.prompt, content.answer, content.is_cut) == (PROMPT.decode(), "".join(TEXTS), False)
    assert text_of(list(content.upstream_frames)) == sent
    assert text_of(list(content.caller_frames)) == run.body
    assert all(0 <= at_ms < 60_000 for at_ms, _ in (*content.upstream_frames, *content.caller_frames))


SAID = "sk-live-0123456789abcdef"
BINARY = {
    "bedrock": [event("messageStart", {"role": "assistant"}), event("contentBlockDelta", {"delta": {"text": SAID}})],
    "bedrock-messages": [event("chunk", {"bytes": b64encode(b'{"type":"ping","a":"%b"}' % SAID.encode()).decode()})],
}


@pytest.mark.parametrize("kind", BINARY)
async def test_of_binary_frames_the_text_is_kept(kind: str) -> None:
    capture, body = Capture(PROMPT, asyncio.get_running_loop().time()), b"".join(BINARY[kind])
    script: list[Step] = [Head(), Send(body[:30]), Send(body[30:]), End()]
    async with attempt(script, kind=kind, capture=capture) as (run, _):
        await run.over()
    kept = text_of(capture.upstream.frames(0.0))
    assert SAID.encode() in kept
    assert kept.endswith(b"}\n\n")
    assert kept.isascii()
    assert b"\0" not in kept


async def test_only_what_was_written_was_delivered() -> None:
    go_on, capture = asyncio.Event(), Capture(PROMPT, asyncio.get_running_loop().time())
    frames = openai_frames()
    script: list[Step] = [Head(), Send(b"".join(frames[:3])), Wait(go_on), Send(b"".join(frames[3:])), End()]

    def prepare(relay: Relay) -> None:
        relay.pause_output()

    async with attempt(script, capture=capture, prepare=prepare) as (run, _):
        await run.until(lambda: run.relay.first_token_at is not None)
        assert capture.caller.frames(0.0) == []
        run.relay.resume_output()
        run.relay.cut(BUDGET)
        go_on.set()
        await run.over()
        assert text_of(capture.caller.frames(0.0)) == run.body
        assert text_of(capture.upstream.frames(0.0)) == b"".join(frames)
        assert json.dumps(run.documents).count("budget_exceeded") == 1


async def test_what_does_not_fit_is_left_out_and_named() -> None:
    capture = Capture(PROMPT, 0.0, max_bytes=2000)
    async with attempt(stream(openai_stream(["x" * 5000])), capture=capture) as (run, _):
        await run.over()
        assert "x" * 5000 in run.body.decode()
    content = capture.content("req", "ws", "key", 5, "")
    assert content.is_cut
    assert capture.size <= len(PROMPT) + 2 * 2000
