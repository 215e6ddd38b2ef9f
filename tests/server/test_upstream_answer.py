"""An upstream whose answer is none: docs/spec/failures.md U11 to U13, U27, U36 and U37.

An error under a status of success, a page, nothing at all, something packed, a redirect, a head that
cannot be trusted. All of it is seen before the commit, and none of it reaches the caller.
"""

import gzip
import json
from collections.abc import Sequence

import pytest

from support.answers import (
    anthropic_error_body,
    error_body,
    gemini_error_body,
    openai_stream,
    openai_whole,
)
from support.gateway import gateway, providers
from support.outcome import (
    ALIAS,
    CANARY,
    DIALECTS,
    assert_completed,
    assert_record,
    assert_refused,
    assert_whole,
    path_of,
    serving,
)
from support.script import End, Fields, Fin, Hang, Head, Raw, Send, Step, stream, whole
from support.scripted_upstream import ForbiddenServer, ScriptedUpstream
from support.wire_samples import VOICES, Voice

pytestmark = pytest.mark.usefixtures("no_jitter")

MODES = [pytest.param(True, id="stream"), pytest.param(False, id="whole")]


# U11


@pytest.mark.parametrize("is_streamed", MODES)
@pytest.mark.parametrize(
    ("kind", "body", "code", "verdict"),
    [
        ("openai", error_body(CANARY, "server_error"), "upstream_server_error", "upstream_error"),
        ("openai", error_body(CANARY, "x", "invalid_api_key"), "upstream_auth_failed", "upstream_error"),
        ("openai", error_body(f"No. {CANARY}", "invalid_request_error"), "invalid_value", "rejected"),
        ("openai", b'{"error":"canary"}', "upstream_server_error", "upstream_error"),
        ("openai", b'{"message":"canary","code":429}', "upstream_rate_limited", "upstream_error"),
        ("anthropic", anthropic_error_body(CANARY, "overloaded_error"), "upstream_overloaded", "upstream_error"),
        ("gemini", gemini_error_body(CANARY, 503, "UNAVAILABLE"), "upstream_overloaded", "upstream_error"),
        ("gemini", b"[%b]" % gemini_error_body(CANARY), "upstream_server_error", "upstream_error"),
    ],
    ids=["server", "key", "request", "text", "bare", "anthropic", "gemini", "gemini_array"],
)
@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream"])
async def test_u11_an_error_with_status_200_gets_its_own_status(
    kind: str, body: bytes, code: str, verdict: str, content_type: str, is_streamed: bool
) -> None:
    async with serving([Head(200, content_type), Send(body), End()], kind) as (gate, _):
        reply = await gate.ask(model="up/m", stream=is_streamed)
        assert_refused(reply, code)
        again = code in ("upstream_server_error", "upstream_overloaded")
        await assert_record(gate, verdict, error=code, status=reply.status, attempts=[code] * (3 if again else 1))


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_u11_an_error_with_status_200_in_each_dialect(dialect: str) -> None:
    async with serving(whole(error_body(CANARY, "x", "invalid_api_key"))) as (gate, _):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        assert_refused(reply, "upstream_auth_failed", dialect)
        await gate.settled()


# U12


PAGE = b"<!doctype html><script>alert('canary')</script>\n\ndata: {}\n\n"


@pytest.mark.parametrize("is_streamed", MODES)
@pytest.mark.parametrize("content_type", ["text/html", "TEXT/HTML; charset=utf-8", "image/png", "application/xml"])
async def test_u12_a_body_that_is_no_data_is_not_read(content_type: str, is_streamed: bool) -> None:
    async with serving([Head(200, content_type), Send(PAGE), Hang()]) as (gate, up):
        assert_refused(await gate.ask(model="up/m", stream=is_streamed), "upstream_bad_response")
        await assert_record(gate, "upstream_error", error="upstream_bad_response", status=502)
        await up.aborted(1)
        await up.vacated()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_u12_a_page_in_each_dialect(dialect: str) -> None:
    async with serving([Head(200, "text/html"), Send(PAGE), End()]) as (gate, _):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        assert_refused(reply, "upstream_bad_response", dialect)
        await gate.settled()


@pytest.mark.parametrize("is_streamed", MODES)
@pytest.mark.parametrize("voice", VOICES, ids=lambda voice: voice.kind)
@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream", "text/plain", None])
async def test_u12_a_page_under_another_name_is_never_relayed(
    voice: Voice, content_type: str | None, is_streamed: bool
) -> None:
    async with serving([Head(200, content_type), Send(PAGE), End()], voice.kind) as (gate, _):
        reply = await gate.ask(model="up/m", stream=is_streamed)
        code = json.loads(reply.body)["error"]["code"]
        assert_refused(reply, code)
        assert reply.status == 502
        await gate.settled()


@pytest.mark.parametrize("content_type", [None, "application/octet-stream", "text/plain", "application/x-ndjson"])
async def test_u12_a_good_stream_under_a_careless_name_is_relayed(content_type: str | None) -> None:
    async with serving([Head(200, content_type), Send(openai_stream()), End()]) as (gate, _):
        assert_completed(await gate.ask(model="up/m", stream=True))
        await assert_record(gate, "completed")


