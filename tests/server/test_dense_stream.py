"""Streams that are made to be expensive: whatever a provider sends, no turn of the loop takes long.

The tests' event loop fails a test in which one turn of the gateway takes too long.
"""

import json
from typing import Any

import pytest

from support.answers import openai_frames, openai_stream
from support.gateway import gateway_to
from support.script import End, Head, Send, Step

BEGUN = b"".join(openai_frames()[:2])
REST = b"".join(openai_frames()[2:])
TOO_LARGE = "upstream_frame_too_large"


def frame(document: Any) -> bytes:
    return b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"


def logprobs(content: Any) -> bytes:
    delta = {"index": 0, "delta": {"content": "x"}, "logprobs": {"content": content}, "finish_reason": None}
    return frame({"id": "c", "choices": [delta]})


CHOICES = [{"index": index, "delta": {"content": "x"}} for index in range(20_000)]
STREAMS: dict[str, tuple[bytes, str | None]] = {
    "the smallest frames": (b"data:{}\n\n" * 200_000, None),
    "the smallest texts": (b'data:{"choices":[{"delta":{"content":"a"}}]}\n\n' * 20_000, None),
    "one large text": (logprobs(None).replace(b'"x"', b'"%b"' % (b"x" * 900_000)), None),
    "numbers": (logprobs([{"bytes": [1] * 400_000}]), None),
    "entries": (logprobs([{"token": "x", "logprob": 0}] * 30_000), TOO_LARGE),
    "lists": (logprobs([[]] * 300_000), TOO_LARGE),
    "lines of data": (b"data:{}\n" * 100_000 + b"\n", TOO_LARGE),
    "lines of comments": (b":\n" * 400_000 + b"\n", TOO_LARGE),
    "choices": (frame({"id": "c", "choices": CHOICES}), TOO_LARGE),
    "brackets": (b"data: " + b"[" * 900_000 + b"\n\n", TOO_LARGE),
}


@pytest.mark.diagonal
@pytest.mark.parametrize("kind", ["openai", "openai-compatible"])
@pytest.mark.parametrize(("dense", "error"), STREAMS.values(), ids=STREAMS)
async def test_no_turn_takes_long(dense: bytes, error: str | None, kind: str) -> None:
    script: list[Step] = [Head(), Send(BEGUN), Send(dense), Send(REST), End()]
    async with gateway_to(script, kind=kind) as (gate, up):
        reply = await gate.ask(model="up/m", stream=True)
        assert reply.status == 200
        (record,) = await gate.settled()
        assert record.error == error
        if error:  # else it is kept for the next request, for half a minute
            await up.vacated()


async def test_an_array_of_a_dense_element() -> None:
    parts = [{"text": "a"}] * 40_000
    body = json.dumps([{"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}]).encode()
    async with gateway_to([Head(), Send(body), End()], kind="gemini") as (gate, _):
        assert (await gate.ask(model="up/m", stream=True)).status == 502
        (record,) = await gate.settled()
        assert record.error == TOO_LARGE


async def test_a_dense_whole_answer_instead_of_a_stream() -> None:
    body = json.dumps({"id": "c", "choices": [{"index": 0, "message": {"content": "x"}, "z": [[]] * 150_000}]}).encode()
    async with gateway_to([Head(), Send(body), End()]) as (gate, _):
        assert (await gate.ask(model="up/m", stream=True)).status == 502
        (record,) = await gate.settled()
        assert record.error == TOO_LARGE


async def test_a_stream_in_pieces_of_one_byte() -> None:
    async with gateway_to([Head(), *[Send(bytes([byte])) for byte in openai_stream()], End()]) as (gate, _):
        assert (await gate.ask(model="up/m", stream=True)).status == 200
        assert (await gate.settled())[0].verdict == "completed"
