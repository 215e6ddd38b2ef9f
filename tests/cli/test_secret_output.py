"""What the program says when it cannot start, or cannot reach its books: one line, and no secret in it (G25, S6).

Every command is tried on databases that are not there, not ours, not reachable or not even addresses;
`serve` besides with every other fault of a start. Then the real program runs with all its processes, some
of them are killed, and everything that it says, logs, leaves behind and has on its command lines is searched.
"""

import asyncio
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from streamweir.cli.main import main
from streamweir.server.telemetry.log import close_log
from support.answers import openai_stream
from support.canary import C, CanarySet, ask, files_of
from support.canary_gateway import BOOKS, B
from support.command import Commands
from support.gateway import providers
from support.postgres import shared_postgres
from support.script import Hang, Head, Seen, Send, Step, stream
from support.scripted_upstream import ScriptedUpstream, closed_port
from support.serve_process import PROGRAM, get, served
from support.stores import migrated_url
from support.valkey import ValkeyServer

PASSWORD = B["password of the database"]
VARIABLES = {"CANARY_STORE": PASSWORD, "CANARY_SHARED": B["password of Valkey"], "CANARY_KEY": C["key of a caller"]}
URLS = {
    "nobody there": "postgresql://someone:{hidden}@127.0.0.1:{port}/books",
    "a host that is none": "postgresql://someone:{hidden}@canary-host.invalid/books",
    "a database that is none": "postgresql://postgres:{hidden}@/nowhere?host={postgres}",
    "a user that is none": "postgresql://someone:{hidden}@/postgres?host={postgres}",
    "a password in the query": "postgresql://127.0.0.1:{port}/books?user=someone&password={hidden}",
    "a slash in the password": "postgresql://someone:{hidden}/x@127.0.0.1/books",
    "a hash in the password": "postgresql://someone:{hidden}#x@127.0.0.1/books",
    "a question in the password": "postgresql://someone:{hidden}?x@127.0.0.1/books",
    "a bracket in the password": "postgresql://someone:[{hidden}@127.0.0.1/books",
    "no host": "postgresql://someone:{hidden}",
    "a port that is none": "postgresql://someone:{hidden}@127.0.0.1:{hidden}/books",
    "another database's": "mysql://someone:{hidden}@127.0.0.1/books",
    "no address": "{hidden}",
    "a file of SQLite that is none": "sqlite://{hidden}",
    "a folder that cannot be made": "sqlite:////proc/{port}/books.db",
}
USAGE_EXPORT = Path(__file__).parents[1] / "policy" / "exportdata" / "openai-usage.csv"
COMMANDS = (
    ("keys", "list"),
    ("keys", "create", "ci"),
    ("credits", "show", "--json"),
    ("credits", "check"),
    ("logs",),
    ("logs", "--follow"),
    ("workspaces", "list"),
    ("people", "list"),
    ("prices", "show"),
    ("invoice", "default", "--month", "2026-05"),
    ("backup", "copy.db"),
    ("top", "--json"),
    ("reconcile", str(USAGE_EXPORT)),
    ("admin", "audit"),
    ("admin", "reset-secret"),
    ("serve", "--listen", "127.0.0.1:0"),
    ("serve", "--listen", "127.0.0.1:0", "--workers", "2"),
)


@pytest.fixture
def canary_set() -> CanarySet:
    birds = CanarySet(without=("host of a provider",))
    birds.canaries |= BOOKS
    return birds


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    yield
    close_log()


def told(folder: Path, toml: str, *words: str) -> str:
    """In one line, or one for each mistake."""
    (folder / "streamweir.toml").write_text(toml)
    places = ["--config", str(folder / "streamweir.toml"), "--data-dir", str(folder / "data")]
    result = CliRunner().invoke(main, [*words, *places], env=VARIABLES)
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit), "nothing unforeseen"
    assert result.stderr.startswith("Error: ")
    assert "Traceback" not in result.output
    assert result.stdout == ""
    return result.stderr


