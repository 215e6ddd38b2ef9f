"""The differences between two price lists, for the operator.

All rates at one moment are compared, as they would be billed. A model that gets a price is new; a model that loses its
price is gone. Pure.
"""

from collections.abc import Iterable

from streamweir.cli.view.table import dollars
from streamweir.policy.pricing.prices import Rates
from streamweir.policy.pricing.pricetable import Row

KINDS = ("new", "dearer", "cheaper", "mixed", "gone")


def changes(old: Iterable[Row], new: Iterable[Row]) -> dict[str, list[str]]:
    """By kind, in that order: `{provider}/{model}`, and what it cost and costs."""
    before = {f"{row.provider}/{row.model.id}": row.rates for row in old if row.rates is not None}
    after = {f"{row.provider}/{row.model.id}": row.rates for row in new if row.rates is not None}
    found: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for name, rates in after.items():
        was = before.get(name)
        if was is None:
            found["new"].append(f"{name}  {_short(rates)}")
        elif was != rates and (kind := _direction(was, rates)) is not None:
            found[kind].append(f"{name}  {_short(was)} -> {_short(rates)}")
    found["gone"] = [name for name in before if name not in after]
    return found


def _short(rates: Rates) -> str:
    return f"{dollars(rates.input)} in, {dollars(rates.output)} out"


def _direction(old: Rates, new: Rates) -> str | None:
    starts = {0} | {tier.above + 1 for rates in _all(old) + _all(new) for tier in rates.tiers}
    services = {None} | {service.name for rates in (old, new) for service in rates.services}
    pairs = [
        pair
        for start in starts
        for service in services
        for pair in zip(_billed(old.in_force(start, service)), _billed(new.in_force(start, service)), strict=True)
    ]
    is_dearer = any(after > before for before, after in pairs)
    is_cheaper = any(after < before for before, after in pairs)
    if is_dearer and is_cheaper:
        return "mixed"
    return "dearer" if is_dearer else "cheaper" if is_cheaper else None


def _all(rates: Rates) -> list[Rates]:
    return [rates, *(service.rates for service in rates.services)]


def _billed(rates: Rates) -> tuple[int, ...]:
    return (
        rates.input,
        rates.of_cache_read(),
        rates.of_cache_write(),
        rates.of_cache_write_1h(),
        rates.of_audio_input(),
        rates.output,
        rates.of_audio_output(),
        rates.of_image_input(),
        rates.of_image_output(),
        rates.of_reasoning(),
        rates.per_request,
        rates.per_search,
    )
