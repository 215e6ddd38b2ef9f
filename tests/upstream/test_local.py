"""The embedded model: real answers, and a child process that is restarted when it dies and never left behind."""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from streamweir.background import BackgroundTasks, Backoff, TaskEnd
from streamweir.core.errors import StreamweirError, UpstreamError
from streamweir.core.request import read_request
from streamweir.core.verdict import Verdict
from streamweir.frontends.base import Reply
from streamweir.frontends.chat.frontend import ChatFrontend
from streamweir.frontends.chat.table import DIALECTS
from streamweir.pipeline.exchange import Exchange, WholeExchange
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.plan import Mode, plan
from streamweir.pipeline.settlement import UsageSource
from streamweir.providers.base import Target, UpstreamRequest
from streamweir.providers.registry import native_wire, provider_named
from streamweir.upstream.base import Endpoint
from streamweir.upstream.http1 import Http1Upstream
from streamweir.upstream.local import (
    MODEL,
    LocalAddress,
    LocalExit,
    LocalModel,
    LocalUpstream,
    find_weights,
    why_unavailable,
)
from streamweir.upstream.local_child import SLOT_TOKENS, SLOTS
from support.embedded import needs_the_model, new_model, running_model

PROVIDER = provider_named("llamacpp")
NOWHERE = Path("weights.gguf")
IDLE = "import sys; sys.stdout.write('ready\\n'); sys.stdout.flush(); sys.stdin.read()"
"""A child that is ready at once, and does nothing."""
MUTE = "import sys; sys.stdin.read()"
"""A child that is never ready."""
DEAF = "import time; time.sleep(600)"
"""A child that does not notice that it should end."""


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def asked(text: str = "Name a river.", *, stream: bool = True, max_tokens: int = 6, **more: Any) -> UpstreamRequest:
    body = {"model": "m", "messages": [{"role": "user", "content": text}], "stream": stream, **more}
    return PROVIDER.build_request(read_request({**body, "max_tokens": max_tokens}), Target(model=MODEL))


class Answer:
    """A `Receiver` that keeps all, and hands the body on."""

    def __init__(self, feed: Callable[[bytes], object] = lambda _: None) -> None:
        loop = asyncio.get_running_loop()
        self.status: asyncio.Future[int] = loop.create_future()
        self.first: asyncio.Future[None] = loop.create_future()
        self.end: asyncio.Future[StreamweirError | None] = loop.create_future()
        self.body = b""
        self._feed = feed

    def head_received(self, status: int, _headers: Mapping[str, str], /) -> None:
        self.status.set_result(status)

    def body_received(self, data: bytes, /) -> None:
        self.body += data
        self._feed(data)
        if not self.first.done():
            self.first.set_result(None)

    def body_ended(self) -> None:
        self.end.set_result(None)

    def call_failed(self, error: StreamweirError, /) -> None:
        self.end.set_result(error)


async def answered(upstream: LocalUpstream | Http1Upstream, request: UpstreamRequest) -> Answer:
    answer = Answer()
    await upstream.open(request, answer)
    assert await answer.end is None
    return answer


@pytest.fixture(scope="module")
def address() -> Iterator[LocalAddress]:
    with running_model() as address:
        yield address


