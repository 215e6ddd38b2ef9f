"""A time limit on a read that blocks: the one thing that a synchronous socket cannot be told from outside.

A thread sleeps until the limit and then calls `bite`, which must make the read return (it shuts the socket down).
Setting the limit anew, which is done for every read, costs a lock: the thread is woken only for one that is earlier
than the time to which it sleeps.
"""

import threading
import time
from collections.abc import Callable


class Watchdog:
    def __init__(self, bite: Callable[[], None]) -> None:
        self.has_bitten = False
        self._bite = bite
        self._news = threading.Condition()
        self._at: float | None = None
        self._wakes_at: float | None = None
        self._is_over = False
        self._thread: threading.Thread | None = None

    def watch(self, limit_s: float | None) -> None:
        """From now on so long; None: not at all."""
        with self._news:
            self._at = None if limit_s is None else time.monotonic() + limit_s
            if self._at is None:
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="streamweir-watchdog", daemon=True)
                self._thread.start()
            elif self._wakes_at is None or self._at < self._wakes_at:
                self._news.notify()

    def close(self) -> None:
        with self._news:
            self._is_over = True
            self._news.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        with self._news:
            while not self._is_over:
                left_s = None if self._at is None else self._at - time.monotonic()
                if left_s is not None and left_s <= 0:
                    self.has_bitten = True
                    self._bite()
                    return
                self._wakes_at = self._at
                self._news.wait(left_s)
