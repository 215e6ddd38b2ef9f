"""Which node had a request: its name in the request log, in what runs, and on every line of the log."""

import socket
from pathlib import Path

import pytest

from streamweir.store.requests.live import LiveInstances, open_of
from streamweir.store.requests.requests import RequestFilter, list_requests
from support.gateway import chat_request, gateway, until
from support.serve_process import served

SIM = '[[providers]]\nname = "sim"\nkind = "sim"\n'
STORE = '[store]\nurl = "sqlite:///streamweir.db"\n'


@pytest.mark.parametrize("named", ["web-1", None])
async def test_rows_and_what_runs_name_the_node(named: str | None, tmp_path: Path) -> None:
    server = f'[server]\nnode = "{named}"\n' if named is not None else ""
    name = named or socket.gethostname()
    async with gateway(f"{server}{STORE}{SIM}", data_dir=tmp_path) as gate:
        storage = gate.gateway.storage
        assert storage is not None
        assert storage.accounting.writer is not None
        async with await gate.connect() as client:
            await client.send(chat_request(model="sim/stall", stream=True))
            await until(lambda: gate.gateway.open_streams == 1)
            await client.head()
            await storage.accounting.writer.flush(30.0)
            alive = LiveInstances(own="another", now_ms=0, silent_ms=0)
            running = await storage.store.read(lambda conn: open_of(conn, None, 10, alive))
            assert [each.node for each in running] == [name]
        await gate.settled()
        await storage.accounting.writer.flush(30.0)
        page = await storage.store.read(lambda conn: list_requests(conn, RequestFilter()))
        assert [row.node for row in page.rows] == [name]


async def test_every_line_of_the_log_names_the_node(tmp_path: Path) -> None:
    async with served(tmp_path, f'[server]\nnode = "web-1"\n{SIM}', "--workers", "2") as program:
        assert (await program.answer(chat_request(model="sim/hello"))).status == 200
        await program.logged("request", status=200)
        assert {event["node"] for event in program.events} == {"web-1"}
