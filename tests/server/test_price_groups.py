"""By which price group a request is sold: the key's, its workspace's, the default; and what callers and operators see.

A token of `m` is sold for a thousandth of a dollar by its own price, and for another amount by each group.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from streamweir.store.db.clock import now_ms
from streamweir.store.keys.workspaces import WorkspaceChange, change_workspace
from support.accounting_gateway import MILLI, MODEL, AccountingSetup, answers, error_of, keeping, set_clock
from support.answers import openai_frames
from support.gateway import KEY, configured, providers
from support.script import End, Head, Send, Step, Wait
from support.stores import one_database


def group(name: str, dollars: int, more: str = "") -> str:
    price = f'{{ model = "m", input = {dollars}.0, output = {dollars}.0 }}'
    return f'\n[[price_groups]]\nname = "{name}"\nprices = [{price}]\n{more}'


BOTH = group("one", 2000) + group("two", 3000)
DEFAULT = group("default", 4000)


async def change(setup: AccountingSetup, workspace_id: str, price_group: str | None) -> None:
    wanted = WorkspaceChange(price_group=price_group)
    await setup.write(lambda conn: change_workspace(conn, workspace_id, wanted, actor="test", at_ms=now_ms()))


async def models(setup: AccountingSetup, path: str, key: str) -> Any:
    async with await setup.gate.connect() as client:
        await client.send(f"GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\r\n".encode())
        return json.loads((await client.response()).body)


@one_database
async def test_the_groups_of_key_and_workspace_and_the_default(database: str, tmp_path: Path) -> None:
    async with keeping(answers(is_streamed=False, usage=(7, 5)), tmp_path, MODEL + BOTH, database=database) as setup:
        workspace = await setup.new_workspace("paid", 10**15)
        secret = await setup.new_key("k", workspace)
        count = 0

        async def price_of(key: str = secret) -> tuple[int | None, str | None]:
            nonlocal count
            assert (await setup.gate.ask(key=key, model="m")).status == 200
            count += 1
            row = await setup.row(count)
            assert row.cost is not None
            assert row.charge_rule is None
            return row.price, (row.price_version or "").partition("+")[2]

        assert await price_of() == (12 * MILLI, "config")
        await change(setup, workspace, "one")
        assert await price_of() == (24 * MILLI, "group:one")
        await setup.change(secret, price_group="two")
        assert await price_of() == (36 * MILLI, "group:two")
        assert await price_of(KEY) == (12 * MILLI, "config"), "of another workspace"
        store = f'[store]\nurl = "{setup.gate.gateway.runtime.config.store.url}"\n'
        setup.gate.gateway.reload(configured(providers(up=setup.up.base_url) + store + MODEL + BOTH + DEFAULT))
        assert await price_of(KEY) == (48 * MILLI, "group:default")
        await setup.change(secret, price_group=None)
        assert await price_of() == (24 * MILLI, "group:one")
        await change(setup, workspace, None)
        assert await price_of() == (48 * MILLI, "group:default")


@one_database
async def test_a_group_that_the_file_lacks_refuses_and_says_so(database: str, tmp_path: Path) -> None:
    async with keeping(answers(is_streamed=False), tmp_path, MODEL, database=database) as setup:
        secret = await setup.new_key(price_group="resale")
        directory, groups = setup.storage.accounting.directory, setup.gate.gateway.runtime.quotes.groups
        assert directory.price_groups() - groups.keys() == {"resale"}, "what is warned of"
        refused = await setup.gate.ask(key=secret, model="m")
        error = error_of(refused)
        assert (refused.status, error["code"]) == (403, "model_unpriced")
        assert '"resale"' in error["message"]
        assert "[[price_groups]]" in error["message"]
        assert setup.up.requests == []
        assert (await setup.row()).price is None
        listed = await models(setup, "/v1/models", secret)
        assert listed["data"]
        assert all(model.get("pricing") is None for model in listed["data"])
        await setup.change(secret, price_group=None)
        assert directory.price_groups() == set()
        assert (await setup.gate.ask(key=secret, model="m")).status == 200


@one_database
async def test_callers_see_what_models_are_sold_to_them_for(database: str, tmp_path: Path) -> None:
    async with keeping(answers(is_streamed=False), tmp_path, MODEL + BOTH, database=database) as setup:
        found = {}
        for name, secret in (("own", KEY), ("two", await setup.new_key(price_group="two"))):
            found[name] = (await models(setup, "/v1/models/m", secret))["pricing"]["input"]
        assert found == {"own": 1000, "two": 3000}


@one_database
async def test_a_price_that_begins_later_and_a_markup(database: str, tmp_path: Path) -> None:
    toml = MODEL.replace("price = {", "price = [{ from = 2099-01-01, input = 5.0, output = 5.0 }, {").replace(
        "1000.0 }\n", "1000.0 }]\n"
    )
    toml += '\n[[price_groups]]\nname = "cheap"\nmarkup_percent = 50\n'
    async with keeping(answers(is_streamed=False, usage=(7, 5)), tmp_path, toml, database=database) as setup:
        assert (await setup.gate.ask(model="m")).status == 200
        assert (await setup.row(1)).price == 12 * MILLI
        secret = await setup.new_key(price_group="cheap")
        assert (await setup.gate.ask(key=secret, model="m")).status == 200
        row = await setup.row(2)
        assert row.cost is not None
        assert (row.price or 0) * 2 == row.cost * 3 > 0


@one_database
async def test_an_answer_that_runs_while_prices_change_is_sold_at_those_of_its_beginning(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dated price begins, and a reload changes another."""
    begins_ms, go_on = 4_070_908_800_000, asyncio.Event()  # 2099-01-01
    dated = "price = [{ from = 2099-01-01, input = 5000.0, output = 5000.0 }, { input = 1000.0, output = 1000.0 }]\n"
    toml = MODEL.partition("price =")[0] + dated
    frames = openai_frames(["Hel", "lo"], (7, 5))
    script: list[Step] = [Head(), *map(Send, frames[:2]), Wait(go_on), *map(Send, frames[2:]), End()]
    set_clock(monkeypatch, begins_ms - 60_000)
    async with keeping(script, tmp_path, toml, database=database) as setup:
        secret = await setup.new_key(budget_nano=10_000_000 * MILLI)
        running = asyncio.create_task(setup.gate.ask(key=secret, model="m", stream=True))
        await setup.up.seen(1)
        set_clock(monkeypatch, begins_ms + 60_000)
        later = asyncio.create_task(setup.gate.ask(key=secret, model="m", stream=True))
        await setup.up.seen(2)
        store = f'[store]\nurl = "{setup.gate.gateway.runtime.config.store.url}"\nbudget_wait_s = 0\n'
        changed = MODEL.replace("1000.0", "9000.0")
        setup.gate.gateway.reload(configured(providers(up=setup.up.base_url) + store + changed))
        last = asyncio.create_task(setup.gate.ask(key=secret, model="m", stream=True))
        await setup.up.seen(3)
        go_on.set()
        assert [(await each).status for each in (running, later, last)] == [200] * 3
        await setup.gate.settled(3)
        assert sorted(row.price or 0 for row in await setup.rows()) == [price * 12 * MILLI for price in (1, 5, 9)]
