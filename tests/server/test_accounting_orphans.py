"""Requests that are open when their process dies, as others find them: docs/spec/failures.md G3 and G4.

A process without heartbeats counts as dead, but there are other reasons for silence: a blocked process, an unavailable
database. The intervals here are short: one or two seconds instead of twenty.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import pytest
from msgspec import structs
from sqlalchemy import Connection, select

from streamweir.store.db.tables import instances
from support.accounting_gateway import max_prompt
from support.answers import TEXTS, openai_stream
from support.consistency_checker import BUDGET_KEY, MILLI, TOML
from support.forked_processes import fork_server
from support.gateway import KEY, gateway, providers, text_of
from support.ledger_reader import LedgerReader, open_ledger_reader
from support.postgres import PrivatePostgres
from support.program_deadlines import LONG_INTERVALS
from support.raw_client import CutShort
from support.script import End, Head, Send, Wait, stream
from support.scripted_upstream import ScriptedUpstream
from support.serve_process import BEGUN, REST, Program, Stream, begin, served, spread
from support.soak import part_of
from support.stores import each_database, migrated_url
from support.valkey import ValkeyServer

HURRY = {"tick_s": 0.05, "heartbeat_s": 0.1, "dead_after_s": 1.0}
"""For one that looks for the dead while no other lives: on a busy machine the living too are silent for a second."""
SLOW = {**HURRY, "dead_after_s": 5.0}
TRUSTING = {**HURRY, "dead_after_s": 3600.0}
"""Takes nobody for dead."""
KEYS = (KEY, BUDGET_KEY)
PROMPT, BEGUN_TOKENS = 3, 2
"""By the rule of thumb: what is asked, and what has come of the answer."""
HELD = ((PROMPT + 1024) * MILLI, (max_prompt(model="m", stream=True) + 16_384) * MILLI)
"""Without a budget, and with one that has more than enough: the longest answer of the model."""
COST = PROMPT * 2500 + BEGUN_TOKENS * 10_000
"""Of an orphan, in nano-dollars: what the provider asks for `gpt-4o`."""
ORPHANED = ("orphaned", 0, PROMPT, BEGUN_TOKENS, "estimate", (PROMPT + BEGUN_TOKENS) * MILLI)


class Scene:
    """Nodes on one database, and callers whose answers have begun and go on when they may."""

    def __init__(
        self, folder: Path, url: str, up: ScriptedUpstream, books: LedgerReader, stack: AsyncExitStack
    ) -> None:
        self.toml = f'[store]\nurl = "{url}"\n{providers(up=up.base_url)}{TOML.replace("warning", "info")}'
        self.books = books
        self.stack = stack
        self.may_go_on = asyncio.Event()
        self._folder = folder

    async def node(self, name: str, intervals: dict[str, float] = HURRY) -> Program:
        """With a data folder of its own."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        program = await self.stack.enter_async_context(fork_server().served(folder, self.toml, intervals=intervals))
        await program.started()
        return program

    async def streams(self, program: Program) -> dict[str, Stream]:
        """By their ids: one of each key."""
        clients = [await self.stack.enter_async_context(await program.connect()) for _ in KEYS]
        begun = [await begin(client, model="m", key=key) for client, key in zip(clients, KEYS, strict=True)]
        return {id_of(stream): stream for stream in begun}

    async def has_begun(self, *ids: str) -> None:
        """Until the books know how far these are."""
        wanted = set(ids)
        await self.books.until(
            lambda seen: wanted <= {id for id, row in seen.open.items() if row.output_tokens == BEGUN_TOKENS}
        )

    async def gives_signs(self, instance: str, count: int) -> None:
        for _ in range(count):
            last_ms = (await self.books.look()).signs[instance]
            await self.books.until(lambda seen, last_ms=last_ms: seen.signs[instance] > last_ms)  # type: ignore[misc]

    async def ends(self, streams: dict[str, Stream]) -> None:
        """For their callers."""
        self.may_go_on.set()
        for each in streams.values():
            assert text_of((await each.rest()).body) == "".join(TEXTS)

    async def is_completed(self, ids: Iterable[str]) -> None:
        """For the books."""
        wanted = set(ids)
        seen = await self.books.until(lambda seen: wanted <= seen.rows.keys())
        for id in wanted:
            assert (seen.rows[id].verdict, seen.rows[id].usage_source) == ("completed", "provider")
            assert seen.kinds[id] == ["hold", "settle"]

    async def is_orphaned(self, ids: Iterable[str]) -> None:
        seen = await self.books.look()
        for id in ids:
            row = seen.rows[id]
            found = (row.verdict, row.status, row.prompt_tokens, row.completion_tokens, row.usage_source, row.price)
            assert found == ORPHANED
            assert (row.charge_rule, row.cost) == ("cut:used", COST)
            assert row.target == "up/gpt-4o"
            assert row.held in HELD
            assert seen.kinds[id] == ["hold", "settle"]


