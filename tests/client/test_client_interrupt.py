"""Ctrl-C at any moment of a read leaves no lock taken: what is closed afterwards ends."""

import random
import signal
from contextlib import suppress

from streamweir.client.watchdog import Watchdog
from support.deadlines import WAIT_TIMEOUT_S
from support.soak import SOAKS

TIMES = 2000 if SOAKS else 60


class _Interrupted(Exception):
    pass


def _interrupt(*_: object) -> None:
    raise _Interrupted


def _read_until_interrupted(watchdog: Watchdog, after_s: float) -> None:
    signal.setitimer(signal.ITIMER_REAL, after_s)
    while True:
        watchdog.set_timeout(WAIT_TIMEOUT_S)


def test_an_interrupt_leaves_the_watchdog_as_it_should_be() -> None:
    chance = random.Random(1)
    before = signal.signal(signal.SIGALRM, _interrupt)
    try:
        for _ in range(TIMES):
            watchdog = Watchdog(lambda: None)
            watchdog.set_timeout(WAIT_TIMEOUT_S)  # its thread runs
            with suppress(_Interrupted):
                _read_until_interrupted(watchdog, chance.uniform(0.0001, 0.001))
            watchdog._is_closed = True
            with watchdog._lock:
                watchdog._changed.notify()
            thread = watchdog._thread
            assert thread is not None
            thread.join(WAIT_TIMEOUT_S)
            assert not thread.is_alive(), "the lock is still taken"
    finally:
        signal.signal(signal.SIGALRM, before)
