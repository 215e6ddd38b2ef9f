"""One of several processes that serve the same address, started by the supervisor.

    python -m streamweir.server.process.worker --number 0 --workers 4 --control PATH --fd 3 ...

It builds a gateway that listens on the sockets it was given, and runs `server.process.lifecycle`; it also answers the
supervisor. When the supervisor has ended, the worker accepts no new connections, lets its streams end, and exits. No
secret is on its command line: secrets come from the environment and from the files that it reads itself.
"""

import argparse
import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

import uvloop
from msgspec import Struct, field

from streamweir.config.error import ConfigError
from streamweir.config.file.secret_reference import SecretValues
from streamweir.server.process.control_socket import Channel, ChannelError, Details, RequestRejected, connect
from streamweir.server.process.lifecycle import Gateway, Reload, Stop, run, try_reload
from streamweir.server.telemetry.log import close_log, logger, watch_loop
from streamweir.upstream.local import LocalAddress

CONFIG_STATUS = 78
"""The exit status of a process that cannot start with its configuration (EX_CONFIG)."""
HELLO_TIMEOUT_S = 10.0
METRICS_TIMEOUT_S = 3.0
"""For the metrics of all workers; the supervisor waits a second for each."""
LOCAL_URL = "STREAMWEIR_LOCAL_URL"
LOCAL_KEY = "STREAMWEIR_LOCAL_KEY"
"""The variable that contains the address of the embedded model, which the supervisor runs."""


class StartOptions(Struct, frozen=True, kw_only=True):
    """The parameters of a gateway."""

    config_path: Path | None
    env_file: Path | None = None
    """Variables for the file, besides those of the environment."""
    secrets: SecretValues = field(default_factory=SecretValues)
    """Of this process: a command that was run for a secret need not be run again for the next step of the start."""
    data_dir: Path
    listen: str | None = None
    """From the command line, overrides the file."""
    number: int | None = None
    """The number of the worker, from 0; None if there is only one process."""
    workers: int = 1
    local: LocalAddress | None = None
    """The address of the embedded model, if another process runs it."""
    metrics_of_all: Callable[[], Awaitable[bytes]] | None = None
    """For `/metrics`: the sum over all workers, if there are several."""


class Assembly(Struct, frozen=True, kw_only=True):
    """An open gateway, and functions to control it."""

    gateway: Gateway
    listen: Callable[[socket.socket], Awaitable[None]]
    """Listens on a bound socket."""
    listen_for_probes: Callable[[socket.socket], None] | None = None
    """Listens on another socket, for `/health` and `/ready` only."""
    reload: Reload
    """Reads the file again."""
    instance: str | None = None
    """The id of this instance in the database, if there is one."""
    instance_ended: Callable[[str], None] = lambda _: None
    """Called if the process of another instance is dead."""


Build = Callable[[StartOptions], Awaitable[Assembly]]
"""Configures the log, loads the configuration and opens a gateway. Raises `ConfigError`."""


def main(arguments: Sequence[str] | None = None, build: Build | None = None) -> int:
    options = _parser().parse_args(arguments)
    local = _take_local(os.environ)
    if build is None:
        build = import_module("streamweir.server.process.start").build
    try:
        status: int = uvloop.run(_work(options, local, build))
    except ConfigError as error:
        close_log()
        sys.stderr.write(f"{error}\n")
        return CONFIG_STATUS
    return status


async def _work(options: argparse.Namespace, local: LocalAddress | None, build: Build) -> int:
    watch_loop(asyncio.get_running_loop())
    link = _SupervisorLink()
    try:
        channel = await connect(options.control, link.answer, link.supervisor_gone)
        await channel.request("hello", {"number": options.number, "pid": os.getpid()}, HELLO_TIMEOUT_S)
    except (OSError, ChannelError):  # the supervisor ended before this process had started
        return 1
    start = StartOptions(
        config_path=options.config,
        env_file=options.env_file,
        data_dir=options.data_dir,
        listen=options.listen,
        number=options.number,
        workers=options.workers,
        local=local,
        metrics_of_all=partial(link.metrics_of_all, channel),
    )
    link.assembly = await build(start)
    for number in options.health_fd:
        if link.assembly.listen_for_probes is not None:
            link.assembly.listen_for_probes(socket.socket(fileno=number))
    for number in options.fd:
        await link.assembly.listen(socket.socket(fileno=number))
    channel.notify("serving", {"instance": link.assembly.instance})
    if channel.is_closed:  # the supervisor ended before there was a gateway to stop
        link.supervisor_gone(channel)
    status = await run(link.assembly.gateway, reload=link.assembly.reload, stop=link.stop, is_alone=False)
    link.is_over = True
    await channel.close()
    return status


class _SupervisorLink:
    """The worker's answers to its supervisor."""

    def __init__(self) -> None:
        self.stop = Stop()
        self.assembly: Assembly | None = None
        self.is_over = False

    async def answer(self, _: Channel, what: str, details: Details) -> Details:
        if what == "stop":
            if details.get("force"):
                self.stop.force()
            else:
                self.stop.request_stop(lame_duck=details.get("lame_duck", True))
            return {}
        if what == "alive":
            return {}
        if self.assembly is None:
            raise RequestRejected("still starting")
        if what == "metrics":
            return {"text": self.assembly.gateway.metrics_text().decode()}
        if what == "ended":
            self.assembly.instance_ended(details["instance"])
            return {}
        if what == "reload":
            return {"reason": await try_reload(self.assembly.reload)}
        raise RequestRejected(f"unknown command: {what}")

    async def metrics_of_all(self, channel: Channel) -> bytes:
        """From the supervisor, which asks all workers; if it does not answer, of this worker only."""
        try:
            text: str = (await channel.request("metrics", timeout_s=METRICS_TIMEOUT_S))["text"]
        except ChannelError as reason:
            logger.warning("metrics of this worker alone", reason=str(reason))
            return self.assembly.gateway.metrics_text() if self.assembly is not None else b""
        return text.encode()

    def supervisor_gone(self, _: Channel) -> None:
        """The process ends: without a supervisor it would not be replaced or stopped."""
        if self.is_over:
            return
        if self.assembly is not None:
            logger.warning("supervisor exited: this worker exits when its streams have ended")
            # Otherwise the gateway could not be started again on this address until the last stream has ended.
            self.assembly.gateway.stop_listening()
        self.stop.request_stop()


def _take_local(environ: "os._Environ[str]") -> LocalAddress | None:
    """Removes the variables from the environment, so that no child process inherits them."""
    base_url, api_key = environ.pop(LOCAL_URL, None), environ.pop(LOCAL_KEY, None)
    if base_url is None or api_key is None:
        return None
    return LocalAddress(base_url=base_url, api_key=api_key)


def local_variables(local: LocalAddress) -> Mapping[str, str]:
    return {LOCAL_URL: local.base_url, LOCAL_KEY: local.api_key}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m streamweir.server.process.worker", description="Started by the supervisor."
    )
    parser.add_argument("--number", type=int, required=True)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--control", type=Path, required=True)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--env-file", type=Path)
    parser.add_argument("--listen")
    parser.add_argument("--fd", type=int, action="append", default=[])
    parser.add_argument("--health-fd", type=int, action="append", default=[])
    return parser


if __name__ == "__main__":
    sys.exit(import_module("streamweir.server.process.worker").main())  # not `__main__`: the module must exist once
