"""Rules of docs/spec/quirks.md that show only at the end of the chain: what a caller gets, and what is settled."""

import json
from pathlib import Path
from typing import Any

import pytest

from streamweir.cli.commands.replay import replay
from streamweir.core.usage import Usage
from streamweir.core.verdict import Verdict
from streamweir.frontends.base import Reply
from streamweir.frontends.table import FRONTENDS
from streamweir.pipeline.exchange import Exchange, WholeExchange
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.plan import Mode
from streamweir.providers.registry import provider_named
from support.answers import openai_frames, openai_whole

FIXTURES = Path(__file__).parents[1] / "fixtures"


def fixture(name: str) -> bytes:
    return (FIXTURES / name / "response.sse").read_bytes()


def documents_of(body: bytes) -> list[Any]:
    lines = [line[5:].strip() for line in body.split(b"\n") if line.startswith(b"data:")]
    return [json.loads(line) for line in lines if line != b"[DONE]"]


# Q42: cached tokens that are no part of the prompt.

CHAT_USAGE = {"prompt_tokens": 170, "completion_tokens": 3, "total_tokens": 173}
SHOWN: dict[str, dict[str, Any]] = {
    "openai": {
        **CHAT_USAGE,
        "prompt_tokens_details": {"text_tokens": 7, "audio_tokens": 0, "image_tokens": 0, "cached_tokens": 163},
    },
    "opentoken": {**CHAT_USAGE, "prompt_tokens_details": {"cached_tokens": 163}},
    "aivene": {**CHAT_USAGE, "prompt_tokens_details": {"cached_tokens": 163}},
    "bitseek": CHAT_USAGE,
    "messages": {
        "input_tokens": 7,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 163,
        "output_tokens": 3,
    },
    "responses": {
        "input_tokens": 170,
        "input_tokens_details": {"cached_tokens": 163, "cache_write_tokens": 0},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 173,
    },
}


@pytest.mark.parametrize("target", SHOWN)
def test_q42_what_a_caller_is_shown_includes_the_cached_tokens(target: str) -> None:
    out, completed = replay(fixture("azure/cached_beside_prompt"), source="azure", target=target, usage=True)
    assert completed
    documents = [each.get("response") or each for each in documents_of(out)]
    shown = [usage for each in documents if (usage := each.get("usage"))][-1]
    assert {name: value for name, value in shown.items() if name in SHOWN[target]} == SHOWN[target]


OUTSIDE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
DETAILS = {"prompt_tokens_details": {"cached_tokens": 163, "audio_tokens": 0}}


def test_q42_a_report_is_not_passed_on_that_says_less_than_is_billed() -> None:
    *frames, report, done = openai_frames()
    document = json.loads(report[6:])
    document["usage"] = {**OUTSIDE, **DETAILS}
    meter = Meter()
    reply = Reply(id="chatcmpl-" + "o" * 29, now=lambda: 7, model="m", include_usage=True)
    exchange = Exchange(provider_named("openai"), FRONTENDS.by_name["openai"], reply, Mode.PASS, meter)
    out = b"".join(
        exchange.feed(frame) for frame in (*frames, b"data: " + json.dumps(document).encode() + b"\n\n", done)
    )
    assert documents_of(out)[-1]["usage"] == {**CHAT_USAGE, **DETAILS}
    assert_settled(meter)


@pytest.mark.parametrize("mode", [Mode.FILTER, Mode.TRANSLATE])
def test_q42_a_whole_answer_says_what_is_billed(mode: Mode) -> None:
    document = json.loads(openai_whole()) | {"usage": {**OUTSIDE, **DETAILS}}
    meter = Meter()
    reply = Reply(id="chatcmpl-" + "o" * 29, now=lambda: 7, model="m")
    exchange = WholeExchange(provider_named("openai"), FRONTENDS.by_name["openai"], reply, mode, meter)
    out = exchange.feed(json.dumps(document).encode()) + exchange.finish()
    assert json.loads(out)["usage"] == {**CHAT_USAGE, **DETAILS}
    assert_settled(meter)


def assert_settled(meter: Meter) -> None:
    usage = meter.settle().usage
    assert isinstance(usage, Usage)
    assert (usage.input_uncached, usage.cache_read, usage.output, usage.total_tokens) == (7, 163, 3, 173)


