"""The simulator: an upstream inside the process that executes the script which the model's name selects.

It calls the receiver like a socket would (`upstream.base`): from the event loop, one step per turn, so that other
streams can run between two frames. A paused call delivers nothing and computes nothing. `upstream.script` defines all
content and failures; this module only has the event loop and timers.
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
"""Larger requests are parsed and counted in a thread, because that would block the event loop."""


class SimUpstream:
    """See `upstream.base.Upstream`. Requests are in OpenAI's format, as the provider `openai` builds them."""

    def __init__(
        self,
        *,
        now: Callable[[], float] = time.time,
        entropy: Callable[[], bytes] = lambda: os.urandom(24),
    ) -> None:
        """`entropy`: the source of the ids. With the same bytes, the same request has the same answer."""
        self._now = now
        self._entropy = entropy

    async def open(self, request: UpstreamRequest, receiver: Receiver, /) -> "SimCall":
        created, entropy, path = int(self._now()), self._entropy(), request.path
        if len(request.body) > _LARGE_BODY:
            steps = await asyncio.to_thread(play, request.body, created=created, entropy=entropy, path=path)
        else:
            steps = play(request.body, created=created, entropy=entropy, path=path)
        return SimCall(asyncio.get_running_loop(), steps, receiver)

    async def close(self) -> None:
        """Nothing to do: there are no connections."""


class SimCall:
    """See `upstream.base.Call`. At any time one step is pending: on the event loop, or until `resume`."""

    resends = 0
    is_refused = False
    trace = None

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
        """Schedules the next step. If there is none, the simulated provider has stalled."""
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
        action, receiver = step.action, self._receiver
        if isinstance(action, bytes):
            receiver.body_received(action)
        elif isinstance(action, Head):
            receiver.head_received(action.status, action.headers)
        else:
            self.abort()
            if isinstance(action, UpstreamError):
                receiver.call_failed(action)
            else:
                receiver.body_ended()
        if not self._is_over:
            self._prepare()
