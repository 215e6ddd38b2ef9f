"""A gateway that keeps books, and the books as a test looks at them.

    async with keeping(stream(openai_stream()), tmp_path, MODEL) as setup:
        secret = await setup.new_key(budget_nano=13 * MILLI)
        reply = await setup.gate.ask(model="m", key=secret)
        (row,) = await setup.rows()

The store is a real SQLite file, the upstream a scripted one with a count of its own. When the block
is left, nothing may be open or held any more, every sum must be that of its rows, and what memory
says of each account must be what the database says.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection, select

from streamweir.policy.limits.budget import NANO
from streamweir.server.accounting.intervals import Intervals
from streamweir.server.accounting.limiter import Limiter, MemoryLimiter
from streamweir.server.accounting.maintenance import Maintenance
from streamweir.server.process.bootstrap import AccountingRuntime
from streamweir.store.db.clock import now_ms
from streamweir.store.db.tables import accounts, ledger, open_requests
from streamweir.store.keys.credit import add_credit
from streamweir.store.keys.keys import KeyRecord, change_key, create_key, revoke_key, rotate_key
from streamweir.store.keys.spec import KeyChange, KeySpec
from streamweir.store.keys.workspaces import WorkspaceSpec, create_workspace
from streamweir.store.ledger.accounts import balance_of
from streamweir.store.ledger.check import check_sums
from streamweir.store.ledger.writer import Writer
from streamweir.store.requests.requests import RequestFilter, RequestRow, list_requests
from support.answers import openai_stream, openai_whole
from support.deadlines import PROGRAM_TIMEOUT_S
from support.dialect_rules import NAMES
from support.gateway import MESSAGES, Gate, gateway, nothing_left, providers
from support.program_deadlines import LONG_INTERVALS
from support.raw_client import Reply
from support.script import Script, Step, stream, whole
from support.scripted_upstream import ScriptedUpstream
from support.stores import migrated_url

MILLI = NANO // 1000
"""A thousandth of a dollar, in nano-dollars: what a token of the model `m` costs."""
MODEL = """
[[models]]
id = "m"
targets = [{ provider = "up", model = "gpt-4o" }]
price = { input = 1000.0, output = 1000.0 }
"""
UNPRICED = """
[[models]]
id = "free"
targets = [{ provider = "up", model = "nobody-has-priced-this" }]
"""
PROMPT = 3
"""Tokens of the conversation of `support.gateway`, by the rule of thumb that holds go by: ten characters."""
TEMPLATE = 64
"""Tokens that are reserved for what is added around a prompt."""
EACH_DIALECT = NAMES
each_form = pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "whole"])
T = TypeVar("T")


class AccountingSetup:
    def __init__(self, gate: Gate, up: ScriptedUpstream, **others: ScriptedUpstream) -> None:
        self.gate = gate
        self.up = up
        self.ups = {"up": up, **others}
        self.looks = True
        """After every change, so that the gateway knows of it; else it finds out when it looks by itself."""
        storage = gate.gateway.storage
        assert storage is not None
        self.storage: AccountingRuntime = storage

    @property
    def writer(self) -> Writer:
        writer = self.storage.accounting.writer
        assert writer is not None
        return writer

    @property
    def limiter(self) -> Limiter:
        return self.storage.accounting._limiter

    @property
    def maintenance(self) -> Maintenance:
        maintenance = self.gate.gateway._maintenance
        assert maintenance is not None
        return maintenance

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Of a database that has everything which has been written down."""
        assert await self.writer.flush(PROGRAM_TIMEOUT_S)
        return await self.storage.store.read(work)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """As another process would."""
        made = await self.storage.store.write(work)
        if self.looks:
            await self.maintenance.load_changes()
        return made

    async def new_key(
        self, name: str = "key", workspace_id: str = "default", at_ms: int | None = None, **spec: Any
    ) -> str:
        """The secret of a new key, which the gateway knows."""
        wanted, made_ms = KeySpec(name=name, **spec), at_ms if at_ms is not None else now_ms()
        made = await self.write(lambda conn: create_key(conn, workspace_id, wanted, actor="test", at_ms=made_ms))
        return made.secret

    def key_id(self, secret: str) -> str:
        key = self.storage.accounting.directory.find(secret)
        assert key is not None
        return key.id

    async def change(self, secret: str, **changed: Any) -> KeyRecord:
        id, change = self.key_id(secret), KeyChange(**changed)
        return await self.write(lambda conn: change_key(conn, id, change, actor="test", at_ms=now_ms()))

    async def revoke(self, secret: str) -> None:
        id = self.key_id(secret)
        await self.write(lambda conn: revoke_key(conn, id, actor="test", at_ms=now_ms()))

    async def rotate(self, secret: str, grace_ms: int) -> str:
        id = self.key_id(secret)
        made = await self.write(lambda conn: rotate_key(conn, id, grace_ms=grace_ms, actor="test", at_ms=now_ms()))
        return made.secret

    async def new_workspace(self, name: str, credit: int) -> str:
        """Prepaid, with so many nano-dollars."""

        def work(conn: Connection) -> str:
            made = create_workspace(conn, WorkspaceSpec(name=name, prepaid=True), actor="test", at_ms=now_ms())
            if credit:
                add_credit(conn, made.id, credit, actor="test", at_ms=now_ms())
            return made.id

        return await self.write(work)

    async def rows(self) -> list[RequestRow]:
        """The log of requests, the oldest first."""
        page = await self.read(lambda conn: list_requests(conn, RequestFilter(), limit=1000))
        return list(reversed(page.rows))

    async def row(self, count: int = 1) -> RequestRow:
        """The last of so many."""
        await self.gate.settled(count)
        rows = await self.rows()
        assert len(rows) == count
        return rows[-1]

    async def ledger(self, request_id: str | None = None) -> list[tuple[str, int, int | None]]:
        """Kind, amount and price of every row; of one request, where it is given."""
        statement = select(ledger.c.kind, ledger.c.amount, ledger.c.price).order_by(ledger.c.seq)
        if request_id is not None:
            statement = statement.where(ledger.c.request_id == request_id)
        return await self.read(lambda conn: [(kind, amount, price) for kind, amount, price in conn.execute(statement)])

    async def spent_and_held(self, workspace_id: str = "default") -> tuple[int, int]:
        sums = await self.read(lambda conn: balance_of(conn, workspace_id))
        return sums.spent, sums.held

    async def open_ids(self) -> list[str]:
        return await self.read(lambda conn: list(conn.scalars(select(open_requests.c.request_id))))

    async def assert_sound(self) -> None:
        """Every sum is that of its rows."""
        assert (await self.read(check_sums)).faults == []

    async def assert_balanced(self) -> None:
        """Besides: nothing is open, nothing is held, and memory agrees with the database."""
        await self.assert_sound()
        assert await self.open_ids() == []
        assert self.storage.accounting.open_count == 0
        found = await self.read(lambda conn: conn.execute(select(accounts)).all())
        limiter = self.storage.accounting._limiter
        assert all(account.held == 0 for account in found)
        if not isinstance(limiter, MemoryLimiter):  # the database decides
            return
        for account in found:
            assert limiter._limits.used(account.id) in (None, account.spent), account.id
        assert all(key.streams == 0 for key in limiter._limits._keys.values())


