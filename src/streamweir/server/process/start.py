"""From the command line to a server that listens; `server.process.lifecycle` runs it from there on.

Every problem is found before the first request: in the configuration, the data directory, the address. Messages here
are for a person at a terminal; the log is separate. `build` is used for a single process and for each worker.
"""

import asyncio
import gc
import os
import resource
import socket
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path

import uvloop
from msgspec import Struct

from streamweir.background import BackgroundTasks
from streamweir.config.address import split_listen
from streamweir.config.display.difference import Difference, difference
from streamweir.config.error import ConfigError, member
from streamweir.config.load import default_config
from streamweir.config.model import Config, Tls
from streamweir.config.model import Provider as ProviderConfig
from streamweir.config.source import ConfigSource
from streamweir.core.errors import UpstreamError
from streamweir.policy.pricing.pricebook import PriceBook
from streamweir.server.process import lifecycle
from streamweir.server.process.background import background_tasks
from streamweir.server.process.banner import banner, run_file_of
from streamweir.server.process.bootstrap import node_name, open_accounting, prepare_accounting
from streamweir.server.process.development_key import with_development_key
from streamweir.server.process.gateway import Gateway
from streamweir.server.process.reload import Reloads
from streamweir.server.process.run_file import HeldRunFiles, open_runtime_folder
from streamweir.server.process.sd_notify import Notifier, take_notifier
from streamweir.server.process.start_check import check_start
from streamweir.server.process.supervisor import Plan, open_listeners, supervise
from streamweir.server.process.worker import Assembly, StartOptions
from streamweir.server.request.runtime.config import open_prices
from streamweir.server.telemetry.log import close_log, configure_log, logger, watch_loop
from streamweir.store.prices.file import PriceFileError
from streamweir.upstream.base import Upstream
from streamweir.upstream.local import LocalAddress, LocalExit, LocalModel, LocalUpstream, find_weights, why_unavailable

_SLOW_S = 2.0
"""A message is printed if loading takes longer."""
_MAX_FILES = 65_536
_GC_THRESHOLD = 20_000

PrintLine = Callable[[str], None]


class _ServeSetup(Struct, frozen=True, kw_only=True):
    """What `serve` has prepared before the event loop starts."""

    start: StartOptions
    config: Config
    listeners: list[socket.socket]
    probe_listeners: list[socket.socket]
    print_line: PrintLine
    notifier: Notifier
    run_files: HeldRunFiles

    def on_ready(self, admin_secret: str | None) -> None:
        """When it serves: commands find it, and then its operator is told."""
        content = run_file_of(self.config, self.start, self.listeners, self.probe_listeners)
        folder = open_runtime_folder(os.environ, os.geteuid())
        failed = self.run_files.write(content, [self.start.data_dir, *([folder] if folder is not None else [])])
        if folder is None or failed:
            logger.info(
                "commands find this gateway by --data-dir alone: it has no run file", folders=list(map(str, failed))
            )
        self.print_line(banner(self.config, self.start, self.listeners, admin_secret))


class StartFailed(Exception):
    """The start failed; the message is one line for the operator."""


class EmbeddedModel:
    """The child of this process, or the address of another process's child; started when it is first configured."""

    def __init__(
        self, background: BackgroundTasks, address: LocalAddress | None = None, *, is_ours: bool = True
    ) -> None:
        self.background = background
        """Of this process."""
        self._address = address
        self._is_ours = is_ours
        self.model: LocalModel | None = None

    def open(self, provider: ProviderConfig) -> Upstream:
        """Raises `ConfigError` if it is not installed."""
        if self._address is not None:
            return LocalUpstream(self._address)
        weights, reason = find_weights(), why_unavailable()
        if not self._is_ours:
            reason = "with several workers the embedded model can only be added by a restart"
        if reason is not None or weights is None:
            raise ConfigError(member("providers", provider.name) + ".kind", reason or "the weights are missing")
        if self.model is None:
            self.model = LocalModel(weights, exited=_log_exit, background=self.background)
            self.model.start()
        return LocalUpstream(self.model)

    async def stop(self) -> None:
        if self.model is not None:
            await self.model.stop()


def load(start: StartOptions) -> Config:
    """Raises `ConfigError`."""
    source = _source(start)
    return _complete(source.load() if source is not None else None, start)


def _source(start: StartOptions) -> ConfigSource | None:
    if start.config_path is None:
        return None
    return ConfigSource(
        start.config_path, os.environ, env_file=start.env_file, listen=start.listen, secrets=start.secrets
    )


