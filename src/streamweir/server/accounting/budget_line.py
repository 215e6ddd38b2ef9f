"""Requests that wait until others give back money: in order of arrival, for a limited time, and limited in number.

A request waits for one account, the one on which it does not fit. Whoever gives back money of that account wakes the
first of its line; if that fits, the next is woken. Other processes wake nobody here, so the first of a line also tries
again by itself, after pauses that grow. Answers that are running come before requests that have not begun. A wait holds
neither a lock nor a reservation, and may be cancelled.
"""

import asyncio
import time
from collections import deque
from collections.abc import Iterable

MAX_WAITING = 1000
"""In one process, and half of them for one account, so that it does not keep others out. One more does not wait."""
_MIN_PAUSE_S, _MAX_PAUSE_S = 0.02, 1.0


class Turn:
    """One that waits. `deadline`: of the monotonic clock; `BudgetLine.limit_wait` may change it meanwhile."""

    __slots__ = ("account", "deadline", "is_running", "pause_s", "woken")

    def __init__(self, account: str, deadline: float, *, is_running: bool) -> None:
        self.account = account
        self.deadline = deadline
        self.is_running = is_running
        self.pause_s = _MIN_PAUSE_S
        self.woken = asyncio.Event()


class BudgetLine:
    def __init__(self, max_waiting: int = MAX_WAITING) -> None:
        self._max_waiting = max_waiting
        self._lines: dict[str, deque[Turn]] = {}
        self._is_closed = False
        self.waiting = 0

    def join(self, account: str, deadline: float, *, is_running: bool = False) -> Turn | None:
        """At the end of the line; `is_running`: behind the others that are running. None: it must not wait. Everyone
        who has joined must leave."""
        line = self._lines.get(account) or deque()
        is_full = self.waiting >= self._max_waiting or len(line) >= self._max_waiting // 2
        if self._is_closed or (is_full and not is_running):
            return None
        turn = Turn(account, deadline, is_running=is_running)
        self._lines[account] = line
        line.insert(sum(each.is_running for each in line) if is_running else len(line), turn)
        self.waiting += 1
        return turn

    def leave(self, turn: Turn) -> None:
        line = self._lines[turn.account]
        was_first = line[0] is turn
        line.remove(turn)
        self.waiting -= 1
        if not line:
            del self._lines[turn.account]
        elif was_first:
            line[0].woken.set()

    def has_waiting(self, accounts: Iterable[str]) -> str | None:
        """The first of these accounts for which a request waits that has not begun."""
        if not self._lines:
            return None
        for account in accounts:
            line = self._lines.get(account)
            if line is not None and not line[-1].is_running:
                return account
        return None

    def wake(self, accounts: Iterable[str]) -> None:
        """Money of these accounts was given back."""
        if self._lines:
            for account in accounts:
                line = self._lines.get(account)
                if line is not None:
                    line[0].pause_s = _MIN_PAUSE_S
                    line[0].woken.set()

    def limit_wait(self, turn: Turn, deadline: float) -> None:
        turn.deadline = min(turn.deadline, deadline)
        turn.woken.set()

    def close(self) -> None:
        """Nobody waits any more: the process ends."""
        self._is_closed = True
        for line in self._lines.values():
            for turn in line:
                self.limit_wait(turn, 0.0)

    async def wait(self, turn: Turn) -> bool:
        """Until it may try again. False: its time is over."""
        while (left_s := turn.deadline - time.monotonic()) > 0:
            is_first = self._lines[turn.account][0] is turn
            if is_first:
                left_s, turn.pause_s = min(left_s, turn.pause_s), min(_MAX_PAUSE_S, 2 * turn.pause_s)
            try:
                async with asyncio.timeout(left_s):
                    await turn.woken.wait()
            except TimeoutError:
                if is_first and turn.deadline > time.monotonic():
                    return True
                continue
            turn.woken.clear()
            if self._lines[turn.account][0] is turn and turn.deadline > time.monotonic():
                return True
        return False
