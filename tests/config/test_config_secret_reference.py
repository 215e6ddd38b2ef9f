"""Secrets in other files, or printed by commands: where the file may name them, and what is told of a failure."""

import os
from json import dumps
from pathlib import Path
from threading import Event, Thread

import pytest
from msgspec import structs

from streamweir.config.display.effective import sections_of
from streamweir.config.display.origin import Origins
from streamweir.config.error import ConfigError
from streamweir.config.file.secret_reference import (
    MAX_BYTES,
    Reference,
    SecretCommand,
    SecretFile,
    SecretValues,
    Unresolved,
)
from streamweir.config.load import load_config
from streamweir.config.model import Config

SECRET = "canary-Qx7vLmZ2pKd9RtYw"  # noqa: S105
TOML = """
[store]
url = { command = ["sh", "-c", "echo sqlite:///$NAME.db"], refresh_s = 0 }
[shared]
url = { file = "shared" }
[[providers]]
name = "a"
kind = "openai"
api_key = { command = ["./print", "${FIRST}", "$(b) ; c"] }
proxy = { command = ["printf", "http://me:canary-of-the-proxy@proxy:3128\\\\n"] }
headers = { x-team = { file = "team" }, x-plain = "plain" }
[[providers]]
name = "b"
kind = "openai"
api_keys = [{ key = { file = "team" } }, "sk-other"]
[[webhooks]]
name = "hook"
url = { file = "hook", refresh_s = 5 }
secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8G"
[[keys]]
name = "ci"
key = { file = "ci" }
"""


def load(folder: Path, toml: str, secrets: SecretValues | None = None) -> Config:
    file = folder / "streamweir.toml"
    file.write_text(toml)
    return load_config(file, {"FIRST": "one word"}, secrets=secrets)


def problems(folder: Path, toml: str, secrets: SecretValues | None = None) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as raised:
        load(folder, toml, secrets)
    assert SECRET not in str(raised.value)
    return [(each.where, each.reason) for each in raised.value.problems]


def key_from(table: str) -> str:
    return f'[[providers]]\nname = "up"\nkind = "openai"\napi_key = {table}\n'


def shell(script: str, more: str = "") -> str:
    return f'{{ command = ["sh", "-c", {dumps(script)}]{more and ", "}{more} }}'


def test_every_secret_may_be_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "of the process")
    (tmp_path / "print").write_text('#!/bin/sh\necho "sk-$#-$1-$2" | tr " ;()$" "-----"\n')
    (tmp_path / "print").chmod(0o700)
    for name in ("shared", "team", "ci"):
        (tmp_path / name).write_text(f"\n redis://:{SECRET}-{name}@cache/0 \r\n")
    (tmp_path / "hook").write_text(f"https://hook.example/{SECRET}")
    secrets = SecretValues()
    config = load(tmp_path, TOML, secrets)
    a, b = config.providers
    assert config.store.url == "sqlite:///of the process.db"
    assert config.shared is not None
    assert config.shared.url == f"redis://:{SECRET}-shared@cache/0"
    assert a.api_key == "sk-2-one-word---b----c", "two arguments, and no shell has read them"
    assert a.proxy == "http://me:canary-of-the-proxy@proxy:3128"
    assert a.headers == {"x-team": f"redis://:{SECRET}-team@cache/0", "x-plain": "plain"}
    assert b.api_keys[0].key == f"redis://:{SECRET}-team@cache/0"
    assert config.webhooks[0].url == f"https://hook.example/{SECRET}"
    assert "canary" not in repr(config)
    shown = [setting for section in sections_of(config, Origins()) for setting in section.lines]
    assert "canary" not in repr(shown)
    assert {each.path: each.value for each in shown}["providers.b.api_keys.1.key"] == "****he/0"
    assert set(secrets.used.values()) == {
        "store.url",
        "shared.url",
        "providers.a.api_key",
        "providers.a.proxy",
        "providers.a.headers.x-team",
        "webhooks.hook.url",
        "keys.ci.key",
    }, "one file with one interval is one reference"


