"""The whole chain: PASS, FILTER and TRANSLATE, the commit, and the switch in mid-stream."""

import json
from typing import Any

import pytest

from streamweir.core.errors import GatewayFault, UpstreamError
from streamweir.core.events import FinishReason
from streamweir.core.verdict import Verdict
from streamweir.frontends.base import Reply
from streamweir.frontends.table import FRONTENDS
from streamweir.pipeline.exchange import MAX_CALLS, Exchange, WholeExchange
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.plan import Mode, plan
from streamweir.pipeline.settlement import UsageSource
from streamweir.providers.registry import native_wire, provider_named

HEAD = {"id": "chatcmpl-u000000000000001", "object": "chat.completion.chunk", "created": 5, "model": "gpt-4o-2024"}
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
DONE = b"data: [DONE]\n\n"


def frame(document: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, index: int = 0, **more: Any) -> bytes:
    choice = {"index": index, "delta": {} if delta is None else delta, "logprobs": None, "finish_reason": finish}
    return frame({**HEAD, "choices": [choice], "usage": None, **more})


ROLE = chunk({"role": "assistant", "content": "", "refusal": None})
HELLO = chunk({"content": "Hello"})
STOP = chunk(finish="stop")
REPORT = frame({**HEAD, "choices": [], "usage": USAGE})
ANSWER = [ROLE, HELLO, STOP, REPORT, DONE]
NULL = b',"usage":null'


class Run:
    """One exchange of an OpenAI upstream with an openai caller."""

    def __init__(self, *, usage: bool, mode: Mode | None = None, dialect: str = "openai") -> None:
        frontend = FRONTENDS.by_name[dialect]
        reply = Reply(id="chatcmpl-ours", now=lambda: 7, model="gpt-4o", include_usage=usage)
        chosen = mode or plan(native_wire("openai"), frontend, reply)
        self.meter = Meter()
        self.exchange = Exchange(provider_named("openai"), frontend, reply, chosen, self.meter)
        self.out = b""

    def feed(self, *frames: bytes) -> "Run":
        for part in frames:
            self.out += self.exchange.feed(part)
        return self

    def finish(self) -> "Run":
        self.out += self.exchange.finish()
        return self

    @property
    def documents(self) -> list[Any]:
        texts = [block.removeprefix("data: ") for block in self.out.decode().split("\n\n") if block]
        return [text if text == "[DONE]" else json.loads(text) for text in texts]


def test_pass_forwards_the_bytes() -> None:
    run = Run(usage=True).feed(*ANSWER).finish()
    assert run.out == b"".join(ANSWER)
    assert run.exchange.passes
    assert run.exchange.ended


def test_filter_forwards_them_less_the_usage() -> None:
    run = Run(usage=False).feed(*ANSWER).finish()
    assert run.out == b"".join([part.replace(NULL, b"") for part in ANSWER if part != REPORT])
    assert run.exchange.passes


def test_frames_without_a_usage_member_pass_where_none_is_due() -> None:
    bare = [part.replace(NULL, b"") for part in (ROLE, HELLO, STOP)]
    run = Run(usage=False).feed(*bare, DONE)
    assert run.out == b"".join([*bare, DONE])
    assert run.exchange.passes


@pytest.mark.parametrize("usage", [True, False])
def test_the_settlement_is_the_same_whichever_way_the_bytes_went(usage: bool) -> None:
    ways = [Run(usage=usage, mode=mode).feed(*ANSWER).finish().meter for mode in Mode]
    first, *others = [meter.settle() for meter in ways]
    assert others == [first, first]
    assert (first.verdict, first.usage_source, first.usage.total_tokens) == (
        Verdict.COMPLETED,
        UsageSource.PROVIDER,
        5,
    )
    assert {meter.record.delivered.getvalue() for meter in ways} == {"Hello"}


@pytest.mark.parametrize(("dialect", "id"), [("openai", "chatcmpl-u000000000000001"), ("aivene", "chatcmpl-ours")])
def test_the_settlement_has_the_id_that_stands_in_the_chunks(dialect: str, id: str) -> None:
    run = Run(usage=True, dialect=dialect).feed(*ANSWER).finish()
    assert {document["id"] for document in run.documents[:-1]} == {id}
    assert run.meter.settle().completion_id == id


