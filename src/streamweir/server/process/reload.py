"""Reloads of a running process: on request, and when a secret that is kept elsewhere has changed.

    SIGHUP ----> reload: file, variables and all secrets are read again --\\
                                                                           > Config -> Gateway.reload
    interval --> refresh: secrets that are due are read; if one changed --/

Both read in a thread, one after the other. A refresh uses the text and the variables of the last reload: a file that an
operator is still editing is not used before it is requested. A secret that cannot be read keeps its value; the next
attempt comes sooner than its interval. A value that makes the configuration invalid is not used, and read again at the
next interval. Nothing here logs or shows a value, or what a command has written.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client.metrics_core import Metric

from streamweir.background import BackgroundTask, BackgroundTasks
from streamweir.config.display.difference import Difference
from streamweir.config.error import ConfigError
from streamweir.config.file.secret_reference import Reference
from streamweir.config.model import Config
from streamweir.config.reload_log import Cause
from streamweir.config.source import ConfigSource
from streamweir.server.telemetry.log import logger
from streamweir.server.telemetry.metric_families import counter, gauge
from streamweir.store.db.clock import now_ms

_SHORTEST_S = 1.0
_RETRY_S = 5.0
"""The first pause after a failure; it doubles up to the interval."""
_OUTCOMES = ("changed", "failed", "unchanged")
_KEPT = "secret not read again: the previous value stays in use"


class Reloads:
    def __init__(
        self,
        source: ConfigSource,
        use: Callable[[Config], Difference],
        *,
        background: BackgroundTasks,
        shortest_s: float = _SHORTEST_S,
    ) -> None:
        """`use` returns what is new, and may raise `ConfigError`. `shortest_s`: the shortest interval."""
        self._source = source
        self._secrets = source.secrets
        self._use = use
        self._background = background
        self._shortest_s = shortest_s
        self._lock = asyncio.Lock()
        self._changed = asyncio.Event()
        self._due: dict[Reference, float] = {}
        self._failures: Counter[Reference] = Counter()
        self._outcomes: Counter[str] = Counter()
        self._task: BackgroundTask | None = None
        self._is_stopped = False
        self._has_succeeded = True
        """The last reload, or the start."""
        self._succeeded_at = time.time()

    def start(self) -> None:
        """`source` has been loaded."""
        self._plan()
        self._task = self._background.start("secrets", self._run)

    async def stop(self) -> None:
        """No configuration is used from now on."""
        self._is_stopped = True
        self._secrets.stop()
        if self._task is not None:
            await self._task.stop()

    async def reload(self) -> None:
        """Reads everything again. Raises `ConfigError`."""
        async with self._lock:
            with self._noted("request"), self._source.undone_if_invalid():
                self._secrets.expire()
                config = await asyncio.to_thread(self._source.load)
                self._apply(config, "request")
            for reference, reason in self._secrets.failed.items():
                self._failed(reference, reason)
            self._plan()

    def families(self) -> Iterator[Metric]:
        about = "Secrets that were read again from a file or a command at their interval, by outcome."
        yield counter("secret_refreshes", about, ("outcome",), {(each,): self._outcomes[each] for each in _OUTCOMES})
        about = "1 if the last reload of the configuration succeeded, or there was none since the start."
        yield gauge("config_last_reload_successful", about, (), [((), int(self._has_succeeded))])
        about = "Unix time of the last reload that succeeded, or of the start."
        yield gauge("config_last_reload_success_timestamp_seconds", about, (), [((), self._succeeded_at)])

    @contextmanager
    def _noted(self, cause: Cause) -> Iterator[None]:
        try:
            yield
        except ConfigError as error:
            self._has_succeeded = False
            self._source.log.refused(now_ms(), cause, error)
            raise
        self._has_succeeded, self._succeeded_at = True, time.time()

    def _apply(self, config: Config, cause: Cause) -> None:
        if self._is_stopped:
            raise ConfigError("", "the process is stopping")
        self._source.log.taken(now_ms(), cause, self._use(config))

    def _plan(self) -> None:
        """When each is due that has not been planned yet."""
        now = asyncio.get_running_loop().time()
        refreshed = [each for each in self._secrets.used if each.refresh_s]
        self._due = {each: self._due.get(each, now + self._interval_s(each)) for each in refreshed}
        self._failures = Counter({each: self._failures[each] for each in refreshed})
        self._changed.set()

    def _interval_s(self, reference: Reference) -> float:
        interval_s, failures = max(reference.refresh_s, self._shortest_s), self._failures[reference]
        return min(interval_s, _RETRY_S * 2.0 ** min(failures - 1, 32)) if failures else interval_s

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            pause_s = min(self._due.values()) - loop.time() if self._due else None
            if pause_s is None or pause_s > 0:
                try:
                    async with asyncio.timeout(pause_s):
                        await self._changed.wait()
                except TimeoutError:
                    pass
                continue
            async with self._lock:
                await self._refresh([each for each, at in self._due.items() if at <= loop.time()])

    async def _refresh(self, due: list[Reference]) -> None:
        """Reads them, and uses what has changed."""
        found = await asyncio.to_thread(self._secrets.resolve, due, self._source.folder)
        changed: dict[Reference, str] = {}
        for reference, value in found.items():
            if not isinstance(value, str):
                self._failed(reference, str(value))
            elif value != self._secrets.values[reference]:
                changed[reference] = value
            else:
                self._succeeded(reference, "unchanged")
        if changed:
            await self._use_changed(changed)
        now = asyncio.get_running_loop().time()
        self._due |= {each: now + self._interval_s(each) for each in due}

    async def _use_changed(self, changed: dict[Reference, str]) -> None:
        settings = sorted(self._secrets.used[each] for each in changed)
        try:
            with self._noted("secret"), self._source.undone_if_invalid():
                self._secrets.values = {**self._secrets.values, **changed}
                self._apply(await asyncio.to_thread(self._source.load_again), "secret")
        except ConfigError as error:
            reason = "; ".join(str(error).splitlines())
            logger.error(
                "changed secrets not used: the configuration is invalid with them", settings=settings, reason=reason
            )
            for reference in changed:
                self._count_failure(reference)
            return
        for reference in changed:
            self._succeeded(reference, "changed")
        logger.info("configuration reloaded with changed secrets", settings=settings)

    def _succeeded(self, reference: Reference, outcome: str) -> None:
        self._outcomes[outcome] += 1
        self._failures.pop(reference, None)

    def _count_failure(self, reference: Reference) -> None:
        self._outcomes["failed"] += 1
        self._failures[reference] += 1

    def _failed(self, reference: Reference, reason: str) -> None:
        self._count_failure(reference)
        logger.warning(_KEPT, setting=self._secrets.used.get(reference), reason=reason)
