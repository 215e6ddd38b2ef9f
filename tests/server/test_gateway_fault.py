"""A bug of the gateway, at each step of a request: docs/spec/failures.md G5.

Before anything was sent it is a status 500 with the request's id, after that an error frame, in each dialect; no
request hangs, nothing internal is shown, and there is one record. The outermost parts are made to raise: the provider's
code, the connection, the caller's transport, the router.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import StringIO
from typing import Any, NoReturn, cast

import pytest
from msgspec import structs

from streamweir.core.call_trace import CallTrace
from streamweir.core.errors import CallerError, StreamweirError
from streamweir.core.events import Event
from streamweir.core.request import ChatRequest
from streamweir.providers.base import Decoder, Provider, Target, UpstreamRequest, Wire
from streamweir.server.http.message import Request, Response
from streamweir.server.http.response import HttpResponse
from streamweir.server.process.gateway import Gateway
from streamweir.server.request.runtime.config import ProviderRuntime
from streamweir.server.request.runtime.wires import ProviderWire
from streamweir.server.telemetry.log import close_log, configure_log
from streamweir.upstream.base import Call, Receiver, Upstream
from streamweir.wire.sse import Frame
from support.answers import TEXTS, openai_frames, openai_whole
from support.gateway import KEY, Gate, chat_request, gateway_to, text_of
from support.gateway_faults import BUFFERING, DIALECTS, assert_ended_by_us, assert_refused_by_us
from support.outcome import path_of
from support.raw_client import CutShort
from support.script import End, Fin, Hang, Head, Script, Send, Step, Wait, whole
from support.scripted_upstream import ScriptedUpstream
from support.serve_process import BEGUN, BEGUN_TEXT, begin, get

CANARY = "canary sk-canary-1234567890abcdef at 127.0.0.1"
FRAMES = openai_frames()
each_dialect = pytest.mark.parametrize("dialect", DIALECTS)


class Bug(Exception):
    pass


def bug(*_: object) -> NoReturn:
    raise Bug(CANARY)


@dataclass
class BrokenDecoder:
    """As the real one, up to the fault."""

    inner: Decoder
    fault: str
    frames: int

    @property
    def may_end_when_idle(self) -> bool:
        """The fault comes when all frames are read: how fast they come is chance."""
        return bug() if self.fault == "silence" and self.frames < 0 else self.inner.may_end_when_idle

    @property
    def lacks_terminator(self) -> bool:
        return self.inner.lacks_terminator

    def feed(self, frame: Frame, /) -> Sequence[Event]:
        self.frames -= 1
        return bug() if self.fault == "feed" and self.frames < 0 else self.inner.feed(frame)

    def finish(self) -> Sequence[Event]:
        return bug() if self.fault == "finish" else self.inner.finish()

    def fail(self, error: StreamweirError, /) -> Sequence[Event]:
        return bug() if self.fault == "fail" else self.inner.fail(error)


@dataclass
class BrokenProvider:
    inner: Provider
    fault: str
    frames: int = 0
    """How many the decoder reads before it breaks."""

    @property
    def name(self) -> str:
        return self.inner.name

    def refusal_of(self, request: ChatRequest, model: str, /) -> CallerError | None:
        return bug() if self.fault == "refusal_of" else self.inner.refusal_of(request, model)

    def build_request(self, request: ChatRequest, target: Target, /) -> UpstreamRequest:
        return bug() if self.fault == "build_request" else self.inner.build_request(request, target)

    def decoder(self, choices: int | None = None, /) -> Decoder:
        return bug() if self.fault == "decoder" else BrokenDecoder(self.inner.decoder(choices), self.fault, self.frames)

    def decode_whole(self, body: bytes, choices: int | None = None, /) -> Sequence[Event]:
        return bug() if self.fault == "decode_whole" else self.inner.decode_whole(body, choices)

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes, /) -> StreamweirError:
        return bug() if self.fault == "read_error" else self.inner.read_error(status, headers, body)


@dataclass
class BrokenCall:
    is_refused = False
    inner: Call
    fault: str

    @property
    def resends(self) -> int:
        return self.inner.resends

    @property
    def trace(self) -> CallTrace | None:
        return self.inner.trace

    def pause(self) -> None:
        bug() if self.fault == "pause" else self.inner.pause()

    def resume(self) -> None:
        self.inner.resume()

    def abort(self) -> None:
        self.inner.abort()

    def release(self) -> None:
        self.inner.release()
        if self.fault == "release":
            bug()


@dataclass
class BrokenUpstream:
    inner: Upstream
    fault: str

    async def open(self, request: UpstreamRequest, receiver: Receiver, /) -> Call:
        if self.fault == "open":
            bug()
        return BrokenCall(await self.inner.open(request, receiver), self.fault)

    async def close(self) -> None:
        await self.inner.close()


@dataclass
class InvalidUpstream:
    """Tells of every head twice, or of none: against `upstream.base`."""

    inner: Upstream
    heads: int

    async def open(self, request: UpstreamRequest, receiver: Receiver, /) -> Call:
        return await self.inner.open(request, InvalidReceiver(receiver, self.heads))

    async def close(self) -> None:
        await self.inner.close()


@dataclass
class InvalidReceiver:
    inner: Receiver
    heads: int

    def head_received(self, status: int, headers: Mapping[str, str], /) -> None:
        for _ in range(self.heads):
            self.inner.head_received(status, headers)

    def body_received(self, data: bytes, /) -> None:
        self.inner.body_received(data)

    def body_ended(self) -> None:
        self.inner.body_ended()

    def call_failed(self, error: StreamweirError, /) -> None:
        self.inner.call_failed(error)


@asynccontextmanager
async def broken(
    script: Script,
    toml: str = "",
    *,
    provider: Callable[[Provider], Provider] | None = None,
    upstream: Callable[[Upstream], Upstream] | None = None,
    passes: bool = False,
) -> AsyncIterator[tuple[Gate, ScriptedUpstream]]:
    """A gateway with a broken piece. Its faults are logged, and never reach the event loop.

    Unless the stream `passes`, every frame is decoded.
    """
    strays: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: strays.append(context))
    log = StringIO()
    configure_log("json", log)
    try:
        async with gateway_to(script, toml) as (gate, up):
            places = cast(dict[str, ProviderRuntime], gate.gateway.runtime.providers)
            place = places["up"]
            own = place.first.provider
            first = ProviderWire(
                provider(own) if provider is not None else own, place.first.native_wire if passes else None
            )
            places["up"] = structs.replace(
                place,
                first=first,
                wires={**place.wires, Wire.CHAT: first},
                upstream=upstream(place.upstream) if upstream is not None else place.upstream,
            )
            yield gate, up
            await gate.vacated()
    finally:
        close_log()
    assert strays == []
    (request,) = [each for each in map(json.loads, log.getvalue().splitlines()) if each["event"] == "request"]
    faults = [each for each in map(json.loads, log.getvalue().splitlines()) if each["event"] == "internal error"]
    assert faults, "the operator is told"
    assert {each["id"] for each in faults} == {request["id"]}
    assert all(
        "test_gateway_fault.py" in each["exception"] or "UnexpectedInput" in each["exception"] for each in faults
    )
    assert "sk-canary-1234567890abcdef" not in log.getvalue()


async def assert_record(gate: Gate, status: int) -> None:
    (record,) = await gate.settled()
    assert (record.status, record.verdict, record.error) == (status, "gateway_fault", "internal_error")


STREAM: Sequence[Step] = [Head(), *(Send(frame) for frame in FRAMES), End()]
ERROR: Sequence[Step] = [Head(500, "application/json"), Send(b"{}"), End()]
BEFORE: dict[str, tuple[Sequence[Step], bool]] = {
    "build_request": ([], True),
    "decoder": ([], True),
    "feed": ([Head(), Send(FRAMES[0]), Hang()], True),
    "finish": ([Head(), Send(FRAMES[0]), End()], True),
    "read_error": (ERROR, True),
    "decode_whole": (whole(openai_whole()), False),
}
"""What raises, with the upstream's part, and whether the caller asked for a stream."""


