"""Which price a model has: whose it is, which entry it matches, and what is in force at the moment.

And what is no price list at all: a list decides about money, so what is not understood is refused.
"""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from streamweir.policy.pricing.charge_rule import ChargeRules
from streamweir.policy.pricing.price_group import DatedPrice, PriceGroup, Sale
from streamweir.policy.pricing.pricebook import PriceBook
from streamweir.policy.pricing.pricelist import (
    InvalidPrices,
    PriceList,
    decode_list,
    encode_list,
    is_list,
    is_safe_pattern,
)
from streamweir.policy.pricing.prices import Rates, Service, Tier, decode_quote, encode_quote
from streamweir.policy.pricing.pricetable import FREE, PROVIDER_IDS, PriceTable
from streamweir.providers.registry import provider_names

USD = 1_000_000_000
UNPRICED = {
    "alibaba",
    "braintrust-proxy",
    "crusoe",
    "gpustack",
    "hyperbolic",
    "litellm-proxy",
    "llamacpp",
    "lmstudio",
    "mistralrs",
    "nebius",
    "nvidia",
    "ollama",
    "ollama-cloud",
    "openai-compatible",
    "sambanova",
    "snowflake",
    "venice",
    "vllm",
    "writer",
}
"""Kinds that the data set does not know, or behind which any model may be. A price for them is the operator's."""


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


NOW = at("2026-11-15T12:00")


def listed(**providers: Any) -> PriceList:
    document = {"version": "2026-11-15", "source": "a test", "licence": "", "providers": providers}
    return decode_list(json.dumps(document).encode())


def models(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"models": list(entries), **more}


def entry(id: str, input: Any = 1, **more: Any) -> dict[str, Any]:
    return {"id": id, "prices": [{"input": input, "output": 2}], **more}


def input_of(table: PriceTable, kind: str, model: str, at_ms: int = NOW) -> float | None:
    rates = table.find(kind, model, at_ms)
    return None if rates is None else rates.input / USD


def test_a_model_is_known_by_its_id_in_any_case() -> None:
    table = PriceTable(listed(groq=models(entry("Llama-4"))))
    assert input_of(table, "groq", "llama-4") == input_of(table, "groq", "LLAMA-4") == 1
    assert table.find("groq", "llama-4-scout", NOW) is None
    assert table.find("openai", "llama-4", NOW) is None
    assert table.find("no such kind", "llama-4", NOW) is None


@pytest.mark.parametrize(
    ("rule", "names", "others"),
    [
        ({"equals": "m"}, ["m", "M"], ["m2", "am"]),
        ({"starts_with": "m-"}, ["m-", "m-1"], ["m", "a-m-1"]),
        ({"ends_with": "-m"}, ["a-m"], ["a-m1"]),
        ({"contains": "-m-"}, ["a-m-b"], ["a-m"]),
        ({"regex": r"^m-\d{4}$"}, ["m-2026"], ["m-26", "m-20261"]),
        ({"or": [{"equals": "a"}, {"equals": "b"}]}, ["a", "b"], ["c"]),
        ({"or": [{"equals": "a"}, {"starts_with": "b"}]}, ["a", "bb"], ["aa"]),
        ({"and": [{"starts_with": "a"}, {"ends_with": "z"}]}, ["az", "abz"], ["a", "z"]),
        ({"and": [{"starts_with": "m"}, {"regex": "^(?!.*-tts(?:$|-))"}]}, ["m-flash"], ["m-flash-tts", "m-tts-2"]),
    ],
)
def test_rules(rule: dict[str, Any], names: list[str], others: list[str]) -> None:
    table = PriceTable(listed(groq=models(entry("id", match=rule))))
    assert [table.find("groq", name, NOW) is not None for name in names + others] == (
        [True] * len(names) + [False] * len(others)
    )


def test_the_first_match_counts_however_it_is_found() -> None:
    table = PriceTable(
        listed(
            groq=models(
                entry("one", 1, match={"starts_with": "m-"}),
                entry("two", 2, match={"or": [{"equals": "m-2"}, {"equals": "n"}]}),
                entry("three", 3, match={"contains": "n"}),
                entry("n", 4),
            )
        )
    )
    assert [input_of(table, "groq", name) for name in ("m-2", "n", "xnx")] == [1, 2, 3]


def test_an_entry_without_rates_hides_those_behind_it() -> None:
    table = PriceTable(listed(groq=models({"id": "m-embed"}, entry("m", match={"starts_with": "m"}))))
    assert table.find("groq", "m-embed", NOW) is None
    assert input_of(table, "groq", "m-chat") == 1


