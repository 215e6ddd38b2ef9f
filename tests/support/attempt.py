"""One attempt as the gateway makes it, and nothing around it: a relay between a scripted upstream and a response.

    async with attempt(script) as run:
        await run.until(lambda: b"Hello" in run.written)
        run.relay.cut(error)
        await run.over()
        assert run.body.endswith(DONE)

The upstream is on a real socket; the response writes into `written`. When the block is left, nothing
may be open any more.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from streamweir.core.errors import StreamweirError
from streamweir.core.request import ChatRequest
from streamweir.frontends.base import EVENT_STREAM, Reply
from streamweir.frontends.table import FRONTENDS
from streamweir.pipeline.exchange import Exchange, WholeExchange
from streamweir.pipeline.folded_exchange import FoldedExchange
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.plan import Mode, plan
from streamweir.policy.routing.credentials import CredentialChange
from streamweir.providers.base import Target
from streamweir.providers.registry import native_wire, provider_named
from streamweir.server.http.response import HttpResponse
from streamweir.server.http.timers import TimerQueue
from streamweir.server.relay.capture import Capture, CapturedRelay
from streamweir.server.relay.deadlines import AttemptTimeouts
from streamweir.server.relay.relay import AttemptParts, Relay
from streamweir.upstream.base import Endpoint
from streamweir.upstream.http1 import Http1Upstream
from support.deadlines import WAIT_TIMEOUT_S
from support.gateway import MESSAGES, frames_of
from support.script import Script
from support.scripted_upstream import ScriptedUpstream

TIMING = AttemptTimeouts(
    commit_at=60.0,
    total_at=60.0,
    first_event_s=60.0,
    idle_s=60.0,
    assembly_s=60.0,
    keepalive_s=60.0,
    silence_s=60.0,
    abandoned_s=60.0,
    max_bytes=1 << 26,
)
"""Nothing takes too long. What ends in `_at` counts from the beginning of the attempt."""


@dataclass
class Attended:
    """The observer of an attempt, in place of the gateway's."""

    places: int = 1
    """For upstreams that are read on without a caller."""
    faults: list[BaseException] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    timers: TimerQueue = field(default_factory=TimerQueue)

    def chunk_gap(self, gap_s: float, /) -> None:
        self.gaps.append(gap_s)

    def fault(self, reason: BaseException, _request_id: str, /) -> None:
        self.faults.append(reason)

    def start_drain(self) -> bool:
        if not self.places:
            return False
        self.places -= 1
        return True

    def drain_ended(self) -> None:
        self.places += 1

    def attempt_ended(self, target: str, code: str | None, /) -> None:
        raise AssertionError(f"that is for the conversation to tell: {target} {code}")

    def skipped(self, target: str, reason: str, /) -> None:
        raise AssertionError(f"that is for the conversation to tell: {target} {reason}")

    def credentials_changed(self, changes: list[CredentialChange], /) -> None:
        raise AssertionError(f"that is for the conversation to tell: {changes}")

    def ejected(self, target: str, /) -> None:
        raise AssertionError(f"that is for the conversation to tell: {target}")


@dataclass
class Line:
    """The caller's connection, as far as a response knows it."""

    is_full: bool = False
    is_cut: bool = False

    def before_head(self) -> bool:
        return False

    def response_ended(self) -> None: ...

    def response_cut(self, /, *, with_reset: bool) -> None:  # noqa: ARG002 (either way)
        self.is_cut = True

    def read_body(self, _most: int | None, _done: Callable[[StreamweirError | None], None], /) -> None:
        raise AssertionError("its body is here")

    def arrived_body(self) -> bytes:
        raise AssertionError("its body is here")


class Run:
    def __init__(self, relay: Relay, meter: Meter, response: HttpResponse, watch: Attended, line: Line) -> None:
        self.relay = relay
        self.meter = meter
        self.response = response
        self.watch = watch
        self.line = line
        self.written = b""
        self.writes = 0
        self.task: asyncio.Task[None] | None = None

    @property
    def status(self) -> int | None:
        return int(self.written.split(b" ", 2)[1]) if self.written else None

    @property
    def body(self) -> bytes:
        """Of a response that has ended."""
        head, _, rest = self.written.partition(b"\r\n\r\n")
        if b"transfer-encoding: chunked" not in head:
            return rest
        body = b""
        while True:
            size, _, rest = rest.partition(b"\r\n")
            if size == b"0":
                assert rest == b"\r\n"
                return body
            length = int(size, 16)
            body += rest[:length]
            assert rest[length : length + 2] == b"\r\n"
            rest = rest[length + 2 :]

    @property
    def documents(self) -> list[Any]:
        return frames_of(self.body)

    def take(self, data: bytes) -> None:
        self.written += data
        self.writes += 1

    def leave(self) -> None:
        """As the connection reports a caller that has disconnected."""
        self.response.disconnect()

    async def over(self) -> None:
        assert self.task is not None
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            await self.task

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            while not holds():
                assert self.task is None or not self.task.done(), "it is over"
                await asyncio.sleep(0.001)


