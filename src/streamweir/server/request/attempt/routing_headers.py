"""Headers that tell a caller how its request was served, if its key shows that (`show_routing`).

`x-streamweir-target` is the target that answered, or failed last; `x-streamweir-attempts` how many attempts were made.
`x-streamweir-cost`, in US dollars, is sent with a whole answer whose usage is known. The head of a stream is sent
before its cost is known.
"""

from urllib.parse import quote

from streamweir.pipeline.meter import Meter
from streamweir.policy.limits.budget import dollars_of
from streamweir.server.accounting.reservation import Reservation
from streamweir.server.http.message import Headers
from streamweir.server.request.shown_cost import price_of
from streamweir.server.telemetry.record import RequestRecord

_PLAIN = "/:@!$&'()*+,;=[]|~ "
_MAX_LENGTH = 256


def routing_headers(record: RequestRecord) -> Headers:
    attempts: Headers = (("x-streamweir-attempts", str(len(record.attempts))),)
    target = record.target
    if target is None:
        return attempts
    # Callers choose the name of a model: what a header must not contain is quoted.
    return (("x-streamweir-target", quote(target[:_MAX_LENGTH], safe=_PLAIN, errors="replace")), *attempts)


def cost_headers(reservation: Reservation | None, meter: Meter, record: RequestRecord) -> Headers:
    """For a whole answer that is complete. Empty if its usage must still be counted, or it has no price."""
    usage = meter.known_usage()
    price = price_of(reservation, record, meter, usage) if reservation is not None and usage is not None else None
    if price is None:
        return ()
    return (("x-streamweir-cost", format(dollars_of(price), "f").rstrip("0").rstrip(".") or "0"),)
