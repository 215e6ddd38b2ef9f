"""A real Prometheus, where there is one: its checker of rules, and a server that reads gateways of tests.

The programs are in the folder that `STREAMWEIR_PROMETHEUS` names, else the system's; without them `why_absent` says so.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2

from support.deadlines import WAIT_TIMEOUT_S
from support.valkey import free_port


def why_absent() -> str | None:
    """None: it is there."""
    if shutil.which("promtool", path=_path()) and shutil.which("prometheus", path=_path()):
        return None
    return "there is no Prometheus: install it (Debian: prometheus), or name its folder in STREAMWEIR_PROMETHEUS"


def promtool() -> str:
    return _program("promtool")


def _program(name: str) -> str:
    found = shutil.which(name, path=_path())
    assert found is not None
    return found


def _path() -> str:
    return os.environ.get("STREAMWEIR_PROMETHEUS") or os.environ.get("PATH", "")


class Prometheus:
    """Its HTTP API."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._client = httpx2.AsyncClient(base_url=address, timeout=WAIT_TIMEOUT_S)

    async def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of now. ValueError: it refuses the query."""
        reply = await self._client.post("/api/v1/query", data={"query": expression})
        document = reply.json()
        if document["status"] != "success":
            raise ValueError(document["error"])
        found: list[dict[str, Any]] = document["data"]["result"]
        return found

    async def holds(self, expression: str) -> None:
        """Waits until the query has a result."""
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            while not await self.query(expression):
                await asyncio.sleep(0.1)

    async def rules(self) -> list[dict[str, Any]]:
        groups = (await self._client.get("/api/v1/rules")).json()["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    async def close(self) -> None:
        await self._client.aclose()


@asynccontextmanager
async def prometheus_of(folder: Path, config: str) -> AsyncIterator[Prometheus]:
    """A server with this configuration, with its data in the folder."""
    file = folder / "prometheus.yaml"
    file.write_text(config)
    address = f"127.0.0.1:{free_port()}"
    process = await asyncio.create_subprocess_exec(
        _program("prometheus"),
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address={address}",
        "--log.level=error",
    )
    server = Prometheus(f"http://{address}")
    try:
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            while not await _is_ready(server):
                assert process.returncode is None, "it has ended"
                await asyncio.sleep(0.05)
        yield server
    finally:
        await server.close()
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _is_ready(server: Prometheus) -> bool:
    try:
        await server.query("vector(1)")
    except (httpx2.TransportError, ValueError):
        return False
    return True
