"""One request as the console's page shows it: its timeline, and the calculation of its price and of its cost.

A row from an older version may lack the data for them and is shown without: no bill is shown that does not add up to
its sum.
"""

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, defstruct

from streamweir.core.usage import Usage
from streamweir.policy.billing.bill import FEMTO, BillLine, bill_of, dollars_of_femto
from streamweir.policy.pricing.prices import decode_rates
from streamweir.server.control.api.view import (
    RequestView,
    in_text,
    members_shown,
    request_members,
    usd_or_none,
    values_of,
)
from streamweir.store.db.request_log import ParametersView, RefusalView, StripView
from streamweir.store.requests.requests import RequestRow, cursor_of

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
_MEMBERS = {name: kind for name, kind, *_ in request_members("detail")}
_NAMES = (*_FIRST, *(name for name in _MEMBERS if name not in _FIRST))
_CURSOR = "Its place in the log: with it, `GET /api/requests` goes on from here, in either order."
_BILL = "The lines that add up to the price. Null: there is no price, or its rates were not kept."
_COST_BILL = (
    "For the operator: the lines that add up to the cost, if it has other rates than the price. Null: there is no cost,"
    " its rates were not kept, or they are those of the price."
)

if TYPE_CHECKING:

    class RequestDetail(RequestView):
        """With the members that are shown only for a single request, and its bill."""

else:
    RequestDetail = defstruct(
        "RequestDetail",
        [
            *((name, _MEMBERS[name]) for name in _NAMES),
            ("cursor", Annotated[str, Meta(description=_CURSOR)]),
            ("bill", Annotated[list[BillLineView] | None, Meta(description=_BILL)]),
            (
                "cost_bill",
                Annotated[list[BillLineView] | None | UnsetType, Meta(description=_COST_BILL)],
                UNSET,
            ),
        ],
        bases=(RequestView,),
        kw_only=True,
    )


def view_detail(row: RequestRow, sees_cost: bool) -> RequestDetail:
    members = values_of(row, members_shown((*RequestView.__struct_fields__, *_NAMES), sees_cost))
    members["cursor"] = cursor_of(row.at_ms, row.seq)
    members["strip"] = _read(StripView, row.strip)
    members["parameters"] = _read(ParametersView, row.parameters)
    members["refusal"] = _read(RefusalView, row.refusal)
    members["bill"] = _bill(row, row.price, row.rates)
    if sees_cost:
        members["cost_bill"] = _bill(row, row.cost, row.cost_rates) if row.cost_rates is not None else None
    return RequestDetail(**members)


def _bill(row: RequestRow, amount: int | None, rates: str | None) -> list[BillLineView] | None:
    usage = _usage(row)
    if amount is None:
        return None
    if amount == 0 and (usage is None or (not usage.total_tokens and not usage.searches)):
        return []
    if usage is None or rates is None:
        return None
    try:
        lines = bill_of(usage, decode_rates(rates), row.service_tier)
    except msgspec.DecodeError:
        return None
    return [_view(line) for line in lines] if sum(line.amount for line in lines) == amount * FEMTO else None


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
