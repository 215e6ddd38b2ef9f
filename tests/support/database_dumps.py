"""Writes `tests/store/dumps`: databases and journals that older versions wrote, for the tests of upgrades.

    PYTHONPATH=tests .venv/bin/python -m support.database_dumps COMMIT NAME

The sources of COMMIT are taken from git and run with the packages of this environment. The old program serves the
simulator on SQLite and on PostgreSQL, twice: first with a clock that is 40 days behind, so that the periods of budgets
and of rules have ended, and is stopped. Then by the right clock, until it is killed while streams are open and while
its database is away: so reservations are open, and its journal has entries that the database lacks.
"""

import asyncio
import io
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from support.gateway import chat_request
from support.postgres import PrivatePostgres
from support.raw_client import CutShort
from support.serve_process import Program

FOLDER = Path(__file__).parents[1] / "store" / "dumps"
ROOT = Path(__file__).parents[2]
BEHIND_S = 40 * 86_400
FILE_KEY = "sk-of-the-file-0123456789abcdef"
LAUNCH = """
import os, time
behind = int(os.environ["BEHIND_S"]) * 10**9
real = time.time_ns
time.time_ns = lambda: real() - behind
time.time = lambda: time.time_ns() / 1e9
from streamweir.cli.main import main
main()
"""
CONFIG = """
[server]
listen = "127.0.0.1:0"

[store]
url = "{url}"
retention_days = 3650

[[providers]]
name = "sim"
kind = "sim"

[[models]]
id = "fast"
targets = [{{ provider = "sim", model = "hello" }}]
price = {{ input = 1, output = 4 }}

[[models]]
id = "long"
targets = [{{ provider = "sim", model = "lorem?words=400&pace_ms=50" }}]
price = {{ input = 1, output = 4 }}

[[models]]
id = "broken"
targets = [{{ provider = "sim", model = "cut" }}]
price = {{ input = 1, output = 4 }}

[[keys]]
name = "file"
key = "{key}"
scopes = ["chat", "models"]
"""
RULES = """
[[limits]]
name = "daily"
per = "user"
workspace = "acme"
budget_usd = 5
budget_period = "day"
"""