# Q44: labels of frames that were passed on.

LABELS = {"system_fingerprint": "fp_1", "service_tier": "default"}


def labelled(frame: bytes, labels: dict[str, Any], *, is_last: bool) -> bytes:
    """The frame with these labels, before its choices or at its end."""
    document = json.loads(frame[6:])
    rest = {name: document.pop(name) for name in ("choices", "usage")}
    bare = {name: value for name, value in document.items() if name not in LABELS}
    document = {**bare, **rest, **labels} if is_last else {**bare, **labels, **rest}
    return b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"


def written(frames: list[bytes], mode: Mode, choices: int | None = None) -> tuple[list[Any], Exchange, Meter]:
    meter = Meter()
    shows_usage = mode is not Mode.FILTER
    reply = Reply(id="chatcmpl-" + "o" * 29, now=lambda: 7, model="m", include_usage=shows_usage, choices=choices)
    exchange = Exchange(provider_named("openai"), FRONTENDS.by_name["openai"], reply, mode, meter)
    return documents_of(b"".join([exchange.feed(frame) for frame in frames])), exchange, meter


CHANGES: dict[str, list[dict[str, Any]]] = {
    "the same on every frame": [LABELS] * 3,
    "on the first frame": [LABELS, {}, {}],
    "null": [{"system_fingerprint": None, "service_tier": None}] * 3,
    "one of them": [{"system_fingerprint": "fp_1"}] * 3,
    "none": [{}] * 3,
    "changed": [LABELS, {"system_fingerprint": "fp_2", "service_tier": "flex"}, {}],
}
PLACES = [(name, is_last) for name in CHANGES for is_last in (False, True) if not (name == "changed" and is_last)]
"""A change in the middle of the text is seen only where it stands before the choices, as with OpenAI."""


@pytest.mark.parametrize(("name", "is_last"), PLACES)
def test_q44_labels_of_passed_frames_are_on_those_behind_them(name: str, is_last: bool) -> None:
    role, *texts, finish, report, done = openai_frames()
    frames = [
        labelled(frame, each, is_last=is_last) for frame, each in zip([role, *texts[:2]], CHANGES[name], strict=True)
    ]
    odd = labelled(texts[2], {}, is_last=is_last).replace(b'"content":', b'"reasoning":"","content":')
    behind = [odd, labelled(finish, {}, is_last=is_last), labelled(report, {}, is_last=is_last), done]
    passed, exchange, meter = written([*frames, *behind], Mode.PASS)
    assert not exchange.passes
    translated, _, other = written([*frames, *behind], Mode.TRANSLATE)
    assert [each.get("choices") for each in passed[1:]] == [each.get("choices") for each in translated[1:]]
    for one, another in zip(passed[3:], translated[3:], strict=True):
        assert {name: one.get(name, "absent") for name in LABELS} == {
            name: another.get(name, "absent") for name in LABELS
        }
    assert meter.record.service_tier == other.record.service_tier


def test_q44_labels_of_odd_types_end_nothing() -> None:
    frames = [
        labelled(frame, {"system_fingerprint": 7, "service_tier": {}}, is_last=False) for frame in openai_frames()[:-2]
    ]
    odd = frames[-1].replace(b'"delta":{}', b'"delta":{"content":"!"}')
    passed, exchange, _ = written([*frames[:-1], odd, openai_frames()[-1]], Mode.PASS)
    assert not exchange.passes
    assert exchange.ended
    assert passed[-1]["choices"] == []


# Q41: `[DONE]` and usage, but no finish.

UNFINISHED = [*openai_frames(finish=None)]
"""Role, texts, usage, `[DONE]`."""
FINISH_WORDS = {"messages": ("end_turn", "tool_use"), "responses": ("completed", "completed")}


def finishes_in(documents: list[Any], target: str) -> set[str]:
    """The finish of each choice, by the words of the API."""
    if target == "messages":
        return {each["delta"]["stop_reason"] for each in documents if each["type"] == "message_delta"}
    if target == "responses":
        return {each["response"]["status"] for each in documents if each["type"] == "response.completed"}
    choices = [choice for each in documents for choice in each.get("choices") or ()]
    return {choice["finish_reason"] for choice in choices if choice["finish_reason"] is not None}


