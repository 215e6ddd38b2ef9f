"""Several workers on one address: started, replaced when they die, ended together.

    supervisor --fd--> worker 0, worker 1, ...       all accept from the same listening socket
         \\------ control socket ------/             metrics, reload, stop

The supervisor binds the address and holds it, so that no connection is refused while a worker is being replaced; it
accepts none itself. It also runs the embedded model, because one is enough. It manages processes and does not handle
requests; the code of a worker is in `server.process.worker`.

A signal is passed on over the control socket and not as a signal: a service manager that signals the whole group would
otherwise make two out of one, and the second one cuts the streams.

There is one shared socket, without SO_REUSEPORT: with that option each worker has its own queue, and its connections
wait for that worker even if it hangs or is dead. The disadvantage: connections are not distributed evenly. Measured
with uvloop on two cores, 400 connections to idle workers: two workers took 33 % to 67 % each, four workers 4 % to 52 %.
Under load the distribution is more even, because a busy worker accepts later.
"""

import asyncio
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from streamweir.background import BackgroundTask, BackgroundTasks
from streamweir.server.process.background import background_tasks
from streamweir.server.process.control_socket import (
    Channel,
    ControlSocket,
    Details,
    RequestRejected,
    socket_path,
)
from streamweir.server.process.sd_notify import NOT_RELOADED, RELOADED, Notifier
from streamweir.server.process.worker import local_variables
from streamweir.server.process.worker_process import Worker
from streamweir.server.telemetry.log import close_log, logger
from streamweir.server.telemetry.metrics_merge import merge, merge_gone
from streamweir.upstream.local import LocalAddress

BACKLOG = 2048
QUICK_EXIT_S = 5.0
"""A worker that exits earlier than this is replaced with a delay the next time."""
_FIRST_DELAY_S, _MAX_DELAY_S = 0.25, 30.0
_KILL_S = 1.5
"""After the second signal, for workers that do not react."""
_NOT_STARTED = 71
"""The status for a process that could not be started (EX_OSERR)."""
_ANSWER_S = 1.0
_MAX_ENDED = 64
_RELOAD_S = 75.0
"""A reload may wait for the commands that have secrets, each at most a minute."""


class SharedChild(Protocol):
    """A child that all workers use: `upstream.local.LocalModel`."""

    address: LocalAddress

    def start(self) -> None: ...

    async def stop(self) -> None: ...


class Plan(Struct, frozen=True, kw_only=True):
    workers: int
    data_dir: Path
    config_path: Path | None = None
    env_file: Path | None = None
    listen: str | None = None
    """From the command line, overrides the file; passed to the workers. The socket is bound already."""
    probe_files: tuple[int, ...] = ()
    """Sockets for `/health` and `/ready` only, on which all workers listen."""
    module: str = "streamweir.server.process.worker"
    quick_exit_s: float = QUICK_EXIT_S
    first_delay_s: float = _FIRST_DELAY_S
    kill_s: float = _KILL_S


def open_listeners(host: str, port: int) -> list[socket.socket]:
    """One for each address of that name. Raises `OSError`."""
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listeners: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listener = socket.socket(family, kind, protocol)
            listeners.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
    except OSError:
        for listener in listeners:
            listener.close()
        raise
    return listeners


async def supervise(
    plan: Plan,
    listeners: Sequence[socket.socket],
    environ: Mapping[str, str],
    *,
    local: SharedChild | None = None,
    on_serving: Callable[[], None] | None = None,
    notifier: Notifier | None = None,
    background: BackgroundTasks | None = None,
) -> int:
    """Runs until all workers have exited; returns the exit status. `on_serving` is called once, when all workers serve.
    `background`: of this process, if it has one already."""
    with closing(notifier if notifier is not None else Notifier()) as its_notifier:
        supervisor = Supervisor(plan, listeners, environ, on_serving, its_notifier, background or background_tasks())
        status = await supervisor.run(local)
    close_log()
    return status


