"""What the operator's file says about prices, as the types that requests are sold by (`policy.pricing.price_group`)."""

from collections.abc import Iterator, Sequence
from decimal import ROUND_HALF_UP, Decimal
from json import dumps

from streamweir.config.error import ConfigProblem, entry, member
from streamweir.config.model import Config, GroupPrice, Price
from streamweir.config.model import DatedPrice as DatedPriceConfig
from streamweir.config.model import PriceGroup as PriceGroupConfig
from streamweir.config.rate import check_price, rates_of
from streamweir.policy.pricing.price_group import PERCENT, DatedPrice, DatedPrices, PriceGroup
from streamweir.policy.pricing.target_cost import TargetCosts
from streamweir.policy.routing.route import MAX_NAME_LENGTH


def own_prices(config: Config) -> dict[str, DatedPrices]:
    """Of the models that have a price, by id."""
    return {
        model.id: tuple(DatedPrice(from_ms=_from_ms(price), rates=rates_of(price)) for price in model.price)
        for model in config.models
        if model.price
    }


def target_costs(config: Config) -> TargetCosts:
    """Those of targets that have a cost, and the discounts of providers with an account that has one."""
    targets = (target for model in config.models for target in model.targets)
    return TargetCosts(
        own={f"{each.provider}/{each.model}": rates_of(each.cost) for each in targets if each.cost is not None},
        discounts={
            provider.name: {each.name or "": _markup(each.discount_percent) for each in provider.credentials}
            for provider in config.providers
            if any(each.discount_percent for each in provider.credentials)
        },
    )


def price_groups(config: Config) -> dict[str, PriceGroup]:
    return {group.name: _group(group) for group in config.price_groups}


def check_prices(config: Config) -> Iterator[ConfigProblem]:
    """Names of groups that are not in the file, and prices that say nothing, too much, or contradict each other."""
    names = [group.name for group in config.price_groups]
    for key in config.keys:
        if key.price_group is not None and key.price_group not in names:
            reason = f"there is no price group {dumps(key.price_group)}: add it under [[price_groups]]"
            yield ConfigProblem(f"{member('keys', key.name)}.price_group", reason)
    for model in config.models:
        where = f"{member('models', model.id)}.price"
        for index, own in enumerate(model.price):
            yield from check_price(own, where if len(model.price) == 1 else entry(where, index))
        yield from _equal_dates(where, [("", own) for own in model.price])
    for group in config.price_groups:
        where = member("price_groups", group.name)
        if not group.name.isprintable() or group.name != group.name.strip():
            yield ConfigProblem(f"{where}.name", "must be plain text without spaces at the start or end")
        for index, price in enumerate(group.prices):
            yield from _group_price(entry(f"{where}.prices", index), price)
        yield from _equal_dates(f"{where}.prices", [(price.model, price) for price in group.prices])


def _group_price(where: str, price: GroupPrice) -> Iterator[ConfigProblem]:
    name = price.model
    if not 1 <= len(name) <= MAX_NAME_LENGTH or not name.isprintable() or name != name.strip():
        reason = f"expected a model name or pattern of 1 to {MAX_NAME_LENGTH} characters, without spaces around it"
        yield ConfigProblem(f"{where}.model", reason)
    rates = [each for each in Price.__struct_fields__ if getattr(price, each) not in (None, ())]
    if price.markup_percent is not None:
        if rates:
            yield ConfigProblem(f"{where}.markup_percent", f"cannot be combined with {rates[0]}")
    elif price.input is None or price.output is None:
        yield ConfigProblem(where, "must have input and output, or markup_percent")
    else:
        yield from check_price(price, where)


def _equal_dates(where: str, prices: Sequence[tuple[str, DatedPriceConfig]]) -> Iterator[ConfigProblem]:
    seen: dict[tuple[str, int | None], int] = {}
    for index, (model, price) in enumerate(prices):
        first = seen.setdefault((model, _from_ms(price)), index)
        if first != index:
            yield ConfigProblem(f"{entry(where, index)}.from", f"is the same as that of {entry(where, first)}")


def _group(group: PriceGroupConfig) -> PriceGroup:
    prices: dict[str, DatedPrices] = {}
    for price in group.prices:
        rates = rates_of(price) if price.markup_percent is None else None
        dated = DatedPrice(from_ms=_from_ms(price), rates=rates, markup=_markup(price.markup_percent or 0))
        prices[price.model] = (*prices.get(price.model, ()), dated)
    markup = _markup(group.markup_percent) if group.markup_percent is not None else None
    return PriceGroup(name=group.name, markup=markup, prices=prices, rules=group.charge)


def _from_ms(price: DatedPriceConfig) -> int | None:
    return round(price.starts.timestamp() * 1000) if price.starts is not None else None


def _markup(percent: float) -> int:
    return int((Decimal(repr(percent)) * PERCENT).to_integral_value(ROUND_HALF_UP))