def id_of(stream: Stream) -> str:
    id = stream.so_far.header("x-request-id")
    assert id is not None
    return id


@asynccontextmanager
async def scene_on(url: str, folder: Path) -> AsyncIterator[Scene]:
    may_go_on = asyncio.Event()
    async with (
        ScriptedUpstream([Head(), Send(BEGUN), Wait(may_go_on), Send(REST), End()]) as up,
        open_ledger_reader(url, folder) as books,
        AsyncExitStack() as stack,
    ):
        scene = Scene(folder, url, up, books, stack)
        scene.may_go_on = may_go_on
        yield scene


async def test_g3_another_node_settles_what_a_dead_one_left_open(tmp_path: Path) -> None:
    async with scene_on(await migrated_url("postgres", tmp_path), tmp_path) as scene:
        one = await scene.node("one", TRUSTING)
        lost = await scene.streams(one)
        await scene.has_begun(*lost)
        one.signal(signal.SIGKILL)
        other = await scene.node("other")
        kept = await scene.streams(other)
        await other.logged("orphaned requests settled", count=len(lost))
        await scene.is_orphaned(lost)
        await scene.has_begun(*kept)
        assert scene.books.seen.open.keys() == kept.keys()
        await scene.ends(kept)
        await scene.is_completed(kept)

        before = scene.books.seen.rows
        heir = await scene.node("one", TRUSTING)
        await heir.logged("accounting: journal replayed")
        assert (await scene.books.look()).rows == before, "what the dead one wrote down has nothing to add"


async def test_a_blocked_process_is_settled_and_its_late_settlement_is_dropped_and_reported(tmp_path: Path) -> None:
    async with scene_on(await migrated_url("postgres", tmp_path), tmp_path) as scene:
        one = await scene.node("one", TRUSTING)
        late = await scene.streams(one)
        await scene.has_begun(*late)
        one.signal(signal.SIGSTOP)
        other = await scene.node("other")
        kept = await scene.streams(other)
        await other.logged("orphaned requests settled", count=len(late))
        one.signal(signal.SIGCONT)
        await scene.ends({**late, **kept})
        told: set[str] = set()
        while told != late.keys():
            told |= set((await one.logged("accounting: settled twice", level="error"))["request_ids"])
        await scene.is_completed(kept)
        await scene.is_orphaned(late)
        other.signal(signal.SIGTERM)
        await other.status()

        fresh = await scene.streams(one)
        await scene.ends(fresh)
        await scene.is_completed(fresh)


async def test_the_first_process_after_an_outage_does_not_settle_the_others(tmp_path: Path) -> None:
    async with scene_on(await migrated_url("postgres", tmp_path), tmp_path) as scene:
        nodes = [await scene.node("one", SLOW), await scene.node("other", SLOW)]
        first, second = [await scene.streams(node) for node in nodes]
        await scene.has_begun(*first, *second)
        instances = [scene.books.seen.open[next(iter(streams))].instance for streams in (first, second)]
        for node in nodes:
            node.signal(signal.SIGSTOP)
        await asyncio.sleep(SLOW["dead_after_s"] + 0.1)  # the silence itself
        nodes[0].signal(signal.SIGCONT)
        await scene.gives_signs(instances[0], 3)
        nodes[1].signal(signal.SIGCONT)
        await scene.gives_signs(instances[1], 1)
        await scene.ends({**first, **second})
        await scene.is_completed([*first, *second])


