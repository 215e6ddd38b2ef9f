"""A gateway with books, the admin API over them and the command line beside it, with a canary wherever one fits.

    async with driving("sqlite", tmp_path) as drive:
        await drive.send(*requests())

Every answer is kept in `answers`, all that commands wrote in `commands`; what the API says is searched
at once. The database is given up to another by `database_away`, as an operator's own transaction would.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import httpx2
from click.testing import CliRunner
from msgspec import structs

from streamweir.cli.main import main
from streamweir.server.control.api.context import Context
from streamweir.server.control.api.live_feed import LiveFeed
from streamweir.server.process.bootstrap import prepare_accounting
from support.accounting_gateway import AccountingSetup
from support.answers import error_body, openai_stream
from support.api import Api, Clock
from support.canary import KEYS_TOML, QUOTED, C, CanarySet, files_of, providers_toml, script
from support.deadlines import PROGRAM_TIMEOUT_S
from support.gateway import configured, gateway, nothing_left
from support.outage import SHORT_S, allow_database
from support.program_deadlines import LONG_INTERVALS
from support.raw_client import Reply
from support.script import Seen, Step, stream, whole
from support.scripted_upstream import ScriptedUpstream, closed_port
from support.stores import migrated_url
from support.valkey import ValkeyServer

BOOKS = {
    "password of the database": "canary-store-password",
    "password of Valkey": "canary-shared-password",
    "Idempotency-Key": "canary-idempotency-2f1e",
    "key in a user-agent": "sk-canary-Agent0123456789abcdef",
    "key of a provider without a shape": "canary.provider.key",
    "key of a caller without a shape": "canary.caller.key",
    "key that is watched": "sk-canary-Watched0123456789abc",
    "key with a budget": "sk-canary-Poor0123456789abcdef",
    "key of an admin": "sk-canary-Boss0123456789abcdef",
    "token of a webhook": "canaryHookToken0123456789abcdef",
    "secret of a webhook": "whsec_canaryHookSecret0123456789abcdef",
    "kept prompt": "canary badger in the bank",
    "kept answer": "canary kingfisher above",
}
B = BOOKS
KEPT = ("kept prompt", "kept answer")
"""Of the key that asked for it, and in the table that is for it alone."""
_TOML = f"""
[[models]]
id = "priced"
targets = [{{ provider = "openai", model = "m" }}]
price = {{ input = 1000.0, output = 1000.0 }}
[[keys]]
name = "plain"
key = "{B["key of a caller without a shape"]}"
[[keys]]
name = "watched"
key = "{B["key that is watched"]}"
log_content = true
[[keys]]
name = "poor"
key = "{B["key with a budget"]}"
budget_usd = 0.001
[[keys]]
name = "boss"
key = "{B["key of an admin"]}"
scopes = ["admin"]
[[providers]]
name = "plain"
kind = "openai-compatible"
api_key = "{B["key of a provider without a shape"]}"
"""
_PACE = structs.replace(LONG_INTERVALS, tick_s=0.05, alert_check_s=0.05)


def play(request: Seen) -> list[Step]:
    """As `canary.script`. What is kept is answered in words of its own, among them secrets, some of them in pieces."""
    if B["kept prompt"].encode() not in request.body:
        return script(request)
    if request.json["model"] == "401":
        return whole(error_body(QUOTED + B["key of a provider without a shape"]), 401)
    pieces = [B["kept answer"], " canary.", "provider", ".key and ", C["key of a provider"][:20]]
    return stream(openai_stream([*pieces, C["key of a provider"][20:]]))


class Drive:
    def __init__(
        self, setup: AccountingSetup, api: Api, folder: Path, canary_set: CanarySet, valkey: ValkeyServer | None
    ) -> None:
        self.setup = setup
        self.api = api
        self.data = folder / "data"
        self.canary_set = canary_set
        self.valkey = valkey
        self.answers: list[Reply] = []
        self.commands: list[str] = []
        self._config_file = folder / "streamweir.toml"

    async def send(self, *sent: bytes) -> list[int]:
        """All at once; the statuses in their order."""
        replies = await asyncio.gather(*map(self._send, sent))
        self.answers += replies
        return [reply.status for reply in replies]

    async def call(self, method: str, path: str, *may_hold: str, **more: Any) -> httpx2.Response:
        """Of the API. `may_hold`: canaries that this answer is there to tell."""
        reply = await self.api.ask(method, path, **more)
        found = self.hits(f"{reply.headers} {reply.text}", *may_hold)
        assert not found, f"{method} {path}: {found}"
        return reply

    async def run(self, *words: str, status: int = 0) -> str:
        """A command of the program; in a thread, for it has a loop of its own."""
        words = (*words, "--config", str(self._config_file), "--data-dir", str(self.data))
        result = await asyncio.to_thread(CliRunner().invoke, main, words)
        assert result.exit_code == status, result.output
        self.commands.append(result.output)
        return result.stdout

    def hits(self, text: str | bytes, *except_for: str) -> list[str]:
        return self.canary_set.hits(text, *except_for)

    def search_files(self) -> list[str]:
        """The names of those that are there now, which hold nothing."""
        files = files_of(self.data)
        for name, data in files.items():
            found = self.hits(data)
            assert not found, f"{name}: {found}"
        return list(files)

    @asynccontextmanager
    async def database_away(self) -> AsyncIterator[None]:
        """Nobody else can write there for so long, and the gateway does not wait for it for long."""
        allow_database([self.setup], SHORT_S)
        if self.setup.storage.store.is_sqlite:
            with closing(sqlite3.connect(self.data / "streamweir.db", isolation_level=None)) as other:
                other.execute("BEGIN EXCLUSIVE")
                yield
                other.execute("ROLLBACK")
        else:
            other = await asyncpg.connect(configured(self._config_file.read_text()).store.url)
            async with other.transaction():
                await other.execute("LOCK TABLE ledger, requests, accounts IN EXCLUSIVE MODE")
                yield
            await other.close()
        allow_database([self.setup], PROGRAM_TIMEOUT_S)

    async def _send(self, request: bytes) -> Reply:
        async with await self.setup.gate.connect() as client:
            await client.send(request)
            return await client.response()


@asynccontextmanager
async def driving(database: str, folder: Path) -> AsyncIterator[Drive]:
    """PostgreSQL comes with a Valkey. The configuration is written to `folder`, and the data lies in it."""
    data, canary_set, valkey = folder / "data", CanarySet(), None
    data.mkdir()
    canary_set.canaries |= BOOKS
    async with AsyncExitStack() as stack:
        url, shared = await migrated_url(database, data), ""
        if database == "postgres":
            url = url.replace("postgres@", f"postgres:{B['password of the database']}@")
            valkey = stack.enter_context(ValkeyServer())
            valkey.execute("CONFIG", "SET", "requirepass", B["password of Valkey"])
            shared = f'[shared]\nurl = "redis://:{B["password of Valkey"]}@127.0.0.1:{valkey.port}/0"\n'
        await stack.enter_async_context(nothing_left())
        up = await stack.enter_async_context(ScriptedUpstream(play))
        toml = f'{providers_toml(up.base_url)}{KEYS_TOML}{_TOML}base_url = "{up.base_url}"\n'
        # End users are recorded, unless the operator says otherwise.
        toml += f'[store]\nurl = "{url}"\nend_user = "none"\n{shared}[alerts]\nerror_requests = 1\n'
        hook = f"http://127.0.0.1:{closed_port()}/{B['token of a webhook']}"
        toml += f'[[webhooks]]\nname = "ops"\nurl = "{hook}"\nsecret = "{B["secret of a webhook"]}"\n'
        (folder / "streamweir.toml").write_text(toml)
        admin = await prepare_accounting(configured(toml), data)
        assert admin is not None
        canary_set.add(admin_secret=admin)
        gate = await stack.enter_async_context(gateway(toml, data_dir=data, intervals=_PACE))
        setup = AccountingSetup(gate, up)
        served = gate.gateway._api(None)
        assert served is not None
        context = Context(
            store=setup.storage.store,
            accounting=setup.storage.accounting,
            runtime=lambda: gate.gateway.runtime,
            is_secure=False,
            playground=served.playground,
            feed=LiveFeed(setup.storage.store, setup.storage.accounting),
            refresh=setup.maintenance.load_changes,
        )
        api = Api(setup.storage, admin, context, Clock(), [])
        stack.push_async_callback(api.close)
        yield Drive(setup, api, folder, canary_set, valkey)
