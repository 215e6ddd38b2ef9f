"""Frames with numbers: an error that takes the place of frames which were not sent has their numbers, without a gap."""

import json
from typing import Any

import pytest

from streamweir.core.errors import CallerError
from streamweir.frontends.base import Reply
from streamweir.frontends.responses.frontend import RESPONSES
from streamweir.pipeline.exchange import Exchange
from streamweir.pipeline.meter import Delivered, Meter
from streamweir.pipeline.plan import Mode
from streamweir.providers.registry import provider_named
from support.answers import anthropic_frames, openai_frames, responses_frames
from support.responses import documents_of

BUDGET = CallerError("budget_exceeded", "The budget is spent.")
FRAMES = {"openai": openai_frames(), "anthropic": anthropic_frames(), "openai-responses": responses_frames()}


def exchange_for(kind: str) -> Exchange:
    mode = Mode.PASS if kind == "openai-responses" else Mode.TRANSLATE
    reply = Reply(id="resp_1", now=lambda: 7, model="m", include_usage=True)
    return Exchange(provider_named(kind), RESPONSES, reply, mode, Meter(3))


def ended_by_an_error(body: bytes) -> dict[str, Any]:
    """The response in the last frame, behind frames whose numbers have no gaps."""
    documents = documents_of(body)
    assert [document["type"] for document in documents[-2:]] == ["error", "response.failed"]
    assert [document["type"] for document in documents].count("response.created") == 1
    response: dict[str, Any] = documents[-1]["response"]
    assert response["id"] == documents[0]["response"]["id"]
    done = [document["item"] for document in documents if document["type"] == "response.output_item.done"]
    assert response["output"] == [] or response["output"] == done, "what was done and sent"
    return response


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("withheld", [0, 1, 3])
def test_an_error_in_the_place_of_withheld_frames(kind: str, withheld: int) -> None:
    frames, pauses = FRAMES[kind], 0
    for sent in range(1, len(frames)):
        exchange = exchange_for(kind)
        out = b"".join(exchange.feed(frame) for frame in frames[:sent])
        if not exchange.committed:
            continue
        pauses += 1
        delivered = Delivered(1, 0, exchange.next_number)
        for frame in frames[sent : sent + withheld]:
            exchange.feed(frame)
        exchange.take_keep_alive()
        out += (exchange.replace_end if exchange.ended else exchange.detach)(BUDGET, delivered)
        assert ended_by_an_error(out)["error"]["code"] == "insufficient_quota"
        assert not exchange.feed(frames[-1])
    assert pauses > 2


def test_items_that_were_not_sent_are_not_in_the_last_frame() -> None:
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    frames = openai_frames()
    exchange = exchange_for("openai")
    out = b"".join(exchange.feed(frame) for frame in frames[:3])
    delivered = Delivered(1, 0, exchange.next_number)
    delta = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]}
    document = {**json.loads(frames[1].removeprefix(b"data: ")), **delta}
    assert b"response.output_item.done" in exchange.feed(b"data: %b\n\n" % json.dumps(document).encode())
    assert ended_by_an_error(out + exchange.detach(BUDGET, delivered))["output"] == []


def test_if_all_was_sent_an_error_follows_what_was_sent() -> None:
    frames = openai_frames()
    exchange = exchange_for("openai")
    out = b"".join(exchange.feed(frame) for frame in frames[:4])
    ended_by_an_error(out + exchange.detach(BUDGET))
