"""The development key: made once, for its owner's eyes, and left alone where there are other keys."""

import stat
from pathlib import Path

import pytest

from streamweir.config.error import ConfigError
from streamweir.config.model import Config, Key
from streamweir.server.process.development_key import with_development_key


def test_it_is_made_once_and_kept(tmp_path: Path) -> None:
    first = with_development_key(Config(), tmp_path)
    again = with_development_key(Config(), tmp_path)
    assert first == again
    (key,) = first.keys
    assert key.name == "development"
    assert key.key.startswith("sk-")
    assert len(key.key) >= 16 + len("sk-")
    assert key.scopes == ("chat", "models", "admin")


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    with_development_key(Config(), tmp_path)
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    with_development_key(Config(), tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", ["", "\n", "sk-short", "sk-with a blank in its middle"])
def test_a_file_without_a_usable_key_stops_the_start(tmp_path: Path, content: str) -> None:
    with_development_key(Config(), tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_text(content)
    with pytest.raises(ConfigError, match="remove the file, and the next start creates a new one"):
        with_development_key(Config(), tmp_path)


def test_where_there_are_keys_none_is_made(tmp_path: Path) -> None:
    config = Config(keys=(Key(name="ci", key="sk-Qx7vLmZ2pKd9RtYw4HbNc8Jf"),))
    assert with_development_key(config, tmp_path) == config
    assert not list(tmp_path.iterdir())
