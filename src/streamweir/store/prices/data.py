"""The public data set `genai-prices`, converted to the price list of this project.

https://github.com/pydantic/genai-prices publishes one JSON file: a list of providers, or an object that contains one
beside its units. Pure: bytes in, list out. The converted rates are those of the usage categories, requests and searches
of the web, standard and for service tiers. Not converted: pages, hours and the batch API, which are not billed here;
providers without a kind; and prices that ended before the date of the list. An unknown condition is an error, because a
price without its condition is wrong; an unknown rate is left out.
"""

from datetime import UTC, date, datetime, time
from typing import Any

import msgspec
from msgspec import Struct, structs

from streamweir.policy.pricing.pricelist import (
    InvalidPrices,
    Model,
    Price,
    PriceList,
    Provider,
    Rule,
    Step,
    Stepped,
    check_list,
)
from streamweir.policy.pricing.prices import number_of, rate_of
from streamweir.policy.pricing.pricetable import is_wanted

_RATES = {
    "input_mtok": "input",
    "output_mtok": "output",
    "cache_read_mtok": "cache_read",
    "cache_write_mtok": "cache_write",
    "cache_write_5m_mtok": "cache_write",  # the more specific one, if both are given
    "cache_write_1h_mtok": "cache_write_1h",
    "input_audio_mtok": "audio_input",
    "output_audio_mtok": "audio_output",
    "input_image_mtok": "image_input",
    "output_image_mtok": "image_output",
    "output_reasoning_mtok": "reasoning",
}
_PER_THOUSAND = {"requests_kcount": "per_request", "web_searches_kcount": "per_search"}


class _Tier(Struct, frozen=True):
    start: int
    price: float


class _Tiered(Struct, frozen=True, forbid_unknown_fields=True):
    base: float
    tiers: list[_Tier]


_Prices = dict[str, float | _Tiered | None]


class _Constraint(Struct, frozen=True, forbid_unknown_fields=True):
    start_date: date | None = None
    start_time: time | None = None
    end_time: time | None = None