def test_nothing_goes_out_before_model_output() -> None:
    for mode in Mode:
        run = Run(usage=True, mode=mode).feed(ROLE)
        assert (run.out, run.exchange.committed) == (b"", False)
        run.feed(HELLO)
        assert run.exchange.committed
        assert len(run.documents) == 2


def test_release_commits_what_is_there() -> None:
    for mode in Mode:
        shows_usage = mode is not Mode.FILTER
        run = Run(usage=shows_usage, mode=mode).feed(ROLE)
        run.out += run.exchange.release()
        assert run.exchange.committed
        assert run.exchange.release() == b""
        run.feed(HELLO, STOP, REPORT, DONE)
        assert len(run.documents) == (5 if shows_usage else 4)


@pytest.mark.parametrize("mode", list(Mode))
def test_a_failure_before_the_commit_writes_nothing(mode: Mode) -> None:
    run = Run(usage=True, mode=mode).feed(ROLE, frame({"error": {"message": "busy", "type": "overloaded_error"}}))
    assert run.out == b""
    assert run.exchange.ended
    assert run.exchange.failure is not None
    assert run.exchange.failure.code == "upstream_overloaded"
    assert run.feed(HELLO).finish().out == b""


@pytest.mark.parametrize("mode", list(Mode))
def test_a_failure_after_it_is_an_error_frame_and_the_terminator(mode: Mode) -> None:
    run = Run(usage=True, mode=mode).feed(ROLE, HELLO)
    run.out += run.exchange.fail(GatewayFault("server_shutting_down", "bye"))
    assert [*run.documents[-1:], run.documents[-2]["error"]["code"]] == ["[DONE]", "server_shutting_down"]
    assert run.exchange.fail(UpstreamError("upstream_stream_reset", "reset")) == b""
    assert run.exchange.release() == b""
    assert run.meter.settle().verdict is Verdict.SHUTDOWN


@pytest.mark.parametrize("mode", list(Mode))
def test_a_cut_stream_never_looks_complete(mode: Mode) -> None:
    run = Run(usage=False, mode=mode).feed(ROLE, HELLO).finish()
    assert run.documents[-2]["error"]["code"] == "upstream_stream_truncated"
    assert run.meter.settle().verdict is Verdict.TRUNCATED


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("usage", [True, False])
@pytest.mark.parametrize("end", ["cut", "error", "reset"])
@pytest.mark.parametrize("frames", [[STOP], [STOP, REPORT]])
def test_a_stream_that_fails_after_its_last_finish_has_not_finished(
    mode: Mode, usage: bool, end: str, frames: list[bytes]
) -> None:
    run = Run(usage=usage, mode=mode).feed(ROLE, HELLO, *frames)
    if end == "cut":
        run.feed(b"data: {").finish()
    elif end == "error":
        run.feed(frame({"error": {"message": "no", "code": 500}}))
    else:
        run.out += run.exchange.fail(UpstreamError("upstream_stream_reset", "reset"))
    assert folded(run.documents)[0]["finish"] == []
    assert "error" in run.documents[-2]
    assert all(not document.get("usage") for document in run.documents[:-1])
    assert run.meter.settle().finishes == {}


@pytest.mark.parametrize("mode", list(Mode))
def test_a_choice_that_begins_after_all_others_have_finished(mode: Mode) -> None:
    second = [chunk({"role": "assistant", "content": ""}, index=1), chunk({"content": "b"}, index=1)]
    frames = [ROLE, HELLO, STOP, *second, chunk(finish="length", index=1), REPORT, DONE]
    run = Run(usage=True, mode=mode).feed(*frames).finish()
    finishes = {index: choice["finish"] for index, choice in folded(run.documents).items()}
    assert finishes == {0: ["stop"], 1: ["length"]}
    assert run.meter.settle().finishes == {0: FinishReason.STOP, 1: FinishReason.LENGTH}
    assert mode is not Mode.PASS or run.out == b"".join(frames)


