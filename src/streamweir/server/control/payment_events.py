"""`POST /payments/stripe`: where the payment provider reports what became of payments.

Anyone can send something here; only a body with a valid signature is read (`policy.billing.payment`), and only a report
that agrees with a payment that was asked for gives credit (`store.keys.payments`). Everything else changes nothing. The
payment provider repeats a report until it is answered with 200: what has no effect is answered so, too; what
contradicts a payment, and what could not be written, is not.
"""

from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse

from streamweir.core.errors import CallerError
from streamweir.policy.billing.payment import SIGNATURE_HEADER, fault_of_signature, read_report
from streamweir.server.control.api.context import Context
from streamweir.server.control.routing import Access, OpenRoute, body_of, json_response, request_of
from streamweir.server.telemetry.log import logger
from streamweir.store.keys.payments import Applied, Result, apply_report

PATH = "/payments/stripe"
MAX_BODY_BYTES = 256 * 1024
"""The payment provider's events have some kilobytes."""
WARNING_MS = 10_000
"""Between two warnings about reports that are not genuine."""


class _Warnings:
    """Of reports that are not genuine: one in a while, because anyone can send them."""

    def __init__(self) -> None:
        self._last_ms = 0
        self._left_out = 0

    def add(self, reason: str, now_ms: int) -> None:
        if now_ms - self._last_ms < WARNING_MS:
            self._left_out += 1
            return
        logger.warning("payment event refused", reason=reason, left_out=self._left_out)
        self._last_ms, self._left_out = now_ms, 0


def payment_routes(context: Context) -> list[OpenRoute]:
    warnings = _Warnings()

    async def receive(http: HttpRequest) -> HttpResponse:
        settings = context.runtime().config.payments
        if settings is None:
            raise HTTPException(404)
        body = await body_of(http, MAX_BODY_BYTES)
        now_ms = context.clock_ms()
        header = request_of(http.scope).headers.get(SIGNATURE_HEADER, "")
        fault = fault_of_signature(header, body, settings.webhook_secret, now_ms / 1000, settings.tolerance_s)
        if fault is not None:
            warnings.add(fault, now_ms)
            raise CallerError("invalid_value", "The signature of the event is not valid.", param=SIGNATURE_HEADER)
        try:
            report = read_report(body)
        except ValueError:
            warnings.add("it is not an event of the payment provider", now_ms)
            raise CallerError("invalid_value", "The body is not an event of the payment provider.") from None
        applied = await context.change(lambda conn: apply_report(conn, report, now_ms))
        _log(applied, report.event_id)
        if applied.result is Result.REFUSED:
            raise CallerError("conflict", "The event contradicts the payment that it is about.")
        return json_response({"result": applied.result.value})

    return [OpenRoute(PATH, receive, access=Access.ANYONE, method="POST")]


def _log(applied: Applied, event_id: str) -> None:
    if applied.payment_id is None or applied.is_repeated:
        return
    log = logger.warning if applied.result is Result.REFUSED else logger.info
    more = {"reason": applied.reason} if applied.reason else {}
    log("payment reported", result=applied.result.value, payment=applied.payment_id, event_id=event_id, **more)
