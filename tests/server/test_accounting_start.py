"""When a gateway with a database does not start, and what it recovers when it does: docs/spec/failures.md G25 and G31.

A failed start is one clear line with the reason, and nothing was served. Each is the real program, from its command
line on.
"""

import asyncio
import re
import shutil
import signal
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from streamweir.store.db.clock import now_ms
from streamweir.store.keys.keys import create_key
from streamweir.store.keys.spec import KeySpec
from streamweir.store.keys.workspaces import WorkspaceSpec, create_workspace, open_default_workspace
from support.forked_processes import fork_server
from support.gateway import KEY, chat_request
from support.ledger_reader import open_ledger_reader
from support.postgres import shared_postgres
from support.scripted_upstream import closed_port
from support.serve_process import Program, command_of, get
from support.stores import each_database, migrated_url

SIM = '[[providers]]\nname = "sim"\nkind = "sim"\n'
SQLITE = "sqlite:///streamweir.db"
CANARY = "canary-3f9a77e1c2"
NEWER = "UPDATE alembic_version SET version_num = '9999'"
SECRET = re.compile(r"sw-admin-\w+")


def config(url: str = SQLITE, more: str = "") -> str:
    return f'[store]\nurl = "{url}"\n{SIM}{more}'


async def refused(folder: Path, toml: str, *arguments: str, is_mighty: bool = True) -> str:
    """The one line of a start that cannot be."""
    done = await fork_server().run("serve", *command_of(folder, toml, *arguments), is_mighty=is_mighty)
    assert done.status not in (0, -signal.SIGKILL), done
    assert done.output == "", "nothing was served"
    assert re.fullmatch(r"Error: [^\n]+\n", done.errors), done.errors
    assert CANARY not in done.errors
    return done.errors.removeprefix("Error: ").rstrip("\n")


async def command(folder: Path, *words: str) -> str:
    """What a command says on the same books."""
    done = await fork_server().run(
        *words, "--data-dir", str(folder / "data"), "--config", str(folder / "streamweir.toml")
    )
    assert done.status == 0, done
    return done.output


@asynccontextmanager
async def serving(folder: Path, toml: str, *arguments: str) -> AsyncIterator[Program]:
    """And stopped by a signal."""
    async with fork_server().served(folder, toml, *arguments) as program:
        await program.started()
        assert (await program.answer(get("/health"))).status == 200
        yield program
        program.signal(signal.SIGTERM)
        assert await program.status() == 0


def a_folder(path: Path) -> None:
    path.mkdir(parents=True)


