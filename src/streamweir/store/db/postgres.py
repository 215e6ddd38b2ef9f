"""A store in PostgreSQL: a few connections, each transaction in a task of its own that nobody cancels.

A task that is cancelled while the driver waits for the server leaves a connection that is neither
idle nor closed. So the caller waits for a task and may go away; the task goes on, and when the time
is up its connection is cut, upon which the server rolls back. What fails before its commit is sent
is tried again where that may help (a lost connection, a deadlock); a lost commit is not.
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
_WATCH = {"client_connection_check_interval": "500ms"}
"""So that a connection that was cut in the middle of a statement is soon rolled back. Not every server can do it."""
_UNKNOWN_SETTING = ("42704", "22023")
_WRITERS, _READERS = 3, 2
_PAUSE_S = 0.005
"""Before a second try, and twice as much before each further one: up to this, at random."""

_LEAST = 4

_AGAIN = ("40001", "40P01", "0A000")
"""Serialization failure, deadlock; a plan that another node's migration has made stale."""
_READ_ONLY = "25006"
_AWAY = ("08", "25P03", _READ_ONLY, "28", "3D000", "53", "55P03", "57", "58", "XX001", "XX002")
"""States, or the classes they begin with, that are about the server and not about the statement."""


class _Driver(Protocol):
    def terminate(self) -> None: ...
    def is_closed(self) -> bool: ...


class PostgresStore(Store):
    """Nothing is connected before the first operation. A URL that cannot be read is a `StoreError`."""

    is_sqlite = False

    def __init__(self, url: str) -> None:
        self._dsn = "postgresql:" + url.partition(":")[2]
        self.where = _describe(self._dsn)
        self._drivers: WeakSet[Any] = WeakSet()
        self._watch = _WATCH
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
        await _end(set(self._tasks), _CLOSE_S)
        for operation in self._tasks.values():
            operation.give_up()
        await _end(set(self._tasks), _CONNECT_S)
        disposal = {asyncio.create_task(engine.dispose()) for engine in self._engines}
        await _end(disposal, _CLOSE_S)
        for driver in list(self._drivers):  # of a server that does not even take a farewell
            driver.terminate()
        await _end(disposal, _CLOSE_S)

    async def _run(self, slots: "_ConnectionSlots", work: Callable[[Connection], T], timeout_s: float) -> T:
        deadline = time.monotonic() + timeout_s
        try:
            async with time_limit(timeout_s):
                await slots.places.acquire()
        except TimeoutError:
            raise self._unavailable("not begun in time") from None
        if self._is_closed:
            slots.places.release()
            raise self._unavailable("it is closed")
        # The time may have passed while the event loop stood still: a part of it is always left.
        operation = _Operation(slots.engine, work, timeout_s, max(deadline, time.monotonic() + timeout_s / _LEAST))
        task, given_up = self._start(slots, operation)
        await asyncio.wait((task, given_up), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise self._unavailable(f"not done within {timeout_s:g} s", operation)
        fault = task.exception()
        if fault is None:
            return task.result()
        if operation.is_given_up:
            raise self._unavailable(f"not done within {timeout_s:g} s", operation) from fault
        reason = why_unavailable(fault, is_read=slots is self._read)
        if not reason:
            raise fault
        raise self._unavailable(reason, operation) from fault

    def _start(
        self, slots: "_ConnectionSlots", operation: "_Operation[T]"
    ) -> tuple[asyncio.Task[T], asyncio.Future[None]]:
        """The task, and what is done when the time is up: from then on it cannot begin its commit."""
        loop = asyncio.get_running_loop()
        given_up = loop.create_future()

        def expire() -> None:
            self._give_up(operation)
            if not given_up.done():
                given_up.set_result(None)

        alarm = Deadline(loop, operation.left_s, expire)

        def ended(task: asyncio.Task[T]) -> None:
            alarm.cancel()
            slots.places.release()
            del self._tasks[task]
            if not task.cancelled():
                task.exception()  # of a failure nobody waits for any more, nothing is said

        task = loop.create_task(operation.run())
        self._tasks[task] = operation
        task.add_done_callback(ended)
        return task, given_up

    def _give_up(self, operation: "_Operation[Any]") -> None:
        """Where one connection is dead without a word, those that lie idle may be so too."""
        self._stale_before = time.monotonic()
        operation.give_up()

    def _unavailable(self, reason: str, operation: "_Operation[Any] | None" = None) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self.where}: {reason}", maybe_committed=operation is not None and operation.is_committing
        )

    def _make_engine(self, settings: dict[str, str], size: int) -> AsyncEngine:
        async def connect() -> _Driver:
            operation = _current.get()
            timeout_s = min(_CONNECT_S, operation.left_s)
            try:
                driver: _Driver = await asyncpg.connect(
                    self._dsn, timeout=timeout_s, server_settings={**settings, **self._watch}
                )
            except asyncpg.PostgresError as fault:
                if not self._watch or fault.sqlstate not in _UNKNOWN_SETTING:
                    raise
                self._watch = {}
                return await connect()
            self._drivers.add(driver)
            operation.take(driver)
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
        """A connection that died while nobody used it is found out here and not by a caller."""
        driver: _Driver = connection.driver_connection
        if driver.is_closed() or record.info.get("idle_since", self._stale_before) < self._stale_before:
            driver.terminate()
            raise DisconnectionError
        _current.get().take(driver)


