"""Whether this process should get requests, and if not, why: the content of `/ready`.

Every part that can make the process not ready sets its own reason, and removes it. It is written on the event loop and
read from any thread: a read is one access to an immutable value. Independent of the parts and of HTTP.
"""

from math import inf

DRAINING = "draining"
FAILING = "failing"


class Readiness:
    def __init__(self) -> None:
        self.is_draining = False
        self.probed_at = -inf
        """When it was last read by a probe, by the monotonic clock."""
        self._reasons: tuple[tuple[str, str], ...] = ()

    @property
    def is_ready(self) -> bool:
        return not self.is_draining and not self._reasons

    @property
    def status(self) -> str:
        """`ok`, `draining`, or `failing`: the value in the answer."""
        if self.is_draining:
            return DRAINING
        return FAILING if self._reasons else "ok"

    @property
    def reasons(self) -> list[str]:
        """Sorted by the names of the parts."""
        return [reason for _, reason in self._reasons]

    def set(self, part: str, reason: str | None) -> None:
        """None: the part is ready."""
        reasons = dict(self._reasons)
        reasons.pop(part, None)
        if reason is not None:
            reasons[part] = reason
        self._reasons = tuple(sorted(reasons.items()))

    def document(self) -> dict[str, object]:
        """The body of the answer."""
        reasons = self.reasons
        return {"status": self.status, "reasons": reasons} if reasons else {"status": self.status}
