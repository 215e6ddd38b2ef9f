"""What the program prints when it has started: what a newcomer can try at once."""

import socket
from pathlib import Path

import pytest

from streamweir.config.model import Config, Key, Model, Provider, Store, Target
from streamweir.server.process.start import banner
from streamweir.server.process.worker import StartOptions

TARGETS = (Target(provider="up", model="gpt-4o"),)


@pytest.mark.parametrize(("ids", "shown"), [(("m",), "m"), (("claude-*", "m"), "m"), (("claude-*",), None), ((), None)])
def test_the_model_to_try_is_one_that_can_be_asked_for(ids: tuple[str, ...], shown: str | None, tmp_path: Path) -> None:
    config = Config(
        store=Store(url="none"),
        providers=(Provider(name="up", kind="openai"),),
        models=tuple(Model(id=each, targets=TARGETS) for each in ids),
        keys=(Key(name="a", key="sk-Qx7vLmZ2pKd9RtYw4HbNc8Jf"),),
    )
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        text = banner(config, StartOptions(config_path=tmp_path / "streamweir.toml", data_dir=tmp_path), [listener])
    assert ("Try it:" in text) == (shown is not None)
    assert shown is None or f'"model":"{shown}"' in text
