"""The current prices over the API: the aliases with their prices here, then, for the operator, the price list: costs.

Rates are exact dollars per million tokens, as text. An alias has what it is sold for to keys without a price group, or,
for a workspace's admin, to that workspace: the price of the group, its own, or the highest cost of its targets. Without
a known price it has none, which is not 0.
"""

import asyncio
from collections.abc import Iterator
from itertools import chain, islice
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from streamweir.policy.permission import Permission
from streamweir.policy.pricing.prices import Quote, Rates, highest_rates
from streamweir.policy.pricing.pricetable import PROVIDER_IDS, Row
from streamweir.policy.routing.route import Route
from streamweir.server.control.api.fields import Limit
from streamweir.server.control.api.operation import Call, Nothing, Operation
from streamweir.server.control.api.view import usd, usd_or_none
from streamweir.server.request.runtime.config import RuntimeConfig

_ALIAS = "alias"
Source = Literal["list", "config", "built-in"]
Owner = Literal["model", "group", "target"]
"""Whose price it is."""


class PriceQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    provider: (
        Annotated[str, Meta(description="As the list names it, a kind of the configuration, or `alias`.")] | None
    ) = None
    model: Annotated[str, Meta(description="A part of the model's name.")] | None = None
    cursor: Annotated[int, Meta(ge=0, le=1_000_000, description="`next` of the previous page.")] = 0
    limit: Limit = 100


class RatesView(Struct, kw_only=True, omit_defaults=True):
    """Dollars per million tokens. A rate that is missing is that of input or output."""

    input_usd: str
    output_usd: str
    cache_read_usd: str | None = None
    cache_write_usd: str | None = None
    cache_write_1h_usd: str | None = None
    audio_input_usd: str | None = None
    audio_output_usd: str | None = None
    image_input_usd: str | None = None
    image_output_usd: str | None = None
    reasoning_usd: str | None = None
    per_request_usd: str | None = None
    per_search_usd: str | None = None
    tiers: list["TierView"] = []
    services: dict[str, "RatesView"] = {}


class TierView(Struct, kw_only=True):
    above_prompt_tokens: int
    rates: RatesView


class PriceView(Struct, kw_only=True):
    provider: str
    """As in the price list; `alias` for an alias of the configuration."""
    model: str
    source: Source
    owner: Owner
    """`model`: its own. `group`: of a price group. `target`: the highest of its targets and fallbacks."""
    owners: list[str]
    """The price group, or the targets whose price it is."""
    context_window: int | None
    rates: RatesView | None
    """None: no price is known."""


class Prices(Struct, kw_only=True):
    version: str
    currency: str
    unit: str
    data: list[PriceView]
    next: int | None


async def list_prices(call: Call[PriceQuery, Nothing]) -> Prices:
    query, runtime = call.query, call.context.runtime()
    table = runtime.quotes.prices.table
    aliases = [
        row for row in _aliases(runtime, call.at_ms, price_group_of(call)) if _matches(row.provider, row.model, query)
    ]

    def work() -> Prices:
        rows = table.rows(call.at_ms) if call.actor.sees_cost else ()
        listed = (_view(row) for row in rows if _matches(row.provider, row.model.id, query))
        page = list(islice(chain(aliases, listed), query.cursor, query.cursor + query.limit + 1))
        has_more = len(page) > query.limit
        return Prices(
            version=table.version,
            currency="USD",
            unit="1M tokens",
            data=page[: query.limit],
            next=query.cursor + query.limit if has_more else None,
        )

    return await asyncio.to_thread(work)  # a loop over thousands of models


def _view(row: Row) -> PriceView:
    return PriceView(
        provider=row.provider,
        model=row.model.id,
        source="list",
        owner="model",
        owners=[],
        context_window=row.model.context,
        rates=view_rates(row.rates) if row.rates is not None else None,
    )


def price_group_of(call: Call[Any, Any]) -> str | None:
    """By what the actor's workspace buys: what others pay could be the cost. The operator sees the default."""
    workspace_id = call.actor.allowed_workspace
    return None if workspace_id is None else call.context.accounting.directory.price_group_of_workspace(workspace_id)


def _aliases(runtime: RuntimeConfig, at_ms: int, group: str | None) -> Iterator[PriceView]:
    for alias in runtime.config.models:
        route = runtime.routes.resolve(alias.id)
        assert route is not None  # noqa: S101 (both are of one configuration)
        price = price_of(runtime, route, at_ms, group)
        yield PriceView(
            provider=_ALIAS,
            model=alias.id,
            source=price.source,
            owner=price.owner,
            owners=price.owners,
            context_window=None,
            rates=price.rates,
        )


class ModelPrice(Struct, frozen=True, kw_only=True):
    source: Source
    owner: Owner = "group"
    owners: list[str]
    rates: RatesView | None = None
    """None: one of its targets has no price."""


def price_of(runtime: RuntimeConfig, route: Route, at_ms: int, group: str | None) -> ModelPrice:
    """The highest price of its targets for this price group, and whose it is."""
    if group is not None and group not in runtime.quotes.groups:
        return ModelPrice(source="config", owners=[group])
    quote, _ = runtime.quotes.of(route, at_ms, group)
    known = [rates for rates in quote.sold.values() if rates is not None]
    is_known = known and len(known) == len(quote.sold)
    owner, owners = _owner(quote)
    rates = view_rates(highest_rates(known)) if is_known else None
    return ModelPrice(source=_source(quote.version), owner=owner, owners=owners, rates=rates)


def _owner(quote: Quote) -> tuple[Owner, list[str]]:
    """By the end of the quote's version (`Sale.price_of`)."""
    if quote.prices is None:
        known = {target: rates for target, rates in quote.rates.items() if rates is not None}
        highest = max((rates.input for rates in known.values()), default=0)
        return "target", [target for target, rates in known.items() if rates.input == highest]
    kind, _, name = quote.version.rpartition("+")[2].partition(":")
    return ("group", [name]) if kind == "group" else ("model", [])


def _source(version: str) -> Source:
    if version == "built-in":
        return "built-in"
    return "config" if "+" in version else "list"


def _matches(provider: str, model: str, query: PriceQuery) -> bool:
    if query.provider is not None and provider not in (query.provider, PROVIDER_IDS.get(query.provider)):
        return False
    return query.model is None or query.model.lower() in model.lower()


def view_rates(rates: Rates) -> RatesView:
    return RatesView(
        input_usd=usd(rates.input),
        output_usd=usd(rates.output),
        cache_read_usd=usd_or_none(rates.cache_read),
        cache_write_usd=usd_or_none(rates.cache_write),
        cache_write_1h_usd=usd_or_none(rates.cache_write_1h),
        audio_input_usd=usd_or_none(rates.audio_input),
        audio_output_usd=usd_or_none(rates.audio_output),
        image_input_usd=usd_or_none(rates.image_input),
        image_output_usd=usd_or_none(rates.image_output),
        reasoning_usd=usd_or_none(rates.reasoning),
        per_request_usd=usd(rates.per_request) if rates.per_request else None,
        per_search_usd=usd(rates.per_search) if rates.per_search else None,
        tiers=[TierView(above_prompt_tokens=tier.above, rates=view_rates(tier.rates)) for tier in rates.tiers],
        services={service.name: view_rates(service.rates) for service in rates.services},
    )


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/prices",
        access=Permission.ROUTING_READ,
        about="List the current prices: of the aliases, and, for the operator, the price list",
        handler=list_prices,
        query=PriceQuery,
        answer=Prices,
    ),
)
