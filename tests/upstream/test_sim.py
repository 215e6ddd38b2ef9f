"""The simulator on a loop: the rules of an upstream, and every script in every dialect."""

import asyncio
import gc
import json
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from streamweir.core.errors import StreamweirError, UpstreamError
from streamweir.core.request import read_request
from streamweir.frontends.base import Reply
from streamweir.frontends.table import FRONTENDS
from streamweir.pipeline.exchange import Exchange, WholeExchange
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.plan import Mode, plan
from streamweir.pipeline.settlement import UsageSource
from streamweir.providers.base import Target, UpstreamRequest
from streamweir.providers.registry import native_wire, provider_named
from streamweir.upstream.base import Call, Upstream
from streamweir.upstream.script import MODELS, SCRIPTS, Step, play
from streamweir.upstream.sim import MODELS as LISTED
from streamweir.upstream.sim import SimCall, SimUpstream
from support.comparison import differences
from support.dialect_output import passed_frames, read_stream, read_whole
from support.dialect_rules import DIALECTS as RULES
from support.dialect_rules import Rules
from support.reading import read_recording

PROVIDER = provider_named("openai")
NO_ANSWER = UpstreamError("stream_idle_timeout", "The upstream went silent.")


def request_for(model: str, stream: bool = True, **more: Any) -> UpstreamRequest:
    body = {"model": f"sim/{model}", "messages": [{"role": "user", "content": "Hi there"}], "stream": stream, **more}
    return PROVIDER.build_request(read_request(body), Target(model=model))


def simulator(**more: Any) -> Upstream:
    return SimUpstream(now=lambda: 1_750_000_000.9, entropy=lambda: bytes(24), **more)


@pytest.fixture
def all_is_young() -> Iterator[None]:
    """What the test makes stays in the first generation: to collect the others takes longer than the test."""
    gc.disable()
    yield
    gc.enable()


