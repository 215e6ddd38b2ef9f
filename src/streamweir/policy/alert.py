"""What operators are told: which alerts follow from what was found, and when a delivery is tried again.

    finding (what is true now) + condition (what was reported last) -> the next condition, and alerts

A finding has a level: the percentage of a budget that is spent, or 1 for a provider that is down. Every level is
reported once, in order, when it is reached. A level that was reached against an amount (the limit of a budget, the
credit of a workspace) falls only if that amount changes. Other levels fall when the opposite was found, and that is
reported too. There is no clock and no database here.
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec
from msgspec import Struct

Group = Literal["budget", "credit", "provider", "error_rate", "ledger"]

BUDGET = "budget.threshold"
CREDIT_LOW = "credit.low"
CREDIT_USED_UP = "credit.used_up"
PROVIDER_DOWN = "provider.down"
PROVIDER_BACK = "provider.back"
ERRORS_HIGH = "error_rate.high"
ERRORS_NORMAL = "error_rate.normal"
LEDGER_BEHIND = "ledger.behind"
LEDGER_CURRENT = "ledger.current"
KINDS = (
    BUDGET,
    CREDIT_LOW,
    CREDIT_USED_UP,
    PROVIDER_DOWN,
    PROVIDER_BACK,
    ERRORS_HIGH,
    ERRORS_NORMAL,
    LEDGER_BEHIND,
    LEDGER_CURRENT,
)
GOOD_NEWS = frozenset({PROVIDER_BACK, ERRORS_NORMAL, LEDGER_CURRENT})

FIRST_RETRY_S = 5.0
MAX_RETRY_S = 300.0
"""A receiver that is back gets what waits for it within this time."""
KEPT_S = 72 * 3600.0
"""For so long after it happened an alert is sent to a receiver that fails or does not answer."""
REFUSED_S = 3600.0
"""For so long if the receiver refuses it (4xx): it will most likely refuse it again, and others wait behind it."""
_NOT_REFUSALS = frozenset({408, 425, 429})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_encode = msgspec.json.Encoder(order="deterministic").encode


class Alert(Struct, frozen=True, kw_only=True):
    id: str
    """The same for every webhook and every attempt, so that a receiver can ignore what it has already."""
    kind: str
    at_ms: int
    workspace_id: str | None
    """None: it is about the whole gateway."""
    data: dict[str, Any]

    @property
    def body(self) -> str:
        """As it is sent: JSON by the Standard Webhooks specification."""
        return _encode({"type": self.kind, "timestamp": moment_text(self.at_ms), "data": self.data}).decode()


class Condition(Struct, frozen=True, kw_only=True):
    """What was reported last about one subject."""

    subject: str
    level: int
    basis: int
    """The amount that the level was measured against; for others the time since when it is so (Unix milliseconds)."""
    until_ms: int | None = None
    """It is of no interest after this time. None: always."""


class Finding(Struct, frozen=True, kw_only=True):
    """What is true of a subject now."""

    subject: str
    level: int
    kinds: tuple[tuple[int, str], ...]
    """The levels that are reported, ascending, and as which alerts."""
    basis: int = 0
    end_kind: str | None = None
    """The alert when the level is 0 again. None: the level was measured against `basis`, and its fall is no news."""
    workspace_id: str | None = None
    data: dict[str, Any] = {}
    until_ms: int | None = None


class Change(Struct, frozen=True, kw_only=True):
    before: Condition | None
    after: Condition
    alerts: tuple[Alert, ...] = ()


def changes_of(known: dict[str, Condition], findings: Iterable[Finding], at_ms: int) -> list[Change]:
    """`known`: the conditions by subject. Findings that change nothing are left out."""
    changes = []
    for finding in findings:
        change = _change_of(known.get(finding.subject), finding, at_ms)
        if change is not None:
            changes.append(change)
    return changes


def _change_of(before: Condition | None, finding: Finding, at_ms: int) -> Change | None:
    level, basis = (before.level, before.basis) if before is not None else (0, finding.basis)
    is_measured = finding.end_kind is None
    if finding.level == level and (not is_measured or finding.basis == basis):
        return None
    if finding.level < level and is_measured and finding.basis == basis:
        return None  # a refusal said more than the sums do
    after = Condition(
        subject=finding.subject,
        level=finding.level,
        basis=finding.basis,
        until_ms=finding.until_ms,
    )
    reached = [(step, kind) for step, kind in finding.kinds if level < step <= finding.level]
    if finding.level == 0 and level > 0 and finding.end_kind is not None:
        reached = [(0, finding.end_kind)]
    alerts = tuple(_alert(finding, step, kind, at_ms) for step, kind in reached)
    return Change(before=before, after=after, alerts=alerts)


def _alert(finding: Finding, step: int, kind: str, at_ms: int) -> Alert:
    data = {"percent": step, **finding.data} if kind == BUDGET else finding.data
    return Alert(
        id=alert_id(finding.subject, kind, step, at_ms),
        kind=kind,
        at_ms=at_ms,
        workspace_id=finding.workspace_id,
        data=data,
    )


def alert_id(*parts: object) -> str:
    return "alert_" + hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:24]


def group_of(kind: str) -> str:
    return kind.partition(".")[0]


def is_subscribed(kind: str, workspace_id: str | None, events: Sequence[str], only_workspace: str | None) -> bool:
    """Whether a webhook with these `events` (empty: all) gets such an alert; that of a workspace gets only its own."""
    if events and group_of(kind) not in events:
        return False
    return only_workspace is None or only_workspace == workspace_id


def budget_level(spent: int, limit: int, thresholds: Sequence[int]) -> int:
    """The highest of the thresholds (percent) that is reached; 0: none."""
    return max((each for each in thresholds if spent * 100 >= limit * each), default=0)


class ProviderSigns(Struct, frozen=True):
    """Of one provider, in Unix milliseconds: what one process or all of them have seen."""

    failed_ms: int | None = None
    """When the last of its ejected targets was ejected. None: none is ejected."""
    answered_ms: int | None = None


def join_signs(seen: Collection[ProviderSigns]) -> ProviderSigns:
    """The latest of each."""
    failed = [each.failed_ms for each in seen if each.failed_ms is not None]
    answered = [each.answered_ms for each in seen if each.answered_ms is not None]
    return ProviderSigns(max(failed, default=None), max(answered, default=None))


def is_down(signs: ProviderSigns, since_ms: int | None, now_ms: int, silent_ms: int) -> bool | None:
    """`since_ms`: since when it is reported as down, if it is. None: nothing says that this has changed.

    Down: a target is ejected, and nothing was answered for `silent_ms`. Back: something was answered afterwards.
    """
    answered = signs.answered_ms or 0
    if since_ms is not None:
        return None if answered <= since_ms else False
    if signs.failed_ms is None or answered > signs.failed_ms or now_ms - answered < silent_ms:
        return None
    return True


def has_many_errors(requests: int, errors: int, percent: float, least: int, *, is_reported: bool) -> bool:
    """It is over only at half of the rate: a rate near the limit would be reported again and again. That there are few
    requests now does not end it: callers stay away while they fail."""
    if is_reported:
        return errors > 0 and errors * 100 >= requests * percent / 2
    return requests >= least and errors * 100 >= requests * percent


def is_behind(lag_s: float, limit_s: float, *, is_reported: bool) -> bool:
    return lag_s >= (limit_s / 2 if is_reported else limit_s)


def retry_s(attempts: int, asked_s: float | None = None) -> float:
    """Before the next attempt, after so many. `asked_s`: what the receiver asks for."""
    own_s = min(FIRST_RETRY_S * 2.0 ** min(max(attempts - 1, 0), 16), MAX_RETRY_S)
    return own_s if asked_s is None else max(own_s, min(asked_s, MAX_RETRY_S))


def is_given_up(age_s: float, status: int | None) -> bool:
    """After an attempt that failed with this status (None: without an answer), for an alert of this age."""
    is_refused = status is not None and 400 <= status < 500 and status not in _NOT_REFUSALS
    return age_s >= (REFUSED_S if is_refused else KEPT_S)


def moment_text(at_ms: int) -> str:
    """RFC 3339."""
    return (_EPOCH + timedelta(seconds=at_ms // 1000)).strftime("%Y-%m-%dT%H:%M:%SZ")
