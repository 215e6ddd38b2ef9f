"""Writes the report of this process for the others: soon after a state has changed, seldom otherwise.

Nothing here is on the path of a request. A look at the router costs no more than a scan of what it knows, and a text is
written at most once per `Intervals.report_s`: at once if a state or an error is new, after `report_all_s` if only
latencies or numbers of requests are, and after `report_again_s` in any case, because somebody may have deleted it.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial

from sqlalchemy import Connection

from streamweir import __version__
from streamweir.background import BackgroundTask, BackgroundTasks
from streamweir.policy.routing.router import Router
from streamweir.server.accounting.intervals import Intervals
from streamweir.server.nodes.report import counts_of, encode_report, news_of, report_of
from streamweir.store.db.base import Store, StoreUnavailable
from streamweir.store.db.clock import now_ms
from streamweir.store.requests.health_reports import write_report


class HealthReporter:
    def __init__(
        self,
        store: Store,
        instance: str,
        *,
        router: Callable[[], Router],
        requests: Callable[[], int],
        intervals: Intervals,
        background: BackgroundTasks,
    ) -> None:
        """`requests`: how many are running."""
        self._store = store
        self._instance = instance
        self._router = router
        self._requests = requests
        self._intervals = intervals
        self._background = background
        self._task: BackgroundTask | None = None
        self._news: frozenset[tuple[object, ...]] | None = None
        self._counts: tuple[object, ...] = ()
        self._written_at = 0.0

    def start(self) -> None:
        self._task = self._background.start("health report", self._run)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await self._task.over()

    async def report(self) -> bool:
        """Whether there was something to write. If the database is unavailable, the next look finds the same."""
        now = time.monotonic()
        report = report_of(self._router(), now, __version__, self._requests())
        news, silent_s = news_of(report, now), now - self._written_at
        counts = counts_of(report)
        if news == self._news:
            is_due = silent_s >= self._intervals.report_all_s and counts != self._counts
            if not is_due and silent_s < self._intervals.report_again_s:
                return False
        text = encode_report(report)
        try:
            await self._store.write(partial(_write, self._instance, text))
        except StoreUnavailable:
            return False
        self._news, self._counts, self._written_at = news, counts, now
        return True

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._intervals.report_s)
            await self.report()


def _write(instance: str, text: str, conn: Connection) -> None:
    write_report(conn, instance, text, now_ms())
