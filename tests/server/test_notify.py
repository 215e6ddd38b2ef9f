"""Messages to a service manager: real Unix datagram sockets, real processes."""

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from io import StringIO
from pathlib import Path

import pytest

from streamweir.server.process.sd_notify import Notifier, take_notifier
from streamweir.server.telemetry.log import close_log, configure_log
from support.serve_process import served
from support.soak import part_of
from support.supervisor_process import running

WAIT_TIMEOUT_S = 30.0
SIM = '[[providers]]\nname = "sim"\nkind = "sim"\n'


class Manager:
    """The other end: systemd, as far as a service can tell."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.setblocking(False)

    async def hears(self) -> dict[str, str]:
        """The next state."""
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            data = await asyncio.get_running_loop().sock_recv(self.socket, 65536)
        return dict(line.split("=", 1) for line in data.decode().splitlines())

    async def hears_of(self, name: str) -> dict[str, str]:
        """The next state of that name; pings before it are left out."""
        while True:
            state = await self.hears()
            if name in state:
                return state
            assert state == {"WATCHDOG": "1"}, state


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    is_path = request.param == "path"
    found = Manager(str(tmp_path / "notify") if is_path else f"@streamweir-test-{os.getpid()}-{time.monotonic_ns()}")
    yield found
    found.socket.close()


def environ_of(manager: Manager, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": manager.address, **more}


async def test_each_state_is_one_datagram(manager: Manager) -> None:
    environ = environ_of(manager, PATH="/bin")
    notifier = take_notifier(environ)
    assert environ == {"PATH": "/bin"}, "no child speaks for the service"
    notifier.ready("Serving.")
    assert await manager.hears() == {"READY": "1", "STATUS": "Serving."}
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    notifier.reloading()
    state = await manager.hears()
    assert state["RELOADING"] == "1"
    assert before <= int(state["MONOTONIC_USEC"]) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    notifier.stopping()
    assert (await manager.hears())["STOPPING"] == "1"
    notifier.close()


async def test_pings_come_from_the_event_loop(manager: Manager) -> None:
    notifier = take_notifier(environ_of(manager, WATCHDOG_USEC="20000", WATCHDOG_PID=str(os.getpid())))
    notifier.ready()
    assert "READY" in await manager.hears()
    for _ in range(3):
        assert await manager.hears() == {"WATCHDOG": "1"}
    while True:  # none is waiting
        try:
            manager.socket.recv(4096)
        except BlockingIOError:
            break
    began = time.monotonic()
    while time.monotonic() - began < 0.1:  # the loop hangs, for five times the watchdog's time
        pass
    with pytest.raises(BlockingIOError):
        manager.socket.recv(4096)
    notifier.close()


@pytest.mark.parametrize(
    "more", [{}, {"WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": "0"}]
)
def test_without_a_watchdog_for_this_process_there_are_no_pings(tmp_path: Path, more: dict[str, str]) -> None:
    environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), **more}
    assert take_notifier(environ).watchdog_s is None
    assert environ == {}


@pytest.mark.parametrize("address", ["", "@", "vsock:2:1234", "relative"])
async def test_without_a_known_socket_nothing_is_sent(address: str) -> None:
    notifier = take_notifier({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000"})
    notifier.ready()
    notifier.stopping()
    assert notifier.watchdog_s is None
    notifier.close()


async def test_an_unreachable_service_manager_is_only_logged(tmp_path: Path) -> None:
    log = StringIO()
    configure_log("json", log)
    notifier = Notifier(str(tmp_path / "nobody"))
    notifier.ready()
    notifier.close()
    close_log()
    (event,) = [json.loads(line) for line in log.getvalue().splitlines()]
    assert (event["level"], event["event"]) == ("warning", "cannot notify the service manager")


async def test_a_state_that_does_not_fit_into_the_queue_is_sent_later(tmp_path: Path) -> None:
    manager = Manager(str(tmp_path / "notify"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.setblocking(False)
        count = 0
        with suppress(BlockingIOError):
            while True:
                other.sendto(b"WATCHDOG=1", manager.address)
                count += 1
    notifier = Notifier(manager.address)
    notifier.ready()
    notifier.stopping()
    for _ in range(count):
        assert await manager.hears() == {"WATCHDOG": "1"}
    assert "READY" in await manager.hears()
    assert "STOPPING" in await manager.hears()
    notifier.close()
    manager.socket.close()


@pytest.mark.diagonal
@pytest.mark.parametrize("workers", part_of(["1", "2"], 2))
async def test_the_program_notifies_when_it_serves_reloads_and_stops(
    manager: Manager, tmp_path: Path, workers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    monkeypatch.setenv("WATCHDOG_USEC", str(int(WAIT_TIMEOUT_S * 1_000_000)))
    async with served(tmp_path, SIM, "--workers", workers) as program:
        assert (await manager.hears())["READY"] == "1"
        assert await manager.hears() == {"WATCHDOG": "1"}
        program.signal(signal.SIGHUP)
        assert int((await manager.hears_of("RELOADING"))["MONOTONIC_USEC"]) > 0
        assert (await manager.hears_of("READY"))["STATUS"] == "Serving, configuration reloaded."
        (tmp_path / "streamweir.toml").write_text("[server")
        program.signal(signal.SIGHUP)
        await manager.hears_of("RELOADING")
        assert "is not valid" in (await manager.hears_of("READY"))["STATUS"]
        program.signal(signal.SIGTERM)
        assert (await manager.hears_of("STOPPING"))["STOPPING"] == "1"
        assert await program.status() == 0


def test_with_a_watchdog_a_worker_whose_loop_hangs_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = Manager(str(tmp_path / "notify"))
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    monkeypatch.setenv("WATCHDOG_USEC", "1000000")
    with running(tmp_path, 2) as workers_process:
        workers_process.start()
        pid = workers_process.pids()[1]
        os.kill(pid, signal.SIGSTOP)
        assert workers_process.wait("worker killed: its event loop did not answer", pid=pid)["number"] == 1
        assert workers_process.wait("worker serves", number=1)["pid"] != pid
        workers_process.signal(signal.SIGTERM)
        assert workers_process.end() == 0
    manager.socket.close()
