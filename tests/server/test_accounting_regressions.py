"""Earlier bugs of accounting, each with the smallest test that shows it.

Budgets that were removed and added again, requests that end at unusual moments, unexpected values of a provider or an
operator. Other regressions are in the file of their part.
"""

import asyncio
import os
import sqlite3
import threading
from pathlib import Path

import pytest
from msgspec import structs
from sqlalchemy import select

from streamweir.config.model import Key as KeyConfig
from streamweir.core.errors import GatewayFault
from streamweir.core.request import ChatRequest
from streamweir.pipeline.settlement import Count
from streamweir.policy.pricing.price_group import DatedPrice
from streamweir.policy.pricing.prices import Rates, Service
from streamweir.server.accounting.maintenance import settle_dead_instances
from streamweir.server.accounting.token_count import Tokenizer
from streamweir.server.http.message import Request, Response
from streamweir.server.process.gateway import Gateway
from streamweir.store.db.clock import now_ms
from streamweir.store.db.tables import ledger, requests, workspaces
from streamweir.store.keys.credit import add_credit
from streamweir.store.keys.workspaces import WorkspaceChange, change_workspace
from streamweir.store.ledger.posting import apply
from support.accounting_gateway import MILLI, MODEL, PROMPT, AccountingSetup, error_of, keeping, max_prompt, set_clock
from support.answers import TEXTS, openai_frames, openai_stream
from support.deadlines import PROGRAM_TIMEOUT_S
from support.entries import assert_sound, books_on, hold
from support.fleet import fleet
from support.gateway import chat_request, gateway, providers, until
from support.program_deadlines import LONG_INTERVALS
from support.script import End, Hang, Head, Line, Send, Step, Wait, stream
from support.scripted_upstream import ScriptedUpstream
from support.stores import migrated_url

COST = 12 * MILLI
HELD = (max_prompt(model="m", max_tokens=9) + 9) * MILLI
"""Of an answer with this usage."""
USAGE = (7, 5)
BEGUN = b"".join(openai_frames()[:3])
TIER = b'"service_tier":"default",'
BILLS_ON = "cancel_stops_billing = false\n"
SHUTTING_DOWN = GatewayFault("server_shutting_down", "The gateway is shutting down.")


async def set_prepaid(setup: AccountingSetup, workspace_id: str, prepaid: bool) -> None:
    change = WorkspaceChange(prepaid=prepaid)
    await setup.write(lambda conn: change_workspace(conn, workspace_id, change, actor="test", at_ms=now_ms()))


async def asked(setup: AccountingSetup, secret: str, times: int = 1) -> list[int]:
    """The statuses of so many requests, and everything of them written."""
    before = len(setup.gate.records)
    statuses = [(await setup.gate.ask(key=secret, model="m", max_tokens=9)).status for _ in range(times)]
    await setup.gate.settled(before + times)
    assert await setup.writer.flush(PROGRAM_TIMEOUT_S)
    return statuses


# A limit that rests: what is spent meanwhile counts when it is back.


async def test_what_was_spent_while_a_workspace_was_not_prepaid_counts(tmp_path: Path) -> None:
    async with keeping(stream(openai_stream(usage=USAGE)), tmp_path) as setup:
        workspace = await setup.new_workspace("paid", HELD + 3 * COST - 1)
        secret = await setup.new_key(workspace_id=workspace)
        assert await asked(setup, secret) == [200]
        await set_prepaid(setup, workspace, False)
        assert await asked(setup, secret, 2) == [200, 200]
        await set_prepaid(setup, workspace, True)
        assert await asked(setup, secret) == [429]


@pytest.mark.parametrize("rest", [{"budget_nano": None}, {"budget_period": "day"}], ids=["no budget", "another period"])
async def test_what_was_spent_while_a_budget_rested_counts(rest: dict[str, object], tmp_path: Path) -> None:
    async with keeping(stream(openai_stream(usage=USAGE)), tmp_path) as setup:
        secret = await setup.new_key(budget_nano=HELD + 3 * COST - 1, budget_period="month")
        assert await asked(setup, secret) == [200]
        await setup.change(secret, **rest)
        assert await asked(setup, secret, 2) == [200, 200]
        await setup.change(secret, budget_nano=HELD + 3 * COST - 1, budget_period="month")
        assert await asked(setup, secret) == [429]


