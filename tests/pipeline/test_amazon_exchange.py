"""Bedrock's binary streams through the whole chain: cut at every byte, ended at every byte, wrong in every byte.

However an answer arrives, the caller gets the same bytes. One that does not arrive whole, or not as it was sent, is
never complete, and nothing of a damaged frame is delivered.
"""

import json
from base64 import b64encode
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from streamweir.core.errors import UpstreamError
from streamweir.core.usage import Usage
from streamweir.frontends.base import Reply
from streamweir.frontends.table import FRONTENDS
from streamweir.pipeline.exchange import Exchange
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.plan import Mode
from streamweir.providers.registry import provider_named
from streamweir.wire.amazon import write_message
from support.soak import part_of


def event(kind: str, payload: object) -> bytes:
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return write_message(headers, written(payload))


def written(document: object) -> bytes:
    """As Amazon writes it."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def delta(index: int, **members: object) -> bytes:
    return event("contentBlockDelta", {"contentBlockIndex": index, "delta": members, "p": "abcdefgh"})


USAGE = {"inputTokens": 13, "outputTokens": 82, "totalTokens": 100, "cacheReadInputTokens": 5}
CALL = {"toolUse": {"toolUseId": "tooluse_1", "name": "weather"}}
CONVERSE = [
    event("messageStart", {"p": "abcdefghijklmn", "role": "assistant"}),
    delta(0, reasoningContent={"text": "hm"}),
    delta(0, reasoningContent={"signature": "c2ln"}),
    event("contentBlockStop", {"contentBlockIndex": 0, "p": "ab"}),
    delta(1, text="Grüße "),
    delta(1, text="aus \U0001f9a6"),
    event("contentBlockStop", {"contentBlockIndex": 1, "p": "abc"}),
    event("contentBlockStart", {"contentBlockIndex": 2, "start": CALL, "p": "a"}),
    delta(2, toolUse={"input": '{"city":'}),
    delta(2, toolUse={"input": '"Bern"}'}),
    event("contentBlockStop", {"contentBlockIndex": 2, "p": "abcd"}),
    event("messageStop", {"p": "abcdefgh", "stopReason": "tool_use"}),
    event("metadata", {"metrics": {"latencyMs": 391}, "p": "abcdefghijklmnopqrstuvwxyz", "usage": USAGE}),
]

START = {"id": "msg_bdrk_1", "type": "message", "role": "assistant", "model": "claude", "content": []}
INVOKE = [
    event("chunk", {"bytes": b64encode(written(document)).decode(), "p": "abcdefgh"})
    for document in (
        {"type": "message_start", "message": {**START, "usage": {"input_tokens": 13, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Grüße "}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "aus \U0001f9a6"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 82}},
        {"type": "message_stop", "amazon-bedrock-invocationMetrics": {"inputTokenCount": 13}},
    )
]


class Way(NamedTuple):
    kind: str
    frontend: str
    mode: Mode
    frames: Sequence[bytes]
    last: int
    """Of the frames: with it the answer is complete, at the end of the body if not before."""
    parts: int
    """`make test` takes one of so many parts of all places."""

    @property
    def body(self) -> bytes:
        return b"".join(self.frames)

    @property
    def complete_at(self) -> int:
        return len(b"".join(self.frames[: self.last + 1]))

    def places(self) -> list[int]:
        return part_of(range(len(self.body)), self.parts)


WAYS = {
    "converse to openai": Way("bedrock", "openai", Mode.TRANSLATE, CONVERSE, 11, 1),
    "converse to messages": Way("bedrock", "messages", Mode.TRANSLATE, CONVERSE, 11, 12),
    "invoke to messages": Way("bedrock-messages", "messages", Mode.PASS, INVOKE, 6, 12),
    "invoke to openai": Way("bedrock-messages", "openai", Mode.TRANSLATE, INVOKE, 6, 12),
}


class Answer:
    """What the caller got, and what is recorded."""

    def __init__(self, way: Way, *pieces: bytes, reset: bool = False) -> None:
        frontend = FRONTENDS.by_name[way.frontend]
        reply = Reply(id="id-ours", now=lambda: 7, model="m", target_model="m", include_usage=True)
        meter = Meter()
        exchange = Exchange(provider_named(way.kind), frontend, reply, way.mode, meter)
        self.out = b"".join([exchange.feed(piece) for piece in pieces])
        if reset:
            self.out += exchange.fail(UpstreamError("upstream_stream_reset", "reset"))
        else:
            self.out += exchange.finish()
        self.record = meter.record
        error = exchange.failure or self.record.error
        self.code = error.code if error is not None else None
        self.text = self.record.delivered.getvalue()


ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@ways
def test_the_whole_answer(way: Way) -> None:
    answer = Answer(way, way.body)
    assert (answer.record.completed, answer.code) == (True, None)
    assert answer.text.startswith("Grüße aus \U0001f9a6")
    assert answer.record.usage is not None
    assert (answer.record.usage.input_uncached, answer.record.usage.completion_tokens) == (13, 82)
    assert answer.record.flags() == ()


@ways
def test_a_read_may_end_at_every_byte(way: Way) -> None:
    body, whole = way.body, Answer(way, way.body)
    assert Answer(way, *(body[at : at + 1] for at in range(len(body)))).out == whole.out
    for at in way.places():
        answer = Answer(way, body[:at], body[at:])
        assert (answer.out, answer.record.completed) == (whole.out, True), at


@ways
@pytest.mark.parametrize("reset", [False, True], ids=["end", "reset"])
def test_an_answer_that_ends_at_any_byte_is_not_complete(way: Way, reset: bool) -> None:
    body, whole = way.body, Answer(way, way.body)
    ends = {len(b"".join(way.frames[:number])) for number in range(len(way.frames))}
    for at in way.places():
        answer = Answer(way, body[:at], reset=reset)
        is_complete = at >= way.complete_at and at in ends and not reset
        assert answer.record.completed is is_complete, at
        assert (answer.code is None) is is_complete, at
        if not is_complete and not reset:
            assert answer.code == ("upstream_stream_truncated" if at else "upstream_empty_response"), at
        assert whole.text.startswith(answer.text), at
        assert not answer.record.finishes or is_complete, at


@ways
def test_a_damaged_byte_ends_the_answer_and_nothing_of_its_frame_is_delivered(way: Way) -> None:
    body = way.body
    ends = [len(b"".join(way.frames[:number])) for number in range(len(way.frames))]
    texts = {end: Answer(way, body[:end]).text for end in ends}
    for at in way.places():
        before = next(end for end in reversed(ends) if end <= at)
        damaged = body[:at] + bytes([body[at] ^ 1 << at % 8]) + body[at + 1 :]
        answer = Answer(way, damaged)
        assert not answer.record.completed, at
        assert answer.code in CODES, at
        assert answer.text == texts[before], at


CODES = ("upstream_invalid_frame", "upstream_frame_too_large", "upstream_stream_truncated")
"""A length that is wrong may be too large, or none that ever comes; but it has a checksum of its own."""


@ways
def test_frames_after_the_end_do_not_reopen_the_answer(way: Way) -> None:
    whole = Answer(way, way.body)
    answer = Answer(way, way.body, way.frames[0] + way.frames[4])
    assert (answer.record.completed, answer.text) == (whole.record.completed, whole.text) or answer.code is not None


def test_the_usage_of_converse_comes_after_its_stop_and_is_counted() -> None:
    way = WAYS["converse to openai"]
    usage = Answer(way, way.body).record.usage
    assert usage is not None
    assert usage == Usage(input_uncached=13, cache_read=5, output=82, cache_write_5m=usage.cache_write_5m)


EXCEPTIONS = {
    "throttlingException": "upstream_rate_limited",
    "serviceQuotaExceededException": "upstream_rate_limited",
    "modelNotReadyException": "upstream_overloaded",
    "serviceUnavailableException": "upstream_overloaded",
    "modelTimeoutException": "upstream_timeout",
    "modelStreamErrorException": "upstream_server_error",
    "internalServerException": "upstream_server_error",
    "accessDeniedException": "upstream_auth_failed",
    "expiredTokenException": "upstream_auth_failed",
    "resourceNotFoundException": "upstream_model_not_found",
    "validationException": "invalid_value",
    "anotherException": "upstream_server_error",
}


@ways
@pytest.mark.parametrize("frames", [0, 6], ids=["before any text", "after text"])
def test_an_exception_inside_the_stream_has_one_code_on_every_way(way: Way, frames: int) -> None:
    for name, code in EXCEPTIONS.items():
        headers = {":message-type": "exception", ":exception-type": name}
        answer = Answer(way, *way.frames[:frames], write_message(headers, b'{"message":"No"}'), way.frames[-1])
        assert (answer.code, answer.record.completed) == (code, False), name
