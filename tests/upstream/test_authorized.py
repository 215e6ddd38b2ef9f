"""Requests with headers of their own, over a real socket: what is sent, and a refusal that is averted once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from traceback import extract_stack

import pytest

from streamweir.core.errors import GatewayFault, StreamweirError, UpstreamError
from streamweir.providers.base import UpstreamRequest
from streamweir.providers.registry import provider_named
from streamweir.server.relay.upstream import AttemptUpstream
from streamweir.upstream.authorized import AuthorizedCall, AuthorizedUpstream, connections_in
from streamweir.upstream.base import Upstream
from streamweir.upstream.head import Fields
from streamweir.upstream.sim import SimUpstream
from support.deadlines import WAIT_TIMEOUT_S
from support.upstream_server import CHUNKED, LAST_CHUNK, REQUEST, WHOLE, Recorder, UpstreamServer, chunk, turns, using

REFUSED = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 6\r\n\r\nbecaus"
EXPIRED = b"HTTP/1.1 403 Forbidden\r\nx-amzn-ErrorType: ExpiredTokenException:http://x/\r\ncontent-length: 0\r\n\r\n"
FORBIDDEN = b"HTTP/1.1 403 Forbidden\r\nx-amzn-ErrorType: AccessDeniedException\r\ncontent-length: 0\r\n\r\n"


class Tokens:
    """An authorizer that numbers its tokens."""

    def __init__(self, most: int = 2) -> None:
        self.token = 1
        self.most = most
        self.refusals = 0
        self.failure: StreamweirError | None = None
        self.is_closed = False
        self.was_refused = asyncio.Event()
        self.may_renew = asyncio.Event()
        self.may_renew.set()

    async def headers_for(self, request: UpstreamRequest, /) -> Fields:
        if self.failure is not None:
            raise self.failure
        return (("Authorization", f"Bearer {self.token}"), ("x-length", str(len(request.body))))

    async def refused(self) -> bool:
        self.refusals += 1
        self.was_refused.set()
        await self.may_renew.wait()
        if self.token == self.most:
            return False
        self.token += 1
        return True

    async def close(self) -> None:
        self.is_closed = True


@asynccontextmanager
async def authorized(tokens: Tokens, server: UpstreamServer) -> AsyncIterator[AuthorizedUpstream]:
    async with using(server.endpoint()) as inner:
        upstream = AuthorizedUpstream(inner, tokens)
        yield upstream
        await upstream.close()
        assert tokens.is_closed


async def test_the_headers_are_added_and_replace_those_of_the_request() -> None:
    async with UpstreamServer() as server, authorized(Tokens(), server) as upstream:
        recorder = Recorder()
        typed: Upstream = upstream
        request = UpstreamRequest(path="/chat", headers=(("authorization", "Bearer old"), ("x-a", "b")), body=b"1234")
        await typed.open(request, recorder)
        sent = await (await server.accept()).answer(WHOLE)
        assert b"\r\nx-a: b\r\nAuthorization: Bearer 1\r\nx-length: 4\r\n" in sent
        assert b"old" not in sent
        await recorder.over()
        assert recorder.calls == ["head", "body", "ended"]


async def test_chunks_go_directly_to_the_receiver() -> None:
    async with UpstreamServer() as server, authorized(Tokens(), server) as upstream:
        callers: list[list[str]] = []
        recorder = Recorder({"body": lambda: callers.append([frame.name for frame in extract_stack()[-5:-1]])})
        await upstream.open(REQUEST, recorder)
        peer = await server.accept()
        await peer.answer(CHUNKED + chunk(b"one"))
        await recorder.until(lambda: recorder.body == b"one")
        peer.send(chunk(b"two"))
        await recorder.until(lambda: recorder.body == b"onetwo")
        peer.send(LAST_CHUNK)
        await recorder.over()
        own = ["body_received", "_record"]
        assert callers == [["data_received", "_process", *own], [callers[1][0], "data_received", *own]]


@pytest.mark.parametrize(
    "refusal", [REFUSED, EXPIRED, EXPIRED.replace(b" 403 ", b" 400 ")], ids=["401", "expired", "expired, 400"]
)
@pytest.mark.parametrize("cut", [False, True])
async def test_a_refused_request_is_sent_once_more(refusal: bytes, cut: bool) -> None:
    tokens = Tokens()
    async with UpstreamServer() as server, authorized(tokens, server) as upstream:
        recorder = Recorder()
        await upstream.open(REQUEST, recorder)
        peer = await server.accept()
        if cut:  # the rest never comes
            await peer.answer(refusal.replace(b"content-length: ", b"content-length: 1"))
            peer = await server.accept()
        else:
            await peer.answer(refusal)
        sent = await peer.answer(WHOLE)
        assert b"\r\nAuthorization: Bearer 2\r\n" in sent
        assert sent.endswith(REQUEST.body)
        await recorder.over()
        assert (recorder.calls, recorder.status, recorder.body) == (["head", "body", "ended"], 200, b"hi")
        assert tokens.refusals == 1


async def test_the_second_refusal_is_passed_on() -> None:
    tokens = Tokens(most=9)
    async with UpstreamServer() as server, authorized(tokens, server) as upstream:
        recorder = Recorder()
        await upstream.open(REQUEST, recorder)
        peer = await server.accept()
        await peer.answer(REFUSED)
        await peer.answer(REFUSED)
        await recorder.over()
        assert (recorder.status, recorder.body, tokens.refusals) == (401, b"becaus", 1)


@pytest.mark.parametrize("how", ["whole", "later", "broken", "long"])
async def test_without_another_token_the_refusal_is_passed_on_unchanged(how: str) -> None:
    tokens = Tokens(most=1)
    tokens.may_renew.clear()
    body = b"because" if how != "long" else b"because" * 20_000
    async with UpstreamServer() as server, authorized(tokens, server) as upstream:
        recorder = Recorder()
        await upstream.open(REQUEST, recorder)
        peer = await server.accept()
        head = b"HTTP/1.1 401 No\r\nx-a: b\r\ncontent-length: %d\r\n\r\n" % len(body)
        await peer.answer(head + (body if how in ("whole", "long") else body[:3]))
        await asyncio.wait_for(tokens.was_refused.wait(), WAIT_TIMEOUT_S)
        if how == "broken":
            peer.reset()
        assert recorder.calls == []
        tokens.may_renew.set()
        if how == "later":
            await recorder.until(lambda: recorder.body == body[:3])
            peer.send(body[3:])
        await recorder.over()
        assert (recorder.status, recorder.headers["x-a"]) == (401, "b")
        if how == "broken":
            assert recorder.code == "upstream_stream_reset"
        else:
            assert recorder.body == body


@pytest.mark.parametrize("most", [1, 2], ids=["passed on", "averted"])
async def test_a_refusal_in_two_pieces_cut_anywhere(most: int) -> None:
    for cut in range(1, len(REFUSED)):
        tokens, has_head = Tokens(most), b"\r\n\r\n" in REFUSED[:cut]
        async with UpstreamServer() as server, authorized(tokens, server) as upstream:
            recorder = Recorder()
            await upstream.open(REQUEST, recorder)
            peer = await server.accept()
            await peer.answer(REFUSED[:cut])
            await (asyncio.wait_for(tokens.was_refused.wait(), WAIT_TIMEOUT_S) if has_head else turns())
            peer.send(REFUSED[cut:])
            if most == 2:  # a refusal that had not ended is left with its connection
                await (await server.accept() if has_head else peer).answer(WHOLE)
            await recorder.over()
            expected = (401, b"becaus") if most == 1 else (200, b"hi")
            assert (recorder.status, recorder.body) == expected, cut
            assert recorder.calls.count("head") == 1


@pytest.mark.parametrize("data", [FORBIDDEN, b"HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n"], ids=["denied", "plain"])
async def test_other_refusals_are_not_about_the_token(data: bytes) -> None:
    tokens = Tokens()
    async with UpstreamServer() as server, authorized(tokens, server) as upstream:
        recorder = Recorder()
        await upstream.open(REQUEST, recorder)
        await (await server.accept()).answer(data)
        assert ((await recorder.over()).status, tokens.refusals) == (403, 0)


@pytest.mark.parametrize("end", [AuthorizedCall.abort, AuthorizedCall.release])
async def test_a_call_that_ends_while_a_token_is_awaited(end: object) -> None:
    tokens = Tokens()
    tokens.may_renew.clear()
    async with UpstreamServer() as server, authorized(tokens, server) as upstream:
        recorder = Recorder()
        call = await upstream.open(REQUEST, recorder)
        await (await server.accept()).answer(REFUSED)
        await asyncio.wait_for(tokens.was_refused.wait(), WAIT_TIMEOUT_S)
        call.pause()
        call.resume()
        end(call)  # type: ignore[operator]
        call.abort()
        await turns()
        assert recorder.calls == []
        assert upstream.inner.in_use == 0


@pytest.mark.parametrize(
    "failure", [GatewayFault("overloaded", "no"), UpstreamError("upstream_timeout", "The token service.")]
)
async def test_no_token_for_the_second_request(failure: StreamweirError) -> None:
    tokens = Tokens()
    async with UpstreamServer() as server, authorized(tokens, server) as upstream:
        recorder = Recorder()
        await upstream.open(REQUEST, recorder)
        tokens.failure = failure
        await (await server.accept()).answer(REFUSED)
        await recorder.over()
        assert recorder.calls == ["failed"]
        assert recorder.error == tokens.failure


@pytest.mark.parametrize("is_refused", [True, False])
async def test_a_refused_request_that_is_given_up_is_not_billed(is_refused: bool) -> None:
    tokens = Tokens()
    tokens.may_renew.clear()
    async with UpstreamServer() as server, authorized(tokens, server) as upstream:
        attempt = AttemptUpstream(provider_named("openai"))
        attempt.take_call(await upstream.open(REQUEST, Recorder()))
        peer = await server.accept()
        await peer.request()
        if is_refused:
            peer.send(REFUSED)
            await asyncio.wait_for(tokens.was_refused.wait(), WAIT_TIMEOUT_S)
        attempt.drop()  # the caller has left, or a deadline has passed
        assert attempt.is_billable is not is_refused


async def test_no_token_at_all() -> None:
    tokens = Tokens()
    tokens.failure = UpstreamError("upstream_auth_failed", "The token service refused.")
    async with UpstreamServer() as server, authorized(tokens, server) as upstream:
        with pytest.raises(UpstreamError, match="token service"):
            await upstream.open(REQUEST, Recorder())
        assert (upstream.inner.in_use, server.peers) == (0, [])


async def test_a_pause_holds_for_the_second_answer() -> None:
    tokens = Tokens()
    tokens.may_renew.clear()
    async with UpstreamServer() as server, authorized(tokens, server) as upstream:
        recorder = Recorder()
        call = await upstream.open(REQUEST, recorder)
        peer = await server.accept()
        await peer.answer(REFUSED)
        await asyncio.wait_for(tokens.was_refused.wait(), WAIT_TIMEOUT_S)
        call.pause()
        tokens.may_renew.set()
        await peer.answer(WHOLE)
        await turns()
        assert recorder.calls == []
        call.resume()
        assert (await recorder.over()).body == b"hi"


async def test_a_receiver_that_ends_the_call_at_the_head_of_a_refusal() -> None:
    async with UpstreamServer() as server, authorized(Tokens(most=1), server) as upstream:
        calls: list[AuthorizedCall] = []
        recorder = Recorder({"head": lambda: calls[0].abort()})
        calls.append(await upstream.open(REQUEST, recorder))
        peer = await server.accept()
        await peer.answer(REFUSED)
        await recorder.until(lambda: recorder.calls == ["head"])
        await turns()
        assert recorder.calls == ["head"]


async def test_a_failure_before_the_head() -> None:
    async with UpstreamServer() as server, authorized(Tokens(), server) as upstream:
        recorder = Recorder()
        call = await upstream.open(REQUEST, recorder)
        peer = await server.accept()
        await peer.request()
        peer.finish()
        assert (await recorder.over()).code == "upstream_empty_response"
        assert call.trace is not None
        assert connections_in(upstream) is upstream.inner is connections_in(upstream.inner)
        assert connections_in(SimUpstream()) is None