async def test_what_is_open_when_a_workspace_becomes_prepaid_is_settled_there_too(tmp_path: Path) -> None:
    """Its hold is in what the account begins with; the rest of it must come free when it ends."""
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(BEGUN), Wait(go_on), Send(openai_stream(usage=USAGE)), End()]
    async with keeping(script, tmp_path) as setup, await setup.gate.connect() as first:
        workspace = await setup.new_workspace("paid", 600 * MILLI)
        await set_prepaid(setup, workspace, False)
        secret = await setup.new_key(workspace_id=workspace)
        await first.send(chat_request(key=secret, model="m", stream=True, max_tokens=500))
        await first.head()
        await set_prepaid(setup, workspace, True)
        refused = await setup.gate.ask(key=secret, model="m", max_tokens=500)
        assert refused.status == 429
        go_on.set()
        await first.read_until(b"[DONE]")
        await setup.gate.settled(2)
        reply = await setup.gate.ask(key=secret, model="m", max_tokens=500)
        assert reply.status == 200


async def test_credit_that_comes_while_an_answer_runs_is_there_for_it(tmp_path: Path) -> None:
    go_on, finish = asyncio.Event(), asyncio.Event()
    frames = openai_frames([" word" * 10] * 20, usage=(PROMPT, 200))
    script: list[Step] = [Head(), Send(b"".join(frames[:2])), Wait(go_on), Send(b"".join(frames[2:-4])), Wait(finish)]
    script += [Send(b"".join(frames[-4:])), End()]
    async with keeping(script, tmp_path, store="hold_tokens = 20") as setup, await setup.gate.connect() as client:
        workspace = await setup.new_workspace("paid", (max_prompt(model="m", stream=True) + 30) * MILLI)
        secret = await setup.new_key(workspace_id=workspace)
        await client.send(chat_request(key=secret, model="m", stream=True))
        await client.head()
        await setup.write(lambda conn: add_credit(conn, workspace, 10_000 * MILLI, actor="test", at_ms=now_ms()))
        go_on.set()
        (reservation,) = setup.storage.accounting._open.values()
        await until(lambda: reservation.extensions > 0)
        finish.set()
        await client.read_until(b"[DONE]")
        row = await setup.row()
        assert (row.verdict, row.price) == ("completed", (PROMPT + 200) * MILLI)


# Odd moments.


async def test_stopped_before_it_had_its_turn_it_never_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve = Gateway.serve

    def hastily(self: Gateway, request: Request, response: Response, /) -> None:
        serve(self, request, response)
        self.end_streams(SHUTTING_DOWN)

    monkeypatch.setattr(Gateway, "serve", hastily)
    async with keeping(stream(openai_stream()), tmp_path) as setup:
        reply = await setup.gate.ask(model="m", stream=True)
        assert (reply.status, error_of(reply)["code"]) == (503, "server_shutting_down")
        assert setup.up.requests == []
        assert await setup.ledger() == []


@pytest.mark.parametrize(("how", "verdict"), [("leaves", "client_gone"), ("stopped", "shutdown"), ("ends", "shutdown")])
@pytest.mark.parametrize("is_decided_by_database", [False, True], ids=["memory", "database"])
async def test_g6_at_any_moment_of_its_end_the_ledger_is_consistent(
    how: str, verdict: str, is_decided_by_database: bool, tmp_path: Path
) -> None:
    """After so many turns of the loop: before, while and after it is decided, held, asked and answered."""
    async with keeping(stream(openai_stream(usage=USAGE)), tmp_path, provider=BILLS_ON) as setup:
        secret, running = await setup.new_key(budget_nano=10**6 * MILLI, rpm=1000, max_streams=1000), setup.gate.gateway
        for count, turns in enumerate(range(0, 60, 3), 1):
            headers = (("idempotency-key", f"k{turns}"),) if is_decided_by_database else ()
            async with await setup.gate.connect() as client:
                await client.send(chat_request(key=secret, model="m", stream=True, max_tokens=20, headers=headers))
                for _ in range(turns):
                    await asyncio.sleep(0)
                if how == "stopped":
                    running.end_streams(SHUTTING_DOWN)
                elif how == "ends":
                    for task in running._requests._tasks.values():
                        task.cancel()
                if how != "leaves":
                    await until(lambda count=count: len(setup.gate.records) == count)  # type: ignore[misc]
            await running.server.emptied()
            await running.drained()
        await until(lambda: not setup.storage.accounting._undo_tasks)
        rows = await setup.rows()
        assert {row.verdict for row in rows} <= {verdict, "completed"}
        assert sorted(row.request_id for row in rows) == sorted(record.id for record in setup.gate.records)
        assert all(row.price in (0, None, COST, 10 * MILLI) for row in rows)


