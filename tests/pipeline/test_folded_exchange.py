"""A whole answer that was streamed by the upstream has the content that it would have had as one document."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from streamweir.core.usage import Usage
from streamweir.frontends.base import Reply
from streamweir.frontends.carried import CarriedReader, is_carried
from streamweir.frontends.table import FRONTENDS
from streamweir.pipeline.exchange import WholeExchange
from streamweir.pipeline.folded_exchange import FoldedExchange
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.plan import plan
from streamweir.providers.registry import native_wire, provider_named
from support.responses_body import ResponsesAnswer
from support.rich_answers import MESSAGE_ID

Document = dict[str, Any]

_HEAD = {"id": "chatcmpl-Folded", "created": 1744220042, "model": "gpt-5.1", "system_fingerprint": "fp_1"}
_USAGE = {
    "prompt_tokens": 7,
    "completion_tokens": 12,
    "total_tokens": 19,
    "completion_tokens_details": {"reasoning_tokens": 3},
    "prompt_tokens_details": {"cached_tokens": 2},
}


def _openai(*choices: Document, **members: Any) -> Document:
    numbered = [{"index": index, **choice} for index, choice in enumerate(choices)]
    return {**_HEAD, "object": "chat.completion", "choices": numbered, "usage": _USAGE, **members}


def _choice(finish: str = "stop", logprobs: Document | None = None, **message: Any) -> Document:
    told = {"message": {"role": "assistant", "content": None, **message}, "finish_reason": finish}
    return told if logprobs is None else {**told, "logprobs": logprobs}


def _call(id: str, arguments: str) -> Document:
    return {"id": id, "type": "function", "function": {"name": "look", "arguments": arguments}}


def _logprob(token: str) -> Document:
    return {"token": token, "logprob": -0.25, "bytes": list(token.encode()), "top_logprobs": []}


CHAT = {
    "text": _openai(_choice(content="Hello there.")),
    "tier": _openai(_choice(content="Hello."), service_tier="default"),
    "choices": _openai(_choice(content="One."), _choice(content="Two.", finish="length")),
    "logprobs": _openai(
        _choice(content="Hi.", logprobs={"content": [_logprob("H"), _logprob("i"), _logprob(".")], "refusal": None})
    ),
    "refusal": _openai(_choice(refusal="No, I will not.")),
    "filtered": _openai(_choice(content="So fa", finish="content_filter")),
    "reasoning": _openai(_choice(reasoning_content="Let me think.", content="Done.")),
    "calls": _openai(
        _choice(content="Both:", finish="tool_calls", tool_calls=[_call("c_1", '{"a": 1}'), _call("c_2", "{}")])
    ),
    "legacy": _openai(_choice(finish="function_call", function_call={"name": "look", "arguments": '{"a":1}'})),
    "sources": _openai(
        _choice(content="See.", annotations=[{"type": "url_citation", "url_citation": {"url": "https://a.example"}}])
    ),
    "empty": _openai(_choice(content="")),
}


def _frame(document: Document) -> bytes:
    return b"data: %b\n\n" % json.dumps(document).encode()


def _chat_frames(document: Document) -> list[bytes]:
    """The stream of the same answer, as OpenAI sends it."""
    head = {**{name: document[name] for name in document if name not in ("choices", "usage")}}
    head["object"] = "chat.completion.chunk"
    frames = []
    for choice in document["choices"]:
        index, message = choice["index"], choice["message"]

        def add(delta: Document, finish: str | None = None, logprobs: Document | None = None, at: int = index) -> None:
            entry = {"index": at, "delta": delta, "finish_reason": finish}
            if logprobs is not None:
                entry["logprobs"] = logprobs
            frames.append(_frame({**head, "choices": [entry], "usage": None}))

        add({"role": "assistant", "content": "" if message["content"] == "" else None})
        for name in ("reasoning_content", "refusal"):
            for piece in message.get(name) or "":
                add({name: piece})
        entries = choice.get("logprobs", {}).get("content")
        for at, piece in enumerate(message["content"] or ""):
            add({"content": piece}, logprobs={"content": [entries[at]], "refusal": None} if entries else None)
        for number, call in enumerate(message.get("tool_calls", ())):
            function = {"name": call["function"]["name"], "arguments": ""}
            add({"tool_calls": [{"index": number, "id": call["id"], "type": "function", "function": function}]})
            for piece in call["function"]["arguments"]:
                add({"tool_calls": [{"index": number, "function": {"arguments": piece}}]})
        if "function_call" in message:
            add({"function_call": {"name": message["function_call"]["name"], "arguments": ""}})
            for piece in message["function_call"]["arguments"]:
                add({"function_call": {"arguments": piece}})
        if "annotations" in message:
            add({"annotations": message["annotations"]})
        add({}, choice["finish_reason"])
    return [*frames, _frame({**head, "choices": [], "usage": document["usage"]}), b"data: [DONE]\n\n"]


_BLOCKS: list[Document] = [
    {"type": "thinking", "thinking": "Let me think.", "signature": "EqQBCgIYAg=="},
    {"type": "text", "text": "I will look."},
    {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"path": "a.txt"}},
]
_MESSAGE = {"id": MESSAGE_ID, "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}


def _message(blocks: Sequence[Document], stop: str, sequence: str | None = None) -> Document:
    usage = {"input_tokens": 7, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 1, "output_tokens": 12}
    return {**_MESSAGE, "content": list(blocks), "stop_reason": stop, "stop_sequence": sequence, "usage": usage}


MESSAGES = {
    "rich": _message(_BLOCKS, "tool_use"),
    "stopped": _message(_BLOCKS[1:2], "stop_sequence", "END"),
    "length": _message(_BLOCKS[:2], "max_tokens"),
    "refused": _message(_BLOCKS[1:2], "refusal"),
}
_DELTAS = {"thinking": ("thinking_delta", "thinking"), "text": ("text_delta", "text")}


def _message_frames(document: Document) -> list[bytes]:
    begun = {**document, "content": [], "stop_reason": None, "stop_sequence": None}
    begun["usage"] = {**document["usage"], "output_tokens": 1}
    events: list[Document] = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    for index, block in enumerate(document["content"]):
        kind = block["type"]
        if kind == "tool_use":
            arguments = json.dumps(block["input"], separators=(",", ":"))  # Anthropic adds spaces, which say nothing
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in arguments]
            events.append({"type": "content_block_start", "index": index, "content_block": {**block, "input": {}}})
        else:
            name, member = _DELTAS[kind]
            deltas = [{"type": name, member: piece} for piece in block[member]]
            if "signature" in block:
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            empty = {key: "" if key != "type" else kind for key in block}
            events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    told = {"stop_reason": document["stop_reason"], "stop_sequence": document["stop_sequence"]}
    events.append({"type": "message_delta", "delta": told, "usage": {"output_tokens": 12}})
    events.append({"type": "message_stop"})
    return [b"event: %b\n%b" % (event["type"].encode(), _frame(event)) for event in events]


_PARTS: list[Document] = [
    {"text": "Let me think.", "thought": True},
    {"text": "I will look.", "thoughtSignature": "c2lnbmVk"},
    {"functionCall": {"name": "look", "args": {"path": "a.txt"}}},
]
_COUNTS = {"promptTokenCount": 7, "candidatesTokenCount": 9, "thoughtsTokenCount": 3, "totalTokenCount": 19}


def _candidates(parts: Sequence[Document], finish: str) -> Document:
    candidate = {"content": {"parts": list(parts), "role": "model"}, "finishReason": finish, "index": 0}
    return {"candidates": [candidate], "usageMetadata": _COUNTS, "modelVersion": "gemini-3-pro", "responseId": "Folded"}


GEMINI = {
    "rich": _candidates(_PARTS, "STOP"),
    "length": _candidates(_PARTS[:2], "MAX_TOKENS"),
    "filtered": _candidates(_PARTS[1:2], "SAFETY"),
}


def _gemini_frames(document: Document) -> list[bytes]:
    (candidate,) = document["candidates"]
    frames = []
    for number, part in enumerate(candidate["content"]["parts"]):
        is_last = number + 1 == len(candidate["content"]["parts"])
        told = {"content": {"parts": [part], "role": "model"}, "index": 0}
        counts = _COUNTS if is_last else {"promptTokenCount": 7, "totalTokenCount": 7}
        finish = {"finishReason": candidate["finishReason"]} if is_last else {}
        frames.append(_frame({**document, "candidates": [{**told, **finish}], "usageMetadata": counts}))
    return frames


def _responses() -> ResponsesAnswer:
    answer = ResponsesAnswer(usage=(7, 12, 2, 3), tools=[{"type": "function", "name": "look"}])
    answer.reasoning(("Let me ", "think."), encrypted="ZW5j").text("I will ", "look.")
    return answer.calls(("look", ('{"path": ', '"a.txt"}'), "call_1"), ("look", ("{}",), "call_2"))


CASES: dict[str, tuple[str, list[bytes], bytes]] = {
    **{f"chat-{name}": ("openai", _chat_frames(each), json.dumps(each).encode()) for name, each in CHAT.items()},
    **{
        f"messages-{name}": ("anthropic", _message_frames(each), json.dumps(each).encode())
        for name, each in MESSAGES.items()
    },
    **{f"gemini-{name}": ("gemini", _gemini_frames(each), json.dumps(each).encode()) for name, each in GEMINI.items()},
    "responses-rich": ("openai-responses", _responses().frames(), _responses().whole()),
    "responses-refusal": (
        "openai-responses",
        ResponsesAnswer().refusal("No, ", "never.").frames(),
        ResponsesAnswer().refusal("No, ", "never.").whole(),
    ),
}

each_case = pytest.mark.parametrize("case", CASES)
_PASSED = {("anthropic", "messages"), ("openai-responses", "responses")}
"""Whole answers that are passed on as they came are never folded."""
each_pair = pytest.mark.parametrize(
    ("case", "frontend"),
    [
        (case, frontend)
        for case in CASES
        for frontend in ("openai", "bitseek", "messages", "responses")
        if (CASES[case][0], frontend) not in _PASSED
    ],
)


def _exchange(make: type[WholeExchange], kind: str, frontend: str, choices: int) -> tuple[WholeExchange, Meter]:
    front, meter = FRONTENDS.by_name[frontend], Meter(7)
    reply = Reply(entropy=b"x" * 24, now=lambda: 7, model="m", choices=choices)
    return make(provider_named(kind), front, reply, plan(native_wire(kind), front, reply), meter), meter


def _choices(case: str) -> int:
    return 2 if case == "chat-choices" else 1


def _usage(meter: Meter) -> Usage | None:
    return meter.record.usage


def _opened(body: bytes) -> Document:
    """The document, with the content of the envelopes of reasoning in place of their bytes."""
    document: Document = json.loads(body)
    for item in document.get("output", ()):
        if is_carried(item.get("encrypted_content")):
            item["encrypted_content"] = CarriedReader().open(item["encrypted_content"])
    return document


@each_pair
def test_a_folded_answer_equals_the_whole_answer(case: str, frontend: str) -> None:
    kind, frames, document = CASES[case]
    whole, whole_meter = _exchange(WholeExchange, kind, frontend, _choices(case))
    folded, folded_meter = _exchange(FoldedExchange, kind, frontend, _choices(case))
    expected = whole.feed(document) or whole.finish()
    got = b"".join([folded.feed(frame) for frame in frames])
    got += folded.finish() if not folded.ended else b""
    assert _opened(got) == _opened(expected)
    assert folded.failure is None
    assert (_usage(folded_meter), folded_meter.record.finishes) == (_usage(whole_meter), whole_meter.record.finishes)
    assert folded_meter.record.completion_id == whole_meter.record.completion_id


@each_case
def test_cut_anywhere_it_is_never_complete(case: str) -> None:
    """Chat completions are complete with the finish of every choice: only usage and `[DONE]` may follow."""
    kind, frames, _ = CASES[case]
    for count in range(1, len(frames) - (2 if kind == "openai" else 0)):
        exchange, _ = _exchange(FoldedExchange, kind, "openai", _choices(case))
        assert b"".join([exchange.feed(frame) for frame in frames[:count]]) == b""
        assert exchange.finish() == b""
        assert exchange.failure is not None
        assert exchange.failure.code == "upstream_stream_truncated"


def test_comments_are_no_progress() -> None:
    exchange, _ = _exchange(FoldedExchange, "openai", "openai", 1)
    assert isinstance(exchange, FoldedExchange)
    exchange.feed(b": keep-alive\n\n")
    assert not exchange.has_progressed
    exchange.feed(CASES["chat-text"][1][0])
    assert exchange.has_progressed
    exchange.has_progressed = False
    exchange.feed(b": keep-alive\n\ndata: {")
    assert (exchange.has_progressed, exchange.is_mid_event) == (False, True)


def test_a_folded_answer_may_end_without_its_terminator() -> None:
    frames = CASES["chat-text"][1]
    exchange, _ = _exchange(FoldedExchange, "openai", "openai", 1)
    assert isinstance(exchange, FoldedExchange)
    for frame in frames[:-2]:
        exchange.feed(frame)
    assert exchange.may_end_when_idle
    assert json.loads(exchange.finish())["choices"][0]["message"]["content"] == "Hello there."
    assert not exchange.may_end_when_idle