@pytest.mark.parametrize("mode", list(Mode))
def test_what_is_held_before_the_commit_is_bounded(mode: Mode) -> None:
    run = Run(usage=True, mode=mode).feed(ROLE, *[chunk({"content": ""})] * 1000)
    assert len(run.exchange._waiting) < 100
    assert run.exchange.committed is (mode is not Mode.TRANSLATE)  # translated, an empty delta is no event


@pytest.mark.parametrize("mode", list(Mode))
def test_a_missing_done_after_the_finish_is_added(mode: Mode) -> None:
    run = Run(usage=False, mode=mode).feed(ROLE, HELLO, STOP).finish()
    assert run.documents[-2:] == [{**run.documents[-2], "choices": run.documents[-2]["choices"]}, "[DONE]"]
    assert run.documents[-2]["choices"][0]["finish_reason"] == "stop"
    assert run.meter.record.completed


@pytest.mark.parametrize("mode", list(Mode))
def test_silence_may_end_a_stream_once_every_choice_has_finished(mode: Mode) -> None:
    run = Run(usage=False, mode=mode).feed(ROLE, HELLO)
    assert not run.exchange.may_end_when_idle
    run.feed(STOP)
    assert run.exchange.may_end_when_idle
    assert run.finish().meter.record.completed


@pytest.mark.parametrize("mode", list(Mode))
def test_done_without_its_blank_line_counts(mode: Mode) -> None:
    run = Run(usage=True, mode=mode).feed(ROLE, HELLO, STOP, REPORT, b"data: [DONE]").finish()
    assert run.documents[-1] == "[DONE]"
    assert run.meter.record.completed


@pytest.mark.parametrize("mode", list(Mode))
def test_nothing_is_relayed_after_done(mode: Mode) -> None:
    whole = Run(usage=True, mode=mode).feed(*ANSWER).finish()
    another = chunk({"role": "assistant", "content": ""}, index=1)
    more = Run(usage=True, mode=mode).feed(*ANSWER, DONE, HELLO, REPORT, another, b"garbage\n\n").finish()
    assert more.out == whole.out
    together = Run(usage=True, mode=mode).feed(b"".join([*ANSWER, DONE, HELLO])).finish()
    assert together.out == whole.out


@pytest.mark.parametrize("mode", list(Mode))
def test_an_event_beyond_the_limit_fails_the_stream_after_what_came_before_it(mode: Mode) -> None:
    run = Run(usage=True, mode=mode).feed(ROLE + HELLO + b"data: " + b"x" * (1 << 20) + b"\n\n")
    assert run.documents[1]["choices"][0]["delta"] == {"content": "Hello"}
    assert run.documents[-2]["error"]["code"] == "upstream_frame_too_large"
    assert run.feed(b"data: 1\n\n").finish().documents[-1] == "[DONE]"


@pytest.mark.parametrize("mode", list(Mode))
def test_an_empty_body(mode: Mode) -> None:
    run = Run(usage=True, mode=mode).finish()
    assert run.exchange.failure is not None
    assert run.exchange.failure.code == "upstream_empty_response"


