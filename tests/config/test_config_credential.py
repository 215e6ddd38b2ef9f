"""Keys of providers: one or several, from the file, from files of their own, and each of them once."""

import os
import re
from pathlib import Path

import pytest

from streamweir.config.display.effective import sections_of
from streamweir.config.display.origin import Origins
from streamweir.config.error import ConfigError
from streamweir.config.load import load_config
from streamweir.config.model import Config, Credential, Provider

NOT_SENDABLE = "contains a character that cannot be sent, such as a space or a line break"
BESIDE_LIST = "has no effect beside api_keys: put it into the list"
BESIDE_KEY = "has no effect beside api_key: use one of them"
NAMES = "must be letters, digits, dots, hyphens and underscores"
HEAD = '[[providers]]\nname = "p"\nkind = "openai"\n'
CANARY = "canary-4f9a0c7be2d85163"


def load(folder: Path, lines: str, **environ: str) -> Provider:
    (folder / "s.toml").write_text(HEAD + lines)
    return load_config(folder / "s.toml", environ).providers[0]


def problems(folder: Path, lines: str, **environ: str) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        load(folder, lines, **environ)
    text = str(refused.value)
    assert CANARY not in text
    return [re.sub(rf"^{folder}/s\.toml:\d+:\d+: providers\.p\.", "", line) for line in text.splitlines()]


def test_an_entry_is_a_text_or_a_table(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("\n  sk-from-file \n\n")
    entries = '"${A}", {key = "sk-2", weight = 3, rpm = 60, tpm = 900, max_streams = 4}, {name = "eu", file = "key"}'
    found = load(tmp_path, f"api_keys = [{entries}]", A="sk-1").api_keys
    assert found == (
        Credential(name="1", key="sk-1"),
        Credential(name="2", key="sk-2", weight=3, rpm=60, tpm=900, max_streams=4),
        Credential(name="eu", key="sk-from-file", file=str(tmp_path / "key")),
    )


def test_a_file_is_read_anew_each_time(tmp_path: Path) -> None:
    for key in ("sk-first", "sk-second"):
        (tmp_path / "key").write_text(key)
        provider = load(tmp_path, 'api_key_file = "key"')
        assert (provider.api_key, provider.api_key_file) == (key, str(tmp_path / "key"))
    (tmp_path / "link").symlink_to("key")
    assert load(tmp_path, 'api_key_file = "link"').api_key == "sk-second", "as secrets are mounted"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "file not found"),
        (b"", "the file is empty"),
        (b" \r\n\t", "the file is empty"),
        (b"canary-4f9a0c7be2d85163\ncanary-4f9a0c7be2d85163\n", "the file has several lines: expected the key alone"),
        (b"canary-4f9a0c7be2d85163\xff", "is not UTF-8 text"),
        (b"canary-4f9a0c7be2d85163" * 3000, "is larger than 65536 bytes"),
        (b"canary-4f9a0c7be2d85163 b", NOT_SENDABLE),
        (
            "canary-4f9a0c7be2d85163é".encode(),
            NOT_SENDABLE,
        ),
    ],
)
def test_a_file_without_a_key_is_a_problem(tmp_path: Path, content: bytes | None, reason: str) -> None:
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    assert problems(tmp_path, 'api_key_file = "key"') == [f"api_key_file: {reason}"]
    assert problems(tmp_path, 'api_keys = [{file = "key"}]') == [f"api_keys.1.file: {reason}"]


def test_what_is_not_a_regular_file_is_not_opened_for_long(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert problems(tmp_path, 'api_key_file = "pipe"') == ["api_key_file: is not a regular file"]
    assert problems(tmp_path, 'api_key_file = "."') == ["api_key_file: is not a regular file"]
    assert problems(tmp_path, 'api_key_file = "s.toml/key"') == ["api_key_file: cannot be read: Not a directory"]
    assert problems(tmp_path, r'api_key_file = "\u0000"') == ["api_key_file: cannot be read: not a file name"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            f'api_key = "{CANARY}"\napi_key_file = "key"',
            [f"api_key_file: {BESIDE_KEY}"],
        ),
        (f'api_key = "{CANARY}"\napi_keys = ["x"]', [f"api_key: {BESIDE_LIST}"]),
        (
            'api_key_file = "key"\napi_keys = ["x"]',
            [f"api_key_file: {BESIDE_LIST}"],
        ),
        ('api_keys = [{key = "x", file = "key"}]', ["api_keys.1.file: has no effect beside key: use one of them"]),
        ('api_keys = [{name = "a"}]', ["api_keys.a: missing: expected key or file"]),
        ('api_keys = ["${EMPTY}"]', ["api_keys.1: missing: expected key or file"]),
        (f'api_keys = ["{CANARY}", "x", "{CANARY}"]', ["api_keys.3.key: is the same key as api_keys.1.key"]),
        ('api_keys = ["other", {file = "key"}]', ["api_keys.2.file: is the same key as api_keys.1.key"]),
        (
            f'api_keys = ["{CANARY}\\n"]',
            [f"api_keys.1.key: {NOT_SENDABLE}"],
        ),
        ('api_keys = [{name = "2", key = "x"}, "y"]', ['api_keys[1].name: "2" is already used by api_keys[0]']),
        (
            'api_keys = [{name = "a b", key = "x"}]',
            [f"api_keys[0].name: {NAMES}"],
        ),
        (f'api_keys = [{{key = "{CANARY}", wieght = 1}}]', ["api_keys[0].wieght: unknown key, did you mean weight?"]),
        (f'api_keys = "{CANARY}"', ["api_keys: expected a list of tables, got text"]),
        ("api_keys = [12345678]", ["api_keys[0].key: expected text, got a number"]),
        (
            'api_keys = [{key = "x", weight = 0}]',
            ["api_keys[0].weight: expected a whole number from 1 to 1000000, got 0"],
        ),
    ],
)
def test_contradictions_between_keys_are_refused(tmp_path: Path, lines: str, expected: list[str]) -> None:
    (tmp_path / "key").write_text("other")
    found = problems(tmp_path, lines, EMPTY="")
    assert [line.replace("providers.p.", "") for line in found] == expected


def test_built_in_kinds_have_no_keys(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('[[providers]]\nname = "p"\nkind = "sim"\napi_keys = ["x"]')
    with pytest.raises(ConfigError, match=r'providers\.p\.api_keys: does not apply to the kind "sim"'):
        load_config(tmp_path / "s.toml", {})


def test_a_file_counts_beside_an_empty_key(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-1")
    assert load(tmp_path, 'api_key = "${KEY:-}"\napi_key_file = "key"').api_key == "sk-1"


def test_the_settings_show_only_the_end_of_a_key(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(CANARY)
    config = Config(providers=(load(tmp_path, 'api_keys = [{file = "key"}, "short"]'),))
    found = {each.path: each.value for section in sections_of(config, Origins()) for each in section.lines}
    assert found["providers.p.api_keys.1.key"] == "****5163"
    assert found["providers.p.api_keys.2.key"] == "****"
    assert found["providers.p.api_keys.1.file"] == str(tmp_path / "key")
