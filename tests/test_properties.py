"""What holds for every stream, not only for those that we thought of."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.cli.commands.replay import replay
from streamweir.core.events import Event
from streamweir.frontends.base import Reply
from streamweir.frontends.table import FRONTENDS
from streamweir.pipeline.exchange import Exchange
from streamweir.pipeline.intake import Intake
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.plan import Mode, plan
from streamweir.providers.registry import FAMILIES, native_wire, provider_named
from support.amazon_body import answer as converse_answer
from support.amazon_body import frame as amazon_frame
from support.comparison import joined
from support.dialect_output import passed_frames, read_stream, read_whole
from support.dialect_rules import DIALECTS as RULES
from support.event_rules import assert_valid_events
from support.fixture_bodies import BODIES as ALL_BODIES
from support.fixture_bodies import read_body

BODIES = [(path.parent.parent.name, read_body(path)) for path in ALL_BODIES]
SOURCES = [
    "openai",
    "openai-compatible",
    "snowflake",
    "bedrock-messages",
    *sorted({provider_named(kind).name for kind in FAMILIES}),
]


def cut(body: bytes, places: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [body[start:end] for start, end in pairwise(edges)]


def events_of(source: str, pieces: Sequence[bytes]) -> list[Event]:
    intake = Intake(provider_named(source))
    return [*(event for piece in pieces for event in intake.feed(piece)), *intake.finish()]


def exchanged(source: str, dialect: str, *, usage: bool, mode: Mode | None = None) -> Exchange:
    frontend = FRONTENDS.by_name[dialect]
    reply = Reply(id=frontend.make_id(b"x" * 24), now=lambda: 7, model="vendor/model", include_usage=usage)
    chosen = mode or plan(native_wire(source), frontend, reply)
    return Exchange(provider_named(source), frontend, reply, chosen, Meter())


def written(exchange: Exchange, pieces: Sequence[bytes]) -> bytes:
    return b"".join([exchange.feed(piece) for piece in pieces]) + exchange.finish()


places = st.lists(st.integers(0, 1 << 20), max_size=12)


@given(st.sampled_from(BODIES), places)
def test_no_cut_changes_the_events(case: tuple[str, bytes], where: list[int]) -> None:
    source, body = case
    assert events_of(source, cut(body, where)) == events_of(source, [body])


@given(st.sampled_from(BODIES), places, st.sampled_from(sorted(FRONTENDS.dialects)), st.booleans())
def test_no_cut_changes_the_bytes(case: tuple[str, bytes], where: list[int], dialect: str, usage: bool) -> None:
    source, body = case
    pieces = [cut(body, where), [body]]
    first, second = (written(exchanged(source, dialect, usage=usage), part) for part in pieces)
    assert first == second


@given(st.sampled_from(BODIES), st.integers(0, 1 << 20), st.sampled_from(RULES), st.booleans())
def test_an_answer_that_stops_anywhere_keeps_the_rules_and_the_dialect(
    case: Any, at: int, rules: Any, usage: bool
) -> None:
    source, body = case
    start = body[: at % (len(body) + 1)]
    assert_valid_events(events_of(source, [start]))
    out, completed = replay(start, source=source, target=rules.name, model="vendor/model", usage=usage)
    assert (read_stream(out, rules, usage, passed_frames(start)).error is None) is completed


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = [
    "id",
    "object",
    "created",
    "model",
    "choices",
    "index",
    "delta",
    "role",
    "content",
    "refusal",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "finish_reason",
    "usage",
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "error",
    "message",
    "type",
    "code",
    "logprobs",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "function_call",
    "x_groq",
    "candidates",
    "parts",
    "text",
    "thought",
    "thoughtSignature",
    "functionCall",
    "args",
    "finishReason",
    "usageMetadata",
    "promptTokenCount",
    "candidatesTokenCount",
    "promptFeedback",
    "blockReason",
    "partialArgs",
    "content_block",
    "partial_json",
    "thinking",
    "signature",
    "stop_reason",
    "input",
    "input_tokens",
    "output_tokens",
    "annotations",
    "audio",
    "images",
    "contentBlockIndex",
    "toolUse",
    "toolUseId",
    "toolResult",
    "reasoningContent",
    "redactedContent",
    "citation",
    "image",
    "start",
    "stopReason",
    "inputTokens",
    "outputTokens",
    "output",
]
WORDS = [
    "stop",
    "tool_calls",
    "STOP",
    "1",
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "text",
    "tool_use",
    "thinking",
    "text_delta",
    "input_json_delta",
    "thinking_delta",
    "signature_delta",
    "error",
    "end_turn",
]
shaped = st.recursive(
    st.none() | st.integers(-1, 3) | st.sampled_from(WORDS) | st.text(max_size=4) | junk,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=6),
    max_leaves=12,
)
line = st.one_of(
    st.binary(max_size=40),
    shaped.map(lambda value: b"data: " + json.dumps(value).encode()),
    st.dictionaries(st.sampled_from(MEMBERS), shaped, min_size=1, max_size=6).map(
        lambda value: b"data: " + json.dumps(value).encode()
    ),
    st.sampled_from([b"data: [DONE]", b"event: error", b": x", b"", b"error: {}", b"data:", b"[", b"]", b"{", b"}"]),
)
AMAZON_EVENTS = [
    "messageStart",
    "contentBlockStart",
    "contentBlockDelta",
    "contentBlockStop",
    "messageStop",
    "metadata",
]
binary_frame = st.builds(
    amazon_frame,
    st.sampled_from([*AMAZON_EVENTS, "new", ":exception/throttlingException"]),
    st.dictionaries(st.sampled_from(MEMBERS), shaped, max_size=6),
)
bodies = st.one_of(
    st.binary(max_size=200),
    st.lists(binary_frame, max_size=8).map(b"".join),
    st.lists(line, max_size=8).map(b"\n\n".join),
    shaped.map(lambda value: json.dumps(value).encode()),
    st.lists(shaped, max_size=4).map(lambda value: json.dumps(value).encode()),
)


@given(bodies, st.sampled_from(SOURCES), places)
def test_arbitrary_bytes_never_crash_a_decoder(body: bytes, source: str, where: list[int]) -> None:
    events = events_of(source, [body])
    assert_valid_events(events)
    assert events_of(source, cut(body, where)) == events


@given(bodies, st.sampled_from(SOURCES), st.sampled_from(RULES), st.booleans())
def test_arbitrary_bytes_come_out_as_the_dialect_promises(body: bytes, source: str, rules: Any, usage: bool) -> None:
    out, completed = replay(body, source=source, target=rules.name, model="vendor/model", usage=usage)
    assert (read_stream(out, rules, usage, passed_frames(body)).error is None) is completed
    if not rules.is_bitseek:
        replay(body, source=source, target=rules.name, buffered=True)


hostile = st.text(
    st.one_of(
        st.characters(), st.sampled_from(["\n", "\r", "\u2028", "\u2029", "\x85", "\0", '"', "\\", "\ud83d", "\ude00"])
    ),
    min_size=1,
    max_size=20,
)
texts = st.lists(st.one_of(hostile, st.sampled_from(["\n\ndata: [DONE]\n\n", "data: [DONE]", "\r\r"])), min_size=1)


def openai_body(pieces: list[str]) -> bytes:
    head = {"id": "chatcmpl-u000000000000001", "object": "chat.completion.chunk", "created": 5, "model": "m"}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, *({"content": piece} for piece in pieces), {}]
    frames: list[dict[str, Any]] = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}], "usage": None}
        for delta in deltas
    ]
    counts = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    frames.append({**head, "choices": [], "usage": counts})
    lines = [json.dumps(frame, separators=(",", ":")) for frame in frames]
    return "".join(f"data: {text}\n\n" for text in [*lines, "[DONE]"]).encode()


def anthropic_body(pieces: list[str]) -> bytes:
    frames: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "m", "model": "m", "content": [], "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
            for piece in pieces
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {frame['type']}\ndata: {json.dumps(frame)}\n\n" for frame in frames).encode()


def gemini_body(pieces: list[str]) -> bytes:
    frames: list[dict[str, Any]] = [
        {"candidates": [{"content": {"role": "model", "parts": [{"text": piece}]}}]} for piece in pieces
    ]
    frames.append({"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 1}})
    return "".join(f"data: {json.dumps(frame)}\r\n\r\n" for frame in frames).encode()


def bedrock_body(pieces: list[str]) -> bytes:
    return converse_answer(*pieces)


@pytest.mark.parametrize("source", ["openai", "anthropic", "gemini", "bedrock"])
@given(pieces=texts)
def test_no_text_forges_a_frame_and_none_is_lost(source: str, pieces: list[str]) -> None:
    builders = {"openai": openai_body, "anthropic": anthropic_body, "gemini": gemini_body, "bedrock": bedrock_body}
    body = builders[source](pieces)
    for rules in RULES:
        out, completed = replay(body, source=source, target=rules.name, model="vendor/model")
        assert completed
        shown = read_stream(out, rules, False, passed_frames(body))
        assert joined(shown.choices[0].text) == joined("".join(pieces))
        frames = out.split(b"\n\n")[:-1]
        assert all(frame.startswith(b"data: ") and b"\n" not in frame and b"\r" not in frame for frame in frames)
        assert frames.count(b"data: [DONE]") == (0 if rules.is_bitseek else 1)


call_pieces = st.lists(st.text(max_size=5), max_size=3)
entry = st.fixed_dictionaries({"token": st.text(max_size=3), "logprob": st.floats(-9, 0), "bytes": st.none()})


@st.composite
def openai_streams(draw: st.DrawFn) -> list[dict[str, Any]]:
    """The frames of an answer as OpenAI itself sends it: what may be passed on, and must come back the same."""
    head: dict[str, Any] = {
        "id": "chatcmpl-u000000000000001",
        "object": "chat.completion.chunk",
        "created": 5,
        "model": "m-1",
    }
    if draw(st.booleans()):
        head["system_fingerprint"] = draw(st.sampled_from([None, "", "fp_44709d6fcb"]))
    if draw(st.booleans()):
        head["service_tier"] = draw(st.none() | st.sampled_from(["default", "flex"]))
    logprobs = draw(st.sampled_from(["absent", "null", "some"]))
    queues = [
        draw(openai_choice(index, logprobs, has_calls=draw(st.booleans()))) for index in range(draw(st.integers(1, 3)))
    ]
    choices = []
    while any(queues):
        queue = draw(st.sampled_from([queue for queue in queues if queue]))
        choices.append(queue.pop(0))
    details = {"cached_tokens": 0, "audio_tokens": 0} if draw(st.booleans()) else None
    usage: dict[str, Any] = {"prompt_tokens": 4, "completion_tokens": 3, "total_tokens": 7}
    if details is not None:
        usage["prompt_tokens_details"] = details
    frames = [{**head, "choices": [choice], "usage": None} for choice in choices]
    return [*frames, {**head, "choices": [], "usage": usage}]


@st.composite
def openai_choice(draw: st.DrawFn, index: int, logprobs: str, has_calls: bool) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    member = draw(st.sampled_from(["content", "refusal"]))
    deltas += [{member: text} for text in draw(st.lists(st.text(min_size=1, max_size=5), max_size=3))]
    for call in range(draw(st.integers(1, 2)) if has_calls else 0):
        function = {"name": draw(st.text(min_size=1, max_size=5)), "arguments": ""}
        opener = {"index": call, "id": f"call_{call}", "type": "function", "function": function}
        deltas.append({"tool_calls": [opener]})
        pieces = draw(st.lists(st.text(min_size=1, max_size=5), max_size=3))
        deltas += [{"tool_calls": [{"index": call, "function": {"arguments": piece}}]} for piece in pieces]
    deltas.append({})
    words = ["tool_calls"] if has_calls else ["stop", "length", "content_filter"]
    choices = []
    for delta in deltas:
        choice: dict[str, Any] = {"index": index, "delta": delta}
        if logprobs == "null" or (logprobs == "some" and not (set(delta) & {"content", "refusal"} and len(delta) == 1)):
            choice["logprobs"] = None
        elif logprobs == "some":
            choice["logprobs"] = {"content": [draw(entry)], "refusal": None}
        choice["finish_reason"] = None if delta else draw(st.sampled_from(words))
        choices.append(choice)
    return choices


def body_of(frames: list[dict[str, Any]]) -> bytes:
    lines = [json.dumps(frame, separators=(",", ":"), ensure_ascii=False) for frame in frames]
    return b"".join(b"data: %b\n\n" % text.encode() for text in [*lines, "[DONE]"])


def documents_of(out: bytes) -> list[Any]:
    blocks = [block.removeprefix("data: ") for block in out.decode().split("\n\n")]
    assert blocks[-2:] == ["[DONE]", ""]
    return [json.loads(block) for block in blocks[:-2]]


def without_openings(documents: list[Any]) -> list[Any]:
    return [document for document in documents if not is_opening(document)]


def is_opening(document: Any) -> bool:
    return bool(document["choices"]) and "role" in document["choices"][0]["delta"]


def openings(documents: list[Any]) -> list[Any]:
    return sorted((document for document in documents if is_opening(document)), key=lambda d: d["choices"][0]["index"])


@given(openai_streams())
def test_openai_to_events_to_openai_is_the_same_json(frames: list[dict[str, Any]]) -> None:
    """The same frames in the same order; only a choice's opening frame may wait for its first other one."""
    body = body_of(frames)
    exchange = exchanged("openai", "openai", usage=True, mode=Mode.TRANSLATE)
    documents = documents_of(written(exchange, [body]))
    assert without_openings(documents) == without_openings(frames)
    assert openings(documents) == openings(frames)