@pytest.mark.parametrize("mode", list(Mode))
def test_an_answer_that_came_whole_is_streamed_all_the_same(mode: Mode) -> None:
    message = {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
    body = json.dumps({**HEAD, "object": "chat.completion", "choices": [message], "usage": USAGE}).encode()
    run = Run(usage=True, mode=mode).feed(body[:10], body[10:]).finish()
    assert [d["choices"][0]["delta"] for d in run.documents[:3]] == [
        {"role": "assistant", "content": ""},
        {"content": "Hi"},
        {},
    ]


# Frames that deviate from what the openai dialect promises, after `HELLO`, and what the caller must see instead.
CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}
PIECE = {"index": 0, "function": {"arguments": "{}"}}
DEVIATIONS: dict[str, list[bytes]] = {
    "crlf": [HELLO.replace(b"\n", b"\r\n"), STOP, REPORT, DONE],
    "a comment": [b": ping\n\n", HELLO, STOP, REPORT, DONE],
    "no space after data": [HELLO.replace(b"data: ", b"data:"), STOP, REPORT, DONE],
    "another id": [HELLO.replace(b"chatcmpl-u000000000000001", b"chatcmpl-v000000000000001"), STOP, REPORT, DONE],
    "another object": [HELLO.replace(b"chat.completion.chunk", b"text_completion"), STOP, REPORT, DONE],
    "another time": [HELLO.replace(b'"created":5', b'"created":6'), STOP, REPORT, DONE],
    "role again": [chunk({"role": "assistant", "content": "Hello"}), STOP, REPORT, DONE],
    "text on the finish": [chunk({"content": "Hello"}, "stop"), REPORT, DONE],
    "content on the finish": [HELLO, chunk({"content": ""}, "stop"), REPORT, DONE],
    "an unknown finish": [HELLO, chunk(finish="eos"), REPORT, DONE],
    "a choice without a role": [
        HELLO,
        chunk({"content": "b"}, index=1),
        STOP,
        chunk(finish="stop", index=1),
        REPORT,
        DONE,
    ],
    "text after the finish": [HELLO, STOP, HELLO, STOP, REPORT, DONE],
    "finish twice": [HELLO, STOP, STOP, REPORT, DONE],
    "finish_reason absent": [HELLO.replace(b',"finish_reason":null', b""), STOP, REPORT, DONE],
    "usage on the finish": [HELLO, chunk(finish="stop", usage=USAGE), DONE],
    "usage that does not add up": [HELLO, STOP, REPORT.replace(b'"total_tokens":5', b'"total_tokens":9'), DONE],
    "a partial usage": [HELLO, STOP, frame({**HEAD, "choices": [], "usage": {"prompt_tokens": 1}}), REPORT, DONE],
    "usage twice": [HELLO, STOP, REPORT, REPORT, DONE],
    "another usage": [HELLO, STOP, REPORT.replace(b"5", b"6").replace(b":3", b":4"), REPORT, DONE],
    "a choice after the usage": [
        HELLO,
        STOP,
        REPORT,
        chunk({"role": "assistant", "content": ""}, index=1),
        chunk(finish="stop", index=1),
        DONE,
    ],
    "no usage at all": [HELLO, STOP, DONE],
    "usage before the end": [HELLO, REPORT, STOP, DONE],
    "a frame after the usage": [HELLO, STOP, REPORT, frame({**HEAD, "choices": [], "moderation": {"x": 1}}), DONE],
    "reasoning": [chunk({"reasoning_content": "hm"}), HELLO, STOP, REPORT, DONE],
    "two choices in a frame": [
        frame({**HEAD, "choices": [{"index": i, "delta": {"content": "a"}, "finish_reason": None} for i in (0, 1)]}),
        STOP,
        chunk(finish="stop", index=1),
        REPORT,
        DONE,
    ],
    "an index that cannot be": [chunk({"role": "assistant", "content": ""}, index=-1), HELLO, STOP, REPORT, DONE],
    "error null": [HELLO.replace(b'"usage":null', b'"usage":null,"error":null'), STOP, REPORT, DONE],
    "an unusual null usage": [HELLO.replace(b'"usage":null', b'"usage": null'), STOP, REPORT, DONE],
    "the member twice": [chunk({"content": "Hello"}, x={"a": 1, "usage": None}), STOP, REPORT, DONE],
    "half an emoji": [HELLO.replace(b"Hello", b"\\ud83d"), HELLO.replace(b"Hello", b"\\ude00"), STOP, REPORT, DONE],
    "a whole call in one delta": [
        chunk({"tool_calls": [{**CALL, "function": {"name": "f", "arguments": "{}"}}]}),
        chunk(finish="tool_calls"),
        REPORT,
        DONE,
    ],
    "two calls in one delta": [
        chunk({"tool_calls": [CALL, {**CALL, "index": 1}]}),
        chunk({"tool_calls": [{**PIECE, "index": 1}]}),
        chunk(finish="tool_calls"),
        REPORT,
        DONE,
    ],
    "a call without its type": [
        chunk({"tool_calls": [{k: v for k, v in CALL.items() if k != "type"}]}),
        chunk({"tool_calls": [PIECE]}),
        chunk(finish="tool_calls"),
        REPORT,
        DONE,
    ],
    "a call that skips an index": [
        chunk({"tool_calls": [{**CALL, "index": 2}]}),
        chunk(finish="tool_calls"),
        REPORT,
        DONE,
    ],
    "a call without a function": [HELLO, chunk({"tool_calls": [{"index": 0}]}), STOP, REPORT, DONE],
    "an id on a piece": [
        chunk({"tool_calls": [CALL]}),
        chunk({"tool_calls": [{**PIECE, "id": "call_1"}]}),
        chunk(finish="tool_calls"),
        REPORT,
        DONE,
    ],
    "a legacy call in one delta": [
        chunk({"function_call": {"name": "f", "arguments": "{}"}}),
        chunk(finish="function_call"),
        REPORT,
        DONE,
    ],
    "a legacy name again": [
        chunk({"function_call": {"name": "f", "arguments": ""}}),
        chunk({"function_call": {"name": "f", "arguments": "{}"}}),
        chunk(finish="function_call"),
        REPORT,
        DONE,
    ],
    "a legacy piece without arguments": [
        chunk({"function_call": {"name": "f", "arguments": ""}}),
        chunk({"function_call": {}}),
        chunk(finish="function_call"),
        REPORT,
        DONE,
    ],
    "text beside a call": [
        chunk({"content": "Hello", "tool_calls": [CALL]}),
        chunk(finish="tool_calls"),
        REPORT,
        DONE,
    ],
}


