"""Background tasks: a task that ends unexpectedly is reported and restarted.

A task ends unexpectedly when its coroutine raises, returns, or is cancelled by somebody else. Only the callback at
its end watches it, so there is no second task that could end too. It is restarted after a pause that doubles with
each failure in a row, up to a limit. After several failures without a healthy interval between them the task is
`failing`; it is healthy again when it has run for such an interval. Every task of the program that neither belongs to
one request nor ends by itself is started here (`tests/test_background_guard.py`). Nothing is logged here: the owner
of the tasks decides what is done with a report.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from time import monotonic
from typing import Any

from msgspec import Struct

Run = Callable[[], Coroutine[Any, Any, None]]
"""The coroutine function of the task. It is called again for every start."""


class TaskEnd(Struct, frozen=True, kw_only=True):
    """An unexpected end."""

    name: str
    fault: BaseException | None
    """None: it returned, or was cancelled."""
    reason: str
    lived_s: float
    failures: int
    """The failures in a row, including this one."""
    restart_s: float | None
    """It is started again in so many seconds. None: its end was requested meanwhile."""


class Backoff(Struct, frozen=True, kw_only=True):
    first_s: float = 0.1
    max_delay_s: float = 30.0
    healthy_s: float = 10.0
    """A task that has run for so long is healthy."""
    max_failures: int = 3
    """With so many in a row it is failing."""


class BackgroundTask:
    """One task, made by `BackgroundTasks.start`."""

    def __init__(self, name: str, run: Run, owner: "BackgroundTasks") -> None:
        self.name = name
        self.is_failing = False
        self._run = run
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._check: asyncio.TimerHandle | None = None
        self._is_asked = False
        self._over = asyncio.Event()
        self._failures = 0
        self._started_at = 0.0
        self._start()

    @property
    def task(self) -> asyncio.Task[None] | None:
        """The running task; None while it waits to be restarted, or is over."""
        return self._task

    def expect_end(self) -> None:
        """From now on an end is expected: it is not restarted."""
        self._is_asked = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is None:
            self._finish()

    async def over(self) -> None:
        """Returns when it has ended permanently."""
        await self._over.wait()

    async def stop(self, timeout_s: float = 0.0) -> None:
        """It may end by itself within this time, and is cancelled then. Leaves no task behind."""
        self.expect_end()
        task = self._task
        if task is None:
            return
        if timeout_s > 0:
            await asyncio.wait((task,), timeout=timeout_s)
        self.cancel()
        await asyncio.wait((task,))

    def cancel(self) -> None:
        """Does not wait for it."""
        self.expect_end()
        if self._task is not None:
            self._task.cancel()

    def _start(self) -> None:
        self._timer = None
        self._started_at = monotonic()
        self._task = self._loop.create_task(self._run(), name=self.name)
        self._task.add_done_callback(self._ended)
        if self._failures:
            self._check = self._loop.call_later(self._owner.backoff.healthy_s, self._recovered)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if self._check is not None:
            self._check.cancel()
            self._check = None
        fault = None if task.cancelled() else task.exception()
        if self._is_asked:
            self._finish()
            if fault is None:
                return
        backoff, lived_s = self._owner.backoff, monotonic() - self._started_at
        self._failures = 1 if lived_s >= backoff.healthy_s else self._failures + 1
        restart_s = None
        if not self._is_asked:
            restart_s = min(backoff.first_s * 2.0 ** min(self._failures - 1, 32), backoff.max_delay_s)
            self._timer = self._loop.call_later(restart_s, self._start)
            self._set_failing(self._failures >= backoff.max_failures)
        reason = "cancelled" if task.cancelled() else "returned" if fault is None else type(fault).__name__
        self._owner.ended(
            TaskEnd(
                name=self.name,
                fault=fault,
                reason=reason,
                lived_s=lived_s,
                failures=self._failures,
                restart_s=restart_s,
            )
        )

    def _recovered(self) -> None:
        self._check = None
        self._failures = 0
        self._set_failing(False)

    def _finish(self) -> None:
        self._set_failing(False)
        self._over.set()
        self._owner.forget(self)

    def _set_failing(self, is_failing: bool) -> None:
        if self.is_failing != is_failing:
            self.is_failing = is_failing
            self._owner.changed()


class BackgroundTasks:
    """All background tasks of a process. `report` is called for every unexpected end, `on_change` when a task begins or
    ceases to fail: `failing` lists those that fail."""

    def __init__(
        self,
        report: Callable[[TaskEnd], None] = lambda _: None,
        on_change: Callable[[], None] = lambda: None,
        *,
        backoff: Backoff | None = None,
    ) -> None:
        self.backoff = backoff if backoff is not None else Backoff()
        self.report = report
        self.on_change = on_change
        self.ends: dict[str, int] = {}
        """How often each has ended unexpectedly, by name; 0 if it never did."""
        self._tasks: dict[BackgroundTask, None] = {}

    def start(self, name: str, run: Run) -> BackgroundTask:
        """Names come from a fixed set: they are labels of a metric."""
        task = BackgroundTask(name, run, self)
        self._tasks[task] = None
        self.ends.setdefault(name, 0)
        return task

    @property
    def running(self) -> Iterable[BackgroundTask]:
        """Those that are not over."""
        return tuple(self._tasks)

    @property
    def failing(self) -> list[str]:
        return sorted({task.name for task in self._tasks if task.is_failing})

    async def stop(self) -> None:
        """Stops all that are still running."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        for task in tasks:
            await task.over()

    # Called by the tasks.

    def ended(self, end: TaskEnd) -> None:
        self.ends[end.name] = self.ends.get(end.name, 0) + 1
        self.report(end)

    def changed(self) -> None:
        self.on_change()

    def forget(self, task: BackgroundTask) -> None:
        self._tasks.pop(task, None)
