"""Wrong secrets, counted by the address they came from (spec/security.md S9).

After five in a minute nobody from there is listened to until the first of them is a minute old,
whatever is sent. What is kept is bounded; time is handed in. A secret itself is never seen here.
"""

from collections import OrderedDict

from streamweir.core.errors import CallerError

TRIES = 5
WINDOW_MS = 60_000
_MOST_PEERS = 10_000


class Tries:
    def __init__(self) -> None:
        self._failed: OrderedDict[str, list[int]] = OrderedDict()

    def check(self, peer: str, at_ms: int) -> None:
        """Raises `CallerError` where there were too many."""
        recent = self._recent(peer, at_ms)
        if len(recent) >= TRIES:
            wait_s = (recent[0] + WINDOW_MS - at_ms) / 1000
            raise CallerError("rate_limit_exceeded", "Too many wrong secrets came from here.", retry_after_s=wait_s)

    def failed(self, peer: str, at_ms: int) -> None:
        self._failed[peer] = [*self._recent(peer, at_ms), at_ms][-TRIES:]
        self._failed.move_to_end(peer)
        if len(self._failed) > _MOST_PEERS:
            self._failed.popitem(last=False)

    def _recent(self, peer: str, at_ms: int) -> list[int]:
        return [each for each in self._failed.get(peer, ()) if 0 <= at_ms - each < WINDOW_MS]
