"""What must hold when the load is over: nothing is left open, nothing is lost, nothing was done twice, and it ends."""

import asyncio
import re
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress

from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Connection, select

from randomload.callers import Notes, secret_of
from randomload.rig import Rig
from streamweir.store.db.tables import instances, open_requests, requests
from support.deadlines import WAIT_TIMEOUT_S
from support.forked_processes import fork_server
from support.raw_client import CutShort
from support.serve_process import Program, get

STANDING = re.compile(r"_(info|limit|capacity|max|workers|state|ratio|successful|timestamp_seconds)$")
"""Gauges that say what there is, and not what is under way."""
NEVER = re.compile(r"_(background_task_ends|journal_entries_refused)_total$")
"""What must not have been counted: a task of the gateway that ended unasked, an entry that found no room."""
END_S = 60.0
FORESEEN = {"alert", "target ejected", "orphaned requests settled", "worker ended", "accounting: journal torn"}
"""What the log may say above `info`: providers fail, and processes are killed."""


async def judge(rig: Rig, program: Program) -> AsyncIterator[None]:
    await _nothing_is_under_way(program)
    await _nothing_is_open(rig)
    program.signal(signal.SIGTERM)
    async with asyncio.timeout(END_S):
        assert await program.status() == 0
    await _books_agree(rig)
    assert rig.notes.wrong == []
    yield


def odd_events(rig: Rig) -> list[Mapping[str, object]]:
    """Log lines that tell of a fault of the gateway's own."""
    return [
        event
        for event in rig.events
        if event.get("level") in ("error", "critical") or event["event"] == "text"
        if event["event"] not in FORESEEN
    ]


async def _nothing_is_under_way(program: Program) -> None:
    found: dict[str, float] = {}
    try:
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            while not found or any(found.values()):
                with suppress(ConnectionError, CutShort):
                    found = await _readings(program)
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"still under way: { {name: value for name, value in found.items() if value} }") from None


async def _nothing_is_open(rig: Rig) -> None:
    """While the gateway still runs: what a killed worker had open is settled by the one that replaces it, which may be
    starting now. A process that lives and has lost a settlement never settles it, and is found out here."""
    left: list[tuple[str, str, int | None]] = []

    def read(conn: Connection) -> list[tuple[str, str, int | None]]:
        columns = (open_requests.c.request_id, open_requests.c.instance, instances.c.stopped_ms)
        joined = open_requests.outerjoin(instances, instances.c.id == open_requests.c.instance)
        return [tuple(row) for row in conn.execute(select(*columns).select_from(joined))]

    try:
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            while left := await rig.store.read(read, timeout_s=WAIT_TIMEOUT_S):
                await asyncio.sleep(0.05)
    except TimeoutError:
        journals = sorted(path.name for path in (rig.folder / "data" / "journal").iterdir())
        raise AssertionError(f"still open (request, process, its end): {left}; journals: {journals}") from None


async def _readings(program: Program) -> dict[str, float]:
    """What must be 0 when nobody asks anything: all gauges, and the counters of what must never happen."""
    reply = await program.answer(get("/metrics", secret_of("operator")))
    assert reply.status == 200, reply.body
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(reply.body.decode()):
        if not family.name.startswith("streamweir_"):
            continue
        is_gauge = family.type == "gauge" and not STANDING.search(family.name)
        for sample in family.samples:
            if (is_gauge and sample.labels.get("state") != "idle") or NEVER.search(sample.name):
                found[f"{sample.name}{sample.labels or ''}"] = sample.value
    return found


async def _books_agree(rig: Rig) -> None:
    rows, open_ids = await _settled(rig)
    assert open_ids == []
    assert [id for id, count in Counter(id for id, _ in rows).items() if count != 1] == []
    verdicts = dict(rows)
    _each_has_its_row(rig.notes, verdicts)
    place = ("--data-dir", str(rig.folder / "data"), "--config", str(rig.folder / "streamweir.toml"))
    checked = await fork_server().run("credits", "check", *place)
    assert (checked.status, checked.output[:24]) == (0, "The ledger is consistent"), checked


async def _settled(rig: Rig) -> tuple[list[tuple[str, str]], list[str]]:
    def read(conn: Connection) -> tuple[list[tuple[str, str]], list[str]]:
        rows = [(row.request_id, row.verdict) for row in conn.execute(select(requests))]
        return rows, list(conn.scalars(select(open_requests.c.request_id)))

    return await rig.store.read(read, timeout_s=WAIT_TIMEOUT_S)


def _each_has_its_row(notes: Notes, verdicts: Mapping[str, str]) -> None:
    lost = [told for told in notes.told if told.id not in verdicts]
    assert lost == [], "acknowledged, and not in the books"
    whole: Callable[[str], bool] = {"completed", "length", "content_filter", "tool_calls"}.__contains__
    for told in notes.told:
        verdict = verdicts[told.id]
        is_killed = verdict == "orphaned" and told.life < notes.life
        assert not told.is_whole or whole(verdict) or is_killed, f"{verdict}: {told}"
