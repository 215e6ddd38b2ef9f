"""Periodic work of accounting: loading changed keys, heartbeats, settling the orphans of dead processes.

Each is its own task, once a second, so that a fault in one does not stop the others: without heartbeats the requests
of this process would be settled as orphans, without updates its stored keys would be refused. If the database is
unavailable, the work is left for the next time, and nothing waits for it.

A process counts as dead when its heartbeat is old AND this process has reached the database during all of that time:
otherwise the first process to reconnect after an outage, or after it was suspended, would treat all others as dead.
It takes two looks, because a process that comes back may write entries before its heartbeat. The open requests of a
dead process are settled by whichever process comes first; the unique index of the ledger makes sure that it happens
once.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from msgspec import DecodeError, Struct, structs
from sqlalchemy import Connection

from streamweir.background import BackgroundTask, BackgroundTasks
from streamweir.core.errors import GatewayFault
from streamweir.core.usage import Usage
from streamweir.core.verdict import Verdict
from streamweir.pipeline.settlement import UsageSource
from streamweir.policy.access import Key
from streamweir.policy.pricing.charge import Charge, by_rule, charge_of
from streamweir.policy.pricing.prices import Quote, decode_quote
from streamweir.server.accounting.accounting import Accounting
from streamweir.server.accounting.intervals import DEFAULT_INTERVALS, Intervals
from streamweir.server.accounting.request_row import row_of_open
from streamweir.server.telemetry.log import logger
from streamweir.store.db.base import Store, StoreUnavailable
from streamweir.store.db.clock import now_ms
from streamweir.store.db.errors import Conflict
from streamweir.store.journal.entries import Settle
from streamweir.store.keys.changes import Changes, changes_since
from streamweir.store.keys.file_keys import put_file_keys
from streamweir.store.ledger.recovery import settle_orphans
from streamweir.store.ledger.rule_accounts import accounts_in
from streamweir.store.requests import retention
from streamweir.store.requests.instances import count_alive, dead_instances, now_of, retire, write_heartbeat
from streamweir.store.requests.live import OpenRequest, cancelled


class Node(Struct, kw_only=True):
    instance: str
    name: str
    """The name of the node; the workers of one supervisor share it."""
    peers: int = 1
    """The number of processes that serve at the moment, including this one."""


class Maintenance:
    def __init__(
        self,
        store: Store,
        accounting: Accounting,
        node: Node,
        *,
        stop_key: Callable[[Key], None],
        stop_request: Callable[[str], None],
        retention_days: float,
        intervals: Intervals = DEFAULT_INTERVALS,
        background: BackgroundTasks | None = None,
    ) -> None:
        """`stop_key` ends the streams of a revoked key, `stop_request` a request that an operator has stopped.

        `background` keeps its tasks running; None: they are not restarted after a fault.
        """
        self._store = store
        self._accounting = accounting
        self._node = node
        self._stop_key = stop_key
        self._stop_request = stop_request
        self._retention_days = retention_days
        self._intervals = intervals
        self._background = background or BackgroundTasks()
        self._tasks: list[BackgroundTask] = []
        self._loading = asyncio.Lock()
        self._heartbeat_at = self._reconciled_at = 0.0
        self._connected_since = self._reached_at = time.monotonic()
        self._suspects: dict[str, float] = {}
        """Instances that seemed dead in every check since then."""

    def start(self) -> None:
        every = {
            "progress": self._note_progress,
            "lease renewal": self._renew_leases,
            "key refresh": self._refresh,
            "heartbeat": self._heartbeat,
            "recovery": self._recover,
            "purge": self._purge,
            "budget use": self._read_budget_use,
        }
        self._tasks = [self._background.start(name, run) for name, run in every.items()]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            await task.over()

    async def retire(self) -> None:
        """After accounting is closed and everything is written: what is still open of this process is an orphan."""
        instance = self._node.instance
        with suppress(StoreUnavailable):  # then it is found by its missing heartbeat
            await self._store.write(lambda conn: retire(conn, instance, now_of(conn, now_ms())), timeout_s=1.0)

    async def _note_progress(self) -> None:
        while True:
            await asyncio.sleep(self._intervals.tick_s)
            self._accounting.note_progress()

    async def _renew_leases(self) -> None:
        while True:
            await asyncio.sleep(self._intervals.tick_s)
            self._accounting.renew_leases()

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(self._intervals.tick_s)
            if await self._run_step(self.load_changes):
                self._note_connected()

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(self._intervals.tick_s)
            await self._run_step(self._send_heartbeat)

    async def _recover(self) -> None:
        while True:
            await asyncio.sleep(self._intervals.tick_s)
            await self._run_step(self._reconcile)

    async def _purge(self) -> None:
        await asyncio.sleep(self._intervals.purge_after_s)
        await retention.purge_regularly(self._store, self._node.instance, now_ms, days=self._retention_days)

    async def _read_budget_use(self) -> None:
        """Errors of the database are no news here: then the last values stay."""
        while True:
            await asyncio.sleep(self._intervals.budget_use_s)
            with suppress(GatewayFault, StoreUnavailable):
                await self._accounting.budget_use.refresh(now_ms())

    async def _run_step(self, step: Callable[[], Awaitable[None]]) -> bool:
        """Whether the database was available. If not, it may not have received the heartbeats of others either."""
        try:
            await step()
        except StoreUnavailable:
            self._connected_since = time.monotonic()
            if self._accounting.writer is not None:
                self._accounting.writer.check_database()
            return False
        return True

    async def load_changes(self) -> None:
        """Loads what has changed in the store, one load at a time: an older state never replaces a newer one.

        Raises `StoreUnavailable`.
        """
        async with self._loading:
            await self._load_changes()

    async def _load_changes(self) -> None:
        directory, instance = self._accounting.directory, self._node.instance

        def read(conn: Connection) -> tuple[Changes, list[str]]:
            return changes_since(conn, directory.version), cancelled(conn, instance)

        changes, cancelled_ids = await self._store.read(read)
        for key in directory.apply(changes):
            self._stop_key(key)
        for request_id in cancelled_ids:
            self._stop_request(request_id)
        if directory.file_is_new:
            await self.store_file_keys()

    async def store_file_keys(self) -> None:
        """Writes the keys and workspaces of the operator's file to the store, for the console and other processes."""
        directory = self._accounting.directory
        ring, at_ms = directory.file_keys, now_ms()
        try:
            await self._store.write(lambda conn: put_file_keys(conn, list(ring), at_ms=at_ms))
        except Conflict as reason:  # after a reload: the keys stay valid in this process, and are not tried again
            logger.error("keys of the configuration file not stored", reason=str(reason))
        directory.file_is_new = directory.file_keys is not ring  # a reload meanwhile

    async def _send_heartbeat(self) -> None:
        now = time.monotonic()
        if now - self._heartbeat_at < self._intervals.heartbeat_s:
            return
        await heartbeat(self._store, self._node, self._intervals.dead_after_s)
        self._heartbeat_at = now

    def _note_connected(self) -> None:
        """Unless this process, or its last query, took so long that others may have been delayed as well."""
        now = time.monotonic()
        if now - self._reached_at > self._intervals.dead_after_s / 2:
            self._connected_since = now
        self._reached_at = now

    async def _reconcile(self) -> None:
        now = time.monotonic()
        if (
            now - self._connected_since < self._intervals.dead_after_s
            or now - self._reconciled_at < self._intervals.heartbeat_s
        ):
            return
        if (
            now - self._reached_at > self._intervals.dead_after_s / 2
        ):  # the queries fail: this process may be the one without a connection
            return
        self._reconciled_at = now
        at_ms = now_ms()
        own = self._node.instance

        def find(conn: Connection) -> list[str]:
            return dead_instances(conn, now_of(conn, at_ms), int(self._intervals.dead_after_s * 1000), own=own)

        # After a clock was set forward every process seems dead, until its next heartbeat.
        self._suspects = {each: self._suspects.get(each, now) for each in await self._store.read(find)}
        dead = [each for each, since in self._suspects.items() if now - since >= 2 * self._intervals.heartbeat_s]
        await settle_dead_instances(self._store, dead)
        await self._accounting.correct()


