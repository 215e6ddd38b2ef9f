"""The built-in price list, and the one from an update."""

import os
import stat
from pathlib import Path

import pytest
from msgspec import structs

from streamweir.core.usage import Usage
from streamweir.policy.pricing.pricelist import Model, Price, PriceList, Provider, check_list, decode_list, encode_list
from streamweir.policy.pricing.prices import Rates, cost_of, in_dollars
from streamweir.policy.pricing.pricetable import PROVIDER_IDS, PriceTable
from streamweir.store.prices import file as pricefile
from streamweir.store.prices.file import (
    MAX_BYTES,
    PriceFileError,
    builtin_version,
    load_prices,
    read_bounded,
    save_prices,
)

BUILT_IN, _ = load_prices(None)
TABLE = PriceTable(BUILT_IN)
NOW = 1_794_744_000_000  # 2026-11-15T12:00Z


def small(version: str = "2099-01-01", rate: float = 1.0) -> PriceList:
    models = (Model(id="m", prices=(Price(input=rate, output=rate),)),)
    return PriceList(version=version, source="a test", licence="", providers={"openai": Provider(models=models)})


# What came with the program.


def test_the_built_in_list_is_a_good_list_with_a_day_a_source_and_a_licence() -> None:
    check_list(BUILT_IN)
    assert BUILT_IN.version == builtin_version() >= "2026-11-15"
    assert "genai-prices" in BUILT_IN.source
    assert "https://github.com/pydantic/genai-prices" in BUILT_IN.source
    assert "MIT" in BUILT_IN.licence
    assert "Copyright (c) Pydantic Services Inc." in BUILT_IN.licence


def test_the_built_in_list_is_as_the_script_writes_it() -> None:
    data = pricefile._builtin()
    assert encode_list(decode_list(data)) == data
    assert len(data) < 330_000, "packed, changes could not be read"


def test_it_has_every_provider_of_a_kind() -> None:
    assert set(PROVIDER_IDS.values()) <= BUILT_IN.providers.keys()
    assert sum(len(provider.models) for provider in BUILT_IN.providers.values()) > 1500


def test_no_rate_is_absurd() -> None:
    for row in TABLE.rows(NOW):
        if row.rates is None:
            continue
        for rates in (row.rates, *(tier.rates for tier in row.rates.tiers)):
            shown = in_dollars(rates)
            assert all(0 <= shown[name] <= 1000 for name in shown if name not in ("tiers", "services")), row
            assert cost_of(Usage(input_uncached=1000, output=1000), rates) >= 0


@pytest.mark.parametrize(
    ("kind", "model", "expected"),
    [
        ("openai", "gpt-4o", {"input": 2.5, "output": 10, "cache_read": 1.25, "per_search": 0.01}),
        ("openai", "gpt-4o-2024-08-06", {"input": 2.5, "output": 10, "cache_read": 1.25, "per_search": 0.01}),
        ("openai", "gpt-4o-mini", {"input": 0.15, "output": 0.6, "cache_read": 0.075, "per_search": 0.01}),
        ("openai", "gpt-5", {"input": 1.25, "output": 10, "cache_read": 0.125, "per_search": 0.01}),
        ("azure", "gpt-4o", {"input": 2.5, "output": 10, "cache_read": 1.25, "per_search": 0.01}),
        (
            "anthropic",
            "claude-sonnet-4-20250514",
            {
                "input": 3,
                "output": 15,
                "cache_read": 0.3,
                "cache_write": 3.75,
                "cache_write_1h": 6,
                "per_search": 0.01,
            },
        ),
        (
            "vertex",
            "claude-sonnet-4-6@default",
            {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75, "cache_write_1h": 6},
        ),
        (
            "bedrock",
            "global.anthropic.claude-sonnet-4-5-20250929-v1:0",
            {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75, "cache_write_1h": 6},
        ),
        (
            "bedrock",
            "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
            {"input": 3.3, "output": 16.5, "cache_read": 0.33, "cache_write": 4.125, "cache_write_1h": 6.6},
        ),
        ("bedrock", "us.amazon.nova-pro-v1:0", {"input": 0.8, "output": 3.2, "cache_read": 0.2}),
        ("bedrock", "amazon.titan-embed-text-v2:0", {"input": 0.02, "output": 0}),
        (
            "bedrock-mantle",
            "anthropic.claude-opus-4-8",
            {"input": 5.5, "output": 27.5, "cache_read": 0.55, "cache_write": 6.875, "cache_write_1h": 11},
        ),
        (
            "anthropic",
            "claude-haiku-4-5",
            {
                "input": 1,
                "output": 5,
                "cache_read": 0.1,
                "cache_write": 1.25,
                "cache_write_1h": 2,
                "per_search": 0.01,
            },
        ),
        (
            "gemini",
            "gemini-2.5-pro",
            {
                "input": 1.25,
                "output": 10,
                "cache_read": 0.125,
                "per_search": 0.035,
                "tiers": [
                    {
                        "above_prompt_tokens": 200_000,
                        "input": 2.5,
                        "output": 15,
                        "cache_read": 0.25,
                        "per_search": 0.035,
                    }
                ],
            },
        ),
        (
            "gemini",
            "gemini-2.5-flash",
            {"input": 0.3, "output": 2.5, "cache_read": 0.03, "audio_input": 1, "per_search": 0.035},
        ),
        ("gemini", "gemini-2.5-flash-image", {"input": 0.3, "output": 2.5, "image_output": 30}),
        ("perplexity", "sonar-deep-research", {"input": 2, "output": 8, "reasoning": 3, "per_search": 0.005}),
        ("openrouter", "openai/gpt-4o", {"input": 2.5, "output": 10, "cache_read": 1.25}),
        ("openrouter", "deepseek/deepseek-chat-v3-0324:free", {"input": 0, "output": 0}),
        ("perplexity", "sonar-pro", {"input": 3, "output": 15, "per_request": 0.014}),
    ],
)
def test_published_rates(kind: str, model: str, expected: dict[str, object]) -> None:
    rates = TABLE.find(kind, model, NOW)
    assert rates is not None
    shown = in_dollars(rates)
    shown.pop("services", None)
    assert shown == expected


