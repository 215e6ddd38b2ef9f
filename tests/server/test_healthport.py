"""Probes on a thread of their own: answered while the event loop is blocked, with 503 if that takes too long."""

import asyncio
import json
import socket
import threading
from contextlib import closing
from pathlib import Path

import pytest

from streamweir.server.control.health_port import HealthPort
from streamweir.server.control.readiness import Readiness
from support.deadlines import WAIT_TIMEOUT_S
from support.gateway import gateway
from support.serve_process import served


def ask(address: tuple[str, int], request: str = "GET /health") -> tuple[int, bytes]:
    """From any thread, without an event loop."""
    with socket.create_connection(address, timeout=WAIT_TIMEOUT_S) as sock:
        sock.sendall(f"{request} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
        data = b""
        while more := sock.recv(4096):
            data += more
    head, _, body = data.partition(b"\r\n\r\n")
    assert b"connection: close" in head
    return int(head.split()[1]), body


class Probed:
    """A port, and what it is to say."""

    def __init__(self) -> None:
        self.readiness = Readiness()
        self.idle_s = 0.0
        self.port = HealthPort(self.readiness, lambda: self.idle_s, hung_s=5.0, request_timeout_s=WAIT_TIMEOUT_S)
        listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = listener.getsockname()
        self.port.start(listener)

    def close(self) -> None:
        self.port.stop()


def test_it_shows_the_status_of_the_process() -> None:
    with closing(Probed()) as probed:
        assert ask(probed.address) == (200, b'{"status":"ok"}')
        assert ask(probed.address, "GET /ready") == (200, b'{"status":"ok"}')
        assert ask(probed.address, "HEAD /ready?x=1") == (200, b"")
        probed.readiness.set("purge", "purge does not run")
        status, body = ask(probed.address, "GET /ready")
        assert (status, json.loads(body)["reasons"]) == (503, ["purge does not run"])
        probed.readiness.set("purge", None)
        probed.readiness.is_draining = True
        assert ask(probed.address, "GET /ready") == (503, b'{"status":"draining"}')
        assert ask(probed.address)[0] == 200


def test_a_loop_that_does_not_run_is_not_healthy() -> None:
    with closing(Probed()) as probed:
        probed.idle_s = 4.9
        assert ask(probed.address)[0] == 200
        probed.idle_s = 6.0
        status, body = ask(probed.address)
        assert status == 503
        assert b"has not run for 6 s" in body


@pytest.mark.parametrize(("request_", "status"), [("GET /metrics", 404), ("POST /health", 400), ("GARBAGE", 400)])
def test_nothing_else_is_answered(request_: str, status: int) -> None:
    with closing(Probed()) as probed:
        assert ask(probed.address, request_)[0] == status


def test_connections_without_a_request_make_room_for_a_probe() -> None:
    with closing(Probed()) as probed:
        silent = [socket.create_connection(probed.address, timeout=WAIT_TIMEOUT_S) for _ in range(100)]
        for sock in silent[-10:]:
            sock.sendall(b"GET /he")
        for _ in range(10):
            assert ask(probed.address) == (200, b'{"status":"ok"}')
        silent[-1].sendall(b"alth HTTP/1.1\r\n\r\n")
        assert silent[-1].recv(12) == b"HTTP/1.1 200"
        for sock in silent:
            sock.close()


async def test_the_gateways_loop_may_be_blocked() -> None:
    async with gateway("") as gate:
        listener = socket.create_server(("127.0.0.1", 0))
        address = listener.getsockname()
        gate.gateway.listen_for_probes(listener)
        answered = threading.Event()
        found: list[int] = []

        def probe() -> None:
            found.extend(ask(address, request)[0] for request in ("GET /health", "GET /ready"))
            answered.set()

        threading.Thread(target=probe).start()
        assert answered.wait(WAIT_TIMEOUT_S)  # this is the gateway's own loop, and it does nothing else meanwhile
        assert found == [200, 200]


@pytest.mark.parametrize("workers", [1, 2])
async def test_the_setting(tmp_path: Path, workers: int) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = free.getsockname()
    toml = f'[server]\nhealth_listen = "{address[0]}:{address[1]}"\n[[providers]]\nname = "sim"\nkind = "sim"\n'
    toml += '[store]\nurl = "none"\n'
    async with served(tmp_path, toml, "--workers", str(workers)):
        assert await asyncio.to_thread(ask, address, "GET /ready") == (200, b'{"status":"ok"}')
