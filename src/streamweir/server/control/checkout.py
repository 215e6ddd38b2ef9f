"""Creates a Checkout session at Stripe for a payment, over the gateway's own HTTP client.

Only the operator's file says where it connects and with which key. The payment's id is the reference that the events
about the session repeat, and the key of Stripe's own idempotency: one payment has one session. An answer that cannot be
used is an error without its text: it may quote the key.
"""

from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from streamweir.config.model import Payments
from streamweir.core.errors import StreamweirError, UpstreamError
from streamweir.policy.billing.payment import CENT, CURRENCY
from streamweir.server.telemetry.log import logger
from streamweir.store.keys.payments import Payment
from streamweir.upstream.fetch import Fetched, fetch
from streamweir.wire import jsonio

TIMEOUT_S = 20.0
_MAX_ANSWER_BYTES = 256 * 1024
_MAX_ID_LENGTH = 255
_MAX_URL_LENGTH = 4096
_PATH = "/v1/checkout/sessions"
_REASONS = {"upstream_timeout": "it did not answer in time"}


class CheckoutSession(Struct, frozen=True, kw_only=True):
    id: str
    url: str
    """Where the payer pays."""


async def open_session(settings: Payments, payment: Payment, product: str) -> CheckoutSession:
    """`product`: what the payer reads. Raises `UpstreamError`."""
    body = urlencode(
        {
            "mode": "payment",
            "client_reference_id": payment.id,
            "success_url": settings.success_url or "",
            "cancel_url": settings.cancel_url or "",
            "line_items[0][quantity]": "1",
            "line_items[0][price_data][currency]": CURRENCY,
            "line_items[0][price_data][unit_amount]": str(payment.amount_nano // CENT),
            "line_items[0][price_data][product_data][name]": product,
        }
    ).encode()
    headers = (
        ("content-type", "application/x-www-form-urlencoded"),
        ("authorization", f"Bearer {settings.secret_key}"),
        ("idempotency-key", payment.id),
    )
    try:
        answer = await fetch(
            settings.api_url.rstrip("/") + _PATH,
            method="POST",
            headers=headers,
            body=body,
            timeout_s=TIMEOUT_S,
            max_bytes=_MAX_ANSWER_BYTES,
        )
    except StreamweirError as error:
        raise _failed(_REASONS.get(error.code, error.code)) from None
    return _session_in(answer)


def _session_in(answer: Fetched) -> CheckoutSession:
    if answer.status != 200:
        raise _failed(f"status {answer.status}")
    try:
        document = jsonio.decode(answer.body)
    except jsonio.InvalidJson:
        raise _failed("its answer is not JSON") from None
    id, url = (document.get("id"), document.get("url")) if isinstance(document, dict) else (None, None)
    is_id = isinstance(id, str) and 0 < len(id) <= _MAX_ID_LENGTH
    is_url = isinstance(url, str) and len(url) <= _MAX_URL_LENGTH and urlsplit(url).scheme == "https"
    if not is_id or not is_url:
        raise _failed("its answer is not a session")
    return CheckoutSession(id=str(id), url=str(url))


def _failed(reason: str) -> UpstreamError:
    logger.warning("payment not opened: the payment provider failed", reason=reason)
    return UpstreamError("upstream_bad_response", "The payment provider could not open the payment. Try again later.")
