"""Time grows with the size of an answer, not with its square, whatever an upstream makes it of.

Each case is fed at one size and at four times that size; what is linear takes four times as
long, what is quadratic sixteen times. A clock is involved, so this is for `make soak`.
"""

import json
from collections.abc import Callable
from time import process_time
from typing import Any

import pytest

from streamweir.cli.commands.replay import replay
from streamweir.wire.amazon import write_message
from streamweir.wire.body import BodySplitter, Framing

pytestmark = [pytest.mark.soak, pytest.mark.alone]

LONGEST_RATIO = 9
RUNS = 3


def openai(*deltas: dict[str, Any]) -> bytes:
    choices = [*({"index": 0, "delta": delta} for delta in deltas), {"index": 0, "delta": {}, "finish_reason": "stop"}]
    frames = [b"data: %b\n\n" % json.dumps({"id": "c", "choices": [choice]}).encode() for choice in choices]
    return b"".join(frames) + b"data: [DONE]\n\n"


def anthropic_thinking(count: int) -> bytes:
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "x" * 100}}
    return b"data: %b\n\n" % json.dumps(delta).encode() * count + b'data: {"type":"message_stop"}\n\n'


def gemini_arguments(count: int) -> bytes:
    piece = {"partialArgs": [{"jsonPath": "$.a", "stringValue": "x" * 100}], "willContinue": True}
    calls = [{"name": "f", "willContinue": True}, *[piece] * count]
    parts = [{"candidates": [{"content": {"parts": [{"functionCall": call}]}}]} for call in calls]
    frames = [*parts, {"candidates": [{"finishReason": "STOP"}]}]
    return b"".join(b"data: %b\n\n" % json.dumps(frame).encode() for frame in frames)


def call(number: int, **members: Any) -> dict[str, Any]:
    return {"tool_calls": [{"id": f"call_{number}", "function": {"name": "f", "arguments": "{}"}, **members}]}


def open_call(number: int) -> dict[str, Any]:
    return {"tool_calls": [{"index": number, "id": f"c{number}", "function": {"name": "f", "arguments": "{" * 100}}]}


def openai_logprobs(count: int) -> bytes:
    choice = {"index": 0, "delta": {"content": ""}, "logprobs": {"content": [{"token": "a"}]}}
    frame = b"data: %b\n\n" % json.dumps({"id": "c", "choices": [choice]}).encode()
    return frame * count + openai({"content": "a"})


def through(source: str, dialect: str, body: bytes, *, buffered: bool = False) -> Callable[[], None]:
    def run() -> None:
        _, completed = replay(body, source=source, target=dialect, buffered=buffered, usage=True)
        assert completed

    return run


def blank_bytes(count: int) -> Callable[[], None]:
    def run() -> None:
        splitter = BodySplitter()
        for _ in range(count):
            splitter.feed(b" ")

    return run


def framed_bytes(count: int) -> Callable[[], None]:
    message = write_message({":event-type": "x"}, b'"%b"' % (b"x" * count))

    def run() -> None:
        splitter = BodySplitter(framing=Framing.AMAZON)
        frames = [frame for at in range(len(message)) for frame in splitter.feed(message[at : at + 1])]
        assert len(frames) == 1

    return run


CASES: list[tuple[str, Callable[[int], Callable[[], None]], int]] = [
    ("text", lambda n: through("openai", "openai", openai(*[{"content": "Hi"}] * n)), 1500),
    ("text in bitseek", lambda n: through("groq", "bitseek", openai(*[{"content": "Hi"}] * n)), 1500),
    ("text, buffered", lambda n: through("groq", "openai", openai(*[{"content": "Hi"}] * n), buffered=True), 1500),
    ("calls", lambda n: through("openai", "openai", openai(*[call(i, index=i) for i in range(n)])), 1000),
    ("calls without an index", lambda n: through("mistral", "openai", openai(*[call(i) for i in range(n)])), 1500),
    ("open calls in bitseek", lambda n: through("groq", "bitseek", openai(*[open_call(i) for i in range(n)])), 300),
    ("logprobs without a delta", lambda n: through("groq", "openai", openai_logprobs(n)), 5000),
    ("pieces of arguments", lambda n: through("gemini", "openai", gemini_arguments(n)), 5000),
    ("pieces of reasoning", lambda n: through("anthropic", "openai", anthropic_thinking(n), buffered=True), 5000),
    (
        "pieces of sound",
        lambda n: through("openai", "openai", openai(*[{"audio": {"data": "A" * 300}}] * n), buffered=True),
        5000,
    ),
    ("blank bytes one by one", blank_bytes, 15_000),
    ("a binary frame byte by byte", framed_bytes, 15_000),
]


def seconds(run: Callable[[], None]) -> float:
    times = []
    for _ in range(RUNS):
        start = process_time()
        run()
        times.append(process_time() - start)
    return min(times)


@pytest.mark.parametrize(("made", "count"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_time_is_linear(made: Callable[[int], Callable[[], None]], count: int) -> None:
    assert seconds(made(4 * count)) < LONGEST_RATIO * seconds(made(count))
