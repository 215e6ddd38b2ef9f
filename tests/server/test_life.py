"""How one process ends, and how it reads its configuration again: real signals, a tiny gateway on real sockets."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import StringIO
from typing import Any

import pytest

from streamweir.config.error import ConfigError, ConfigProblem
from streamweir.server.process.lifecycle import Reload, Stop, run
from streamweir.server.telemetry.log import close_log, configure_log
from support.deadlines import WAIT_TIMEOUT_S
from support.tiny_gateway import TinyGateway


class Life:
    """A gateway that is being run, and a stream on it."""

    def __init__(self, gateway: TinyGateway, port: int, log: StringIO) -> None:
        self.gateway = gateway
        self.stop = Stop()
        self._port = port
        self._log = log
        self.task: asyncio.Task[int] | None = None

    async def stream(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        assert (await reader.readline()).startswith(b"pid ")
        writer.write(b"stream\n")
        assert await reader.readline() == b"started\n"
        return reader, writer

    async def greeting(self) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        line = await reader.readline()
        writer.close()
        return line

    def signal(self, number: signal.Signals) -> None:
        assert signal.getsignal(number) is not signal.SIG_DFL, "else it would end the tests"
        os.kill(os.getpid(), number)

    async def called(self, name: str) -> None:
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            await self.gateway.called(name)

    async def status(self) -> int:
        assert self.task is not None
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            return await self.task

    def events(self) -> list[dict[str, Any]]:
        close_log()
        return [json.loads(line) for line in self._log.getvalue().splitlines()]


@asynccontextmanager
async def living(
    drain_s: float = 60.0,
    *,
    lame_duck_s: float = 0.0,
    reload: Reload | None = None,
    is_alone: bool = True,
    error_grace_s: float = 1.0,
    close_s: float = 5.0,
) -> AsyncIterator[Life]:
    log = StringIO()
    configure_log("json", log)
    gateway = TinyGateway(drain_s, lame_duck_s)
    listener = socket.create_server(("127.0.0.1", 0))
    await gateway.listen(listener)
    life = Life(gateway, listener.getsockname()[1], log)
    running = run(
        gateway, reload=reload, stop=life.stop, is_alone=is_alone, error_grace_s=error_grace_s, close_s=close_s
    )
    life.task = asyncio.create_task(running)
    await asyncio.sleep(0)
    try:
        yield life
    finally:
        life.stop.force()
        await life.status()
        gateway.is_stuck = False
        await gateway.close(0)
        close_log()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_first_signal_lets_streams_end(number: signal.Signals) -> None:
    async with living() as life:
        _, writer = await life.stream()
        life.signal(number)
        await life.called("stop_admitting")
        assert await life.greeting() == b"busy\n"
        assert life.gateway.calls == ["stop_admitting"]
        writer.close()
        assert await life.status() == 0
        assert life.gateway.calls == ["stop_admitting", "drained", "close 1", "stop_listening", "closed"]


async def test_without_streams_the_end_comes_at_once() -> None:
    async with living() as life:
        life.signal(signal.SIGTERM)
        assert await life.status() == 0
        assert [event["event"] for event in life.events()] == ["stopping", "stopped"]


LAME_DUCK = ["begin_lame_duck", "unused 60"]


async def test_sigterm_lets_requests_in_until_the_lame_duck_is_over() -> None:
    async with living(lame_duck_s=60) as life:
        life.signal(signal.SIGTERM)
        await life.called("unused 60")
        assert (await life.greeting()).startswith(b"pid "), "it still serves"
        assert life.gateway.calls == LAME_DUCK
        life.gateway.is_unused.set()  # nobody is connected any more
        assert await life.status() == 0
        assert life.gateway.calls[:4] == [*LAME_DUCK, "stop_admitting", "drained"]
        assert [event["event"] for event in life.events()] == ["stopping", "draining", "stopped"]


async def test_the_lame_duck_ends_by_itself() -> None:
    async with living(lame_duck_s=0.01) as life:
        life.signal(signal.SIGTERM)
        assert await life.status() == 0
        assert life.gateway.calls[:3] == ["begin_lame_duck", "unused 0.01", "stop_admitting"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=["Ctrl-C", "closed terminal"])
async def test_at_a_terminal_there_is_no_lame_duck(number: signal.Signals) -> None:
    async with living(lame_duck_s=60) as life:
        life.signal(number)
        assert await life.status() == 0
        assert life.gateway.calls[0] == "stop_admitting"


async def test_a_second_signal_ends_the_lame_duck_and_every_stream() -> None:
    async with living(lame_duck_s=60) as life:
        reader, writer = await life.stream()
        life.signal(signal.SIGTERM)
        await life.called("begin_lame_duck")
        life.signal(signal.SIGTERM)
        assert await reader.readline() == b"error server_shutting_down\n"
        assert await life.status() == 1
        writer.close()


async def test_under_a_supervisor_a_wish_without_a_lame_duck_ends_one_that_has_begun() -> None:
    async with living(lame_duck_s=60, is_alone=False) as life:
        life.signal(signal.SIGTERM)
        await life.called("begin_lame_duck")
        life.stop.request_stop(lame_duck=False)
        assert await life.status() == 0


async def test_streams_left_after_the_drain_get_an_error() -> None:
    async with living(drain_s=0.01) as life:
        reader, writer = await life.stream()
        life.signal(signal.SIGTERM)
        assert await reader.readline() == b"error server_shutting_down\n"
        assert await reader.read() == b""
        assert await life.status() == 0, "that is how a drain ends"
        assert life.gateway.calls[:3] == ["stop_admitting", "end_streams server_shutting_down", "drained"]
        writer.close()


async def test_a_stream_that_does_not_end_with_its_error_is_closed_with_the_rest() -> None:
    async with living(drain_s=0.01, error_grace_s=0.01) as life:
        reader, writer = await life.stream()
        life.gateway.end_streams = lambda _: None  # type: ignore[method-assign]
        life.signal(signal.SIGTERM)
        assert await reader.read() == b""
        assert await life.status() == 0
        writer.close()


async def test_the_second_signal_ends_every_stream_now() -> None:
    async with living() as life:
        streams = [await life.stream() for _ in range(10)]
        life.signal(signal.SIGINT)
        await life.called("stop_admitting")
        life.signal(signal.SIGTERM)
        for reader, writer in streams:
            assert await reader.readline() == b"error server_shutting_down\n"
            assert await reader.read() == b""
            writer.close()
        assert await life.status() == 1
        assert life.gateway.calls[-3:] == ["close 0", "stop_listening", "closed"]


async def test_the_second_signal_also_cuts_short_the_last_steps() -> None:
    async with living(close_s=3600) as life:
        life.gateway.is_stuck = True
        life.signal(signal.SIGTERM)
        await life.called("close 1")
        life.signal(signal.SIGTERM)
        assert await life.status() == 1


async def test_a_close_that_does_not_come_to_an_end_is_left() -> None:
    async with living(close_s=0.01) as life:
        life.gateway.is_stuck = True
        life.signal(signal.SIGTERM)
        assert await life.status() == 1


async def test_a_fault_while_stopping_is_logged_and_shows_in_the_status() -> None:
    async with living() as life:
        life.gateway.fault = LookupError("a bug")
        life.signal(signal.SIGTERM)
        assert await life.status() == 1
        assert life.gateway.calls[-1] == "closed"
        (fault,) = (event for event in life.events() if event["level"] == "error")
        assert (fault["event"], fault["step"]) == ("fault while stopping", "drain")
        assert "LookupError: a bug" in fault["exception"]


async def test_under_a_supervisor_any_number_of_signals_counts_as_one() -> None:
    async with living(is_alone=False) as life:
        reader, writer = await life.stream()
        for _ in range(3):
            life.signal(signal.SIGTERM)
            await life.called("stop_admitting")
        await life.greeting()
        assert life.gateway.calls == ["stop_admitting"]
        life.stop.force()
        assert await reader.readline() == b"error server_shutting_down\n"
        assert await life.status() == 1
        writer.close()


async def test_the_handlers_are_removed_after_the_end() -> None:
    async with living() as life:
        life.signal(signal.SIGTERM)
        await life.status()
        loop = asyncio.get_running_loop()
        assert not any(loop.remove_signal_handler(number) for number in (signal.SIGTERM, signal.SIGHUP))


async def test_a_hangup_reads_the_configuration_again() -> None:
    calls: asyncio.Queue[str] = asyncio.Queue()
    async with living(reload=lambda: calls.put("reload")) as life, asyncio.timeout(WAIT_TIMEOUT_S):
        for _ in range(2):
            life.signal(signal.SIGHUP)
            assert await calls.get() == "reload"
        assert life.gateway.calls == []
        assert [event["event"] for event in life.events()] == ["configuration reloaded"] * 2


async def test_a_broken_configuration_changes_nothing_and_is_reported() -> None:
    called = asyncio.Event()

    async def reload() -> None:
        called.set()
        more = [ConfigProblem("server.dialect", "unknown")]
        raise ConfigError("server.timeouts.idle_s", 'expected a number, got "abc"', file="streamweir.toml", more=more)

    async with living(reload=reload) as life, asyncio.timeout(WAIT_TIMEOUT_S):
        life.signal(signal.SIGHUP)
        await called.wait()
        assert life.gateway.calls == []
        (event,) = life.events()
        assert event["level"] == "error"
        assert event["reason"] == (
            'streamweir.toml: server.timeouts.idle_s: expected a number, got "abc"; '
            "streamweir.toml: server.dialect: unknown"
        )


async def test_a_hangup_while_stopping_is_ignored() -> None:
    calls: list[str] = []

    async def reload() -> None:
        calls.append("reload")

    async with living(reload=reload) as life:
        _, writer = await life.stream()
        life.signal(signal.SIGTERM)
        await life.called("stop_admitting")
        life.signal(signal.SIGHUP)
        await life.greeting()
        writer.close()
        assert await life.status() == 0
        assert calls == []


async def test_hangups_during_a_reload_lead_to_one_more_and_the_end_does_not_wait_for_it() -> None:
    calls: asyncio.Queue[str] = asyncio.Queue()
    go_on = asyncio.Event()

    async def reload() -> None:
        await calls.put("reload")
        await go_on.wait()

    async with living(reload=reload) as life, asyncio.timeout(WAIT_TIMEOUT_S):
        life.signal(signal.SIGHUP)
        assert await calls.get() == "reload"
        for _ in range(3):
            life.signal(signal.SIGHUP)
        await life.greeting()  # the signals have been handled
        assert calls.empty()
        go_on.set()
        assert await calls.get() == "reload"
        go_on.clear()
        life.signal(signal.SIGHUP)
        assert await calls.get() == "reload", "none of those before is left"
        life.signal(signal.SIGTERM)
        assert await life.status() == 0
        told = [event["event"] for event in life.events()]
        assert told.count("configuration reloaded") == 2
        assert told.count("configuration not reloaded: the process is stopping") == 1


async def test_without_a_configuration_to_read_a_hangup_is_the_end() -> None:
    async with living() as life:
        life.signal(signal.SIGHUP)
        assert await life.status() == 0
