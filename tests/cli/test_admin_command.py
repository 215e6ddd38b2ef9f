"""`streamweir admin`, and what every command that opens the store has in common: where it finds it, how it fails."""

import asyncio
import json
import os
import pty
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import Connection, delete

from streamweir.cli.main import main
from streamweir.policy import secret as form
from streamweir.policy.secret import is_well_formed
from streamweir.store.db.tables import audit as log
from streamweir.store.keys.sessions import create_session, find_session, is_admin_secret
from support.command import Commands
from support.key_store import NOW
from support.stores import migrated_url


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path)


def test_the_admin_secret_is_made_again(commands: Commands) -> None:
    token = commands.write(partial(create_session, actor="admin", at_ms=NOW))
    first = commands("admin", "reset-secret")
    secret = first.stdout.removesuffix("\n")
    assert is_well_formed(secret, form.ADMIN), "nothing else is on the output"
    assert "shown again" in first.stderr
    assert commands.read(partial(is_admin_secret, secret=secret))
    assert commands.read(partial(find_session, token=token, at_ms=NOW)) is None
    second = commands.json("admin", "reset-secret")["secret"]
    assert not commands.read(partial(is_admin_secret, secret=secret))
    assert commands.read(partial(is_admin_secret, secret=second))
    assert secret[:-4] not in commands("admin", "audit").output


def test_the_audit_log(commands: Commands) -> None:
    key = commands.json("keys", "create", "ci", "--rpm", "5")["key"]
    commands("keys", "change", "ci", "--rpm", "none", "--model", "a", "--model", "b")
    commands("workspaces", "create", "team")
    head, newest, change, create, default = commands.table("admin", "audit")
    assert head == ["SEQ", "AT", "ACTOR", "ACTION", "OBJECT", "DETAIL"]
    assert newest[0] == "4"
    assert change[2:] == ["cli", "key.change", key["id"], "models=- to a+b, rpm=5 to -"]
    assert create[3:] == ["key.create", key["id"], f"last4={key['last4']}, name=ci, rpm=5"]
    assert default[2] == "system"
    rows = commands.json("admin", "audit", "--limit", "2", "--before", "4", "--workspace", "default")
    assert [(row["seq"], row["action"]) for row in rows] == [(3, "key.change"), (2, "key.create")]
    assert len(commands.json("admin", "audit", "--before", str(2**63 - 1))) == 4
    assert "is not in the range" in commands.misused("admin", "audit", "--before", str(2**63))
    assert "there is no workspace" in commands.fails("admin", "audit", "--workspace", "nowhere")


def test_a_log_that_was_changed(commands: Commands) -> None:
    commands("keys", "create", "ci")
    assert commands.json("admin", "audit", "--verify") == {"first_broken_seq": None}

    def cut(conn: Connection) -> None:
        conn.execute(delete(log).where(log.c.seq == 2))

    commands.write(cut)
    found = commands("admin", "audit", "--verify", status=3)
    assert found.stderr == "The audit log was changed: row 2 is the first one that does not match its checksum.\n"


def test_before_the_first_start(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    result = CliRunner().invoke(main, ["keys", "create", "ci", "--data-dir", str(folder)])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"Error: {folder}/streamweir.db does not exist. Check --data-dir and --config, or create it with --create or "
        "`streamweir serve`\n"
    )
    assert not folder.parent.exists()
    result = CliRunner().invoke(main, ["keys", "create", "ci", "--create", "--data-dir", str(folder)])
    assert result.exit_code == 0, result.output
    assert is_well_formed(result.stdout.strip())
    assert (folder.stat().st_mode & 0o777, (folder / "streamweir.db").stat().st_mode & 0o777) == (0o700, 0o600)


def test_the_store_that_the_configuration_names(tmp_path: Path) -> None:
    url = asyncio.run(migrated_url("postgres", tmp_path))
    file = tmp_path / "streamweir.toml"
    file.write_text(
        '[store]\nurl = "${DATABASE}"\n[[providers]]\nname = "a"\nkind = "openai"\napi_key = "${UNSET_FOR_SURE}"\n'
    )
    environ = {"DATABASE": url, "UNSET_FOR_SURE": None}
    words = ["--config", str(file), "--data-dir", str(tmp_path / "data")]
    made = CliRunner().invoke(main, ["keys", "create", "ci", *words], env=environ)
    assert made.exit_code == 0, made.output
    named = re.fullmatch(r"Store: postgresql (\S+) \(no running gateway found\)", made.stderr.splitlines()[0])
    assert named is not None
    assert "@" not in named[1], "neither user nor password"
    listed = CliRunner().invoke(main, ["keys", "list", "--json", *words], env=environ)
    assert [key["name"] for key in json.loads(listed.stdout)] == ["ci"]
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        (None, "cannot be read: No such file"),
        ("[store", "not TOML"),
        ('[store]\nurk = "x"\n', "store.urk: unknown key, did you mean url?"),
        ('[store]\nurl = "mysql://x"\n', "store.url: must begin with sqlite://"),
        ('[store]\nurl = "none"\n', 'store.url is "none": there is no database'),
        ('[store]\nurl = "${UNSET_FOR_SURE}"\n', "UNSET_FOR_SURE is not set"),
        ('[store]\nurl = "postgresql://u:hunter2@127.0.0.1:1/db"\n', "cannot open the database"),
        ('[store]\nurl = "sqlite:////proc/nowhere.db"\n', "/proc/nowhere.db"),
    ],
)
def test_a_store_that_cannot_be_opened(tmp_path: Path, toml: str | None, told: str) -> None:
    file = tmp_path / "streamweir.toml"
    if toml is not None:
        file.write_text(toml)
    words = ["keys", "list", "--config", str(file), "--data-dir", str(tmp_path)]
    result = CliRunner().invoke(main, words, env={"UNSET_FOR_SURE": None})
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit), "nothing unforeseen"
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert told in result.stderr
    assert "hunter2" not in result.stderr


def test_a_data_directory_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file")
    words = ["keys", "list", "--data-dir", str(tmp_path / "file" / "x")]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 1
    assert "does not exist" in result.stderr
    result = CliRunner().invoke(main, [*words, "--create"])
    assert result.exit_code == 1
    assert "cannot be used as data directory" in result.stderr


def test_on_a_terminal_a_table_is_drawn(commands: Commands) -> None:
    """By a real one, for only there it is: bold heads, no column without a word, and the name as it is."""
    commands("keys", "create", "[red]ci[/]")
    ours, theirs = pty.openpty()
    environ = {**os.environ, "STREAMWEIR_DATA": str(commands.folder), "TERM": "xterm", "COLUMNS": "100"}
    environ.pop("NO_COLOR", None)
    code = "from streamweir.cli.main import main; main()"
    words = [sys.executable, "-c", code, "keys", "list"]
    with subprocess.Popen(words, stdout=theirs, stdin=subprocess.DEVNULL, env=environ) as running:  # noqa: S603
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # what Linux says at the end of a terminal
                break
            if not piece:
                break
            shown += piece
    os.close(ours)
    assert running.returncode == 0
    text = shown.decode()
    assert "\x1b[1m" in text
    assert "[red]ci[/]" in text
    assert "EXPIRES" not in text
    assert "WORKSPACE" in text
