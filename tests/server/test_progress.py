"""While the database is unavailable, the progress of open requests leaves space in the journal for new requests."""

import asyncio
from itertools import pairwise
from pathlib import Path

from streamweir.server.accounting.intervals import SLOW_S, ProgressInterval
from streamweir.store.journal.journal import Journal
from streamweir.store.ledger.writer import Writer
from support.deadlines import WAIT_TIMEOUT_S
from support.entries import books_on, hold, open_ids, progress
from support.flaky_store import FlakyStore
from support.writer_setup import release, writer_setup_on

HOUR_S = 3600


async def test_an_outage_of_hours_is_a_few_entries(tmp_path: Path) -> None:
    async with books_on("sqlite", tmp_path) as real:
        store = FlakyStore(real)
        async with writer_setup_on(store, tmp_path / "journal") as setup:
            setup.writer.put(hold("r1"))
            await setup.flush()
            store.gate.clear()
            interval = ProgressInterval(setup.writer)
            written: list[int] = []
            for second in range(24 * HOUR_S):
                if interval.may_write(second):
                    setup.writer.put(progress(("r1", "p/m", second)))
                    interval.note_written(second)
                    written.append(second)
            assert written[: int(SLOW_S)] == list(range(int(SLOW_S))), "a database that is only slow changes nothing"
            assert len(written) < 50
            gaps = [(after - before) / after for before, after in pairwise(written[1:])]
            assert max(gaps) <= 0.5, "none is older than a part of the outage"
            store.gate.set()
            await setup.flush()
            assert interval.may_write(24 * HOUR_S)
            interval.note_written(24 * HOUR_S)
        assert await real.read(open_ids) == ["r1"]


async def test_the_second_half_of_the_journal_is_left_to_requests(tmp_path: Path) -> None:
    async with books_on("sqlite", tmp_path) as real:
        store = FlakyStore(real)
        store.gate.clear()
        journal = Journal(tmp_path / "journal", "i", max_bytes=20_000)
        journal.open()
        writer = Writer(store, journal, pause_s=0.0, settle_abandoned=release)
        writer.start()
        interval = ProgressInterval(writer)
        for number in range(1000):
            if interval.may_write(0.0):
                writer.put(progress(*((f"r{each}", "p/m", number) for each in range(10))))
                interval.note_written(0.0)
        assert not writer.has_spare_capacity
        assert journal.unapplied_bytes < 11_000
        await writer.put(hold("r1")).written()
        store.gate.set()
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            assert await writer.flush(WAIT_TIMEOUT_S)
        assert writer.has_spare_capacity
        assert interval.may_write(0.0)
        assert await writer.close(WAIT_TIMEOUT_S)
        assert await journal.close(WAIT_TIMEOUT_S)
