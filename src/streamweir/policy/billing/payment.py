"""Reports of a payment provider: whether one is genuine, and what it says about a payment that the gateway asked for.

The scheme is Stripe's. The header `stripe-signature` has a time (`t`) and one or more signatures (`v1`: HMAC-SHA256
over the time, a dot and the body, with the endpoint's secret). A report counts only if one of them is right and the
time is near; then it says what has happened to a Checkout session. It is believed only as far as it agrees with what
was asked for: the same session, amount and currency. Everything else has no effect. Pure: the time is an argument.
"""

import hashlib
import hmac
import re
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from streamweir.policy.limits.budget import NANO

SIGNATURE_HEADER = "stripe-signature"
CURRENCY = "usd"
CENT = NANO // 100
"""In nano-dollars."""
MAX_HEADER_LENGTH = 4096
MAX_SIGNATURES = 16
_TIME = re.compile(r"[0-9]{1,12}")
_Text = Annotated[str, Meta(min_length=1, max_length=255)]


OPEN, PAID, EXPIRED = "open", "paid", "expired"
"""What has become of a payment that was asked for."""


class Effect(StrEnum):
    """What a report says about a payment."""

    PAID = "paid"
    FAILED = "failed"
    """It was not paid, and will not be."""
    NONE = "none"
    """Nothing yet, or something that is of no interest here."""


class PaymentReport(Struct, frozen=True, kw_only=True):
    event_id: str
    kind: str
    """As the payment provider names it: `checkout.session.completed`."""
    effect: Effect
    reference: str = ""
    """Our id of the payment, which the payment provider repeats. Empty: the session is not one of ours."""
    session_id: str = ""
    amount_cents: int | None = None
    currency: str = ""

    def contradiction(self, amount_nano: int, session_id: str | None) -> str | None:
        """Why it is not a report about the payment that was asked for. `session_id`: None if none is known."""
        if session_id is not None and session_id != self.session_id:
            return "another session than the one that was made for this payment"
        if self.currency != CURRENCY:
            return "another currency than US dollars"
        if self.amount_cents is None or self.amount_cents * CENT != amount_nano:
            return "another amount than was asked for"
        return None


def fault_of_signature(header: str, body: bytes, secret: str, now_s: float, tolerance_s: float) -> str | None:
    """Why a report is not taken for genuine. None: it is."""
    if not secret:
        return "there is no secret to check it with"
    if not header or len(header) > MAX_HEADER_LENGTH:
        return f"there is no {SIGNATURE_HEADER} that could be read"
    items = [item.strip().partition("=") for item in header.split(",")]
    times = [value for name, _, value in items if name == "t"]
    signatures = [value for name, _, value in items if name == "v1"]
    if len(times) != 1 or _TIME.fullmatch(times[0]) is None:
        return f"{SIGNATURE_HEADER} has no time"
    if not 0 < len(signatures) <= MAX_SIGNATURES:
        return f"{SIGNATURE_HEADER} has no signature of the scheme v1"
    expected = hmac.new(secret.encode(), times[0].encode() + b"." + body, hashlib.sha256).hexdigest().encode()
    # All of them are compared, each in constant time. There are several while a secret is being replaced.
    is_right = [hmac.compare_digest(expected, each.encode("utf-8", "surrogatepass")) for each in signatures]
    if not any(is_right):
        return "the signature is not right"
    if abs(now_s - int(times[0])) > tolerance_s:
        return "the signature is too old, or of the future"
    return None


class _Session(Struct):
    id: _Text
    object: str
    payment_status: str | None = None
    client_reference_id: str | None = None
    amount_total: int | None = None
    currency: str | None = None


class _SessionData(Struct):
    object: _Session


class _SessionEvent(Struct):
    data: _SessionData


class _Event(Struct):
    id: _Text
    type: _Text


_COMPLETED = "checkout.session.completed"
_EFFECTS = {
    _COMPLETED: Effect.PAID,
    "checkout.session.async_payment_succeeded": Effect.PAID,
    "checkout.session.async_payment_failed": Effect.FAILED,
    "checkout.session.expired": Effect.FAILED,
}


def read_report(body: bytes) -> PaymentReport:
    """Of a genuine report. Raises `ValueError` if it is not an event, or not as the payment provider documents it."""
    try:
        event = msgspec.json.decode(body, type=_Event)
        effect = _EFFECTS.get(event.type, Effect.NONE)
        if effect is Effect.NONE:
            return PaymentReport(event_id=event.id, kind=event.type, effect=effect)
        session = msgspec.json.decode(body, type=_SessionEvent).data.object
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as reason:
        raise ValueError("not an event of the payment provider") from reason
    if effect is Effect.PAID and session.payment_status != "paid":
        effect = Effect.NONE  # the money has not arrived yet
    return PaymentReport(
        event_id=event.id,
        kind=event.type,
        effect=effect,
        reference=session.client_reference_id or "",
        session_id=session.id,
        amount_cents=session.amount_total,
        currency=session.currency or "",
    )
