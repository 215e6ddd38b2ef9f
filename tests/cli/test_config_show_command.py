"""`streamweir config show`: what a start would use, or what a gateway uses, and which of them it is."""

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from streamweir.cli.commands.top import SECRET
from streamweir.cli.main import main
from streamweir.server.process.run_file import RUNTIME_DIR

CANARY = "canary-4f9a0c7be2d85163"
TOML = """
[server]
node = "${MODEL:-m}"
[store]
url = "postgresql://me:canary-hunter@db/books"
[[providers]]
name = "up"
kind = "openai"
drop = ["a\\u001b[2Jb"]
api_key = "${KEY}"
"""


def show(folder: Path, *words: str, monkeypatch: pytest.MonkeyPatch, secret: str | None = None) -> Result:
    monkeypatch.chdir(folder)
    environment = {"KEY": CANARY, "MODEL": None, SECRET: secret, RUNTIME_DIR: str(folder / "run")}
    result = CliRunner().invoke(main, ["config", "show", *words], env=environment)
    assert "canary" not in result.output
    assert isinstance(result.exception, SystemExit | None), "nothing unforeseen"
    return result


def test_a_file_as_a_start_would_use_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "streamweir.toml").write_text(TOML)
    result = show(tmp_path, monkeypatch=monkeypatch)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        f"# As {tmp_path}/streamweir.toml has it now, without secrets.",
        "",
        "[server]",
        'node = "m"  # streamweir.toml:3, environment variable MODEL is empty or not set',
        "",
        "[store]",
        'url = "postgresql://****@db/books"  # streamweir.toml:5',
        "",
        "[[providers]]",
        'name = "up"             # streamweir.toml:7',
        'kind = "openai"         # streamweir.toml:8',
        'api_key = "${KEY}"      # streamweir.toml:10, environment variable KEY',
        'drop = ["a\\u001b[2Jb"]  # streamweir.toml:9',
    ]
    assert tomllib.loads(result.stdout)["providers"][0]["drop"] == ["a\x1b[2Jb"]
    with_defaults = show(tmp_path, "--defaults", monkeypatch=monkeypatch).stdout
    assert "retention_days = 30.0" in with_defaults
    assert "# [server.tls] is not set" in with_defaults


def test_for_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.toml").write_text(TOML)
    document = json.loads(show(tmp_path, "a.toml", "--json", monkeypatch=monkeypatch).stdout)
    assert (document["source"], document["file"], document["url"]) == ("file", f"{tmp_path}/a.toml", None)
    lines = {line["path"]: line for section in document["sections"] for line in section["lines"]}
    assert lines["server.node"]["value"] == "m"
    assert lines["store.redact"] == {
        "path": "store.redact",
        "text": "redact = []",
        "value": [],
        "origin": "default",
        "about": "default",
        "is_default": True,
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a.toml",), "Error: a.toml:2:1: server.listne: unknown key, did you mean listen?"),
        (("none.toml",), "Error: none.toml: cannot be read: No such file or directory"),
        ((), "Error: there is no streamweir.toml in this folder"),
        (("--url", "http://127.0.0.1:1"), f"Error: --url needs the admin secret: set {SECRET}"),
        (("a.toml", "--url", "x"), "Error: name either a file or --url"),
    ],
)
def test_what_cannot_be_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str
) -> None:
    (tmp_path / "a.toml").write_text('[server]\nlistne = "127.0.0.1:1"\n')
    result = show(tmp_path, *words, monkeypatch=monkeypatch)
    assert (result.exit_code != 0, result.stdout) == (True, "")
    assert message in result.stderr


def test_a_gateway_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = show(tmp_path, "--url", "http://127.0.0.1:1", monkeypatch=monkeypatch, secret="x")  # noqa: S106
    assert (result.exit_code, result.stderr) == (1, "Error: http://127.0.0.1:1: Connection refused\n")