# U13


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "steps",
    [
        [Head(), End()],
        [Head(framing=0), End()],
        [Head(framing="close"), Fin()],
        [Head(), Send(b"\r\n\r\n"), End()],
        [Fin()],
    ],
    ids=["chunked", "length", "close", "blank", "no_head"],
)
async def test_u13_an_empty_answer(steps: Sequence[Step], dialect: str) -> None:
    async with serving(steps) as (gate, _):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        assert_refused(reply, "upstream_empty_response", dialect)
        code = "upstream_empty_response"
        await assert_record(gate, "truncated", error=code, status=502, attempts=[code] * 3)


@pytest.mark.parametrize("voice", VOICES, ids=lambda voice: voice.kind)
@pytest.mark.parametrize("is_streamed", MODES)
async def test_u13_an_empty_answer_of_each_provider(voice: Voice, is_streamed: bool) -> None:
    async with serving([Head(), End()], voice.kind) as (gate, _):
        assert_refused(await gate.ask(model="up/m", stream=is_streamed), "upstream_empty_response")
        await gate.settled()


async def test_u13_an_empty_answer_fails_over_first() -> None:
    async with ScriptedUpstream([Head(), End()]) as mute, ScriptedUpstream(stream(openai_stream())) as up:
        async with gateway(providers(first=mute.base_url, second=up.base_url) + ALIAS) as gate:
            assert_completed(await gate.ask(model="either", stream=True))
            await assert_record(gate, "completed", attempts=["upstream_empty_response", None])
        await up.vacated()


# U27


BOMB = gzip.compress(b"\0" * 10_000_000)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("coding", ["gzip", "GZIP", "br", "deflate, gzip"])
async def test_u27_a_compressed_answer_is_not_unpacked(coding: str, dialect: str) -> None:
    async with serving([Head(headers=[("content-encoding", coding)]), Send(BOMB), Hang()]) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        assert_refused(reply, "upstream_bad_encoding", dialect)
        await assert_record(gate, "upstream_error", error="upstream_bad_encoding", status=502)
        assert up.requests[0].headers["accept-encoding"] == "identity"
        await up.aborted(1)
        await up.vacated()


async def test_u27_a_compressed_error_still_has_its_status() -> None:
    body = gzip.compress(error_body(CANARY))
    async with serving(whole(body, 401, [("content-encoding", "gzip")])) as (gate, _):
        assert_refused(await gate.ask(model="up/m", stream=False), "upstream_auth_failed")
        await assert_record(gate, "upstream_error", error="upstream_auth_failed", status=502)


async def test_u27_identity_is_no_coding() -> None:
    async with serving(whole(openai_whole(), headers=[("content-encoding", "Identity")])) as (gate, _):
        assert_whole(await gate.ask(model="up/m"), usage=(7, 5))
        await assert_record(gate, "completed", usage=(7, 5))


# U36


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_u36_a_redirect_is_not_followed(status: int, dialect: str) -> None:
    async with ForbiddenServer() as elsewhere:
        location = [("location", f"{elsewhere.base_url}/canary")]
        async with serving([Head(status, None, location, framing=0), End()]) as (gate, up):
            reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
            assert_refused(reply, "upstream_redirect_blocked", dialect)
            assert reply.header("location") is None
            await assert_record(gate, "upstream_error", error="upstream_redirect_blocked", status=502)
            assert len(up.requests) == 1


# U37


HOSTILE: Fields = [
    ("set-cookie", "session=canary; Path=/"),
    ("server", "canary/1.0"),
    ("x-request-id", "canary"),
    ("openai-organization", "canary"),
    ("access-control-allow-origin", "https://canary.example.com"),
    ("strict-transport-security", "max-age=1"),
    ("alt-svc", 'h3="canary.example.com:443"'),
    ("x-accel-redirect", "/canary"),
    ("retry-after", "77"),
    ("link", "<https://canary.example.com>; rel=preload"),
]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_u37_no_header_of_the_provider_reaches_the_caller(dialect: str) -> None:
    async with serving([Head(headers=HOSTILE), Send(openai_stream()), End()]) as (gate, _):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        assert_completed(reply, dialect)  # which looks at every header
        await assert_record(gate, "completed")


async def test_u37_no_header_of_the_provider_reaches_a_buffered_caller() -> None:
    async with serving(whole(openai_whole(), headers=HOSTILE)) as (gate, _):
        reply = await gate.ask(model="up/m")
        assert_whole(reply)
        assert {name for name, _ in reply.headers} == {"content-type", "content-length", "date", "x-request-id"}
        await assert_record(gate, "completed")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nx-large: %b\r\n\r\n" % (b"canary" * 17_000),
        b"HTTP/1.1 200 OK\r\n%b\r\n" % b"".join(b"x-%d: canary\r\n" % number for number in range(200)),
        b"HTTP/1.1 200 OK\rset-cookie: canary\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx-canary: a\r\n folded\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"SSH-2.0-canary\r\n",
    ],
    ids=["100_KiB", "200_fields", "cr_in_reason", "folded", "two_lengths", "length_and_chunks", "coding", "not_http"],
)
async def test_u37_a_head_that_cannot_be_trusted(head: bytes, dialect: str) -> None:
    async with serving([Raw(head), Hang()]) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        assert_refused(reply, "upstream_bad_response", dialect)
        await assert_record(gate, "upstream_error", error="upstream_bad_response", status=502)
        await up.aborted(1)
        await up.vacated()
