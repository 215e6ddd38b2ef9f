"""The connection pool of one upstream: how many connections may exist, which are idle, and who waits for one.

A slot is taken before a connection is used or opened. It has exactly one owner until it is returned with the
connection, or freed without it. Slots in use and idle connections together never exceed the limit. A slot that
becomes free while others wait goes directly to the first of them; a waiter that is cancelled after it got a slot
passes it on. A closed pool keeps nothing but still serves: a request may have begun before a reload removed its
provider. The pool knows nothing of sockets: what it keeps can be dropped, and says whether it is still usable.
"""

import asyncio
import time
from collections import OrderedDict
from random import uniform
from typing import Generic, Protocol, TypeVar

from streamweir.core.errors import GatewayFault


class IdleConnection(Protocol):
    @property
    def is_usable(self) -> bool: ...

    def drop(self) -> None:
        """Closes it at once. May be called more than once."""
        ...


K = TypeVar("K", bound=IdleConnection)


class Pool(Generic[K]):
    def __init__(self, *, max_connections: int, wait_s: float, keep_s: float) -> None:
        if max_connections < 1:
            raise ValueError("an upstream needs at least one connection")
        self._max_connections = max_connections
        self._wait_s = wait_s
        self._keep_s = keep_s
        self._in_use = 0
        self._idle: dict[K, float] = {}  # with the time since when; the one unused for longest comes first
        self._lingering: set[K] = set()
        self._waiters: OrderedDict[asyncio.Future[K | None], None] = OrderedDict()
        self._expiry: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def in_use(self) -> int:
        return self._in_use

    @property
    def idle(self) -> int:
        return len(self._idle)

    @property
    def waiting(self) -> int:
        return len(self._waiters)

    async def take(self) -> K | None:
        """A slot, with the connection that was used last, or None if one must be opened. The caller must free it."""
        while self._idle:
            kept, _ = self._idle.popitem()
            if kept.is_usable:
                self._in_use += 1
                return kept
            kept.drop()
        if self._in_use >= self._max_connections and self._lingering:
            self._lingering.pop().drop()  # a waiting request is more important than keeping this connection
        if self._in_use < self._max_connections:
            self._in_use += 1
            return None
        return await self._wait()

    def free(self) -> None:
        """Frees a slot without a connection."""
        waiter = self._first_waiter()
        if waiter is None:
            self._in_use -= 1
        else:
            waiter.set_result(None)

    def put_back(self, kept: K) -> None:
        """Frees a slot, and keeps its connection for another call."""
        waiter = self._first_waiter()
        if waiter is not None:
            waiter.set_result(kept)
            return
        self._in_use -= 1
        if self._is_closed:
            kept.drop()
            return
        self._idle[kept] = time.monotonic()
        if self._expiry is None:
            self._expiry = asyncio.get_running_loop().call_later(self._keep_s, self._expire)

    def add_lingering(self, kept: K) -> None:
        """Its call is over, but its slot is not free yet. Closing the pool closes it too."""
        if self._is_closed:
            kept.drop()
        else:
            self._lingering.add(kept)

    def remove(self, kept: K) -> None:
        """The connection is closed."""
        self._idle.pop(kept, None)
        self._lingering.discard(kept)

    def drop_idle(self) -> None:
        """Closes the idle connections. Connections that are returned later are kept again."""
        for kept in list(self._idle):
            kept.drop()

    def close(self) -> None:
        """From now on no connection is kept."""
        self._is_closed = True
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        for kept in [*self._idle, *self._lingering]:
            kept.drop()

    async def _wait(self) -> K | None:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[K | None] = loop.create_future()
        self._waiters[waiter] = None
        timer = loop.call_later(self._wait_s, self._refuse, waiter)
        try:
            kept = await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._pass_on(waiter.result())
            raise
        finally:
            timer.cancel()
            self._waiters.pop(waiter, None)
        return kept if kept is not None and kept.is_usable else None

    def _pass_on(self, kept: K | None) -> None:
        if kept is not None and kept.is_usable:
            self.put_back(kept)
        else:
            self.free()

    def _first_waiter(self) -> "asyncio.Future[K | None] | None":
        while self._waiters:
            waiter, _ = self._waiters.popitem(last=False)
            if not waiter.done():  # it is done if its task was cancelled a moment ago
                return waiter
        return None

    def _refuse(self, waiter: "asyncio.Future[K | None]") -> None:
        if not waiter.done():
            self._waiters.pop(waiter, None)
            wait_s = uniform(1, 5)  # noqa: S311 (no secret: refused callers must not all come back at once)
            message = "All connections to the provider are in use."
            waiter.set_exception(GatewayFault("overloaded", message, retry_after_s=wait_s))

    def _expire(self) -> None:
        # One timer for all: the first in the dictionary is always the one that was unused for longest.
        self._expiry = None
        now = time.monotonic()
        for kept, since in list(self._idle.items()):
            if (left_s := since + self._keep_s - now) > 0:
                self._expiry = asyncio.get_running_loop().call_later(left_s, self._expire)
                break
            kept.drop()
