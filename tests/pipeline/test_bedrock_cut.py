"""A stream of InvokeModel, cut at every byte: what a caller of Messages and one of chat completions get of it."""

import json

import pytest

from streamweir.frontends.base import Reply
from streamweir.frontends.table import FRONTENDS
from streamweir.pipeline.exchange import Exchange
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.plan import Mode, plan
from streamweir.providers.registry import native_wire, provider_named
from streamweir.wire.amazon_messages import write_chunk
from support.soak import part_of

NAME = "bedrock-messages"
EVENTS = [
    b'{"type":"message_start","message":{"id":"m","model":"c","usage":{"input_tokens":3,"output_tokens":1}}}',
    b'{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
    '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"größer"}}'.encode(),
    b'{"type":"content_block_stop","index":0}',
    b'{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}',
    b'{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":3}}',
]
BODY = b"".join(map(write_chunk, EVENTS))
PASSED = b"".join(b"event: %b\ndata: %b\n\n" % (json.loads(event)["type"].encode(), event) for event in EVENTS)


def exchange(dialect: str) -> tuple[Exchange, Meter]:
    frontend, meter = FRONTENDS.by_name[dialect], Meter()
    reply = Reply(id=frontend.make_id(b"x" * 24), now=lambda: 7, model="m", include_usage=True)
    mode = plan(native_wire(NAME), frontend, reply)
    assert mode is (Mode.PASS if dialect == "messages" else Mode.TRANSLATE)
    return Exchange(provider_named(NAME), frontend, reply, mode, meter), meter


def written(dialect: str, *pieces: bytes) -> tuple[bytes, Meter, bool]:
    """What is sent, and whether the answer failed."""
    made, meter = exchange(dialect)
    out = b"".join([made.feed(piece) for piece in pieces]) + made.finish()
    return out, meter, made.failure is not None or meter.record.error is not None


@pytest.mark.parametrize("dialect", ["messages", "openai"])
def test_every_cut_gives_the_same(dialect: str) -> None:
    whole, meter, failed = written(dialect, BODY)
    assert meter.record.completed
    assert not failed
    assert dialect != "messages" or whole == PASSED
    for at in part_of(range(1, len(BODY)), 4):
        assert written(dialect, BODY[:at], BODY[at:])[0] == whole
    assert written(dialect, *[BODY[at : at + 1] for at in range(len(BODY))])[0] == whole


@pytest.mark.parametrize("dialect", ["messages", "openai"])
def test_what_is_cut_off_is_never_complete(dialect: str) -> None:
    for size in part_of(range(1, len(BODY)), 4):
        out, meter, failed = written(dialect, BODY[:size])
        assert failed, size
        assert not meter.record.completed
        assert b"message_stop" not in out
        assert b'"finish_reason":"stop"' not in out
        assert dialect != "messages" or PASSED.startswith(out.partition(b"event: error")[0])


def test_a_changed_byte_is_no_other_answer() -> None:
    """The checksums find it: what was read before it stays, and the answer is not complete."""
    for at in part_of(range(len(BODY)), 4):
        body = bytearray(BODY)
        body[at] ^= 0x41
        out, meter, failed = written("messages", bytes(body))
        assert failed, at
        assert not meter.record.completed
        assert PASSED.startswith(out.partition(b"event: error")[0])