def test_service_tiers_are_there() -> None:
    rates = TABLE.find("openai", "gpt-4o", NOW)
    assert rates is not None
    priority = Rates(input=4_250_000_000, output=17_000_000_000, cache_read=2_125_000_000, per_search=10_000_000)
    assert rates.in_force(0, "priority") == priority


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        ("openai", "my-own-finetune"),
        ("openai", "omni-moderation-latest"),
        ("azure", "our-deployment"),
        ("ollama", "llama3"),
        ("openai-compatible", "gpt-4o"),
    ],
)
def test_what_is_not_known_has_no_price(kind: str, model: str) -> None:
    assert TABLE.find(kind, model, NOW) is None


# The file in the data folder.


def test_a_saved_list_is_used_and_private(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    file = save_prices(small(), folder)
    assert load_prices(folder) == (small(), file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert list(folder.iterdir()) == [file]


def test_the_later_of_the_two_lists_is_used(tmp_path: Path) -> None:
    save_prices(small(version="2020-01-01"), tmp_path)
    assert load_prices(tmp_path) == (BUILT_IN, None)
    same_day = small(version=f"{BUILT_IN.version[:10]}.0f")
    save_prices(same_day, tmp_path)
    assert load_prices(tmp_path)[0] == same_day, "of one day's the one that was asked for"


def test_without_a_file_the_built_in_list_is_used(tmp_path: Path) -> None:
    assert load_prices(tmp_path) == (BUILT_IN, None)
    assert load_prices(tmp_path / "nowhere") == (BUILT_IN, None)


@pytest.mark.parametrize("content", [b"", b"{}", b"garbage", encode_list(small(rate=1)).replace(b":1,", b":-1,")])
def test_a_broken_file_is_reported_and_not_ignored(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "prices.json"
    file.write_bytes(content)
    with pytest.raises(PriceFileError, match="prices update") as caught:
        load_prices(tmp_path)
    assert str(file) in str(caught.value)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "prices.json").open("wb") as out:
        out.truncate(MAX_BYTES + 1)
    with pytest.raises(PriceFileError, match="larger than"):
        load_prices(tmp_path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "prices.json").mkdir()
    with pytest.raises(PriceFileError, match="cannot be read"):
        load_prices(tmp_path)
    with pytest.raises(PriceFileError, match="no such file"):
        read_bounded(tmp_path / "absent.json")


def test_what_cannot_be_written_leaves_the_old_one_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_prices(small(), tmp_path)

    def full(_: int) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(PriceFileError, match="No space left"):
            save_prices(structs.replace(small(), source="another"), tmp_path)
    assert load_prices(tmp_path)[0] == small()
    assert [file.name for file in tmp_path.iterdir()] == ["prices.json"]