async def test_nor_after_an_outage_of_the_database(tmp_path: Path) -> None:
    with PrivatePostgres() as postgres:
        async with scene_on(postgres.make_database(), tmp_path) as scene:
            nodes = [await scene.node("one", SLOW), await scene.node("other", SLOW)]
            first, second = [await scene.streams(node) for node in nodes]
            await scene.has_begun(*first, *second)
            instances = [scene.books.seen.open[next(iter(streams))].instance for streams in (first, second)]
            postgres.stop()
            nodes[1].signal(signal.SIGSTOP)  # it will come back later than the first
            await asyncio.sleep(SLOW["dead_after_s"] + 0.1)
            postgres.start()
            await scene.gives_signs(instances[0], 3)
            nodes[1].signal(signal.SIGCONT)
            await scene.gives_signs(instances[1], 1)
            await scene.ends({**first, **second})
            await scene.is_completed([*first, *second])


@each_database
async def test_orphans_are_found_without_the_journal_of_their_process(database: str, tmp_path: Path) -> None:
    data = tmp_path / "one" / "data"
    data.mkdir(parents=True)
    url = await migrated_url(database, data)
    async with scene_on(url.replace("sqlite:///", f"sqlite:///{data}/"), tmp_path) as scene:
        one = await scene.node("one")
        lost = await scene.streams(one)
        await scene.has_begun(*lost)
        one.signal(signal.SIGKILL)
        await one.status()
        shutil.rmtree(data / "journal")
        # By its silence; but who has the database for himself need not wait for that.
        heir = await scene.node("one", HURRY if database == "postgres" else {"dead_after_s": 3600.0})
        await heir.logged("orphaned requests settled", count=len(lost))
        await scene.is_orphaned(lost)


def with_rules(toml: str, plain: str, budget: str) -> str:
    """What is charged if a request is cut, for each of the two keys."""
    groups = {"default": plain, "other": budget}
    named = toml.replace('name = "budget"', 'name = "budget"\nprice_group = "other"')
    return named + "".join(
        f'[[price_groups]]\nname = "{name}"\ncharge = {{ cut = "{rule}" }}\n' for name, rule in groups.items()
    )


@each_database
async def test_an_orphan_is_charged_by_the_rule_of_its_admission(database: str, tmp_path: Path) -> None:
    """Whoever settles it has others."""
    data = tmp_path / "one" / "data"
    data.mkdir(parents=True)
    url = await migrated_url(database, data)
    async with scene_on(url.replace("sqlite:///", f"sqlite:///{data}/"), tmp_path) as scene:
        plain = scene.toml
        scene.toml = with_rules(plain, "nothing", "cost")
        one = await scene.node("one")
        lost = await scene.streams(one)
        await scene.has_begun(*lost)
        one.signal(signal.SIGKILL)
        await one.status()
        scene.toml = with_rules(plain, "used", "used")
        heir = await scene.node("one")
        await heir.logged("orphaned requests settled", count=len(lost))
        rows = (await scene.books.look()).rows
        found = {(row.key_name, row.charge_rule, row.price) for row in (rows[id] for id in lost)}
        assert found == {("plain", "cut:nothing", 0), ("budget", "cut:cost", COST)}
        assert {row.cost for row in rows.values()} == {COST}


def torn(file: Path) -> None:
    """A frame that was begun and not ended."""
    with file.open("ab") as out:
        out.write(b"\x40\0\0\0\x12\x34\x56\x78half of it")


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 3)


def flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


