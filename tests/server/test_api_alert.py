"""Alerts over the API: who sees which of them, and which deliveries."""

from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from streamweir.policy.alert import Alert
from streamweir.store.alerts.outbox import Delivery, Subscription, append, mark_delivered, mark_failed
from support.api import TOML, Api, Role, api_on, bearer
from support.stores import one_database

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 (of the specification)
HOOKS = "".join(
    f'[[webhooks]]\nname = "{name}"\nurl = "https://hooks.example.test/token-1234567890"\nsecret = "{SECRET}"\n{more}\n'
    for name, more in (("ops", ""), ("own", 'workspace = "one"'))
)
SUBSCRIPTIONS = [Subscription(name="ops"), Subscription(name="own", workspace="one")]


def delivery(webhook: str, seq: int) -> Delivery:
    return Delivery(webhook=webhook, seq=seq, id="", at_ms=0, body="", attempts=1)


async def fetch(api: Api, role: Role, status: int = 200, **params: Any) -> Any:
    reply = await api.ask("GET", "/api/alerts", params=params, **role)
    assert reply.status_code == status, reply.text
    assert "1234567890" not in reply.text
    assert SECRET not in reply.text
    return reply.json()


@one_database
async def test_who_sees_which_alerts_and_deliveries(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path, TOML + HOOKS) as api:
        one, two = api.one.workspace.id, api.two.workspace.id
        found = [("budget.threshold", one), ("budget.threshold", two), ("provider.down", None)]

        def fill(conn: Connection) -> None:
            alerts = [
                Alert(id=f"alert_{number}", kind=kind, at_ms=number, workspace_id=id, data={"number": number})
                for number, (kind, id) in enumerate(found, 1)
            ]
            append(conn, alerts, SUBSCRIPTIONS)
            mark_delivered(conn, delivery("ops", 1), 7)
            mark_failed(conn, delivery("own", 1), "answered 500", next_ms=9, given_up_ms=None)
            mark_failed(conn, delivery("ops", 2), "answered 404", next_ms=9, given_up_ms=8)

        await api.storage.store.write(fill)
        every = await fetch(api, api.operator)
        assert [(each["id"], each["kind"], each["workspace"], each["data"]["number"]) for each in every["data"]] == [
            ("alert_3", "provider.down", None, 3),
            ("alert_2", "budget.threshold", two, 2),
            ("alert_1", "budget.threshold", one, 1),
        ]
        states = [
            [(one["webhook"], one["state"], one["error"]) for one in each["deliveries"]] for each in every["data"]
        ]
        assert states == [
            [("ops", "waiting", None)],
            [("ops", "given_up", "answered 404")],
            [("ops", "delivered", None), ("own", "waiting", "answered 500")],
        ]
        page = await fetch(api, api.operator, limit=1)
        assert (page["data"][0]["id"], page["next"]) == ("alert_3", 3)
        page = await fetch(api, api.operator, limit=1, before=3, kind="budget.threshold")
        assert (page["data"][0]["id"], page["next"]) == ("alert_2", 2)
        admin = bearer(api.one.admin.secret)
        (own,) = (await fetch(api, admin))["data"]
        assert own["id"] == "alert_1"
        assert [each["webhook"] for each in own["deliveries"]] == ["own"], "other webhooks are the operator's"
        await fetch(api, admin, 404, workspace="two")
        await fetch(api, api.operator, 400, kind="no.such")