def _complete(config: Config | None, start: StartOptions) -> Config:
    """None: there is no file. With the development key if there is no other. Raises `ConfigError`."""
    if config is None:
        config = default_config(has_local=why_unavailable() is None, listen=start.listen)
    try:
        return with_development_key(config, start.data_dir)
    except OSError as reason:
        message = f"the development key cannot be written here: {reason.strerror}"
        raise ConfigError("", message, file=str(start.data_dir)) from None


async def build(start: StartOptions, embedded: EmbeddedModel | None = None) -> Assembly:
    """See `server.process.worker.Build`. `embedded`: given if this process owns the embedded model."""
    source = _source(start)
    read = await asyncio.to_thread(source.load) if source is not None else None  # it may wait for a vault
    config = _complete(read, start)
    log = config.server.log
    configure_log(log.format, level=log.level, worker=start.number, node=node_name(config))
    embedded = embedded or EmbeddedModel(background_tasks(), start.local, is_ours=False)
    background = embedded.background
    prices = _open_prices(start.data_dir)
    storage = None
    if not config.store.is_none:
        is_worker = start.number is not None
        storage = await open_accounting(config, start.data_dir, is_worker=is_worker, background=background)
    gateway = Gateway(
        config,
        embedded.open,
        workers=start.workers,
        storage=storage,
        prices=prices,
        source=source,
        background=background,
    )
    gateway.gather_metrics = start.metrics_of_all
    await gateway.open()
    _warn_of_price_groups(gateway)
    _tune_garbage_collector()
    tls = _tls_context(config.server.tls)

    async def listen(listener: socket.socket) -> None:
        await gateway.listen(listener, tls)

    def use(loaded: Config) -> Difference:
        after = _complete(loaded, start)
        found = difference(gateway.runtime.config, after)
        # Compared with the start, and said again by each reload: else the last one looks complete.
        for name in difference(config, after).for_restart:
            logger.warning("setting not reloaded: it needs a restart", setting=name)
        gateway.reload(after)
        _warn_of_price_groups(gateway)
        return found

    async def reload() -> None:
        if reloads is not None:
            await reloads.reload()
        else:
            use(_complete(None, start))

    reloads = Reloads(source, use, background=background) if source is not None else None
    if reloads is not None:
        gateway.metrics.others.append(reloads.families)
        gateway.on_close.append(reloads.stop)
        reloads.start()
    return Assembly(
        gateway=gateway,
        listen=listen,
        listen_for_probes=gateway.listen_for_probes,
        reload=reload,
        instance=storage.node.instance if storage is not None else None,
        instance_ended=gateway.accounting.instance_ended,
    )


def _warn_of_price_groups(gateway: Gateway) -> None:
    """Of keys and workspaces of the store: for those of the file it is an error in the file."""
    for name in sorted(gateway.accounting.directory.price_groups() - gateway.runtime.quotes.groups.keys()):
        logger.warning("price group not in the configuration: requests are refused", price_group=name)


def _tune_garbage_collector() -> None:
    """Objects that exist now stay for the whole run, so the garbage collector need not scan them.

    Requests create hardly any cycles; at the default threshold the scans take a tenth of a short request's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, 20, 20)


def _open_prices(data_dir: Path) -> PriceBook:
    try:
        return open_prices(data_dir)
    except PriceFileError as reason:
        raise ConfigError("", str(reason)) from None


def serve(start: StartOptions, print_line: PrintLine) -> int:
    """Runs until the end; returns the exit status. Raises `ConfigError` and `StartFailed`."""
    notifier = take_notifier(os.environ)
    prepare(start.data_dir)
    _raise_file_limit()
    config = load(start)
    # Only checks, before any process is started.
    check_start(config, start.config_path, start.workers)
    _tls_context(config.server.tls)
    listeners = _bind(config.server.listen)
    probe_listeners: list[socket.socket] = []
    run_files = HeldRunFiles()
    try:
        probe_listeners = _bind_for_probes(config.server.health_listen)
        setup = _ServeSetup(
            start=start,
            config=config,
            listeners=listeners,
            probe_listeners=probe_listeners,
            print_line=print_line,
            notifier=notifier,
            run_files=run_files,
        )
        return uvloop.run(_serve_with_workers(setup) if start.workers > 1 else _serve_alone(setup))
    finally:
        run_files.remove()
        close_log()
        for listener in (*listeners, *probe_listeners):
            listener.close()


def prepare(data_dir: Path) -> None:
    """Creates the data directory, which holds everything persistent, including the database."""
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as reason:
        raise StartFailed(f"{data_dir}: cannot be used as data directory: {reason.strerror}") from None
    if not os.access(data_dir, os.W_OK | os.X_OK):
        raise StartFailed(f"{data_dir}: cannot be used as data directory: it is not writable")


def _raise_file_limit() -> None:
    """Every stream is two connections, and the usual soft limit is 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft_limit = _MAX_FILES if hard == resource.RLIM_INFINITY else min(_MAX_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < soft_limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft_limit, hard))