@pytest.mark.parametrize("price", [{}, {"input": 1}, {"output": 1}, {"per_request": 1}])
def test_half_a_price_is_no_price(price: dict[str, Any]) -> None:
    table = PriceTable(listed(groq=models({"id": "m", "prices": [price]})))
    assert table.find("groq", "m", NOW) is None


def test_others_models_at_their_prices_and_without_their_service_tiers() -> None:
    services = [{"service": "priority", "input": 9}]
    table = PriceTable(
        listed(
            azure=models(entry("own", 5), fallback=["openai", "nobody"]),
            openai=models(entry("gpt", 2, services=services), entry("own", 1)),
        )
    )
    rates = table.find("azure", "gpt", NOW)
    assert rates is not None
    assert (rates.input, rates.services) == (2 * USD, ())
    assert input_of(table, "azure", "own") == 5
    own = table.find("openai", "gpt", NOW)
    assert own is not None
    assert own.services == (Service("priority", Rates(input=9 * USD, output=2 * USD)),)


def test_a_date_without_dashes_is_tried_with_them() -> None:
    table = PriceTable(listed(openai=models(entry("gpt-5.2-2025-12-11", 3))))
    assert input_of(table, "openai", "gpt-5.2-20251211") == 3
    assert table.find("openai", "gpt-5.2-20251311", NOW) is None


def test_a_routers_price_is_that_of_the_provider_in_the_name() -> None:
    table = PriceTable(listed(huggingface_groq=models(entry("meta/llama", 4))))
    assert input_of(table, "huggingface", "Meta/Llama:groq") == 4
    for name in ("meta/llama", "meta/llama:cheapest", "meta/llama:"):
        assert table.find("huggingface", name, NOW) is None


def test_what_runs_in_this_program_is_free_and_needs_no_list() -> None:
    table = PriceTable(listed())
    assert table.find("local", "smollm2", NOW) == table.find("sim", "anything", NOW) == FREE


def test_every_kind_was_thought_of() -> None:
    assert set(provider_names()) == (PROVIDER_IDS.keys() | UNPRICED | {"huggingface"}) - {"local", "sim"}


def test_prices_change_on_their_day() -> None:
    prices = [{"input": 1, "output": 1}, {"since": "2026-12-01", "input": 2, "output": 2}]
    table = PriceTable(listed(groq=models({"id": "m", "prices": prices})))
    assert input_of(table, "groq", "m", at("2026-11-30T23:59:59")) == 1
    assert input_of(table, "groq", "m", at("2026-12-01T00:00")) == 2


def test_prices_of_the_time_of_day() -> None:
    prices = [
        {"input": 1, "output": 1},
        {"hours": ["01:00", "04:30"], "input": 2, "output": 2},
        {"hours": ["22:00", "00:30"], "input": 3, "output": 3},
    ]
    table = PriceTable(listed(groq=models({"id": "m", "prices": prices})))
    hours = {"00:29": 3, "00:30": 1, "00:59": 1, "01:00": 2, "04:29": 2, "04:30": 1, "21:59": 1, "22:00": 3}
    assert {hour: input_of(table, "groq", "m", at(f"2026-11-15T{hour}")) for hour in hours} == hours


def test_where_no_price_is_in_force_the_first_one_counts() -> None:
    prices = [{"since": "2030-01-01", "input": 1, "output": 1}, {"since": "2031-01-01", "input": 2, "output": 2}]
    table = PriceTable(listed(groq=models({"id": "m", "prices": prices})))
    assert input_of(table, "groq", "m") == 1


