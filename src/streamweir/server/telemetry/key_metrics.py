"""What each key and each workspace uses and pays: for the operator alone (`server.telemetry.money_metrics`).

Counted by the id of the key, and shown by names. Keys of the configuration always have a label of their own, of the
others the first `MAX_KEYS` that send requests: the admin of a workspace may create any number of them. All others of a
workspace are `other`, so the sum of a workspace is always right.
"""

from collections.abc import Callable, Iterator

from msgspec import Struct
from prometheus_client.metrics_core import Metric

from streamweir.policy.limits.budget import NANO
from streamweir.server.telemetry.metric_families import counter
from streamweir.server.telemetry.metric_labels import OTHER
from streamweir.server.telemetry.record import RequestRecord
from streamweir.server.telemetry.sanitize import clean

MAX_KEYS = 300
"""Keys with a label of their own, beside those of the configuration."""
MAX_WORKSPACES = 300
"""Only the operator creates workspaces; there can be very many all the same."""


class _Tally(Struct):
    workspace: str
    """Its id, or its name if it has no id yet."""
    key: str
    requests: int = 0
    price: int = 0
    cost: int = 0


class KeyMetrics:
    def __init__(self) -> None:
        self.configured: frozenset[str] = frozenset()
        """The ids of the configuration's keys."""
        self.workspace_name: Callable[[str], str] = str
        """By its id."""
        self._tallies: dict[str, _Tally] = {}
        self._others: dict[str, _Tally] = {}
        self._learned = 0

    def count(self, key_id: str, record: RequestRecord) -> None:
        tally = self._tallies.get(key_id) or self._find(key_id, record)
        tally.requests += 1
        tally.price += record.price or 0
        tally.cost += record.cost or 0

    def families(self) -> Iterator[Metric]:
        requests: dict[tuple[str, ...], float] = {}
        price: dict[tuple[str, ...], float] = {}
        cost: dict[tuple[str, ...], float] = {}
        for tally in (*self._tallies.values(), *self._others.values()):
            labels = (self._label(tally.workspace), tally.key)
            requests[labels] = requests.get(labels, 0) + tally.requests
            price[labels] = price.get(labels, 0) + tally.price
            cost[labels] = cost.get(labels, 0) + tally.cost
        names = ("workspace", "key")
        yield counter("key_requests", "Finished requests by workspace and key.", names, requests)
        about = "What the requests of a key are sold for, in US dollars."
        yield counter("key_price_usd", about, names, {labels: each / NANO for labels, each in price.items()})
        about = "What providers ask for the requests of a key, in US dollars."
        yield counter("key_cost_usd", about, names, {labels: each / NANO for labels, each in cost.items()})

    def _find(self, key_id: str, record: RequestRecord) -> _Tally:
        workspace = record.workspace_id or ""
        is_configured = key_id in self.configured
        if is_configured or self._learned < MAX_KEYS:
            self._learned += not is_configured
            tally = self._tallies[key_id] = _Tally(workspace, clean(record.key or ""))
            return tally
        if workspace not in self._others and len(self._others) >= MAX_WORKSPACES:
            workspace = OTHER
        return self._others.setdefault(workspace, _Tally(workspace, OTHER))

    def _label(self, workspace: str) -> str:
        return workspace if workspace == OTHER else clean(self.workspace_name(workspace))
