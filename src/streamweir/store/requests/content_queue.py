"""Contents on their way to the database: a bounded queue and one task, out of the ledger's way.

To put one in never waits. Where the queue is full, because the database is away or slower than the
callers, the newest is dropped and counted: a log of what was said is worth less than memory. What the
database does not take for what it holds is dropped alone. Packing is done in a thread, writing in
transactions of its own that do not wait for the disk.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from msgspec import Struct
from sqlalchemy.exc import DBAPIError

from streamweir.background import BackgroundTask, BackgroundTasks
from streamweir.policy.redact import Redactor
from streamweir.store.db.base import Store, StoreUnavailable
from streamweir.store.requests.content import Content, PackedContent, pack, write_contents

MAX_BYTES = 32 << 20
_BATCH_BYTES = 4 << 20
_BATCH_ROWS = 32


class _Waiting(Struct, frozen=True):
    content: Content
    size: int


class ContentQueue:
    def __init__(
        self,
        store: Store,
        redactor: Redactor,
        fault: Callable[[BaseException], None],
        *,
        max_bytes: int = MAX_BYTES,
        timeout_s: float = 5.0,
        pause_s: float = 1.0,
    ) -> None:
        """`fault` hears of what was not foreseen. `timeout_s`: for a transaction. `pause_s`: between two tries."""
        self._store = store
        self.redactor = redactor
        """What is hidden from now on: a new configuration may have new secrets."""
        self._fault = fault
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._pause_s = pause_s
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._has_work = asyncio.Event()
        self._is_closing = asyncio.Event()
        self._task: BackgroundTask | None = None
        self.dropped = 0
        self.is_unavailable = False
        """The database took nothing at the last try."""

    def start(self, background: BackgroundTasks | None = None) -> None:
        """`background`: who keeps it running; None: nobody is told when that is needed."""
        self._task = (background or BackgroundTasks()).start("content writer", self._run)

    def put(self, content: Content) -> bool:
        """Whether it was taken."""
        size = content.size
        is_open = self._task is not None and not self._is_closing.is_set()
        if not is_open or self._bytes + size > self._max_bytes:
            self.dropped += 1
            return False
        self._waiting.append(_Waiting(content, size))
        self._bytes += size
        self._has_work.set()
        return True

    async def close(self, timeout_s: float) -> None:
        """What is not written by then is dropped."""
        self._is_closing.set()
        self._has_work.set()
        if self._task is not None:
            await self._task.stop(timeout_s)
        self.dropped += len(self._waiting)
        self._waiting.clear()
        self._bytes = 0

    async def _run(self) -> None:
        while self._waiting or not self._is_closing.is_set():
            if not self._waiting:
                self._has_work.clear()
                await self._has_work.wait()
                continue
            batch = self._next_batch()
            try:
                packed = await asyncio.to_thread(self._pack, [each.content for each in batch])
                await self._write(packed)
            except Exception:  # a bug of ours, which one of these may have met: the next ones are not to meet it again
                self.dropped += len(batch)
                self._remove(batch)
                raise
            self._remove(batch)

    def _remove(self, batch: Sequence[_Waiting]) -> None:
        for each in batch:
            self._waiting.popleft()
            self._bytes -= each.size

    def _next_batch(self) -> list[_Waiting]:
        """The first that waits, and those behind it that go with it. They wait until they are written."""
        batch: list[_Waiting] = []
        size = 0
        for each in self._waiting:
            size += each.size
            if batch and (size > _BATCH_BYTES or len(batch) == _BATCH_ROWS):
                break
            batch.append(each)
        return batch

    def _pack(self, batch: Sequence[Content]) -> list[PackedContent]:
        return [pack(content, self.redactor) for content in batch]

    async def _write(self, packed: Sequence[PackedContent]) -> None:
        while not await self._try_write(packed):
            await asyncio.sleep(self._pause_s)

    async def _try_write(self, packed: Sequence[PackedContent]) -> bool:
        """Whether it is over with: written, or dropped."""
        try:
            await self._store.write_content(lambda conn: write_contents(conn, packed), timeout_s=self._timeout_s)
        except StoreUnavailable:
            self.is_unavailable = True
            return False
        except (DBAPIError, OverflowError) as reason:
            if len(packed) == 1:
                self.dropped += 1
                self._fault(reason)
            else:
                for each in packed:
                    await self._write([each])
        self.is_unavailable = False
        return True
