"""Wrong secrets, counted by the address they came from (docs/spec/security.md S9).

After five in a minute every other wrong one from there is told to wait until the first of them is a minute
old. The right one is never counted nor kept waiting: secrets are random and too long to be guessed, and
whoever shares an address with the operator (a proxy, an office) must not be able to lock him out. What is
kept is bounded; time is handed in. A secret itself is never seen here.
"""

from collections import OrderedDict

from streamweir.core.errors import CallerError

TRIES = 5
WINDOW_MS = 60_000
_MOST_PEERS = 10_000


class FailedLogins:
    def __init__(self) -> None:
        self._failed: OrderedDict[str, list[int]] = OrderedDict()

    def failed(self, peer: str, at_ms: int) -> CallerError | None:
        """One more. The error: there were too many before it; it is not counted then."""
        recent = [each for each in self._failed.get(peer, ()) if 0 <= at_ms - each < WINDOW_MS]
        if len(recent) >= TRIES:
            wait_s = (recent[0] + WINDOW_MS - at_ms) / 1000
            return CallerError(
                "rate_limit_exceeded",
                "Too many wrong secrets from this address. Try again later.",
                retry_after_s=wait_s,
            )
        self._failed[peer] = [*recent, at_ms]
        self._failed.move_to_end(peer)
        if len(self._failed) > _MOST_PEERS:
            self._failed.popitem(last=False)
        return None
