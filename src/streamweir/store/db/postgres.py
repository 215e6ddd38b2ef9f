"""A store in PostgreSQL: a few connections, each transaction in its own task, which is never cancelled.

Cancelling a task while the driver waits for the server would leave a connection that is neither idle nor closed. So
the caller waits for a task and may be cancelled, while the task continues. At the time limit the connection is
terminated, and the server rolls back. A failure before the commit is retried if that may help (a lost connection, a
deadlock). A lost commit is not retried.
"""

import asyncio
import random
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Generic, Protocol
from urllib.parse import urlsplit
from weakref import WeakSet

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy import Connection, event, func, select
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from streamweir.store.db.base import Store, StoreError, StoreUnavailable, T
from streamweir.store.db.clock import Deadline, time_limit

_CONNECT_S = 5.0
_CLOSE_S = 3.0
_STATEMENT_MS = 10_000
_SETTINGS = {"application_name": "streamweir", "statement_timeout": str(_STATEMENT_MS), "lock_timeout": "5000"}
_CONNECTION_CHECK = {"client_connection_check_interval": "500ms"}
"""Makes the server roll back soon when a connection is lost during a statement. Not every server supports it."""
_UNKNOWN_SETTING = ("42704", "22023")
_WRITERS, _READERS = 3, 2
_PAUSE_S = 0.005
"""The maximum random pause before the second attempt. It doubles with each further one."""

_MIN_PART = 4

_RETRYABLE = ("40001", "40P01", "0A000")
"""Serialization failure, deadlock, and a plan that another node's migration made stale."""
_READ_ONLY = "25006"
_SERVER_STATES = ("08", "25P03", _READ_ONLY, "28", "3D000", "53", "55000", "55P03", "57", "58", "XX001", "XX002")
"""SQLSTATEs, or their classes, that concern the server and not the statement."""


class _Driver(Protocol):
    def terminate(self) -> None: ...
    def is_closed(self) -> bool: ...