def test_steps_of_single_rates_become_tiers_of_all() -> None:
    price = {
        "input": {"base": 1, "steps": [[100, 2], [200, 3]]},
        "output": {"base": 5, "steps": [[200, 6]]},
        "cache_read": 0.5,
        "per_request": 0.012,
    }
    table = PriceTable(listed(groq=models({"id": "m", "prices": [price]})))
    common: dict[str, Any] = {"cache_read": USD // 2, "per_request": 12_000_000}
    assert table.find("groq", "m", NOW) == Rates(
        input=1 * USD,
        output=5 * USD,
        **common,
        tiers=(
            Tier(100, Rates(input=2 * USD, output=5 * USD, **common)),
            Tier(200, Rates(input=3 * USD, output=6 * USD, **common)),
        ),
    )


def test_a_service_tier_changes_what_it_names_and_the_first_one_in_force_counts() -> None:
    services = [
        {"service": "flex", "since": "2026-12-01", "input": 0.7},
        {"service": "flex", "input": 0.5, "output": 1},
        {"service": "priority", "since": "2027-01-01", "input": 9},
    ]
    table = PriceTable(listed(groq=models(entry("m", services=services))))
    rates = table.find("groq", "m", NOW)
    assert rates is not None
    assert rates.services == (Service("flex", Rates(input=USD // 2, output=USD)),)
    later = table.find("groq", "m", at("2026-12-02T00:00"))
    assert later is not None
    assert later.services == (Service("flex", Rates(input=700_000_000, output=USD)),)


def test_the_context_window_where_it_is_known() -> None:
    table = PriceTable(listed(groq=models(entry("m", context=128_000), entry("n"))))
    assert table.context_window("groq", "m") == 128_000
    assert table.context_window("groq", "n") is None
    assert table.context_window("local", "m") is None


def test_the_cache_of_names_is_bounded() -> None:
    table = PriceTable(listed(groq=models(entry("m"))))
    for number in range(10_001):
        table.find("groq", f"x{number}", NOW)
    assert len(table._found) <= 10_000
    assert input_of(table, "groq", "m") == 1


# A list that is none.


def broken(change: dict[str, Any]) -> bytes:
    document = {"version": "2026-11-15", "source": "", "licence": "", "providers": {"groq": models(entry("m"))}}
    return json.dumps(document | change).encode()


def with_model(**members: Any) -> bytes:
    return broken({"providers": {"groq": models({"id": "m", **members})}})


def with_price(**members: Any) -> bytes:
    return with_model(prices=[{"input": 1, "output": 1, **members}])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"null",
        b"{" * 10_000,
        b'{"version":"2026-11-15","source":"","licence":"","providers":{"groq":{"models":[{"id":"m","match":'
        + b'{"or":[' * 50_000,
        broken({"version": "newest"}),
        broken({"version": "2026-11-15; drop"}),
        broken({"version": "2026-11-15\n"}),
        broken({"version": "2026-13-15"}),
        broken({"more": 1}),
        broken({"providers": []}),
        with_model(id=""),
        with_model(id="x" * 257),
        with_model(context=-1),
        with_model(match={}),
        with_model(match={"glob": "*"}),
        with_model(match={"equals": "a", "contains": "b"}),
        with_model(match={"equals": ""}),
        with_model(match={"or": [{"or": [{"or": [{"or": [{"equals": "a"}]}]}]}]}),
        with_model(match={"regex": "(a+)+$"}),
        with_model(match={"regex": "["}),
        with_price(input=-1),
        with_price(input=-0.000001),
        with_price(output="1"),
        with_price(output=1_000_001),
        with_price(output=True),
        with_price(per_request=-1),
        with_price(vision=1),
        with_price(service="flex"),
        with_price(since="yesterday"),
        with_price(hours=["24:00", "01:00"]),
        with_price(hours=["01:00"]),
        with_price(cache_read={"base": 1, "steps": [[10, 2], [10, 3]]}),
        with_price(cache_read={"base": 1, "steps": [[20, 2], [10, 3]]}),
        with_price(cache_read={"base": 1, "steps": [[-1, 2]]}),
        with_price(cache_read={"base": -1, "steps": []}),
        with_price(cache_read={"base": 1, "steps": [[10, -2]]}),
        with_model(services=[{"input": 1}]),
        with_price(input=float("nan")),
        with_price(input=float("inf")),
        with_price().replace(b'"input": 1', b'"input": 1e400'),
    ],
)
def test_it_is_refused_with_one_line(data: bytes) -> None:
    with pytest.raises(InvalidPrices) as caught:
        decode_list(data)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("pattern", "is_taken"),
    [
        (r"^claude-fable-5-\d{8}$", True),
        (r"^claude-opus-5[-@]\d{8}$", True),
        (r"^gpt-5\.6-luna-\d{4}-\d{2}-\d{2}$", True),
        (r"^(?!.*-[tT][tT][sS](?:$|-))", True),
        (r"^composer-2\.5\[fast=false\]$", True),
        (r"a|b|c|d", True),
        (r"a|b|c|d|e", False),
        (r"(a|b)*", False),
        (r"(?:a*)*", False),
        (r".*.*", False),
        (r"a{1,9}", False),
        (r"(?:ab){99}", False),
        (r"a{999}", False),
        (r"a*?", False),
        (r"?a", False),
        (r"\1", False),
        (r"(", False),
        ("a" * 129, False),
    ],
)
def test_only_expressions_that_are_over_soon(pattern: str, is_taken: bool) -> None:
    assert is_safe_pattern(pattern) is is_taken


def test_a_list_is_written_as_it_is_read_one_model_a_line() -> None:
    made = listed(
        openai=models(entry("b", 2.50), entry("a", context=5, services=[{"service": "flex", "input": 0.5}])),
        azure=models(entry("c", {"base": 3.0, "steps": [[10, 4.0]]}), fallback=["openai"]),
    )
    data = encode_list(made)
    assert decode_list(data) == made
    assert encode_list(decode_list(data)) == data
    assert data.decode().splitlines() == [
        "{",
        '"version":"2026-11-15",',
        '"source":"a test",',
        '"licence":"",',
        '"providers":{',
        '"azure":{"fallback":["openai"],"models":[',
        '{"id":"c","prices":[{"input":{"base":3,"steps":[[10,4]]},"output":2}]}',
        "]},",
        '"openai":{"models":[',
        '{"id":"b","prices":[{"input":2.5,"output":2}]},',
        '{"id":"a","context":5,"prices":[{"input":1,"output":2}],"services":[{"service":"flex","input":0.5}]}',
        "]}",
        "}}",
    ]


def test_a_list_is_distinguished_from_other_documents() -> None:
    assert is_list(broken({"providers": "bad"}))
    assert not is_list(b'[{"id":"openai"}]')
    assert not is_list(b'{"units":{},"providers":[]}')


# The book.

TARGETS = [("eu", "azure", "gpt"), ("direct", "openai", "gpt")]


def book() -> PriceBook:
    prices = [{"input": 2, "output": 2}, {"hours": ["13:00", "14:00"], "input": 8, "output": 8}]
    return PriceBook(PriceTable(listed(openai=models({"id": "gpt", "prices": prices}))))


AT_COST = Sale(model="m")


def test_a_quote_has_every_target_and_the_version_of_the_list() -> None:
    quote = book().quote(TARGETS, AT_COST, NOW)
    assert quote.version == "2026-11-15"
    assert quote.rates == {"eu/gpt": None, "direct/gpt": Rates(input=2 * USD, output=2 * USD)}
    assert quote.prices is None
    later = book().quote(TARGETS, AT_COST, at("2026-11-15T13:00"))
    assert later.rates["direct/gpt"] == Rates(input=8 * USD, output=8 * USD)


def test_the_operators_price_is_that_of_every_target_and_no_cost() -> None:
    own = Rates(input=1, output=2)
    quote = book().quote(TARGETS, Sale(model="m", own=(DatedPrice(rates=own),)), NOW)
    assert quote.version == "2026-11-15+config"
    assert quote.rates == {"eu/gpt": None, "direct/gpt": Rates(input=2 * USD, output=2 * USD)}
    assert quote.sold == quote.prices == {"eu/gpt": own, "direct/gpt": own}


def test_built_in_providers_are_marked() -> None:
    assert book().quote([("local", "local", "smollm2")], AT_COST, NOW).version == "built-in"
    mixed = book().quote([("local", "local", "smollm2"), *TARGETS], AT_COST, NOW)
    assert mixed.version == "2026-11-15"
    assert mixed.rates["local/smollm2"] == FREE


def test_a_combined_quote_has_a_price_for_every_target_of_all() -> None:
    """A target that is in several has the cost and the price of the first."""
    prices, own = book(), Rates(input=1, output=2)
    rules = ChargeRules(cut="nothing")
    group = PriceGroup(name="g", markup=100_000, rules=rules)
    sold = prices.quote(TARGETS[1:], Sale(model="m", group=group), NOW)
    others = prices.quote(TARGETS, Sale(model="n", own=(DatedPrice(rates=own),)), NOW)
    quote = prices.combine([sold, others])
    assert quote.prices == {"direct/gpt": Rates(input=4 * USD, output=4 * USD), "eu/gpt": own}
    assert quote.rates == {"direct/gpt": Rates(input=2 * USD, output=2 * USD), "eu/gpt": None}
    assert (quote.version, quote.rules) == ("2026-11-15+group:g", rules)
    assert decode_quote(encode_quote(quote)) == quote
    assert prices.combine([prices.quote(TARGETS, AT_COST, NOW)] * 2).prices is None
