"""Sends what is in the outbox: in order for each webhook, all webhooks side by side, in the process with the lease.

    claim (an attempt is counted) -> POST -> delivered, or due again later, or given up

A receiver that hangs or fails delays only its own alerts. An alert is sent at least once: if this process dies, or
cannot write that it was delivered, it is sent again with the same id.
"""

import asyncio
import time
from collections.abc import Callable, Mapping

from sqlalchemy import Connection

from streamweir.config.model import Webhook
from streamweir.policy.alert import is_given_up, retry_s
from streamweir.server.accounting.intervals import Intervals
from streamweir.server.alerts.counts import AlertCounts
from streamweir.server.alerts.webhook import Outcome, WebhookClient
from streamweir.server.telemetry.log import logger
from streamweir.store.alerts.outbox import Backlog, Delivery, backlogs, claim, mark_delivered, mark_failed
from streamweir.store.db.base import Store, StoreUnavailable
from streamweir.store.db.clock import now_ms
from streamweir.store.requests.instances import now_of


class AlertSender:
    def __init__(
        self,
        store: Store,
        instance: str,
        webhooks: Callable[[], Mapping[str, Webhook]],
        counts: AlertCounts,
        intervals: Intervals,
    ) -> None:
        """`webhooks`: of the current configuration, by name."""
        self._store = store
        self._instance = instance
        self._webhooks = webhooks
        self._counts = counts
        self._intervals = intervals
        self._clients: dict[str, WebhookClient] = {}
        self._sending: set[str] = set()
        self._wake = asyncio.Event()
        self.has_lease = False
        """Set by the process's checks. Every claim makes sure."""

    def wake(self) -> None:
        """There may be something to send."""
        self._wake.set()

    async def run(self) -> None:
        """Runs as a task."""
        async with asyncio.TaskGroup() as group:
            while True:
                wait_s = self._intervals.alert_check_s
                if self.has_lease:
                    wait_s = await self._start_due(group)
                self._wake.clear()
                try:
                    async with asyncio.timeout(wait_s):
                        await self._wake.wait()
                except TimeoutError:
                    continue

    async def send_directly(self, name: str, id: str, body: str) -> bool:
        """Without the outbox. Whether it was delivered."""
        webhook = self._webhooks().get(name)
        if webhook is None:
            return False
        outcome = await self._send(webhook, id, body)
        self._counts.attempts[name, "delivered" if outcome.is_delivered else "failed"] += 1
        return outcome.is_delivered

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()
        self._clients.clear()

    async def _start_due(self, group: asyncio.TaskGroup) -> float:
        """Starts to send what is due. Returns the time until something else is."""
        longest_s = self._intervals.alert_check_s

        def read(conn: Connection) -> tuple[int, list[Backlog]]:
            return now_of(conn, now_ms()), backlogs(conn)

        try:
            at_ms, found = await self._store.read(read)
        except StoreUnavailable:
            return longest_s
        self._counts.backlogs, self._counts.read_ms = found, at_ms
        webhooks = self._webhooks()
        for each in found:
            webhook = webhooks.get(each.webhook)
            if webhook is None or each.webhook in self._sending:
                continue
            if each.next_ms > at_ms:
                longest_s = min(longest_s, (each.next_ms - at_ms) / 1000)
            else:
                self._sending.add(each.webhook)
                group.create_task(self._deliver_all(each.webhook))
        return longest_s

    async def _deliver_all(self, name: str) -> None:
        """Until nothing is due, or an attempt fails. A reload meanwhile may have changed or removed the webhook."""
        is_failed = False
        try:
            while not is_failed and (webhook := self._webhooks().get(name)) is not None:
                delivery = await self._claim(webhook)
                if delivery is None:
                    return
                outcome = await self._send(webhook, delivery.id, delivery.body)
                is_failed = not await self._record(delivery, outcome)
        except StoreUnavailable:
            return  # the outbox still has it: it is sent again, with the same id
        finally:
            self._sending.discard(name)
        self._wake.set()  # another attempt is due sooner than the next look

    async def _claim(self, webhook: Webhook) -> Delivery | None:
        lease_ms = int(self._intervals.alert_lease_s * 1000)
        again_ms = int((webhook.timeout_s + self._intervals.alert_lease_s) * 1000)

        def work(conn: Connection) -> Delivery | None:
            at_ms = now_of(conn, now_ms())
            return claim(conn, webhook.name, self._instance, at_ms, lease_ms=lease_ms, again_ms=again_ms)

        return await self._store.write(work)

    async def _send(self, webhook: Webhook, id: str, body: str) -> Outcome:
        client = self._clients.get(webhook.name)
        if client is None or client.webhook != webhook:
            if client is not None:
                await client.close()
            try:
                client = self._clients[webhook.name] = WebhookClient(webhook, time.time)
            except ValueError as reason:
                self._clients.pop(webhook.name, None)
                return Outcome(error=str(reason))
        return await client.send(id, body)

    async def _record(self, delivery: Delivery, outcome: Outcome) -> bool:
        """False: the same alert is sent again later."""
        name = delivery.webhook
        if outcome.is_delivered:
            self._counts.attempts[name, "delivered"] += 1
            await self._store.write(lambda conn: mark_delivered(conn, delivery, now_of(conn, now_ms())))
            return True
        wait_s = retry_s(delivery.attempts, outcome.retry_after_s) * self._intervals.alert_retry_s

        def work(conn: Connection) -> bool:
            at_ms = now_of(conn, now_ms())
            gives_up = is_given_up((at_ms - delivery.at_ms) / 1000, outcome.status)
            next_ms, given_up_ms = at_ms + int(wait_s * 1000), at_ms if gives_up else None
            mark_failed(conn, delivery, outcome.error, next_ms=next_ms, given_up_ms=given_up_ms)
            return gives_up

        gives_up = await self._store.write(work)
        self._counts.attempts[name, "given_up" if gives_up else "failed"] += 1
        if gives_up:
            logger.error("alert given up", webhook=name, alert=delivery.id, reason=outcome.error)
        elif delivery.attempts == 1:
            logger.warning("alert not delivered", webhook=name, alert=delivery.id, reason=outcome.error, retry_s=wait_s)
        return gives_up
