"""Streams of a provider that keeps no rule of the Responses wire, to three APIs: passed on and translated.

Frames of a good answer in any order, some of them twice or damaged: indices that are negative, huge or no numbers,
items that never began, two ends, broken JSON. Whatever comes, the exchange comes to an end, events keep their rules,
an answer is complete in all APIs or in none, and one that is passed on as complete is what came.
"""

import json
import random
from typing import Any

import pytest

from conftest import SOAKS
from streamweir.core.events import Event
from streamweir.frontends.base import Reply
from streamweir.frontends.table import FRONTENDS
from streamweir.pipeline.exchange import Exchange, WholeExchange
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.plan import Mode
from streamweir.providers.registry import provider_named
from streamweir.wire.sse import Splitter
from support.event_rules import assert_valid_events
from support.responses_body import ResponsesAnswer

CASES = 2_000 if SOAKS else 40
MAX_FRAMES = 40
PROVIDER = provider_named("openai-responses")
ANSWER = (
    ResponsesAnswer(tools=[{"type": "function", "name": "f"}, {"type": "custom", "name": "p"}])
    .reasoning(["a", "b"], ["c"], encrypted="ZW5j")
    .text("x", "y \ud83d", "\ude00")
    .calls(("f", ["{", "}"], ""), ("f", ['{"a":1}'], ""))
    .custom("p", "q", "r")
    .refusal("no")
    .search()
)
ERROR = {"code": "server_error", "message": "It stopped."}
DOCUMENTS: list[Any] = [
    *ANSWER.documents(),
    *ANSWER.documents(incomplete="max_output_tokens")[-1:],
    *ANSWER.documents(error=ERROR)[-2:],
]
ODD: list[Any] = [None, True, -1, 0, 1, 2**70, 1.5, "", "x", "\ud800", [], [1], {}, "response.completed"]
STRAY = [b"data: [DONE]\n\n", b": hello\n\n", b"error: {}\n\n", b"data: {\n\n", b"\xff\n\n"]
WAYS = [
    ("openai", Mode.TRANSLATE),
    ("bitseek", Mode.TRANSLATE),
    ("messages", Mode.TRANSLATE),
    ("responses", Mode.TRANSLATE),
    ("responses", Mode.PASS),
]


def damaged(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.8:
        name = chance.choice(list(value))
        kept = {each: inner for each, inner in value.items() if each != name}
        return kept if chance.random() < 0.15 else {**kept, name: damaged(value[name], chance)}
    if isinstance(value, list) and value and chance.random() < 0.7:
        place = chance.randrange(len(value))
        return [damaged(each, chance) if i == place else each for i, each in enumerate(value)]
    return chance.choice(ODD)


def made(chance: random.Random) -> bytes:
    sent = DOCUMENTS[: chance.randrange(3)]
    for place in range(chance.randrange(1, MAX_FRAMES)):
        document = chance.choice(DOCUMENTS) if chance.random() < 0.5 else DOCUMENTS[min(place, len(DOCUMENTS) - 1)]
        sent.append(damaged(document, chance) if chance.random() < 0.25 else document)
    frames = []
    for document in sent:
        kind = document.get("type") if isinstance(document, dict) and chance.random() < 0.8 else None
        line = b"event: %b\n" % str(kind).encode("ascii", "replace") if kind is not None else b""
        frames.append(line + b"data: %b\n\n" % json.dumps(document).encode())
        if chance.random() < 0.03:
            frames.append(chance.choice(STRAY))
    body = b"".join(frames)
    return body[: chance.randrange(len(body) + 1)] if chance.random() < 0.3 else body


def exchanged(body: bytes, target: str, mode: Mode, size: int) -> tuple[bytes, bool]:
    """What goes out, and whether the answer was complete."""
    meter = Meter()
    reply = Reply(id="x", entropy=b"1" * 24, now=lambda: 0, model="m", include_usage=True)
    exchange = Exchange(PROVIDER, FRONTENDS.by_name[target], reply, mode, meter)
    out = b"".join([exchange.feed(body[at : at + size]) for at in range(0, len(body), size)]) + exchange.finish()
    assert exchange.ended
    assert exchange.feed(body) == exchange.finish() == b"", "nothing follows an end"
    return out, meter.record.completed


@pytest.mark.parametrize("part", range(4))
def test_a_stream_without_rules_comes_to_a_true_end(part: int) -> None:
    for seed in range(part, CASES, 4):
        chance = random.Random(seed)
        body = made(chance)
        decoder, splitter = PROVIDER.decoder(), Splitter()
        events: list[Event] = []
        for frame in splitter.feed(body) + splitter.finish():
            events += decoder.feed(frame)
        events += decoder.finish()
        try:
            assert_valid_events(events)
            ends = {
                exchanged(body, target, mode, chance.choice([1, 7, 97, len(body) or 1]))[1]
                for target, mode in WAYS
                if mode is Mode.TRANSLATE
            }
            assert len(ends) == 1, "an answer is complete to all, or to none"
            out, is_complete = exchanged(body, "responses", Mode.PASS, chance.choice([1, 7, 97, len(body) or 1]))
            if is_complete:
                assert ends == {True}
                passed = b"".join(line for line in out.splitlines() if line)
                assert passed in b"".join(line for line in body.splitlines() if line and line != b"data: [DONE]")
        except AssertionError as failure:
            failure.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize("part", range(4))
def test_a_body_without_rules_is_an_answer_or_a_failure(part: int) -> None:
    whole = json.loads(ANSWER.whole())
    for seed in range(part, CASES, 4):
        chance = random.Random(seed)
        body = json.dumps(damaged(whole, chance)).encode()
        found = set()
        for target, mode in WAYS:
            if target == "bitseek":
                continue
            reply = Reply(id="x", entropy=b"1" * 24, now=lambda: 0, model="m")
            exchange = WholeExchange(PROVIDER, FRONTENDS.by_name[target], reply, mode, Meter())
            out = exchange.feed(body) + exchange.finish()
            assert exchange.ended
            assert bool(out) is (exchange.failure is None), seed
            assert mode is Mode.TRANSLATE or out in (b"", body), seed
            found.add(bool(out))
        assert len(found) == 1, seed
