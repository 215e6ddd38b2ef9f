"""`streamweir config check`: every mistake at once, with its line."""

import json
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from streamweir.cli.main import main
from streamweir.server.process.run_file import RUNTIME_DIR

CANARY = "canary-4f9a0c7be2d85163"


def check(folder: Path, *words: str, monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.chdir(folder)
    nothing_runs = {RUNTIME_DIR: str(folder / "run")}
    environment = {"UNSET_FOR_SURE": None, "SET": CANARY, **nothing_runs}
    result = CliRunner().invoke(main, ["config", "check", *words], env=environment)
    assert CANARY not in result.output
    assert isinstance(result.exception, SystemExit | None), "nothing unforeseen"
    return result


def test_every_mistake_has_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "streamweir.toml").write_text(
        '[[providers]]\nname = "claude"\nkind = "anthropc"\nrmp = 5\n'
        'api_key = "${UNSET_FOR_SURE}"\nheaders = "${SET}"\n'
    )
    result = check(tmp_path, monkeypatch=monkeypatch)
    assert (result.exit_code, result.stdout) == (1, "")
    kind, rpm, key, headers, summary = result.stderr.splitlines()
    assert kind.startswith(
        'streamweir.toml:3:1: providers.claude.kind: unknown kind "anthropc", did you mean anthropic'
    )
    assert rpm == "streamweir.toml:4:1: providers.claude.rmp: unknown key, did you mean rpm?"
    assert key.startswith("streamweir.toml:5:1: providers.claude.api_key: the environment variable UNSET_FOR_SURE is")
    assert headers.startswith("streamweir.toml:6:1: providers.claude.headers: expected a table of text")
    assert summary == "streamweir.toml: 4 mistakes"
    document = json.loads(check(tmp_path, "--json", monkeypatch=monkeypatch).stdout)
    assert document["problems"][1] == {
        "file": "streamweir.toml",
        "line": 4,
        "column": 1,
        "path": "providers.claude.rmp",
        "reason": "unknown key, did you mean rpm?",
    }


def test_a_file_without_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.toml").write_text('[[providers]]\nname = "a"\nkind = "openai"\napi_key = "${KEY}"\nrpm = 5\n')
    (tmp_path / "env").write_text(f"KEY={CANARY}\n")
    result = check(tmp_path, "a.toml", "--env-file", "env", monkeypatch=monkeypatch)
    assert (result.exit_code, result.output) == (0, "a.toml: no mistake was found.\n")
    assert check(tmp_path, "--config", "a.toml", "--env-file", "env", monkeypatch=monkeypatch).output == result.output
    twice = check(tmp_path, "a.toml", "--config", "a.toml", monkeypatch=monkeypatch)
    assert (twice.exit_code, "name the file once" in twice.output) == (2, True)
    result = check(tmp_path, "a.toml", "--env-file", "env", "--workers", "2", monkeypatch=monkeypatch)
    assert result.exit_code == 1
    assert result.stderr.startswith("a.toml:5:1: providers.a.rpm: a limit with 2 workers needs [shared]")


def test_what_is_not_toml_and_what_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.toml").write_text('[server]\nlisten = "x\n')
    assert check(tmp_path, "a.toml", monkeypatch=monkeypatch).stderr.startswith("a.toml:2:12: not TOML: ")
    (tmp_path / "a.toml").write_text("[server]\nlisten =")
    assert check(tmp_path, "a.toml", monkeypatch=monkeypatch).stderr.startswith("a.toml:2:9: not TOML: Invalid value")
    missing = check(tmp_path, "b.toml", "--json", monkeypatch=monkeypatch)
    assert json.loads(missing.stdout)["problems"][0]["reason"] == "cannot be read: No such file or directory"
    nothing = check(tmp_path, monkeypatch=monkeypatch)
    assert nothing.exit_code == 1
    assert nothing.stderr.startswith("Error: there is no streamweir.toml in this folder")


def test_credentials_of_clouds_are_checked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.toml").write_text(
        '[[providers]]\nname = "a"\nkind = "vertex"\nproject = "p"\ngoogle = { credentials_file = "nowhere" }\n'
    )
    result = check(tmp_path, "a.toml", monkeypatch=monkeypatch)
    assert result.exit_code == 1
    assert result.stderr.startswith("a.toml:1:1: providers.a: the file of credentials_file: it cannot be read")


def test_a_parent_that_ignores_the_end_of_its_children_hides_no_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system discards the status of a process whose parent ignores SIGCHLD, and this program inherits that."""
    (tmp_path / "a.toml").write_text(
        '[[providers]]\nname = "a"\nkind = "openai"\napi_key = { command = ["sh", "-c", "echo half; exit 3"] }\n'
    )
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        result = check(tmp_path, "a.toml", monkeypatch=monkeypatch)
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert result.exit_code == 1
    assert result.stderr.startswith("a.toml:4:1: providers.a.api_key: the command ended with status 3")