async def heartbeat(store: Store, node: Node, dead_after_s: float) -> None:
    """Writes the heartbeat, and counts the living processes. Raises `StoreUnavailable`."""
    at_ms = now_ms()

    def write(conn: Connection) -> int:
        now_by_all = now_of(conn, at_ms)
        write_heartbeat(conn, node.instance, node.name, now_by_all)
        return count_alive(conn, now_by_all, int(dead_after_s * 1000))

    node.peers = max(1, await store.write(write))


async def settle_dead_instances(store: Store, instances: list[str]) -> None:
    """Settles what dead processes left open. Raises `StoreUnavailable`."""
    count = 0
    while instances:
        settled = await store.write(lambda conn: settle_orphans(conn, instances, now_ms(), orphan))
        count += settled
        if not settled:
            break
    if count:
        logger.warning("orphaned requests settled", count=count)


def orphan(request: OpenRequest, _: int) -> Settle:
    """By the remaining evidence: the prompt, and the part of the answer that was delivered."""
    usage = Usage(input_uncached=request.prompt_tokens, output=request.output_tokens)
    try:
        quote = decode_quote(request.prices)
    except DecodeError:  # written by another version in another format: settled without a price
        quote = Quote("", {})
    charge = charge_of(quote, request.target, usage)
    if request.target is None:  # nothing is known of an attempt: as much as the prompt can cost, without searches
        charge = Charge(None, structs.replace(quote, searches=0).hold(usage.prompt_tokens, 0))
    charge = by_rule(charge, quote, "cut", usage)
    row = row_of_open(
        request,
        Verdict.ORPHANED,
        status=0,
        duration_ms=max(0, (request.progress_ms or request.at_ms) - request.at_ms),
        ttft_ms=max(0, request.first_ms - request.at_ms) if request.first_ms is not None else None,
        target=request.target,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        usage_source=UsageSource.ESTIMATE.value,
        held=request.held,
        cost=charge.cost,
        price=charge.price,
        charge_rule=charge.rule,
        rates=charge.rates_text,
        cost_rates=charge.cost_rates_text,
        price_version=quote.version or None,
    )
    return Settle(row=row, account=request.account, accounts=accounts_in(request.accounts), has_price=True)
