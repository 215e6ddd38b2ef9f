"""Finds what operators should know, every few seconds, and reports each thing once: in the log, and in the outbox.

    accounts, usage, providers' signs -> findings -> changes of conditions -> alerts (log, outbox) -> AlertSender

Nothing here is on the path of a request. One process at a time, the one with the lease, reads the database for
findings and sends. Every process tells what it has seen of providers that fail, because each has its own connections,
and watches its own part of the ledger.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from msgspec import Struct
from sqlalchemy import Connection

from streamweir.background import BackgroundTask, BackgroundTasks
from streamweir.config.model import Config, Webhook
from streamweir.policy.alert import (
    GOOD_NEWS,
    PROVIDER_BACK,
    PROVIDER_DOWN,
    Alert,
    Change,
    Condition,
    Finding,
    ProviderSigns,
    changes_of,
    is_down,
    is_subscribed,
    join_signs,
    moment_text,
    retry_s,
)
from streamweir.policy.limits.budget import nano_of
from streamweir.policy.limits.limit_rule import LimitRule
from streamweir.server.accounting.intervals import Intervals
from streamweir.server.accounting.maintenance import Node
from streamweir.server.alerts.counts import AlertCounts
from streamweir.server.alerts.ledger_watch import LedgerWatch, Pending
from streamweir.server.alerts.sender import AlertSender
from streamweir.server.telemetry.log import logger
from streamweir.store.alerts.conditions import conditions_of, read_conditions, read_signs, save_changes, write_signs
from streamweir.store.alerts.findings import ERRORS, Thresholds, find_errors, find_money
from streamweir.store.alerts.outbox import LEASE, Subscription, append, unknown_workspaces
from streamweir.store.db.base import Store, StoreUnavailable
from streamweir.store.db.clock import now_ms
from streamweir.store.db.counter import has_lease, release_lease, take_lease
from streamweir.store.requests.instances import now_of

PROVIDER = "provider:"
_LATE_MS = 60_000
"""The row of a refused request may be written so long after it came."""
_FIRST_LOOK_MS = 300_000
"""How far back a process looks for refusals that takes over."""
_MAX_CHANGES = 200
"""In one transaction, so that other writers do not wait long. The next look finds the rest."""
_SAME_MS = 1000
"""Signs that differ by less are the same: they are converted from another clock."""

Signs = dict[str, ProviderSigns]


class _Look(Struct, kw_only=True):
    """What was read from the database."""

    now_ms: int
    is_ours: bool
    signs: dict[str, dict[str, ProviderSigns]]
    changes: list[Change]


class Alerts:
    def __init__(
        self,
        store: Store,
        node: Node,
        *,
        config: Callable[[], Config],
        rules: Callable[[], tuple[LimitRule, ...]],
        signs: Callable[[], Signs],
        lag: Callable[[], tuple[float, int]],
        intervals: Intervals,
        background: BackgroundTasks,
    ) -> None:
        """`rules`: those under [[limits]]. `signs`: what this process has seen of its providers. `lag`: the age in
        seconds of the oldest entry that the database lacks, and their number."""
        self._store = store
        self._node = node
        self._config = config
        self._rules = rules
        self._signs = signs
        self._lag = lag
        self._intervals = intervals
        self._background = background
        self.counts = AlertCounts()
        self._sender = AlertSender(store, node.instance, self._webhooks, self.counts, intervals)
        self._ledger = LedgerWatch(node.instance, node.name)
        self._tasks: list[BackgroundTask] = []
        self._looked_ms: int | None = None
        self._warned: set[str] = set()

    def start(self) -> None:
        every = {"alert check": self._check_regularly, "alert sending": self._sender.run}
        self._tasks = [self._background.start(name, run) for name, run in every.items()]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            await task.over()
        await self._sender.close()
        if self._sender.has_lease:
            instance = self._node.instance
            with suppress(StoreUnavailable):  # then it expires
                await self._store.write(lambda conn: release_lease(conn, LEASE, instance), timeout_s=1.0)

    async def _check_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._intervals.alert_check_s)
            await self.check()

    async def check(self) -> None:
        """One look. If the database is unavailable, the next one finds the same."""
        lag_s, waiting = self._lag()
        news = self._ledger.observe(lag_s, waiting, self._config().alerts.ledger_behind_s, now_ms())
        if news is not None:
            self._report([news])
        try:
            await self._put_pending()
            await self._look()
        except StoreUnavailable:
            self._sender.has_lease = False
            self.counts.backlogs = []
            await self._send_pending()

    # The ledger of this process.

    async def _put_pending(self) -> None:
        while self._ledger.pending:
            pending, subscriptions = self._ledger.pending[0], self._subscriptions()
            await self._store.write(partial(_append_pending, pending, subscriptions))
            self._ledger.pending.pop(0)
            self._sender.wake()

    async def _send_pending(self) -> None:
        """Directly, because there is no outbox."""
        for pending in self._ledger.pending:
            if time.monotonic() < pending.next_at:
                return
            pending.attempts += 1
            pending.next_at = time.monotonic() + retry_s(pending.attempts) * self._intervals.alert_retry_s
            await asyncio.gather(*(self._send_one(pending, each) for each in self._webhooks().values()))

    async def _send_one(self, pending: Pending, webhook: Webhook) -> None:
        alert = pending.alert
        is_wanted = webhook.workspace is None and is_subscribed(alert.kind, None, webhook.events, None)
        if not is_wanted or webhook.name in pending.delivered:
            return
        if await self._sender.send_directly(webhook.name, alert.id, alert.body):
            pending.delivered.add(webhook.name)

    # What the process with the lease finds.

    async def _look(self) -> None:
        thresholds, own, instance = self._thresholds(), self._signs(), self._node.instance
        silent_ms = int(self._config().alerts.provider_down_s * 1000)
        since_ms = self._looked_ms

        def read(conn: Connection) -> _Look:
            at_ms = now_of(conn, now_ms())
            is_ours = has_lease(conn, LEASE, instance, at_ms) is not False
            alive_since_ms = at_ms - int(self._intervals.dead_after_s * 1000)
            signs = read_signs(conn, alive_since_ms, instance)
            changes: list[Change] = []
            if is_ours:
                joined = {name: join_signs({**signs.get(name, {}), instance: own[name]}.values()) for name in own}
                changes = _find_providers(conn, joined, at_ms, silent_ms)
                changes += _find(conn, thresholds, at_ms, since_ms)
            return _Look(now_ms=at_ms, is_ours=is_ours, signs=signs, changes=changes[:_MAX_CHANGES])

        look = await self._store.read(read)
        news = _news(own, look.signs, instance)
        alerts: list[Alert] = []
        if look.is_ours or news:
            subscriptions = self._subscriptions()

            def write(conn: Connection) -> tuple[bool, list[Alert]]:
                at_ms = now_of(conn, now_ms())
                write_signs(conn, instance, news)
                lease_ms = int(self._intervals.alert_lease_s * 1000)
                if not look.is_ours or not take_lease(conn, LEASE, instance, at_ms, lease_ms):
                    return False, []
                return True, append(conn, save_changes(conn, look.changes), subscriptions)

            self._sender.has_lease, alerts = await self._store.write(write)
        else:
            self._sender.has_lease = False
        if self._sender.has_lease:
            self._looked_ms = look.now_ms
            self._report(alerts)
            await self._warn_of_workspaces()
        else:
            self._looked_ms, self.counts.backlogs = None, []
        self._sender.wake()

    def _report(self, alerts: Sequence[Alert]) -> None:
        for alert in alerts:
            self.counts.found[alert.kind] += 1
            log = logger.info if alert.kind in GOOD_NEWS else logger.warning
            log("alert", kind=alert.kind, alert=alert.id, **alert.data)

    async def _warn_of_workspaces(self) -> None:
        """Once for each name: a webhook of a workspace that does not exist gets nothing."""
        named = [each for each in self._subscriptions() if each.workspace not in (None, *self._warned)]
        if named:
            self._warned.update(each.workspace for each in named if each.workspace is not None)
            for name in await self._store.read(lambda conn: unknown_workspaces(conn, named)):
                logger.warning("webhook of an unknown workspace: it gets no alerts", webhook=name)

    def _thresholds(self) -> Thresholds:
        alerts = self._config().alerts
        return Thresholds(
            budget_percent=alerts.budget_percent,
            credit_low_nano=nano_of(alerts.credit_low_usd),
            error_percent=alerts.error_percent,
            error_requests=alerts.error_requests,
            error_minutes=alerts.error_minutes,
            rules=self._rules(),
        )

    def _webhooks(self) -> Mapping[str, Webhook]:
        return {each.name: each for each in self._config().webhooks}

    def _subscriptions(self) -> list[Subscription]:
        return [
            Subscription(name=each.name, events=each.events, workspace=each.workspace)
            for each in self._config().webhooks
        ]


def _append_pending(pending: Pending, subscriptions: Sequence[Subscription], conn: Connection) -> None:
    append(conn, [pending.alert], subscriptions, pending.delivered)


def _find(conn: Connection, thresholds: Thresholds, at_ms: int, since_ms: int | None) -> list[Change]:
    refused_since_ms = at_ms - _FIRST_LOOK_MS if since_ms is None else since_ms - _LATE_MS
    money = find_money(conn, thresholds, at_ms, refused_since_ms)
    known = conditions_of(conn, ERRORS)
    errors = find_errors(conn, thresholds, known, at_ms)
    known |= read_conditions(conn, [finding.subject for finding in money])
    return changes_of(known, [*money, *errors], at_ms)


def _find_providers(conn: Connection, signs: Signs, at_ms: int, silent_ms: int) -> list[Change]:
    known = conditions_of(conn, PROVIDER)
    return changes_of(known, _provider_findings(signs, known, at_ms, silent_ms), at_ms)


def _provider_findings(
    signs: Mapping[str, ProviderSigns], known: Mapping[str, Condition], at_ms: int, silent_ms: int
) -> list[Finding]:
    found = []
    for name, each in signs.items():
        before = known.get(f"{PROVIDER}{name}")
        down = is_down(each, before.basis if before is not None else None, at_ms, silent_ms)
        if down is None:
            continue
        since_ms = before.basis if before is not None else each.failed_ms or at_ms
        data = {"provider": name, "since": moment_text(since_ms)}
        if each.answered_ms is not None:
            data["answered_at"] = moment_text(each.answered_ms)
        found.append(
            Finding(
                subject=f"{PROVIDER}{name}",
                level=int(down),
                kinds=((1, PROVIDER_DOWN),),
                basis=since_ms,
                end_kind=PROVIDER_BACK,
                data=data,
            )
        )
    return found


def _news(own: Signs, signs: Mapping[str, Mapping[str, ProviderSigns]], instance: str) -> Signs:
    """What others do not know: only of providers that somebody has seen failing."""
    news = {}
    for name, seen in own.items():
        known = signs.get(name, {})
        if seen.failed_ms is None and not any(each.failed_ms is not None for each in known.values()):
            continue
        before = known.get(instance, ProviderSigns())
        if not (_is_same(before.failed_ms, seen.failed_ms) and _is_same(before.answered_ms, seen.answered_ms)):
            news[name] = seen
    return news


def _is_same(one: int | None, other: int | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) < _SAME_MS
