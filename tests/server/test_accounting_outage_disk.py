"""The disk is full, or cannot be written, or another process has locked the SQLite file (G7, G8).

If the journal cannot be written, no new request is admitted; running ones are served to the end, and their settlements
are written when there is space again. If only the database cannot be written, callers do not notice. Neither needs a
restart, nothing is lost, and every sum is that of its rows.
"""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from streamweir.store.db.clock import now_ms
from streamweir.store.db.engine import open_store
from streamweir.store.ledger.check import check_sums
from streamweir.store.requests.requests import RequestFilter, list_requests
from support.accounting_gateway import MILLI, MODEL, PROMPT, answers, keeping, max_prompt, set_clock
from support.answers import TEXTS
from support.deadlines import PROGRAM_TIMEOUT_S
from support.fleet import fleet, metric
from support.gateway import Gate, chat_request, text_of
from support.heartbeat import heartbeat
from support.outage import COST, HELD, SHORT_S, TOKENS, Stage, allow_database, ask, assert_unavailable
from support.program_deadlines import LONG_INTERVALS
from support.raw_client import Reply
from support.serve_process import Program, begin, get, served_before

SMALL_DISK_BYTES = 8 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_BYTES}", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:  # noqa: S603
        pytest.skip("a small disk cannot be mounted here: that needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S603, S607


def fill(path: Path) -> None:
    """To the last byte."""
    with path.open("ab", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))


async def ready(gate: Gate) -> tuple[int, list[str]]:
    async with await gate.connect() as client:
        await client.send(get("/ready"))
        reply = await client.response()
    return reply.status, json.loads(reply.body).get("reasons", [])


async def until_ready(gate: Gate) -> None:
    """Though nobody asks for anything else."""
    async with asyncio.timeout(PROGRAM_TIMEOUT_S):
        while (await ready(gate))[0] != 200:
            await asyncio.sleep(0.01)


async def test_g7_a_node_whose_disk_was_full_is_ready_again_by_itself(small_disk: Path) -> None:
    """No balancer sends it a request by which it could find out."""
    filler = small_disk / "filler"
    async with fleet(answers(is_streamed=True), small_disk) as nodes:
        gate = nodes.setups[0].gate
        assert await ready(gate) == (200, [])
        async with asyncio.timeout(PROGRAM_TIMEOUT_S):
            while (reply := await ask(gate)).status == 200:
                fill(filler)
        assert_unavailable(reply)
        await gate.vacated()
        for _ in range(5):
            assert await ready(gate) == (503, ["the journal cannot be written: No space left on device"])
        filler.unlink()
        await until_ready(gate)
        assert (await ask(gate)).status == 200


async def test_g7_a_full_disk(small_disk: Path) -> None:
    stage = Stage()
    filler = small_disk / "filler"
    async with fleet(stage.script, small_disk) as nodes:
        (setup,) = nodes.setups
        gate = setup.gate
        secret = await nodes.new_key(budget_nano=100 * HELD)
        async with await gate.connect() as client:
            running = await begin(client, key=secret, model="m", max_tokens=TOKENS)
            async with asyncio.timeout(PROGRAM_TIMEOUT_S):
                while (reply := await ask(gate, secret)).status == 200:
                    fill(filler)
            assert_unavailable(reply)
            asked = len(nodes.up.requests)
            async with heartbeat() as heart:
                for _ in range(5):
                    assert_unavailable(await ask(gate))
                    assert_unavailable(await ask(gate, secret))
                    await asyncio.sleep(0.02)
                assert heart.beats > 1
            assert len(nodes.up.requests) == asked
            assert await ready(gate) == (503, ["the journal cannot be written: No space left on device"])
            stage.go_on.set()
            assert text_of((await running.rest()).body) == "".join(TEXTS)
        filler.unlink()
        await until_ready(gate)
        assert (await ask(gate, secret)).status == 200
        await gate.vacated()
        rows = await nodes.rows()
        completed = [row for row in rows if row.verdict == "completed"]
        assert sorted(row.request_id for row in completed) == sorted(each.id for each in gate.records if each.attempts)
        assert len(completed) == len(nodes.up.requests)
        assert all(row.error == "ledger_unavailable" and row.price is None for row in rows if row not in completed)
        assert await nodes.spent_and_held() == (sum(row.price or 0 for row in completed), 0)


def may_write(pid: int, is_allowed: bool) -> None:
    """Whether a process may write to files at all: what it writes beyond their first byte fails as on a full disk."""
    size = resource.RLIM_INFINITY if is_allowed else 1
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


async def answer(program: Program) -> Reply:
    return await program.answer(chat_request(model="m", stream=True, max_tokens=TOKENS))