@asynccontextmanager
async def keeping(
    script: Script,
    folder: Path,
    toml: str = MODEL,
    *,
    kind: str = "openai",
    provider: str = "",
    store: str = "",
    others: Mapping[str, Script] | None = None,
    intervals: Intervals = LONG_INTERVALS,
    database: str = "sqlite",
) -> AsyncIterator[AccountingSetup]:
    """The provider `up` plays the script; `provider` is more TOML for it, `store` for the `[store]`: unless it says so,
    no request waits for money that others hold.

    `others`: more providers by their names, all of the same kind. `database`: see `support.stores`.
    """
    url = await _database(folder, database)  # before open files are counted: it may start a server
    async with nothing_left(), _upstreams({"up": script, **(others or {})}) as ups:
        addresses = {name: up.base_url for name, up in ups.items()}
        config = "".join(providers(kind, **{name: url}) + provider + "\n" for name, url in addresses.items())
        config += f'[store]\nurl = "{url}"\n{with_wait(store)}\n{toml}'
        async with gateway(config, data_dir=folder, intervals=intervals) as gate:
            setup = AccountingSetup(gate, **ups)
            yield setup
            await gate.vacated()
            await setup.assert_balanced()
        for up in ups.values():
            await up.idle()


def with_wait(store: str) -> str:
    return store if "budget_wait_s" in store else f"{store}\nbudget_wait_s = 0"


async def _database(folder: Path, database: str) -> str:
    if database == "sqlite" and (folder / "streamweir.db").exists():
        return "sqlite:///streamweir.db"
    return await migrated_url(database, folder)


@asynccontextmanager
async def _upstreams(scripts: Mapping[str, Script]) -> AsyncIterator[dict[str, ScriptedUpstream]]:
    async with AsyncExitStack() as stack:
        yield {name: await stack.enter_async_context(ScriptedUpstream(script)) for name, script in scripts.items()}


def max_prompt(**members: Any) -> int:
    """The most tokens of the conversation of `support.gateway`, as a budget reserves for it: a byte is one. `members`
    are those of the request's body."""
    return len(json.dumps({"messages": MESSAGES, **members})) + TEMPLATE


def answers(is_streamed: bool, usage: tuple[int, int] | None = (7, 5)) -> list[Step]:
    """A short answer of a provider of the kind `openai`."""
    return stream(openai_stream(usage=usage)) if is_streamed else whole(openai_whole(usage=usage))


def set_clock(monkeypatch: pytest.MonkeyPatch, at_ms: int) -> None:
    """The wall clock stands still. Timeouts use another clock."""
    monkeypatch.setattr("time.time", lambda: at_ms / 1000)
    monkeypatch.setattr("time.time_ns", lambda: at_ms * 1_000_000)


def path_of(dialect: str) -> str:
    return f"/{dialect}/v1/chat/completions"


def error_of(reply: Reply) -> dict[str, Any]:
    """Of an answer that is an error, with its members in order."""
    document = json.loads(reply.body)
    assert list(document) == ["error"]
    error: dict[str, Any] = document["error"]
    return error
