"""`streamweir keys`, as a person and a script meet it, on a real store."""

import re
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streamweir.policy.access import Key, digest_of
from streamweir.policy.secret import is_well_formed
from streamweir.store.keys.changes import changes_since
from streamweir.store.keys.file_keys import put_file_keys
from support.command import Commands
from support.key_store import NOW
from support.untrusted_texts import FOREIGN

HOUR_MS = 3_600_000
ONCE = "The secret (it is not stored and will not be shown again):"


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path)


def test_a_key_is_made_and_the_secret_can_be_caught(commands: Commands) -> None:
    made = commands("keys", "create", "ci")
    secret = made.stdout.removesuffix("\n")
    assert is_well_formed(secret), "nothing else is on the output"
    assert ONCE in made.stderr
    assert secret not in made.stderr
    (state,) = commands.read(partial(changes_since, version=0)).keys
    assert state.digests == {digest_of(secret): None}
    for words in (("keys", "list"), ("keys", "show", "ci"), ("keys", "list", "--json"), ("admin", "audit")):
        assert secret[:-4] not in commands(*words).output


def test_the_database_is_named_by_a_variable_of_a_file(commands: Commands) -> None:
    file, variables = commands.folder / "s.toml", commands.folder / "env"
    file.write_text('[store]\nurl = "${BOOKS_URL}"\n')
    variables.write_text("BOOKS_URL=sqlite:///streamweir.db\n")
    assert "BOOKS_URL is not set" in commands.fails("keys", "create", "ci", "--config", str(file))
    commands("keys", "create", "ci", "--config", str(file), "--env-file", str(variables))
    assert "ci" in commands("keys", "list").stdout


def test_the_database_is_named_by_a_command_and_no_other_command_is_run(commands: Commands) -> None:
    file = commands.folder / "s.toml"
    other = '[[providers]]\nname = "up"\nkind = "openai"\napi_key = { command = ["touch", "ran"] }\n'
    file.write_text(f'[store]\nurl = {{ command = ["cat", "url"] }}\n{other}')
    problem = f"{file}: store.url: the command ended with status 1"
    assert problem in commands.fails("keys", "create", "ci", "--config", str(file))
    (commands.folder / "url").write_text("sqlite:///streamweir.db\n")
    commands("keys", "create", "ci", "--config", str(file))
    assert "ci" in commands("keys", "list").stdout
    assert not (commands.folder / "ran").exists()


def test_all_settings_of_a_new_key(commands: Commands) -> None:
    commands("workspaces", "create", "team")
    before_ms = time.time_ns() // 1_000_000
    options = "--workspace team --scope admin --scope chat --model gpt-* --model sim/hello --rpm 60 --tpm 1000"
    more = "--max-streams 3 --budget 12.5 --period month --dialect aivene --expires 30d --log-content"
    new = commands.json("keys", "create", "ci", *options.split(), *more.split())
    key, secret = new["key"], new["secret"]
    assert is_well_formed(secret)
    assert (key["name"], key["last4"], key["origin"]) == ("ci", secret[-4:], "store")
    assert (key["scopes"], key["models"], key["dialect"]) == (["chat", "admin"], ["gpt-*", "sim/hello"], "aivene")
    assert (key["rpm"], key["tpm"], key["max_streams"], key["log_content"]) == (60, 1000, 3, True)
    assert (key["budget_nano"], key["budget_period"]) == (12_500_000_000, "month")
    assert 0 <= key["expires_ms"] - before_ms - 30 * 24 * HOUR_MS < HOUR_MS
    assert commands.json("keys", "list") == [key]
    assert commands.json("keys", "show", "ci") == key
    head, row = commands.table("keys", "list")
    assert head == ["NAME", "ID", "WORKSPACE", "SECRET", "STATE", "SCOPES", "MODELS", "LIMITS", "EXPIRES", "PERSON"]
    assert row[:6] == ["ci", key["id"], "team", f"...{secret[-4:]}", "active", "chat,admin"]
    assert row[6:8] == ["gpt-*, sim/hello", "60 rpm, 1,000 tpm, 3 streams, $12.50 a month"]
    shown = commands("keys", "show", key["id"]).stdout
    for line in (r"workspace +team", r"budget +\$12\.50 a month", r"content +may be logged", r"dialect +aivene"):
        assert re.search(f"^{line}$", shown, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--rpm", "none"], {"rpm": None}),
        (["--rpm", "7", "--tpm", "8", "--max-streams", "9"], {"rpm": 7, "tpm": 8, "max_streams": 9}),
        (["--budget", "none"], {"budget_nano": None, "budget_period": None}),
        (["--budget", "0.000000001"], {"budget_nano": 1}),
        (["--period", "day"], {"budget_period": "day"}),
        (["--model", "x"], {"models": ["x"]}),
        (["--all-models"], {"models": None}),
        (["--scope", "models"], {"scopes": ["models"]}),
        (["--dialect", "none"], {"dialect": None}),
        (["--expires", "never"], {"expires_ms": None}),
        (["--expires", "2099-01-31T00:00:00Z"], {"expires_ms": 4_073_500_800_000}),
        (["--log-content"], {"log_content": True}),
        (["--show-routing"], {"show_routing": True}),
        (["--no-show-routing"], {}),
        (["--show-cost"], {"show_cost": True}),
        (["--resumable"], {"resumable": True}),
        (["--no-show-cost"], {}),
        (["--price-group", "resale"], {"price_group": "resale"}),
        (["--price-group", "none"], {}),
        (["--name", "none"], {"name": "none"}),
    ],
)
def test_a_change(commands: Commands, words: list[str], expected: dict[str, Any]) -> None:
    options = ["--rpm", "60", "--model", "gpt-*", "--dialect", "openai", "--expires", "1d", "--budget", "1"]
    key = commands.json("keys", "create", "ci", *options)["key"]
    assert commands.json("keys", "change", "ci", *words) == {**key, **expected}