@needs_the_model
class TestAnswers:
    @pytest.mark.parametrize("dialect", DIALECTS)
    async def test_streamed(self, address: LocalAddress, dialect: str) -> None:
        form = DIALECTS[dialect]
        reply = Reply(id=form.id_format.make(bytes(24)), now=lambda: 7, model="local/smollm2", include_usage=True)
        meter = Meter()
        frontend = ChatFrontend(form)
        exchange = Exchange(PROVIDER, frontend, reply, plan(native_wire("llamacpp"), frontend, reply), meter)
        out: list[bytes] = []
        answer = Answer(lambda data: out.append(exchange.feed(data)))
        upstream = LocalUpstream(address)
        await upstream.open(asked(), answer)
        assert await answer.end is None
        out.append(exchange.finish())
        await upstream.close()
        settlement = meter.settle()
        assert b"".join(out).endswith(form.terminator)
        assert (settlement.verdict, settlement.usage_source) == (Verdict.LENGTH, UsageSource.PROVIDER)
        assert meter.record.delivered.getvalue()

    @pytest.mark.parametrize("dialect", [name for name, form in DIALECTS.items() if form.whole_object is not None])
    async def test_whole(self, address: LocalAddress, dialect: str) -> None:
        form = DIALECTS[dialect]
        reply = Reply(id=form.id_format.make(bytes(24)), now=lambda: 7, model="local/smollm2")
        upstream = LocalUpstream(address)
        answer = await answered(upstream, asked(stream=False))
        await upstream.close()
        exchange = WholeExchange(PROVIDER, ChatFrontend(form), reply, Mode.TRANSLATE, Meter())
        document = json.loads(exchange.feed(answer.body) + exchange.finish())
        assert document["choices"][0]["message"]["content"]
        assert document["usage"]["completion_tokens"] == 6

    async def test_the_key_is_needed(self, address: LocalAddress) -> None:
        upstream = Http1Upstream(Endpoint(base_url=address.base_url))
        assert await (await answered(upstream, asked())).status == 401
        await upstream.close()

    async def test_an_answer_that_is_not_needed_frees_its_slot(self, address: LocalAddress) -> None:
        upstream = LocalUpstream(address)
        answers = [Answer() for _ in range(SLOTS)]
        endless = asked("Count.", max_tokens=SLOT_TOKENS - 100, ignore_eos=True)
        calls = [await upstream.open(endless, answer) for answer in answers]
        for answer in answers:
            await answer.first
        for call in calls:
            call.abort()
        assert (await answered(upstream, asked())).body
        await upstream.close()

    async def test_a_prompt_that_is_too_long_is_the_callers_fault(self, address: LocalAddress) -> None:
        upstream = LocalUpstream(address)
        answer = await answered(upstream, asked("river " * SLOT_TOKENS))
        await upstream.close()
        error = PROVIDER.read_error(await answer.status, {}, answer.body)
        assert error.code == "context_length_exceeded"


