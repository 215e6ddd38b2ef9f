"""Which reports of a payment provider are genuine, and what they say. Signatures are made by Stripe's own library."""

import json
from typing import Any

import pytest
from stripe import WebhookSignature

from streamweir.policy.billing.payment import (
    MAX_HEADER_LENGTH,
    MAX_SIGNATURES,
    Effect,
    fault_of_signature,
    read_report,
)

SECRET = "whsec_0123456789abcdef0123456789abcdef"  # noqa: S105 (of no use anywhere)
NOW = 1_794_900_000
BODY = '{"id": "evt_1", "object": "event", "type": "checkout.session.completed", "note": "wört"}'


def signed(body: str = BODY, secret: str = SECRET, at: int = NOW) -> str:
    header: str = WebhookSignature.generate_signature_header(body, secret, at)
    return header


def fault(header: str, body: str = BODY, *, now: float = NOW, tolerance: float = 300, secret: str = SECRET) -> Any:
    return fault_of_signature(header, body.encode(), secret, now, tolerance)


V1 = signed().partition("v1=")[2]
WRONG = "0" * 64


@pytest.mark.parametrize(
    "header",
    [
        signed(),
        f"t={NOW},v1={WRONG},v1={V1}",
        f"t={NOW},v1={V1},v1={WRONG},v0={WRONG}",
        f"v1={V1}, t={NOW}",
        f"t={NOW},x=y,v1={V1}",
    ],
    ids=["as it is sent", "with that of an older secret", "and of an older scheme", "in another order", "with more"],
)
def test_a_genuine_report(header: str) -> None:
    assert fault(header) is None
    assert WebhookSignature.verify_header(BODY, header.replace(" ", ""), SECRET), "as the library itself says"


@pytest.mark.parametrize(
    "header",
    [
        "",
        "nonsense",
        f"t={NOW}",
        f"v1={V1}",
        f"t={NOW},v0={V1}",
        f"t={NOW},v1={WRONG}",
        f"t={NOW},v1=",
        f"t={NOW},v1={V1[:-1]}",
        f"t={NOW},v1={V1}0",
        f"t={NOW},v1={V1.upper()}",
        f"t={NOW + 1},v1={V1}",
        f"t=-{NOW},v1={V1}",
        f"t={NOW}.0,v1={V1}",
        f"t=,v1={V1}",
        f"t={NOW},t={NOW},v1={V1}",
        f"t={NOW},v1=\u00e9{V1}",
        signed(secret=SECRET + "x"),
        signed(BODY + " "),
        f"t={NOW}," + ",".join([f"v1={V1}"] * (MAX_SIGNATURES + 1)),
        f"t={NOW},v1={V1},x=" + "y" * MAX_HEADER_LENGTH,
    ],
)
def test_anything_else_is_not(header: str) -> None:
    assert fault(header) is not None


def test_a_signature_is_of_this_body_and_this_secret() -> None:
    assert fault(signed(), BODY + "\n") is not None
    assert fault(signed(), secret=SECRET[:-1]) is not None
    assert fault(signed(secret=""), secret="") is not None, "without a secret nothing is genuine"


@pytest.mark.parametrize(("age", "is_fresh"), [(0, True), (300, True), (301, False), (-300, True), (-301, False)])
def test_an_old_signature_cannot_be_replayed(age: int, is_fresh: bool) -> None:
    assert (fault(signed(at=NOW - age)) is None) == is_fresh


def event(kind: str, **session: Any) -> bytes:
    paid = {"id": "cs_1", "object": "checkout.session", "client_reference_id": "pay_1", "payment_status": "paid"}
    whole = {**paid, "amount_total": 2500, "currency": "usd", **session}
    return json.dumps({"id": "evt_1", "object": "event", "type": kind, "data": {"object": whole}}).encode()


@pytest.mark.parametrize(
    ("body", "effect"),
    [
        (event("checkout.session.completed"), Effect.PAID),
        (event("checkout.session.async_payment_succeeded"), Effect.PAID),
        (event("checkout.session.completed", payment_status="unpaid"), Effect.NONE),
        (event("checkout.session.completed", payment_status="no_payment_required"), Effect.NONE),
        (event("checkout.session.completed", payment_status=None), Effect.NONE),
        (event("checkout.session.async_payment_failed", payment_status="unpaid"), Effect.FAILED),
        (event("checkout.session.expired", payment_status="unpaid"), Effect.FAILED),
        (event("payment_intent.succeeded"), Effect.NONE),
        (b'{"id": "evt_2", "type": "anything.new", "data": 5}', Effect.NONE),
    ],
)
def test_what_a_report_says(body: bytes, effect: Effect) -> None:
    assert read_report(body).effect is effect


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"id": "", "type": "x"}',
        b'{"id": 1, "type": "x"}',
        b'{"id": "evt_1", "type": "checkout.session.completed"}',
        event("checkout.session.completed", amount_total="2500"),
        event("checkout.session.completed", amount_total=2500.5),
        event("checkout.session.completed", id=""),
        b"[" * 100_000,
    ],
)
def test_what_is_not_an_event(body: bytes) -> None:
    with pytest.raises(ValueError, match="not an event"):
        read_report(body)


@pytest.mark.parametrize(
    ("session", "amount", "session_id", "agrees"),
    [
        ({}, 25 * 10**9, "cs_1", True),
        ({}, 25 * 10**9, None, True),
        ({}, 25 * 10**9, "cs_2", False),
        ({"amount_total": 2499}, 25 * 10**9, "cs_1", False),
        ({"amount_total": None}, 25 * 10**9, "cs_1", False),
        ({"currency": "eur"}, 25 * 10**9, "cs_1", False),
        ({"currency": None}, 25 * 10**9, "cs_1", False),
    ],
)
def test_it_must_agree_with_what_was_asked_for(
    session: dict[str, Any], amount: int, session_id: str | None, agrees: bool
) -> None:
    report = read_report(event("checkout.session.completed", **session))
    assert (report.contradiction(amount, session_id) is None) == agrees
