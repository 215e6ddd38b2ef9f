"""Rules under [[limits]]: a budget for each end user, key and workspace, within each other, whoever decides."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import Connection, select

from streamweir.policy.end_user import digest_of_user
from streamweir.store.db.tables import accounts
from support.accounting_gateway import MILLI, MODEL, AccountingSetup, answers, keeping
from support.answers import openai_stream, openai_whole
from support.gateway import configured, providers
from support.raw_client import Reply
from support.script import End, Head, Seen, Send, Step, Wait, stream, whole
from support.stores import each_database
from support.variants import VARIANTS, fleet_of

USERS = '[[limits]]\nname = "users"\nper = "user"\nbudget_usd = {}\nbudget_period = "day"\n'


async def ask(setup: AccountingSetup, secret: str, user: str | None = None, **more: Any) -> Reply:
    named = {} if user is None else {"user": user}
    return await setup.gate.ask(model="m", key=secret, max_tokens=5, **named, **more)


def error(reply: Reply) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(reply.body)["error"]
    return found


def rule_accounts(conn: Connection) -> dict[str, int]:
    """What is spent, by the account without its period."""
    rows = conn.execute(select(accounts.c.id, accounts.c.spent).where(accounts.c.id.like("rule:%")))
    return {id.rpartition(":")[0]: spent for id, spent in rows}


@each_database
async def test_each_end_user_has_a_budget_of_its_own(database: str, tmp_path: Path) -> None:
    async with keeping(
        answers(False, usage=(7, 493)), tmp_path, MODEL + USERS.format("0.51"), database=database
    ) as setup:
        secret = await setup.new_key()
        assert (await ask(setup, secret, "ann")).status == 200
        refused = await ask(setup, secret, "ann")
        assert (refused.status, error(refused)["code"]) == (429, "budget_exceeded")
        assert error(refused)["budget"]["scope"] == "users"
        assert "users" in error(refused)["message"]
        assert (await ask(setup, secret, "bob")).status == 200
        assert (await ask(setup, secret)).status == 200
        assert (await ask(setup, secret)).status == 429, "those without a user share one"
        reasons = [row.refusal["budget"] for row in await setup.rows() if row.refusal is not None]
        assert reasons == ["users", "users"], "by which alerts know whose budget is used up"
        assert await setup.read(rule_accounts) == {
            f"rule:default:users:user:{digest}:": 500 * MILLI
            for digest in (digest_of_user("ann"), digest_of_user("bob"), "-")
        }


@each_database
async def test_budgets_are_nested_and_all_must_fit(database: str, tmp_path: Path) -> None:
    """A workspace, two keys, and end users: each is refused by the first that it has used up."""
    rules = (
        USERS.format("100")
        + '[[limits]]\nname = "per-key"\nper = "key"\nbudget_usd = 0.51\nbudget_period = "month"\n'
        + '[[limits]]\nname = "team"\nper = "workspace"\nworkspace = "default"\nbudget_usd = 1.01\n'
        + '[[limits]]\nname = "other"\nper = "workspace"\nworkspace = "other"\nbudget_usd = 0\n'
        + '[[limits]]\nname = "trial"\nper = "user"\nkey = "trial"\nbudget_usd = 0.01\n'
    )
    async with keeping(answers(False, usage=(7, 493)), tmp_path, MODEL + rules, database=database) as setup:
        first, second, third = [await setup.new_key(name) for name in ("first", "second", "third")]
        trial = await setup.new_key("trial")
        statuses = [(await ask(setup, key, "ann")).status for key in (first, first, second, third, trial)]
        assert statuses == [200, 429, 200, 429, 429]
        spent = await setup.read(rule_accounts)
        assert spent[f"rule:default:users:user:{digest_of_user('ann')}:"] == 1000 * MILLI
        assert spent["rule:default:team:workspace:-:"] == 1000 * MILLI
        assert spent[f"rule:default:per-key:key:-:{setup.key_id(first)}"] == 500 * MILLI


@each_database
async def test_a_rule_can_require_an_end_user(database: str, tmp_path: Path) -> None:
    async with keeping(
        answers(False), tmp_path, MODEL + USERS.format("1") + 'anonymous = "refuse"\n', database=database
    ) as setup:
        secret = await setup.new_key()
        refused = await ask(setup, secret)
        assert (refused.status, error(refused)["code"], error(refused)["param"]) == (
            400,
            "missing_required_parameter",
            "user",
        )
        assert "x-streamweir-user" in error(refused)["message"]
        assert (await ask(setup, secret, headers=(("x-streamweir-user", "ann"),))).status == 200


async def test_what_was_spent_before_a_restart_counts(tmp_path: Path) -> None:
    toml = MODEL + USERS.format("0.51")
    async with keeping(answers(False, usage=(7, 493)), tmp_path, toml) as setup:
        secret = await setup.new_key()
        assert (await ask(setup, secret, "ann")).status == 200
    async with keeping(answers(False), tmp_path, toml) as setup:
        assert (await ask(setup, secret, "ann")).status == 429
        assert (await ask(setup, secret, "bob")).status == 200


@each_database
async def test_a_rule_that_a_reload_adds_counts_what_was_spent_and_what_is_running(
    database: str, tmp_path: Path
) -> None:
    """And one that it takes away for a while misses nothing. In the end memory and database agree (`keeping`)."""
    go_on = asyncio.Event()

    def script(seen: Seen) -> Sequence[Step]:
        body = openai_whole(usage=(7, 93))
        return [Head(200, "application/json"), *([Wait(go_on)] if seen.json.get("seed") else []), Send(body), End()]

    async with keeping(script, tmp_path, database=database) as setup:
        secret = await setup.new_key()

        def reload(rules: str) -> None:
            store = f'[store]\nurl = "{setup.gate.gateway.runtime.config.store.url}"\n'
            setup.gate.gateway.reload(configured(providers(up=setup.up.base_url) + store + MODEL + rules))

        assert (await ask(setup, secret, "ann")).status == 200
        running = asyncio.create_task(ask(setup, secret, "ann", seed=1))
        await setup.up.seen(2)
        reload(USERS.format("0.5"))
        assert (await ask(setup, secret, "ann")).status == 200
        reload("")
        assert (await ask(setup, secret, "ann")).status == 200
        go_on.set()
        assert (await running).status == 200
        reload(USERS.format("0.41"))
        assert (await ask(setup, secret, "ann")).status == 429, "400 of 410 are spent"
        (spent,) = (await setup.read(rule_accounts)).values()
        assert spent == 400 * MILLI


@each_database
async def test_a_rule_that_comes_back_counts_what_began_while_it_was_away(database: str, tmp_path: Path) -> None:
    """Memory and database agree in the end (`keeping`): else what it reserved would be given back, and spent again."""
    go_on = asyncio.Event()

    def script(seen: Seen) -> Sequence[Step]:
        body = openai_whole(usage=(7, 3))
        return [Head(200, "application/json"), *([Wait(go_on)] if seen.json.get("seed") else []), Send(body), End()]

    async with keeping(script, tmp_path, MODEL + USERS.format("1"), database=database) as setup:
        secret = await setup.new_key()

        def reload(rules: str) -> None:
            store = f'[store]\nurl = "{setup.gate.gateway.runtime.config.store.url}"\nbudget_wait_s = 0\n'
            setup.gate.gateway.reload(configured(providers(up=setup.up.base_url) + store + MODEL + rules))

        assert (await ask(setup, secret, "ann")).status == 200
        reload("")
        running = asyncio.create_task(setup.gate.ask(model="m", key=secret, max_tokens=950, user="ann", seed=1))
        await setup.up.seen(2)
        reload(USERS.format("1"))
        refused = await ask(setup, secret, "ann")
        assert (refused.status, error(refused)["budget"]["spent_usd"]) == (429, 0.01)
        assert error(refused)["budget"]["reserved_usd"] > 0.95
        go_on.set()
        assert (await running).status == 200
        assert (await ask(setup, secret, "ann")).status == 200
        assert list((await setup.read(rule_accounts)).values()) == [30 * MILLI]


async def test_a_rule_that_a_reload_adds_while_a_request_is_decided_counts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(200, "application/json"), Wait(go_on), Send(openai_whole(usage=(7, 3))), End()]
    async with keeping(script, tmp_path) as setup:
        secret, store = await setup.new_key(budget_nano=9000 * MILLI), setup.storage.store
        config = f'[store]\nurl = "{setup.gate.gateway.runtime.config.store.url}"\nbudget_wait_s = 0\n' + MODEL
        read = store.read

        async def slow_read(*asked: Any, **more: Any) -> Any:
            """Of the key's account."""
            found = await read(*asked, **more)
            rules = configured(providers(up=setup.up.base_url) + config + USERS.format("1"))
            setup.gate.gateway.reload(rules)
            return found

        with monkeypatch.context() as patched:
            patched.setattr(store, "read", slow_read)
            running = asyncio.create_task(setup.gate.ask(model="m", key=secret, max_tokens=900, user="ann"))
            await setup.up.seen(1)
        assert (await ask(setup, secret, "ann")).status == 429, "the other has reserved nearly all of it"
        go_on.set()
        assert (await running).status == 200
        assert (await ask(setup, secret, "ann")).status == 200