class OldProgram:
    """The program of a commit, with one data directory."""

    def __init__(self, source: Path, folder: Path, url: str) -> None:
        self.folder = folder
        self._source = source
        has_rules = "class LimitRule" in (source / "streamweir" / "config" / "model.py").read_text()
        text = CONFIG.format(url=url, key=FILE_KEY) + (RULES if has_rules else "")
        (folder / "streamweir.toml").write_text(text)

    def words(self, command: str, *words: str) -> list[str]:
        options = ["--config", str(self.folder / "streamweir.toml"), "--data-dir", str(self.folder / "data")]
        return [sys.executable, "-P", "-c", LAUNCH, *command.split(), *options, *words]

    def environ(self, behind_s: int) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self._source), "BEHIND_S": str(behind_s)}

    def run(self, behind_s: int, command: str, *words: str) -> str:
        done = subprocess.run(  # noqa: S603
            self.words(command, *words), env=self.environ(behind_s), check=True, capture_output=True, text=True
        )
        return done.stdout

    def make_key(self, behind_s: int, name: str, *options: str) -> str:
        found = re.search(r"sk-sw-\w+", self.run(behind_s, "keys create", name, *options))
        assert found is not None
        return found[0]

    @asynccontextmanager
    async def served(self, behind_s: int) -> AsyncIterator[Program]:
        process = await asyncio.create_subprocess_exec(
            *self.words("serve"),
            env=self.environ(behind_s),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        program = Program(process)
        try:
            await program.started()
            yield program
        finally:
            await program.end()


async def ask(program: Program, key: str, model: str, status: int = 200, **more: Any) -> None:
    """To the end of the answer."""
    async with await program.connect() as client:
        await client.send(chat_request(key=key, model=model, **more))
        with suppress(CutShort):  # of the model whose streams are cut
            reply = await client.response()
            assert reply.status == status, reply.body


async def begin(stack: AsyncExitStack, program: Program, key: str) -> None:
    """A stream that is read until its first words."""
    client = await stack.enter_async_context(await program.connect())
    await client.send(chat_request(key=key, model="long", stream=True))
    assert (await client.head()).status == 200
    for _ in range(8):
        assert await client.chunk()


def make_keys(old: OldProgram) -> dict[str, str]:
    old.run(BEHIND_S, "workspaces create", "acme", "--prepaid")
    old.run(BEHIND_S, "credits add", "acme", "25", "--note", "first")
    keys = {
        "daily": old.make_key(BEHIND_S, "daily", "--budget", "5", "--period", "day"),
        "content": old.make_key(BEHIND_S, "content", "--workspace", "acme", "--log-content"),
        "prepaid": old.make_key(BEHIND_S, "prepaid", "--workspace", "acme", "--rpm", "600"),
        "revoked": old.make_key(BEHIND_S, "revoked"),
    }
    return {"file": FILE_KEY, **keys}


async def send_traffic(program: Program, keys: dict[str, str]) -> None:
    for key in ("file", "daily", "content", "prepaid"):
        await ask(program, keys[key], "fast")
        await ask(program, keys[key], "fast", stream=True, user="ann")
    await ask(program, keys["daily"], "broken", stream=True)
    await ask(program, keys["daily"], "nonesuch", status=404)
    await ask(program, keys["prepaid"], "fast", headers=(("idempotency-key", f"once-{os.urandom(4).hex()}"),))


async def write_books(old: OldProgram, away: Any) -> dict[str, str]:
    """`away`: makes the database unavailable while it is entered."""
    keys = make_keys(old)
    async with old.served(BEHIND_S) as program:
        await send_traffic(program, keys)
        await ask(program, keys["revoked"], "fast")
        program.signal(signal.SIGTERM)
        assert await program.status() == 0
    old.run(0, "keys revoke", "revoked", *(["--yes"] if "--yes" in old.run(0, "keys revoke", "--help") else []))
    old.run(0, "credits add", "acme", "10", "--note", "second")
    async with old.served(0) as program, AsyncExitStack() as stack:
        await send_traffic(program, keys)
        await begin(stack, program, keys["daily"])
        await begin(stack, program, keys["prepaid"])
        await asyncio.sleep(3)  # until progress is written
        async with away:
            await ask(program, keys["file"], "fast")
            await ask(program, keys["file"], "fast", stream=True)
            await begin(stack, program, keys["file"])
            await asyncio.sleep(2)
            while not any("database" in each["event"] for each in program.events):
                await asyncio.sleep(0.1)
            program.process.kill()
            await program.status()
    return keys


@asynccontextmanager
async def locked_file(path: Path) -> AsyncIterator[None]:
    conn = sqlite3.connect(path, isolation_level=None)
    conn.execute("BEGIN IMMEDIATE")
    yield
    conn.execute("ROLLBACK")
    conn.close()


@asynccontextmanager
async def closed_database(server: PrivatePostgres, name: str) -> AsyncIterator[None]:
    server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")  # noqa: S608
    yield
    server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


def keep(old: OldProgram, sql: str, keys: dict[str, str], target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    (target / "journal").mkdir(parents=True)
    (target / "database.sql").write_text(sql)
    for each in (old.folder / "data" / "journal").glob("*.journal"):
        (target / "journal" / each.name).write_bytes(each.read_bytes().rstrip(b"\0"))
    (target / "keys.json").write_text(json.dumps(keys, indent=1) + "\n")


async def dump_sqlite(source: Path, folder: Path, target: Path) -> None:
    old = OldProgram(source, folder, "sqlite:///streamweir.db")
    path = folder / "data" / "streamweir.db"
    keys = await write_books(old, locked_file(path))
    conn = sqlite3.connect(path)
    keep(old, "\n".join(conn.iterdump()) + "\n", keys, target)
    conn.close()


async def dump_postgres(source: Path, folder: Path, target: Path) -> None:
    with PrivatePostgres().start() as server:
        url = server.make_database()
        name = url.partition("?")[0].rpartition("/")[2]
        old = OldProgram(source, folder, url)
        keys = await write_books(old, closed_database(server, name))
        dump = server.dump(name, "--inserts", "--rows-per-insert=100", "--no-owner").splitlines()
        plain = [line for line in dump if line and not line.startswith(("--", "\\"))]  # no words of psql
        keep(old, "\n".join(plain) + "\n", keys, target)


def extract(commit: str, folder: Path) -> Path:
    archive = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True)  # noqa: S603, S607
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")
    return folder / "src"


async def main() -> None:
    commit, name = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        source = extract(commit, Path(folder))
        for database, dump in (("sqlite", dump_sqlite), ("postgres", dump_postgres)):
            own = Path(folder) / database
            own.mkdir()
            await dump(source, own, FOLDER / name / database)
            print(f"{name}/{database} is written")  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())