class Listener:
    """A receiver that takes down what it is told, and holds the order of calls to the law."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def heard(self, count: int) -> None:
        """Until so many calls have come."""
        if len(self.calls) < count:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.waiting.append((count, future))
            await future

    def _record(self, call: Any) -> None:
        assert not self.over.done(), "nothing follows the end"
        self.calls.append(call)
        for count, future in self.waiting:
            if len(self.calls) >= count and not future.done():
                future.set_result(None)

    def head_received(self, status: int, headers: Mapping[str, str], /) -> None:
        assert self.calls == [], "one head, first"
        assert all(name == name.lower() for name in headers)
        self._record((status, headers))

    def body_received(self, data: bytes, /) -> None:
        assert self.calls, "a head comes first"
        assert data
        self._record(data)

    def body_ended(self) -> None:
        assert self.calls
        self._record("end")
        self.over.set_result(None)

    def call_failed(self, error: StreamweirError, /) -> None:
        self._record(error)
        self.over.set_result(None)

    @property
    def body(self) -> bytes:
        return b"".join([call for call in self.calls if isinstance(call, bytes)])


async def turns(count: int = 20) -> None:
    """Gives the loop so many rounds."""
    for _ in range(count):
        await asyncio.sleep(0)


def test_the_listed_models() -> None:
    assert LISTED == MODELS
    assert set(MODELS) < set(SCRIPTS)


async def test_nothing_is_called_inside_open() -> None:
    listener = Listener()
    call: Call = await simulator().open(request_for("hello"), listener)
    assert listener.calls == []
    assert call.resends == 0
    await listener.over
    assert listener.calls[0][0] == 200
    assert listener.body.endswith(b"data: [DONE]\n\n")
    assert listener.calls[-1] == "end"


async def test_the_same_request_has_the_same_bytes_and_the_time_that_was_handed_in() -> None:
    bodies = set()
    for _ in range(2):
        listener = Listener()
        await simulator().open(request_for("tools"), listener)
        await listener.over
        bodies.add(listener.body)
    assert len(bodies) == 1
    assert b'"created":1750000000,' in bodies.pop()


async def test_by_default_every_answer_has_an_id_of_its_own() -> None:
    ids = set()
    for _ in range(2):
        listener = Listener()
        await SimUpstream().open(request_for("hello", stream=False), listener)
        await listener.over
        ids.add(json.loads(listener.body)["id"])
    assert len(ids) == 2


async def test_streams_take_turns() -> None:
    order: list[str] = []

    class Named(Listener):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def body_received(self, data: bytes, /) -> None:
            order.append(self.name)
            super().body_received(data)

    upstream, listeners = simulator(), [Named("a"), Named("b")]
    for listener in listeners:
        await upstream.open(request_for("hello"), listener)
    for listener in listeners:
        await listener.over
    assert order == ["a", "b"] * (len(order) // 2)


async def test_a_paused_call_delivers_nothing_and_continues_where_it_was() -> None:
    straight, listener = Listener(), Listener()
    await simulator().open(request_for("hello"), straight)
    await straight.over
    call = await simulator().open(request_for("hello"), listener)
    for count in range(1, len(straight.calls)):
        await listener.heard(count)
        call.pause()
        call.pause()
        before = len(listener.calls)
        await turns()
        assert len(listener.calls) == before
        call.resume()
        call.resume()
        assert len(listener.calls) == before, "never from inside a method of the call"
    await listener.over
    assert listener.calls == straight.calls


async def test_pausing_and_resuming_from_inside_a_callback() -> None:
    class Hesitant(Listener):
        call: Call

        def body_received(self, data: bytes, /) -> None:
            super().body_received(data)
            self.call.pause()
            if len(self.calls) % 2:
                self.call.resume()
            else:
                asyncio.get_running_loop().call_soon(self.call.resume)

    listener = Hesitant()
    listener.call = await simulator().open(request_for("hello"), listener)
    await listener.over
    assert listener.body.endswith(b"data: [DONE]\n\n")


async def test_a_step_that_comes_due_while_paused_waits() -> None:
    listener = Listener()
    call = await simulator().open(request_for("hello?pace_ms=1"), listener)
    await listener.heard(2)
    call.pause()
    before = len(listener.calls)  # on a busy machine the next step can be due by now
    other = Listener()
    await simulator().open(request_for("hello?pace_ms=1"), other)
    await other.over
    assert len(listener.calls) == before
    call.resume()
    await listener.over


async def test_no_more_than_one_step_is_made_ahead() -> None:
    made: list[Step] = []

    def watched() -> Iterator[Step]:
        for step in play(request_for("endless?pace_ms=0").body, created=1, entropy=b""):
            made.append(step)
            yield step

    listener = Listener()
    call = SimCall(asyncio.get_running_loop(), watched(), listener)
    await listener.heard(100)
    call.pause()
    await turns()
    assert len(made) <= len(listener.calls) + 1
    call.abort()


@pytest.mark.usefixtures("all_is_young")
@pytest.mark.parametrize("leave", ["abort", "release"])
@pytest.mark.parametrize(
    "model", ["hello", "hello?first_ms=600000", "lorem?pace_ms=600000", "endless?pace_ms=0", "stall"]
)
async def test_after_an_abort_nothing_is_called_and_nothing_is_left_on_the_loop(model: str, leave: str) -> None:
    listener = Listener()
    call = await simulator().open(request_for(model), listener)
    await turns()
    count = len(listener.calls)
    getattr(call, leave)()
    getattr(call, leave)()
    call.resume()
    await turns()
    assert len(listener.calls) == count
    kept = weakref.ref(listener)
    del listener, call
    gc.collect(0)
    assert kept() is None


@pytest.mark.parametrize("moment", range(22))
async def test_leaving_from_inside_a_callback(moment: int) -> None:
    class Leaving(Listener):
        call: Call

        def _record(self, call: Any) -> None:
            super()._record(call)
            if len(self.calls) > moment:
                self.call.abort()

    listener = Leaving()
    listener.call = await simulator().open(request_for("hello"), listener)
    await turns(40)
    assert len(listener.calls) == moment + 1 or listener.over.done()


@pytest.mark.usefixtures("all_is_young")
@pytest.mark.parametrize("model", ["hello", "cut", "error", "empty"])
async def test_an_answer_that_is_over_keeps_nothing(model: str) -> None:
    listener = Listener()
    call = await simulator().open(request_for(model), listener)
    await listener.over
    call.pause()
    call.resume()
    call.release()
    kept = weakref.ref(listener)
    del listener, call
    await turns()
    gc.collect(0)
    assert kept() is None


async def test_a_large_request_is_read_elsewhere() -> None:
    body = {"model": "sim/echo", "messages": [{"role": "user", "content": "word " * 100_000}], "max_tokens": 3}
    request = PROVIDER.build_request(read_request(body), Target(model="echo"))
    listener = Listener()
    await simulator().open(request, listener)
    await listener.over
    answer = json.loads(listener.body)
    assert answer["choices"][0]["message"]["content"] == "word word word"
    assert answer["usage"]["prompt_tokens"] == 100_001


async def test_opening_a_large_request_may_be_cancelled() -> None:
    body = {"model": "sim/echo", "messages": [{"role": "user", "content": "word " * 100_000}]}
    request = PROVIDER.build_request(read_request(body), Target(model="echo"))
    listener = Listener()
    task = asyncio.create_task(simulator().open(request, listener))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await turns()
    assert listener.calls == []


async def test_closing_leaves_running_calls_alone() -> None:
    upstream, listener = simulator(), Listener()
    await upstream.open(request_for("hello"), listener)
    await upstream.close()
    await listener.over
    assert listener.calls[-1] == "end"


class Caller(Listener):
    """A receiver that does what the relay does: bytes into the exchange, failures into it as well."""

    def __init__(self, exchange: Exchange | WholeExchange) -> None:
        super().__init__()
        self.exchange = exchange
        self.out = b""
        self.failure: StreamweirError | None = None

    @property
    def status(self) -> int:
        return int(self.calls[0][0])

    def body_received(self, data: bytes, /) -> None:
        super().body_received(data)
        if self.status == 200:
            self.out += self.exchange.feed(data)

    def body_ended(self) -> None:
        super().body_ended()
        if self.status == 200:
            self.out += self.exchange.finish()
            self.failure = self.exchange.failure
        else:
            status, headers = self.calls[0]
            self.failure = PROVIDER.read_error(status, headers, self.body)

    def call_failed(self, error: StreamweirError, /) -> None:
        super().call_failed(error)
        self.give_up(error)

    def give_up(self, error: StreamweirError) -> None:
        self.out += self.exchange.fail(error)
        self.failure = self.exchange.failure


async def ask(model: str, dialect: str = "openai", asked: bool = True, **more: Any) -> Caller:
    """One streamed answer of a script, through the whole chain. Where it does not end, its caller loses patience."""
    frontend = FRONTENDS.by_name[dialect]
    reply = Reply(id=frontend.make_id(bytes(24)), now=lambda: 7, model=f"sim/{model}", include_usage=asked)
    mode = plan(native_wire("openai"), frontend, reply)
    caller = Caller(Exchange(PROVIDER, frontend, reply, mode, Meter()))
    call = await simulator().open(request_for(model, **more), caller)
    if model.startswith(("stall", "endless")):
        await caller.heard(1 + int(model.partition("at=")[2] or 20))
        await turns()
        call.abort()
        caller.give_up(NO_ANSWER)
    else:
        await caller.over
    return caller


COMPLETE = [
    *MODELS,
    "lorem?chunk=7&seed=3",
    "tools?text=Wait.&calls=3",
    "slow-start?first_ms=2",
    "lorem?words=3&pace_ms=1",
    "cut?how=no-done",
    "huge-frame?bytes=100000",
    "hello?finish=length",
    "hello?finish=content_filter",
    "hello?text=",
    "echo?text=%E2%80%A8+%22quoted%22+%0A%0Adata: [DONE]%0A%0A",
    *(f"hello?usage={word}" for word in ("finish", "every", "twice", "none", "zero", "absurd")),
]


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules.name)
@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("model", COMPLETE)
async def test_a_script_that_answers_well_is_complete_in_every_dialect(model: str, rules: Rules, asked: bool) -> None:
    caller = await ask(model, rules.name, asked)
    assert caller.failure is None
    assert caller.exchange.ended
    output = read_stream(caller.out, rules, asked, passed_frames(caller.body))
    expected = read_recording("openai-chat", caller.body)
    assert (output.error, expected.ended) == (None, "complete")
    assert differences(expected, output, rules, f"sim/{model}") == []


AFTER = {
    "error?at=3": "upstream_server_error",
    "error?at=3&status=503": "upstream_overloaded",
    "cut?at=5": "upstream_stream_truncated",
    "cut?at=5&how=rst": "upstream_stream_reset",
    "cut?at=5&how=end": "upstream_stream_truncated",
    "cut?at=5&how=half-frame": "upstream_stream_truncated",
    "cut?at=1000&how=half-frame": "upstream_stream_truncated",
    "cut?at=1000": "upstream_stream_truncated",
    "cut?at=5&how=no-finish": "upstream_stream_truncated",
    "cut?at=1000&how=no-finish": "upstream_stream_truncated",
    "stall?at=4": "stream_idle_timeout",
    "garbage?at=3": "upstream_invalid_frame",
    "huge-frame": "upstream_frame_too_large",
    "endless?pace_ms=0": "stream_idle_timeout",
}
"""Scripts that fail once text has gone out, and the code inside the stream."""


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules.name)
@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("model", AFTER)
async def test_a_failure_after_the_commit_is_one_error_frame_and_the_terminator(
    model: str, rules: Rules, asked: bool
) -> None:
    caller = await ask(model, rules.name, asked)
    assert (caller.failure, caller.exchange.ended) == (None, True)
    output = read_stream(caller.out, rules, asked, passed_frames(caller.body))
    assert output.error is not None
    assert output.choices[0].text
    assert output.error.get("code", AFTER[model]) in (AFTER[model], "stream_error")


BEFORE = {
    "nobody": "invalid_value",
    "hello?chunk=0": "invalid_value",
    "error": "upstream_server_error",
    "error?status=429&retry_after=7": "upstream_rate_limited",
    "error?status=401": "upstream_auth_failed",
    "error?status=400&code=context_length_exceeded": "context_length_exceeded",
    "error?at=0": "upstream_server_error",
    "error?at=1&status=429": "upstream_rate_limited",
    "cut?at=1": "upstream_stream_truncated",
    "cut?at=0&how=rst": "upstream_stream_reset",
    "cut?at=0&how=end": "upstream_empty_response",
    "stall?at=1": "stream_idle_timeout",
    "empty": "upstream_empty_response",
    "redirect": "upstream_redirect_blocked",
    "garbage?at=1": "upstream_invalid_frame",
    "huge-frame?at=1": "upstream_frame_too_large",
}
"""Scripts that fail before any text has gone out, and the code that the caller is answered with."""


@pytest.mark.parametrize("dialect", FRONTENDS.dialects)
@pytest.mark.parametrize("model", BEFORE)
async def test_a_failure_before_the_commit_writes_nothing(model: str, dialect: str) -> None:
    caller = await ask(model, dialect)
    assert caller.out == b""
    assert caller.failure is not None
    assert caller.failure.code == BEFORE[model]


async def test_a_page_of_html_never_goes_out() -> None:
    caller = await ask("html")
    assert (caller.out, caller.failure is None) == (b"", False)
    assert caller.calls[0][1]["content-type"].startswith("text/html")


async def test_retry_after_is_read() -> None:
    caller = await ask("error?status=429&retry_after=7")
    assert caller.failure is not None
    assert caller.failure.retry_after_s == 7


PLAIN = ["hello", "echo", "lorem?words=500", "tools", "refusal", "json", "hello?finish=length", "huge-frame?bytes=9"]


@pytest.mark.parametrize("more", [{}, {"n": 3}, {"functions": [{"name": "clock"}]}])
@pytest.mark.parametrize("model", PLAIN)
async def test_plain_scripts_pass_as_they_are(model: str, more: dict[str, Any]) -> None:
    caller = await ask(model, **more)
    assert isinstance(caller.exchange, Exchange)
    assert caller.exchange.passes
    assert caller.out == caller.body
    filtered = await ask(model, asked=False, **more)
    assert isinstance(filtered.exchange, Exchange)
    assert filtered.exchange.passes
    assert b'"usage"' not in filtered.out


@pytest.mark.parametrize("model", ["reasoning", "hello?usage=finish", "hello?usage=every", "garbage", "error?at=3"])
async def test_what_is_not_openais_own_form_is_translated(model: str) -> None:
    caller = await ask(model)
    assert isinstance(caller.exchange, Exchange)
    assert not caller.exchange.passes


@pytest.mark.parametrize(
    ("word", "total", "source"),
    [
        ("own", 4, UsageSource.PROVIDER),
        ("finish", 4, UsageSource.PROVIDER),
        ("every", 4, UsageSource.PROVIDER),
        ("twice", 4, UsageSource.PROVIDER),
        ("zero", 0, UsageSource.PROVIDER),
        ("none", 1, UsageSource.ESTIMATE),
        ("absurd", 1, UsageSource.ESTIMATE),
    ],
)
async def test_usage_is_settled_once_wherever_it_stood(word: str, total: int, source: UsageSource) -> None:
    caller = await ask(f"hello?text=a b&usage={word}")
    settlement = caller.exchange._meter.settle()
    assert (settlement.usage.total_tokens, settlement.usage_source) == (total, source)


@pytest.mark.parametrize("rules", [rules for rules in RULES if not rules.is_bitseek], ids=lambda rules: rules.name)
@pytest.mark.parametrize("model", [*COMPLETE, *AFTER, *BEFORE, "html"])
async def test_whole_answers_in_every_dialect_that_has_them(model: str, rules: Rules) -> None:
    frontend = FRONTENDS.by_name[rules.name]
    reply = Reply(id=frontend.make_id(bytes(24)), now=lambda: 7, model=f"sim/{model}")
    caller = Caller(WholeExchange(PROVIDER, frontend, reply, Mode.TRANSLATE, Meter()))
    call = await simulator().open(request_for(model, stream=False), caller)
    if model.startswith(("stall", "endless")):
        await caller.heard(2)
        call.abort()
        caller.give_up(NO_ANSWER)
    else:
        await caller.over
    is_well = model in COMPLETE or model.startswith("huge-frame")
    assert (caller.failure is None) is is_well
    if is_well:
        output = read_whole(caller.out, rules, passed_frames(caller.body))
        assert output.choices[0].finish is not None
    else:
        assert caller.out == b""
