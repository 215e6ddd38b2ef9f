"""How much of their budgets and credits the keys and workspaces that use this process have spent, for the operator.

    Maintenance -- refresh, now and then --> limiter (as the authority knows it) --> families, when the metrics are read

With several processes each reports the same sums, so the greatest of them counts. A key that has not been used here in
the present period of its budget is left out. Only those nearest to their limit are shown: the number of labels is
bounded.
"""

from collections.abc import Iterator, Mapping
from heapq import nlargest
from itertools import islice

from prometheus_client.metrics_core import Metric

from streamweir.policy.limits.limit_request import BudgetCharge
from streamweir.server.accounting.account_limits import AccountLimitsCache, charges_of
from streamweir.server.accounting.keys import KeyDirectory
from streamweir.server.accounting.limiter import AccountState, Limiter
from streamweir.server.telemetry.metric_families import gauge
from streamweir.server.telemetry.sanitize import clean

MAX_KEYS_READ = 500
"""The keys whose budgets are looked at: those that were used first are left out."""
MAX_SHOWN = 300
"""Of the keys, and of the workspaces."""

_Labels = tuple[str, ...]


class BudgetUse:
    def __init__(self, cache: AccountLimitsCache, directory: KeyDirectory, limiter: Limiter) -> None:
        self._cache = cache
        self._directory = directory
        self._limiter = limiter
        self._budgets: dict[_Labels, float] = {}
        self._credits: dict[_Labels, float] = {}

    async def refresh(self, at_ms: int) -> None:
        """If nothing can be read, the last values stay. Raises `GatewayFault`, as the limiter."""
        budgets, credits = self._charges(at_ms)
        labels = {**budgets, **credits}
        if not labels:
            self._budgets, self._credits = {}, {}
            return
        states = await self._limiter.states(list(labels))
        if states:
            self._budgets = _largest(states, budgets)
            self._credits = _largest(states, credits)

    def families(self) -> Iterator[Metric]:
        return budget_families(self._budgets, self._credits)

    def _charges(self, at_ms: int) -> tuple[dict[BudgetCharge, _Labels], dict[BudgetCharge, _Labels]]:
        """Of the keys' budgets and of credits, with their labels."""
        budgets: dict[BudgetCharge, _Labels] = {}
        credits: dict[BudgetCharge, _Labels] = {}
        for used in islice(self._cache.latest(), MAX_KEYS_READ):
            key = self._directory.newest(used.key)
            if key.revoked_at is not None:
                continue
            workspace = self._directory.workspace_of(key)
            name, known = clean(workspace.name), {charge.account for charge in used.charges}
            for charge in charges_of(key, workspace, at_ms):
                if charge.account not in known:  # another period, or new: nothing was charged to it here
                    continue
                if charge.code == "insufficient_quota":
                    credits[charge] = (name,)
                else:
                    budgets[charge] = (name, clean(key.name), key.budget_period)
        return budgets, credits


def budget_families(budgets: Mapping[_Labels, float], credits: Mapping[_Labels, float]) -> Iterator[Metric]:
    about = "The part of a key's budget that is spent in its present period; 1: all of it."
    yield gauge("key_budget_used_ratio", about, ("workspace", "key", "period"), budgets.items())
    about = "The part of a prepaid workspace's credit that is spent; 1: all of it."
    yield gauge("workspace_credit_used_ratio", about, ("workspace",), credits.items())


def _largest(states: list[AccountState], labels: dict[BudgetCharge, _Labels]) -> dict[_Labels, float]:
    found: dict[_Labels, float] = {}
    for state in states:
        if state.charge in labels:
            ratio = state.spent / state.charge.limit if state.charge.limit > 0 else 1.0
            of_this = labels[state.charge]
            found[of_this] = max(ratio, found.get(of_this, 0.0))
    return dict(nlargest(MAX_SHOWN, found.items(), key=lambda each: each[1]))
