"""A watchdog of the event loop in tests: one callback of the gateway that computes too long fails the test.

While a callback runs, no stream moves and `/health` is not answered. So no callback may take more than `LIMIT_S`:
every step of a task, every timer and every call of a protocol is measured in an event loop of `WatchedLoop`.

- CPU time of the loop's thread counts, not time on the wall: another process that keeps the machine busy costs none.
  What the garbage collector takes is left out, for its work grows with all that the test session has in memory.
- The limit grows where the machine is slower than the one it was chosen on. Its speed is measured when a callback
  was too long, in the conditions of that moment.
- Judged are callbacks of the gateway's own code. A test, a scripted upstream or a client may compute in the same loop.
- A second thread looks at what runs too long and keeps its stack. A callback that never ends is ended by an
  exception, so that the test fails instead of standing still.

`@pytest.mark.long_callback("reason")` excepts one test. The hooks that fail the tests are in `conftest.py`.
"""

import asyncio
import ctypes
import functools
import gc
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import Context
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeVarTuple
from weakref import WeakSet

import uvloop

import streamweir

LIMIT_S = 0.05
STUCK_S = 20.0
"""After so much computing a callback is ended."""
LOOK_S = 0.01
"""How often the second thread looks."""
REFERENCE_S = 0.001
"""What `_work` takes on the machine that the limit was chosen on."""
OURS = str(Path(streamweir.__file__).parent)
TESTS = str(Path(__file__).parents[1])
Ts = TypeVarTuple("Ts")
CALLS = ("connection_made", "connection_lost", "data_received", "eof_received", "pause_writing", "resume_writing")


class CallbackStuck(BaseException):
    """Ends a callback that has computed for `STUCK_S`."""


class Run:
    """One call of one callback."""

    __slots__ = ("clock", "collected_s", "function", "is_ended", "stack", "started", "thread_id")

    def __init__(self, function: Any, clock: int, thread_id: int) -> None:
        self.function = function
        self.clock = clock
        self.thread_id = thread_id
        self.collected_s = 0.0
        self.stack: traceback.StackSummary | None = None
        self.is_ended = False
        self.started = time.thread_time()

    @property
    def is_ours(self) -> bool:
        code = _code_of(self.function)
        if code is not None and code.co_filename.startswith((OURS, TESTS)):
            return code.co_filename.startswith(OURS)
        return self.stack is not None and any(frame.filename.startswith(OURS) for frame in self.stack)


class _Thread(threading.local):
    """What runs in a thread now."""

    run: Run | None = None
    clock = 0
    collection_began = 0.0


class Watchdog:
    """All event loops of the process."""

    def __init__(self) -> None:
        self.found: list[str] = []
        """Of callbacks that were too long: what they were, and where."""
        self._here = _Thread()
        self._runs: dict[int, Run] = {}
        self._loops = 0
        self._has_loops = threading.Event()
        self._watcher: threading.Thread | None = None

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        here = self._here
        outer = here.run
        if not here.clock:
            here.clock = time.pthread_getcpuclockid(threading.get_ident())
        thread_id = threading.get_ident()
        run = Run(function, here.clock, thread_id)
        here.run = self._runs[thread_id] = run
        try:
            return function(*arguments)
        finally:
            spent_s = time.thread_time() - run.started - run.collected_s
            here.run = outer
            if outer is None:
                self._runs.pop(thread_id, None)
            else:
                outer.collected_s += run.collected_s
                self._runs[thread_id] = outer
            if spent_s > LIMIT_S:
                self._judge(run, spent_s)

    @contextmanager
    def running(self) -> Generator[None]:
        """Around a loop that runs: the second thread looks."""
        if self._watcher is None:
            gc.callbacks.append(self._collecting)
            self._watcher = threading.Thread(target=self._watch, name="loop-watchdog", daemon=True)
            self._watcher.start()
        self._loops += 1
        self._has_loops.set()
        try:
            yield
        finally:
            self._loops -= 1
            if not self._loops:
                self._has_loops.clear()

    def take(self) -> list[str]:
        """What was found since the last time."""
        found, self.found = self.found, []
        return found

    def _judge(self, run: Run, spent_s: float) -> None:
        if not run.is_ours:
            return
        limit_s = LIMIT_S * slowness()
        if spent_s > limit_s:
            where = "".join(run.stack.format()) if run.stack else "  one call into C, which no other thread saw\n"
            self.found.append(
                f"{_name_of(run.function)} held the event loop for {spent_s * 1000:.0f} ms of CPU time, "
                f"the limit is {limit_s * 1000:.0f} ms:\n{where}"
            )

    def _collecting(self, phase: str, _: object) -> None:
        here = self._here
        if here.run is None:
            return
        if phase == "start":
            here.collection_began = time.thread_time()
        else:
            here.run.collected_s += time.thread_time() - here.collection_began

    def _watch(self) -> None:
        while True:
            self._has_loops.wait()
            time.sleep(LOOK_S)
            self._look_at_all()

    def _look_at_all(self) -> None:
        """Between two looks nothing is kept of what ran: a test may count what is left of it."""
        for run in list(self._runs.values()):
            self._look(run)

    def _look(self, run: Run) -> None:
        try:
            spent_s = time.clock_gettime(run.clock) - run.started - run.collected_s
        except OSError:  # the thread has ended
            return
        frame = sys._current_frames().get(run.thread_id)
        if spent_s < LIMIT_S or frame is None or self._runs.get(run.thread_id) is not run:
            return
        run.stack = _stack(frame)
        if spent_s > STUCK_S and not run.is_ended and run.is_ours:
            run.is_ended = True
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(run.thread_id), ctypes.py_object(CallbackStuck))


