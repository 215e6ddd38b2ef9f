"""A price of the operator's file: every part of it is billed at its rate, in tiers and service tiers too."""

import tomllib
from typing import Any

import pytest

from streamweir.config.check import check
from streamweir.config.file.schema import Reader
from streamweir.config.model import Config, Price
from streamweir.config.rate import rates_of
from streamweir.core.usage import Usage
from streamweir.policy.pricing.prices import Rates, cost_of

USD = 1_000_000_000
FULL = """
input = 2
output = 10
cache_read = 0.5
audio_input = 20
audio_output = 40
image_input = 3
image_output = 60
reasoning = 5
per_request = 0.001
per_search = 0.01
tiers = [{ above = 1000, output = 20 }, { above = 100, input = 4, per_search = 0.02 }]
[[service_tiers]]
name = "flex"
input = 1
output = 5
tiers = [{ above = 1000, input = 2 }]
"""


def price(text: str) -> Price:
    reader = Reader({})
    read = reader.read(tomllib.loads(text), Price)
    assert reader.problems == []
    assert isinstance(read, Price)
    return read


def test_a_price_of_two_numbers() -> None:
    assert rates_of(price("input = 2.5\noutput = 10")) == Rates(input=2_500_000_000, output=10 * USD)


@pytest.mark.parametrize(
    ("usage", "tier", "expected"),
    [
        ({"input_uncached": 100}, None, 200_000),
        ({"output": 100}, None, 1_000_000),
        ({"cache_read": 100}, None, 50_000),
        ({"cache_write_5m": 100}, None, 200_000),
        ({"audio_input": 100}, None, 2_000_000),
        ({"audio_output": 100}, None, 4_000_000),
        ({"image_input": 100}, None, 300_000),
        ({"image_output": 100}, None, 6_000_000),
        ({"reasoning": 100}, None, 500_000),
        ({"searches": 3}, None, 30_000_000),
        # Beyond a step: what it does not set is that of the price.
        ({"input_uncached": 101}, None, 404_000),
        ({"input_uncached": 101, "output": 100, "searches": 1}, None, 404_000 + 1_000_000 + 20_000_000),
        ({"input_uncached": 1001, "output": 100, "searches": 1}, None, 2_002_000 + 2_000_000 + 10_000_000),
        ({"input_uncached": 100, "cache_read": 1}, None, 400_000 + 500),
        # A service tier, with steps of its own.
        ({"input_uncached": 500, "image_output": 100}, "flex", 500_000 + 6_000_000),
        ({"input_uncached": 1001, "output": 1}, "flex", 2_002_000 + 5000),
        ({"input_uncached": 100}, "default", 200_000),
    ],
    ids=str,
)
def test_every_part(usage: dict[str, Any], tier: str | None, expected: int) -> None:
    assert cost_of(Usage(**usage), rates_of(price(FULL)), tier) == expected + 1_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cache_write = 3.75", 6 * USD),  # Anthropic's: 1.25 and 2 times its input
        ("cache_write = 3.75\ncache_write_1h = 4", 4 * USD),
        ("cache_write = 3.75\ncache_write_1h = 0", 0),
        ("cache_write_1h = 5", 5 * USD),
        ("cache_write = 0", 0),
        ("", 3 * USD),  # as input
        ("cache_write = 1\ntiers = [{ above = 9, cache_write = 3.75 }]", 6 * USD),
        ("cache_write_1h = 5\ntiers = [{ above = 9, cache_write = 3.75 }]", 5 * USD),
    ],
    ids=str,
)
def test_an_hour_in_the_cache(text: str, expected: int) -> None:
    rates = rates_of(price(f"input = 3\noutput = 15\n{text}"))
    assert cost_of(Usage(cache_write_1h=1_000_000), rates) == expected


MISTAKES: list[tuple[dict[str, Any], list[str]]] = [
    (
        {"tiers": [{"above": 9}, {"above": 9}]},
        ["models.m.price.tiers[1].above: is the same as that of models.m.price.tiers[0]"],
    ),
    (
        {"service_tiers": [{"name": "flex"}, {"name": "flex", "tiers": [{"above": 9}, {"above": 9}]}]},
        [
            'models.m.price.service_tiers[1].name: "flex" is already used by models.m.price.service_tiers[0]',
            "models.m.price.service_tiers[1].tiers[1].above: is the same as that of "
            "models.m.price.service_tiers[1].tiers[0]",
        ],
    ),
]


@pytest.mark.parametrize(("members", "expected"), MISTAKES)
def test_a_tier_is_there_once(members: dict[str, Any], expected: list[str]) -> None:
    sent = {"input": 1, "output": 2, **members}
    target = {"provider": "sim", "model": "hello"}
    model = {"id": "m", "targets": [target], "price": sent}
    config = Reader({}).read({"providers": [{"name": "sim", "kind": "sim"}], "models": [model]}, Config)
    assert isinstance(config, Config)
    assert [f"{each.where}: {each.reason}" for each in check(config)] == expected
