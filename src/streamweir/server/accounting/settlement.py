"""The end of a request: unreported tokens are counted, then it is settled, then logged.

Nothing waits for this: the caller has its answer or has disconnected. Slow work (counting, packing stored content) runs
in a thread, in a task that is owned here; everything else is done at once. When the process ends, running settlements
are waited for (`wait_settled`); what is not done by then is settled as an orphan after the next start.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol

from msgspec import Struct

from streamweir.pipeline.settlement import Settlement
from streamweir.server.accounting.accounting import Accounting
from streamweir.server.accounting.reservation import Reservation
from streamweir.server.telemetry.record import RequestRecord
from streamweir.store.requests.content import Content
from streamweir.store.requests.content_queue import ContentQueue


class EndedRequest(Struct, frozen=True, kw_only=True):
    """A request that is over, and the remaining work for it."""

    record: RequestRecord
    reservation: Reservation | None = None
    count: Callable[[], Settlement] | None = None
    """Counts unreported tokens. Runs in a thread."""
    estimate: Callable[[], Settlement] | None = None
    """The same as an estimate, which cannot fail."""
    content: Callable[[], Content] | None = None
    """The stored content, for a key with `log_content`. Runs in a thread."""
    settled: Callable[[RequestRecord], None] | None = None
    """Called when it is settled."""


class Report(Protocol):
    """See `server.telemetry.reporting`."""

    def request_ended(self, record: RequestRecord, /) -> None: ...

    async def content_ready(self, record: RequestRecord, content: Content | None, /) -> None:
        """After `request_ended`, once for each record with `has_content`. None: it could not be read."""
        ...


class Settlements:
    def __init__(
        self,
        accounting: Accounting,
        contents: ContentQueue | None,
        executor: Executor,
        report: Report,
        fault: Callable[[BaseException, str], None],
    ) -> None:
        """`report` gets every request once, with its complete record; `fault` is called for a bug, with the id."""
        self._accounting = accounting
        self._contents = contents
        self._executor = executor
        self._report = report
        self._fault = fault
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    def settle(self, ended: EndedRequest) -> None:
        if ended.count is None and ended.content is None:
            self._finish(ended)
            return
        task = asyncio.get_running_loop().create_task(self._settle(ended))
        self._tasks.add(task)
        self._idle.clear()
        task.add_done_callback(self._done)

    async def wait_settled(self) -> None:
        await self._idle.wait()

    async def _settle(self, ended: EndedRequest) -> None:
        record = ended.record
        try:
            settlement = await self._count(ended)
            if settlement is not None:
                record.usage, record.usage_source = settlement.usage, settlement.usage_source
                record.delivered = settlement.delivered
            record.has_content = ended.content is not None and self._contents is not None
            self._finish(ended)
            if ended.content is not None and self._contents is not None:
                content = await self._read(ended.content, record.id)
                if content is not None:
                    self._contents.put(content)
                await self._report.content_ready(record, content)
        except Exception as reason:  # noqa: BLE001 (a bug: if it is not settled, it is found as an orphan)
            self._fault(reason, record.id)

    async def _read(self, content: Callable[[], Content], id: str) -> Content | None:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, content)
        except Exception as reason:  # noqa: BLE001 (a bug: the request is settled and logged all the same)
            self._fault(reason, id)
            return None

    async def _count(self, ended: EndedRequest) -> Settlement | None:
        if ended.count is None:
            return None
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, ended.count)
        except asyncio.CancelledError:
            raise
        except BaseException as reason:  # noqa: BLE001 (a tokenizer's panic is no Exception; the hold must be released)
            self._fault(reason, ended.record.id)
            return ended.estimate() if ended.estimate is not None else None

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not self._tasks:
            self._idle.set()

    def _finish(self, ended: EndedRequest) -> None:
        if ended.reservation is not None:
            self._accounting.settle(ended.reservation, ended.record)
        else:
            self._accounting.refused(ended.record)
        if ended.settled is not None:
            ended.settled(ended.record)
        self._report.request_ended(ended.record)
