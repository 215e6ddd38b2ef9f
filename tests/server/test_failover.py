"""When another target is tried, and the same one again: before anything was sent, and never after.

docs/spec/failures.md U10, U14 and U40. Until the commit a failure of one target is retried within a budget; from the
first byte on the caller gets it, and no other target is called.
"""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from support.answers import error_body, error_frame, openai_frames, openai_stream, openai_whole
from support.gateway import chat_request, gateway, providers
from support.messages import documents_of
from support.outcome import (
    ALIAS,
    CANARY,
    DIALECTS,
    ask_and_signal,
    assert_broken,
    assert_completed,
    assert_error_frame,
    assert_messages_error,
    assert_record,
    assert_refused,
    assert_responses_error,
    assert_whole,
    path_of,
    serving,
)
from support.responses import read_stream as read_response
from support.script import End, Fin, Hang, Head, Raw, Rst, Script, Seen, Send, Step, Wait, in_turn, stream, whole
from support.scripted_upstream import ForbiddenServer, ScriptedUpstream
from support.wire_samples import BEGUN, OPENAI

pytestmark = pytest.mark.usefixtures("no_jitter")

ANSWER = stream(openai_stream(["From", " the", " second", "."]))
FROM_SECOND = "From the second."
BAD_FRAME = b"data: {\n\n"
ROLE = openai_frames()[0]
HASTE = "[server.timeouts]\nidle_s = 0.05\nsilence_s = 0.01\n"

each_dialect = pytest.mark.parametrize("dialect", DIALECTS)


# Before the first byte.


BEFORE: dict[str, tuple[Sequence[Step], str]] = {
    "closed": ([Fin()], "upstream_empty_response"),
    "reset": ([Rst()], "upstream_stream_reset"),
    "half_a_head": ([Raw(b"HTTP/1.1 200 OK\r\ncontent-"), Fin()], "upstream_stream_truncated"),
    "not_http": ([Raw(b"canary\r\n\r\n"), Hang()], "upstream_bad_response"),
    "500": (whole(error_body(CANARY), 500), "upstream_server_error"),
    "503": (whole(error_body(CANARY), 503), "upstream_overloaded"),
    "429": (whole(error_body(CANARY), 429), "upstream_rate_limited"),
    "401": (whole(error_body(CANARY), 401), "upstream_auth_failed"),
    "402": (whole(error_body(CANARY), 402), "upstream_quota_exhausted"),
    "404": (whole(error_body(CANARY), 404), "upstream_model_not_found"),
    "408": (whole(error_body(CANARY), 408), "upstream_timeout"),
    "307": ([Head(307, None, [("location", "/canary")], framing=0), End()], "upstream_redirect_blocked"),
    "page": ([Head(200, "text/html"), Send(b"<script>canary"), Hang()], "upstream_bad_response"),
    "packed": ([Head(200, headers=[("content-encoding", "br")]), Hang()], "upstream_bad_encoding"),
    "error_with_200": (whole(error_body(CANARY, "server_error")), "upstream_server_error"),
    "empty": ([Head(), End()], "upstream_empty_response"),
    "cut_after_the_role": ([Head(), Send(ROLE), Fin()], "upstream_stream_truncated"),
    "reset_after_the_role": ([Head(), Send(ROLE), Rst()], "upstream_stream_reset"),
    "role_and_end": (stream(ROLE), "upstream_stream_truncated"),
    "error_after_the_role": (
        [Head(), Send(ROLE), Send(error_frame(error_body(CANARY, "overloaded"))), Hang()],
        "upstream_overloaded",
    ),
    "bad_frame_after_the_role": ([Head(), Send(ROLE), Send(BAD_FRAME), Hang()], "upstream_invalid_frame"),
    "silence_after_the_role": ([Head(), Send(ROLE), Hang()], "stream_idle_timeout"),
}