async def test_a_reload_while_accounts_are_read_refuses_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It forgets what was read of the first one, while the second one is read."""
    team = '[[limits]]\nname = "team"\nper = "workspace"\nbudget_usd = {}\n'
    async with keeping(answers(False), tmp_path, MODEL + USERS.format("1") + team.format(5)) as setup:
        secret, store, reads = await setup.new_key(), setup.storage.store, 0
        config = f'[store]\nurl = "{setup.gate.gateway.runtime.config.store.url}"\nbudget_wait_s = 0\n' + MODEL
        read = store.read

        async def slow_read(*asked: Any, **more: Any) -> Any:
            nonlocal reads
            reads += 1
            found = await read(*asked, **more)
            if reads == 2:
                rules = USERS.format("1") + team.format(6)
                setup.gate.gateway.reload(configured(providers(up=setup.up.base_url) + config + rules))
            return found

        with monkeypatch.context() as patched:
            patched.setattr(store, "read", slow_read)
            assert (await ask(setup, secret, "ann")).status == 200


def dearest(seen: Seen) -> Sequence[Step]:
    """Nearly the 184 tokens that are reserved for a prompt of these bytes, and the whole answer."""
    limit = seen.json.get("max_completion_tokens") or seen.json["max_tokens"]
    usage = (180, limit)
    if not seen.json.get("stream"):
        return whole(openai_whole("42", usage=usage))
    return stream(openai_stream(["42"], usage=usage))


@pytest.mark.parametrize("variant", ["alone", "nodes", "database alone"])
async def test_no_end_user_overspends_when_many_ask_at_once(variant: str, tmp_path: Path) -> None:
    chance, limit = Random(variant), 1500
    rules = USERS.format(limit / 1000) + '[[limits]]\nname = "team"\nper = "workspace"\nbudget_usd = 3.5\n'
    toml = MODEL.replace("gpt-4o", "made-up") + rules
    async with fleet_of(variant, dearest, tmp_path, toml=toml) as nodes:
        secret = await nodes.new_key()
        users = [chance.choice(("ann", "bob", "cid")) for _ in range(30)]
        asked = [
            chance.choice(nodes.gateways).ask(
                model="m", key=secret, user=user, max_tokens=chance.choice((50, 300)), stream=chance.random() < 0.5
            )
            for user in users
        ]
        statuses = [reply.status for reply in await asyncio.gather(*asked)]
        assert set(statuses) == {200, 429}
        for gate in nodes.gateways:
            await gate.vacated()
        spent = await nodes.read(rule_accounts)
        team = spent.pop("rule:default:team:workspace:-:")
        assert team == sum(spent.values()) <= 3500 * MILLI
        assert all(0 < each <= limit * MILLI for each in spent.values())
        if VARIANTS[variant].has_valkey:
            await nodes.assert_shared_agrees()