def folded(documents: list[Any]) -> dict[int, Any]:
    """Text, calls and finish by choice: a fold of its own, in ten lines."""
    choices: dict[int, Any] = {}
    for document in documents:
        for choice in document["choices"] if document != "[DONE]" and "choices" in document else ():
            held = choices.setdefault(choice["index"], {"text": "", "reasoning": "", "calls": {}, "finish": []})
            delta = choice["delta"]
            held["text"] += delta.get("content") or ""
            held["reasoning"] += delta.get("reasoning_content") or ""
            calls = delta.get("tool_calls") or (
                [{"index": 0, "function": delta["function_call"]}] if "function_call" in delta else []
            )
            for call in calls:
                function = held["calls"].setdefault(call["index"], {"name": "", "arguments": ""})
                function["name"] += call["function"].get("name") or ""
                function["arguments"] += call["function"].get("arguments") or ""
            held["finish"] += [choice["finish_reason"]] if choice["finish_reason"] else []
    for held in choices.values():
        held["text"] = held["text"].encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return choices


@pytest.mark.parametrize("usage", [True, False], ids=["usage", "no-usage"])
@pytest.mark.parametrize("name", sorted(DEVIATIONS))
@pytest.mark.parametrize("lead", [[ROLE, HELLO], [ROLE], []], ids=["after-text", "after-role", "at-once"])
def test_a_frame_that_deviates_is_translated_and_so_is_the_rest(name: str, usage: bool, lead: list[bytes]) -> None:
    frames = [*lead, *DEVIATIONS[name]]
    passed = Run(usage=usage).feed(*frames).finish()
    translated = Run(usage=usage, mode=Mode.TRANSLATE).feed(*frames).finish()
    assert folded(passed.documents) == folded(translated.documents)
    assert passed.documents[-1] == translated.documents[-1] == "[DONE]"
    reports = [[d for d in run.documents[:-1] if d.get("usage")] for run in (passed, translated)]
    assert [len(part) for part in reports] == ([1, 1] if usage else [0, 0])
    assert {d["id"] for d in passed.documents[:-1] if "id" in d} == {
        d["id"] for d in translated.documents[:-1] if "id" in d
    }
    one, other = passed.meter.settle(), translated.meter.settle()
    assert (one.verdict, one.usage, one.finishes, one.completion_id) == (
        other.verdict,
        other.usage,
        other.finishes,
        other.completion_id,
    )
    for document in passed.documents[:-1]:
        for choice in document.get("choices", ()):
            assert set(choice["delta"]) <= {
                "role",
                "content",
                "refusal",
                "tool_calls",
                "function_call",
                "reasoning_content",
            }


