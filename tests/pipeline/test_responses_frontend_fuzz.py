"""Streams of three wires that keep no rule, to the Responses API: passed on and translated.

Frames of the right kinds with wrong members in any order: indices that are negative, huge or no numbers, items that
never began, two answers in one, broken JSON. Whatever comes, the exchange comes to an end, and what it writes is a
stream that a client can read, which shows its end if and only if the answer was complete. A stream that is written at
once as a body says the same as one that is streamed.
"""

import json
import random
from typing import Any

import pytest

from conftest import SOAKS
from streamweir.core.errors import UpstreamError
from streamweir.core.request import ToolShape
from streamweir.frontends.base import Reply
from streamweir.frontends.responses.frontend import RESPONSES
from streamweir.frontends.table import FRONTENDS
from streamweir.pipeline.exchange import MAX_CALLS, Exchange, WholeExchange
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.plan import Mode
from streamweir.providers.registry import provider_named
from support.responses import documents_of, read_documents, read_stream
from support.responses_body import ResponsesAnswer, frame_of

CASES = 10_000 if SOAKS else 80
MAX_FRAMES = 25
INDICES = [0, 0, 0, 1, 1, 2, 3, -1, -5, 7, 10**20, 1.5, "0", None, True]
TEXTS: list[Any] = ["a", "\u00e9", "", None, 5, [], "\ud83d", "\ude00", "\u2028\x00"]
ANYTHING = [None, 1, "x", [], {}, True, [1], {"a": 1}]
KINDS = ["message", "reasoning", "function_call", "custom_tool_call", "web_search_call", "new", None, 5]
DELTAS = [
    "output_text",
    "output_text",
    "refusal",
    "reasoning_summary_text",
    "reasoning_text",
    "function_call_arguments",
    "custom_tool_call_input",
    "teleport",
]
ENDS = ["completed", "completed", "incomplete", "failed", "cancelled"]
TOOLS = {"f": ToolShape("f", True), "n__g": ToolShape("g", False, "n")}