@pytest.mark.parametrize("target", sorted(FRONTENDS.by_name.keys() - {"embeddings", "completions"}))
@pytest.mark.parametrize("has_call", [False, True], ids=["text", "call"])
def test_q41_an_answer_without_a_finish_is_complete_in_every_api(target: str, has_call: bool) -> None:
    name = "done_and_usage_without_finish" + ("_after_a_call" if has_call else "")
    out, completed = replay(fixture(f"openai-compatible/{name}"), source="openai", target=target, usage=True)
    assert completed
    assert finishes_in(documents_of(out), target) == {FINISH_WORDS.get(target, ("stop", "tool_calls"))[has_call]}


@pytest.mark.parametrize("target", sorted(FRONTENDS.by_name.keys() - {"embeddings", "completions"}))
@pytest.mark.parametrize("name", ["done_and_usage_behind_a_cut_call", "done_without_finish_after_interim_usage"])
def test_q41_what_may_be_cut_is_complete_in_no_api(target: str, name: str) -> None:
    out, completed = replay(fixture(f"openai-compatible/{name}"), source="openai", target=target, usage=True)
    assert not completed
    assert finishes_in(documents_of(out), target) == set()


CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}
LEGACY = {"function_call": {"name": "f", "arguments": ""}}


def deltas(*parts: dict[str, Any], choice: int = 0) -> list[bytes]:
    """Frames of a choice that can be passed on: the role, then these deltas."""
    role = json.loads(UNFINISHED[0][6:])
    frames = []
    for delta in ({"role": "assistant", "content": ""}, *parts):
        shown = {"index": choice, "delta": delta, "logprobs": None, "finish_reason": None}
        frames.append(b"data: " + json.dumps({**role, "choices": [shown]}, separators=(",", ":")).encode() + b"\n\n")
    return frames


def arguments(text: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}


def finish_of(frame: bytes, reason: str) -> bytes:
    document = json.loads(frame[6:])
    document["choices"][0] |= {"delta": {}, "finish_reason": reason}
    return b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"