@pytest.mark.parametrize("mode", list(Mode))
def test_bytes_that_are_not_utf8_fail_the_stream_anywhere(mode: Mode) -> None:
    skipped = chunk({"content": "Hello"}, x="y").replace(b'"y"', b'"\xff"')
    run = Run(usage=True, mode=mode).feed(ROLE, HELLO, skipped, STOP, REPORT, DONE).finish()
    assert run.documents[-2]["error"]["code"] == "upstream_invalid_frame"


@pytest.mark.parametrize("usage", [True, False])
def test_calls_pass(usage: bool) -> None:
    calls = [
        chunk({"role": "assistant", "content": None, "tool_calls": [CALL]}),
        chunk({"tool_calls": [PIECE]}),
        chunk({"tool_calls": [{**CALL, "index": 1}]}),
        chunk({"tool_calls": [{**PIECE, "index": 1}]}),
        chunk(finish="tool_calls"),
        REPORT,
        DONE,
    ]
    run = Run(usage=usage).feed(*calls).finish()
    assert run.exchange.passes
    assert run.meter.settle().finishes == {0: FinishReason.TOOL_CALLS}
    assert run.meter.record.delivered.getvalue() == "f{}f{}"


def test_legacy_calls_and_refusals_pass() -> None:
    legacy = [
        ROLE,
        chunk({"function_call": {"name": "f", "arguments": ""}}),
        chunk({"function_call": {"arguments": "{}"}}),
        chunk(finish="function_call"),
        REPORT,
        DONE,
    ]
    assert Run(usage=True).feed(*legacy).exchange.passes
    assert Run(usage=True).feed(ROLE, chunk({"refusal": "no"}), STOP, REPORT, DONE).exchange.passes


def test_choices_pass_interleaved() -> None:
    second = [chunk({"role": "assistant", "content": ""}, index=1), chunk({"content": "b"}, index=1)]
    frames = [ROLE, *second, HELLO, chunk(finish="length", index=1), HELLO, STOP, REPORT, DONE]
    run = Run(usage=True).feed(*frames)
    assert run.exchange.passes
    assert run.out == b"".join(frames)
    assert run.meter.settle().verdict is Verdict.LENGTH


@pytest.mark.parametrize("dialect", ["opentoken", "aivene", "bitseek"])
def test_only_the_dialect_that_the_upstream_writes_can_pass(dialect: str) -> None:
    assert not Run(usage=True, dialect=dialect).exchange.passes


def test_a_pinned_id_or_time_is_never_passed() -> None:
    frontend, wire = FRONTENDS.by_name["openai"], native_wire("openai")
    assert plan(wire, frontend, Reply(id="x", now=lambda: 0)) is Mode.FILTER
    assert plan(wire, frontend, Reply(id="x", now=lambda: 0, include_usage=True)) is Mode.PASS
    assert plan(wire, frontend, Reply(id="x", now=lambda: 0, pinned=True)) is Mode.TRANSLATE
    assert plan(wire, frontend, Reply(id="x", now=lambda: 0, created=1)) is Mode.TRANSLATE
    assert plan(native_wire("anthropic"), frontend, Reply(id="x", now=lambda: 0)) is Mode.TRANSLATE


