"""Processes that are killed or stopped, and what the next one finds in the ledger: docs/spec/failures.md G1, G2 and G3.

Killed at random moments under load, many times: each process is the real program on the same store as the one before,
and a fifth of them are killed before they listen, while they recover from the last one. Stopped by a signal, once or
twice. On both databases.
"""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from conftest import SOAKS
from streamweir.store.db.engine import open_store
from support.answers import openai_stream
from support.consistency_checker import HOLD_TOKENS, TOML, ConsistencyChecker
from support.forked_processes import fork_server
from support.gateway import chat_request, providers
from support.ledger_reader import open_ledger_reader
from support.postgres import PrivatePostgres
from support.script import stream
from support.scripted_upstream import ScriptedUpstream
from support.serve_process import Program
from support.stores import each_database, migrated_url

KILLS = {"sqlite": 1000 if SOAKS else 15, "postgres": 1000 if SOAKS else 12}
HOUSES = 3
"""Stores of their own, side by side: a life waits more than it works."""
CALLERS = 6
_IN_START = 0.2
_LONGEST_START_S = 0.2
_MOST_STEPS = 60
_MOMENT_S = 0.02
"""What happens after a step has its chance too."""
_FORESEEN = {"orphaned requests settled", "alert"}
_TORN = "accounting: journal torn"
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class KilledNode:
    """One data folder and its database, and the lives that are spent in it one after the other."""

    def __init__(self, folder: Path, toml: str, checker: ConsistencyChecker, seed: int) -> None:
        self.folder = folder
        self.toml = toml
        self.checker = checker
        self._chance = random.Random(seed)

    @asynccontextmanager
    async def life(self) -> AsyncIterator[Program]:
        """From the moment that it has put the books in order."""
        async with fork_server().served(self.folder, self.toml) as program:
            await program.started()
            await self.checker.check()
            yield program

    async def live_and_be_killed(self) -> None:
        chance = self._chance
        if chance.random() < _IN_START:
            async with fork_server().served(self.folder, self.toml) as program:
                await asyncio.sleep(chance.random() * _LONGEST_START_S)
                await self._kill(program)
        else:
            async with self.life() as program, self.checker.asking(program, CALLERS):
                await self.checker.steps(chance.randrange(_MOST_STEPS))
                await asyncio.sleep(chance.random() * _MOMENT_S)
                await self._kill(program)
        await self.checker.sums_agree()

    async def _kill(self, program: Program) -> None:
        program.signal(signal.SIGKILL)
        assert await program.status() == -signal.SIGKILL
        odd = [event for event in program.events if event["event"] not in _FORESEEN]
        if any(event["event"] == _TORN for event in odd):
            # The one way in which a kill may tear it: a write that the signal finds at the edge of a page ends there.
            broken = [file.stat().st_size for file in self.journals() if file.suffix == ".broken"]
            assert broken
            assert [size % _PAGE_BYTES for size in broken] == [0] * len(broken)
        assert [event for event in odd if event["event"] != _TORN] == []

    def journals(self) -> list[Path]:
        return list((self.folder / "data" / "journal").iterdir())


@asynccontextmanager
async def killed_node_on(database: str, folder: Path, seed: int = 0, more: str = "") -> AsyncIterator[KilledNode]:
    data = folder / "data"
    data.mkdir(parents=True)
    url = await migrated_url(database, data)
    store = await open_store(url, data)
    checker = ConsistencyChecker(store, seed)
    try:
        async with ScriptedUpstream(checker.script) as up:
            toml = f'[store]\nurl = "{url}"\nhold_tokens = {HOLD_TOKENS}\n{providers(up=up.base_url)}{TOML}{more}'
            yield KilledNode(folder, toml, checker, seed)
    finally:
        await store.close()


@each_database
async def test_g3_nothing_acknowledged_is_lost_and_nothing_counts_twice(database: str, tmp_path: Path) -> None:
    await migrated_url(database, tmp_path)  # once for all of them

    async def spend_lives(number: int) -> None:
        async with killed_node_on(database, tmp_path / str(number), seed=number) as node:
            for _ in range(-(-KILLS[database] // HOUSES)):
                await node.live_and_be_killed()
            async with node.life():
                assert node.checker.verdicts["orphaned"] > 0
                assert node.checker.verdicts["completed"] > 0

    async with asyncio.TaskGroup() as group:
        for number in range(HOUSES):
            group.create_task(spend_lives(number))


@each_database
async def test_g1_a_process_that_is_stopped_leaves_nothing_to_be_done(database: str, tmp_path: Path) -> None:
    async with killed_node_on(database, tmp_path, more="[server.timeouts]\ndrain_s = 0.3\n") as node:
        async with node.life() as program, node.checker.asking(program, CALLERS):
            await node.checker.steps(100)
            program.signal(signal.SIGTERM)
            assert await program.status() == 0
        assert node.journals() == []
        page = await node.checker.look()
        assert page.open_ids == []
        await node.checker.check()
        assert node.checker.verdicts["completed"] > 0
        assert "orphaned" not in node.checker.verdicts
        place = ("--data-dir", str(tmp_path / "data"), "--config", str(tmp_path / "streamweir.toml"))
        checked = await fork_server().run("credits", "check", *place)
        assert (checked.status, checked.output[:24]) == (0, "The ledger is consistent")
        async with node.life() as program:
            assert program.events == []


@each_database
async def test_g2_nor_does_one_that_is_stopped_twice_leave_anything_open(database: str, tmp_path: Path) -> None:
    async with killed_node_on(database, tmp_path) as node:
        for _ in range(3):
            async with node.life() as program, node.checker.asking(program, CALLERS):
                await node.checker.steps(40)
                program.signal(signal.SIGTERM)
                program.signal(signal.SIGINT)
                assert await program.status() == 1
        async with node.life():
            assert node.checker.verdicts.keys() <= {"completed", "shutdown", "orphaned"}


async def test_g1_while_the_database_is_unavailable_the_journal_has_the_rest(tmp_path: Path) -> None:
    with PrivatePostgres() as postgres:
        for outage in (postgres.stop, postgres.pause):
            folder = tmp_path / outage.__name__
            folder.mkdir()
            url = postgres.make_database()
            async with ScriptedUpstream(stream(openai_stream())) as up:
                toml = f'[store]\nurl = "{url}"\n{providers(up=up.base_url)}{TOML}'
                ids = await stop_in(outage, folder, toml)
                postgres.resume() if postgres.is_running else postgres.start()
                async with fork_server().served(folder, toml) as program, open_ledger_reader(url, folder) as accounting:
                    await program.started()
                    rows = (await accounting.look()).rows
                    assert rows.keys() == ids
                    assert {(row.verdict, row.usage_source) for row in rows.values()} == {("completed", "provider")}


async def stop_in(outage: Callable[[], None], folder: Path, toml: str) -> set[str | None]:
    """A life that ends without the database: what it has answered, before and after that went away."""
    async with fork_server().served(folder, toml, intervals={"flush_s": 0.2}) as program:
        await program.started()
        replies = [await program.answer(chat_request(model="m", stream=True))]
        outage()
        replies.append(await program.answer(chat_request(model="m", stream=True)))
        program.signal(signal.SIGTERM)
        assert await program.status() == 0
        assert [event["event"] for event in program.events][-1] == "accounting: database behind"
        assert "text" not in {event["event"] for event in program.events}, "nothing but log lines"
    return {reply.header("x-request-id") for reply in replies}
