"""How many chunks of request bodies are parsed in one turn of the event loop, over all connections.

A body may have `FEW` of them parsed whenever its connection has its turn, so that none waits for others.
What is more comes out of a budget that all share and that is renewed once a turn: however many callers
send small chunks at the same time, the loop is back after a few milliseconds.
"""

import asyncio

from streamweir.server.http.body import CHUNKS_A_TURN

FEW = 16
BUDGET = 1024
"""About four milliseconds."""


class ReadBudget:
    __slots__ = ("_budget", "_left")

    def __init__(self, budget: int = BUDGET) -> None:
        self._budget = budget
        self._left = budget

    def allowed(self) -> int:
        """How many may be parsed now."""
        return min(FEW + self._left, CHUNKS_A_TURN)

    def spent(self, count: int) -> None:
        """So many were parsed."""
        if count <= FEW:
            return
        if self._left == self._budget:
            asyncio.get_running_loop().call_soon(self._renew)
        self._left = max(self._left - (count - FEW), 0)

    def _renew(self) -> None:
        self._left = self._budget
