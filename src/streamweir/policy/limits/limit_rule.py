"""Rules that limit what may be spent per end user, key or workspace, beside the budgets of keys and credit.

A rule has many accounts: one for each end user, key or workspace that it applies to, in each period. The id of an
account says everything that its sums are made of, so that the store needs no rules:

    rule:{workspace}:{rule}:{user | key | workspace}:{digest of the end user, or -}:{key, or empty}:{period}

The key is that of a rule for one key, or for each; without it all keys of the workspace count. Pure.
"""

from typing import Literal, NamedTuple

from msgspec import Struct

from streamweir.policy.access import Key
from streamweir.policy.end_user import ANONYMOUS, digest_of_user
from streamweir.policy.limits.budget import PERIODS, period_of

Per = Literal["user", "key", "workspace"]
Anonymous = Literal["refuse", "share"]

_PREFIX = "rule:"


class LimitRule(Struct, frozen=True, kw_only=True):
    name: str
    per: Per
    budget_nano: int
    budget_period: str
    workspace: str | None = None
    """By id or name. None: each."""
    key: str | None = None
    """By id or name. None: each."""
    anonymous: Anonymous = "share"
    """Requests without an end user, if it is per user: refused, or counted together."""
    alert_percent: tuple[int, ...] | None = None
    """At which percentages an alert is sent. None: at those of all budgets; of a rule per user, at none."""

    def applies_to(self, key: Key, workspace_id: str, workspace_name: str) -> bool:
        return self.workspace in (None, workspace_id, workspace_name) and self.key in (None, key.id, key.name)

    def account_of(self, key: Key, workspace_id: str, end_user: str | None, now: float) -> str:
        """`now` in Unix seconds."""
        scope = RuleScope(
            workspace_id, self.name, self.per, key.id if self.key is not None or self.per == "key" else ""
        )
        digest = digest_of_user(end_user) if self.per == "user" else ANONYMOUS
        return scope.account(digest, period_of(self.budget_period, now))


class RuleScope(NamedTuple):
    """What all accounts of a rule have in common, in a workspace and for a key."""

    workspace_id: str
    name: str
    per: str
    key_id: str
    """Empty: all keys."""

    def account(self, digest: str, period: str) -> str:
        return f"{_PREFIX}{self.workspace_id}:{self.name}:{self.per}:{digest}:{self.key_id}:{period}"

    def accounts_at(self, digest: str, now: float) -> tuple[str, ...]:
        """The accounts of an end user at `now`, for any period that the rule may have had."""
        own = digest if self.per == "user" else ANONYMOUS
        return tuple(self.account(own, period_of(kind, now)) for kind in PERIODS)


class RuleAccount(NamedTuple):
    """What the id of an account says."""

    scope: RuleScope
    digest: str
    """Of the end user, if the rule is per user."""
    period: str


def is_rule_account(id: str) -> bool:
    return id.startswith(_PREFIX)


def read_rule_account(id: str) -> RuleAccount:
    """Of an id for which `is_rule_account` holds. The id of a key may contain colons."""
    _, workspace_id, name, per, digest, rest = id.split(":", 5)
    key_id, _, period = rest.rpartition(":")
    return RuleAccount(RuleScope(workspace_id, name, per, key_id), digest, period)
