"""The queue of contents for the database: bounded, with one task, separate from the ledger.

`put` never waits. If the queue is full, because the database is unavailable or too slow, the newest content is dropped
and counted: bounded memory is more important than the log. A content that the database refuses is dropped alone.
Packing runs in a thread, writing in separate transactions that do not wait for the disk.
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
        """`fault` is called with unexpected errors. `timeout_s`: of a transaction. `pause_s`: between two attempts."""
        self._store = store
        self.redactor = redactor
        """Replaced by a new configuration, which may have new secrets."""
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
        """The last attempt failed."""

    def start(self, background: BackgroundTasks | None = None) -> None:
        """`background` restarts the task after a failure and reports it; None: failures are not reported."""
        self._task = (background or BackgroundTasks()).start("content writer", self._run)

    def put(self, content: Content) -> bool:
        """Whether it was accepted."""
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
        """Contents that are not written in time are dropped."""
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
            except Exception:  # a bug, which one of these may have caused: they are not tried again
                self.dropped += len(batch)
                self._remove(batch)
                raise
            self._remove(batch)

    def _remove(self, batch: Sequence[_Waiting]) -> None:
        for each in batch:
            self._waiting.popleft()
            self._bytes -= each.size

    def _next_batch(self) -> list[_Waiting]:
        """The first contents of the queue. They stay in the queue until they are written."""
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
        """True: written, or dropped. False: to be tried again."""
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