async def _serve_alone(setup: _ServeSetup) -> int:
    start, config = setup.start, setup.config
    watch_loop(asyncio.get_running_loop())
    configure_log(config.server.log.format, level=config.server.log.level)
    embedded = EmbeddedModel(background_tasks())
    try:
        secret = await prepare_accounting(config, start.data_dir)
        assembly = await build(start, embedded)
        for listener in setup.listeners:
            await assembly.listen(listener.dup())
        for listener in setup.probe_listeners:
            if assembly.listen_for_probes is not None:
                assembly.listen_for_probes(listener.dup())
        loading = asyncio.get_running_loop().create_task(_report_loading(embedded, setup.print_line))
        # Without a file there is nothing to reload: a closed terminal ends the process.
        reload = assembly.reload if start.config_path is not None else None

        on_ready = partial(setup.on_ready, secret)
        status = await lifecycle.run(assembly.gateway, reload=reload, on_ready=on_ready, notifier=setup.notifier)
        loading.cancel()
        return status
    finally:
        await embedded.stop()


async def _serve_with_workers(setup: _ServeSetup) -> int:
    start, config = setup.start, setup.config
    watch_loop(asyncio.get_running_loop())
    configure_log(config.server.log.format, level=config.server.log.level, node=node_name(config))
    _open_prices(start.data_dir)  # only a check, like the certificate: each worker reads them itself
    secret = await prepare_accounting(config, start.data_dir, workers=start.workers)
    embedded = EmbeddedModel(background_tasks())
    for provider in config.providers:
        if provider.kind == "local":
            embedded.open(provider)
    plan = Plan(
        workers=start.workers,
        data_dir=start.data_dir,
        config_path=start.config_path,
        env_file=start.env_file,
        listen=start.listen,
        probe_files=tuple(listener.fileno() for listener in setup.probe_listeners),
    )

    return await supervise(
        plan,
        setup.listeners,
        os.environ,
        local=embedded.model,
        on_serving=partial(setup.on_ready, secret),
        notifier=setup.notifier,
        background=embedded.background,
    )


async def _report_loading(embedded: EmbeddedModel, print_line: PrintLine) -> None:
    if embedded.model is None:
        return
    ready = asyncio.ensure_future(embedded.model.ready())
    try:
        done, _ = await asyncio.wait({ready}, timeout=_SLOW_S)
        if not done:
            print_line("Loading the embedded model ...")
        await ready
        if not done:
            print_line("The embedded model is ready.")
    except UpstreamError as reason:  # it is restarted; the log has the reason of each failure
        print_line(reason.message)
    finally:
        ready.cancel()


def _bind_for_probes(listen: str | None) -> list[socket.socket]:
    return _bind(listen, "server.health_listen in the configuration is the address for probes") if listen else []


def _bind(listen: str, hint: str = "use --listen HOST:PORT to choose another address") -> list[socket.socket]:
    address = split_listen(listen)
    assert address is not None  # noqa: S101 (`config.check` guarantees it)
    try:
        return open_listeners(*address)
    except UnicodeError:
        raise StartFailed(f"{listen}: cannot listen there: unknown host name") from None
    except OSError as reason:
        raise StartFailed(f"{listen}: cannot listen there: {reason.strerror} ({hint})") from None


def _tls_context(tls: Tls | None) -> ssl.SSLContext | None:
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(tls.cert_file, tls.key_file)
    except ssl.SSLError:
        raise ConfigError(
            "server.tls", "cert_file and key_file must be a certificate and its private key in PEM"
        ) from None
    except OSError as reason:
        raise ConfigError("server.tls", f"cert_file or key_file cannot be read: {reason.strerror}") from None
    return context


def _log_exit(exit_: LocalExit) -> None:
    logger.warning(
        "embedded model exited, restarting it",
        status=exit_.status,
        in_s=exit_.restart_s,
        last_words=exit_.stderr_tail,
    )
