"""Every background task of a gateway is killed, and does its work again; one that cannot be kept alive shows."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, insert, select

from streamweir.background import BackgroundTasks, Backoff
from streamweir.server.accounting.intervals import Intervals
from streamweir.store.db.clock import now_ms
from streamweir.store.db.tables import instances, sessions
from streamweir.store.keys.keys import create_key
from streamweir.store.keys.spec import KeySpec
from support.accounting_gateway import MODEL, AccountingSetup, keeping
from support.answers import openai_stream
from support.script import stream

PACE = Intervals(tick_s=0.002, heartbeat_s=0.002, decision_s=60.0, apply_s=60.0, purge_after_s=0.0)
QUICK = Backoff(first_s=0.001, max_delay_s=0.004, healthy_s=0.01)
NEVER_HEALTHY = Backoff(first_s=0.001, max_delay_s=0.004, healthy_s=3600.0)
TASKS = [
    "alert check",
    "alert sending",
    "budget use",
    "content writer",
    "health report",
    "heartbeat",
    "key refresh",
    "lease renewal",
    "model lists",
    "progress",
    "purge",
    "recovery",
    "writer",
]
"""Of a gateway that keeps books, and is asked nothing. The live feed runs while somebody looks on (`test_api_feed`),
the embedded model where it is configured (`test_local`), workers under a supervisor (`test_supervisor`)."""


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.001)


def running(background: BackgroundTasks, name: str) -> bool:
    return any(kept.name == name and kept.task is not None for kept in background.running)


def kill(background: BackgroundTasks, name: str) -> None:
    (kept,) = [kept for kept in background.running if kept.name == name]
    assert kept.task is not None
    kept.task.cancel()


async def test_the_tasks_of_a_gateway(tmp_path: Path) -> None:
    async with keeping(stream(openai_stream()), tmp_path, MODEL, intervals=PACE) as setup:
        assert sorted(kept.name for kept in setup.gate.gateway.background.running) == TASKS


@pytest.mark.parametrize("name", TASKS)
async def test_after_any_kill_everything_continues(name: str, tmp_path: Path) -> None:
    async with keeping(stream(openai_stream()), tmp_path, MODEL, intervals=PACE) as setup:
        background = setup.gate.gateway.background
        background.backoff = QUICK
        kill(background, name)
        await until(lambda: background.ends[name] == 1 and all(kept.task for kept in background.running))
        await works(setup)
        text = setup.gate.gateway.metrics_text().decode()
        assert f'streamweir_background_task_ends_total{{task="{name}"}} 1.0' in text
        assert sorted(kept.name for kept in background.running) == TASKS


async def works(setup: AccountingSetup) -> None:
    """Keys are learned, requests are served and written down, and signs of life are given."""
    secret = (await setup.storage.store.write(new_key)).secret
    await until(lambda: setup.storage.accounting.directory.find(secret) is not None)
    assert (await setup.gate.ask(model="m", stream=True, key=secret)).status == 200
    (row,) = await setup.rows()
    assert (row.verdict, row.key_name) == ("completed", "learned")
    before = await setup.storage.store.read(seen_ms)
    async with asyncio.timeout(60):
        while await setup.storage.store.read(seen_ms) <= before:
            await asyncio.sleep(0.001)


def new_key(conn: Connection) -> Any:
    return create_key(conn, "default", KeySpec(name="learned"), actor="test", at_ms=now_ms())


def seen_ms(conn: Connection) -> int:
    seen: int = conn.execute(select(instances.c.seen_ms)).scalar_one()
    return seen


class Broken:
    told = None

    @staticmethod
    def progress() -> None:
        raise ZeroDivisionError


async def test_a_fault_in_writing_progress_stops_neither_heartbeats_nor_key_updates(tmp_path: Path) -> None:
    """Once it did: after a minute every key of the store was refused."""
    async with keeping(stream(openai_stream()), tmp_path, MODEL, intervals=PACE) as setup:
        background = setup.gate.gateway.background
        background.backoff = NEVER_HEALTHY
        setup.storage.accounting._open["r"] = Broken()  # type: ignore[assignment]
        await until(lambda: background.ends["progress"] >= 3)
        status, document = await ready(setup)
        assert (status, document["status"]) == (503, "failing")
        assert document["reasons"] == ["background tasks keep failing: progress"]
        del setup.storage.accounting._open["r"]
        background.backoff = QUICK
        await until(lambda: running(background, "progress"))
        kill(background, "progress")
        await until(lambda: setup.gate.gateway.readiness.is_ready)
        assert await ready(setup) == (200, {"status": "ok"})
        setup.storage.accounting._open["r"] = Broken()  # type: ignore[assignment]
        await works(setup)
        del setup.storage.accounting._open["r"]
        assert {name for name, ends in background.ends.items() if ends} == {"progress"}


async def ready(setup: AccountingSetup) -> tuple[int, Any]:
    async with await setup.gate.connect() as client:
        await client.send(b"GET /ready HTTP/1.1\r\nhost: gateway\r\n\r\n")
        reply = await client.response()
        return reply.status, json.loads(reply.body)


async def test_the_purge_continues_after_an_unexpected_error(tmp_path: Path) -> None:
    def rename(old: str, new: str) -> Callable[[Connection], object]:
        return lambda conn: conn.exec_driver_sql(f"ALTER TABLE {old} RENAME TO {new}")

    def left(conn: Connection) -> int:
        return len(conn.execute(select(sessions.c.digest)).all())

    async with keeping(stream(openai_stream()), tmp_path, MODEL, intervals=PACE) as setup:
        background, store = setup.gate.gateway.background, setup.storage.store
        background.backoff = QUICK
        await store.write(rename("sessions", "hidden"))
        kill(background, "purge")
        await until(lambda: background.ends["purge"] >= 2)  # it was killed, and met what nobody expected

        def mend(conn: Connection) -> None:
            rename("hidden", "sessions")(conn)
            conn.execute(insert(sessions).values(digest=b"d", created_ms=0, used_ms=0))

        await store.write(mend)
        async with asyncio.timeout(60):
            while await store.read(left):
                await asyncio.sleep(0.001)


async def test_a_journal_whose_thread_has_failed_makes_the_process_not_ready(tmp_path: Path) -> None:
    async with keeping(stream(openai_stream()), tmp_path, MODEL, intervals=PACE) as setup:
        setup.storage.journal.on_state("the journal has failed: restart this process")
        status, document = await ready(setup)
        assert (status, document["reasons"]) == (503, ["the journal has failed: restart this process"])
