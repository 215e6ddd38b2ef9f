"""Streams of a provider that keeps no rule, to the Messages API: passed on and translated.

Frames of the right kinds with wrong members in any order: indices that are negative, huge or no numbers, blocks that
never began, two messages in one, broken JSON. Whatever comes, the exchange comes to an end, and what it writes is a
stream that a client can read, which shows its end if and only if the answer was complete.
"""

import json
import random
from typing import Any

import pytest

from conftest import SOAKS
from streamweir.frontends.base import Reply
from streamweir.frontends.messages.frontend import MESSAGES
from streamweir.pipeline.exchange import Exchange
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.plan import Mode
from streamweir.providers.registry import provider_named
from support.messages import read_stream

CASES = 20_000 if SOAKS else 400
MAX_FRAMES = 25
INDICES = [0, 0, 1, 2, 3, -1, -5, 7, 10**20, 1.5, "0", None, True]
TEXTS: list[Any] = ["a", "\u00e9", "", None, 5, [], "\ud83d"]
ANYTHING = [None, 1, "x", [], {}, True, [1], {"a": 1}]
KINDS = ["message_start", "message_delta", "message_stop", "ping", "error", "new", None, 5]
BLOCK_KINDS = [*["content_block_start"] * 2, *["content_block_delta"] * 3, "content_block_stop"]


class Provider:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.one_of = self.chance.choice

    def stream(self, kind: str) -> list[bytes]:
        make = self.anthropic if kind == "anthropic" else self.openai
        return [make() for _ in range(self.chance.randrange(1, MAX_FRAMES))]

    def anthropic(self) -> bytes:
        one_of = self.one_of
        kind = one_of([*KINDS, *BLOCK_KINDS])
        document: dict[str, Any] = {"type": kind, "index": one_of(INDICES), **self._members(kind)}
        for name in list(document):
            if self.chance.random() < 0.05:
                del document[name]
        event = one_of([*[kind if isinstance(kind, str) else "x"] * 12, "message_stop", "error", ""])
        data = self._damaged(json.dumps(document).encode())
        return (b"event: %b\n" % event.encode() if event else b"") + b"data: %b\n\n" % data

    def openai(self) -> bytes:
        one_of, index = self.one_of, self.one_of(INDICES)
        entry = {
            "type": one_of(["reasoning.text", "reasoning.encrypted", "reasoning.summary", "q", 5]),
            "format": one_of(["openai-responses-v1", "anthropic-claude-v1", 5, None]),
            "text": "x",
            "data": one_of(["d", 5]),
            "index": index,
            "signature": one_of(["s", 5, None]),
        }
        function = {"name": one_of(["f", None, ""]), "arguments": one_of(["{", "}", '{"a":1}', "", None, {"a": 1}])}
        call = {"index": index, "id": one_of(["a", "b", None, "", 5]), "function": one_of([function, *ANYTHING])}
        delta: dict[str, Any] = one_of(
            [
                {"role": "assistant"},
                {"content": one_of(TEXTS)},
                {"reasoning_content": one_of(TEXTS)},
                {"reasoning_details": one_of([[entry], [entry, entry], *ANYTHING])},
                {"tool_calls": one_of([[call], [call, call], *ANYTHING])},
                {"refusal": "no"},
            ]
        )
        finish = one_of([*[None] * 12, "stop", "tool_calls", "length", "zzz"])
        choice = {"index": one_of([*[0] * 9, 1, -1]), "delta": delta, "finish_reason": finish}
        usage = one_of([{"prompt_tokens": 7, "completion_tokens": 5}, {"prompt_tokens": -1}, *[None] * 9])
        document = {"id": "c", "object": "chat.completion.chunk", "model": "g", "choices": [choice], "usage": usage}
        return b"data: %b\n\n" % self._damaged(json.dumps(document).encode())

    def _members(self, kind: object) -> dict[str, Any]:
        one_of = self.one_of
        match kind:
            case "message_start":
                usage = one_of([{"input_tokens": 7, "output_tokens": 1}, {"input_tokens": -1}, *ANYTHING])
                content = one_of([[], [{"type": "text", "text": "at the start"}], *ANYTHING])
                message = {"id": one_of(["m1", "m2", None, 5]), "model": "c", "content": content, "usage": usage}
                return {"message": one_of([message, message, *ANYTHING])}
            case "content_block_start":
                call = {"id": one_of(["t", None, 5]), "name": one_of(["f", None, 5]), "input": one_of(ANYTHING)}
                blocks = [
                    {"type": "text", "text": one_of(TEXTS)},
                    {"type": "thinking", "thinking": "", "signature": one_of(["", "s", 5])},
                    {"type": "redacted_thinking", "data": one_of(["d", 5])},
                    {"type": "tool_use", **call},
                    {"type": "server_tool_use"},
                ]
                return {"content_block": one_of([*blocks, one_of(ANYTHING)])}
            case "content_block_delta":
                deltas = [
                    {"type": "text_delta", "text": one_of(TEXTS)},
                    {"type": "thinking_delta", "thinking": one_of(TEXTS)},
                    {"type": "signature_delta", "signature": one_of(TEXTS)},
                    {"type": "input_json_delta", "partial_json": one_of(["{", "}", '{"a":1}', "", None])},
                ]
                return {"delta": one_of([*deltas, one_of(ANYTHING)])}
            case "message_delta":
                reason = one_of(["end_turn", "tool_use", "pause_turn", "zzz", None, 5])
                delta = {"stop_reason": reason, "stop_sequence": one_of(ANYTHING)}
                usage = one_of([{"output_tokens": 5}, {"output_tokens": 10**30}, *ANYTHING])
                return {"delta": one_of([delta, delta, *ANYTHING]), "usage": usage}
            case "error":
                return {"error": one_of([{"type": "overloaded_error", "message": "x"}, {"type": "e" * 100}, *ANYTHING])}
        return {}

    def _damaged(self, data: bytes) -> bytes:
        return self.one_of([*[data] * 60, data[:-1], b"[DONE]", b"\xff"])


@pytest.mark.parametrize(
    ("kind", "mode"), [("anthropic", Mode.PASS), ("anthropic", Mode.TRANSLATE), ("openai", Mode.TRANSLATE)]
)
def test_for_any_input_the_stream_ends_and_can_be_read(kind: str, mode: Mode) -> None:
    ends = set()
    for seed in range(CASES):
        provider, meter = Provider(seed), Meter(3)
        frames, hides = provider.stream(kind), provider.one_of([True, False])
        reply = Reply(id="msg_x", now=lambda: 0, model="m", include_usage=True, hides_reasoning=hides)
        exchange = Exchange(provider_named(kind), MESSAGES, reply, mode, meter)
        try:
            out = b"".join([exchange.feed(frame) for frame in frames]) + exchange.finish()
            assert exchange.ended
            meter.settle()
            if exchange.failure is not None:
                assert out == b""
            elif mode is Mode.TRANSLATE:
                assert ("error" not in read_stream(out)) is meter.record.completed
            else:
                last = out.rstrip(b"\n").rpartition(b"\n\n")[2]
                assert (b"event: message_stop" in out or b'"message_stop"' in last) is meter.record.completed
                assert last.startswith(b"event: error\n") is not meter.record.completed
        except Exception as failure:
            failure.add_note(f"seed {seed}: {b''.join(frames)!r}")
            raise
        ends.add((exchange.failure is None, meter.record.completed))
    assert ends == {(False, False), (True, False), (True, True)}
