"""What a request would cost at each target: by its size, the price of each, and nothing else."""

from typing import Any

import pytest

from streamweir.frontends.table import FRONTENDS
from streamweir.policy.pricing.pricebook import PriceBook
from streamweir.policy.pricing.pricelist import Model, Price, PriceList, Provider
from streamweir.policy.pricing.pricetable import PriceTable
from streamweir.policy.routing.health import TargetId
from streamweir.server.request.request_cost import RequestCost
from streamweir.server.request.runtime.config import build_runtime_config
from support.gateway import configured

TOML = """
[store]
hold_tokens = 100

[[providers]]
name = "p"
kind = "openai"

[[models]]
id = "m"
targets = [{ provider = "p", model = "read" }, { provider = "p", model = "write" }, { provider = "p", model = "none" }]
fallbacks = ["n"]

[[models]]
id = "n"
targets = [{ provider = "p", model = "none", stage = 2 }, { provider = "p", model = "write" }]
price = { input = 7, output = 7 }
"""
PRICES = PriceList(
    version="v",
    source="a test",
    licence="",
    providers={
        "openai": Provider(
            models=(
                Model(id="read", prices=(Price(input=10, output=1),)),
                Model(id="write", prices=(Price(input=1, output=10),)),
            )
        )
    },
)


def costs_of(name: str, **members: Any) -> list[int | None]:
    """In nano-dollars: of `read`, `write` and `none`."""
    book = PriceBook(PriceTable(PRICES))
    runtime = build_runtime_config(configured(TOML), lambda _: pytest.fail("no local model"), prices=book)
    route = runtime.routes.resolve(name)
    assert route is not None
    body = {"model": name, "messages": [{"role": "user", "content": "x" * 400}], **members}
    chat = FRONTENDS.by_name["openai"].parse(body, {})
    cost = RequestCost(runtime, route, chat, 0)
    return [cost.of(TargetId("p", model)) for model in ("read", "write", "none")]


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, (10 * 100 + 100, 100 + 10 * 100)),
        ({"max_tokens": 3}, (10 * 100 + 3, 100 + 10 * 3)),
        ({"max_tokens": 5000}, (10 * 100 + 100, 100 + 10 * 100)),
        ({"max_tokens": 3, "n": 9}, (10 * 100 + 27, 100 + 10 * 27)),
    ],
)
def test_the_size_is_that_of_the_prompt_and_of_a_usual_answer(
    members: dict[str, Any], expected: tuple[int, int]
) -> None:
    assert costs_of("m", **members) == [expected[0] * 1000, expected[1] * 1000, None]


def test_the_cost_counts_and_not_what_it_is_sold_for() -> None:
    assert costs_of("n", max_tokens=3) == [None, (100 + 10 * 3) * 1000, None]
