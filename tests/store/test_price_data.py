"""From the public data set to our list: what is taken, what is left out, and what is refused."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from streamweir.policy.pricing.pricelist import InvalidPrices, PriceList, decode_list
from streamweir.store.prices.data import read_data

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent / "pricedata"
DATA = (FOLDER / "data.json").read_bytes()


def read(data: bytes, version: str = "2026-11-15") -> PriceList:
    return read_data(data, version=version, source="a test", licence="")


def generate(out: Path, day: str = "2026-11-15") -> str:
    command = [sys.executable, str(ROOT / "scripts" / "prices.py"), "--date", day, "--out", str(out)]
    return subprocess.run(command, input=DATA, stdout=subprocess.PIPE, check=True).stdout.decode()  # noqa: S603


def test_the_script_makes_the_expected_list_and_makes_it_once(tmp_path: Path) -> None:
    out = tmp_path / "prices.json"
    assert generate(out) == "prices.json: written\n"
    assert out.read_bytes() == (FOLDER / "prices.json").read_bytes()
    assert generate(out, "2026-11-20") == "prices.json: as it was\n", "but for the day nothing has changed"
    assert out.read_bytes() == (FOLDER / "prices.json").read_bytes()
    assert generate(out, "2026-12-02") == "prices.json: written\n", "a price has come into force"
    assert decode_list(out.read_bytes()).version == "2026-12-02"


def test_the_published_form_is_a_list_of_providers_and_either_is_taken() -> None:
    providers = json.loads(DATA)["providers"]
    assert read(json.dumps(providers).encode()) == read(DATA)
    assert read(json.dumps({"units": {}, "providers": providers}).encode()) == read(DATA)


def test_what_has_been_is_left_out_and_what_is_to_come_is_kept() -> None:
    prices = read(DATA).providers["anthropic"].models[0].prices
    assert [price.since and price.since.isoformat() for price in prices] == [None, "2026-12-01"]
    later = read(DATA, "2026-12-01").providers["anthropic"].models[0].prices
    assert [(price.since, price.input) for price in later] == [(None, 4)]


def model(**members: Any) -> bytes:
    entry = {"id": "m", "match": {"equals": "m"}, "prices": {"input_mtok": 1, "output_mtok": 1}} | members
    return json.dumps([{"id": "openai", "models": [entry]}]).encode()


def priced(**prices: Any) -> bytes:
    return model(prices={"input_mtok": 1, "output_mtok": 1} | prices)


def conditional(**constraint: Any) -> bytes:
    return model(prices=[{"constraint": constraint, "prices": {"input_mtok": 1, "output_mtok": 1}}])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not json",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b"<!doctype html><title>404</title>",
        json.dumps([{"id": "nobody", "models": [{"id": "m", "match": {"equals": "m"}, "prices": {}}]}]).encode(),
        model(id=""),
        model(id="x" * 300),
        model(match={}),
        model(match={"glob": "m*"}),
        model(match={"equals": ""}),
        model(match={"regex": "(a|a)*$"}),
        model(match={"regex": "("}),
        model(match={"or": [{"equals": "a", "contains": "a"}]}),
        model(context_window=-5),
        model(prices=7),
        priced(input_mtok=-1),
        priced(output_mtok=-0.01),
        priced(output_mtok="10"),
        priced(output_mtok=1e12),
        priced(cache_read_mtok=[1]),
        priced(cache_read_mtok={"base": 1, "tiers": [{"start": 1, "price": -1}]}),
        priced(cache_read_mtok={"base": 1, "tiers": [{"start": -1, "price": 1}]}),
        priced(cache_read_mtok={"base": 1, "tiers": [{"start": 1, "price": 1}, {"start": 1, "price": 2}]}),
        priced(cache_read_mtok={"base": 1, "tiers": [], "mode": "marginal"}),
        priced(requests_kcount=-1),
        priced(requests_kcount={"base": 1, "tiers": []}),
        priced(web_searches_kcount={"base": 1, "tiers": []}),
        priced(web_searches_kcount=-1),
        priced(output_image_mtok=-1),
        priced(input_mtok=1).replace(b'"input_mtok": 1', b'"input_mtok": 1e400'),
        conditional(start_date="soon"),
        conditional(weekdays=["Monday"]),
        conditional(start_time="01:00:00Z"),
        conditional(start_time="01:00:30Z", end_time="02:00:00Z"),
        model(price_variants=[{"when": {"service_tier": ""}, "prices": {"input_mtok": 1}}]),
        model(price_variants=[{"when": {"service_tier": "flex"}, "prices": {"input_mtok": -1}}]),
    ],
)
def test_what_is_not_understood_is_refused_with_one_line(data: bytes) -> None:
    with pytest.raises(InvalidPrices) as caught:
        read(data)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
