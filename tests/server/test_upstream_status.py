"""An upstream that answers with a failure's status: docs/spec/failures.md U5 to U10.

All of it happens before the commit: a status of our own, our own words, nothing of the provider's
text but what the caller must act on, and that scrubbed. The same code streamed and buffered.
"""

import pytest

from support.answers import (
    anthropic_error_body,
    error_body,
    gemini_error_body,
    openai_stream,
)
from support.gateway import gateway, providers
from support.outcome import (
    ALIAS,
    CANARY,
    DIALECTS,
    assert_completed,
    assert_quoted,
    assert_record,
    assert_refused,
    path_of,
    serving,
)
from support.script import Fields, Fin, Flood, Head, Rst, Send, Step, stream, whole
from support.scripted_upstream import ForbiddenServer, ScriptedUpstream
from support.wire_samples import VOICES, Voice

pytestmark = pytest.mark.usefixtures("no_jitter")

MODES = [pytest.param(True, id="stream"), pytest.param(False, id="whole")]


def dated(seconds: int) -> Fields:
    """`Retry-After` as a date, so long after the answer's own."""
    date, day = "Sun, 15 Nov 2026 08:00:{:02d} GMT", 10
    return [("date", date.format(day)), ("retry-after", date.format(day + seconds))]


# U5


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ([("retry-after", "7")], "7"),
        ([("retry-after", "2.5")], "3"),
        (dated(7), "7"),
        ([("retry-after", "999")], "120"),
        ([("retry-after", "1e400")], None),
        ([("retry-after", "soon")], None),
        ([("retry-after", "-5, 7")], None),
        ([], None),
    ],
    ids=["seconds", "part_of_a_second", "date", "too_long", "infinite", "garbage", "two", "none"],
)
@pytest.mark.parametrize("is_streamed", MODES)
async def test_u5_a_rate_limit_is_reported_and_the_target_paused(
    fields: Fields, shown: str | None, is_streamed: bool
) -> None:
    limited = whole(error_body(CANARY, "requests", "rate_limit_exceeded"), 429, fields)
    async with serving(limited) as (gate, up):
        reply = await gate.ask(model="up/m", stream=is_streamed)
        assert_refused(reply, "upstream_rate_limited", retry_after=shown)
        await assert_record(gate, "upstream_error", error="upstream_rate_limited", status=429)
        reply = await gate.ask(model="up/m", stream=is_streamed)
        assert_refused(reply, "upstream_rate_limited", retry_after=shown or "1")
        await assert_record(gate, "upstream_error", error="upstream_rate_limited", status=429, attempts=[], count=2)
        assert len(up.requests) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_u5_a_rate_limit_in_each_dialect(dialect: str) -> None:
    async with serving(whole(error_body(CANARY), 429, [("retry-after", "7")])) as (gate, _):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        assert_refused(reply, "upstream_rate_limited", dialect, retry_after="7")
        await assert_record(gate, "upstream_error", error="upstream_rate_limited", status=429)


async def test_u5_a_rate_limit_fails_over_and_the_next_request_does_not_ask_there() -> None:
    limited = whole(error_body(CANARY), 429, [("retry-after", "7")])
    async with ScriptedUpstream(limited) as busy, ScriptedUpstream(stream(openai_stream())) as up:
        async with gateway(providers(first=busy.base_url, second=up.base_url) + ALIAS) as gate:
            assert_completed(await gate.ask(model="either", stream=True))
            await assert_record(gate, "completed", attempts=["upstream_rate_limited", None])
            assert_completed(await gate.ask(model="either", stream=True))
            await assert_record(gate, "completed", count=2)
            assert (len(busy.requests), len(up.requests)) == (1, 2)
        await busy.vacated()
        await up.vacated()


# U6


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("kind", "status", "body"),
    [
        ("openai", 429, error_body(CANARY, "insufficient_quota", "insufficient_quota")),
        ("openai", 402, error_body(CANARY, "billing", None)),
        ("deepseek", 402, error_body(f"Insufficient Balance {CANARY}", "unknown_error", "invalid_request_error")),
        ("anthropic", 400, anthropic_error_body(f"Your credit balance is too low. {CANARY}", "invalid_request_error")),
        ("xai", 403, error_body(f"You have used all available credits. {CANARY}", "permission")),
    ],
    ids=["openai", "402", "deepseek", "anthropic", "xai"],
)
async def test_u6_a_provider_without_credit(kind: str, status: int, body: bytes, dialect: str) -> None:
    async with serving(whole(body, status, [("retry-after", "1")]), kind) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        assert_refused(reply, "upstream_quota_exhausted", dialect)
        assert b"insufficient_quota" not in reply.body
        await assert_record(gate, "upstream_error", error="upstream_quota_exhausted", status=503)
        assert len(up.requests) == 1


# U7


@pytest.mark.parametrize("is_streamed", MODES)
@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("openai", error_body(f"Incorrect API key provided: {CANARY}", "invalid_request_error", "invalid_api_key")),
        ("anthropic", anthropic_error_body(CANARY, "authentication_error")),
        ("gemini", gemini_error_body(CANARY, 403, "PERMISSION_DENIED")),
        ("openai", b"<html><script>canary</script>"),
    ],
    ids=["openai", "anthropic", "gemini", "not_json"],
)
async def test_u7_a_provider_that_refuses_the_gateways_key(
    kind: str, body: bytes, status: int, is_streamed: bool
) -> None:
    async with serving(whole(body, status), kind) as (gate, up):
        assert_refused(await gate.ask(model="up/m", stream=is_streamed), "upstream_auth_failed")
        await assert_record(gate, "upstream_error", error="upstream_auth_failed", status=502)
        assert len(up.requests) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_u7_a_refused_key_in_each_dialect(dialect: str) -> None:
    async with serving(whole(error_body(CANARY), 401)) as (gate, _):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        assert_refused(reply, "upstream_auth_failed", dialect)
        await assert_record(gate, "upstream_error", error="upstream_auth_failed", status=502)


