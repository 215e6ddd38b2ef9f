"""What a caller is told about the cost of its request, which is the price: `usage.cost`, and a header of whole answers.

A key shows it in every answer (`show_cost`); a request can ask for it: with `usage: {"include": true}` in a chat
completion, as OpenRouter has it, which also asks for the usage of a stream, or with the header
`x-streamweir-cost: include` in any API. What the request costs the operator is shown nowhere here. A price that is not
known is not shown.
"""

from collections.abc import Mapping

from msgspec import structs

from streamweir.core.request import ChatRequest
from streamweir.core.usage import Usage
from streamweir.pipeline.meter import Meter
from streamweir.policy.limits.budget import NANO
from streamweir.policy.pricing.charge import charge_of
from streamweir.server.accounting.reservation import Reservation
from streamweir.server.telemetry.record import RequestRecord


def asks_for_cost(headers: Mapping[str, str]) -> bool:
    return headers.get("x-streamweir-cost", "").strip().lower() == "include"


def read_usage_option(chat: ChatRequest, *, shows_cost: bool) -> tuple[ChatRequest, bool | None]:
    """The request without the option, and whether cost is wanted (None: it does not say).

    `shows_cost`: the API may show it; otherwise the option has no effect. It is not sent on: most providers refuse it.
    """
    option = chat.body.get("usage")
    wanted = option.get("include") if isinstance(option, dict) else None
    if not isinstance(wanted, bool):
        return chat, None
    body = {name: value for name, value in chat.body.items() if name != "usage"}
    includes_usage = chat.include_usage or (wanted and shows_cost)
    return structs.replace(chat, body=body, include_usage=includes_usage), wanted


def price_of(reservation: Reservation, record: RequestRecord, meter: Meter, usage: Usage) -> int | None:
    """What will be charged for the usage of a complete answer, in nano-dollars. None: it has no price."""
    tier = meter.record.service_tier
    if tier is None and "service_tier" not in record.dropped:
        tier = reservation.request.service_tier
    return charge_of(reservation.request.quote, record.target, usage, tier, record.credential).price


def price_in_dollars(reservation: Reservation, record: RequestRecord, meter: Meter, usage: Usage) -> float | None:
    """As `price_of`, as a number of JSON."""
    price = price_of(reservation, record, meter, usage)
    return None if price is None else price / NANO
