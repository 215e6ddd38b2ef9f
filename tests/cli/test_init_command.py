"""`streamweir init`: the file passes the checks of a start, whatever was chosen."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from streamweir.cli.initial_config import STORES, Choices, initial_config
from streamweir.cli.main import main
from streamweir.config.check import kinds
from streamweir.config.load import load_config

VALUES = {
    "DATABASE_URL": "postgresql://u@h/d",
    "VALKEY_URL": "redis://h",
    "AWS_REGION": "eu-central-1",
    "GOOGLE_CLOUD_PROJECT": "my-project",
    "AZURE_RESOURCE": "mine",
    "SNOWFLAKE_ACCOUNT": "mine",
    "OPENAI_COMPATIBLE_URL": "http://10.0.0.5:8000/v1",
    "STREAMWEIR_KEY": "Qx7vLmZ2pKd9RtYw4HbNc8Jf",
}


def environ_of(choices: Choices) -> dict[str, str]:
    return {name: VALUES.get(name, f"sk-Qx7vLmZ2pKd9RtYw4HbN-{name}") for name in choices.variables}


@pytest.mark.parametrize("kind", kinds())
@pytest.mark.parametrize("listen", ["127.0.0.1:8080", "0.0.0.0:8080"])
def test_every_choice_passes_the_checks_with_its_variables_and_not_without(
    tmp_path: Path, kind: str, listen: str
) -> None:
    file = tmp_path / "streamweir.toml"
    for number, store in enumerate(STORES):
        choices = Choices(providers=(kind,), listen=listen, store=store, is_shared=bool(number))
        file.write_text(initial_config(choices))
        config = load_config(file, environ_of(choices))
        assert [each.kind for each in config.providers] == [kind]
        assert bool(config.keys) is (listen == "0.0.0.0:8080")
        assert (config.shared is not None) is bool(number)


def test_a_file_is_written_for_its_owner_and_never_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["init", "--provider", "openai", "--provider", "anthropic", "--listen", "[::]:80"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    file = tmp_path / "streamweir.toml"
    assert file.stat().st_mode & 0o777 == 0o600
    exported = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "STREAMWEIR_KEY"]
    assert result.stdout.splitlines()[2:] == [
        *(f"  export {name}=..." for name in exported),
        "  streamweir config check",
        "  streamweir serve --config streamweir.toml",
    ]
    environ = {name: "Qx7vLmZ2pKd9RtYw4HbNc8Jf-" + name for name in exported}
    checked = CliRunner().invoke(main, ["config", "check"], env=environ)
    assert (checked.exit_code, checked.stdout) == (0, "streamweir.toml: no mistake was found.\n")
    before = file.read_bytes()
    again = CliRunner().invoke(main, words)
    assert (again.exit_code, again.stderr) == (
        1,
        "Error: streamweir.toml exists, and is not changed: name another file\n",
    )
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--provider", "opnai"], "there is no kind of provider 'opnai', did you mean openai?"),
        (["--provider", "nothing"], "there is no kind of provider 'nothing': alibaba, anthropic, "),
        (["--listen", "8080"], "'8080' is not HOST:PORT, such as 127.0.0.1:8080"),
        (["nowhere/x.toml"], "nowhere/x.toml: cannot be written: No such file or directory"),
    ],
)
def test_what_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], told: str) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["init", *words])
    assert result.exit_code == 1
    assert told in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    """The next run would find it, and not change it."""
    limits = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))"
    code = f"{limits}; from streamweir.cli.main import main; main()"
    done = subprocess.run(  # noqa: S603 (our own)
        [sys.executable, "-c", code, "init"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert (done.returncode, done.stderr) == (1, "Error: streamweir.toml: cannot be written: File too large\n")
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_is_asked(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    code = "from streamweir.cli.main import main; main()"
    with subprocess.Popen(  # noqa: S603 (our own)
        [sys.executable, "-c", code, "init"], stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, cwd=tmp_path
    ) as running:
        os.close(theirs)
        os.write(ours, b"opnai sim\nopenai sim\n8080\n\npostgresql\n")
        assert running.stdout is not None
        shown = running.stdout.read().decode()
    os.close(ours)
    assert running.returncode == 0
    assert "did you mean openai?" in shown
    assert "'8080' is not HOST:PORT" in shown
    assert "export DATABASE_URL=..." in shown
    config = load_config(
        tmp_path / "streamweir.toml", {"OPENAI_API_KEY": "sk-Qx7vLmZ2pKd9RtYw4HbN", "DATABASE_URL": "postgresql://h/d"}
    )
    assert [each.name for each in config.providers] == ["openai", "sim"]
