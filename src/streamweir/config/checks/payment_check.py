"""Checks of `[payments]`: it needs a database, and pages to return to if the gateway opens sessions itself. Pure."""

from collections.abc import Iterator
from decimal import Decimal

from streamweir.config.address import fault_of_url
from streamweir.config.error import ConfigProblem
from streamweir.config.model import Config

MIN_SECRET_LENGTH = 16
_CENT = Decimal("0.01")


def check_payments(config: Config) -> Iterator[ConfigProblem]:
    payments = config.payments
    if payments is None:
        return
    if config.store.is_none:
        yield ConfigProblem("payments", 'needs a database: set store.url to something other than "none"')
    if len(payments.webhook_secret) < MIN_SECRET_LENGTH:
        reason = f"is too short for a signing secret: it has at least {MIN_SECRET_LENGTH} characters"
        yield ConfigProblem("payments.webhook_secret", reason)
    if payments.min_usd > payments.max_usd:
        yield ConfigProblem("payments.min_usd", "is above max_usd")
    for name in ("min_usd", "max_usd"):
        if Decimal(repr(getattr(payments, name))) % _CENT:
            yield ConfigProblem(f"payments.{name}", "must be whole cents, as every payment is")
    fault = fault_of_url(payments.api_url, ("https", "http"))
    if fault is not None:
        yield ConfigProblem("payments.api_url", fault)
    for name in ("success_url", "cancel_url"):
        url: str | None = getattr(payments, name)
        if url is None:
            if payments.secret_key:
                yield ConfigProblem(f"payments.{name}", "is needed with secret_key: the page that the payer returns to")
        elif (fault := fault_of_url(url, ("https", "http"))) is not None:
            yield ConfigProblem(f"payments.{name}", fault)
