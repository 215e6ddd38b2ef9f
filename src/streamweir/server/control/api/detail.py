"""One request as the console's page shows it: its timeline, and the calculation of its cost.

A row from an older version may lack the data for them and is shown without: no bill is shown that does not add up to
the cost.
"""

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct, defstruct

from streamweir.core.usage import Usage
from streamweir.policy.bill import FEMTO, BillLine, bill_of, dollars_of_femto
from streamweir.policy.prices import decode_rates
from streamweir.server.control.api.view import RequestView, in_text, request_members, usd_or_none, values_of
from streamweir.store.db.request_log import StripView
from streamweir.store.requests.requests import RequestRow

T = TypeVar("T")


class BillLineView(Struct, kw_only=True):
    what: str
    """`input`, `cache_read`, `cache_write`, `cache_write_1h`, `audio_input`, `image_input`, `output`, `reasoning`,
    `audio_output`, `image_output`, `per_request`, `per_search` or `rounding`."""
    tokens: int | None
    count: int | None
    """The searches of `per_search`."""
    usd_per_million: str | None
    amount_usd: str


_FIRST = ("admitted_ms", "settled_ms", "service_tier")
"""The first of the members that only this view has; the others follow in the order of the log's columns."""
_MEMBERS = dict(request_members("detail"))
_NAMES = (*_FIRST, *(name for name in _MEMBERS if name not in _FIRST))
_BILL = "The lines that add up to the price. Null: there is no price, or its rates were not kept."

if TYPE_CHECKING:

    class RequestDetail(RequestView):
        """With the members that are shown only for a single request, and its bill."""

else:
    RequestDetail = defstruct(
        "RequestDetail",
        [
            *((name, _MEMBERS[name]) for name in _NAMES),
            ("bill", Annotated[list[BillLineView] | None, Meta(description=_BILL)]),
        ],
        bases=(RequestView,),
        kw_only=True,
    )


def view_detail(row: RequestRow) -> RequestDetail:
    bill = _bill(row)
    members = values_of(row, (*RequestView.__struct_fields__, *_NAMES))
    members["strip"] = _read(StripView, row.strip)
    members["bill"] = [_view(line) for line in bill] if bill is not None else None
    return RequestDetail(**members)


def _bill(row: RequestRow) -> list[BillLine] | None:
    usage = _usage(row)
    if row.price is None:
        return None
    if row.price == 0 and (usage is None or (not usage.total_tokens and not usage.searches)):
        return []
    if usage is None or row.rates is None:
        return None
    try:
        lines = bill_of(usage, decode_rates(row.rates), row.service_tier)
    except msgspec.DecodeError:
        return None
    return lines if sum(line.amount for line in lines) == row.price * FEMTO else None


def _usage(row: RequestRow) -> Usage | None:
    """For an orphan only two numbers are known."""
    if row.usage is None and row.prompt_tokens is not None:
        return Usage(input_uncached=row.prompt_tokens, output=row.completion_tokens or 0)
    return _read(Usage, row.usage)


def _read(kind: type[T], members: dict[str, Any] | None) -> T | None:
    if members is None:
        return None
    try:
        return msgspec.convert(members, kind)
    except msgspec.ValidationError:
        return None


def _view(line: BillLine) -> BillLineView:
    return BillLineView(
        what=line.what,
        tokens=line.tokens,
        count=line.count,
        usd_per_million=usd_or_none(line.rate),
        amount_usd=in_text(dollars_of_femto(line.amount)),
    )