@pytest.mark.parametrize("provider", ["", BILLS_ON], ids=["aborted", "read on"])
async def test_a_stream_that_ends_with_the_process_is_billed_for_what_was_sent(provider: str, tmp_path: Path) -> None:
    """The task itself is cancelled: with its caller there, and after he has gone."""
    async with keeping([Head(), Send(BEGUN), Hang()], tmp_path, provider=provider) as setup:
        client = await setup.gate.connect()
        await client.send(chat_request(model="m", stream=True, max_tokens=20))
        await client.head()
        running = setup.gate.gateway
        (task,) = running._requests._tasks.values()
        if provider:
            client.close()
            await until(lambda: running.abandoned == 1)
        task.cancel()
        row = await setup.row()
        client.close()
        assert row.verdict == ("client_gone" if provider else "shutdown")
        assert row.usage_source == "tokenizer"
        assert row.price is not None
        assert row.price > 0


async def test_a_body_that_comes_while_the_gateway_closes_leaves_nothing_open(tmp_path: Path) -> None:
    url = await migrated_url("sqlite", tmp_path)
    async with ScriptedUpstream([Head(), Send(BEGUN), Hang()]) as up:
        config = f'{providers(up=up.base_url)}{BILLS_ON}[store]\nurl = "{url}"\n{MODEL}'
        async with gateway(config, data_dir=tmp_path) as gate:
            client, request = await gate.connect(), chat_request(model="m", stream=True, max_tokens=20)
            await client.send(request[:-5])
            await gate.has_read()
            gate.gateway.stop_admitting()
            draining = asyncio.ensure_future(gate.gateway.drained())
            await gate.has_read()
            assert not draining.done(), "this one was let in"
            draining.cancel()  # that is how a drain ends which takes too long
            closing = asyncio.ensure_future(gate.gateway.close(1.0))
            await until(lambda: not gate.gateway.server.addresses)
            await client.send(request[-5:])
            await client.head()
            await closing
            client.close()
        with sqlite3.connect(tmp_path / "streamweir.db") as database:
            assert database.execute("SELECT count(*) FROM open_requests").fetchone() == (0,)
            assert database.execute("SELECT count(*) FROM requests WHERE cost > 0").fetchone() == (1,)
        database.close()


async def test_a_hanging_disk_does_not_block_forever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, write = threading.Event(), os.write

    def slow(descriptor: int, data: bytes) -> int:
        assert go_on.wait(20)
        return write(descriptor, data)

    intervals = structs.replace(LONG_INTERVALS, decision_s=0.05)
    async with keeping(stream(openai_stream()), tmp_path, intervals=intervals) as setup:
        monkeypatch.setattr("streamweir.store.journal.files.os.write", slow)
        try:
            reply = await setup.gate.ask(model="m")
            assert (reply.status, error_of(reply)["code"]) == (503, "ledger_unavailable")
            assert setup.up.requests == []
        finally:
            go_on.set()
        row = await setup.row()
        assert (row.status, row.error, row.price) == (503, "ledger_unavailable", 0)