OPENING = {"role": "assistant", "content": ""}
EXCEPTIONS: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    # why: a delta that OpenAI sends, and the deltas that a translated stream has in its place
    "the opening is a frame of its own": ({"role": "assistant", "content": "a"}, [OPENING, {"content": "a"}]),
    "a null says nothing": ({"role": "assistant", "content": None, "refusal": None}, [OPENING]),
    "members that the dialect does not have are left out": ({**OPENING, "odd": 1}, [OPENING]),
}


@pytest.mark.parametrize("why", sorted(EXCEPTIONS))
def test_what_a_translated_stream_says_in_another_way(why: str) -> None:
    sent, got = EXCEPTIONS[why]
    head = {"id": "chatcmpl-u000000000000001", "object": "chat.completion.chunk", "created": 5, "model": "m"}
    finish = {"index": 0, "delta": {}, "finish_reason": "stop"}
    frames = [{**head, "choices": [{"index": 0, "delta": sent, "finish_reason": None}], "obfuscation": "x"}]
    body = body_of([*frames, {**head, "choices": [finish]}])
    exchange = exchanged("openai", "openai", usage=False, mode=Mode.TRANSLATE)
    documents = documents_of(written(exchange, [body]))
    assert [document["choices"][0]["delta"] for document in documents] == [*got, {}]
    assert all("obfuscation" not in document for document in documents)


