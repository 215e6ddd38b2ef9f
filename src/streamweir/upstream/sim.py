"""The simulator: an upstream inside the process that plays the script its model's name asks for.

It keeps the order of calls of `upstream.base` as a socket would: the receiver is called from the event loop, one
step at a time, so that other streams get their turn between any two frames; a paused call delivers
nothing and makes nothing more. All that is said and all that goes wrong is decided in
`upstream.script`; here are only the loop and its timers.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator

from streamweir.core.errors import UpstreamError
from streamweir.providers.base import UpstreamRequest
from streamweir.upstream.base import Receiver
from streamweir.upstream.script import MODELS as MODELS
from streamweir.upstream.script import Head, Step, play

_LARGE_BODY = 256 * 1024
"""From here on reading a request, and counting its tokens, would hold up the loop: a thread does it."""


class SimUpstream:
    """See `upstream.base.Upstream`. Requests are OpenAI's, as the provider row `openai` builds them."""

    def __init__(
        self,
        *,
        now: Callable[[], float] = time.time,
        entropy: Callable[[], bytes] = lambda: os.urandom(24),
    ) -> None:
        """`entropy` is what the ids are made of: with the same bytes, the same request has the same answer."""
        self._now = now
        self._entropy = entropy

    async def open(self, request: UpstreamRequest, receiver: Receiver, /) -> "SimCall":
        created, entropy = int(self._now()), self._entropy()
        if len(request.body) > _LARGE_BODY:
            steps = await asyncio.to_thread(play, request.body, created=created, entropy=entropy)
        else:
            steps = play(request.body, created=created, entropy=entropy)
        return SimCall(asyncio.get_running_loop(), steps, receiver)

    async def close(self) -> None:
        """Nothing is idle here, and a call ends by itself."""


class SimCall:
    """See `upstream.base.Call`. At any time one step waits: on the loop, or for `resume`."""

    resends = 0

    def __init__(self, loop: asyncio.AbstractEventLoop, steps: Iterator[Step], receiver: Receiver) -> None:
        self._loop = loop
        self._steps = steps
        self._receiver = receiver
        self._next: Step | None = None
        self._handle: asyncio.Handle | None = None
        self._is_paused = False
        self._is_over = False
        self._prepare()

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        if self._next is not None and self._handle is None:  # it came due while paused
            self._handle = self._loop.call_soon(self._deliver)

    def abort(self) -> None:
        self._is_over = True
        self._steps = iter(())
        self._next = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def release(self) -> None:
        self.abort()

    def _prepare(self) -> None:
        """Puts the next step on the loop. Without one, the provider has gone silent."""
        step = self._next = next(self._steps, None)
        if step is None:
            return
        if step.after_s:
            self._handle = self._loop.call_later(step.after_s, self._deliver)
        else:
            self._handle = self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._handle = None
        step = self._next
        if self._is_paused or step is None:
            return
        self._next = None
        what, receiver = step.what, self._receiver
        if isinstance(what, bytes):
            receiver.body_received(what)
        elif isinstance(what, Head):
            receiver.head_received(what.status, what.headers)
        else:
            self.abort()
            if isinstance(what, UpstreamError):
                receiver.call_failed(what)
            else:
                receiver.body_ended()
        if not self._is_over:
            self._prepare()
