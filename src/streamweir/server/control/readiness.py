"""Whether this process should get requests, and if not why: what `/ready` answers with.

Every part that can make the process unfit sets its own reason and takes it back. Written on the event
loop, read from any thread: a reading is one look at one immutable value. Knows neither the parts nor HTTP.
"""

from math import inf

DRAINING = "draining"
FAILING = "failing"


class Readiness:
    def __init__(self) -> None:
        self.is_draining = False
        self.asked_at = -inf
        """When somebody last wanted to know, by the monotonic clock."""
        self._reasons: tuple[tuple[str, str], ...] = ()

    @property
    def is_ready(self) -> bool:
        return not self.is_draining and not self._reasons

    @property
    def status(self) -> str:
        """`ok`, `draining`, or `failing`: the word in the answer."""
        if self.is_draining:
            return DRAINING
        return FAILING if self._reasons else "ok"

    @property
    def reasons(self) -> list[str]:
        """In the order of the parts' names."""
        return [reason for _, reason in self._reasons]

    def set(self, part: str, reason: str | None) -> None:
        """None: nothing is wrong with it, or not any more."""
        reasons = dict(self._reasons)
        reasons.pop(part, None)
        if reason is not None:
            reasons[part] = reason
        self._reasons = tuple(sorted(reasons.items()))

    def document(self) -> dict[str, object]:
        """The body of the answer."""
        reasons = self.reasons
        return {"status": self.status, "reasons": reasons} if reasons else {"status": self.status}
