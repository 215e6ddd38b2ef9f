"""Whole answers that are asked for as a stream: when, and with which deadlines; and a first target that hangs."""

import asyncio
import json
from typing import Any

import pytest

from streamweir.core.request import ChatRequest
from streamweir.frontends.table import FRONTENDS
from streamweir.policy.routing.health import Candidate, TargetId
from streamweir.server.relay.relay import Relay
from streamweir.server.request.attempt.attempt_setup import build_request, timeouts_of
from streamweir.server.request.runtime.config import RuntimeConfig, build_runtime_config
from streamweir.upstream.sim import SimUpstream
from support.answers import anthropic_whole, error_body, openai_frames, openai_stream, openai_whole, responses_whole
from support.attempt import attempt
from support.gateway import MESSAGES, configured, gateway, providers
from support.outcome import ALIAS, assert_completed, assert_record, assert_refused, assert_whole, path_of, serving
from support.script import End, Fin, Hang, Head, Rst, Script, Seen, Send, Step, Wait, stream, whole
from support.scripted_upstream import ScriptedUpstream

pytestmark = pytest.mark.usefixtures("no_jitter")

FROM_SECOND = "From the second."
ROLE, *TEXT, FINISH, USAGE, DONE = openai_frames()
SOON = "first_event_s = 0.05\n"
"""For a target that hangs: it is short so that the test is, and nothing else must happen within it."""


def answers(request: Seen) -> list[Step]:
    """As an upstream does: a stream if it was asked for one, else a whole answer."""
    if request.json.get("stream"):
        return stream(openai_stream(["From", " the", " second", "."]))
    return whole(openai_whole(FROM_SECOND))


HANGS: dict[str, Script] = {
    "no_head": [Hang()],
    "head_only": [Head(), Hang()],
    "comments_only": [Head(), Send(b": processing\n\n"), Hang()],
    "role_only": [Head(), Send(ROLE), Hang()],
}