def a_file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{ this is nothing")


def a_closed_folder(path: Path) -> None:
    a_folder(path)
    path.chmod(0o500)


def a_closed_file(path: Path) -> None:
    a_file(path)
    path.chmod(0)


@pytest.mark.parametrize(
    ("name", "make", "told"),
    [
        (".", a_closed_folder, "{data}: cannot be used as data directory: it is not writable"),
        ("streamweir.db", a_folder, "store.url: cannot open the database {data}/streamweir.db: Is a directory"),
        ("streamweir.db", a_file, "store.url: cannot open the database {data}/streamweir.db: the file is no SQLite"),
        ("streamweir.db", a_closed_file, "store.url: cannot open the database {data}/streamweir.db: Permission denied"),
        ("streamweir.db.lock", a_folder, "store.url: cannot lock the database {data}/streamweir.db: Is a directory"),
        ("prices.json", a_file, "{data}/prices.json: not a price list"),
        ("prices.json", a_closed_file, "{data}/prices.json: cannot be read: Permission denied"),
        ("journal", a_file, "{data}: the journal cannot be written: "),
        ("journal", a_closed_folder, "{data}: the journal cannot be written: Permission denied"),
    ],
)
@pytest.mark.parametrize("workers", ["1", "2"])
async def test_g25_files_in_the_way_of_the_database(
    tmp_path: Path, name: str, make: Callable[[Path], None], told: str, workers: str
) -> None:
    make(tmp_path / "data" / name)
    line = await refused(tmp_path, config(), "--workers", workers, is_mighty=False)
    assert line.startswith(told.format(data=tmp_path / "data"))


async def test_g25_a_database_file_that_may_only_be_read(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    await migrated_url("sqlite", tmp_path / "data")
    (tmp_path / "data" / "streamweir.db").chmod(0o400)
    line = await refused(tmp_path, config(), is_mighty=False)
    assert line == f"store.url: cannot open the database {tmp_path}/data/streamweir.db: Permission denied"


@each_database
async def test_g25_a_schema_of_a_newer_program_is_not_touched(database: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    url = await migrated_url(database, tmp_path / "data")
    if database == "sqlite":
        with closing(sqlite3.connect(tmp_path / "data" / "streamweir.db", isolation_level=None)) as conn:
            conn.execute(NEWER)
    else:
        shared_postgres().execute(NEWER, url.partition("?")[0].rpartition("/")[2])
    for workers in "12":
        line = await refused(tmp_path, config(url), "--workers", workers)
        assert line.startswith("store.url: the database has schema 9999, made by a newer streamweir; this one knows")


def _absent_server(_: Path) -> str:
    return f"postgresql://streamweir:{CANARY}@127.0.0.1:{closed_port()}/books"


def _absent_host(_: Path) -> str:
    return f"postgresql://streamweir:{CANARY}@nowhere.invalid/books"


def _absent_socket(folder: Path) -> str:
    return f"postgresql://streamweir:{CANARY}@/books?host={folder}"


def _absent_database(_: Path) -> str:
    return shared_postgres().url("nobody_made_this").replace("postgres@", f"postgres:{CANARY}@")


def _wrong_password(_: Path) -> str:
    """On the shared server, for a role of its own."""
    server = shared_postgres()
    rules = server.folder / "data" / "pg_hba.conf"
    rule = "local all locked scram-sha-256\n"
    if not rules.read_text().startswith(rule):
        server.execute("CREATE ROLE locked LOGIN PASSWORD 'another'")
        rules.write_text(rule + rules.read_text())
        server.execute("SELECT pg_reload_conf()")
    return server.url().replace("postgres@", f"locked:{CANARY}@")


@pytest.mark.parametrize(
    ("url_of", "told"),
    [
        (_absent_server, "Connect call failed|Connection refused"),
        (_absent_host, "Name or service not known|nodename nor servname|Temporary failure in name resolution"),
        (_absent_socket, "No such file or directory"),
        (_absent_database, 'database "nobody_made_this" does not exist'),
        (_wrong_password, 'password authentication failed for user "locked"'),
    ],
)
@pytest.mark.parametrize("workers", ["1", "2"])
async def test_g25_postgresql_that_cannot_be_used(
    tmp_path: Path, url_of: Callable[[Path], str], told: str, workers: str
) -> None:
    line = await refused(tmp_path, config(url_of(tmp_path)), "--workers", workers)
    assert re.match(rf"store\.url: cannot open the database \S+: .*({told})", line), line


async def test_g25_a_role_that_may_not_write(tmp_path: Path) -> None:
    url = await migrated_url("postgres", tmp_path)
    server, name = shared_postgres(), url.partition("?")[0].rpartition("/")[2]
    server.execute("DROP ROLE IF EXISTS reader")
    server.execute("CREATE ROLE reader LOGIN")
    server.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader", name)
    line = await refused(tmp_path, config(url.replace("postgres@", "reader@")))
    server.execute("DROP OWNED BY reader", name)
    assert line.startswith("store.url: ")
    assert "permission denied for table" in line


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_g31_a_second_server_on_one_file_is_refused_and_a_command_is_not(tmp_path: Path, workers: str) -> None:
    data = str(tmp_path / "data")
    async with serving(tmp_path, config()) as program:
        line = await refused(tmp_path, config(), "--workers", workers)
        assert line.startswith(f"store.url: the database {data}/streamweir.db is in use by another server (process ")
        made = await command(tmp_path, "keys", "create", "beside")
        secret = re.search(r"sk-sw-\w+", made)
        assert secret is not None
        while (await program.answer(get("/v1/models", secret[0]))).status != 200:
            await asyncio.sleep(0.05)  # it looks once a second
        reply = await program.answer(chat_request(key=secret[0], model="sim/hello", stream=True))
        assert reply.status == 200
        assert "beside" in await command(tmp_path, "keys", "list")
        assert "The ledger is consistent" in await command(tmp_path, "credits", "check")


LIMITED_KEY = f'[[keys]]\nname = "ci"\nkey = "{KEY}"\n'


@pytest.mark.parametrize("limit", ["rpm = 5", "tpm = 5", "max_streams = 5", "budget_usd = 5"])
async def test_several_workers_with_a_limit_in_the_file_need_what_they_share(tmp_path: Path, limit: str) -> None:
    line = await refused(tmp_path, config(more=f"{LIMITED_KEY}{limit}\n"), "--workers", "2")
    name = limit.partition(" ")[0]
    assert f"keys.ci.{name}: a limit with 2 workers needs [shared] (Valkey or Redis)" in line


@each_database
@pytest.mark.parametrize("limited", ["key", "workspace"])
async def test_several_workers_with_a_limit_in_the_database_need_shared_state(
    database: str, tmp_path: Path, limited: str
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    url = await migrated_url(database, data)
    async with open_ledger_reader(url, data) as accounting:
        await accounting.store.write(lambda conn: open_default_workspace(conn, now_ms()))
        if limited == "key":
            spec = KeySpec(name="slow", rpm=5)
            await accounting.store.write(lambda conn: create_key(conn, "default", spec, actor="test", at_ms=now_ms()))
        else:
            paid = WorkspaceSpec(name="paid", prepaid=True)
            await accounting.store.write(lambda conn: create_workspace(conn, paid, actor="test", at_ms=now_ms()))
    line = await refused(tmp_path, config(url), "--workers", "2")
    assert re.match(r"shared: is required: .*(slow|paid).* has a limit, and 2 workers need Valkey or Redis", line), line


@each_database
async def test_the_admin_secret_is_shown_once_and_all_is_there_after_a_restart(database: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    url = SQLITE if database == "sqlite" else shared_postgres().make_database()
    async with serving(tmp_path, config(url)) as program:
        await program.tells("curl -N")
        (secret,) = SECRET.findall("\n".join(program.said))
        made = re.search(r"sk-sw-\w+", await command(tmp_path, "keys", "create", "kept"))
        assert made is not None
        reply = await program.answer(chat_request(model="sim/hello", stream=True))
        assert reply.status == 200
    async with serving(tmp_path, config(url)) as program:
        await program.tells("curl -N")
        assert not SECRET.search("\n".join(program.said))
        own = await program.answer(chat_request(key=made[0], model="sim/hello", stream=True))
        assert own.status == 200
        admin = await program.answer(
            get("/api/keys", secret)
        )  # what was written down before is in the database by then
        assert admin.status == 200
        assert b'"kept"' in admin.body
        async with open_ledger_reader(url, data) as accounting:
            rows = (await accounting.look()).rows
            assert rows.keys() == {reply.header("x-request-id"), own.header("x-request-id")}
    shutil.rmtree(data / "journal")
    async with serving(tmp_path, config(url)) as program:
        await program.tells("curl -N")
        assert not SECRET.search("\n".join(program.said))
        assert (await program.answer(get("/v1/models", made[0]))).status == 200