class _Conditional(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    constraint: _Constraint | None = None
    prices: _Prices


class _Variant(_Conditional, frozen=True, kw_only=True, forbid_unknown_fields=True):
    when: dict[str, str]


class _Model(Struct, frozen=True, kw_only=True):
    id: str
    match: Rule
    context_window: int | None = None
    prices: _Prices | list[_Conditional] = []
    price_variants: list[_Variant] | None = None


class _Provider(Struct, frozen=True, kw_only=True):
    id: str
    fallback_model_providers: list[str] | None = None
    models: list[_Model] = []


class _Wrapped(Struct, frozen=True):
    providers: list[_Provider]


def read_data(data: bytes, *, version: str, source: str, licence: str) -> PriceList:
    """Raises `InvalidPrices`."""
    shape: Any = _Wrapped if data.lstrip()[:1] == b"{" else list[_Provider]
    try:
        read = msgspec.json.decode(data, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as reason:
        raise InvalidPrices(f"not the data of genai-prices: {reason}") from None
    providers: list[_Provider] = read.providers if isinstance(read, _Wrapped) else read
    wanted = {each.id: each for each in providers if is_wanted(each.id)}
    fallbacks = {id for each in wanted.values() for id in each.fallback_model_providers or ()}
    wanted |= {each.id: each for each in providers if each.id in fallbacks}
    if not any(provider.models for provider in wanted.values()):
        raise InvalidPrices("not the data of genai-prices: there is no model of a known provider in it")
    today = date.fromisoformat(version[:10])
    price_list = PriceList(
        version=version,
        source=source,
        licence=licence,
        providers={id: _provider(wanted[id], today) for id in sorted(wanted)},
    )
    try:  # creating a list does not check the types' own constraints
        price_list = msgspec.convert(msgspec.to_builtins(price_list), PriceList)
    except (msgspec.ValidationError, RecursionError) as reason:
        raise InvalidPrices(str(reason)) from None
    check_list(price_list)
    return price_list


def _provider(provider: _Provider, today: date) -> Provider:
    return Provider(
        fallback=tuple(provider.fallback_model_providers or ()),
        models=tuple(_model(model, provider.id, today) for model in provider.models),
    )


def _model(model: _Model, provider: str, today: date) -> Model:
    where = f"{provider}/{model.id}"
    rule = _lower(model.match, where)
    conditional = model.prices if isinstance(model.prices, list) else [_Conditional(prices=model.prices)]
    prices = _current_and_future([_price(each, where, today) for each in conditional])
    if provider == "openrouter" and model.id.endswith(":free") and all(price == Price() for price in prices):
        prices = (Price(input=0.0, output=0.0),)  # free according to its name; otherwise no price means unknown
    services = [
        structs.replace(_price(each, where, today), service=each.when["service_tier"])
        for each in model.price_variants or ()
        if each.when.keys() == {"service_tier"} and each.prices
    ]
    return Model(
        id=model.id,
        match=None if rule == Rule(equals=model.id.lower()) else rule,
        context=model.context_window,
        prices=prices,
        services=tuple(services),
    )


def _lower(rule: Rule, where: str, depth: int = 1) -> Rule:
    """Names are compared in lower case; for a regular expression, the data set specifies that only for the name."""
    if depth > 50:
        raise InvalidPrices(f"{where}: a rule that is not understood")
    texts = {name: getattr(rule, name) for name in ("equals", "starts_with", "ends_with", "contains")}
    return Rule(
        **{name: text.lower() for name, text in texts.items() if text is not None},
        regex=rule.regex,
        any_of=None if rule.any_of is None else tuple(_lower(each, where, depth + 1) for each in rule.any_of),
        all_of=None if rule.all_of is None else tuple(_lower(each, where, depth + 1) for each in rule.all_of),
    )


def _current_and_future(prices: list[Price]) -> tuple[Price, ...]:
    """From the last one that is always in force: earlier ones never apply again."""
    always = [index for index, price in enumerate(prices) if price.since is None and price.hours is None]
    return tuple(prices[always[-1] if always else 0 :])


def _price(conditional: _Conditional, where: str, today: date) -> Price:
    amounts: dict[str, Any] = {
        _RATES[name]: _amount(price, where) for name, price in _known(conditional.prices).items()
    }
    for name, own_name in _PER_THOUSAND.items():
        price = conditional.prices.get(name)
        if isinstance(price, _Tiered):
            raise InvalidPrices(f"{where}: {name} has tiers")
        if price is not None:
            amounts[own_name] = _rate(price, where, 1000)
    constraint = conditional.constraint or _Constraint()
    since = constraint.start_date
    return Price(
        **amounts,
        since=since if since is not None and since > today else None,
        hours=_hours(constraint, where),
    )


def _known(prices: _Prices) -> dict[str, float | _Tiered]:
    """In the order of the table here, in which the more specific of two names comes later."""
    return {name: price for name in _RATES if (price := prices.get(name)) is not None}


def _amount(price: float | _Tiered, where: str) -> float | Stepped:
    if isinstance(price, _Tiered) and price.tiers:
        steps = sorted(price.tiers, key=lambda tier: tier.start)
        return Stepped(_rate(price.base, where), tuple(Step(tier.start, _rate(tier.price, where)) for tier in steps))
    return _rate(price.base if isinstance(price, _Tiered) else price, where)


def _rate(dollars: float, where: str, count: int = 1) -> float:
    """The rate for one of `count`. Fractions of a nano-dollar are noise of floating-point arithmetic."""
    if not 0 <= dollars <= 1_000_000:
        raise InvalidPrices(f"{where}: {dollars!r} is no rate")
    return number_of(rate_of(dollars) // count)


def _hours(constraint: _Constraint, where: str) -> tuple[str, str] | None:
    start, end = constraint.start_time, constraint.end_time
    if start is None and end is None:
        return None
    if start is None or end is None:
        raise InvalidPrices(f"{where}: half a time of day")
    return _hour(start, where), _hour(end, where)


def _hour(moment: time, where: str) -> str:
    if moment.second or moment.microsecond:
        raise InvalidPrices(f"{where}: a time of day within a minute")
    if moment.tzinfo is not None:
        moment = datetime.combine(date(1970, 1, 2), moment).astimezone(UTC).time()
    return f"{moment.hour:02}:{moment.minute:02}"