async def test_g16_a_clock_change_does_not_make_a_process_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By an hour: all signs of life are old then, until the next ones."""
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(BEGUN), Wait(go_on), Send(openai_stream(TEXTS[2:], usage=USAGE)), End()]
    async with fleet(script, tmp_path, count=2) as nodes, await nodes.gateways[0].connect() as client:
        await client.send(chat_request(model="m", stream=True, max_tokens=20))
        await client.head()
        assert await nodes.setups[0].writer.flush(PROGRAM_TIMEOUT_S)
        set_clock(monkeypatch, now_ms() + 3_600_000)
        maintenance = nodes.setups[1].maintenance
        maintenance._connected_since = float("-inf")
        for _ in range(3):
            maintenance._reconciled_at = float("-inf")
            await maintenance._reconcile()
        for setup in nodes.setups:
            setup.maintenance._heartbeat_at = float("-inf")
            await setup.maintenance._send_heartbeat()
        maintenance._reconciled_at = float("-inf")
        await maintenance._reconcile()
        assert maintenance._suspects == {}
        go_on.set()
        await client.read_until(b"[DONE]")
        await nodes.gateways[0].settled()
        (row,) = await nodes.rows()
        assert (row.verdict, row.usage_source, row.price) == ("completed", "provider", COST)


# Who counts, and by what.


class Panic(BaseException):
    """As a library in another language raises it: no `Exception`."""


async def test_where_a_tokenizer_fails_the_rule_of_thumb_counts_and_nothing_stays_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def panic(_: Tokenizer, __: ChatRequest) -> Count:
        raise Panic

    monkeypatch.setattr(Tokenizer, "count_prompt", panic)
    async with keeping(stream(openai_stream(usage=None)), tmp_path) as setup:
        secret = await setup.new_key(max_streams=1, budget_nano=10_000 * MILLI)
        for count in (1, 2):
            assert (await setup.gate.ask(model="m", stream=True, key=secret)).status == 200
            row = await setup.row(count)
            assert row.usage_source == "estimate"
            assert row.price is not None
            assert row.price > 0


@pytest.mark.diagonal
@pytest.mark.parametrize(
    ("asked_for", "given", "rate"),
    [
        ("flex", None, 500),
        ("flex", "default", 1000),
        ("priority", "default", 1000),
        (None, "priority", 2000),
        (None, None, 1000),
    ],
)
@pytest.mark.parametrize("dialect", ["openai", "aivene"], ids=["passed", "translated"])
async def test_the_service_tier_that_was_given_is_the_one_that_is_billed(
    asked_for: str | None,
    given: str | None,
    rate: int,
    dialect: str,
    tmp_path: Path,
) -> None:
    def rates(dollars: int) -> Rates:
        return Rates(input=dollars * 10**9, output=dollars * 10**9)

    services = (Service("flex", rates(500)), Service("priority", rates(2000)))
    told = b"" if given is None else f'"service_tier":"{given}",'.encode()
    body = openai_stream(usage=USAGE)
    assert TIER in body
    body = body.replace(TIER, told)
    async with keeping(stream(body), tmp_path) as setup:
        quotes = setup.gate.gateway.runtime.quotes
        own = DatedPrice(rates=structs.replace(rates(1000), services=services))
        quotes._own_prices = {"m": (own,)}
        tier = {} if asked_for is None else {"service_tier": asked_for}
        path = f"/{dialect}/v1/chat/completions"
        assert (await setup.gate.ask(path=path, model="m", stream=True, **tier)).status == 200
        assert (await setup.row()).price == 12 * rate * 10**9 // 10**6


# What nobody foresaw.


async def test_prices_that_cannot_be_read_do_not_keep_an_orphan_from_its_end(tmp_path: Path) -> None:
    async with books_on("sqlite", tmp_path) as store:
        await store.write(lambda conn: apply(conn, [hold("r", instance="dead", prices='{"of": "another version"}')]))
        await settle_dead_instances(store, ["dead"])
        await store.read(assert_sound)
        row = await store.read(lambda conn: conn.execute(select(requests)).one())
        assert (row.verdict, row.price, row.price_version) == ("orphaned", None, None)


def with_key(setup: AccountingSetup, **changed: str) -> KeyConfig:
    """A reload that brings another key."""
    config = setup.gate.gateway.runtime.config
    key = structs.replace(config.keys[0], **changed)
    setup.gate.gateway.reload(structs.replace(config, keys=(*config.keys, key)))
    return key


async def test_a_key_of_the_file_with_the_secret_of_another_does_not_end_the_upkeep(tmp_path: Path) -> None:
    async with keeping(stream(openai_stream()), tmp_path) as setup:
        secret = await setup.new_key()
        with_key(setup, name="thief", key=secret)
        await setup.maintenance.load_changes()
        assert not setup.storage.accounting.directory.file_is_new
        other = await setup.new_key("other")
        assert (await setup.gate.ask(model="m", key=other)).status == 200, "what has changed is still seen"


async def test_nothing_is_charged_to_a_workspace_without_an_id(tmp_path: Path) -> None:
    """A reload brings it, and for a moment it has no more than a name."""
    asked: list[Line] = []

    async def note(line: Line) -> None:
        asked.append(line)

    async with keeping([note, *stream(openai_stream())], tmp_path) as setup:
        key = with_key(setup, name="new", key="sk-98765432109876543210", workspace="fresh")
        reply = await setup.gate.ask(model="m", key=key.key)
        assert (reply.status, error_of(reply)["code"], asked) == (503, "ledger_unavailable", [])
        await setup.maintenance.load_changes()
        await setup.maintenance.load_changes()
        assert (await setup.gate.ask(model="m", key=key.key)).status == 200
        booked = await setup.read(lambda conn: set(conn.scalars(select(ledger.c.workspace_id))))
        made = await setup.read(lambda conn: conn.scalar(select(workspaces.c.id).where(workspaces.c.name == "fresh")))
        assert booked == {made}
