"""Adds to the record of a request what it costs and what is charged for it, when it is settled.

The amounts are computed by the quote of its reservation (`policy.pricing.charge`), for the target of its last attempt.
"""

from streamweir.policy.pricing.charge import by_rule, charge_of
from streamweir.policy.pricing.charge_rule import case_of
from streamweir.server.accounting.reservation import Reservation
from streamweir.server.telemetry.record import RequestRecord


def charge(reservation: Reservation, record: RequestRecord) -> None:
    # A dropped `service_tier` was not used. Else the requested one was, unless the provider reported another.
    if record.service_tier is None and "service_tier" not in record.dropped:
        record.service_tier = reservation.request.service_tier
    quote, usage = reservation.request.quote, record.usage
    last = record.attempts[-1] if record.attempts else None
    target, credential = (last.target, last.credential) if last is not None else (None, "")
    found = charge_of(quote, target, usage, record.service_tier, credential)
    case = case_of(record.verdict, record.ttft_s is not None)
    if case is not None:
        found = by_rule(found, quote, case, usage, record.service_tier, record.delivered)
        record.charge_rule = found.rule
    record.cost, record.price = found.cost, found.price
    record.rates, record.cost_rates = found.rates_text, found.cost_rates_text
    record.price_version = quote.version
