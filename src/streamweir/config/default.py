"""The default configuration, without a file: the built-in providers, on loopback.

The caller determines whether the embedded model is installed. It has no keys: a server without keys listens on
loopback only, and creates a development key.
"""

from streamweir.config.check import check, check_listen
from streamweir.config.error import raise_all
from streamweir.config.model import Config, Provider, Server


def default_config(*, has_local: bool, listen: str | None = None) -> Config:
    """`has_local`: the embedded model can be started. Raises `ConfigError` if `listen` is invalid."""
    sim = Provider(name="sim", kind="sim")
    local = Provider(name="local", kind="local")
    config = Config(
        server=Server(
            listen=listen if listen is not None else Server().listen,
            default_model="local/smollm2" if has_local else "sim/hello",
        ),
        providers=(local, sim) if has_local else (sim,),
    )
    raise_all([*check(config), *check_listen(config)])
    return config