REPORT, END = UNFINISHED[-2:]
ANSWERS: dict[str, tuple[list[bytes], list[str] | None]] = {
    "text": ([*UNFINISHED[:-2], REPORT, END], ["stop"]),
    "usage twice": ([*UNFINISHED[:-2], REPORT, REPORT, END], ["stop"]),
    "call": ([*deltas({"tool_calls": [CALL]}, arguments('{"a":'), arguments("1}")), REPORT, END], ["tool_calls"]),
    "call without arguments": ([*deltas({"tool_calls": [CALL]}), REPORT, END], ["tool_calls"]),
    "text and call": (
        [*deltas({"content": "Hi"}, {"tool_calls": [CALL]}, arguments("{}")), REPORT, END],
        ["tool_calls"],
    ),
    "cut call": ([*deltas({"tool_calls": [CALL]}, arguments('{"a":')), REPORT, END], None),
    "legacy call": ([*deltas(LEGACY, {"function_call": {"arguments": "{}"}}), REPORT, END], ["function_call"]),
    "cut legacy call": ([*deltas(LEGACY, {"function_call": {"arguments": "{"}}), REPORT, END], None),
    "no usage": ([*UNFINISHED[:-2], END], None),
    "usage, no done": ([*UNFINISHED[:-2], REPORT], None),
    "usage before the last text": ([*UNFINISHED[:-3], REPORT, UNFINISHED[-3], END], None),
    "usage and text in one frame": (
        [
            *UNFINISHED[:-2],
            UNFINISHED[1].replace(b'"usage":null', b'"usage":{"prompt_tokens":1,"completion_tokens":2}'),
            END,
        ],
        None,
    ),
    "partial usage": ([*UNFINISHED[:-2], b'data: {"choices":[],"usage":{"prompt_tokens":3}}\n\n', END], None),
    "invalid usage": (
        [*UNFINISHED[:-2], b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":-1}}\n\n', END],
        None,
    ),
    "error behind the usage": ([*UNFINISHED[:-2], REPORT, b'data: {"error":{"message":"x"}}\n\n', END], None),
    "nothing but usage": ([REPORT, END], None),
}


@pytest.mark.parametrize(("frames", "finishes"), ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("mode", Mode)
def test_q41_done_completes_what_has_its_usage_behind_it(
    frames: list[bytes], finishes: list[str] | None, mode: Mode
) -> None:
    documents, exchange, meter = written(frames, mode)
    documents += documents_of(exchange.finish())
    settled = meter.settle()
    if finishes is None:
        assert finishes_in(documents, "openai") == set()
        assert settled.verdict in {Verdict.TRUNCATED, Verdict.UPSTREAM_ERROR}
        assert settled.flags in {(), ("usage_anomaly",)}
    else:
        assert finishes_in(documents, "openai") == set(finishes)
        assert (settled.verdict, settled.flags) == (Verdict.COMPLETED, ("finish_inferred",))
        assert [str(reason) for reason in settled.finishes.values()] == finishes


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "last"])
def test_q41_of_several_choices_those_without_a_finish_get_one(mode: Mode, is_first: bool) -> None:
    one, other = deltas({"content": "a"}), deltas({"content": "b"}, choice=1)
    finished = finish_of((one if is_first else other)[0], "length")
    documents, _, meter = written([*one, *other, finished, REPORT, END], mode, choices=2)
    ends = {
        choice["index"]: choice["finish_reason"]
        for each in documents
        for choice in each["choices"]
        if choice["finish_reason"]
    }
    assert ends == ({0: "length", 1: "stop"} if is_first else {0: "stop", 1: "length"})
    assert meter.settle().flags == ("finish_inferred",)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(
    "frames",
    [deltas({"content": "a"}), [*deltas({"content": "a"}), finish_of(UNFINISHED[0], "stop")]],
    ids=["open", "finished"],
)
def test_q41_a_choice_that_never_came_is_missing(mode: Mode, frames: list[bytes]) -> None:
    _, exchange, meter = written([*frames, REPORT, END], mode, choices=2)
    assert exchange.ended
    assert meter.settle().verdict is Verdict.TRUNCATED


# Q43: ids that are not unique.

OURS = "chatcmpl-" + "o" * 29


def with_id(frames: list[bytes], id: str) -> list[bytes]:
    return [frame.replace(json.loads(UNFINISHED[0][6:])["id"].encode(), id.encode()) for frame in frames]


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(
    ("id", "is_kept"), [("chatcmpl-764", False), ("chatcmpl-" + "7" * 15, False), ("chatcmpl-" + "7" * 16, True)]
)
def test_q43_an_id_that_is_not_unique_is_replaced(id: str, is_kept: bool, mode: Mode) -> None:
    documents, exchange, meter = written(with_id(openai_frames(), id), mode)
    shown = id if is_kept else OURS
    assert {each["id"] for each in documents} == {shown}
    assert meter.settle().completion_id == shown
    assert exchange.passes is (is_kept and mode is not Mode.TRANSLATE)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(("id", "is_kept"), [("chatcmpl-764", False), ("chatcmpl-" + "7" * 16, True)])
def test_q43_the_id_of_a_whole_answer_is_replaced(id: str, is_kept: bool, mode: Mode) -> None:
    meter = Meter()
    reply = Reply(id=OURS, now=lambda: 7, model="m")
    exchange = WholeExchange(provider_named("openai"), FRONTENDS.by_name["openai"], reply, mode, meter)
    out = exchange.feed(json.dumps(json.loads(openai_whole()) | {"id": id}).encode()) + exchange.finish()
    assert json.loads(out)["id"] == meter.settle().completion_id == (id if is_kept else OURS)


def test_q43_ids_of_tool_calls_stay() -> None:
    frames = [*deltas({"tool_calls": [CALL | {"id": "1"}]}, arguments("{}")), REPORT, END]
    documents, _, _ = written(with_id(frames, "chatcmpl-764"), Mode.PASS)
    calls = [call for each in documents for choice in each["choices"] for call in choice["delta"].get("tool_calls", ())]
    assert [call["id"] for call in calls if "id" in call] == ["1"]