@pytest.mark.parametrize("is_streamed", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("script", HANGS.values(), ids=HANGS)
async def test_a_first_target_that_hangs_is_left_for_the_second(script: Script, is_streamed: bool) -> None:
    async with ScriptedUpstream(script) as hung, ScriptedUpstream(answers) as well:
        toml = providers(first=hung.base_url) + SOON + providers(second=well.base_url) + ALIAS
        async with gateway(toml) as gate:
            reply = await gate.ask(model="either", stream=is_streamed)
            if is_streamed:
                assert_completed(reply, text=FROM_SECOND)
            else:
                assert_whole(reply, text=FROM_SECOND)
            await assert_record(gate, "completed", attempts=["upstream_timeout", None])
            assert hung.requests[0].json["stream"] is True
            assert well.requests[0].json.get("stream") is (True if is_streamed else None), "none is left to go to"
        await hung.vacated()
        await well.vacated()


@pytest.mark.parametrize("dialect", ["openai", "aivene", "messages", "responses"])
async def test_the_folded_answer_is_whole(dialect: str) -> None:
    async with ScriptedUpstream(answers) as first, ScriptedUpstream(answers) as second:
        async with gateway(providers(first=first.base_url, second=second.base_url) + ALIAS) as gate:
            reply = await gate.ask(path=path_of(dialect), model="either", stream=False)
            assert_whole(reply, text=FROM_SECOND, usage=(7, 4))
            record = await assert_record(gate, "completed", attempts=[None], usage=(7, 4))
            assert (record.stream, record.ttft_s, record.finish) == (False, None, "stop")
            asked = first.requests[0]
            assert (asked.json["stream"], asked.json["stream_options"]) == (True, {"include_usage": True})
            assert asked.headers["accept"] == "text/event-stream"
            assert not second.requests
        await first.vacated()


CUTS: dict[str, tuple[list[Step], str]] = {
    "cut": ([Head(), Send(ROLE + TEXT[0]), Fin()], "upstream_stream_truncated"),
    "reset": ([Head(), Send(ROLE + TEXT[0]), Rst()], "upstream_stream_reset"),
    "ended": ([Head(), Send(ROLE + b"".join(TEXT)), End()], "upstream_stream_truncated"),
    "bad_frame": ([Head(), Send(ROLE + TEXT[0] + b"data: {\n\n"), Hang()], "upstream_invalid_frame"),
}


@pytest.mark.parametrize(("script", "code"), CUTS.values(), ids=CUTS)
async def test_a_cut_stream_is_no_whole_answer(script: list[Step], code: str) -> None:
    """Nothing of it was sent, so another target answers; without one it is an error."""
    async with ScriptedUpstream(script) as sick, ScriptedUpstream(answers) as well:
        async with gateway(providers(first=sick.base_url, second=well.base_url) + ALIAS) as gate:
            assert_whole(await gate.ask(model="either"), text=FROM_SECOND)
            await assert_record(gate, "completed", attempts=[code, None])
        await well.vacated()
    async with serving(script, own="stream_whole = true\nretries = 0") as (gate, _):
        assert_refused(await gate.ask(model="up/m"), code)
        await gate.settled()


async def test_an_answer_without_its_terminator_ends_with_the_silence_after_its_finish() -> None:
    script: list[Step] = [Head(), Send(b"".join([ROLE, *TEXT, FINISH, USAGE])), Hang()]
    async with serving(script, own="stream_whole = true\nsilence_s = 0.01") as (gate, up):
        assert_whole(await gate.ask(model="up/m"))
        await assert_record(gate, "completed", usage=(7, 5))
        assert len(up.requests) == 1


async def test_an_upstream_that_answers_with_one_document_is_read_as_such() -> None:
    async with serving(whole(openai_whole()), own="stream_whole = true") as (gate, up):
        assert_whole(await gate.ask(model="up/m"))
        assert up.requests[0].json["stream"] is True
        await assert_record(gate, "completed", usage=(7, 5))


@pytest.mark.parametrize("param", ["stream", None])
async def test_a_target_that_refuses_to_stream_is_asked_for_a_whole_answer(param: str | None) -> None:
    """At once, and from then on."""

    def script(request: Seen) -> list[Step]:
        text = "Your organization must be verified to stream this model."
        refused = whole(error_body(text, "invalid_request_error", "unsupported_value", param), 400)
        return refused if request.json.get("stream") else whole(openai_whole())

    async with serving(script, own="stream_whole = true") as (gate, up):
        for count in (1, 2):
            assert_whole(await gate.ask(model="up/m"))
            await gate.settled(count)
        assert [request.json.get("stream") for request in up.requests] == [True, None, None]
        assert_refused(await gate.ask(model="up/m", stream=True), "invalid_value", param=param)  # its own wish
        await gate.settled(3)


@pytest.mark.parametrize(
    ("kind", "path", "answer"),
    [("anthropic", "/v1/messages", anthropic_whole()), ("openai", "/v1/responses", responses_whole())],
)
async def test_a_body_that_is_passed_on_as_it_came_is_not_folded(kind: str, path: str, answer: bytes) -> None:
    async with serving(whole(answer), kind, own='stream_whole = true\nwire = "responses"' * (kind == "openai")) as (
        gate,
        up,
    ):
        reply = await gate.ask(path=path, model="up/m")
        assert json.loads(reply.body) == json.loads(answer)
        assert not up.requests[0].json.get("stream")
        await gate.settled()


# When.

PLACES = """
[[providers]]
name = "{kind}"
kind = "{kind}"
{own}
"""


def built(toml: str) -> RuntimeConfig:
    return build_runtime_config(configured(toml), lambda _: SimUpstream())


def runtime(kind: str, own: str = "") -> RuntimeConfig:
    extra = {"vertex": 'project = "p"', "azure": 'base_url = "http://x.example"'}.get(kind, "")
    if kind == "openai-compatible":
        extra = 'base_url = "http://x.example/v1"'
    return built(PLACES.format(kind=kind, own=f"{own}\n{extra}"))


def chat(frontend: str = "openai", **members: Any) -> ChatRequest:
    named = "input" if frontend == "responses" else "messages"
    needed = {"max_tokens": 64} if frontend == "messages" else {}
    return FRONTENDS.by_name[frontend].parse({"model": "m", named: MESSAGES, **needed, **members}, {})


def folds(kind: str, request: ChatRequest, own: str = "", *, is_last: bool = False) -> bool:
    made = runtime(kind, own)
    return build_request(made, request, Candidate(TargetId(kind, "m")), is_last=is_last).is_folded


@pytest.mark.parametrize(
    ("own", "is_last", "expected"),
    [
        ("", False, True),
        ("", True, False),
        ("first_event_s = 5", True, True),
        ("idle_s = 5", True, False),
        ("stream_whole = true", True, True),
        ("stream_whole = false", False, False),
        ("stream_whole = false\nfirst_event_s = 5", True, False),
    ],
)
def test_it_is_asked_as_a_stream_where_that_is_needed_to_know(own: str, is_last: bool, expected: bool) -> None:
    assert folds("openai", chat(), own, is_last=is_last) is expected
    assert not folds("openai", chat(stream=True), own, is_last=is_last)


@pytest.mark.parametrize(
    ("kind", "by_itself", "by_setting"),
    [
        ("openai", True, True),
        ("openai-compatible", True, True),
        ("vllm", True, True),
        ("anthropic", True, True),
        ("gemini", True, True),
        ("vertex", True, True),
        ("azure", False, True),
        ("mistral", False, True),
        ("sim", True, True),
    ],
)
def test_by_itself_only_where_the_stream_has_everything(kind: str, by_itself: bool, by_setting: bool) -> None:
    assert folds(kind, chat()) is by_itself
    assert folds(kind, chat(), "stream_whole = true") is by_setting


def test_what_is_never_folded() -> None:
    always = "stream_whole = true"
    audio: dict[str, Any] = {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}}
    assert not folds("openai", chat(**audio), always)
    assert not folds("anthropic", chat("messages"), always)
    assert not folds("openai", chat("responses"), f'{always}\nwire = "responses"')
    assert folds("openai", chat("messages"), always)
    assert folds("openai", chat(), f'{always}\nwire = "responses"')
    texts = FRONTENDS.by_name["completions"].parse({"model": "m", "prompt": "Once"}, {})
    assert not folds("vllm", texts, always)
    vectors = FRONTENDS.by_name["embeddings"].parse({"model": "m", "input": "Once"}, {})
    assert not folds("openai", vectors, always)


