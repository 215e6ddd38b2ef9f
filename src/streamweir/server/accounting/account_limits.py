"""The accounts and limits of a key, computed once and cached until one of them changes.

They are needed for every request. The cache is bounded: there are many keys, but few are in use.
"""

from collections.abc import Callable

from msgspec import Struct

from streamweir.policy.access import Key
from streamweir.policy.budget import key_account, key_accounts, period_of, workspace_account
from streamweir.policy.key_limits import limits_of
from streamweir.policy.limit_request import BudgetCharge
from streamweir.server.accounting.keys import Workspace
from streamweir.store.ledger.accounts import period_of_account, span_of

_HOUR_MS = 3_600_000
_MAX_KEYS = 4096


class AccountLimits(Struct, frozen=True):
    """Recomputed when the key, its workspace or the hour has changed. A period begins with an hour."""

    key: Key
    limits: dict[str, int | None]
    """The key's limits, by name."""
    workspace: Workspace
    hour: int
    charges: tuple[BudgetCharge, ...]
    other_accounts: tuple[str, ...]
    """All other accounts that the key could have, for any period of its budget."""
    is_limited: bool
    latest_hour: int
    """The last hour with a request of the key, as far as is known here: the clock may have been set back since."""


class AccountLimitsCache:
    def __init__(self, begin: Callable[[str], None]) -> None:
        """`begin` is called with an account on which nothing can have been spent, because its period has just begun."""
        self._begin = begin
        self._account_limits: dict[str, AccountLimits] = {}
        self._exclusive_from: int | None = None
        self._latest_hour = 0

    def set_exclusive_from(self, hour: int) -> None:
        """From this hour (Unix) on, only this process spends."""
        self._exclusive_from = hour

    def of(self, key: Key, workspace: Workspace, at_ms: int) -> AccountLimits:
        account_limits = self._account_limits.get(key.id)
        if (
            account_limits is None
            or account_limits.key is not key
            or account_limits.hour != at_ms // _HOUR_MS
            or account_limits.workspace != workspace
        ):
            account_limits = self._make(key, workspace, at_ms)
        return account_limits

    def _make(self, key: Key, workspace: Workspace, at_ms: int) -> AccountLimits:
        hour = at_ms // _HOUR_MS
        before = self._account_limits.get(key.id)
        if before is None and len(self._account_limits) >= _MAX_KEYS:
            self._account_limits.clear()
            if self._exclusive_from is not None:
                self._exclusive_from = max(self._exclusive_from, self._latest_hour + 1)
        self._latest_hour = max(self._latest_hour, hour)
        charges = charges_of(key, workspace, at_ms)
        if key.budget_nano is not None and self._is_new(charges[0].account, before):
            self._begin(charges[0].account)
        charged_accounts = [charge.account for charge in charges]
        accounts = (workspace_account(workspace.id), *key_accounts(key.id, at_ms / 1000))
        other_accounts = tuple(account for account in accounts if account not in charged_accounts)
        latest_hour = hour if before is None else max(hour, before.latest_hour)
        account_limits = self._account_limits[key.id] = AccountLimits(
            key, limits_of(key), workspace, hour, charges, other_accounts, bool(charges) or key.has_limits, latest_hour
        )
        return account_limits

    def _is_new(self, account: str, before: AccountLimits | None) -> bool:
        """Whether nothing can have been spent on the account of a key's budget, because its period has just begun:
        after this process became the only one to spend, and after the last request of the key (`before`)."""
        if self._exclusive_from is None:
            return False
        first, _ = span_of(period_of_account(account))
        return first >= self._exclusive_from and (before is None or before.latest_hour < first)


def charges_of(key: Key, workspace: Workspace, at_ms: int) -> tuple[BudgetCharge, ...]:
    """The key's own budget first."""
    charges: tuple[BudgetCharge, ...] = ()
    if key.budget_nano is not None:
        account = key_account(key.id, period_of(key.budget_period, at_ms / 1000))
        charges += (BudgetCharge(account=account, limit=key.budget_nano, code="budget_exceeded"),)
    if workspace.prepaid:
        account = workspace_account(workspace.id)
        charges += (BudgetCharge(account=account, limit=workspace.granted, code="insufficient_quota"),)
    return charges
