"""While a request waits for money that others hold, its limits change: it goes on by the new ones."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.accounting_gateway import MILLI, MODEL, AccountingSetup, keeping
from support.answers import openai_frames, openai_whole
from support.gateway import configured, providers, until
from support.raw_client import Reply
from support.script import End, Head, Seen, Send, Step, Wait

WAIT = "budget_wait_s = 600"
RULE = '[[limits]]\nname = "team"\nper = "workspace"\nbudget_usd = {}\n'


class Upstream:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    def script(self, _: Seen) -> Sequence[Step]:
        return [Head(200, "application/json"), Wait(self.go_on), Send(openai_whole(usage=(7, 93))), End()]


async def ask(setup: AccountingSetup, secret: str) -> Reply:
    return await setup.gate.ask(model="m", key=secret, max_tokens=100)


def reload(setup: AccountingSetup, rules: str) -> None:
    store = f'[store]\nurl = "{setup.gate.gateway.runtime.config.store.url}"\n{WAIT}\n'
    setup.gate.gateway.reload(configured(providers(up=setup.up.base_url) + store + MODEL + rules))


async def two(setup: AccountingSetup, secret: str) -> tuple["asyncio.Task[Reply]", "asyncio.Task[Reply]"]:
    """One that runs, and one that waits for its money."""
    running = asyncio.create_task(ask(setup, secret))
    await setup.up.seen(1)
    waiting = asyncio.create_task(ask(setup, secret))
    line = setup.storage.accounting.budgets.line
    await until(lambda: line.waiting == 1)
    return running, waiting


@pytest.mark.parametrize("credit", [None, 10_000], ids=["no credit", "credit"])
async def test_its_budget_is_removed(credit: int | None, tmp_path: Path) -> None:
    upstream = Upstream()
    async with keeping(upstream.script, tmp_path, store=WAIT) as setup:
        workspace = "default" if credit is None else await setup.new_workspace("w", credit * MILLI)
        secret = await setup.new_key(workspace_id=workspace, budget_nano=250 * MILLI)
        running, waiting = await two(setup, secret)
        await setup.change(secret, budget_nano=None)
        await setup.up.seen(2)
        await setup.assert_sound()
        upstream.go_on.set()
        assert [(await each).status for each in (running, waiting)] == [200, 200]


async def test_after_a_reload_it_waits_for_those_that_were_running_before(tmp_path: Path) -> None:
    upstream = Upstream()
    async with keeping(upstream.script, tmp_path, MODEL + RULE.format("0.25"), store=WAIT) as setup:
        secret, line = await setup.new_key(), setup.storage.accounting.budgets.line
        running = asyncio.create_task(ask(setup, secret))
        await setup.up.seen(1)
        reload(setup, RULE.format("0.4"))
        waiting = asyncio.create_task(ask(setup, secret))
        await until(lambda: line.waiting == 1 or waiting.done())
        upstream.go_on.set()
        assert [(await each).status for each in (running, waiting)] == [200, 200]


async def test_a_rule_that_a_reload_raises_pays_for_more_of_an_answer_that_runs(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    frames = openai_frames(["word " * 400] * 10, (7, 4000))

    def script(_: Seen) -> Sequence[Step]:
        return [Head(), Send(frames[0]), Send(frames[1]), Wait(go_on), *map(Send, frames[2:]), End()]

    async with keeping(script, tmp_path, MODEL + RULE.format("2")) as setup:
        secret = await setup.new_key()
        running = asyncio.create_task(setup.gate.ask(model="m", key=secret, stream=True, max_tokens=1024))
        await setup.up.seen(1)
        reload(setup, RULE.format("100"))
        go_on.set()
        assert b'"finish_reason":"stop"' in (await running).body
        assert (await setup.row()).price == 4007 * MILLI


async def test_what_is_settled_while_an_account_is_read_again_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream = Upstream()
    async with keeping(upstream.script, tmp_path, MODEL + RULE.format("1")) as setup:
        secret, store = await setup.new_key(), setup.storage.store
        running = asyncio.create_task(ask(setup, secret))
        await setup.up.seen(1)
        reload(setup, RULE.format("2"))
        read = store.read

        async def slow_read(*asked: Any, **more: Any) -> Any:
            found = await read(*asked, **more)
            upstream.go_on.set()
            await setup.gate.settled(1)
            return found

        with monkeypatch.context() as patched:
            patched.setattr(store, "read", slow_read)
            later = asyncio.create_task(ask(setup, secret))
            assert (await running).status == 200
        assert (await later).status == 200