@pytest.mark.parametrize("is_streamed", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize(("steps", "code"), BEFORE.values(), ids=BEFORE.keys())
async def test_a_failure_before_the_first_token_fails_over(steps: Sequence[Step], code: str, is_streamed: bool) -> None:
    answer = ANSWER if is_streamed else whole(openai_whole(FROM_SECOND))
    async with ScriptedUpstream(steps) as sick, ScriptedUpstream(answer) as well:
        async with gateway(providers(first=sick.base_url, second=well.base_url) + ALIAS + HASTE) as gate:
            reply = await gate.ask(model="either", stream=is_streamed)
            if is_streamed:
                assert_completed(reply, text=FROM_SECOND)
            else:
                assert_whole(reply, text=FROM_SECOND)
            record = await assert_record(gate, "completed", attempts=[code, None])
            assert [each.target for each in record.attempts] == ["first/m", "second/n"]
            assert (len(sick.requests), len(well.requests)) == (1, 1)
            assert (sick.requests[0].json["model"], well.requests[0].json["model"]) == ("m", "n")
        await sick.vacated()
        await well.vacated()


@each_dialect
async def test_nothing_of_the_first_target_is_in_the_answer(dialect: str) -> None:
    """Not even the id, or the scaffolding that came before its failure."""
    scaffold = ROLE.replace(b"chatcmpl-Scripted", b"chatcmpl-canary")
    async with ScriptedUpstream([Head(), Send(scaffold), Fin()]) as sick, ScriptedUpstream(ANSWER) as well:
        async with gateway(providers(first=sick.base_url, second=well.base_url) + ALIAS) as gate:
            reply = await gate.ask(path=path_of(dialect), model="either", stream=True)
            assert_completed(reply, dialect, text=FROM_SECOND)
            await assert_record(gate, "completed", attempts=["upstream_stream_truncated", None])
        await well.vacated()


async def test_at_most_three_targets_are_tried() -> None:
    async with (
        ScriptedUpstream([Head(), End()]) as a,
        ScriptedUpstream(whole(error_body(CANARY), 500)) as b,
        ScriptedUpstream(whole(error_body(CANARY), 401)) as c,
        ForbiddenServer() as d,
    ):
        targets = ", ".join(f'{{ provider = "{name}", model = "m" }}' for name in "abcd")
        alias = f'[[models]]\nid = "any"\ntargets = [{targets}]\n'
        async with gateway(providers(a=a.base_url, b=b.base_url, c=c.base_url, d=d.base_url) + alias) as gate:
            assert_refused(await gate.ask(model="any", stream=True), "upstream_server_error")
            codes = ["upstream_empty_response", "upstream_server_error", "upstream_auth_failed"]
            await assert_record(gate, "upstream_error", error=codes[1], status=502, attempts=codes)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_refused_key_of_the_last_provider_does_not_hide_that_a_retry_can_help(dialect: str) -> None:
    limited = whole(error_body("Slow down."), 429, (("retry-after", "20"),))
    async with (
        ScriptedUpstream(limited) as first,
        ScriptedUpstream(whole(error_body("No."), 401)) as second,
        gateway(providers(first=first.base_url, second=second.base_url) + ALIAS) as gate,
    ):
        reply = await gate.ask(path=path_of(dialect), model="either", stream=True)
        assert_refused(reply, "upstream_rate_limited", dialect, retry_after="20")
        codes = ["upstream_rate_limited", "upstream_auth_failed"]
        await assert_record(gate, "upstream_error", error=codes[0], status=429, attempts=codes)


async def test_what_the_caller_did_wrong_is_wrong_everywhere() -> None:
    async with (
        ScriptedUpstream(whole(error_body("Too hot.", param="temperature"), 400)) as up,
        ForbiddenServer() as other,
    ):
        async with gateway(providers(first=up.base_url, second=other.base_url) + ALIAS) as gate:
            assert_refused(await gate.ask(model="either", stream=True), "invalid_value", param="temperature")
            await assert_record(gate, "rejected", error="invalid_value", status=400)
        await up.vacated()


# After the first byte: U40.


AFTER: dict[str, tuple[Step | bytes, str, str]] = {
    "fin": (Fin(), "upstream_stream_truncated", "truncated"),
    "rst": (Rst(), "upstream_stream_reset", "truncated"),
    "end": (End(), "upstream_stream_truncated", "truncated"),
    "bad_frame": (BAD_FRAME, "upstream_invalid_frame", "upstream_error"),
    "error": (error_frame(error_body(CANARY, "overloaded")), "upstream_overloaded", "upstream_error"),
    "silence": (b": hush\n", "stream_idle_timeout", "idle_timeout"),
}


@each_dialect
@pytest.mark.parametrize(("fault", "code", "verdict"), AFTER.values(), ids=AFTER.keys())
async def test_u40_a_failure_after_the_first_token_is_final(
    fault: Step | bytes, code: str, verdict: str, dialect: str
) -> None:
    seen = asyncio.Event()
    rest: list[Step] = [Send(fault), Hang()] if isinstance(fault, bytes) else [fault]
    script: list[Step] = [Head(), Send(OPENAI.begun), Wait(seen), *rest]
    async with ScriptedUpstream(script) as up, ForbiddenServer() as other:
        async with gateway(providers(first=up.base_url, second=other.base_url) + ALIAS + HASTE) as gate:
            reply = await ask_and_signal(gate, b'" from"', seen, path=path_of(dialect), model="either")
            assert_broken(reply, code, dialect, text=BEGUN)
            await assert_record(gate, verdict, error=code, source="estimate")
            assert len(up.requests) == 1
        await up.vacated()


@each_dialect
@pytest.mark.parametrize(
    ("steps", "code", "verdict"),
    [
        (whole(error_body(CANARY), 500), "upstream_server_error", "upstream_error"),
        (whole(error_body(CANARY), 401), "upstream_auth_failed", "upstream_error"),
        ([Fin()], "upstream_empty_response", "truncated"),
        ([Head(), End()], "upstream_empty_response", "truncated"),
    ],
    ids=["500", "401", "closed", "empty"],
)
async def test_u40_a_failure_after_the_status_is_final(
    steps: Sequence[Step], code: str, verdict: str, dialect: str
) -> None:
    """The longest time for which the status may be held back was up: the caller has 200 and no word yet."""
    committed = asyncio.Event()
    async with ScriptedUpstream([Wait(committed), *steps]) as up, ForbiddenServer() as other:
        toml = providers(first=up.base_url, second=other.base_url) + ALIAS + "[server.timeouts]\ncommit_s = 0\n"
        async with gateway(toml) as gate, await gate.connect() as client:
            await client.send(chat_request(path=path_of(dialect), model="either", stream=True))
            assert (await client.head()).status == 200
            committed.set()
            body = b""
            while chunk := await client.chunk():
                body += chunk
            if dialect == "messages":
                start, last = documents_of(body)
                assert (start["type"], last["type"]) == ("message_start", "error")
                assert_messages_error(last["error"], code)
            elif dialect == "responses":
                assert_responses_error(read_response(body), code)
            else:
                frame, _, terminator = body.partition(b"\n\n")
                assert terminator == (b"" if dialect == "bitseek" else b"data: [DONE]\n\n")
                assert_error_frame(json.loads(frame.removeprefix(b"data: ")), "upstream_server_error", dialect)
            record = await assert_record(gate, verdict, error=code, source="estimate")
            was_refused = code in ("upstream_server_error", "upstream_auth_failed")
            assert (record.usage is None) is was_refused  # who refused has done nothing that could be billed
            assert len(up.requests) == 1
        await up.vacated()


# The same target again: U10.


@pytest.mark.parametrize("is_streamed", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("failures", [1, 2])
async def test_u10_a_failure_that_passes_is_not_seen(failures: int, is_streamed: bool) -> None:
    failure = whole(error_body(CANARY), 500)
    answer = stream(openai_stream()) if is_streamed else whole(openai_whole())
    async with serving(in_turn(*[failure] * failures, answer)) as (gate, up):
        reply = await gate.ask(model="up/m", stream=is_streamed)
        (assert_completed if is_streamed else assert_whole)(reply)
        await assert_record(gate, "completed", attempts=["upstream_server_error"] * failures + [None], usage=(7, 5))
        assert len({request.body for request in up.requests}) == 1


async def test_u10_a_short_pause_that_was_asked_for_is_kept() -> None:
    times: list[float] = []

    def script(request: Seen) -> Sequence[Step]:
        times.append(asyncio.get_running_loop().time())
        busy = whole(error_body(CANARY), 429, [("retry-after", "1")])
        return stream(openai_stream()) if request.number else busy

    async with serving(script) as (gate, _):
        assert_completed(await gate.ask(model="up/m", stream=True))
        await assert_record(gate, "completed", attempts=["upstream_rate_limited", None])
        assert times[1] - times[0] >= 1


async def test_u10_a_pause_that_reaches_beyond_the_commit_is_not_waited_for() -> None:
    busy = whole(error_body(CANARY), 503, [("retry-after", "2")])
    async with serving(busy, toml="[server.timeouts]\ncommit_s = 1\n") as (gate, up):
        reply = await gate.ask(model="up/m", stream=True)
        assert_refused(reply, "upstream_overloaded", retry_after="2")
        await assert_record(gate, "upstream_error", error="upstream_overloaded", status=503)
        assert len(up.requests) == 1


@pytest.mark.parametrize("has_two_targets", [False, True], ids=["one_target", "two_targets"])
async def test_u10_retries_stay_within_a_fifth_of_the_requests(has_two_targets: bool) -> None:
    """Each request has targets of its own, so that none of them is ejected."""
    count = 100
    async with ScriptedUpstream(whole(error_body(CANARY), 500)) as up:
        aliases = "".join(
            f'[[models]]\nid = "alias-{number}"\n'
            f'targets = [{{ provider = "up", model = "a{number}" }}, {{ provider = "up", model = "b{number}" }}]\n'
            for number in range(count)
        )
        async with gateway(providers(up=up.base_url) + aliases) as gate:
            names = [f"alias-{number}" if has_two_targets else f"up/{number}" for number in range(count)]
            replies = await asyncio.gather(*(gate.ask(model=name, stream=True) for name in names))
            for reply in replies:
                assert_refused(reply, "upstream_server_error")
            records = await gate.settled(count)
            attempts = [each for fact in records for each in fact.attempts]
            assert len(attempts) == len(up.requests)
            assert count < len(attempts) <= 1.2 * count
            assert max(len(fact.attempts) for fact in records) <= 3
        await up.vacated()


@pytest.mark.parametrize("status", [429, 500])
async def test_u10_a_failover_to_another_provider_is_not_limited_by_the_budget(status: int) -> None:
    """Each request has a first target of its own, so that none of them is ejected."""
    count = 100
    async with ScriptedUpstream(whole(error_body(CANARY), status)) as failing, ScriptedUpstream(ANSWER) as well:
        aliases = "".join(
            f'[[models]]\nid = "alias-{number}"\n'
            f'targets = [{{ provider = "failing", model = "a{number}" }}, {{ provider = "well", model = "b" }}]\n'
            for number in range(count)
        )
        async with gateway(providers(failing=failing.base_url, well=well.base_url) + aliases) as gate:
            asked = [gate.ask(model=f"alias-{number}", stream=True) for number in range(count)]
            for reply in await asyncio.gather(*asked):
                assert_completed(reply, text=FROM_SECOND)
            records = await gate.settled(count)
            assert {len(fact.attempts) for fact in records} == {2}
            assert [len(failing.requests), len(well.requests)] == [count, count]


async def test_u5_half_of_the_calls_limited_and_every_caller_is_served_by_the_second() -> None:
    limited = whole(error_body(CANARY), 429, [("retry-after", "0")])

    def script(request: Seen) -> Sequence[Step]:
        return limited if request.number % 2 else ANSWER

    async with ScriptedUpstream(script) as first, ScriptedUpstream(ANSWER) as second:
        toml = providers(first=first.base_url, second=second.base_url) + alias("any", "first", "second")
        async with gateway(toml) as gate:
            for _ in range(5):
                replies = await asyncio.gather(*(gate.ask(model="any", stream=True) for _ in range(20)))
                for reply in replies:
                    assert_completed(reply, text=FROM_SECOND)
            assert second.requests


# The time to the first token: U14.


def hasty(**base_urls: str) -> str:
    """Providers that are given a tenth of a second for their first token, where another could take over."""
    haste = "[providers.timeouts]\nfirst_event_s = 0.1\n"
    return "".join(providers(**{name: url}) + haste for name, url in base_urls.items())


def alias(name: str, *targets: str) -> str:
    listed = ", ".join(f'{{ provider = "{target}", model = "m" }}' for target in targets)
    return f'[[models]]\nid = "{name}"\ntargets = [{listed}]\n'


@each_dialect
@pytest.mark.parametrize(
    "steps", [[Hang()], [Head(), Hang()], [Head(), Send(ROLE), Hang()]], ids=["mute", "head", "role"]
)
async def test_u14_a_slow_target_fails_over(steps: Sequence[Step], dialect: str) -> None:
    async with ScriptedUpstream(steps) as slow, ScriptedUpstream(ANSWER) as well:
        async with gateway(hasty(slow=slow.base_url, well=well.base_url) + alias("either", "slow", "well")) as gate:
            reply = await gate.ask(path=path_of(dialect), model="either", stream=True)
            assert_completed(reply, dialect, text=FROM_SECOND)
            await assert_record(gate, "completed", attempts=["upstream_timeout", None])
            await slow.vacated()
        await well.vacated()


@pytest.mark.parametrize("model", ["slow/m", "last"])
async def test_u14_a_slow_last_target_is_waited_for(model: str) -> None:
    """A request that began later sees the same patience end, and so shows that the time has passed."""
    late = asyncio.Event()
    async with (
        ScriptedUpstream([Hang()]) as mute,
        ScriptedUpstream([Wait(late), *ANSWER]) as slow,
        ScriptedUpstream(ANSWER) as quick,
    ):
        toml = hasty(mute=mute.base_url, slow=slow.base_url, quick=quick.base_url)
        async with gateway(toml + alias("last", "mute", "slow") + alias("checker", "mute", "quick")) as gate:
            asking = asyncio.ensure_future(gate.ask(model=model, stream=True))
            await slow.seen(1)
            assert_completed(await gate.ask(model="checker", stream=True), text=FROM_SECOND)
            assert not slow.aborts
            late.set()
            assert_completed(await asking, text=FROM_SECOND)
            attempts = [None] if model == "slow/m" else ["upstream_timeout", None]
            await assert_record(gate, "completed", attempts=attempts, count=2)
        await slow.vacated()


# What an upstream does not take: `stream_options`.


REFUSALS = [
    error_body("Unknown parameter: 'stream_options'.", "invalid_request_error", "unknown_parameter", "stream_options"),
    error_body("Unrecognized request argument supplied: stream_options"),
    b'{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}',
]


def picky(body: bytes, status: int) -> Script:
    """An upstream that refuses to be asked for usage."""

    def script(request: Seen) -> Sequence[Step]:
        return whole(body, status) if "stream_options" in request.json else stream(openai_stream(usage=None))

    return script


@pytest.mark.parametrize("body", REFUSALS, ids=["openai", "older", "pydantic"])
@pytest.mark.parametrize("status", [400, 422])
async def test_a_refusal_of_stream_options_is_found_out_once(body: bytes, status: int) -> None:
    async with serving(picky(body, status), "openai-compatible") as (gate, up):
        asks: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
        assert_completed(await gate.ask(model="up/m", **asks), usage=(3, 5))
        await assert_record(gate, "completed", attempts=["invalid_value", None], usage=(3, 5), source="estimate")
        assert_completed(await gate.ask(model="up/m", **asks), usage=(3, 5))
        await assert_record(gate, "completed", source="estimate", count=2)
        assert ["stream_options" in request.json for request in up.requests] == [True, False, False]
        assert_completed(await gate.ask(model="up/another", **asks), usage=(3, 5))
        await assert_record(gate, "completed", attempts=["invalid_value", None], source="estimate", count=3)
        assert ["stream_options" in request.json for request in up.requests[3:]] == [True, False]


async def test_a_refusal_of_stream_options_is_no_reason_to_go_elsewhere() -> None:
    async with ScriptedUpstream(picky(REFUSALS[0], 400)) as up, ForbiddenServer() as other:
        async with gateway(providers(first=up.base_url, second=other.base_url) + ALIAS) as gate:
            assert_completed(await gate.ask(model="either", stream=True))
            record = await assert_record(gate, "completed", attempts=["invalid_value", None], source="estimate")
            assert {each.target for each in record.attempts} == {"first/m"}
        await up.vacated()


async def test_a_second_refusal_of_an_upstream_is_final() -> None:
    async with serving(whole(REFUSALS[0], 400)) as (gate, up):
        reply = await gate.ask(model="up/m", stream=True)
        assert_refused(reply, "invalid_value", param="stream_options")
        await assert_record(gate, "rejected", error="invalid_value", status=400, attempts=["invalid_value"] * 2)
        assert ["stream_options" in request.json for request in up.requests] == [True, False]


async def test_another_refusal_is_no_refusal_of_stream_options() -> None:
    async with serving(whole(error_body("Too hot.", param="temperature"), 400)) as (gate, up):
        assert_refused(await gate.ask(model="up/m", stream=True), "invalid_value", param="temperature")
        await assert_record(gate, "rejected", error="invalid_value", status=400)
        assert len(up.requests) == 1
