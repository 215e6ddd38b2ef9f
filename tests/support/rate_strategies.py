"""Any rates that a model may have, for properties of what tokens cost."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec import structs

from streamweir.policy.pricing.prices import Rates, Tier

_rate = st.integers(0, 10**12)
_maybe = st.none() | _rate

flat_rates = st.builds(
    Rates,
    input=_rate,
    output=_rate,
    cache_read=_maybe,
    cache_write=_maybe,
    cache_write_1h=_maybe,
    audio_input=_maybe,
    audio_output=_maybe,
    reasoning=_maybe,
    image_input=_maybe,
    image_output=_maybe,
    per_request=st.integers(0, 10**9),
    per_search=st.integers(0, 10**9),
)
"""Without tiers and services."""


def tiered_rates(most_above: int) -> SearchStrategy[Rates]:
    """With up to three tiers, which begin somewhere up to `most_above` tokens."""
    tier = st.builds(Tier, st.integers(0, most_above), flat_rates)
    return st.builds(
        lambda rates, steps: structs.replace(rates, tiers=tuple(sorted(steps, key=lambda tier: tier.above))),
        flat_rates,
        st.lists(tier, max_size=3, unique_by=lambda tier: tier.above),
    )