def test_rotation_and_revocation(commands: Commands) -> None:
    first = commands("keys", "create", "ci").stdout.strip()
    rotated = commands("keys", "rotate", "ci", "--grace", "2h")
    second = rotated.stdout.strip()
    assert is_well_formed(second)
    assert second != first
    assert re.search(r"^old secret +valid until", rotated.stderr, re.MULTILINE)
    key = commands.json("keys", "show", "ci")
    assert 0 <= key["old_until_ms"] - time.time_ns() // 1_000_000 + HOUR_MS < 3 * HOUR_MS
    assert commands.json("keys", "rotate", "ci", "--grace", "0")["key"]["old_until_ms"] is None
    assert commands("keys", "revoke", "ci").stdout.startswith(f"revoked  ci ({key['id']})")
    assert commands.json("keys", "revoke", key["id"])["revoked_ms"] is not None, "again is no error"
    assert commands.json("keys", "list") == []
    assert commands("keys", "list").stderr == "There are no keys. `streamweir keys create NAME` makes one.\n"
    assert [row[4] for row in commands.table("keys", "list", "--all")] == ["STATE", "revoked"]
    assert "is revoked" in commands.fails("keys", "rotate", "ci")
    assert "is revoked" in commands.fails("keys", "change", "ci", "--rpm", "1")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["keys", "show", "nobody"], "there is no key 'nobody'"),
        (["keys", "revoke", "x' OR '1'='1"], "there is no key \"x' OR '1'='1\""),
        (["keys", "create", "ci"], "a key named 'ci' already exists in this workspace"),
        (["keys", "create", ""], "a name must have 1 to 64 characters, got 0"),
        (["keys", "create", "x", "--workspace", "nowhere"], "there is no workspace 'nowhere'"),
        (["keys", "create", "x", "--scope", "root"], 'unknown scope "root": expected chat, models, admin, metrics'),
        (["keys", "create", "x", "--scope", "metrics", "--scope", "chat"], "the scope metrics goes with no other"),
        (["keys", "create", "x", "--dialect", "openia"], 'unknown dialect "openia": expected openai'),
        (["keys", "create", "x", "--model", "a*b"], "expected a model id, or a prefix followed by *"),
        (["keys", "create", "x", "--period", "day"], "a budget period has no effect without a budget"),
        (["keys", "create", "x", "--budget=-1"], "a budget is between $0 and $1,000,000,000"),
        (["keys", "create", "x", "--expires", "2001-01-01"], "a key must expire in the future"),
        (["keys", "create", "x", "--expires", "0"], "a key must expire in the future"),
        (["keys", "rotate", "ci", "--grace", "99w"], "the grace time is between 0 and 90 days"),
        (["keys", "change", "file:op", "--rpm", "1"], "is defined in the configuration file: change it there"),
        (["keys", "revoke", "op"], "is defined in the configuration file: change it there"),
    ],
)
def test_what_is_refused(commands: Commands, words: list[str], told: str) -> None:
    commands("keys", "create", "ci")
    commands.write(partial(put_file_keys, file_keys=[Key(name="op", digest=digest_of("op"))], at_ms=NOW))
    assert told in commands.fails(*words)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["create", "x", "--rpm", "0"], "0 is not in the range x>=1"),
        (["create", "x", "--rpm", "1.5"], "'1.5' is not a valid integer"),
        (["create", "x", "--budget", "1e5"], "expected dollars such as 25 or 0.50"),
        (["create", "x", "--budget", "0.0000000001"], "nine decimals at the most"),
        (["create", "x", "--period", "year"], "'year' is not one of 'day', 'week', 'month', 'total'"),
        (["create", "x", "--expires", "soon"], "expected a length such as 30d or 12h, or a date"),
        (["rotate", "x", "--grace", "1 hour"], "expected a length such as 90s, 30m, 1h"),
        (["change", "x"], "nothing to change"),
        (["change", "x", "--model", "a", "--all-models"], "cannot be combined"),
        (["create"], "Missing argument 'NAME'"),
    ],
)
def test_what_cannot_be_read(commands: Commands, words: list[str], told: str) -> None:
    assert told in commands.misused("keys", *words)


def test_foreign_text_neither_gets_in_nor_out(commands: Commands) -> None:
    for text in FOREIGN:
        assert "there is no key" in commands.fails("keys", "show", "--", text)
    forged = [Key(name="\x1b[31mred\u202e[bold]", digest=digest_of("x"), last4="\x1b[0m")]
    commands.write(partial(put_file_keys, file_keys=forged, at_ms=NOW))
    for words in (("keys", "list"), ("keys", "show", "--", "file:\x1b[31mred\u202e[bold]"), ("admin", "audit")):
        shown = commands(*words).stdout
        assert "red\ufffd[bold]" in shown, "as it is, and not as markup"
        assert shown.replace("\n", "").isprintable()
    assert commands.json("keys", "list")[0]["name"] == "\x1b[31mred\u202e[bold]"


def test_two_keys_of_one_name_are_distinguished(commands: Commands) -> None:
    commands("workspaces", "create", "team")
    ours = commands.json("keys", "create", "ci")["key"]["id"]
    theirs = commands.json("keys", "create", "ci", "--workspace", "team")["key"]["id"]
    told = commands.fails("keys", "revoke", "ci")
    assert ours in told
    assert theirs in told
    assert commands.json("keys", "revoke", "ci", "--workspace", "team")["id"] == theirs
    assert commands.json("keys", "show", "ci")["id"] == ours
    assert [key["id"] for key in commands.json("keys", "list", "--workspace", "team")] == []