@needs_the_model
class TestLife:
    async def test_a_request_may_come_first_and_a_killed_child_comes_back(self) -> None:
        exits: asyncio.Queue[LocalExit] = asyncio.Queue()
        model = new_model(exits.put_nowait)
        upstream = LocalUpstream(model)
        try:
            assert (await answered(upstream, asked())).body
            first = model.pid
            assert first is not None
            for harmless in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(first, harmless)
            assert (await answered(upstream, asked())).body
            assert model.pid == first
            os.kill(first, signal.SIGKILL)
            assert (await exits.get()).status == -signal.SIGKILL
            assert (await answered(upstream, asked())).body
            second = model.pid
            assert second not in (first, None)
        finally:
            await upstream.close()
            await model.stop()
        assert second is not None
        assert not is_running(second)
        assert exits.empty()
        with pytest.raises(UpstreamError, match="stopped"):
            await upstream.open(asked(), Answer())

    @pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for the end of a process that is not its child")
    def test_the_child_ends_with_its_parent(self) -> None:
        program = """
import asyncio
from support.embedded import new_model
async def main():
    model = new_model()
    await model.ready()
    print(model.pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with subprocess.Popen(python(program), stdout=subprocess.PIPE, env=environment) as parent:  # noqa: S603
            assert parent.stdout is not None
            child = os.pidfd_open(int(parent.stdout.readline()))
            parent.kill()
        assert select.select([child], [], [], 30)[0]
        os.close(child)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class TestKeeping:
    """With children that are no model: what happens around it."""

    async def test_one_that_cannot_start_is_tried_ever_later_and_requests_are_refused(self) -> None:
        exits: asyncio.Queue[LocalExit] = asyncio.Queue()
        command = python("import sys; sys.exit('no luck at 10.0.0.1')")
        model = LocalModel(NOWHERE, exited=exits.put_nowait, restart_s=0.001, max_restart_s=0.004, command=command)
        upstream = LocalUpstream(model)
        async with asyncio.timeout(60):  # an end that is not noticed is a failure, not a pause
            with pytest.raises(UpstreamError, match="cannot be started") as refused:
                await upstream.open(asked(), Answer())
            seen = [await exits.get() for _ in range(5)]
            await model.stop()
        assert refused.value.code == "upstream_connect_failed"
        assert [end.restart_s for end in seen] == [0.001, 0.002, 0.004, 0.004, 0.004]
        assert {(end.status, end.was_ready, end.stderr_tail) for end in seen} == {(1, False, "no luck at ***")}

    @pytest.mark.parametrize(
        ("max_restart_s", "pauses_s"),
        [
            pytest.param(0.002, [0.001, 0.001, 0.001], id="it was well for longer than the longest pause: soon"),
            pytest.param(60.0, [0.001, 0.002, 0.004], id="it was well for a moment: ever later"),
        ],
    )
    async def test_one_that_was_ready_and_dies(self, max_restart_s: float, pauses_s: list[float]) -> None:
        exits: asyncio.Queue[LocalExit] = asyncio.Queue()
        model = LocalModel(
            NOWHERE, exited=exits.put_nowait, restart_s=0.001, max_restart_s=max_restart_s, command=python(IDLE)
        )
        seen = []
        for _ in pauses_s:
            await model.ready()
            assert model.pid is not None
            os.kill(model.pid, signal.SIGKILL)
            seen.append(await exits.get())
        await model.stop()
        assert [end.restart_s for end in seen] == pauses_s
        assert all(end.was_ready for end in seen)

    async def test_one_that_never_gets_ready_is_started_again(self) -> None:
        exits: asyncio.Queue[LocalExit] = asyncio.Queue()
        model = LocalModel(NOWHERE, exited=exits.put_nowait, restart_s=0.001, load_s=0.01, command=python(MUTE))
        model.start()
        ends = [await exits.get() for _ in range(2)]
        await model.stop()
        assert [(end.status, end.was_ready) for end in ends] == [(-signal.SIGKILL, False)] * 2

    async def test_a_keeper_that_is_killed_is_started_again_with_one_child(self) -> None:
        ends: asyncio.Queue[TaskEnd] = asyncio.Queue()
        background = BackgroundTasks(ends.put_nowait, backoff=Backoff(first_s=0.0))
        model = LocalModel(NOWHERE, command=python(IDLE), background=background)
        await model.ready()
        first = model.pid
        assert first is not None
        (keeper,) = background.running
        assert keeper.task is not None
        keeper.task.cancel()
        assert (await ends.get()).name == "embedded model"
        await model.ready()
        assert model.pid not in (None, first)
        async with asyncio.timeout(60):
            while _is_there(first):
                await asyncio.sleep(0.01)
        await model.stop()
        assert not background.running

    async def test_a_program_that_does_not_exist(self) -> None:
        exits: asyncio.Queue[LocalExit] = asyncio.Queue()
        model = LocalModel(NOWHERE, exited=exits.put_nowait, command=["/no/such/program"])
        model.start()
        end = await exits.get()
        await model.stop()
        assert (end.status, end.was_ready) == (None, False)
        assert "No such file" in end.stderr_tail

    async def test_a_program_that_ends_before_it_could_be_given_anything(self) -> None:
        exits: asyncio.Queue[LocalExit] = asyncio.Queue()
        command = ["/bin/sh", "-c", "exec <&-; exit 3"]
        model = LocalModel(NOWHERE, exited=exits.put_nowait, restart_s=0.001, max_restart_s=0.004, command=command)
        async with asyncio.timeout(60):
            with pytest.raises(UpstreamError, match="cannot be started"):
                await model.ready()
            seen = [await exits.get() for _ in range(4)]
            await model.stop()
        assert {(end.status, end.was_ready) for end in seen} == {(3, False)}

    async def test_a_child_that_has_died_before_the_loop_had_its_turn(self, tmp_path: Path) -> None:
        """On a busy machine it lives and dies between its start and the loop's next turn."""
        lifeline = tmp_path / "open while it lives"
        os.mkfifo(lifeline)
        lives = os.open(lifeline, os.O_RDONLY | os.O_NONBLOCK)
        exits: asyncio.Queue[LocalExit] = asyncio.Queue()
        command = ["/bin/sh", "-c", 'exec 3>"$0"; exit 4', str(lifeline)]
        model = LocalModel(NOWHERE, exited=exits.put_nowait, restart_s=0.001, max_restart_s=0.004, command=command)
        try:
            model.start()
            await asyncio.sleep(0)  # the keeper starts it
            assert select.select([lives], [], [], 60)[0], "the child was not started"  # holds the loop up
            async with asyncio.timeout(60):
                ends = [await exits.get() for _ in range(3)]
                await model.stop()
        finally:
            os.close(lives)
        assert {(end.status, end.was_ready) for end in ends} == {(4, False)}

    async def test_waiting_ends(self) -> None:
        model = LocalModel(NOWHERE, command=python(MUTE))
        with pytest.raises(UpstreamError) as late:
            await LocalUpstream(model, start_s=0.01).open(asked(), Answer())
        assert late.value.code == "upstream_timeout"
        waiting = asyncio.create_task(model.ready())
        cancelled = asyncio.create_task(LocalUpstream(model).open(asked(), Answer()))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        await model.stop()
        with pytest.raises(UpstreamError, match="stopped"):
            await waiting

    async def test_a_child_that_does_not_end_is_killed(self) -> None:
        model = LocalModel(NOWHERE, stop_s=0.01, command=python(f"print('ready', flush=True); {DEAF}"))
        await model.ready()
        pid = model.pid
        await model.stop()
        assert pid is not None
        assert not is_running(pid)

    async def test_stopped_before_it_was_started(self) -> None:
        model = LocalModel(NOWHERE, command=python(IDLE))
        model.start()
        await model.stop()
        await model.stop()
        assert model.pid is None
        untouched = LocalModel(NOWHERE)
        await untouched.stop()
        untouched.start()
        assert untouched.pid is None

    async def test_the_child_is_not_shown_the_gateways_secrets(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("EXAMPLE_API_KEY", "hidden")
        exits: asyncio.Queue[LocalExit] = asyncio.Queue()
        command = python("import os, sys; sys.exit(' '.join(sorted(os.environ)))")
        model = LocalModel(NOWHERE, exited=exits.put_nowait, command=command)
        model.start()
        names = (await exits.get()).stderr_tail.split(" ")
        await model.stop()
        assert "PATH" in names
        assert "EXAMPLE_API_KEY" not in names
        assert model.address.api_key not in repr(model.address)


class TestAChildOfAnotherProcess:
    async def test_is_waited_for_while_it_loads(self) -> None:
        """It listens before it has loaded the model, and says so."""
        heads = [b"503 Service Unavailable", b"", b"200 OK", b"200 OK"]
        lines: list[bytes] = []

        async def answer(reader: StreamReader, writer: StreamWriter) -> None:
            lines.append((await reader.readuntil(b"\r\n\r\n")).split(b" HTTP")[0])
            if head := heads.pop(0):
                writer.write(b"HTTP/1.1 " + head + b"\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        address = LocalAddress(base_url=f"http://127.0.0.1:{port}/v1", api_key="k")
        upstream = LocalUpstream(address, poll_s=0.001)
        assert (await answered(upstream, asked())).body == b"{}"
        await upstream.close()
        server.close()
        await server.wait_closed()
        assert lines == [b"GET /health"] * 3 + [b"POST /v1/chat/completions"]

    async def test_that_does_not_come(self) -> None:
        model = LocalModel(NOWHERE)
        with pytest.raises(UpstreamError) as late:
            await LocalUpstream(model.address, start_s=0.01, poll_s=0.001).open(asked(), Answer())
        await model.stop()
        assert late.value.code == "upstream_timeout"


class TestInstallation:
    def test_what_is_missing_is_named(self) -> None:
        assert "no_such_engine" in str(why_unavailable(engine="no_such_engine"))
        assert "no-such-weights" in str(why_unavailable(engine="msgspec", weights="no_such_weights"))
        assert "simulator" in str(why_unavailable(engine="msgspec", weights="msgspec"))

    def test_weights_are_found_in_a_package_that_is_not_imported(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        package = tmp_path / "heavy_weights"
        package.mkdir()
        (package / "__init__.py").write_text("raise ImportError")
        (package / "model.gguf").touch()
        monkeypatch.syspath_prepend(tmp_path)
        assert find_weights("heavy_weights") == package / "model.gguf"
        assert why_unavailable(engine="msgspec", weights="heavy_weights") is None
