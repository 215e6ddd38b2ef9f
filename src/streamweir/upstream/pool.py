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
    def __init__(self, *, most: int, wait_s: float, keep_s: float) -> None:
        if most < 1:
            raise ValueError("an upstream needs at least one connection")
        self._most = most
        self._wait_s = wait_s
        self._keep_s = keep_s
        self._in_use = 0
        self._idle: dict[K, float] = {}  # with the time since when; the longest unused comes first
        self._parting: set[K] = set()
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
        """A place, with the connection used last, or None where one must be made. Then it is the caller's to free."""
        while self._idle:
            kept, _ = self._idle.popitem()
            if kept.is_usable:
                self._in_use += 1
                return kept
            kept.drop()
        if self._in_use >= self._most and self._parting:
            self._parting.pop().drop()  # a connection worth keeping is worth less than a place for who waits
        if self._in_use < self._most:
            self._in_use += 1
            return None
        return await self._wait()

    def free(self) -> None:
        """The place is given up, and there is no connection in it."""
        waiter = self._first_waiter()
        if waiter is None:
            self._in_use -= 1
        else:
            waiter.set_result(None)

    def give_back(self, kept: K) -> None:
        """The place is given up, and its connection can serve another call."""
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

    def part_with(self, kept: K) -> None:
        """Its call is over and its place not free yet; closing the pool closes it too."""
        if self._is_closed:
            kept.drop()
        else:
            self._parting.add(kept)

    def forget(self, kept: K) -> None:
        """It is closed."""
        self._idle.pop(kept, None)
        self._parting.discard(kept)

    def drop_idle(self) -> None:
        """What is kept now. What is given back later is kept again."""
        for kept in list(self._idle):
            kept.drop()

    def close(self) -> None:
        """Nothing is kept from now on."""
        self._is_closed = True
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        for kept in [*self._idle, *self._parting]:
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
            self.give_back(kept)
        else:
            self.free()

    def _first_waiter(self) -> "asyncio.Future[K | None] | None":
        while self._waiters:
            waiter, _ = self._waiters.popitem(last=False)
            if not waiter.done():  # one whose task was cancelled a moment ago is
                return waiter
        return None

    def _refuse(self, waiter: "asyncio.Future[K | None]") -> None:
        if not waiter.done():
            self._waiters.pop(waiter, None)
            wait_s = uniform(1, 5)  # noqa: S311 (no secret: those who are refused must not all come back at once)
            message = "All connections to the provider are in use."
            waiter.set_exception(GatewayFault("overloaded", message, retry_after_s=wait_s))

    def _expire(self) -> None:
        # One timer for all: the first in the dictionary is always the one that waits longest.
        self._expiry = None
        now = time.monotonic()
        for kept, since in list(self._idle.items()):
            if (left_s := since + self._keep_s - now) > 0:
                self._expiry = asyncio.get_running_loop().call_later(left_s, self._expire)
                break
            kept.drop()