class _ConnectionSlots:
    """Operations of a kind, and how many of them run at once: the pool has a connection for each."""

    def __init__(self, engine: AsyncEngine, places: int) -> None:
        self.engine = engine
        self.places = asyncio.Semaphore(places)


class _Operation(Generic[T]):
    """One function, tried until it is committed, fails for good, or is given up."""

    def __init__(self, engine: AsyncEngine, work: Callable[[Connection], T], timeout_s: float, deadline: float) -> None:
        self._engine = engine
        self._work = work
        self._statement_ms = int(timeout_s * 1000)
        self._deadline = deadline
        self._driver: _Driver | None = None
        self.is_given_up = False
        self.is_committing = False

    @property
    def left_s(self) -> float:
        return max(0.001, self._deadline - time.monotonic())

    def take(self, driver: _Driver) -> None:
        """The connection that it works on, from the moment on in which there is one to be cut."""
        self._driver = driver
        if self.is_given_up:
            driver.terminate()

    def give_up(self) -> None:
        self.is_given_up = True
        if self._driver is not None:
            self._driver.terminate()

    async def run(self) -> T:
        _current.set(self)
        tries = 0
        while True:
            try:
                return await self._attempt()
            except (DBAPIError, OSError) as fault:
                tries += 1
                if self.is_committing or self.is_given_up or not _may_help(fault, tries):
                    raise
            await asyncio.sleep(random.random() * _PAUSE_S * 2 ** min(tries, 6))  # noqa: S311

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
        if self.is_given_up:
            raise StoreUnavailable("given up")


_current: ContextVar[_Operation[Any]] = ContextVar("operation")


def why_unavailable(fault: BaseException, *, is_read: bool = False) -> str:
    """Empty: it is about the statement or its values, and not about the server."""
    cause = _cause(fault)
    if is_read and _state(cause) == _READ_ONLY:
        return ""  # a reader that wants to write: ours to mend
    if isinstance(cause, TimeoutError):
        return "no answer"
    if isinstance(cause, OSError):
        return cause.strerror or str(cause) or type(cause).__name__
    if _state(cause).startswith((*_AWAY, *_AGAIN)):
        return str(cause)
    if isinstance(fault, DBAPIError) and fault.connection_invalidated:
        return "the connection was lost"
    return ""


def _may_help(fault: BaseException, tries: int) -> bool:
    """A second try: without end against other transactions, once with another connection."""
    if _state(_cause(fault)) in _AGAIN:
        return True
    return isinstance(fault, DBAPIError) and fault.connection_invalidated and tries == 1


def _cause(fault: BaseException) -> BaseException:
    """The driver's own, beneath what SQLAlchemy made of it."""
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


async def _end(tasks: set[asyncio.Task[Any]], timeout_s: float) -> None:
    if tasks:
        await asyncio.wait(tasks, timeout=timeout_s)
