"""One connection to Valkey (or Redis), through which all calls of a process run one script.

Calls that arrive while an answer is awaited are sent together in the next exchange. So one connection is enough, and
calls are cheaper in a busy process. The exchange runs in its own task. A cancelled or timed-out call changes only its
own future, so every answer is read by its own call. A call waits at most `timeout_s`, and after several failures in a
row calls fail at once (`policy/routing/breaker.py`; failures are counted per exchange, because calls share exchanges).
Every error is a `SharedUnavailable` with our own text, without addresses and secrets. This module knows nothing of
limits.
"""

import asyncio
import hashlib
import re
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence

from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from streamweir.policy.routing.breaker import Breaker
from streamweir.store.limits.errors import SharedUnavailable

_MAX_BATCH = 64
_MAX_BATCH_DEFERRED = 16
_MAX_WAITING = 10_000
_MAX_DEFERRED = 10_000
_CONNECT_SHARE = 5.0
"""Connecting may take this many times `timeout_s`; a failure to connect opens the breaker at once."""
_TRANSIENT = (ReadOnlyError, OutOfMemoryError)
_ERROR_WORD = re.compile(r"[A-Z]{2,16}\b")


class _Call:
    __slots__ = ("answer", "count", "encoded_arguments", "is_sent", "name")

    def __init__(self, arguments: Sequence[str | bytes]) -> None:
        self.count = len(arguments)
        self.encoded_arguments = _packed(arguments)
        self.answer: asyncio.Future[str | SharedUnavailable] | None = None
        self.is_sent = False
        self.name = ""
        """The name of a deferred call, which has no waiter."""

    @property
    def is_over(self) -> bool:
        return self.answer.done() if self.answer is not None else not self.name

    def set_answer(self, answer: str | SharedUnavailable) -> None:
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(answer)  # not as an exception, which might never be retrieved


