"""Alerts as tests look at them: the service of one process, the webhooks of its file, and what a receiver got.

    async with ScriptedUpstream(whole(b"ok")) as receiver, alerting(store, webhook(receiver)):
        await put(store, 1, 2)
        await all_delivered(store, 2)
        assert ids(receiver) == ["alert_1", "alert_2"]

The signature is verified by the words of the specification, not by the program's own code.
"""

import asyncio
import base64
import hashlib
import hmac
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from msgspec import structs
from sqlalchemy import Connection, update

from streamweir.background import BackgroundTasks
from streamweir.policy.alert import Alert, ProviderSigns
from streamweir.server.accounting.maintenance import Node
from streamweir.server.alerts.alerts import Alerts
from streamweir.store.alerts.outbox import DeliveryRow, Subscription, append, deliveries_of, list_alerts
from streamweir.store.db.base import Store
from streamweir.store.db.clock import now_ms
from streamweir.store.db.tables import alert_deliveries
from support.deadlines import WAIT_TIMEOUT_S
from support.gateway import configured
from support.program_deadlines import LONG_INTERVALS
from support.script import Seen, whole
from support.scripted_upstream import ScriptedUpstream

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
OLD_SECRET = "whsec_" + base64.b64encode(bytes(range(32, 64))).decode()
BRISK = structs.replace(LONG_INTERVALS, alert_check_s=0.01, alert_retry_s=0.0001, tick_s=0.05)
"""Alerts are looked for a hundred times a second."""
OK = whole(b"ok")


def webhook(receiver: ScriptedUpstream, name: str = "ops", more: str = "") -> str:
    url = receiver.base_url.removesuffix("/v1")
    return f'[[webhooks]]\nname = "{name}"\nurl = "{url}/hook?team=a"\nsecret = "{SECRET}"\n{more}\n'


def verified(seen: Seen, secret: str = SECRET) -> dict[str, Any]:
    """The document, if its signature is right: computed here by the words of the specification."""
    headers = seen.headers
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + seen.body
    expected = base64.b64encode(
        hmac.new(base64.b64decode(secret.removeprefix("whsec_")), signed, hashlib.sha256).digest()
    ).decode()
    assert f"v1,{expected}" in headers["webhook-signature"].split(" ")
    assert abs(int(headers["webhook-timestamp"]) - now_ms() / 1000) < 60
    assert (seen.method, headers["content-type"]) == ("POST", "application/json")
    document: dict[str, Any] = seen.json
    assert sorted(document) == ["data", "timestamp", "type"]
    return document


def ids(receiver: ScriptedUpstream) -> list[str]:
    return [seen.headers["webhook-id"] for seen in receiver.requests]


@asynccontextmanager
async def alerting(
    store: Store, *receivers: str, instance: str = "me", run: bool = True, lag: Sequence[float] = (0.0,), **more: float
) -> AsyncIterator[Alerts]:
    """The service alone, as a process has it. `receivers`: TOML. `lag`: one that can be changed."""
    config = configured('[store]\nurl = "sqlite:///x.db"\n' + "".join(receivers))
    background = BackgroundTasks()
    alerts = Alerts(
        store,
        Node(instance=instance, name="node"),
        config=lambda: config,
        rules=lambda: (),
        signs=lambda: {"up": ProviderSigns()},
        lag=lambda: (lag[0], 3),
        intervals=structs.replace(BRISK, **more),
        background=background,
    )
    if run:
        alerts.start()
    try:
        yield alerts
    finally:
        await alerts.stop()
    assert sum(background.ends.values()) == 0


def an_alert(number: int, kind: str = "provider.down") -> Alert:
    return Alert(id=f"alert_{number}", kind=kind, at_ms=now_ms(), workspace_id=None, data={"number": number})


async def put(store: Store, *numbers: int, to: Sequence[str] = ("ops",)) -> None:
    found, subscriptions = [an_alert(number) for number in numbers], [Subscription(name=name) for name in to]
    await store.write(lambda conn: append(conn, found, subscriptions))


async def deliveries(store: Store) -> list[DeliveryRow]:
    """Of all alerts, in order."""

    def read(conn: Connection) -> list[DeliveryRow]:
        seqs = sorted(row.seq for row in list_alerts(conn, limit=1000))
        return [each for every in deliveries_of(conn, seqs).values() for each in every]

    return await store.read(read)


async def all_delivered(store: Store, count: int) -> list[DeliveryRow]:
    async with asyncio.timeout(WAIT_TIMEOUT_S):
        while True:
            rows = await deliveries(store)
            if sum(row.delivered_ms is not None for row in rows) >= count:
                return rows
            await asyncio.sleep(0.005)


def make_due(conn: Connection) -> None:
    """As if enough time had passed."""
    conn.execute(update(alert_deliveries).values(next_ms=0))