def test_every_command_that_reads_a_store_is_tried() -> None:
    """`doctor` says in its report what it cannot reach (test_doctor_command.py)."""
    with click.Context(main) as context:
        commands = {name: main.get_command(context, name) for name in main.list_commands(context)}
    reading = {name for name, command in commands.items() if command is not None and reads_a_store(command)}
    assert reading - {"doctor"} == {words[0] for words in COMMANDS}


def reads_a_store(command: click.Command) -> bool:
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    names = {parameter.name for parameter in command.params}
    return {"config_file", "data_dir"} <= names or any(reads_a_store(each) for each in inner)


@pytest.mark.parametrize("name", URLS)
def test_a_database_that_cannot_be_reached(name: str, canary_set: CanarySet, tmp_path: Path) -> None:
    url = URLS[name].format(hidden="${CANARY_STORE}", port=closed_port(), postgres=shared_postgres().folder)
    key = '[[keys]]\nname = "k"\nkey = "${CANARY_KEY}"\n'
    for words in COMMANDS:
        line = told(tmp_path, f'[store]\nurl = "{url}"\n{key}', *words)
        assert canary_set.hits(line) == [], words
        assert line.count("\n") == 1, line


@pytest.mark.parametrize(
    "url",
    [
        "http://:{hidden}@127.0.0.1",
        "redis://:{hidden}@127.0.0.1:{hidden}/0",
        "redis://:{hidden}@127.0.0.1:99999999/0",
        "redis://:{hidden}@127.0.0.1/0?nonsense={hidden}",
        "{hidden}",
    ],
)
def test_an_invalid_valkey_address(url: str, canary_set: CanarySet, tmp_path: Path) -> None:
    toml = f'[shared]\nurl = "{url.format(hidden="${CANARY_SHARED}")}"\n'
    line = told(tmp_path, toml, "serve", "--listen", "127.0.0.1:0")
    assert "shared" in line
    assert canary_set.hits(line) == []


def damaged(data: Path) -> None:
    (data / "streamweir.db").write_bytes(b"no database at all" * 1000)


def of_tomorrow(data: Path) -> None:
    with closing(sqlite3.connect(data / "streamweir.db")) as other:
        other.execute("CREATE TABLE alembic_version (version_num VARCHAR(32))")
        other.execute("INSERT INTO alembic_version VALUES ('9999')")
        other.commit()


def journal_is_a_file(data: Path) -> None:
    (data / "journal").write_text("a file")


def prices_are_none(data: Path) -> None:
    (data / "prices.json").write_text('{"nonsense": 1}')


@pytest.mark.parametrize("spoil", [damaged, of_tomorrow, journal_is_a_file, prices_are_none])
def test_a_data_folder_that_cannot_be_used(spoil: object, canary_set: CanarySet, tmp_path: Path) -> None:
    assert callable(spoil)
    (tmp_path / "data").mkdir()
    spoil(tmp_path / "data")
    toml = '[[keys]]\nname = "k"\nkey = "${CANARY_KEY}"\n'
    line = told(tmp_path, toml, "serve", "--listen", "127.0.0.1:0")
    assert canary_set.hits(line) == []
    assert line.count("\n") == 1