class Supervisor:
    def __init__(
        self,
        plan: Plan,
        listeners: Sequence[socket.socket],
        environ: Mapping[str, str],
        on_serving: Callable[[], None] | None,
        notifier: Notifier,
        background: BackgroundTasks,
    ) -> None:
        self._plan = plan
        self._background = background
        self._worker_tasks: list[BackgroundTask] = []
        self._notifier = notifier
        self._files = [listener.fileno() for listener in listeners]
        self._environ = dict(environ)
        self._on_serving = on_serving
        self._workers: dict[int, Worker] = {}
        self._control = ControlSocket(socket_path(plan.data_dir), 2 * plan.workers + 8, self._answer)
        self._serving: set[int] = set()
        self._has_started = False
        self._stopping = asyncio.Event()
        self._has_lame_duck = True
        self._is_forced = False
        self._kill_timer: asyncio.TimerHandle | None = None
        self._status = 0
        self._gone_metrics = b""
        self._restarts = 0
        self._reloads_requested = 0
        self._reloads: set[asyncio.Task[None]] = set()
        self._ended: deque[str] = deque(maxlen=_MAX_ENDED)
        """Instances of ended workers that were not reported to another worker yet: their reservations can be freed."""

    async def run(self, local: SharedChild | None = None) -> int:
        await self._control.open()
        if local is not None:
            local.start()
            self._environ.update(local_variables(local.address))
        loop = asyncio.get_running_loop()
        actions: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGTERM: self._handle_stop_signal,
            signal.SIGINT: partial(self._handle_stop_signal, lame_duck=False),
            signal.SIGHUP: self._handle_sighup,
        }
        for number, action in actions.items():
            loop.add_signal_handler(number, action)
        slots = [partial(self._run_slot, number) for number in range(self._plan.workers)]
        self._worker_tasks = [self._background.start("worker", each) for each in slots]
        for worker_task in self._worker_tasks:
            await worker_task.over()
        for worker in list(self._workers.values()):  # those whose task had failed when the stop was requested
            await worker.process.wait()
        if self._kill_timer is not None:
            self._kill_timer.cancel()
        if local is not None:
            await local.stop()
        await self._control.close()
        for number in actions:
            loop.remove_signal_handler(number)
        logger.info("all workers have exited", status=self._status)
        return self._status

    async def _run_slot(self, number: int) -> None:
        """Runs the workers of one slot, one after the other."""
        loop = asyncio.get_running_loop()
        quick = 0
        while not self._stopping.is_set():
            began = loop.time()
            status = await self._run_worker(number)
            if self._stopping.is_set():
                if status not in (0, -signal.SIGTERM):  # the latter: it had not started yet
                    self._status = self._status or 1
                return
            if status > 0 and not self._has_started:
                # It could not start, and has logged the reason: the next one could not start either.
                self._status = status
                self._stop()
                return
            self._restarts += 1
            quick = quick + 1 if loop.time() - began < self._plan.quick_exit_s else 0
            delay_s = min(self._plan.first_delay_s * 2 ** (quick - 2), _MAX_DELAY_S) if quick > 1 else 0.0
            await self._pause(delay_s)

    async def _run_worker(self, number: int) -> int:
        worker = self._workers.get(number)  # it is still there if its task had to be restarted
        if worker is None:
            reloads = self._reloads_requested
            try:
                process = await self._start(number)
            except OSError as reason:
                logger.error("worker not started", number=number, reason=str(reason))
                return _NOT_STARTED
            worker = self._workers[number] = Worker(number, process, reloads)
            logger.info("worker started", number=number, pid=process.pid)
            if self._stopping.is_set():
                worker.stop(force=self._is_forced, lame_duck=self._has_lame_duck)
        process = worker.process
        watch = asyncio.get_running_loop().create_task(self._check_alive(worker))
        try:
            status = await process.wait()
        finally:
            watch.cancel()
        del self._workers[number]
        if worker.instance is not None:
            self._ended.append(worker.instance)
            self._report_ended()
        if worker.last_metrics:
            self._gone_metrics = merge_gone([self._gone_metrics, worker.last_metrics])
        log_end = logger.info if self._stopping.is_set() and status == 0 else logger.warning
        log_end("worker ended", number=number, pid=process.pid, **_exit_fields(status))
        return status

    async def _check_alive(self, worker: Worker) -> None:
        """If there is a watchdog, also for the workers: one whose event loop hangs is killed, and so replaced."""
        watchdog_s = self._notifier.watchdog_s
        while watchdog_s is not None:
            await asyncio.sleep(watchdog_s / 2)
            channel = worker.channel
            if not worker.has_served or channel is None or self._stopping.is_set():
                continue
            is_alive = await worker.request("alive", watchdog_s) is not None
            if not is_alive and not channel.is_closed and not self._stopping.is_set():
                fields = {"number": worker.number, "pid": worker.process.pid, "seconds": watchdog_s}
                logger.error("worker killed: its event loop did not answer", **fields)
                worker.process.kill()
                return

    async def _start(self, number: int) -> asyncio.subprocess.Process:
        plan = self._plan
        command = [sys.executable, "-P", "-m", plan.module]  # -P: no imports from the current folder
        command += ["--number", str(number), "--workers", str(plan.workers)]
        command += ["--control", str(self._control.path), "--data-dir", str(plan.data_dir)]
        if plan.config_path is not None:
            command += ["--config", str(plan.config_path)]
        if plan.env_file is not None:
            command += ["--env-file", str(plan.env_file)]
        if plan.listen is not None:
            command += ["--listen", plan.listen]
        for file in self._files:
            command += ["--fd", str(file)]
        for file in plan.probe_files:
            command += ["--health-fd", str(file)]
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            pass_fds=[*self._files, *plan.probe_files],
            env=self._environ,
            start_new_session=True,  # Ctrl-C in a terminal is for the supervisor only
        )

    async def _pause(self, seconds: float) -> None:
        if seconds:
            logger.warning("worker keeps dying, waiting before the next start", seconds=seconds)
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._stopping.wait()

    def _handle_stop_signal(self, *, lame_duck: bool = True) -> None:
        if not self._stopping.is_set():
            logger.info("stopping", workers=len(self._workers))
            self._notifier.stopping()
            self._has_lame_duck = lame_duck
            self._stop()
            return
        logger.warning("stopping at once", workers=len(self._workers))
        self._is_forced = True
        self._status = 1
        for worker in self._workers.values():
            worker.stop(force=True, lame_duck=False)
        if self._kill_timer is None:
            self._kill_timer = asyncio.get_running_loop().call_later(self._plan.kill_s, self._kill)

    def _stop(self) -> None:
        self._stopping.set()
        for worker_task in self._worker_tasks:
            worker_task.expect_end()
        for worker in self._workers.values():
            worker.stop(force=False, lame_duck=self._has_lame_duck)

    def _kill(self) -> None:
        for worker in self._workers.values():
            if worker.process.returncode is None:
                logger.error("worker killed: it did not exit in time", number=worker.number, pid=worker.process.pid)
                worker.process.kill()

    def _report_ended(self) -> None:
        for worker in self._workers.values():
            if worker.has_served and worker.channel is not None and not worker.channel.is_closed:
                while self._ended:
                    worker.channel.notify("ended", {"instance": self._ended.popleft()})
                return

    def _handle_sighup(self) -> None:
        self._reloads_requested += 1
        self._begin_reload(self._reload())

    def _begin_reload(self, reload: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(reload)
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    async def _reload(self) -> None:
        """Each worker reads the file itself, and logs the result. A worker that dies meanwhile has not failed: its
        successor starts with the new file."""
        self._notifier.reloading()
        answers = await self._request_all("reload", _RELOAD_S)
        failed = sorted(worker.number for worker, answer in answers if worker.has_failed(answer))
        if failed:
            logger.error("configuration not reloaded by all workers", failed=failed)
        else:
            logger.info("configuration reloaded by all workers")
        if not self._stopping.is_set():
            self._notifier.ready(NOT_RELOADED if failed else RELOADED)

    async def _reload_late(self, worker: Worker) -> None:
        """For a worker that was starting when the reload began: it may have read the old file or the new one."""
        if worker.has_failed(await worker.request("reload", _RELOAD_S)):
            logger.error("configuration not reloaded by all workers", failed=[worker.number])

    async def _request_all(self, what: str, timeout_s: float) -> list[tuple[Worker, Details | None]]:
        workers = [worker for worker in self._workers.values() if worker.has_served]
        answers = await asyncio.gather(*(worker.request(what, timeout_s) for worker in workers))
        return list(zip(workers, answers, strict=True))

    async def _answer(self, channel: Channel, what: str, details: Details) -> Details:
        """Answers the requests of workers."""
        if what == "hello":
            return self._register(channel, details)
        worker = next((worker for worker in self._workers.values() if worker.channel is channel), None)
        if worker is None:
            raise RequestRejected("who is there?")
        if what == "serving":
            self._mark_serving(worker, details.get("instance"))
            return {}
        if what == "metrics":
            return {"text": (await self._metrics()).decode()}
        raise RequestRejected(f"unknown command: {what}")

    def _register(self, channel: Channel, details: Details) -> Details:
        worker = self._workers.get(details.get("number", -1))
        if worker is None or worker.channel is not None or worker.process.pid != details.get("pid"):
            raise RequestRejected("not expected")
        worker.channel = channel
        if self._stopping.is_set():
            worker.stop(force=self._is_forced, lame_duck=self._has_lame_duck)
        return {}

    def _mark_serving(self, worker: Worker, instance: str | None) -> None:
        worker.has_served = True
        worker.instance = instance
        self._report_ended()
        logger.info("worker serves", number=worker.number, pid=worker.process.pid)
        self._serving.add(worker.number)
        if worker.reloads != self._reloads_requested:
            self._begin_reload(self._reload_late(worker))
        if not self._has_started and len(self._serving) == self._plan.workers:
            self._has_started = True
            if self._on_serving is not None:
                self._on_serving()
            if not self._stopping.is_set():
                self._notifier.ready()

    async def _metrics(self) -> bytes:
        """Over all workers. For a worker that does not answer in time, its last answer is used."""
        answers = await self._request_all("metrics", _ANSWER_S)
        present, silent = [self._own_metrics()], [self._gone_metrics]  # after the answers: no worker ends in between
        for worker, answer in answers:
            if self._workers.get(worker.number) is not worker:  # it ended meanwhile: its counts are in `_gone_metrics`
                continue
            if answer is not None:
                worker.last_metrics = answer["text"].encode()
                present.append(worker.last_metrics)
            elif worker.last_metrics:
                silent.append(worker.last_metrics)
        return await asyncio.to_thread(merge, present, silent)

    def _own_metrics(self) -> bytes:
        return (
            "# HELP streamweir_workers Workers that are serving.\n# TYPE streamweir_workers gauge\n"
            f"streamweir_workers {sum(worker.has_served for worker in self._workers.values())}\n"
            "# HELP streamweir_worker_restarts_total Workers that died and were replaced.\n"
            f"# TYPE streamweir_worker_restarts_total counter\nstreamweir_worker_restarts_total {self._restarts}\n"
            "# HELP streamweir_background_task_ends_total Background tasks that ended unexpectedly.\n"
            "# TYPE streamweir_background_task_ends_total counter\n"
            + "".join(
                f'streamweir_background_task_ends_total{{task="{name}"}} {count}\n'
                for name, count in self._background.ends.items()
            )
        ).encode()


def _exit_fields(status: int) -> dict[str, object]:
    return {"status": status} if status >= 0 else {"signal": signal.Signals(-status).name}
