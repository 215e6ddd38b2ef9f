"""A real HAProxy before some addresses, which it checks each second at `/ready` and never tries twice.

    with HaProxy({"node1": ("127.0.0.1", 20001)}) as balancer:
        await balancer.sees(node1=True)
        client = await RawClient.open(balancer.address)

The program that `STREAMWEIR_HAPROXY` names, else the system's; without one, `why_absent` says so.
"""

import asyncio
import csv
import os
import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.deadlines import WAIT_TIMEOUT_S
from support.server_process import OwnServer
from support.valkey import free_port

_CONFIG = """
global
  nbthread 1
  maxconn 2000
  stats socket {socket} mode 600 level user

defaults
  mode http
  retries 0
  timeout connect 5s
  timeout client 60s
  timeout server 60s

frontend callers
  bind 127.0.0.1:{port} backlog 2048
  default_backend nodes

backend nodes
  balance roundrobin
  option httpchk GET /ready
  default-server check inter 1s fall 3 rise 2
"""


def program() -> str | None:
    named = os.environ.get("STREAMWEIR_HAPROXY")
    return named or shutil.which("haproxy", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))


def why_absent() -> str | None:
    return None if program() else "there is no HAProxy: install it, or name one in STREAMWEIR_HAPROXY"


class HaProxy(OwnServer):
    """Not started; use it in a `with`."""

    def __init__(self, nodes: Mapping[str, tuple[str, int]]) -> None:
        super().__init__("haproxy")
        self.address = ("127.0.0.1", free_port())
        servers = "".join(f"  server {name} {host}:{port}\n" for name, (host, port) in nodes.items())
        config = _CONFIG.format(socket=self.socket_path(), port=self.address[1])
        (self.folder / "haproxy.cfg").write_text(config + servers)

    def command(self) -> Sequence[str]:
        found = program()
        assert found is not None, why_absent()
        return [found, "-db", "-f", str(self.folder / "haproxy.cfg")]

    def socket_path(self) -> Path:
        return self.folder / "stats.sock"

    async def sees(self, **are_up: bool) -> None:
        """Until it has found out which nodes are up."""
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            while True:
                states = await asyncio.to_thread(self._states)
                if all(states[name].startswith("UP") is is_up for name, is_up in are_up.items()):
                    return
                await asyncio.sleep(0.05)  # nothing else tells

    def _states(self) -> dict[str, str]:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(WAIT_TIMEOUT_S)
            client.connect(str(self.socket_path()))
            client.sendall(b"show stat\n")
            text = b""
            while data := client.recv(65536):
                text += data
        rows = csv.DictReader(text.decode().removeprefix("# ").splitlines())
        return {row["svname"]: row["status"] for row in rows if row["pxname"] == "nodes"}