# U8


@pytest.mark.parametrize("is_streamed", MODES)
@pytest.mark.parametrize(
    ("kind", "body", "code", "param"),
    [
        (
            "openai",
            error_body(
                f"The maximum context length is 128 tokens. {CANARY}", "x", "context_length_exceeded", "messages"
            ),
            "context_length_exceeded",
            "messages",
        ),
        ("openai", error_body(f"Too hot. {CANARY}", "x", "y", "temperature"), "invalid_value", "temperature"),
        (
            "anthropic",
            anthropic_error_body(f"prompt is too long: {CANARY}", "invalid_request_error"),
            "context_length_exceeded",
            None,
        ),
        ("gemini", gemini_error_body(f"Bad schema. {CANARY}", 400, "INVALID_ARGUMENT"), "invalid_value", None),
    ],
    ids=["context", "param", "anthropic", "gemini"],
)
async def test_u8_a_request_that_the_provider_refuses(
    kind: str, body: bytes, code: str, param: str | None, is_streamed: bool
) -> None:
    async with ScriptedUpstream(whole(body, 400)) as up, ForbiddenServer() as other:
        async with gateway(providers(kind, first=up.base_url, second=other.base_url) + ALIAS) as gate:
            reply = await gate.ask(model="either", stream=is_streamed)
            message = assert_refused(reply, code, param=param)
            assert message.split("***")[0].strip()
            await assert_record(gate, "rejected", error=code, status=400)
        await up.vacated()
        assert len(up.requests) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_u8_a_refused_request_in_each_dialect(dialect: str) -> None:
    body = error_body("The maximum context length is 128 tokens.", "x", "context_length_exceeded", "messages")
    async with serving(whole(body, 400)) as (gate, _):
        is_streamed = dialect != "responses"  # there it is told inside of a stream
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=is_streamed)
        message = assert_refused(reply, "context_length_exceeded", dialect, param="messages")
        own = "prompt is too long: " if dialect == "messages" else ""  # by which its clients know it
        assert message == f"{own}The maximum context length is 128 tokens."
        await assert_record(gate, "rejected", error="context_length_exceeded", status=400)


# U9


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("openai", error_body(CANARY, "invalid_request_error", "model_not_found", "model")),
        ("anthropic", anthropic_error_body(CANARY, "not_found_error")),
        ("gemini", gemini_error_body(CANARY, 404, "NOT_FOUND")),
    ],
    ids=["openai", "anthropic", "gemini"],
)
async def test_u9_a_model_that_the_provider_does_not_know(kind: str, body: bytes, dialect: str) -> None:
    async with serving(whole(body, 404), kind) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        if (kind, dialect) == ("anthropic", "messages"):
            assert_quoted(reply, 404, "not_found_error")
        else:
            assert_refused(reply, "upstream_model_not_found", dialect)
        await assert_record(gate, "upstream_error", error="upstream_model_not_found", status=reply.status)
        assert len(up.requests) == 1


# U10; its budget and its recovery are in test_failover


@pytest.mark.parametrize("is_streamed", MODES)
@pytest.mark.parametrize("voice", VOICES, ids=lambda voice: voice.kind)
@pytest.mark.parametrize(
    ("status", "code"),
    [
        (500, "upstream_server_error"),
        (502, "upstream_server_error"),
        (503, "upstream_overloaded"),
        (529, "upstream_overloaded"),
    ],
)
async def test_u10_a_provider_that_fails_is_asked_three_times(
    voice: Voice, status: int, code: str, is_streamed: bool
) -> None:
    async with serving(whole(voice.error(CANARY, voice.failed), status), voice.kind) as (gate, up):
        reply = await gate.ask(model="up/m", stream=is_streamed)
        assert_refused(reply, code)
        await assert_record(gate, "upstream_error", error=code, status=reply.status, attempts=[code] * 3)
        assert len(up.requests) == 3


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("status", "code"), [(500, "upstream_server_error"), (503, "upstream_overloaded")])
async def test_u10_a_failing_provider_in_each_dialect(status: int, code: str, dialect: str) -> None:
    async with serving(whole(error_body(CANARY), status)) as (gate, _):
        assert_refused(await gate.ask(path=path_of(dialect), model="up/m", stream=True), code, dialect)
        await gate.settled()


@pytest.mark.parametrize("ending", [Fin(), Rst()], ids=["fin", "rst"])
async def test_u10_an_error_that_is_cut_off_keeps_its_status(ending: Step) -> None:
    body = error_body(CANARY)
    cut: list[Step] = [Head(401, "application/json", framing=len(body)), Send(body[:20]), ending]
    async with serving(cut) as (gate, up):
        assert_refused(await gate.ask(model="up/m", stream=True), "upstream_auth_failed")
        await assert_record(gate, "upstream_error", error="upstream_auth_failed", status=502)
        await up.vacated()


async def test_u10_an_endless_error_is_not_read_to_its_end() -> None:
    async with serving([Head(404, "text/html"), Flood(b"<script>canary" * 1000)]) as (gate, up):
        assert_refused(await gate.ask(model="up/m", stream=True), "upstream_model_not_found")
        await assert_record(gate, "upstream_error", error="upstream_model_not_found", status=502)
        await up.aborted(1)
        await up.vacated()