@given(openai_streams(), st.booleans(), places)
def test_pass_and_translate_agree(frames: list[dict[str, Any]], usage: bool, where: list[int]) -> None:
    body = body_of(frames)
    exchanges = [exchanged("openai", "openai", usage=usage, mode=mode) for mode in (None, Mode.TRANSLATE)]
    first, second = (documents_of(written(exchange, cut(body, where))) for exchange in exchanges)
    assert exchanges[0].passes
    assert without_openings(first) == without_openings(second)
    assert openings(first) == openings(second)
    settled = [exchange._meter.settle() for exchange in exchanges]
    assert settled[0] == settled[1]
    assert len({exchange._meter.record.delivered.getvalue() for exchange in exchanges}) == 1


@given(st.sampled_from([case for case in BODIES if case[0] in ("openai", "openai-compatible", "azure")]), st.booleans())
def test_pass_and_translate_agree_on_every_fixture(case: tuple[str, bytes], usage: bool) -> None:
    _, body = case
    exchanges = [exchanged("openai", "openai", usage=usage, mode=mode) for mode in (None, Mode.TRANSLATE)]
    rules, passed = RULES[0], passed_frames(body)
    shown = []
    for exchange in exchanges:
        out = written(exchange, [body])
        shown.append(read_stream(out, rules, usage, passed).choices if exchange.committed else exchange.failure)
    assert shown[0] == shown[1]
    assert exchanges[0]._meter.settle() == exchanges[1]._meter.settle()


@given(openai_streams())
def test_deltas_concatenate_to_the_buffered_message(frames: list[dict[str, Any]]) -> None:
    body = body_of(frames)
    for rules in RULES[:3]:
        streamed, _ = replay(body, source="openai", target=rules.name, model="vendor/model", usage=True)
        whole, _ = replay(body, source="openai", target=rules.name, model="vendor/model", buffered=True)
        shown = [read_stream(streamed, rules, True, passed_frames(body)), read_whole(whole, rules)]
        assert shown[0].choices == shown[1].choices
        assert shown[0].usage == shown[1].usage