class Valkey:
    """`clock`: the monotonic clock of the breaker, in seconds."""

    def __init__(
        self,
        url: str,
        script: str,
        *,
        timeout_s: float = 0.05,
        breaker: Breaker | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Does not connect yet. Raises ValueError for an invalid address."""
        self._connection = _connection(url, timeout_s * _CONNECT_SHARE)
        self._timeout_s = timeout_s
        self._breaker = breaker if breaker is not None else Breaker()
        self._clock = clock
        digest = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
        self._by_digest = _packed(["EVALSHA", digest, "1"])
        self._by_body = _packed(["EVAL", script, "1"])
        self._waiting: deque[_Call] = deque()
        self._deferred: OrderedDict[str, _Call] = OrderedDict()
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def is_unavailable(self) -> bool:
        """The breaker is open: no calls except probes."""
        return self._breaker.is_open

    async def call(self, arguments: Sequence[str | bytes], undo: tuple[str, Sequence[str]] | None = None) -> str:
        """Runs the script with the first of `arguments` as its key. Raises `SharedUnavailable`.

        `undo` (a name and arguments) is deferred if the call was sent but its answer is not awaited any more.
        """
        if self._is_closed:
            raise SharedUnavailable("the connection to Valkey is closed")
        if len(self._waiting) >= _MAX_WAITING:
            raise SharedUnavailable("too many requests are waiting for Valkey")
        if not self._breaker.may_pass(self._clock()):
            raise SharedUnavailable("Valkey is unavailable and not used for a while")
        loop = asyncio.get_running_loop()
        call = _Call(arguments)
        future = call.answer = loop.create_future()
        self._waiting.append(call)
        self._wake(loop)
        answer: str | SharedUnavailable | None = None
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await future
        except TimeoutError:
            raise SharedUnavailable("Valkey does not answer in time") from None
        finally:
            if undo is not None and call.is_sent and not isinstance(answer, str):
                self.defer(*undo)
        if isinstance(answer, SharedUnavailable):
            raise answer
        return answer

    def defer(self, name: str, arguments: Sequence[str]) -> None:
        """A call without a waiter: it is sent with the next exchange, and repeated until it succeeds.

        It must be idempotent. A later call of the same name replaces it. The number is limited: the oldest is dropped.
        """
        call = _Call(arguments)
        call.name = name
        self._deferred[name] = call
        if len(self._deferred) > _MAX_DEFERRED:
            self._deferred.popitem(last=False)

    def cancel_deferred(self, name: str) -> None:
        self._deferred.pop(name, None)

    def flush_deferred(self) -> None:
        """Sends deferred calls, if the breaker allows it."""
        if self._deferred and not self._is_closed and self._breaker.may_pass(self._clock()):
            self._wake(asyncio.get_running_loop())

    async def close(self) -> None:
        """Ends the task and the connection. Waiting calls get `SharedUnavailable`."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        _fail_all(self._waiting, "the connection to Valkey is closed")
        self._waiting.clear()
        await self._drop(is_last=True)

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._task is None:
            self._task = loop.create_task(self._run())
            self._task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        if self._waiting and not self._is_closed:
            self._wake(task.get_loop())
        if not task.cancelled():
            task.result()  # raises if there was a bug: the event loop logs it

    async def _run(self) -> None:
        while batch := self._take():
            try:
                await self._exchange(batch)
            except (RedisError, OSError) as error:  # TimeoutError is one of the latter
                self._fail(batch, error)
                await self._drop()
                if not self._waiting:
                    return  # deferred calls wait for the next call: no retry loop while Valkey is down
            finally:
                _fail_all(batch, "the connection to Valkey is closed")

    def _take(self) -> list[_Call]:
        """Some deferred calls first, because they are older, then calls that still have a waiter."""
        batch = [self._deferred.popitem(last=False)[1] for _ in range(min(_MAX_BATCH_DEFERRED, len(self._deferred)))]
        while self._waiting and len(batch) < _MAX_BATCH:
            call = self._waiting.popleft()
            if not call.is_over:
                batch.append(call)
        return batch

    async def _exchange(self, batch: list[_Call]) -> None:
        was_connected = self._connection.is_connected
        try:
            await self._connect()
            await self._run_script(batch)
        except RedisConnectionError:
            if not was_connected:
                raise
            # The server closed an idle connection. All calls may be repeated.
            await self._drop()
            await self._connect()
            await self._run_script(batch)

    async def _connect(self) -> None:
        if self._connection.is_connected:
            return
        try:
            async with asyncio.timeout(self._timeout_s * _CONNECT_SHARE):
                await self._connection.connect()  # type: ignore[no-untyped-call]
        except (TimeoutError, RedisTimeoutError):
            self._breaker.trip(self._clock())
            raise

    async def _run_script(self, batch: list[_Call]) -> None:
        calls = [call for call in batch if not call.is_over]  # connecting may have taken longer than their timeout
        if not calls:
            return
        async with asyncio.timeout(self._timeout_s):
            not_run, fault = await self._send(calls, self._by_digest)
            if not_run and fault is None:  # the server does not have the script: it was restarted or flushed
                not_run, fault = await self._send(not_run, self._by_body)
        if fault is not None:
            raise fault
        self._breaker.note_success()

    async def _send(self, calls: list[_Call], head: bytes) -> tuple[list[_Call], ResponseError | None]:
        """The calls that were not run because the server lacks the script, and the error if no call was answered."""
        parts: list[bytes] = []
        for call in calls:
            call.is_sent = True
            parts += (b"*%d\r\n" % (3 + call.count), head, call.encoded_arguments)
            head = self._by_digest  # the first call loads the script for the others
        await self._connection.send_packed_command(b"".join(parts), check_health=False)
        not_run: list[_Call] = []
        fault: ResponseError | None = None
        is_answered = False
        for call in calls:
            try:
                answer = await self._connection.read_response()
            except NoScriptError:
                not_run.append(call)
            except ResponseError as error:
                fault = error
                call.set_answer(SharedUnavailable(reason_of(error)))
                if not isinstance(error, _TRANSIENT):
                    call.name = ""  # it would always be refused
            else:
                is_answered = True
                call.set_answer(answer.decode() if isinstance(answer, bytes) else str(answer))
                call.name = ""
        return not_run, None if is_answered else fault

    def _fail(self, batch: list[_Call], error: Exception) -> None:
        if not self._breaker.is_open:
            self._breaker.note_failure(self._clock())
        reason = reason_of(error)
        _fail_all(batch, reason)
        for call in reversed(batch):
            if call.name and call.name not in self._deferred:
                self._deferred[call.name] = call
                self._deferred.move_to_end(call.name, last=False)
        if self._breaker.is_open:
            _fail_all(self._waiting, reason)
            self._waiting.clear()

    async def _drop(self, *, is_last: bool = False) -> None:
        try:
            await self._connection.disconnect(nowait=not is_last)
        except (RedisError, OSError):
            return  # it is closed in any case


def _fail_all(calls: Iterable[_Call], reason: str) -> None:
    for call in calls:
        call.set_answer(SharedUnavailable(reason))


def _packed(arguments: Iterable[str | bytes]) -> bytes:
    """Arguments in the Redis protocol, without their number."""
    encoded = [argument if isinstance(argument, bytes) else argument.encode() for argument in arguments]
    return b"".join([b"$%d\r\n%b\r\n" % (len(argument), argument) for argument in encoded])


def reason_of(error: Exception) -> str:
    """Our own text: the library's may contain an address, and the server's a name."""
    if isinstance(error, AuthenticationError):
        return "Valkey refused the user name or the password"
    if isinstance(error, BusyLoadingError):
        return "Valkey is loading its data"
    if isinstance(error, ReadOnlyError):
        return "Valkey is read-only"
    if isinstance(error, OutOfMemoryError):
        return "Valkey is out of memory"
    if isinstance(error, ResponseError):
        argument = _ERROR_WORD.match(str(error))
        return f"Valkey answers with an error ({argument[0] if argument else 'ERR'})"
    if isinstance(error, TimeoutError | RedisTimeoutError):
        return "Valkey does not answer in time"
    return "cannot connect to Valkey"


def _connection(url: str, connect_s: float) -> AbstractConnection:
    made: AbstractConnection = pool_of(url, connect_s).make_connection()  # type: ignore[no-untyped-call]
    return made


def pool_of(url: str, connect_s: float) -> ConnectionPool:
    """Does not connect yet. Raises ValueError for an invalid address."""
    return ConnectionPool.from_url(
        url,
        socket_timeout=None,  # an exchange has its own
        socket_connect_timeout=connect_s,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
        driver_info=None,
    )
