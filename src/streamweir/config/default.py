"""The configuration of a start without a file: what is inside, for this machine alone.

Whether the embedded model is installed is found out by the caller. No keys are in it: a server
without keys listens on loopback alone, and makes itself a development key.
"""

from streamweir.config.check import check, check_listen
from streamweir.config.error import raise_all
from streamweir.config.model import Config, Provider, Server


def default_config(*, has_local: bool, listen: str | None = None) -> Config:
    """`has_local`: the embedded model can be started. Raises `ConfigError` where `listen` cannot be taken."""
    sim = Provider(name="sim", kind="sim")
    local = Provider(name="local", kind="local")
    config = Config(
        server=Server(
            listen=listen if listen is not None else Server().listen,
            default_model="local/smollm2" if has_local else "sim/hello",
        ),
        providers=(local, sim) if has_local else (sim,),
    )
    raise_all(check(config))
    check_listen(config)
    return config
