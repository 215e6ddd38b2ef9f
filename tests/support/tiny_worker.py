"""`python -m support.tiny_worker`: the real worker around a tiny gateway.

Its configuration is a file with one word: `broken` cannot be used, `deaf` hangs when it is to stop,
`mortal` dies as soon as it serves, `slow` serves when there is a file `go` beside it. Anything else is fine.
"""

import asyncio
import os
import socket
import sys
import time
from functools import partial
from pathlib import Path

from streamweir.config.error import ConfigError
from streamweir.server.process.worker import Assembly, StartOptions, main
from streamweir.server.telemetry.log import configure_log, logger
from support.tiny_gateway import TinyGateway


class HangingGateway(TinyGateway):
    def stop_admitting(self) -> None:
        time.sleep(3600)


class CrashingGateway(TinyGateway):
    async def listen(self, listener: socket.socket) -> None:
        await super().listen(listener)
        asyncio.get_running_loop().call_later(0.01, os._exit, 3)  # when it has told that it serves


class SlowGateway(TinyGateway):
    async def listen(self, listener: socket.socket) -> None:
        logger.info("about to serve")
        while not (Path(sys.argv[sys.argv.index("--config") + 1]).parent / "go").exists():
            await asyncio.sleep(0.01)
        await super().listen(listener)


GATEWAYS = {"slow": SlowGateway, "deaf": HangingGateway, "mortal": CrashingGateway}


async def build(start: StartOptions) -> Assembly:
    configure_log("json", sys.stderr, worker=start.number)
    assert start.config_path is not None
    assert start.metrics_of_all is not None
    path = start.config_path
    gateway = GATEWAYS.get(read(path), TinyGateway)()
    gateway.metrics_of_all = start.metrics_of_all
    if start.local is not None:
        logger.info("embedded model", url=start.local.base_url, length=len(start.local.api_key))
    return Assembly(
        gateway=gateway,
        listen=gateway.listen,
        reload=partial(reload, path),
        instance=f"instance of {os.getpid()}",
        instance_ended=lambda instance: logger.info("told of an end", instance=instance),
    )


def read(path: Path) -> str:
    word = path.read_text()
    if word == "broken":
        raise ConfigError("server.timeouts.idle_s", "expected a number", file=path.name)
    return word


async def reload(path: Path) -> None:
    read(path)


if __name__ == "__main__":
    sys.exit(main(build=build))