async def test_g7_a_program_whose_files_may_not_grow(tmp_path: Path) -> None:
    stage = Stage()
    async with served_before(stage.script, tmp_path, MODEL) as (program, up):
        async with await program.connect() as client:
            running = await begin(client, model="m", max_tokens=TOKENS)
            assert (await answer(program)).status == 200
            may_write(program.pid, is_allowed=False)
            for _ in range(5):
                assert_unavailable(await answer(program))
            stage.go_on.set()
            assert text_of((await running.rest()).body) == "".join(TEXTS)
            may_write(program.pid, is_allowed=True)
        async with asyncio.timeout(PROGRAM_TIMEOUT_S):
            while (reply := await answer(program)).status != 200:
                assert_unavailable(reply)
                await asyncio.sleep(0.01)
        program.signal(signal.SIGTERM)
        assert await program.status() == 0
        assert len(up.requests) == 3
        said = [event["event"] for event in program.events if event["event"].startswith("accounting:")]
        assert "accounting: settled without hold" not in said
        assert "accounting: journal failing" in said
        assert "accounting: journal recovered" in said
    store = await open_store("sqlite:///streamweir.db", tmp_path / "data")
    try:
        assert (await store.read(check_sums)).faults == []
        page = await store.read(lambda conn: list_requests(conn, RequestFilter(), limit=1000))
        assert [row.verdict for row in page.rows].count("completed") == 3
    finally:
        await store.close()


_LOCKER = """
import sqlite3, sys
conn = sqlite3.connect(sys.argv[1], isolation_level=None)
conn.execute("PRAGMA busy_timeout=30000")
conn.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
conn.execute("ROLLBACK")
"""


@contextmanager
def locked_elsewhere(path: Path) -> Iterator[None]:
    """By another process, as long as the block lasts."""
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", _LOCKER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"locked\n"
        yield
    finally:
        process.stdin.close()
        process.wait(PROGRAM_TIMEOUT_S)
        process.stdout.close()


async def test_g8_the_database_is_locked_by_another_process(tmp_path: Path) -> None:
    """Who is known goes on. Whose account nobody has looked at yet is refused in time: what others wrote may be his."""
    stage = Stage()
    async with fleet(stage.script, tmp_path, intervals=LONG_INTERVALS) as nodes:
        (setup,) = nodes.setups
        gate = setup.gate
        known = await nodes.new_key("known", budget_nano=2 * HELD + 3 * COST)
        unknown = await nodes.new_key("unknown", budget_nano=HELD)
        async with await gate.connect() as client:
            running = await begin(client, key=known, model="m", max_tokens=TOKENS)
            with locked_elsewhere(tmp_path / "streamweir.db"):
                allow_database(nodes.setups, SHORT_S)
                for _ in range(20):
                    assert (await ask(gate)).status == 200
                served = [(await ask(gate, known)).status for _ in range(6)]
                assert served == [200] * 4 + [429] * 2
                async with heartbeat() as heart:
                    assert_unavailable(await ask(gate, unknown))
                    assert heart.beats > 1, "the loop goes on while the request waits"
                assert metric(gate, "journal_entries_waiting") >= 50
                assert metric(gate, "journal_oldest_seconds") > 0
                stage.go_on.set()
                assert text_of((await running.rest()).body) == "".join(TEXTS)
        allow_database(nodes.setups, PROGRAM_TIMEOUT_S)
        await gate.vacated()
        rows = await nodes.rows()
        assert sorted(row.request_id for row in rows) == sorted(record.id for record in gate.records)
        assert metric(gate, "journal_entries_waiting") == 0
        assert (await ask(gate, unknown)).status == 200


async def test_a_day_that_ends_while_the_database_is_locked_begins_with_nothing_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is decided in memory, and written when the database can be: there is nothing to look up in it."""
    async with keeping(answers(is_streamed=False, usage=(PROMPT, 9)), tmp_path, intervals=LONG_INTERVALS) as setup:
        held = (max_prompt(model="m", max_tokens=9) + 9) * MILLI
        secret = await setup.new_key(budget_nano=held + (PROMPT + 9) * MILLI, budget_period="day")

        async def status() -> int:
            return (await setup.gate.ask(model="m", key=secret, max_tokens=9)).status

        assert await status() == 200
        set_clock(monkeypatch, now_ms() + 86_400_000)
        with locked_elsewhere(tmp_path / "streamweir.db"):
            assert [await status() for _ in range(3)] == [200, 200, 429]
        assert await status() == 429
        await setup.gate.settled(5)
        assert await setup.spent_and_held() == (3 * (PROMPT + 9) * MILLI, 0)
