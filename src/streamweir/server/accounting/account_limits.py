"""The accounts and limits of a key, computed once and cached until one of them changes.

They are needed for every request. The cache is bounded: there are many keys, but few are in use. Rules per end user
(`policy.limits.limit_rule`) have another account for each, so their charges are added for every request.
"""

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct, structs

from streamweir.core.errors import CallerError
from streamweir.policy.access import Key
from streamweir.policy.limits.budget import key_account, key_accounts, period_of, workspace_account
from streamweir.policy.limits.key_limits import limits_of
from streamweir.policy.limits.limit_request import BudgetCharge, LimitRequest
from streamweir.policy.limits.limit_rule import LimitRule, is_rule_account
from streamweir.server.accounting.keys import KeyDirectory, Workspace
from streamweir.server.accounting.reservation import Reservation
from streamweir.server.http.answers import Refusal
from streamweir.store.ledger.period import period_of_account, span_of

_HOUR_MS = 3_600_000
_MAX_KEYS = 4096


_NEEDS_USER = (
    "A spend limit for each end user applies here, so every request must name its end user: in 'user' or"
    " 'safety_identifier' of the body, in 'metadata.user_id', or in the header x-streamweir-user."
)


class AccountLimits(Struct, frozen=True):
    """Recomputed when the key, its workspace or the hour has changed. A period begins with an hour."""

    key: Key
    request: LimitRequest
    """What every request of the key needs, without an id and a size. Its other accounts are all that the key could
    have, for any period of its budget."""
    workspace: Workspace
    hour: int
    charges: tuple[BudgetCharge, ...]
    """Those of `request`."""
    is_limited: bool
    rules: tuple[LimitRule, ...]
    """All of the file, as of then."""
    user_rules: tuple[LimitRule, ...]
    """Those that are per end user, and apply to the key."""
    latest_hour: int
    """The last hour with a request of the key, as far as is known here: the clock may have been set back since."""

    @property
    def budget_account(self) -> str | None:
        """Of the budget of `key`: that of a request may have changed while it waited."""
        return self.charges[0].account if self.key.budget_nano is not None else None

    @property
    def rule_accounts(self) -> tuple[str, ...]:
        if not self.rules:
            return ()
        return tuple([charge.account for charge in self.charges if is_rule_account(charge.account)])


