"""A time limit for a blocking read.

A thread sleeps until the deadline and then calls `on_timeout`, which must make the read return (it shuts the socket
down). The deadline is set for every read. That costs one lock: the thread is woken only if the new deadline is earlier
than the time at which it wakes anyway.
"""

import threading
import time
from collections.abc import Callable


class Watchdog:
    def __init__(self, on_timeout: Callable[[], None]) -> None:
        self.has_fired = False
        self._on_timeout = on_timeout
        # The main thread enters the lock and not the condition, whose methods are Python code: Ctrl-C could interrupt
        # them between taking the lock and the block, and the lock would never be released.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._deadline: float | None = None
        self._wakes_at: float | None = None
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def set_timeout(self, limit_s: float | None) -> None:
        """Sets the deadline to `limit_s` from now; None: no deadline."""
        with self._lock:
            self._deadline = None if limit_s is None else time.monotonic() + limit_s
            if self._deadline is None:
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="streamweir-watchdog", daemon=True)
                self._thread.start()
            elif self._wakes_at is None or self._deadline < self._wakes_at:
                self._changed.notify()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        with self._changed:
            while not self._is_closed:
                remaining_s = None if self._deadline is None else self._deadline - time.monotonic()
                if remaining_s is not None and remaining_s <= 0:
                    self.has_fired = True
                    self._on_timeout()
                    return
                self._wakes_at = self._deadline
                self._changed.wait(remaining_s)
