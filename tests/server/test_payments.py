"""Top-up by payment, on both databases: a payment is asked for over the API, and credited when Stripe reports it.

Events are signed by Stripe's own library and sent to a gateway on a real socket; Stripe's API is a scripted upstream.
Whatever is not a genuine report of the very payment that was asked for gives no credit.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from msgspec import structs
from sqlalchemy import select
from stripe import WebhookSignature

from streamweir.policy.limits.budget import NANO
from streamweir.server.control import checkout
from streamweir.server.control.payment_events import payment_routes
from streamweir.store.db.clock import now_ms
from streamweir.store.db.tables import audit, ledger, payment_events
from streamweir.store.keys import payments
from streamweir.store.keys.audit import verify
from streamweir.store.keys.payments import MAX_OPEN, Payment, create_payment
from support.accounting_gateway import AccountingSetup, error_of
from support.answers import openai_whole
from support.api import TOML, api_on, app_of, bearer
from support.flaky_store import FlakyStore
from support.gateway import gateway, gateway_to, providers
from support.program_deadlines import LONG_INTERVALS
from support.raw_client import Reply
from support.script import Hang, Script, Step, stream, whole
from support.scripted_upstream import ScriptedUpstream
from support.stores import migrated_url, one_database

SECRET = "whsec_0123456789abcdef0123456789abcdef"  # noqa: S105 (of no use anywhere)
PAYMENTS = f'[payments]\nwebhook_secret = "{SECRET}"\n'
PATH = "/payments/stripe"
AMOUNT = 25 * NANO
API_SECRET = TOML.partition('webhook_secret = "')[2].partition('"')[0]
_numbers = count(1)


@asynccontextmanager
async def receiving(database: str, folder: Path) -> AsyncIterator[AccountingSetup]:
    url = await migrated_url(database, folder)
    async with ScriptedUpstream(whole(openai_whole())) as up:
        config = f'{providers(up=up.base_url)}[store]\nurl = "{url}"\n{PAYMENTS}'
        async with gateway(config, data_dir=folder, intervals=LONG_INTERVALS) as gate:
            yield AccountingSetup(gate, up)
            await gate.vacated()


async def asked(setup: AccountingSetup, session_id: str | None = None) -> Payment:
    """A payment for the workspace `default`."""

    def work(conn: Any) -> Payment:
        payment = create_payment(conn, "default", AMOUNT, actor="test", at_ms=now_ms())
        return payments.set_session(conn, payment.id, session_id) if session_id is not None else payment

    return await setup.write(work)


def event(reference: str | None, kind: str = "checkout.session.completed", **session: Any) -> str:
    """As Stripe writes it: with many members that are not read."""
    shown = {
        "id": "cs_test_1",
        "object": "checkout.session",
        "amount_subtotal": 2500,
        "amount_total": 2500,
        "client_reference_id": reference,
        "currency": "usd",
        "customer_details": {"email": "payer@example.test", "name": "Päyer"},
        "livemode": False,
        "mode": "payment",
        "payment_status": "paid",
        "status": "complete",
        **session,
    }
    head = {
        "id": f"evt_{next(_numbers)}",
        "object": "event",
        "api_version": "2026-10-01",
        "livemode": False,
    }
    return json.dumps({**head, "type": kind, "data": {"object": shown}}, indent=2, ensure_ascii=False)


async def post(setup: AccountingSetup, body: str | bytes, header: str | None, path: str = PATH) -> Reply:
    sent = body.encode() if isinstance(body, str) else body
    lines = [f"POST {path} HTTP/1.1", "host: gateway", "content-type: application/json; charset=utf-8"]
    lines += [f"content-length: {len(sent)}", *([f"stripe-signature: {header}"] if header is not None else [])]
    async with await setup.gate.connect() as client:
        await client.send("\r\n".join([*lines, "", ""]).encode() + sent)
        return await client.response()


async def report(setup: AccountingSetup, body: str) -> tuple[int, str | None]:
    """The status, and what became of a genuine report."""
    reply = await post(setup, body, WebhookSignature.generate_signature_header(body, SECRET))
    return reply.status, json.loads(reply.body).get("result")


async def credits_of(setup: AccountingSetup) -> list[tuple[int, str | None]]:
    """Amount and note of every credit."""
    statement = select(ledger.c.amount, ledger.c.note).where(ledger.c.kind == "credit")
    return await setup.read(lambda conn: [(amount, note) for amount, note in conn.execute(statement)])


async def actions(setup: AccountingSetup) -> list[tuple[str, str]]:
    """Who has done what with payments and credit."""
    statement = select(audit.c.actor, audit.c.action).order_by(audit.c.seq)
    found = await setup.read(lambda conn: [(actor, action) for actor, action in conn.execute(statement)])
    assert await setup.read(verify) is None
    return [each for each in found if each[1].startswith(("payment.", "credit."))]


@one_database
async def test_a_paid_session_gives_credit_once(database: str, tmp_path: Path) -> None:
    async with receiving(database, tmp_path) as setup:
        payment = await asked(setup, "cs_test_1")
        body = event(payment.id)
        assert await report(setup, body) == (200, "credited")
        assert await credits_of(setup) == [(AMOUNT, f"payment {payment.id}")]
        workspace = next(iter(setup.storage.accounting.directory._workspaces.values()))
        assert workspace.granted == AMOUNT, "it can be spent at once"
        assert await report(setup, body) == (200, "credited"), "the same event again"
        assert await report(setup, event(payment.id)) == (200, "ignored"), "another event about the same session"
        assert await report(setup, event(payment.id, "checkout.session.expired")) == (200, "ignored")
        assert len(await credits_of(setup)) == 1
        found = await setup.read(lambda conn: payments.find_payment(conn, payment.id))
        assert (found.status, found.session_id, found.paid_ms is not None) == ("paid", "cs_test_1", True)
        expected = [("test", "payment.create"), ("stripe", "credit.add"), ("stripe", "payment.credit")]
        assert await actions(setup) == expected
        await setup.assert_sound()


@one_database
async def test_one_event_that_arrives_often_at_once_has_one_effect(database: str, tmp_path: Path) -> None:
    async with receiving(database, tmp_path) as setup:
        payment = await asked(setup)
        body, other = event(payment.id), event(payment.id, "checkout.session.async_payment_succeeded")
        results = await asyncio.gather(*(report(setup, each) for each in (body, other) * 8))
        assert {status for status, _ in results} == {200}
        assert len(await credits_of(setup)) == 1
        kept = await setup.read(lambda conn: sorted(conn.scalars(select(payment_events.c.result))))
        assert kept == ["credited", "ignored"]
        await setup.assert_sound()


@one_database
@pytest.mark.parametrize(
    "change",
    [{"amount_total": 2499}, {"amount_total": 2501}, {"currency": "jpy"}, {"id": "cs_other"}, {"amount_total": None}],
    ids=str,
)
async def test_what_contradicts_the_payment_gives_nothing(
    database: str, tmp_path: Path, change: dict[str, Any]
) -> None:
    async with receiving(database, tmp_path) as setup:
        payment = await asked(setup, "cs_test_1")
        body = event(payment.id, **change)
        for _ in range(2):
            assert await report(setup, body) == (409, None)
        assert await credits_of(setup) == []
        assert await actions(setup) == [("test", "payment.create"), ("stripe", "payment.refuse")]
        assert await report(setup, event(payment.id)) == (200, "credited"), "the real one still counts"


async def test_a_second_payment_under_one_id_is_not_credited(tmp_path: Path) -> None:
    """A link that is paid twice: the operator has to pay the second one back."""
    async with receiving("sqlite", tmp_path) as setup:
        payment = await asked(setup)
        assert await report(setup, event(payment.id)) == (200, "credited")
        second = event(payment.id)
        assert await report(setup, second.replace("cs_test_1", "cs_test_2")) == (409, None)
        assert len(await credits_of(setup)) == 1
        assert ("stripe", "payment.refuse") in await actions(setup)


async def test_what_is_of_no_interest_is_answered_and_has_no_effect(tmp_path: Path) -> None:
    async with receiving("sqlite", tmp_path) as setup:
        payment = await asked(setup)
        for body in (
            event(payment.id, "payment_intent.succeeded"),
            event(payment.id, "charge.refunded"),
            event(payment.id, payment_status="unpaid"),
            event("pay_of_somebody_else"),
            event(None),
            event("x\u0000y"),
        ):
            assert await report(setup, body) == (200, "ignored")
        assert await credits_of(setup) == []
        assert await report(setup, event(payment.id, "checkout.session.expired")) == (200, "expired")
        found = await setup.read(lambda conn: payments.find_payment(conn, payment.id))
        assert found.status == "expired"
        late = event(payment.id, "checkout.session.async_payment_succeeded")
        assert await report(setup, late) == (200, "credited"), "it was paid after all, by another session of the link"


async def test_only_genuine_reports_are_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with receiving("sqlite", tmp_path) as setup:
        payment = await asked(setup)
        body = event(payment.id)
        now = now_ms() // 1000
        sign = WebhookSignature.generate_signature_header
        for header in (
            None,
            "",
            "t=1,v1=" + "0" * 64,
            sign(body, SECRET + "0"),
            sign(body, SECRET, now - 400),
            sign(body, SECRET, now + 400),
            sign(body + " ", SECRET),
        ):
            reply = await post(setup, body, header)
            assert (reply.status, error_of(reply)["param"]) == (400, "stripe-signature")
            assert SECRET.encode() not in reply.body
        for sent in ("[]", "no JSON", '{"id": "evt_1"}'):
            assert (await post(setup, sent, sign(sent, SECRET))).status == 400
        large = event(payment.id, note="x" * 300_000)
        assert (await post(setup, large, sign(large, SECRET))).status == 413
        assert await credits_of(setup) == []
        assert (await post(setup, body, sign(body, SECRET))).status == 200
        assert SECRET not in caplog.text
        async with await setup.gate.connect() as client:
            await client.send(f"GET {PATH} HTTP/1.1\r\nhost: gateway\r\n\r\n".encode())
            assert (await client.response()).status == 405


@one_database
async def test_a_report_that_was_not_answered_comes_again(database: str, tmp_path: Path) -> None:
    """The answer of the database is lost before the credit, and after it: there is one credit in the end."""
    async with api_on(database, tmp_path) as api:
        flaky = FlakyStore(api.storage.store)
        context = structs.replace(api.context, store=flaky)
        await api.serve(app_of(context, *payment_routes(context)))
        made = await api.ask("POST", "/api/payments", body={"workspace": "one", "amount_usd": "25"}, **api.operator)
        body = event(made.json()["id"])
        header = WebhookSignature.generate_signature_header(body, API_SECRET, api.clock.at_ms // 1000)

        async def send() -> int:
            return (await api.ask("POST", PATH, raw=body.encode(), headers={"stripe-signature": header})).status_code

        flaky.lost_before = 1
        assert await send() == 503
        flaky.lost_after = 1
        assert await send() == 503
        assert await send() == 200
        (balance,) = (await api.ask("GET", "/api/credits", **bearer(api.one.admin.secret))).json()["data"]
        assert balance["granted_usd"] == "30", "5 were granted before"


async def test_without_the_setting_there_is_no_endpoint() -> None:
    async with gateway_to(whole(openai_whole())) as (gate, _), await gate.connect() as client:
        await client.send(f"POST {PATH} HTTP/1.1\r\nhost: gateway\r\ncontent-length: 2\r\n\r\n{{}}".encode())
        assert (await client.response()).status == 404


STRIPE_KEY = "sk_test_0123456789abcdef"


def checkout_toml(url: str) -> str:
    pages = 'success_url = "https://shop.example.test/ok"\ncancel_url = "https://shop.example.test/no"\n'
    return TOML + f'secret_key = "{STRIPE_KEY}"\napi_url = "{url}"\nmax_usd = 100\n' + pages


@asynccontextmanager
async def stripe(script: Script) -> AsyncIterator[tuple[ScriptedUpstream, str]]:
    async with ScriptedUpstream(script) as up:
        yield up, up.base_url.removesuffix("/v1")


@one_database
async def test_a_payment_is_asked_for_at_stripe(database: str, tmp_path: Path) -> None:
    session = {"id": "cs_test_a1", "object": "checkout.session", "url": "https://checkout.stripe.test/c/pay/cs_test_a1"}
    async with (
        stripe(whole(json.dumps(session).encode())) as (up, url),
        api_on(database, tmp_path, checkout_toml(url)) as api,
    ):
        admin = bearer(api.one.admin.secret)
        body = {"workspace": "one", "amount_usd": "12.34"}
        reply = await api.ask("POST", "/api/payments", body=body, **admin)
        assert reply.status_code == 201, reply.text
        made = reply.json()
        assert made == {
            "id": made["id"],
            "workspace": api.one.workspace.id,
            "amount_usd": "12.34",
            "status": "open",
            "session_id": "cs_test_a1",
            "created_ms": api.clock.at_ms,
            "paid_ms": None,
            "url": session["url"],
        }
        (seen,) = up.requests
        assert seen.path == "/v1/checkout/sessions"
        assert (seen.headers["authorization"], seen.headers["idempotency-key"]) == (f"Bearer {STRIPE_KEY}", made["id"])
        assert parse_qs(seen.body.decode(), strict_parsing=True) == {
            "mode": ["payment"],
            "client_reference_id": [made["id"]],
            "success_url": ["https://shop.example.test/ok"],
            "cancel_url": ["https://shop.example.test/no"],
            "line_items[0][quantity]": ["1"],
            "line_items[0][price_data][currency]": ["usd"],
            "line_items[0][price_data][unit_amount]": ["1234"],
            "line_items[0][price_data][product_data][name]": ["Credit for one"],
        }
        shown = (await api.ask("GET", "/api/payments", **admin)).json()
        del made["url"]
        assert shown == {"data": [made], "next": None}
        assert (await api.ask("GET", "/api/payments", **bearer(api.two.admin.secret))).json()["data"] == []


async def test_payments_are_listed_in_pages(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        made = []
        for workspace in ("one", "two", "one"):
            api.clock.at_ms += 1
            body = {"workspace": workspace, "amount_usd": 5}
            reply = await api.ask("POST", "/api/payments", body=body, **api.operator)
            assert (reply.status_code, reply.json()["url"]) == (201, None), "the id is the reference to pay under"
            made.append(reply.json()["id"])
        first = (await api.ask("GET", "/api/payments", params={"limit": 2}, **api.operator)).json()
        rest = (await api.ask("GET", "/api/payments", params={"cursor": first["next"]}, **api.operator)).json()
        assert [each["id"] for each in first["data"] + rest["data"]] == made[::-1]
        assert rest["next"] is None


@pytest.mark.parametrize("amount", ["0", "-5", "0.5", "100.01", "5.001", "1e30", "five"])
async def test_amounts_are_whole_cents_within_bounds(amount: str, tmp_path: Path) -> None:
    async with stripe(whole(b"{}")) as (up, url), api_on("sqlite", tmp_path, checkout_toml(url)) as api:
        body = {"workspace": "one", "amount_usd": amount}
        reply = await api.ask("POST", "/api/payments", body=body, **api.operator)
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, "amount_usd")
        assert up.requests == []


FAILURES: dict[str, list[Step]] = {
    "refused": whole(b'{"error": {"message": "Invalid API Key provided: sk_test_0123456789abcdef"}}', 401),
    "no JSON": whole(b"<html>"),
    "no session": whole(b'{"id": "cs_1"}'),
    "a page that is none": whole(b'{"id": "cs_1", "url": "javascript:alert(1)"}'),
    "too much": whole(b" " * 300_000),
    "cut": stream(b""),
    "hanging": [Hang()],
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_payment_that_cannot_be_opened_is_given_up(
    failure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if failure == "hanging":
        monkeypatch.setattr(checkout, "TIMEOUT_S", 0.2)
    async with stripe(FAILURES[failure]) as (_, url), api_on("sqlite", tmp_path, checkout_toml(url)) as api:
        body = {"workspace": "one", "amount_usd": "5"}
        reply = await api.ask("POST", "/api/payments", body=body, **api.operator)
        assert reply.status_code == 502
        assert STRIPE_KEY not in reply.text
        (payment,) = (await api.ask("GET", "/api/payments", **api.operator)).json()["data"]
        assert payment["status"] == "expired"


async def test_open_payments_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_OPEN == 1000
    monkeypatch.setattr(payments, "MAX_OPEN", 2)
    async with api_on("sqlite", tmp_path) as api:
        body = {"workspace": "one", "amount_usd": "5"}
        statuses = [(await api.ask("POST", "/api/payments", body=body, **api.operator)).status_code for _ in range(3)]
        assert statuses == [201, 201, 409]


async def test_without_the_setting_none_can_be_asked_for(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path, TOML.partition("[payments]")[0]) as api:
        body = {"workspace": "one", "amount_usd": "5"}
        reply = await api.ask("POST", "/api/payments", body=body, **api.operator)
        assert (reply.status_code, reply.json()["error"]["code"]) == (409, "conflict")