@pytest.mark.parametrize(
    ("fault", "dialect"),
    [(fault, dialect) for fault in BEFORE for dialect in (DIALECTS if BEFORE[fault][1] else BUFFERING)],
)
async def test_g5_a_bug_before_the_commit(fault: str, dialect: str) -> None:
    script, is_streamed = BEFORE[fault]
    async with broken(script, provider=lambda inner: BrokenProvider(inner, fault)) as (gate, _):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=is_streamed)
        assert_refused_by_us(reply, "internal_error", dialect)
        await assert_record(gate, 500)


@pytest.mark.parametrize(
    "script",
    [
        [Head(307, None, [("location", "http://127.0.0.1:1/")], framing=0), End()],
        [Head(500, "application/json"), Send(b"{"), Fin()],
        [Head(500, "application/json"), Send(b"x" * 70_000), Hang()],
        ERROR,
    ],
    ids=["a redirect", "an error that is cut", "an error that is too long", "an error"],
)
@pytest.mark.parametrize("is_streamed", [True, False])
async def test_g5_a_bug_while_an_error_is_read(script: Sequence[Step], is_streamed: bool) -> None:
    async with broken(script, provider=lambda inner: BrokenProvider(inner, "read_error")) as (gate, _):
        reply = await gate.ask(model="up/m", stream=is_streamed)
        assert_refused_by_us(reply, "internal_error")
        await assert_record(gate, 500)