class Provider:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.one_of = self.chance.choice
        self.number = 0

    def stream(self, kind: str) -> list[bytes]:
        make = {"responses": self.responses, "openai": self.openai, "anthropic": self.anthropic}[kind]
        frames = [make() for _ in range(self.chance.randrange(1, MAX_FRAMES))]
        if kind == "responses" and self.chance.random() < 0.5:
            ended = {"type": "response.completed", "sequence_number": self.number, "response": self._response()}
            frames.append(frame_of(ended))
        return frames

    def responses(self) -> bytes:
        one_of = self.one_of
        kind = one_of(
            [
                *["response.created"] * 2,
                "response.in_progress",
                *[f"response.output_item.{change}" for change in ("added", "added", "done", "done")],
                *["response.content_part.added", "response.output_text.annotation.added", "keepalive"],
                *[f"response.{one_of(DELTAS)}.{change}" for change in ("delta", "delta", "delta", "done")],
                *([f"response.{one_of(ENDS)}", "error", None, 5] if self.chance.random() < 0.3 else []),
            ]
        )
        document: dict[str, Any] = {"type": kind, "output_index": one_of(INDICES), "content_index": one_of([0, 0, 1])}
        document |= {"delta": one_of(TEXTS), "text": one_of(TEXTS), "summary_index": one_of([0, 0, 1, "x"])}
        document |= {"item": one_of([self._item(), self._item(), *ANYTHING]), "annotation": one_of(ANYTHING)}
        document |= {"arguments": one_of(["{", '{"a":1}', None]), "input": one_of(TEXTS), "logprobs": one_of(ANYTHING)}
        if isinstance(kind, str) and kind.partition(".")[2] in ("created", "in_progress", *ENDS):
            document = {"type": kind, "response": one_of([self._response(), self._response(), *ANYTHING])}
        elif kind == "error":
            document = {"type": kind, "error": one_of([{"type": "x", "code": "y", "message": "no"}, *ANYTHING])}
        document["sequence_number"] = self.number
        self.number += 1
        for name in list(document):
            if self.chance.random() < 0.05 and name != "sequence_number":
                del document[name]
        event = one_of([*[kind if isinstance(kind, str) else "x"] * 12, "response.completed", "error", ""])
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
            "id": one_of(["rs_1", 5, None]),
        }
        name, arguments = one_of(["f", "n__g", None, ""]), one_of(["{", "}", '{"input":"x"}', "", None, {"a": 1}])
        call = {"index": index, "id": one_of(["a", "b", None, 5]), "function": {"name": name, "arguments": arguments}}
        logprobs = {"content": one_of([[{"token": "\ud83d", "logprob": -1, "bytes": [1]}], [5], 5, None])}
        delta: dict[str, Any] = one_of(
            [
                {"role": "assistant"},
                {"content": one_of(TEXTS)},
                {"content": one_of(TEXTS)},
                {"reasoning_content": one_of(TEXTS)},
                {"reasoning_details": one_of([[entry], [entry, entry], *ANYTHING])},
                {"tool_calls": one_of([[call], [call, call], *ANYTHING])},
                {"refusal": "no"},
                {"annotations": one_of([[{"type": "url_citation", "url_citation": {"url": "u"}}], [{}], *ANYTHING])},
            ]
        )
        finish = one_of([*[None] * 12, "stop", "tool_calls", "length", "content_filter", "zzz"])
        choice = {"index": one_of([*[0] * 9, 1, -1]), "delta": delta, "finish_reason": finish, "logprobs": logprobs}
        usage = one_of([{"prompt_tokens": 7, "completion_tokens": 5}, {"prompt_tokens": -1}, *[None] * 9])
        document = {"id": "c", "object": "chat.completion.chunk", "model": "g", "choices": [choice], "usage": usage}
        return b"data: %b\n\n" % self._damaged(json.dumps(document).encode())

    def anthropic(self) -> bytes:
        one_of, index = self.one_of, self.one_of([0, 0, 1, 2, -1, "0"])
        block = one_of([{"type": "text", "text": ""}, {"type": "thinking", "thinking": "", "signature": "s"}])
        call: dict[str, Any] = {
            "type": "tool_use",
            "id": one_of(["t", None]),
            "name": one_of(["f", "g", None]),
            "input": {},
        }
        deltas = [
            {"type": "text_delta", "text": one_of(TEXTS)},
            {"type": "thinking_delta", "thinking": one_of(TEXTS)},
            {"type": "signature_delta", "signature": one_of(TEXTS)},
            {"type": "input_json_delta", "partial_json": one_of(["{", "}", '{"a":1}', "", None])},
        ]
        usage = {"input_tokens": 7, "output_tokens": 1}
        document: dict[str, Any] = one_of(
            [
                {"type": "message_start", "message": {"id": "m", "model": "c", "content": [], "usage": usage}},
                *[{"type": "content_block_start", "content_block": one_of([block, call, *ANYTHING])}] * 3,
                *[{"type": "content_block_delta", "delta": one_of(deltas)}] * 6,
                *[{"type": "content_block_stop"}] * 2,
                {"type": "message_delta", "delta": {"stop_reason": one_of(["end_turn", "tool_use", "max_tokens", 5])}},
                {"type": one_of(["message_stop", "ping", "error"])},
            ]
        )
        data = self._damaged(json.dumps({**document, "index": index}).encode())
        return b"event: %b\ndata: %b\n\n" % (document["type"].encode(), data)

    def _item(self) -> dict[str, Any]:
        one_of = self.one_of
        part = {"type": one_of(["output_text", "refusal", 5]), "text": one_of(TEXTS), "refusal": one_of(TEXTS)}
        return {
            "type": one_of(KINDS),
            "id": one_of(["rs_1", "msg_1", 5, None]),
            "name": one_of(["f", "n__g", "", None, 5]),
            "call_id": one_of(["c1", "c2", None, 5]),
            "arguments": one_of(["", "{}", '{"a":', 5]),
            "input": one_of(TEXTS),
            "content": one_of([[part], [part, part], *ANYTHING]),
            "summary": one_of([[{"type": "summary_text", "text": "s"}], *ANYTHING]),
            "encrypted_content": one_of(["ZW5j", None, 5]),
            "status": one_of(["completed", "incomplete", 5]),
        }

    def _response(self) -> dict[str, Any]:
        one_of = self.one_of
        return {
            "id": one_of(["resp_1", "resp_1", "resp_2", None, 5]),
            "model": "g",
            "status": one_of(["in_progress", "completed", "completed", None, 5]),
            "tools": one_of([[], [{"type": "function", "name": "f"}], *ANYTHING]),
            "usage": one_of([{"input_tokens": 7, "output_tokens": 5}, {"input_tokens": -1}, *ANYTHING]),
            "error": one_of([*[None] * 6, {"code": "x", "message": "no"}, 5]),
            "incomplete_details": one_of([None, {"reason": "max_output_tokens"}, *ANYTHING]),
        }

    def _damaged(self, data: bytes) -> bytes:
        return self.one_of([*[data] * 80, data[:-1], b"[DONE]", b"\xff"])


