"""Notices that the ledger is behind, in each process for itself: its journal has entries that the database lacks.

The usual reason is that the database is unavailable, and then so is the outbox. So such an alert is kept in memory
until the database accepts it, and is meanwhile sent to the webhooks directly. It has the same id in both ways.
"""

from msgspec import Struct

from streamweir.policy.alert import LEDGER_BEHIND, LEDGER_CURRENT, Alert, alert_id, is_behind

_MAX_PENDING = 4


class Pending(Struct, kw_only=True):
    """An alert that the outbox does not have yet."""

    alert: Alert
    delivered: set[str]
    """Webhooks that have got it directly."""
    attempts: int = 0
    next_at: float = 0.0
    """Monotonic."""


class LedgerWatch:
    def __init__(self, instance: str, node: str) -> None:
        self._instance = instance
        self._node = node
        self._since_ms: int | None = None
        self.pending: list[Pending] = []
        """In order, and bounded: without the newest nobody would know how it is."""

    def observe(self, lag_s: float, waiting: int, limit_s: float, now_ms: int) -> Alert | None:
        """The alert, if there is news. `limit_s`: 0: never."""
        is_reported = self._since_ms is not None
        if is_behind(lag_s, limit_s, is_reported=is_reported) == is_reported or not limit_s:
            return None
        since_ms = self._since_ms if self._since_ms is not None else now_ms - int(lag_s * 1000)
        kind = LEDGER_CURRENT if is_reported else LEDGER_BEHIND
        alert = Alert(
            id=alert_id(self._instance, kind, since_ms),
            kind=kind,
            at_ms=now_ms,
            workspace_id=None,
            data={"node": self._node, "behind_s": round(lag_s, 1), "entries": waiting},
        )
        self._since_ms = None if is_reported else since_ms
        if len(self.pending) >= _MAX_PENDING:
            del self.pending[:2]
        self.pending.append(Pending(alert=alert, delivered=set()))
        return alert