@pytest.mark.parametrize("is_streamed", [True, False])
async def test_g5_a_bug_on_the_way_to_the_upstream(is_streamed: bool) -> None:
    async with broken([], upstream=lambda inner: BrokenUpstream(inner, "open")) as (gate, up):
        assert_refused_by_us(await gate.ask(model="up/m", stream=is_streamed), "internal_error")
        await assert_record(gate, 500)
        assert not up.requests


@each_dialect
async def test_g5_a_bug_after_the_commit(dialect: str) -> None:
    async with broken([*STREAM[:5], Hang()], provider=lambda inner: BrokenProvider(inner, "feed", 3)) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        assert_ended_by_us(reply, "internal_error", dialect, text="".join(TEXTS[:2]))
        await assert_record(gate, 200)
        await up.aborted(1)


async def test_g5_a_bug_at_the_end_of_the_body() -> None:
    script = [*STREAM[:7], End()]
    async with broken(script, provider=lambda inner: BrokenProvider(inner, "finish")) as (gate, _):
        reply = await gate.ask(model="up/m", stream=True)
        assert_ended_by_us(reply, "internal_error", text="".join(TEXTS))
        await assert_record(gate, 200)


async def test_g5_a_bug_in_a_timer() -> None:
    toml = "[server.timeouts]\nsilence_s = 0.01\n"
    script = [*STREAM[:3], Hang()]
    async with broken(script, toml, provider=lambda inner: BrokenProvider(inner, "silence", 1)) as (gate, up):
        reply = await gate.ask(model="up/m", stream=True)
        assert_ended_by_us(reply, "internal_error", text=TEXTS[0])
        await assert_record(gate, 200)
        await up.aborted(1)


async def test_g5_where_even_the_error_frame_cannot_be_made_the_caller_is_cut_off() -> None:
    script: list[Step] = [*STREAM[:3], Fin()]
    async with broken(script, provider=lambda inner: BrokenProvider(inner, "fail")) as (gate, _):
        with pytest.raises((CutShort, ConnectionError)):
            await gate.ask(model="up/m", stream=True)
        await assert_record(gate, 200)


async def test_g5_a_bug_while_the_upstream_is_to_be_paused() -> None:
    go_on = asyncio.Event()
    large = [frame.replace(b'"content":" from"', b'"content":"%b"' % (b"x" * 200_000)) for frame in FRAMES[:3]]
    script: list[Step] = [Head(), *(Send(frame) for frame in large * 3), Wait(go_on), Hang()]
    async with (
        broken(script, upstream=lambda inner: BrokenUpstream(inner, "pause")) as (gate, up),
        await gate.connect(receive_buffer=4096) as client,
    ):
        await client.send(chat_request(model="up/m", stream=True))
        await gate.settled()
        reply = await client.response()
        assert_ended_by_us(reply, "internal_error", text=text_of(reply.body))
        await assert_record(gate, 200)
        await up.aborted(1)


async def test_g5_a_bug_in_the_release_of_the_upstream_cuts_a_stream() -> None:
    async with broken(STREAM, upstream=lambda inner: BrokenUpstream(inner, "release")) as (gate, _):
        with pytest.raises((CutShort, ConnectionError)):
            await gate.ask(model="up/m", stream=True)
        await assert_record(gate, 200)


async def test_g5_a_bug_in_the_release_of_the_upstream_before_anything_was_sent() -> None:
    async with broken(whole(openai_whole()), upstream=lambda inner: BrokenUpstream(inner, "release")) as (gate, _):
        assert_refused_by_us(await gate.ask(model="up/m"), "internal_error")
        await assert_record(gate, 500)


