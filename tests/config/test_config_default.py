"""A start without a file."""

import pytest

from streamweir.config.error import ConfigError
from streamweir.config.load import default_config
from streamweir.config.model import Config, Provider, Server


def test_with_the_embedded_model() -> None:
    assert default_config(has_local=True) == Config(
        server=Server(default_model="local/smollm2"),
        providers=(Provider(name="local", kind="local"), Provider(name="sim", kind="sim")),
    )


def test_with_the_simulator_alone() -> None:
    config = default_config(has_local=False, listen="[::1]:0")
    assert config == Config(
        server=Server(listen="[::1]:0", default_model="sim/hello"), providers=(Provider(name="sim", kind="sim"),)
    )


@pytest.mark.parametrize("listen", ["0.0.0.0:8080", "nonsense"])
def test_only_for_this_machine(listen: str) -> None:
    with pytest.raises(ConfigError, match=r"^server\.listen: "):
        default_config(has_local=True, listen=listen)