WATCHDOG = Watchdog()
_WATCHED_KINDS: dict[type, type] = {}


class WatchedLoop(uvloop.Loop):
    """The program's own event loop, whose callbacks go through the watchdog."""

    def __init__(self) -> None:
        super().__init__()
        self._timers: WeakSet[asyncio.TimerHandle] = WeakSet()

    @property
    def timers(self) -> int:
        """How many wait to ring. uvloop keeps no list that could be asked."""
        now = self.time()
        return sum(not each.cancelled() and each.when() > now for each in self._timers)

    def run_forever(self) -> None:
        with WATCHDOG.running():
            super().run_forever()

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        return super().call_soon(WATCHDOG.call, callback, *args, context=context)

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        return super().call_soon_threadsafe(WATCHDOG.call, callback, *args, context=context)

    def call_later(  # and `call_at`, which calls it
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = super().call_later(delay, WATCHDOG.call, callback, *args, context=context)
        self._timers.add(timer)
        return timer

    def add_reader(self, fd: Any, callback: Callable[[*Ts], Any], *args: *Ts) -> None:
        super().add_reader(fd, WATCHDOG.call, callback, *args)

    def add_writer(self, fd: Any, callback: Callable[[*Ts], Any], *args: *Ts) -> None:
        super().add_writer(fd, WATCHDOG.call, callback, *args)

    async def create_server(self, protocol_factory: Any, *args: Any, **options: Any) -> Any:
        return await super().create_server(_watched(protocol_factory), *args, **options)

    async def create_connection(self, protocol_factory: Any, *args: Any, **options: Any) -> Any:
        return await super().create_connection(_watched(protocol_factory), *args, **options)

    async def connect_accepted_socket(self, protocol_factory: Any, *args: Any, **options: Any) -> Any:
        return await super().connect_accepted_socket(_watched(protocol_factory), *args, **options)


def watched_loop() -> asyncio.AbstractEventLoop:
    return WatchedLoop()


def slowness() -> float:
    """How much slower than the reference the machine is now. Never below 1."""
    times = []
    for _ in range(5):
        began = time.thread_time()
        _work()
        times.append(time.thread_time() - began)
    return max(1.0, sorted(times)[2] / REFERENCE_S)


def _work() -> int:
    """Some of everything that a callback does: calls, numbers, text, and memory."""
    total = 0
    kept: dict[str, bytes] = {}
    for number in range(4000):
        name = str(number % 97)
        kept[name] = kept.get(name, b"")[-64:] + name.encode()
        total += len(kept[name])
    return total


def _watched(factory: Callable[[], Any]) -> Callable[[], Any]:
    """uvloop calls a protocol from C: it gets one of a class whose methods go through the watchdog."""

    def make() -> Any:
        protocol = factory()
        if type(protocol).__module__.startswith("streamweir."):
            protocol.__class__ = _watched_kind(type(protocol))
        return protocol

    return make


def _watched_kind(kind: type) -> type:
    if kind in _WATCHED_KINDS:
        return _WATCHED_KINDS[kind]
    methods = {name: _watched_method(getattr(kind, name)) for name in CALLS if hasattr(kind, name)}
    members = {"__slots__": (), "__module__": kind.__module__, **methods}
    return _WATCHED_KINDS.setdefault(kind, type(kind.__name__, (kind,), members))


def _watched_method(method: Any) -> Any:
    @functools.wraps(method)
    def call(*arguments: Any) -> Any:
        return WATCHDOG.call(method, *arguments)

    return call


def _code_of(function: Any) -> CodeType | None:
    while isinstance(function, functools.partial):
        function = function.func
    task = getattr(function, "__self__", None)
    if isinstance(task, asyncio.Task):
        coroutine: Any = task.get_coro()
        return getattr(coroutine, "cr_code", None) or getattr(coroutine, "gi_code", None)
    return getattr(function, "__code__", None)


def _name_of(function: Any) -> str:
    task = getattr(function, "__self__", None)
    if isinstance(task, asyncio.Task):
        return f"a step of the task {getattr(task.get_coro(), '__qualname__', task.get_name())}"
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', function)}"


def _stack(frame: FrameType) -> traceback.StackSummary:
    """From the callback on: what called it is the test session."""
    stack = traceback.extract_stack(frame)
    starts = [number for number, each in enumerate(stack) if each.filename == __file__]
    return traceback.StackSummary.from_list(list(stack)[starts[-1] + 1 if starts else 0 :])