class AccountLimitsCache:
    def __init__(self, begin: Callable[[str], None]) -> None:
        """`begin` is called with an account on which nothing can have been spent, because its period has just begun."""
        self._begin = begin
        self._account_limits: dict[str, AccountLimits] = {}
        self._exclusive_from: int | None = None
        self._latest_hour = 0
        self.rules: tuple[LimitRule, ...] = ()

    def set_exclusive_from(self, hour: int) -> None:
        """From this hour (Unix) on, only this process spends."""
        self._exclusive_from = hour

    def of(self, key: Key, workspace: Workspace, at_ms: int, end_user: str | None = None) -> AccountLimits:
        """Raises `Refusal` if a rule needs an end user, and there is none."""
        account_limits = self._account_limits.get(key.id)
        if (
            account_limits is None
            or account_limits.key is not key
            or account_limits.hour != at_ms // _HOUR_MS
            or account_limits.workspace != workspace
            or account_limits.rules is not self.rules
        ):
            account_limits = self._make(key, workspace, at_ms)
        if not account_limits.user_rules:
            return account_limits
        if not end_user and any(rule.anonymous == "refuse" for rule in account_limits.user_rules):
            raise Refusal(CallerError("missing_required_parameter", _NEEDS_USER, param="user"))
        of_user = _rule_charges(account_limits.user_rules, key, workspace, at_ms, end_user)
        charges = account_limits.charges + of_user
        request = structs.replace(account_limits.request, charges=charges)
        return structs.replace(account_limits, request=request, charges=charges, is_limited=True)

    def latest(self) -> Iterator[AccountLimits]:
        """Of the keys that have sent requests here, those that were new last first."""
        return reversed(list(self._account_limits.values()))

    def use_rules(self, rules: tuple[LimitRule, ...]) -> bool:
        """Whether they are others than before."""
        is_new = rules != self.rules
        if is_new:
            self.rules = rules
        return is_new

    def rule_accounts_of(
        self, reservations: Iterable[Reservation], directory: KeyDirectory
    ) -> dict[str, tuple[str, ...]]:
        """By the ids of requests: the accounts of all rules that apply to them now."""
        found = {}
        for reservation in reservations:
            request = reservation.request
            key, workspace = request.key, directory.workspace_of(request.key)
            applied = [rule for rule in self.rules if rule.applies_to(key, workspace.id, workspace.name)]
            charges = _rule_charges(applied, key, workspace, request.at_ms, request.attribution.end_user)
            found[request.request_id] = tuple([charge.account for charge in charges])
        return found

    def _make(self, key: Key, workspace: Workspace, at_ms: int) -> AccountLimits:
        hour = at_ms // _HOUR_MS
        before = self._account_limits.get(key.id)
        if before is None and len(self._account_limits) >= _MAX_KEYS:
            self._account_limits.clear()
            if self._exclusive_from is not None:
                self._exclusive_from = max(self._exclusive_from, self._latest_hour + 1)
        self._latest_hour = max(self._latest_hour, hour)
        applied = [rule for rule in self.rules if rule.applies_to(key, workspace.id, workspace.name)]
        charges = charges_of(key, workspace, at_ms, [rule for rule in applied if rule.per != "user"])
        if key.budget_nano is not None and self._is_new(charges[0].account, before):
            self._begin(charges[0].account)
        charged_accounts = [charge.account for charge in charges]
        accounts = (workspace_account(workspace.id), *key_accounts(key.id, at_ms / 1000))
        other_accounts = tuple(account for account in accounts if account not in charged_accounts)
        latest_hour = hour if before is None else max(hour, before.latest_hour)
        account_limits = self._account_limits[key.id] = AccountLimits(
            key,
            LimitRequest(
                request_id="", key_id=key.id, charges=charges, other_accounts=other_accounts, **limits_of(key)
            ),
            workspace,
            hour,
            charges,
            bool(charges) or key.has_limits,
            self.rules,
            tuple([rule for rule in applied if rule.per == "user"]),
            latest_hour,
        )
        return account_limits

    def _is_new(self, account: str, before: AccountLimits | None) -> bool:
        """Whether nothing can have been spent on the account of a key's budget, because its period has just begun:
        after this process became the only one to spend, and after the last request of the key (`before`)."""
        if self._exclusive_from is None:
            return False
        first, _ = span_of(period_of_account(account))
        return first >= self._exclusive_from and (before is None or before.latest_hour < first)


def charges_of(
    key: Key, workspace: Workspace, at_ms: int, rules: Iterable[LimitRule] = (), end_user: str | None = None
) -> tuple[BudgetCharge, ...]:
    """The key's own budget first. `rules`: those that apply to it."""
    charges: tuple[BudgetCharge, ...] = ()
    if key.budget_nano is not None:
        account = key_account(key.id, period_of(key.budget_period, at_ms / 1000))
        charges += (BudgetCharge(account=account, limit=key.budget_nano, code="budget_exceeded"),)
    charges += _rule_charges(rules, key, workspace, at_ms, end_user)
    if workspace.prepaid:
        account = workspace_account(workspace.id)
        charges += (BudgetCharge(account=account, limit=workspace.granted, code="insufficient_quota"),)
    return charges


def _rule_charges(
    rules: Iterable[LimitRule], key: Key, workspace: Workspace, at_ms: int, end_user: str | None
) -> tuple[BudgetCharge, ...]:
    return tuple(
        [
            BudgetCharge(
                account=rule.account_of(key, workspace.id, end_user, at_ms / 1000),
                limit=rule.budget_nano,
                code="budget_exceeded",
            )
            for rule in rules
        ]
    )