def test_other_faults_of_a_start(canary_set: CanarySet, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    secret = Commands(tmp_path / "data").json("keys", "create", "ci")["secret"]
    canary_set.add(stored_key=secret)
    key = '[[keys]]\nname = "k"\nkey = "${CANARY_KEY}"\n'
    # The secret of a key that was made here cannot be that of a key of the file; a limit needs one who counts.
    assert canary_set.hits(told(tmp_path, f'[[keys]]\nname = "k"\nkey = "{secret}"\n', "serve")) == []
    assert canary_set.hits(told(tmp_path, f"{key}rpm = 5\n", "serve", "--workers", "2")) == []
    with socket.create_server(("127.0.0.1", 0)) as other:
        line = told(tmp_path, key, "serve", "--listen", f"127.0.0.1:{other.getsockname()[1]}")
    assert "cannot listen there" in line
    assert canary_set.hits(line) == []


def test_the_program_itself_prints_nothing_more(canary_set: CanarySet, tmp_path: Path) -> None:
    (tmp_path / "streamweir.toml").write_text(
        f'[store]\nurl = "postgresql://someone:{PASSWORD}@127.0.0.1:{closed_port()}/books"\n'
    )
    words = ["--config", str(tmp_path / "streamweir.toml"), "--data-dir", str(tmp_path / "data")]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(  # noqa: S603
        [*PROGRAM, *words], capture_output=True, text=True, check=False, timeout=60, env=environ
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert canary_set.hits(done.stdout + done.stderr) == []


# The real program, with all its processes.


def variables_of(pid: int) -> dict[str, str]:
    told = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return {name: value for name, _, value in (each.partition("=") for each in told)}


def script(request: Seen) -> list[Step]:
    if request.json["model"] == "long":
        return [Head(), Send(openai_stream([C["answer"]], usage=None, finish=None, done=False)), Hang()]
    return stream(openai_stream([C["answer"]]))


async def test_processes_have_no_secret_to_show(
    canary_set: CanarySet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they are called with, what they log, what a killed one leaves behind; by PostgreSQL and Valkey."""
    database = await migrated_url("postgres", tmp_path)
    with ValkeyServer() as valkey:
        valkey.execute("CONFIG", "SET", "requirepass", B["password of Valkey"])
        for name, value in VARIABLES.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("CANARY_PROVIDER", C["key of a provider"])
        async with ScriptedUpstream(script) as up:
            toml = f"""
[store]
url = "{database.replace("postgres@", "postgres:${CANARY_STORE}@")}"
[shared]
url = "redis://:${{CANARY_SHARED}}@127.0.0.1:{valkey.port}/0"
{providers(up=up.base_url).replace("sk-upstream-secret", "${CANARY_PROVIDER}")}
[[keys]]
name = "first"
key = "${{CANARY_KEY}}"
rpm = 1000
"""
            async with served(tmp_path, toml, "--workers", "2") as program:
                secret = (await program.tells(r"^  admin +(sw-admin-\S+)$"))[1]
                canary_set.add(admin_secret=secret)
                workers = [(await program.logged("worker started"))["pid"] for _ in range(2)]
                for pid in workers:
                    assert canary_set.hits(Path(f"/proc/{pid}/cmdline").read_bytes()) == []
                    found = {name for name, value in variables_of(pid).items() if canary_set.hits(value)}
                    assert found == {*VARIABLES, "CANARY_PROVIDER"}, "those that the operator gave it, by their names"
                key = C["key of a caller"]
                assert (await program.answer(ask("up/m", key, stream=True))).status == 200
                assert (await program.answer(ask("nobody/m", key))).status == 404
                assert (await program.answer(get("/v1/models", secret))).status == 401
                async with await program.connect() as client:
                    await client.send(ask("up/long", key, stream=True))
                    assert (await client.head()).status == 200
                    for pid in workers:
                        os.kill(pid, signal.SIGKILL)
                await asyncio.gather(*(program.logged("worker started") for _ in range(2)))
                await program.logged("orphaned requests settled")
                metrics = await program.answer(get("/metrics", secret))
                assert metrics.status == 200
                assert canary_set.hits(metrics.head + metrics.body) == []
                program.signal(signal.SIGTERM)
                await program.status()
            said = [line for line in program.said if not line.startswith("  admin ")]
            assert canary_set.hits("\n".join(said)) == []
            assert canary_set.hits(str(program.events)) == []
    for name, data in files_of(tmp_path / "data").items():
        assert canary_set.hits(data) == [], name