class TestWhole:
    def exchange(self, meter: Meter) -> WholeExchange:
        reply = Reply(id="chatcmpl-ours", now=lambda: 7, model="gpt-4o")
        return WholeExchange(provider_named("openai"), FRONTENDS.by_name["openai"], reply, Mode.FILTER, meter)

    def test_a_stream_is_folded(self) -> None:
        meter = Meter()
        exchange = self.exchange(meter)
        out = b"".join([exchange.feed(part) for part in ANSWER]) + exchange.finish()
        assert json.loads(out)["choices"][0]["message"] == {"role": "assistant", "content": "Hello"}
        assert exchange.ended
        assert meter.settle().usage.total_tokens == 5

    def test_a_failure_writes_nothing(self) -> None:
        exchange = self.exchange(Meter())
        assert exchange.feed(ROLE) + exchange.feed(HELLO) + exchange.finish() == b""
        assert exchange.failure is not None
        assert exchange.failure.code == "upstream_stream_truncated"
        assert exchange.fail(UpstreamError("upstream_stream_reset", "reset")) == b""
        assert exchange.failure.code == "upstream_stream_truncated"

    @pytest.mark.parametrize("completes", [True, False])
    def test_an_answer_that_came_whole_ends_once(self, completes: bool) -> None:
        reset = UpstreamError("upstream_stream_reset", "reset")
        meter = Meter()
        exchange = self.exchange(meter)
        exchange.feed(b'{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}')
        out = [exchange.finish(), exchange.fail(reset)] if completes else [exchange.fail(reset), exchange.finish()]
        assert bool(b"".join(out)) is completes
        assert exchange.finish() == b""
        assert exchange.failure == (None if completes else reset)
        assert meter.record.completed is completes

    def test_an_event_beyond_the_limit(self) -> None:
        exchange = self.exchange(Meter())
        exchange.feed(ROLE + b"data: " + b"x" * (1 << 20))
        assert exchange.failure is not None
        assert exchange.failure.code == "upstream_frame_too_large"
        exchange = self.exchange(Meter())
        exchange._intake._body._whole_limit = 10
        assert exchange.feed(b"{" + b" " * 10) + exchange.finish() == b""
        assert exchange.failure is not None
        assert exchange.failure.code == "upstream_frame_too_large"


@pytest.mark.parametrize("mode", [Mode.PASS, Mode.TRANSLATE])
@pytest.mark.parametrize(
    ("behind", "has_junk"), [(b"", False), (b"\n", False), (DONE, True), (HELLO, True), (b"data: x", True)]
)
def test_data_after_the_end_is_noticed(mode: Mode, behind: bytes, has_junk: bool) -> None:
    run = Run(usage=True, mode=mode).feed(ROLE, HELLO, STOP, REPORT, DONE + behind)
    assert run.exchange.ended
    assert run.exchange.has_junk is has_junk


def test_it_reports_whether_an_event_was_read_and_whether_one_is_incomplete() -> None:
    run = Run(usage=True)
    for part, has_progressed, is_mid_event in (
        (b": comment\n", False, False),
        (ROLE, True, False),
        (HELLO[:10], False, True),
        (HELLO[10:], True, False),
        (HELLO, True, False),
        (STOP + REPORT[:9], True, True),
    ):
        run.exchange.has_progressed = False
        run.feed(part)
        assert (run.exchange.has_progressed, run.exchange.is_mid_event) == (has_progressed, is_mid_event), part


@pytest.mark.parametrize("dialect", ["openai", "aivene", "messages", "responses"])
def test_an_answer_with_too_many_calls_is_a_failure(dialect: str) -> None:
    run = Run(usage=True, mode=Mode.TRANSLATE, dialect=dialect)
    run.feed(ROLE, HELLO)
    sent, calls = 0, [{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}]
    while not run.exchange.ended:
        run.feed(chunk({"tool_calls": [{**calls[0], "index": sent + i, "id": f"c{sent + i}"} for i in range(500)]}))
        sent += 500
        assert sent <= MAX_CALLS + 500
    assert sent == MAX_CALLS + 500
    settled = run.meter.settle()
    assert (settled.verdict, settled.error.code if settled.error else None) == (
        Verdict.UPSTREAM_ERROR,
        "response_too_large",
    )
    assert b'"tool_calls"' not in run.out.splitlines()[-2]
    assert b"message_stop" not in run.out
    assert b"response.completed" not in run.out


def test_the_same_for_a_whole_answer_instead_of_a_stream() -> None:
    function = {"name": "f", "arguments": "{}"}
    calls = [{"id": f"c{i}", "type": "function", "function": function} for i in range(MAX_CALLS + 1)]
    message = {"role": "assistant", "content": "Hello", "tool_calls": calls}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    run = Run(usage=True, mode=Mode.TRANSLATE, dialect="messages")
    run.feed(json.dumps({**HEAD, "object": "chat.completion", "choices": [choice], "usage": USAGE}).encode()).finish()
    assert run.exchange.ended
    assert b"message_stop" not in run.out
