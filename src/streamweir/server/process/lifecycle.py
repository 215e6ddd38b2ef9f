"""The lifecycle of one serving process: from the first request to an end that loses as little as possible.

    SIGTERM           not ready at once; requests are served for `lame_duck_s` more; then none is admitted, and
                      streams run to their end, for `drain_s`; remaining streams get an error
    SIGINT            the same without the lame duck: it comes from a person at a terminal, not from a service manager
    the second one    all streams get an error now, and the process exits within a second, with status 1
    SIGHUP            the configuration is read again; a broken one changes nothing and is reported. A signal that comes
                      meanwhile leads to one more reload after it

The lame duck is for load balancers: they learn from `/ready` that this node is stopping, but only with their next
checks, and requests that they send until then must be served. It ends early when no caller is connected and none has
connected for `lame_duck_s`.

The steps have a fixed order; what each does is in the gateway. Under a supervisor (`server.process.worker`) a signal
never counts as the second one, because a service manager may signal supervisor and workers alike: there the
supervisor forces the end.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Protocol

from streamweir.config.error import ConfigError
from streamweir.core.errors import GatewayFault, StreamweirError
from streamweir.server.process.sd_notify import NOT_RELOADED, RELOADED, Notifier
from streamweir.server.telemetry.log import close_log, logger

ERROR_GRACE_S = 1.0
"""For error frames to be written and read."""
CLOSE_S = 15.0
"""For connections, pools and files to be closed; a database that does not answer takes most of it."""
_FORCED_S = 0.4
"""Each of the two after `force`: together with the log less than a second."""
_LOG_S, _FORCED_LOG_S = 1.0, 0.1
_NOT_RELOADED = "configuration not reloaded: the process is stopping"


Reload = Callable[[], Awaitable[None]]
"""Reads the configuration again, and uses it. Raises `ConfigError`: then nothing has changed."""


class RequestStop(Protocol):
    """See `Stop.request_stop`."""

    def __call__(self, *, lame_duck: bool = True) -> None: ...


class Gateway(Protocol):
    """The part of `server.process.gateway` that the lifecycle uses."""

    @property
    def lame_duck_s(self) -> float: ...

    @property
    def drain_s(self) -> float: ...

    @property
    def open_streams(self) -> int: ...

    def begin_lame_duck(self) -> None:
        """Not ready from now on. Requests are still served; each connection closes after its answer."""
        ...

    async def unused(self, quiet_s: float, /) -> None:
        """Returns when no connection is open and none was opened for `quiet_s`."""
        ...

    def stop_admitting(self) -> None:
        """Not ready from now on, and no new requests."""
        ...

    def stop_listening(self) -> None:
        """No new connections either: another process can use the address."""
        ...

    async def drained(self) -> None:
        """Returns when no stream is open, and no admitted request is still sending its body."""
        ...

    def end_streams(self, error: StreamweirError, /) -> None:
        """Ends every open stream with the error."""
        ...

    async def close(self, grace_s: float, /) -> None:
        """Closes everything; callers get `grace_s` to read what was written."""
        ...

    def metrics_text(self) -> bytes:
        """The metrics of this process only."""
        ...


class Stop:
    """The state of a stop: not requested, after lame duck and streams, after the streams, or forced."""

    def __init__(self) -> None:
        self._requested = asyncio.Event()
        self._skips_lame_duck = asyncio.Event()
        self._forced = asyncio.Event()

    @property
    def is_requested(self) -> bool:
        return self._requested.is_set()

    @property
    def is_forced(self) -> bool:
        return self._forced.is_set()

    def request_stop(self, *, lame_duck: bool = True) -> None:
        """Repeated calls have no further effect. `lame_duck`: False skips or ends the lame duck."""
        if not lame_duck:
            self._skips_lame_duck.set()
        self._requested.set()

    def request_again(self, *, lame_duck: bool = True) -> None:
        """The second call forces the end."""
        if self._requested.is_set():
            self.force()
        self.request_stop(lame_duck=lame_duck)

    def force(self) -> None:
        self._skips_lame_duck.set()
        self._requested.set()
        self._forced.set()

    async def requested(self) -> None:
        await self._requested.wait()

    @property
    def skips_lame_duck(self) -> bool:
        return self._skips_lame_duck.is_set()

    async def lame_duck_skipped(self) -> None:
        await self._skips_lame_duck.wait()

    async def forced(self) -> None:
        await self._forced.wait()


async def run(
    gateway: Gateway,
    *,
    reload: Reload | None = None,
    stop: Stop | None = None,
    is_alone: bool = True,
    on_ready: Callable[[], None] | None = None,
    notifier: Notifier | None = None,
    error_grace_s: float = ERROR_GRACE_S,
    close_s: float = CLOSE_S,
) -> int:
    """Runs until the end; returns the exit status. `reload` raises `ConfigError`; without it SIGHUP ends the process.

    `on_ready` is called when the signal handlers are installed: a signal that is sent before would be lost. The
    `notifier` reports to the service manager at the same moment; under a supervisor it is not used.
    """
    stop = stop if stop is not None else Stop()
    notifier = notifier if notifier is not None else Notifier()
    reloads = _Reloads(reload, notifier) if reload is not None else None
    request_stop = stop.request_again if is_alone else stop.request_stop
    with _signals(stop, request_stop, reloads), closing(notifier):
        if on_ready is not None:
            on_ready()
        notifier.ready()
        await stop.requested()
        if reloads is not None:
            await reloads.stop()
        notifier.stopping()
        status = await _end(gateway, stop, error_grace_s, close_s)
    close_log(_FORCED_LOG_S if stop.is_forced else _LOG_S)
    return status


async def try_reload(reload: Reload) -> str | None:
    """The reason why the previous configuration stays active, or None if the new one is."""
    try:
        await reload()
    except ConfigError as error:
        reason = "; ".join(str(error).splitlines())
        logger.error("configuration not reloaded, the previous one stays active", reason=reason)
        return reason
    logger.info("configuration reloaded")
    return None


class _Reloads:
    """The reloads that signals request: one at a time, and at most one waits."""

    def __init__(self, reload: Reload, notifier: Notifier) -> None:
        self._reload = reload
        self._notifier = notifier
        self._is_requested = False
        self._task: asyncio.Task[None] | None = None

    def request(self) -> None:
        self._is_requested = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while self._is_requested:
            self._is_requested = False
            self._notifier.reloading()
            self._notifier.ready(NOT_RELOADED if await try_reload(self._reload) is not None else RELOADED)

    async def stop(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait((self._task,))
            logger.warning(_NOT_RELOADED)


@contextmanager
def _signals(stop: Stop, request_stop: RequestStop, reloads: _Reloads | None) -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def handle_sighup() -> None:
        if reloads is None:
            request_stop(lame_duck=False)  # the terminal is closed
        elif stop.is_requested:
            logger.warning(_NOT_RELOADED)
        else:
            reloads.request()

    actions = {
        signal.SIGTERM: request_stop,
        signal.SIGINT: partial(request_stop, lame_duck=False),
        signal.SIGHUP: handle_sighup,
    }
    for number, action in actions.items():
        loop.add_signal_handler(number, action)
    try:
        yield
    finally:
        for number in actions:
            loop.remove_signal_handler(number)


async def _end(gateway: Gateway, stop: Stop, error_grace_s: float, close_s: float) -> int:
    drain_s = gateway.drain_s
    logger.info("stopping", open_streams=gateway.open_streams, drain_s=drain_s)
    await _lame_duck(gateway, stop)
    gateway.stop_admitting()
    forced = asyncio.ensure_future(stop.forced())
    drained = asyncio.ensure_future(gateway.drained())
    await _either(drained, forced, drain_s, 0.0)
    if not drained.done():
        logger.warning("ending streams", open_streams=gateway.open_streams)
        gateway.end_streams(GatewayFault("server_shutting_down", "The gateway is shutting down."))
        await _either(drained, forced, error_grace_s, _FORCED_S)
    closed = asyncio.ensure_future(gateway.close(0.0 if stop.is_forced else error_grace_s))
    await _either(closed, forced, close_s, _FORCED_S)
    is_clean = await _cancel_step("drain", drained) and closed.done()
    is_clean = await _cancel_step("close", closed) and is_clean and not stop.is_forced
    forced.cancel()
    logger.info("stopped", status=0 if is_clean else 1)
    return 0 if is_clean else 1


async def _lame_duck(gateway: Gateway, stop: Stop) -> None:
    lame_duck_s = gateway.lame_duck_s
    if not lame_duck_s or stop.skips_lame_duck:
        return
    gateway.begin_lame_duck()
    unused = asyncio.ensure_future(gateway.unused(lame_duck_s))
    skipped = asyncio.ensure_future(stop.lame_duck_skipped())
    await asyncio.wait({unused, skipped}, timeout=lame_duck_s, return_when=asyncio.FIRST_COMPLETED)
    for step in (unused, skipped):
        await _cancel_step("lame duck", step)
    logger.info("draining", open_streams=gateway.open_streams)


async def _either(
    step: "asyncio.Future[None]", forced: "asyncio.Future[None]", normal_s: float, forced_s: float
) -> None:
    """Waits for a step: `normal_s`, or `forced_s` from the moment the end is forced."""
    await asyncio.wait({step, forced}, timeout=normal_s, return_when=asyncio.FIRST_COMPLETED)
    if forced.done() and not step.done():
        await asyncio.wait({step}, timeout=forced_s)


async def _cancel_step(name: str, step: "asyncio.Future[None]") -> bool:
    """Cancels the step if it still runs. A fault in it does not prevent the exit, but changes the status."""
    step.cancel()
    await asyncio.wait({step}, timeout=_FORCED_S)
    if step.cancelled() or not step.done():
        return True
    fault = step.exception()
    if fault is not None:
        logger.error("fault while stopping", step=name, exc_info=fault)
    return fault is None
