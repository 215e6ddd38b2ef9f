"""Commands beside a running gateway find it: one is started, and all of them act on it."""

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from streamweir.cli.main import main
from streamweir.policy.secret import ADMIN, is_well_formed
from streamweir.server.process.run_file import RUNTIME_DIR
from support.deadlines import WAIT_TIMEOUT_S
from support.gateway import KEY
from support.script import End, Head, Send, Step, Wait
from support.serve_process import BEGUN, REST, Program, begin, get, served_before

_RUN = "from streamweir.cli.main import main; main()"


async def run(*words: str, **environ: str | None) -> Result:
    """In a thread: the gateway's provider is in this loop."""
    done = await asyncio.to_thread(partial(CliRunner().invoke, main, words, env={"COLUMNS": "200", **environ}))
    assert isinstance(done.exception, SystemExit | None), "nothing unforeseen"
    return done


async def top_in_a_terminal(*words: str) -> str:
    """What it shows until it has shown a running request, and q was pressed."""
    ours, theirs = pty.openpty()
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "200", "LINES": "20"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _RUN, "top", *words, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=environ
    )
    os.close(theirs)
    shown = b""
    while b"streaming" not in shown:
        shown += await asyncio.wait_for(asyncio.to_thread(os.read, ours, 65_536), WAIT_TIMEOUT_S)
    os.write(ours, b"q")
    await asyncio.wait_for(process.communicate(), WAIT_TIMEOUT_S)
    os.close(ours)
    assert process.returncode == 0
    return shown.decode(errors="replace")


async def listed(program: Program) -> str:
    """The id of the running request, when the database has it: the API writes what is in the journal first."""
    while not (rows := json.loads((await program.answer(get("/api/live", KEY))).body)["data"]):
        pass
    found: str = rows[0]["request_id"]
    return found


async def check_config_show(program: Program, file: Path, secret: str) -> None:
    """Of the file, and of the gateway that runs with it: before and after a reload."""
    file.write_text(f"{file.read_text()}\n[alerts]\nerror_minutes = 7\n")
    by_file = await run("config", "show")
    assert by_file.stdout.startswith(f"# As {file} has it now, without secrets.\n# A gateway runs with this file (pid ")
    assert "error_minutes = 7" in by_file.stdout
    by_gateway = await run("config", "show", STREAMWEIR_ADMIN_SECRET=secret)
    assert by_gateway.stdout.startswith(f"# What the gateway at {program.base_url} uses, without secrets.\n")
    assert "error_minutes" not in by_gateway.stdout
    assert "# --listen" in by_gateway.stdout
    program.signal(signal.SIGHUP)
    await program.logged("configuration reloaded")
    asked = await run("config", "show", "--url", program.base_url, "--secret", secret)
    assert "error_minutes = 7" in asked.stdout
    (reload,) = json.loads((await program.answer(get("/api/settings", secret))).body)["reloads"]
    assert [(each["path"], each["before"], each["after"]) for each in reload["changes"]] == [
        ("alerts.error_minutes", "5", "7")
    ]
    wrong = await run("config", "show", STREAMWEIR_ADMIN_SECRET="sw-wrong")  # noqa: S106
    assert "The secret or the API key is not valid." in wrong.stderr


async def test_commands_find_the_gateway_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, runtime = tmp_path / "home", tmp_path / "runtime"
    for folder in (home, runtime):
        folder.mkdir(mode=0o700)
    monkeypatch.setenv(RUNTIME_DIR, str(runtime))
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    monkeypatch.delenv("STREAMWEIR_DATA", raising=False)
    monkeypatch.chdir(home)
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(BEGUN), Wait(go_on), Send(REST), End()]
    assert (await run("status")).exit_code == 3
    mistyped = await run("status", "--data-dir", "typo")
    assert "No gateway is running with the data directory" in mistyped.stderr
    assert "typo, which does not exist." in mistyped.stderr
    assert "no command 'stats', did you mean status?" in (await run("stats")).stderr
    assert "no gateway was found: none of this user is running" in (await run("keys", "list")).stderr
    async with served_before(script, tmp_path) as (program, _):
        database = tmp_path / "data" / "streamweir.db"
        store = f"Store: sqlite {database} (gateway running, pid {program.pid})\n"
        of_the_gateway = tmp_path / "streamweir.toml"
        assert (await run("config", "check")).stdout == f"{of_the_gateway}: no mistake was found.\n"
        (home / "streamweir.toml").touch()
        assert (await run("config", "check")).stdout == "streamweir.toml: no mistake was found.\n"
        (home / "streamweir.toml").unlink()
        created = await run("keys", "create", "ci")
        assert created.stderr.startswith(store)
        secret = created.stdout.strip()
        reset = await run("admin", "reset-secret")
        assert reset.stderr.startswith(store)
        assert is_well_formed(reset.stdout.strip(), ADMIN)
        settings = await program.answer(get("/api/settings", reset.stdout.strip()))
        assert settings.status == 200, "the gateway takes the new secret"
        await check_config_show(program, of_the_gateway, reset.stdout.strip())

        async with await program.connect() as client:
            stream = await begin(client)
            request = await listed(program)
            (status,) = json.loads((await run("status", "--json")).stdout)
            assert (status["pid"], status["is_ready"], status["open_requests"]) == (program.pid, True, 1)
            assert status["urls"] == [program.base_url]
            assert status["config_file"] == str(tmp_path / "streamweir.toml")
            assert KEY not in str(status)
            by_store = await run("top", "--once")
            assert by_store.stderr == store
            assert f"{request}  " in by_store.stdout
            by_api = await run("top", "--json", "--url", program.base_url, STREAMWEIR_ADMIN_SECRET=reset.stdout.strip())
            assert [each["request_id"] for each in json.loads(by_api.stdout)["data"]] == [request]
            wrong = await run("top", "--url", program.base_url, "--secret", "sw-wrong")
            assert "The secret or the API key is not valid." in wrong.stderr
            assert request in await top_in_a_terminal()
            go_on.set()
            await stream.rest()

        shown = await run("status")
        assert shown.exit_code == 0
        assert f"pid {program.pid}, version " in shown.stdout
        assert secret not in shown.stdout
        program.signal(signal.SIGINT)
        assert await program.status() == 0
    assert list(runtime.iterdir()) == []
    assert list((tmp_path / "data").glob("gateway-*")) == []
    assert (await run("status")).exit_code == 3
    assert list(home.iterdir()) == [], "nothing was created beside it"