@asynccontextmanager
async def attempt(
    script: Script,
    kind: str = "openai",
    dialect: str = "openai",
    *,
    stream: bool = True,
    folds: bool = False,
    mode: Mode | None = None,
    meter: Meter | None = None,
    bills_on: bool = True,
    places: int = 1,
    capture: Capture | None = None,
    prepare: Callable[[Relay], None] = lambda _: None,
    **timeouts: float,
) -> AsyncIterator[tuple[Run, ScriptedUpstream]]:
    """`prepare` is called with the relay before it runs. `timeouts`: members of `TIMING`.

    `folds`: the caller gets a whole answer, for which the upstream is asked as a stream.
    """
    stream = stream and not folds
    run = prepared(kind, dialect, stream, mode, meter, places, capture, timeouts, folds=folds)
    provider = provider_named(kind)
    run.relay.abort_stops_billing = not bills_on
    prepare(run.relay)
    async with ScriptedUpstream(script) as up:
        upstream = Http1Upstream(Endpoint(base_url=up.base_url))
        request = provider.build_request(chat_of(dialect, stream or folds), Target(model="m"))
        run.task = asyncio.get_running_loop().create_task(run.relay.run(upstream, request))
        try:
            yield run, up
            await run.over()
            assert (run.watch.places, run.watch.faults) == (places, [])
        finally:
            run.task.cancel()
            await asyncio.wait([run.task])
            await upstream.close()
            run.watch.timers.stop()


def prepared(
    kind: str = "openai",
    dialect: str = "openai",
    stream: bool = True,
    mode: Mode | None = None,
    meter: Meter | None = None,
    places: int = 1,
    capture: Capture | None = None,
    timeouts: Mapping[str, float] = {},
    make_relay: Callable[[AttemptParts], Relay] = Relay,
    *,
    folds: bool = False,
) -> Run:
    """An attempt that does not run yet."""
    frontend, provider, watch, line = FRONTENDS.by_name[dialect], provider_named(kind), Attended(places), Line()
    reply = Reply(id=frontend.make_id(b"x" * 24), now=lambda: 7, model="m", include_usage=stream)
    meter = meter or Meter(3)
    make = Exchange if stream else FoldedExchange if folds else WholeExchange
    exchange = make(provider, frontend, reply, mode or plan(native_wire(kind), frontend, reply), meter)
    response = HttpResponse(line, lambda data: run.take(data), "request", is_head=False, is_1_1=True)
    parts = AttemptParts(exchange, meter, provider, response, _timing(timeouts), watch, "request", headers_of(stream))
    relay = make_relay(parts) if capture is None else CapturedRelay(capture, parts)
    run = Run(relay, meter, response, watch, line)
    return run


def chat_of(dialect: str, stream: bool) -> ChatRequest:
    members = {"model": "m", "messages": MESSAGES, "stream": stream}
    options: dict[str, Any] = {"stream_options": {"include_usage": True}} if stream else {}
    if dialect == "messages":
        options = {"max_tokens": 4096}
    if dialect == "responses":
        members, options = {"model": "m", "input": MESSAGES, "stream": stream}, {}
    return FRONTENDS.by_name[dialect].parse(members | options, {})


def headers_of(stream: bool) -> tuple[tuple[str, str], ...]:
    return EVENT_STREAM if stream else ()


def _timing(changes: Mapping[str, float]) -> AttemptTimeouts:
    now = time.monotonic()
    timeouts = structs.replace(TIMING, **changes)
    return structs.replace(timeouts, commit_at=now + timeouts.commit_at, total_at=now + timeouts.total_at)


def texts_of(documents: Sequence[Any]) -> str:
    """The text of the frames of a stream, whatever follows them."""
    choices = [choice for each in documents if each != "[DONE]" for choice in each.get("choices", ())]
    return "".join(choice["delta"].get("content") or "" for choice in choices)
