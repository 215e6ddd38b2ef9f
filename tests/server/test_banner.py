"""What the program prints when it has started: what a newcomer can try at once."""

import socket
from pathlib import Path

import pytest

from streamweir.config.model import Config, Key, Model, Provider, Store, Target
from streamweir.server.process.banner import banner
from streamweir.server.process.worker import StartOptions

TARGETS = (Target(provider="up", model="gpt-4o"),)
KEY = Key(name="a", key="sk-Qx7vLmZ2pKd9RtYw4HbNc8Jf")


def printed(config: Config, folder: Path) -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return banner(config, StartOptions(config_path=folder / "streamweir.toml", data_dir=folder), [listener])


@pytest.mark.parametrize(("ids", "shown"), [(("m",), "m"), (("claude-*", "m"), "m"), (("claude-*",), None), ((), None)])
def test_the_model_to_try_is_one_that_can_be_asked_for(ids: tuple[str, ...], shown: str | None, tmp_path: Path) -> None:
    config = Config(
        store=Store(url="none"),
        providers=(Provider(name="up", kind="openai"),),
        models=tuple(Model(id=each, targets=TARGETS) for each in ids),
        keys=(KEY,),
    )
    text = printed(config, tmp_path)
    assert ("Try it:" in text) == (shown is not None)
    assert shown is None or f'"model":"{shown}"' in text


@pytest.mark.parametrize(("kind", "shown"), [("sim", True), ("openai", False)])
def test_coding_agents_are_shown_on_the_simulator_alone(kind: str, shown: bool, tmp_path: Path) -> None:
    config = Config(store=Store(url="none"), providers=(Provider(name="play", kind=kind),), keys=(KEY,))
    text = printed(config, tmp_path)
    assert ("ANTHROPIC_MODEL=play/agent ANTHROPIC_DEFAULT_HAIKU_MODEL=play/agent claude\n" in text) == shown
    assert ("codex --sandbox workspace-write --model play/agent -c model_provider=streamweir" in text) == shown
    assert KEY.key not in text, "only a key that the program has made is printed"
