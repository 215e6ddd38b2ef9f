"""The queue of contents: it never waits, drops the newest when it is full, and ends in time."""

import asyncio
import sqlite3
from functools import partial
from pathlib import Path

from sqlalchemy import func, select

from streamweir.background import BackgroundTasks, Backoff, TaskEnd
from streamweir.policy.redact import HIDDEN, Frame, Redactor
from streamweir.store.db.base import Store
from streamweir.store.db.tables import contents
from streamweir.store.requests.content import find_content
from streamweir.store.requests.content_queue import ContentQueue
from support.contents import dump, make_content
from support.request_rows import insert_key
from support.stores import each_database, store_on

SECRET = "sk-sw-" + "a1B2c3D4" * 6


def unexpected(reason: BaseException) -> None:
    raise AssertionError from reason


async def count(store: Store) -> int:
    return await store.read(lambda conn: conn.execute(select(func.count()).select_from(contents)).scalar_one())


@each_database
async def test_what_is_put_is_redacted_and_written(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        await store.write(insert_key)
        queue = ContentQueue(store, Redactor(), unexpected)
        queue.start()
        for number in range(100):
            assert queue.put(make_content(number, answer=f"the key is {SECRET}"))
        await queue.close(30)
        assert not queue.put(make_content(100))
        assert (await count(store), queue.dropped) == (100, 1)
        packed = await store.read(partial(find_content, request_id=make_content(7).request_id))
        assert packed is not None
        assert packed.unpack().answer == f"the key is {HIDDEN}"
        assert SECRET not in await store.read(dump)


async def test_while_the_database_is_unavailable_the_newest_are_dropped(tmp_path: Path) -> None:
    async with store_on("sqlite", tmp_path) as store:
        await store.write(insert_key)
        size = make_content(1).size
        queue = ContentQueue(store, Redactor(), unexpected, max_bytes=10 * size + 1, timeout_s=0.02, pause_s=0.001)
        queue.start()
        other = sqlite3.connect(tmp_path / "streamweir.db", isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        taken = [queue.put(make_content(number)) for number in range(15)]
        assert taken == [True] * 10 + [False] * 5
        while not queue.is_unavailable:
            await asyncio.sleep(0.001)
        assert not queue.put(make_content(99))  # what is being tried still takes its place
        other.execute("ROLLBACK")
        other.close()
        await queue.close(30)
        assert (await count(store), queue.dropped, queue.is_unavailable) == (10, 6, False)


async def test_to_close_takes_no_longer_than_it_may(tmp_path: Path) -> None:
    async with store_on("sqlite", tmp_path) as store:
        await store.write(insert_key)
        queue = ContentQueue(store, Redactor(), unexpected, timeout_s=0.02, pause_s=0.001)
        queue.start()
        other = sqlite3.connect(tmp_path / "streamweir.db", isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        for number in range(5):
            assert queue.put(make_content(number))
        while not queue.is_unavailable:
            await asyncio.sleep(0.001)
        await asyncio.wait_for(queue.close(0.05), 30)
        await queue.close(0.05)
        other.execute("ROLLBACK")
        other.close()
        assert (await count(store), queue.dropped) == (0, 5)


async def test_a_queue_that_was_never_started_takes_nothing(tmp_path: Path) -> None:
    async with store_on("sqlite", tmp_path) as store:
        queue = ContentQueue(store, Redactor(), unexpected)
        assert not queue.put(make_content(1))
        await queue.close(1)
        assert queue.dropped == 1


@each_database
async def test_what_the_database_refuses_is_dropped_alone(database: str, tmp_path: Path) -> None:
    faults: list[BaseException] = []
    async with store_on(database, tmp_path) as store:
        await store.write(insert_key)
        queue = ContentQueue(store, Redactor(), faults.append)
        queue.start()
        for number in range(6):
            assert queue.put(make_content(number, at_ms=2**70 if number == 3 else number, answer=f"words of {number}"))
        await queue.close(30)
        assert (await count(store), queue.dropped, len(faults)) == (5, 1, 1)
        assert "words" not in str(faults[0])


class Broken(Redactor):
    def frames(self, frames: object) -> list[Frame]:
        raise RuntimeError(f"a bug, met by {type(frames).__name__}")


async def test_a_bug_loses_one_batch_is_reported_and_the_next_are_kept(tmp_path: Path) -> None:
    ends: asyncio.Queue[TaskEnd] = asyncio.Queue()
    async with store_on("sqlite", tmp_path) as store:
        await store.write(insert_key)
        queue = ContentQueue(store, Broken(), unexpected)
        queue.start(BackgroundTasks(ends.put_nowait, backoff=Backoff(first_s=0.0)))
        assert queue.put(make_content(1))
        end = await ends.get()
        assert (end.name, str(end.fault), queue.dropped) == ("content writer", "a bug, met by list", 1)
        queue.redactor = Redactor()
        assert queue.put(make_content(2))
        await queue.close(30)
        assert (await count(store), queue.dropped) == (1, 1)