class PostgresStore(Store):
    """Connects at the first operation. A URL that cannot be parsed is a `StoreError`."""

    is_sqlite = False

    def __init__(self, url: str) -> None:
        self._dsn = "postgresql:" + url.partition(":")[2]
        self.where = _describe(self._dsn)
        self._drivers: WeakSet[Any] = WeakSet()
        self._connection_check = _CONNECTION_CHECK
        engine = self._make_engine(_SETTINGS, _WRITERS + _READERS)
        content = self._make_engine({**_SETTINGS, "synchronous_commit": "off"}, 1)
        snapshot = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        self._engines = (engine, content)
        self._read = _ConnectionSlots(snapshot, _READERS)
        self._write = _ConnectionSlots(engine, _WRITERS)
        self._content = _ConnectionSlots(content, 1)
        self._tasks: dict[asyncio.Task[Any], _Operation[Any]] = {}
        self._stale_before = 0.0
        self._is_closed = False

    async def read(self, work: Callable[[Connection], T], *, timeout_s: float = 5.0) -> T:
        return await self._run(self._read, work, timeout_s)

    async def write(self, work: Callable[[Connection], T], *, timeout_s: float = 5.0) -> T:
        return await self._run(self._write, work, timeout_s)

    async def write_content(self, work: Callable[[Connection], T], *, timeout_s: float = 5.0) -> T:
        return await self._run(self._content, work, timeout_s)

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        await _wait_for_tasks(set(self._tasks), _CLOSE_S)
        for operation in self._tasks.values():
            operation.abandon()
        await _wait_for_tasks(set(self._tasks), _CONNECT_S)
        disposal = {asyncio.create_task(engine.dispose()) for engine in self._engines}
        await _wait_for_tasks(disposal, _CLOSE_S)
        for driver in list(self._drivers):  # the server does not answer
            driver.terminate()
        await _wait_for_tasks(disposal, _CLOSE_S)

    async def _run(self, slots: "_ConnectionSlots", work: Callable[[Connection], T], timeout_s: float) -> T:
        deadline = time.monotonic() + timeout_s
        try:
            async with time_limit(timeout_s):
                await slots.semaphore.acquire()
        except TimeoutError:
            raise self._unavailable("not begun in time") from None
        if self._is_closed:
            slots.semaphore.release()
            raise self._unavailable("it is closed")
        # The time may have passed while the event loop was blocked: a part of it always remains.
        operation = _Operation(slots.engine, work, timeout_s, max(deadline, time.monotonic() + timeout_s / _MIN_PART))
        task, abandoned = self._start(slots, operation)
        await asyncio.wait((task, abandoned), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise self._unavailable(f"not done within {timeout_s:g} s", operation)
        fault = task.exception()
        if fault is None:
            return task.result()
        if operation.is_abandoned:
            raise self._unavailable(f"not done within {timeout_s:g} s", operation) from fault
        reason = why_unavailable(fault, is_read=slots is self._read)
        if not reason:
            raise fault
        raise self._unavailable(reason, operation) from fault

    def _start(
        self, slots: "_ConnectionSlots", operation: "_Operation[T]"
    ) -> tuple[asyncio.Task[T], asyncio.Future[None]]:
        """The task, and a future that is done at the time limit. After that the task cannot begin its commit."""
        loop = asyncio.get_running_loop()
        abandoned = loop.create_future()

        def expire() -> None:
            self._abandon(operation)
            if not abandoned.done():
                abandoned.set_result(None)

        expiry = Deadline(loop, operation.remaining_s, expire)

        def ended(task: asyncio.Task[T]) -> None:
            expiry.cancel()
            slots.semaphore.release()
            del self._tasks[task]
            if not task.cancelled():
                task.exception()  # marks it as retrieved

        task = loop.create_task(operation.run())
        self._tasks[task] = operation
        task.add_done_callback(ended)
        return task, abandoned

    def _abandon(self, operation: "_Operation[Any]") -> None:
        """If one connection is dead, idle ones may be dead as well: older ones are not used again."""
        self._stale_before = time.monotonic()
        operation.abandon()

    def _unavailable(self, reason: str, operation: "_Operation[Any] | None" = None) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self.where}: {reason}", maybe_committed=operation is not None and operation.is_committing
        )

    def _make_engine(self, settings: dict[str, str], size: int) -> AsyncEngine:
        async def connect() -> _Driver:
            operation = _current.get()
            timeout_s = min(_CONNECT_S, operation.remaining_s)
            try:
                driver: _Driver = await asyncpg.connect(
                    self._dsn, timeout=timeout_s, server_settings={**settings, **self._connection_check}
                )
            except asyncpg.PostgresError as fault:
                if not self._connection_check or fault.sqlstate not in _UNKNOWN_SETTING:
                    raise
                self._connection_check = {}
                return await connect()
            self._drivers.add(driver)
            operation.set_driver(driver)
            return driver

        engine = create_async_engine(
            "postgresql+asyncpg://",
            async_creator=connect,
            pool_size=size,
            max_overflow=0,
            hide_parameters=True,
        )
        event.listen(engine.sync_engine, "checkout", self._check_out)
        event.listen(engine.sync_engine, "checkin", _check_in)
        return engine

    def _check_out(self, connection: Any, record: Any, _proxy: object) -> None:
        """Finds connections that were lost while they were idle, so that no operation fails because of them."""
        driver: _Driver = connection.driver_connection
        if driver.is_closed() or record.info.get("idle_since", self._stale_before) < self._stale_before:
            driver.terminate()
            raise DisconnectionError
        _current.get().set_driver(driver)


class _ConnectionSlots:
    """The maximum number of concurrent operations of one kind. The pool has a connection for each."""

    def __init__(self, engine: AsyncEngine, semaphore: int) -> None:
        self.engine = engine
        self.semaphore = asyncio.Semaphore(semaphore)