def reply_of(provider: Provider) -> Reply:
    return Reply(
        id="resp_x",
        now=lambda: 0,
        model="m",
        include_usage=True,
        tools=TOOLS,
        hides_reasoning=provider.one_of([True, False]),
        summarizes_reasoning=provider.one_of([True, False]),
        shows_logprobs=provider.one_of([True, False]),
    )


def ends_of(out: bytes) -> list[str]:
    """The terminal frames, by what a client recognises them."""
    found = []
    for block in out.split(b"\n\n"):
        fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if b": " in line)
        try:
            kind = json.loads(fields.get(b"data", b"{}")).get("type")
        except ValueError:
            kind = None
        named = fields.get(b"event", b"").decode()
        ends = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
        found += [each for each in ends if each in (kind, named)]
    return found


WIRES = {"responses": "openai-responses", "openai": "openai", "anthropic": "anthropic"}


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        ("responses", Mode.PASS),
        ("responses", Mode.TRANSLATE),
        ("openai", Mode.TRANSLATE),
        ("anthropic", Mode.TRANSLATE),
    ],
)
def test_whatever_comes_the_stream_ends_and_can_be_read(kind: str, mode: Mode) -> None:
    seen = set()
    for seed in range(CASES):
        provider, meter = Provider(seed), Meter(3)
        frames, reply = provider.stream(kind), reply_of(provider)
        exchange = Exchange(provider_named(WIRES[kind]), RESPONSES, reply, mode, meter)
        try:
            out = exchange.release() if seed % 5 == 0 else b""  # by time
            out += b"".join([exchange.feed(frame) for frame in frames]) + exchange.finish()
            assert exchange.ended
            meter.settle()
            completed = meter.record.completed
            if exchange.failure is not None:
                assert out == b""
            elif mode is Mode.TRANSLATE:
                assert (read_stream(out)["status"] != "failed") is completed
            else:
                ends = ends_of(out)
                assert len(ends) == 1
                assert (ends[0] in ("response.completed", "response.incomplete")) is completed
                assert out.rstrip(b"\n").rpartition(b"\n\n")[2].count(ends[0].encode()) >= 1
        except Exception as failure:
            failure.add_note(f"seed {seed}: {b''.join(frames)!r}")
            raise
        seen.add((exchange.failure is None, completed))
    assert seen == {(False, False), (True, False), (True, True)}