def test_a_member_that_only_the_vendor_knows_is_not_folded_by_itself() -> None:
    assert not folds("vllm", chat(prompt_logprobs=1))
    assert folds("vllm", chat(prompt_logprobs=1), "stream_whole = true")
    assert folds("anthropic", chat(container="c"))


def test_a_target_that_reports_no_usage_in_streams_is_not_folded_by_itself() -> None:
    made, target = runtime("vllm"), TargetId("vllm", "m")
    made.refusals.note(target)
    assert not build_request(made, chat(), Candidate(target), is_last=False).is_folded


# Their deadlines.


@pytest.mark.parametrize(
    ("is_streamed", "has_events", "is_last", "first_event_s"),
    [
        (True, True, False, 5.0),
        (True, True, True, 90.0),
        (False, True, False, 5.0),
        (False, True, True, 90.0),
        (False, False, False, 300.0),
        (False, False, True, 300.0),
    ],
)
def test_the_time_for_the_first_event(is_streamed: bool, has_events: bool, is_last: bool, first_event_s: float) -> None:
    made = built(
        PLACES.format(kind="openai", own="first_event_s = 5\nidle_s = 7") + "[server.timeouts]\n"
        "first_event_s = 90\ntotal_s = 300\n"
    )
    timeouts = timeouts_of(
        made,
        chat(stream=is_streamed),
        TargetId("openai", "m"),
        FRONTENDS.by_name["openai"],
        1000.0,
        is_last=is_last,
        has_events=has_events,
    )
    assert (timeouts.first_event_s, timeouts.idle_s, timeouts.total_at) == (first_event_s, 7.0, 1300.0)


def later(relay: Relay, seconds: float) -> None:
    """The time of this relay goes on, and its timer fires."""
    now = relay._time() + seconds
    relay._time = lambda: now
    relay.on_timer()


async def test_the_first_event_of_a_folded_answer_is_noticed_and_silence_is_too() -> None:
    event = asyncio.Event()
    script: list[Step] = [Head(), Send(ROLE), Wait(event), Send(TEXT[0]), Hang()]
    async with attempt(script, folds=True, first_event_s=9000.0, idle_s=5000.0, total_at=90000.0) as (run, _):
        relay = run.relay
        await run.until(lambda: relay.bytes_in > 0)
        later(relay, 1000.0)
        assert relay.first_token_at is None
        event.set()
        await run.until(lambda: relay.first_token_at is not None)
        later(relay, 4999.0)
        assert not relay.is_over, "the answer had begun in time"
        later(relay, 5000.0)
        assert relay.is_over
        assert relay.failure is not None
        assert relay.failure.code == "stream_idle_timeout"
        assert run.written == b""


async def test_a_folded_answer_that_does_not_begin_is_ended() -> None:
    script: list[Step] = [Head(), Send(ROLE), Hang()]
    async with attempt(script, folds=True, first_event_s=9000.0, total_at=90000.0, idle_s=9999.0) as (run, _):
        await run.until(lambda: run.relay.bytes_in > 0)
        later(run.relay, 9000.0)
        assert run.relay.failure is not None
        assert run.relay.failure.code == "upstream_timeout"


async def test_comments_do_not_keep_a_folded_answer_alive() -> None:
    event, comment = asyncio.Event(), b": still here\n\n"
    script: list[Step] = [Head(), Send(ROLE + TEXT[0]), Wait(event), Send(comment), Hang()]
    async with attempt(script, folds=True, idle_s=5000.0, total_at=90000.0) as (run, _):
        relay, size = run.relay, len(ROLE + TEXT[0])
        await run.until(lambda: relay.bytes_in == size)
        later = relay._time() + 3000.0
        relay._time = lambda: later
        event.set()
        await run.until(lambda: relay.bytes_in == size + len(comment))
        relay._time = lambda: later + 2001.0
        relay.on_timer()
        assert relay.failure is not None
        assert relay.failure.code == "stream_idle_timeout"
