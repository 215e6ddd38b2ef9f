"""A writer with its journal over a real database, and the events that it reports."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from streamweir.store.db.base import Store
from streamweir.store.journal.entries import Hold, Settle
from streamweir.store.journal.journal import Journal
from streamweir.store.ledger.writer import Writer
from support.deadlines import WAIT_TIMEOUT_S
from support.entries import settle


def release(hold: Hold) -> Settle:
    """Of a hold that no caller waits for."""
    return settle(hold.request_id, 0, verdict="rejected", status=503, account=hold.account)


class WriterSetup:
    """`facts`: the reported events, by name."""

    def __init__(self, store: Store, folder: Path, instance: str = "test", **more: Any) -> None:
        self.facts: list[tuple[str, dict[str, Any]]] = []
        self._reported = asyncio.Event()
        self.folder = folder
        self.journal = Journal(folder, instance, report=self._report)
        self.journal.open()
        self.writer = Writer(store, self.journal, settle_abandoned=release, report=self._report, **more)

    def _report(self, name: str, details: dict[str, Any]) -> None:
        self.facts.append((name, details))
        self._reported.set()

    @property
    def reported(self) -> list[str]:
        return [name for name, _ in self.facts]

    async def wait_for(self, name: str) -> None:
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            while name not in self.reported:
                self._reported.clear()
                await self._reported.wait()

    async def flush(self) -> None:
        assert await self.writer.flush(WAIT_TIMEOUT_S)


@asynccontextmanager
async def writer_setup_on(store: Store, folder: Path, **more: Any) -> AsyncIterator[WriterSetup]:
    """Works without pauses by default; everything is written when the block is over."""
    setup = WriterSetup(store, folder, **{"pause_s": 0.0, **more})
    setup.writer.start()
    try:
        yield setup
    finally:
        is_flushed = await setup.writer.close(WAIT_TIMEOUT_S)
        is_closed = await setup.journal.close(WAIT_TIMEOUT_S)
    assert is_flushed
    assert is_closed