@pytest.mark.parametrize("heads", [0, 2])
async def test_g5_an_upstream_that_breaks_its_contract_is_a_fault_with_a_name(heads: int) -> None:
    async with broken(STREAM, upstream=lambda inner: InvalidUpstream(inner, heads)) as (gate, up):
        assert_refused_by_us(await gate.ask(model="up/m", stream=True), "internal_error")
        await assert_record(gate, 500)
        assert b'streamweir_faults_total{fault="UnexpectedInput"} 1.0' in gate.gateway.metrics_text()
        await up.aborted(1)


async def test_g5_a_bug_while_frames_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(BEGUN), Wait(go_on), Send(FRAMES[3]), Hang()]
    async with broken(script, passes=True) as (gate, up), await gate.connect() as client:
        stream = await begin(client)
        monkeypatch.setattr(gate.gateway._observer, "chunk_gap", bug)
        go_on.set()
        assert_ended_by_us(await stream.rest(), "internal_error", text=BEGUN_TEXT)
        await assert_record(gate, 200)
        await up.aborted(1)


def break_writing(monkeypatch: pytest.MonkeyPatch, gateway: Gateway, good: int, bad: int) -> None:
    """The transport takes so many writes of an answer, then refuses so many."""
    serve = gateway.serve

    def serve_broken(request: Request, response: Response, /) -> None:
        assert isinstance(response, HttpResponse)
        take, count = response._send, 0

        def send(data: bytes) -> None:
            nonlocal count
            count += 1
            if good < count <= good + bad:
                bug()
            take(data)

        response._send = send
        serve(request, response)

    monkeypatch.setattr(gateway, "serve", serve_broken)


async def test_g5_a_write_that_fails_is_followed_by_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async with broken(STREAM) as (gate, _):
        break_writing(monkeypatch, gate.gateway, good=1, bad=1)
        reply = await gate.ask(model="up/m", stream=True)
        assert_ended_by_us(reply, "internal_error", text=text_of(reply.body))
        await assert_record(gate, 200)


@pytest.mark.parametrize(("good", "is_streamed"), [(0, True), (1, True), (2, True), (0, False)])
async def test_g5_a_caller_that_cannot_be_written_to_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, good: int, is_streamed: bool
) -> None:
    async with broken(STREAM if is_streamed else whole(openai_whole())) as (gate, _):
        break_writing(monkeypatch, gate.gateway, good=good, bad=1000)
        with pytest.raises((CutShort, ConnectionError)):
            await gate.ask(model="up/m", stream=is_streamed)
        (record,) = await gate.settled()
        assert (record.verdict, record.error) == ("gateway_fault", "internal_error")


class Broken:
    """Stands for any piece of the policy: whatever is asked of it fails."""

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        return bug

    def __contains__(self, _: object) -> bool:
        bug()


@each_dialect
@pytest.mark.parametrize("piece", ["quotes", "router", "budget", "refusals"])
async def test_g5_a_bug_in_the_policy(monkeypatch: pytest.MonkeyPatch, piece: str, dialect: str) -> None:
    toml = f'[[keys]]\nname = "test"\nkey = "{KEY}"\nrpm = 1000\n'
    async with broken(STREAM, toml) as (gate, up):
        runtime = structs.replace(gate.gateway.runtime, **{piece: Broken()})
        monkeypatch.setattr(gate.gateway, "_runtime", runtime)
        assert_refused_by_us(
            await gate.ask(path=path_of(dialect), model="up/m", stream=True), "internal_error", dialect
        )
        await assert_record(gate, 500)
        assert not up.requests


async def test_g5_a_bug_in_the_list_of_models(monkeypatch: pytest.MonkeyPatch) -> None:
    async with broken([]) as (gate, _), await gate.connect() as client:
        monkeypatch.setattr("streamweir.server.request.lookup.lookups.answer_models", bug)
        await client.send(get("/v1/models", KEY))
        assert_refused_by_us(await client.response(), "internal_error")
        await assert_record(gate, 500)


async def test_g5_a_bug_beside_the_data_plane(monkeypatch: pytest.MonkeyPatch) -> None:
    async with broken([]) as (gate, _), await gate.connect() as client:
        monkeypatch.setattr(gate.gateway, "gather_metrics", bug)
        await client.send(get("/metrics"))
        assert_refused_by_us(await client.response(), "internal_error")
        await assert_record(gate, 500)
        await client.send(get("/health"))
        assert (await client.response()).status == 200