class _Operation(Generic[T]):
    """One function, tried until it is committed, fails permanently, or is abandoned."""

    def __init__(self, engine: AsyncEngine, work: Callable[[Connection], T], timeout_s: float, deadline: float) -> None:
        self._engine = engine
        self._work = work
        self._statement_ms = int(timeout_s * 1000)
        self._deadline = deadline
        self._driver: _Driver | None = None
        self.is_abandoned = False
        self.is_committing = False

    @property
    def remaining_s(self) -> float:
        return max(0.001, self._deadline - time.monotonic())

    def set_driver(self, driver: _Driver) -> None:
        """Sets the connection, so that `abandon` can terminate it."""
        self._driver = driver
        if self.is_abandoned:
            driver.terminate()

    def abandon(self) -> None:
        self.is_abandoned = True
        if self._driver is not None:
            self._driver.terminate()

    async def run(self) -> T:
        _current.set(self)
        attempts = 0
        while True:
            try:
                return await self._attempt()
            except (DBAPIError, OSError) as fault:
                attempts += 1
                if self.is_committing or self.is_abandoned or not _may_retry(fault, attempts):
                    raise
            await asyncio.sleep(random.random() * _PAUSE_S * 2 ** min(attempts, 6))  # noqa: S311

    async def _attempt(self) -> T:
        async with self._engine.connect() as conn:
            try:
                async with conn.begin():
                    result = await conn.run_sync(self._perform)
                    self._check()
                    self.is_committing = True
                return result
            finally:
                self._driver = None

    def _perform(self, conn: Connection) -> T:
        self._check()
        if self._statement_ms > _STATEMENT_MS:
            conn.execute(select(func.set_config("statement_timeout", str(self._statement_ms), True)))
            conn.execute(select(func.set_config("lock_timeout", str(self._statement_ms), True)))
        return self._work(conn)

    def _check(self) -> None:
        if self.is_abandoned:
            raise StoreUnavailable("given up")


_current: ContextVar[_Operation[Any]] = ContextVar("operation")


def why_unavailable(fault: BaseException, *, is_read: bool = False) -> str:
    """Empty: the error concerns the statement or its values, not the server."""
    cause = _cause(fault)
    if is_read and _state(cause) == _READ_ONLY:
        return ""  # a bug: a read function has written
    if isinstance(cause, TimeoutError):
        return "no answer"
    if isinstance(cause, OSError):
        return cause.strerror or str(cause) or type(cause).__name__
    if _state(cause).startswith((*_SERVER_STATES, *_RETRYABLE)):
        return str(cause)
    if isinstance(fault, DBAPIError) and fault.connection_invalidated:
        return "the connection was lost"
    return ""


def _may_retry(fault: BaseException, attempts: int) -> bool:
    """Whether to try again: always after a conflict with other transactions, once after a lost connection."""
    if _state(_cause(fault)) in _RETRYABLE:
        return True
    return isinstance(fault, DBAPIError) and fault.connection_invalidated and attempts == 1


def _cause(fault: BaseException) -> BaseException:
    """The driver's exception, which SQLAlchemy has wrapped."""
    if isinstance(fault, DBAPIError) and fault.orig is not None:
        return fault.orig.__cause__ or fault.orig
    return fault


def _state(cause: BaseException) -> str:
    return getattr(cause, "sqlstate", None) or ""


def _check_in(connection: Any, record: Any) -> None:
    if connection is not None:
        record.info["idle_since"] = time.monotonic()


def _describe(dsn: str) -> str:
    try:
        parts = urlsplit(dsn)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        parts = None
    if parts is None or "@" in parts.path + parts.query + parts.fragment:
        raise StoreError("the database's URL cannot be read: in a user's name or password, write @ : / ? # % as %XX")
    return f"{parts.hostname or 'PostgreSQL'}{port}{parts.path}"


async def _wait_for_tasks(tasks: set[asyncio.Task[Any]], timeout_s: float) -> None:
    if tasks:
        await asyncio.wait(tasks, timeout=timeout_s)
