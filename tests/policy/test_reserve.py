"""The sizes of reservations that are tried: a finite series that falls, whatever the numbers are."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from streamweir.core.usage import Usage
from streamweir.policy.limits.reserve import Need, extension_sizes, fitting_size, limit_of, wanted_size
from streamweir.policy.pricing.prices import Quote, Rates, Service, Tier, price_of

tokens = st.integers(0, 10**12)


@pytest.mark.parametrize(
    ("covered", "needed", "step", "sizes"),
    [
        (1024, 1025, 1024, (2048, 1280, 1088, 1040, 1028, 1025)),
        (10, 14, 10, (20, 14)),
        (10, 30, 10, (30,)),
        (10, 31, 10, (31,)),
        (0, 1, 1, (1,)),
        (10, 10, 10, ()),
        (1024, 4, 1024, ()),
        (0, 0, 0, ()),
    ],
)
def test_an_extension_is_tried_whole_and_then_down_to_what_is_needed(
    covered: int, needed: int, step: int, sizes: tuple[int, ...]
) -> None:
    assert extension_sizes(covered, needed, step) == sizes


@given(tokens, tokens, tokens)
def test_every_try_is_smaller_than_the_one_before_and_no_less_than_what_is_needed(
    covered: int, needed: int, step: int
) -> None:
    sizes = extension_sizes(covered, needed, step)
    assert len(sizes) <= 42
    assert all(larger > smaller for larger, smaller in pairwise(sizes))
    assert all(size >= needed > covered for size in sizes)
    assert (sizes[-1:] == (needed,)) == (needed > covered)


# What is reserved, and what a provider is told.

money = st.integers(0, 10**10)
rates = st.builds(
    Rates,
    input=st.integers(0, 10**12),
    output=st.integers(0, 10**12),
    cache_write=st.none() | st.integers(0, 10**12),
    reasoning=st.none() | st.integers(0, 10**12),
    per_request=st.integers(0, 10**6),
)
quotes = st.lists(rates, min_size=1, max_size=3).map(
    lambda found: Quote("v", {f"p/{number}": each for number, each in enumerate(found)})
)
needs = st.builds(
    Need,
    prompt=st.integers(0, 10**6),
    limit=st.none() | st.integers(1, 10**6),
    default=st.integers(1, 5000),
    max_answer=st.integers(1, 200_000),
    choices=st.integers(1, 8),
    extra_output=st.integers(0, 10_000),
)


@given(quotes, money, st.integers(0, 10**6))
def test_what_an_amount_affords_is_exact(quote: Quote, amount: int, prompt: int) -> None:
    tokens = quote.affords(amount, prompt)
    if tokens is None:
        assert (quote.hold(prompt, 10**9) or 0) <= amount
    elif tokens < 0:
        assert (quote.hold(prompt, 0) or 0) > amount
    else:
        assert (quote.hold(prompt, tokens) or 0) <= amount < (quote.hold(prompt, tokens + 1) or 0)


parts = st.builds(
    Rates,
    input=st.integers(0, 1),
    output=st.integers(0, 1),
    reasoning=st.none() | st.integers(0, 1),
    per_request=st.integers(0, 1),
    per_search=st.integers(0, 1),
)
whole_rates = st.builds(
    lambda plain, tiers, services: structs.replace(
        plain,
        tiers=tuple([Tier(1000 * number, each) for number, each in enumerate(tiers)]),
        services=tuple([Service("flex", each) for each in services]),
    ),
    parts,
    st.lists(parts, max_size=2),
    st.lists(parts, max_size=1),
)


@given(st.lists(st.none() | whole_rates, max_size=3), st.integers(0, 2), st.sampled_from([None, "flex", "priority"]))
def test_a_quote_is_free_if_no_answer_costs_anything(
    known: list[Rates | None], searches: int, service_tier: str | None
) -> None:
    quote = Quote("v", {f"p/{number}": each for number, each in enumerate(known)}, searches=searches)
    assert quote.is_free(service_tier) == (quote.affords(0, 0, service_tier) is None)


@given(needs, quotes, money, st.data())
def test_no_usage_within_a_reservation_costs_more_than_what_is_left(
    need: Need, quote: Quote, left: int, data: st.DataObject
) -> None:
    wanted = wanted_size(need, quote, left)
    size = fitting_size(need, wanted, quote, left, need.prompt)
    if size is None:
        return
    limit, flags = limit_of(need, size.answer)
    told = limit if limit is not None else (need.limit or 0) // need.choices
    assert told >= 1
    assert bool(flags) == (limit is not None)
    assert size.answer <= wanted.answer
    prompt, answer = data.draw(st.integers(0, size.prompt)), data.draw(st.integers(0, told * need.choices))
    usage = Usage(input_uncached=prompt, output=answer + data.draw(st.integers(0, need.extra_output)))
    hold = quote.hold(size.prompt, size.answer + need.extra_output)
    assert hold is not None
    assert hold <= left
    assert all((price_of(quote, target, usage) or 0) <= hold for target in quote.rates)


DOLLAR_A_TOKEN = Quote("v", {"p/m": Rates(input=10**15, output=10**15)})
NANO = 10**9


@pytest.mark.parametrize(
    ("limit", "left", "answer", "told"),
    [
        (1000, 5000, 1000, (None, ())),
        (1000, 600, 500, (500, ("max_tokens_lowered",))),
        (1000, 164, 64, (64, ("max_tokens_lowered",))),
        (1000, 163, None, None),
        (30, 130, 30, (None, ())),
        (30, 129, None, None),
        (None, 10**6, 4096, (4096, ("max_tokens_set",))),
        (None, 32_000, 2000, (2000, ("max_tokens_set",))),
        (None, 5000, 1024, (1024, ("max_tokens_set",))),
        (None, 600, 500, (500, ("max_tokens_set",))),
        (None, 163, None, None),
        (None, -5, None, None),
    ],
)
def test_an_answer_is_as_long_as_can_be_paid_for(
    limit: int | None, left: int, answer: int | None, told: tuple[int | None, tuple[str, ...]] | None
) -> None:
    """A prompt of 100 tokens, at a dollar each, and so many dollars left."""
    need = Need(prompt=100, limit=limit, default=1024, max_answer=4096)
    wanted = wanted_size(need, DOLLAR_A_TOKEN, left * NANO)
    size = fitting_size(need, wanted, DOLLAR_A_TOKEN, left * NANO, need.prompt)
    assert (size.answer if size is not None else None) == answer
    assert (limit_of(need, size.answer) if size is not None else None) == told


def test_where_answers_cost_nothing_they_are_not_shortened() -> None:
    need = Need(prompt=100, limit=None, default=10, max_answer=4096)
    free = Quote("v", {"p/m": Rates(input=0, output=0)})
    assert wanted_size(need, free, 0).answer == 4096