@pytest.mark.diagonal
@pytest.mark.parametrize("damage", part_of([torn, cut, flipped], 3))
@each_database
async def test_a_damaged_journal_is_reported_and_kept_and_the_database_loses_nothing(
    database: str, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    data = tmp_path / "one" / "data"
    data.mkdir(parents=True)
    url = await migrated_url(database, data)
    async with scene_on(url.replace("sqlite:///", f"sqlite:///{data}/"), tmp_path) as scene:
        one = await scene.node("one")
        lost = await scene.streams(one)
        await scene.has_begun(*lost)
        one.signal(signal.SIGKILL)
        await one.status()
        (file,) = (data / "journal").iterdir()
        damage(file)
        heir = await scene.node("one")
        await heir.logged("accounting: journal torn", level="error", instance=file.name.partition(".")[0])
        await heir.logged("orphaned requests settled", count=len(lost))
        await scene.is_orphaned(lost)
        heir.signal(signal.SIGTERM)
        assert await heir.status() == 0
        assert [each.name for each in (data / "journal").iterdir()] == [f"{file.name}.broken"]


def read_farewells(conn: Connection) -> list[int | None]:
    return list(conn.scalars(select(instances.c.stopped_ms)))


async def test_a_process_with_unwritten_entries_is_not_retired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamweir.store.db.postgres._CLOSE_S", 0.1)
    url = await migrated_url("postgres", tmp_path)
    async with ScriptedUpstream(stream(openai_stream())) as up, open_ledger_reader(url, tmp_path) as books:
        toml = f'[store]\nurl = "{url}"\n{providers(up=up.base_url)}{TOML}'
        async with gateway(toml, data_dir=tmp_path, intervals=structs.replace(LONG_INTERVALS, flush_s=0.1)) as gate:
            ids = {(await gate.ask(model="m")).header("x-request-id")}
            await books.until(lambda seen: ids == seen.rows.keys())
            other = await asyncpg.connect(url)
            await other.execute("BEGIN; SELECT * FROM accounts FOR UPDATE")
            ids.add((await gate.ask(model="m")).header("x-request-id"))
        left, farewells = await books.look(), await books.store.read(read_farewells)
        await other.close()
        assert len(left.rows) == 1
        # Else another node would settle by an estimate what lies settled in the journal.
        assert farewells == [None]
        async with gateway(toml, data_dir=tmp_path):
            seen = await books.look()
            assert seen.rows.keys() == ids
            assert {(row.verdict, row.usage_source) for row in seen.rows.values()} == {("completed", "provider")}


async def test_g4_the_orphans_of_a_worker_are_settled_by_its_replacement(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    url = await migrated_url("sqlite", data)
    with ValkeyServer() as valkey:
        async with scene_on(url.replace("///", f"///{data}/"), tmp_path) as scene:
            toml = f'{scene.toml}\n[shared]\nurl = "{valkey.url}"\n'
            program = await scene.stack.enter_async_context(served(tmp_path, toml, "--workers", "2"))
            pids = {number: (await program.logged("worker serves", number=number))["pid"] for number in (0, 1)}
            streams: dict[int, dict[str, Stream]] = {}
            for number, clients in (await spread(scene.stack, program, len(KEYS))).items():
                begun = [await begin(client, model="m", key=key) for client, key in zip(clients, KEYS, strict=True)]
                streams[number] = {id_of(stream): stream for stream in begun}
            await scene.has_begun(*streams[0], *streams[1])
            os.kill(pids[0], signal.SIGKILL)
            for each in streams[0].values():
                with pytest.raises((CutShort, ConnectionError)):
                    await each.rest()
            # By its heir, long before anybody would notice the silence.
            await program.logged("orphaned requests settled", count=len(KEYS), worker=0)
            await scene.is_orphaned(streams[0])
            assert scene.books.seen.open.keys() == streams[1].keys()
            await scene.ends(streams[1])
            await scene.is_completed(streams[1])
            program.signal(signal.SIGTERM)
            assert await program.status() == 0
            assert not (await scene.books.look()).open
            assert not list((data / "journal").iterdir())
