"""Creates a Checkout session at Stripe for a payment, over the gateway's own HTTP client.

Only the operator's file says where it connects and with which key. The payment's id is the reference that the events
about the session repeat, and the key of Stripe's own idempotency: one payment has one session. An answer that cannot be
used is an error without its text: it may quote the key.
"""

import asyncio
from collections.abc import Mapping
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from streamweir.config.model import Payments
from streamweir.core.errors import StreamweirError, UpstreamError
from streamweir.policy.payment import CENT, CURRENCY
from streamweir.providers.base import UpstreamRequest
from streamweir.server.telemetry.log import logger
from streamweir.store.keys.payments import Payment
from streamweir.upstream.base import Endpoint
from streamweir.upstream.http1 import Http1Upstream
from streamweir.wire import jsonio

TIMEOUT_S = 20.0
_MAX_ANSWER_BYTES = 256 * 1024
_MAX_ID_LENGTH = 255
_MAX_URL_LENGTH = 4096
_PATH = "/v1/checkout/sessions"


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
    upstream = Http1Upstream(Endpoint(base_url=settings.api_url, max_connections=1))
    receiver = _Answer()
    try:
        async with asyncio.timeout(TIMEOUT_S):
            call = await upstream.open(UpstreamRequest(path=_PATH, headers=headers, body=body), receiver)
            try:
                await receiver.whole
            finally:
                call.abort()
    except TimeoutError:
        raise _failed("it did not answer in time") from None
    except StreamweirError as error:
        raise _failed(error.code) from None
    finally:
        await upstream.close()
    return _session_in(receiver)


def _session_in(answer: "_Answer") -> CheckoutSession:
    if answer.status != 200:
        raise _failed(f"status {answer.status}")
    try:
        document = jsonio.decode(bytes(answer.body))
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


class _Answer:
    """A small answer. See `upstream.base.Receiver`."""

    def __init__(self) -> None:
        self.status = 0
        self.body = bytearray()
        self.whole: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def head_received(self, status: int, _headers: Mapping[str, str], /) -> None:
        self.status = status

    def body_received(self, data: bytes, /) -> None:
        if len(self.body) + len(data) <= _MAX_ANSWER_BYTES:
            self.body += data
        elif not self.whole.done():
            self.body.clear()
            self.whole.set_result(None)

    def body_ended(self) -> None:
        if not self.whole.done():
            self.whole.set_result(None)

    def call_failed(self, error: StreamweirError, /) -> None:
        if not self.whole.done():
            self.whole.set_exception(error)
