"""The scripted upstream does what its scripts say, counts what came, and owns up to its mistakes."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from streamweir.core.errors import UpstreamError
from streamweir.core.events import StreamCompleted, TextDelta, UsageReported
from streamweir.pipeline.intake import Intake
from streamweir.providers.registry import provider_named
from support.answers import (
    TEXTS,
    anthropic_error_body,
    anthropic_stream,
    anthropic_whole,
    error_body,
    gemini_error_body,
    gemini_stream,
    gemini_whole,
    openai_frames,
    openai_stream,
    openai_whole,
    token_steps,
)
from support.certificate import make_certificate
from support.script import (
    CutAt,
    Drip,
    End,
    Fin,
    Flood,
    Hang,
    Head,
    Line,
    Raw,
    Rst,
    ScriptMistake,
    Send,
    Step,
    Wait,
    answer_bytes,
    in_turn,
    make_close_a_reset,
    stream,
    whole,
)
from support.scripted_upstream import ForbiddenServer, ScriptedUpstream, black_hole, closed_port

POST = b'POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Two: 1\r\nx-two: 2\r\nContent-Length: 9\r\n\r\n{"a": 42}'


@asynccontextmanager
async def peer(
    up: ScriptedUpstream, sent: bytes = POST, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", up.port, ssl=tls)
    writer.write(sent)
    try:
        yield reader, writer
    finally:
        writer.close()
        await asyncio.wait([asyncio.ensure_future(writer.wait_closed())])


async def answer_to(up: ScriptedUpstream) -> bytes:
    """All that comes until the connection ends."""
    async with peer(up) as (reader, _):
        return await reader.read()


async def test_a_request_is_seen_as_it_was_sent() -> None:
    async with ScriptedUpstream(whole(b"{}")) as up, peer(up) as (reader, writer):
        await reader.readuntil(b"{}")
        writer.write(b"GET /v1/models HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
        await reader.readuntil(b"{}")
        first, second = up.requests
        assert (first.method, first.path, first.json) == ("POST", "/v1/chat/completions", {"a": 42})
        assert first.fields == [("Host", "x"), ("X-Two", "1"), ("x-two", "2"), ("Content-Length", "9")]
        assert first.headers["x-two"] == "2"
        assert (second.method, second.path, second.body) == ("GET", "/v1/models", b"abcde")
        assert first.connection == second.connection == 0
        assert (up.accepted, up.served, up.open_connections, up.open_answers) == (1, 2, 1, 0)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (
            Head(headers=[("connection", "close")]),
            b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        ),
        (Head(framing="close"), b"connection: close\r\n\r\nhello"),
        (Head(framing=5, headers=[("connection", "close")]), b"content-length: 5\r\n\r\nhello"),
    ],
)
async def test_a_body_is_framed_as_the_head_says(head: Head, expected: bytes) -> None:
    async with ScriptedUpstream([head, Send(b"hello"), End()]) as up:
        received = await answer_to(up)
    assert received.startswith(b"HTTP/1.1 200 Scripted\r\ncontent-type: text/event-stream; charset=utf-8\r\n")
    assert received.endswith(expected)
    assert received == answer_bytes(b"hello", head)


async def test_pieces_are_chunks_of_their_own() -> None:
    async with ScriptedUpstream([Head(), Send(b"hello", pieces_of=2), Fin()]) as up:
        assert (await answer_to(up)).endswith(b"\r\n\r\n2\r\nhe\r\n2\r\nll\r\n1\r\no\r\n")
    assert answer_bytes(b"hello", pieces_of=2).endswith(b"\r\n\r\n2\r\nhe\r\n2\r\nll\r\n1\r\no\r\n0\r\n\r\n")


async def test_each_request_gets_its_own_script() -> None:
    async with ScriptedUpstream(in_turn([Raw(b"one"), Fin()], [Raw(b"two"), Fin()])) as up:
        assert [await answer_to(up), await answer_to(up)] == [b"one", b"two"]
        assert [request.connection for request in up.requests] == [0, 1]


async def test_a_script_can_be_chosen_by_the_request() -> None:
    async with ScriptedUpstream(lambda request: [Raw(request.path.encode()), Fin()]) as up:
        assert await answer_to(up) == b"/v1/chat/completions"


async def test_a_function_is_a_step() -> None:
    async def echo(line: Line) -> None:
        await line.raw(line.request.body)

    async with ScriptedUpstream([echo, Fin()]) as up:
        assert await answer_to(up) == b'{"a": 42}'


async def test_waiting_holds_the_answer_until_the_event() -> None:
    more = asyncio.Event()
    async with ScriptedUpstream([Raw(b"first "), Wait(more), Raw(b"last"), Fin()]) as up, peer(up) as (reader, _):
        assert await reader.readexactly(6) == b"first "
        more.set()
        assert await reader.read() == b"last"


@pytest.mark.parametrize("pace", [0.0, None])
async def test_a_drip_goes_piece_by_piece(pace: float | None) -> None:
    permits = asyncio.Semaphore(0)
    drip = Drip(b"abc", permits if pace is None else pace, pieces_of=1)
    async with ScriptedUpstream([Head(framing="close"), drip, End()]) as up, peer(up) as (reader, _):
        await reader.readuntil(b"\r\n\r\n")
        for letter in (b"a", b"b", b"c"):
            permits.release()
            assert await reader.readexactly(1) == letter
        assert await reader.read() == b""


@pytest.mark.parametrize("offset", [0, 3, 5])
async def test_a_cut_by_fin_ends_without_a_terminator(offset: int) -> None:
    async with ScriptedUpstream([Head(), CutAt(b"hello", offset, "fin")]) as up:
        _, _, body = (await answer_to(up)).partition(b"\r\n\r\n")
    assert body == (b"%x\r\n%b\r\n" % (offset, b"hello"[:offset]) if offset else b"")


@pytest.mark.parametrize("script", [[Head(), CutAt(b"hello", 3, "rst")], [Head(), Send(b"hel"), Rst()]])
async def test_a_reset_is_a_reset_and_what_went_before_arrives(script: list[Step]) -> None:
    async with ScriptedUpstream(script) as up, peer(up) as (reader, _):
        await reader.readuntil(b"3\r\nhel\r\n")
        with pytest.raises(ConnectionResetError):
            await reader.read()


@pytest.mark.parametrize(("is_reset", "how"), [(False, "fin"), (True, "reset")])
async def test_a_peer_that_leaves_is_counted(is_reset: bool, how: str) -> None:
    async with ScriptedUpstream([Head(), Hang()]) as up, peer(up) as (reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        assert up.open_answers == 1
        if is_reset:
            make_close_a_reset(writer.transport)
        writer.close()
        abort = await up.aborted(1)
        assert (abort.request, abort.how) == (up.requests[0], how)
        await up.idle()
        await up.vacated()
        assert (up.served, len(up.aborts)) == (0, 1)


async def test_a_peer_that_leaves_between_requests_aborts_nothing() -> None:
    async with ScriptedUpstream(whole(b"{}")) as up:
        async with peer(up) as (reader, _):
            await reader.readuntil(b"{}")
        await up.vacated()
        assert up.aborts == []


async def test_kept_connections_can_be_closed_from_here() -> None:
    async with ScriptedUpstream(whole(b"{}")) as up, peer(up) as (reader, _):
        await reader.readuntil(b"{}")
        await up.played(1)
        up.close_idle()
        assert await reader.read() == b""


async def test_an_endless_answer_stops_if_it_is_not_read() -> None:
    async with ScriptedUpstream([Head(), Flood(b"x" * 65536)], send_buffer=65536) as up:
        async with peer(up) as (_, writer):
            await up.stalled()
            assert 0 < up.body_sent < 64 * 1024 * 1024
            writer.transport.abort()
        assert (await up.aborted(1)).how == "reset"


async def test_tokens_are_counted_as_they_are_sent() -> None:
    frames = openai_frames(["a", "b"])
    async with ScriptedUpstream(token_steps(frames)) as up, peer(up) as (reader, _):
        await reader.readuntil(b"0\r\n\r\n")
        await up.played(1)
        assert up.tokens == len(frames) == 6
        assert up.body_sent == len(openai_stream(["a", "b"]))


@pytest.mark.parametrize(
    "script",
    [
        [Head()],
        [Send(b"x"), End()],
        [Head(), End(), Send(b"x")],
        [Head(framing=3), Send(b"x"), End()],
        in_turn(),
    ],
    ids=["never over", "no head", "a step too many", "too short", "not expected"],
)
async def test_a_mistake_in_the_script_is_raised_at_the_end(script: list[Step]) -> None:
    with pytest.raises(ScriptMistake):
        async with ScriptedUpstream(script) as up, peer(up) as (reader, _):
            await asyncio.wait([asyncio.ensure_future(reader.read())])


async def test_a_request_that_is_not_http_is_raised_at_the_end() -> None:
    with pytest.raises(AssertionError, match="not a request"):
        async with ScriptedUpstream(whole(b"{}")) as up, peer(up, b"POST / HTTP/0.9\r\n\r\n") as (reader, _):
            await asyncio.wait([asyncio.ensure_future(reader.read())])


async def test_the_canary_fails_where_it_is_reached() -> None:
    async with ForbiddenServer():
        pass
    with pytest.raises(AssertionError, match="/v1/chat/completions"):
        async with ForbiddenServer() as canary, peer(canary) as (reader, _):
            await reader.readuntil(b"{}")


async def test_tls_is_trusted_by_its_own_certificate_alone(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    async with ScriptedUpstream([*stream(b"hello")], tls=certificate.server_context()) as up:
        assert up.base_url.startswith("https://127.0.0.1:")
        async with peer(up, tls=ssl.create_default_context(cafile=certificate.cert_file)) as (reader, _):
            await reader.readuntil(b"5\r\nhello\r\n0\r\n\r\n")
        with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
            await asyncio.open_connection("127.0.0.1", up.port, ssl=ssl.create_default_context())


@pytest.mark.parametrize(("name", "days", "complaint"), [("127.0.0.1", -1, "expired"), ("x.example", 1, "IP address")])
async def test_certificates_can_be_wrong(tmp_path: Path, name: str, days: int, complaint: str) -> None:
    now = datetime.now(UTC)
    certificate = make_certificate(tmp_path, name, now - timedelta(days=9), now + timedelta(days=days))
    async with ScriptedUpstream(whole(b"{}"), tls=certificate.server_context()) as up:
        context = ssl.create_default_context(cafile=certificate.cert_file)
        with pytest.raises(ssl.SSLCertVerificationError, match=complaint):
            await asyncio.open_connection("127.0.0.1", up.port, ssl=context)
        assert up.requests == []


async def test_a_closed_port() -> None:
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", closed_port())


async def test_a_black_hole_never_answers() -> None:
    with black_hole() as port, pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await asyncio.open_connection("127.0.0.1", port)


@pytest.mark.parametrize(
    ("provider", "body", "is_whole"),
    [
        ("openai", openai_stream(), False),
        ("openai", openai_whole(), True),
        ("anthropic", anthropic_stream(), False),
        ("anthropic", anthropic_whole(), True),
        ("gemini", gemini_stream(), False),
        ("gemini", gemini_whole(), True),
    ],
)
def test_ready_made_bodies_are_read_by_the_engine(provider: str, body: bytes, is_whole: bool) -> None:
    intake = Intake(provider_named(provider))
    events = provider_named(provider).decode_whole(body) if is_whole else [*intake.feed(body), *intake.finish()]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "".join(TEXTS)
    usage = [event.usage for event in events if isinstance(event, UsageReported)][-1]
    assert (usage.prompt_tokens, usage.completion_tokens) == (7, 5)
    assert isinstance(events[-1], StreamCompleted)


@pytest.mark.parametrize(
    ("provider", "body"),
    [
        ("openai", error_body("Busy.")),
        ("anthropic", anthropic_error_body("Busy.")),
        ("gemini", gemini_error_body("Busy.")),
    ],
)
def test_ready_made_errors_are_read_by_the_engine(provider: str, body: bytes) -> None:
    error = provider_named(provider).read_error(500, {}, body)
    assert isinstance(error, UpstreamError)
    assert error.code == "upstream_server_error"