@pytest.mark.parametrize("kind", WIRES)
def test_a_body_says_the_same_as_the_stream(kind: str) -> None:
    compared = 0
    for seed in range(CASES):
        provider = Provider(seed)
        frames, reply = provider.stream(kind), reply_of(provider)
        wire = provider_named(WIRES[kind])
        streamed = Exchange(wire, RESPONSES, reply, Mode.TRANSLATE, Meter(3))
        whole = WholeExchange(wire, RESPONSES, reply, Mode.TRANSLATE, Meter(3))
        try:
            out = b"".join([streamed.feed(frame) for frame in frames]) + streamed.finish()
            body = b"".join([whole.feed(frame) for frame in frames]) + whole.finish()
            response = read_stream(out) if out else None
            if response is None or response["status"] == "failed":
                assert body == b""
            else:
                assert json.loads(body) == response
                compared += 1
        except Exception as failure:
            failure.add_note(f"seed {seed}: {b''.join(frames)!r}")
            raise
    assert compared


def test_an_answer_with_bytes_changed_anywhere_is_complete_or_failed() -> None:
    tools = [{"type": "function", "name": "f"}]
    answer = ResponsesAnswer(usage=(40, 60, 16, 32), tools=tools)
    body = (
        answer.reasoning(["Hm", "."], encrypted="ZW5j").text("Gr\u00fc\u00dfe ", "!").call("f", '{"a":', "1}").stream()
    )
    chance = random.Random(7)
    for seed in range(CASES):
        changed = bytearray(body)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(changed))
            changed[at : at + chance.randrange(3)] = bytes(
                chance.choices(b'"{}[],:\n\r 0aZ\xff\x00', k=chance.randrange(3))
            )
        for mode in (Mode.PASS, Mode.TRANSLATE):
            meter = Meter(3)
            reply = Reply(id="resp_x", now=lambda: 0, model="m", include_usage=True)
            exchange = Exchange(provider_named("openai-responses"), RESPONSES, reply, mode, meter)
            try:
                out = exchange.feed(bytes(changed)) + exchange.finish()
                assert exchange.ended
                if exchange.failure is not None:
                    assert out == b""
                elif mode is Mode.TRANSLATE:
                    assert (read_stream(out)["status"] != "failed") is meter.record.completed
                else:
                    (end,) = ends_of(out)
                    assert (end in ("response.completed", "response.incomplete")) is meter.record.completed
            except Exception as failure:
                failure.add_note(f"seed {seed}: {bytes(changed)!r}")
                raise


def test_a_stream_that_is_ended_at_any_place_says_so_with_the_next_number() -> None:
    for seed in range(CASES):
        provider, meter = Provider(seed), Meter(3)
        frames, reply = provider.stream("openai"), reply_of(provider)
        exchange = Exchange(provider_named("openai"), RESPONSES, reply, Mode.TRANSLATE, meter)
        at = provider.chance.randrange(len(frames))
        out = b"".join([exchange.feed(frame) for frame in frames[:at]])
        if exchange.ended:
            continue
        out += exchange.take_keep_alive() if exchange.committed else b""
        out += exchange.fail(UpstreamError("upstream_stream_reset", "It broke off."))
        if exchange.failure is None:
            assert read_documents(documents_of(out))["status"] == "failed"


@pytest.mark.parametrize("frontend", ["openai", "messages", "responses"])
def test_a_stream_of_very_many_turns_is_not_written_as_one_body(frontend: str) -> None:
    def chunk(delta: dict[str, Any]) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": None, "logprobs": {"content": []}}
        document = {"id": "c", "object": "chat.completion.chunk", "model": "g", "choices": [choice]}
        return b"data: %b\n\n" % json.dumps(document).encode()

    reply = Reply(id="x", now=lambda: 0, model="m")
    text, thought = chunk({"content": "a"}), chunk({"reasoning_content": "b"})
    for frames, is_refused in ((text * 200, False), ((text + thought) * 200, True)):
        exchange = WholeExchange(provider_named("openai"), FRONTENDS.by_name[frontend], reply, Mode.TRANSLATE, Meter(3))
        for _ in range(MAX_CALLS // 400 + 1):
            assert exchange.feed(frames) == b""
        assert (exchange.failure is not None and exchange.failure.code == "response_too_large") is is_refused
        assert exchange.ended is is_refused