@pytest.mark.parametrize(
    ("table", "where", "reason"),
    [
        ("{}", "", "expected text, or a table with either command or file"),
        ('{ command = ["a"], file = "b" }', "", "expected text, or a table with either command or file"),
        ("{ command = [] }", ".command", "expected the program and its arguments"),
        ('{ command = [""] }', ".command", "expected the program and its arguments"),
        ('{ command = "vault" }', ".command", 'expected a list of text, got "vault"'),
        ('{ command = ["a"], timeout_s = 61 }', ".timeout_s", "expected a number above 0, at most 60"),
        ('{ file = "b", timeout_s = 5 }', ".timeout_s", "unknown key"),
        ('{ file = "b", refresh_s = -1 }', ".refresh_s", "expected a number from 0 to 86400"),
        ('{ file = "nowhere" }', "", "file not found"),
        ('{ file = "." }', "", "is not a regular file"),
        ('{ file = "empty" }', "", "the file is empty"),
        ('{ file = "large" }', "", f"is larger than {MAX_BYTES} bytes"),
        ('{ file = "spaced" }', "", "contains a character that cannot be sent, such as a space or a line break"),
        ('{ command = ["no-such-program"] }', "", "the command was not found"),
        ('{ command = ["./empty"] }', "", "the command cannot be run: Permission denied"),
        ('{ command = ["a\\u0000b"] }', "", "the command cannot be run: not a command"),
        (shell(f"echo {SECRET}; echo {SECRET} >&2; exit 3"), "", "the command ended with status 3"),
        (shell(f"echo {SECRET}; kill -9 $$$$"), "", "the command was ended by signal 9"),
        (shell("echo"), "", "the command printed nothing"),
        (shell("printf '\\377'"), "", "what the command printed is not UTF-8 text"),
        (shell("yes"), "", f"the command printed more than {MAX_BYTES} bytes"),
        (shell(f"echo {SECRET}; exec >&-; sleep 3600", "timeout_s = 0.1"), "", "the command took longer than 0.1 s"),
    ],
)
def test_a_secret_that_cannot_be_read(tmp_path: Path, table: str, where: str, reason: str) -> None:
    for name, text in {"empty": " \n", "large": "x" * (MAX_BYTES + 1), "spaced": f"{SECRET} {SECRET}"}.items():
        (tmp_path / name).write_text(text)
    ((at, why),) = problems(tmp_path, key_from(table))
    assert at == f"providers.up.api_key{where}"
    assert why.startswith(reason)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("(echo x >&3; sleep 3600) 3>alive &", [("providers.up.api_key", "the command took longer than 0.3 s")]),
        (f"exec 3>alive; echo x >&3; sleep 3600 >/dev/null & echo {SECRET}", []),
    ],
    ids=["it has the output of the command", "it has not"],
)
def test_what_a_command_has_started_is_killed_with_it(
    tmp_path: Path, script: str, expected: list[tuple[str, str]]
) -> None:
    """Also if the command itself has ended."""
    os.mkfifo(tmp_path / "alive")
    alive = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    if expected:
        assert problems(tmp_path, key_from(shell(script, "timeout_s = 0.3"))) == expected
    else:
        assert load(tmp_path, key_from(shell(script))).providers[0].api_key == SECRET
    os.set_blocking(alive, True)
    assert os.read(alive, 100) == b"x\n"
    assert os.read(alive, 100) == b"", "nobody has it open any more"
    os.close(alive)


def test_no_command_is_run_for_a_file_with_mistakes(tmp_path: Path) -> None:
    toml = key_from(shell("touch ran; echo x")) + "api_kye = 1\n"
    assert problems(tmp_path, toml) == [("providers.up.api_kye", "unknown key, did you mean api_key?")]
    assert not (tmp_path / "ran").exists()


def test_a_value_stays_when_it_cannot_be_read_again(tmp_path: Path) -> None:
    key, other, secrets = tmp_path / "key", tmp_path / "other", SecretValues()
    toml = key_from('{ file = "key" }') + '[[keys]]\nname = "ci"\nkey = { file = "other" }\n'
    key.write_text("sk-first")
    other.write_text(SECRET)
    before = load(tmp_path, toml, secrets)
    key.write_text("sk-second")
    assert load(tmp_path, toml, secrets) == before, "it is known"
    key.unlink()
    other.write_text(f"{SECRET}-new")
    secrets.expire()
    after = load(tmp_path, toml, secrets)
    assert (after.providers[0].api_key, after.keys[0].key) == ("sk-first", f"{SECRET}-new")
    assert secrets.failed == {SecretFile(file=str(key)): "file not found"}
    assert problems(tmp_path, toml.replace('"key"', '"new"'), secrets) == [("providers.up.api_key", "file not found")]
    load(tmp_path, "", secrets)
    assert (secrets.used, secrets.values) == ({}, {}), "what no setting names is forgotten"


def test_the_end_of_the_process_does_not_wait_for_a_command(tmp_path: Path) -> None:
    secrets, begun, found = SecretValues(), Event(), dict[Reference, str | Unresolved]()
    os.mkfifo(tmp_path / "begun")
    command = SecretCommand(command=("sh", "-c", "echo x >begun; sleep 3600"), timeout_s=60.0)

    def wait() -> None:
        with (tmp_path / "begun").open() as fifo:
            fifo.read()
        begun.set()

    waiting = [Thread(target=wait), Thread(target=lambda: found.update(secrets.resolve([command], tmp_path)))]
    for each in waiting:
        each.start()
    assert begun.wait(60)
    secrets.stop()
    for each in waiting:
        each.join()
    assert str(found[command]) == "the process is stopping"
    (late,) = secrets.resolve([structs.replace(command, timeout_s=1.0)], tmp_path).values()
    assert str(late) == "the process is stopping"


def test_several_are_read_at_the_same_time(tmp_path: Path) -> None:
    """Each waits for the other."""
    for name in "ab":
        os.mkfifo(tmp_path / name)
    script = "exec 3<>$0; echo x >$1; read word <&3; echo $word"
    commands = [SecretCommand(command=("sh", "-c", script, *names), timeout_s=60.0) for names in ("ab", "ba")]
    assert list(SecretValues().resolve(commands, tmp_path).values()) == ["x", "x"]
