"""The log lines of accounting. For an outage they say what follows from it, and at its end how long it lasted.

    journal, writer, limiter -> report(what, details) -> one line

What happens during an outage is decided elsewhere (`server.accounting`, docs/operations.md); here is only its wording.
"""

import time
from collections.abc import Mapping
from typing import Any

from streamweir.server.telemetry.log import logger

_HARMLESS = frozenset({"journal_recovered", "journal_replayed"})
_AWAY, _BACK = "_away", "_back"
_WITHOUT_DATABASE = (
    "requests continue while the journal has space. Refused with 503: those with an Idempotency-Key, {}, "
    "and after a minute all with a key of the database"
)
_ALONE = "those on a budget or credit not used since the start"
_BY_VALKEY = "those on a budget or credit whose total Valkey does not have"
_BY_NONE = "those on a budget or credit"
_EFFECTS = {
    "database_back": "the waiting entries are written to it; nothing needs to be done",
    "valkey_away": "each process counts rates alone, divided by the number of processes, and the database decides "
    "about budgets and credit",
    "valkey_back": "the processes share their counts again; nothing needs to be done",
}


class AccountingLog:
    """Is called as `report`: `what` names the event. Outages are `{dependency}_away` and `{dependency}_back`."""

    def __init__(self, *, decides_alone: bool, has_valkey: bool) -> None:
        """`decides_alone`: no other process uses the database."""
        refused = _ALONE if decides_alone else _BY_VALKEY if has_valkey else _BY_NONE
        self._effects = {**_EFFECTS, "database_away": _WITHOUT_DATABASE.format(refused)}
        self._away_since: dict[str, float] = {}

    def __call__(self, what: str, details: Mapping[str, Any]) -> None:
        event = f"accounting: {what.replace('_', ' ')}"
        if what in self._effects:
            logger.warning(event, **details, **self._times(what), effect=self._effects[what])
            return
        fault = details.get("fault")
        fields = {name: value for name, value in details.items() if name != "fault"}
        log = logger.info if what in _HARMLESS else logger.error
        log(event, exc_info=fault, **fields)

    def _times(self, what: str) -> dict[str, float]:
        name = what.removesuffix(_AWAY).removesuffix(_BACK)
        if what.endswith(_AWAY):
            self._away_since.setdefault(name, time.monotonic())
            return {}
        since = self._away_since.pop(name, None)
        return {} if since is None else {"away_s": round(time.monotonic() - since, 1)}
