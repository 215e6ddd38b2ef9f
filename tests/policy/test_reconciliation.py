"""A provider's export beside the ledger: which groups are compared, and what counts as a difference."""

from typing import Any

import pytest

from streamweir.policy.billing.exports.base import DAY_MS, HOUR_MS, Amounts, Export, ExportRow, moment_of
from streamweir.policy.billing.reconciliation import (
    Line,
    ModelNames,
    Reconciliation,
    Usage,
    compare,
    period_of,
    words_of,
)

FIRST = moment_of("2026-10-01", "")


def row(model: str | None = "m", key: str | None = None, day: int = 0, days: int = 1, **amounts: int) -> ExportRow:
    start = FIRST + day * DAY_MS
    found = Amounts(**amounts)
    return ExportRow(start_ms=start, end_ms=start + days * DAY_MS, model=model, key=key, amounts=found)


def export(*rows: ExportRow, **more: Any) -> Export:
    return Export(provider="openai", what="cost", rows=list(rows), **more)


def used(model: str = "m", credential: str = "", hour: int = 0, **amounts: int) -> Usage:
    zeros = dict.fromkeys(("requests", "input_tokens", "cached_tokens", "output_tokens", "cost", "uncosted"), 0)
    return Usage(at_ms=FIRST + hour * HOUR_MS, model=model, credential=credential, **(zeros | amounts))


def compared(file: Export, *usage: Usage, tolerance: float = 0.0, **renamed: dict[str, str]) -> Reconciliation:
    names = {"models": renamed.get("models", {}), "keys": renamed.get("keys", {})}
    return compare(file, usage, tolerance_percent=tolerance, **names)


def short(lines: list[Line]) -> list[tuple[str, str | None, str | None, str, int, int, bool]]:
    return [(each.day, each.model, each.key, each.what, each.provider, each.ledger, each.differs) for each in lines]


def test_by_day_and_model_with_what_only_one_side_has() -> None:
    file = export(row("a", cost=10), row("a", cost=5), row("b", day=1, cost=7))
    found = compared(file, used("a", hour=0, cost=7), used("a", hour=23, cost=8), used("c", hour=24, cost=3))
    assert short(found.lines) == [
        ("2026-10-01", "a", None, "cost", 15, 15, False),
        ("2026-10-02", "b", None, "cost", 7, 0, True),
        ("2026-10-02", "c", None, "cost", 0, 3, True),
    ]
    assert short(found.totals) == [("", None, None, "cost", 22, 18, True)]
    assert [(line.difference, line.percent) for line in found.lines] == [(0, 0.0), (7, None), (-3, -100.0)]
    assert (found.totals[0].difference, found.totals[0].percent) == (4, 22.22)
    assert found.differs
    assert found.notes == []


def test_only_what_every_row_of_the_file_has_is_compared() -> None:
    file = export(row(input_tokens=5, output_tokens=2), row(input_tokens=1, output_tokens=1, cached_tokens=1))
    found = compared(file, used(input_tokens=6, output_tokens=3, cached_tokens=9, requests=7, cost=99, uncosted=1))
    assert [(line.what, line.differs) for line in found.lines] == [("input_tokens", False), ("output_tokens", False)]
    assert not found.differs
    assert found.notes == [], "no cost was compared"


def test_a_file_without_models_is_compared_by_day() -> None:
    found = compared(export(row(None, cost=5)), used("a", cost=2), used("b", cost=3))
    assert short(found.lines) == [("2026-10-01", None, None, "cost", 5, 5, False)]


def test_a_file_that_is_not_by_day_is_one_period() -> None:
    file = export(row(cost=5, days=31), row(cost=1, day=3, days=1))
    assert period_of(file) == (FIRST, FIRST + 31 * DAY_MS)
    found = compared(file, used(cost=2), used(hour=700, cost=4))
    assert short(found.lines) == [("2026-10-01..2026-10-31", "m", None, "cost", 6, 6, False)]


def test_keys_are_compared_if_the_ledger_names_them() -> None:
    file = export(row(key="key_1", cost=5), row(key="second", cost=3), row(key="key_9", cost=1))
    usage = (used(credential="first", cost=5), used(credential="second", cost=3))
    found = compared(file, *usage, keys={"key_1": "first"})
    assert short(found.lines) == [
        ("2026-10-01", "m", "first", "cost", 5, 5, False),
        ("2026-10-01", "m", "key_9", "cost", 1, 0, True),
        ("2026-10-01", "m", "second", "cost", 3, 3, False),
    ]
    summed = compared(file, used(cost=9))
    assert short(summed.lines) == [("2026-10-01", "m", None, "cost", 9, 9, False)]
    assert summed.notes == ["The ledger names no credentials: the keys of the file are summed up."]
    without = compared(export(row(cost=8)), *usage)
    assert short(without.lines) == [("2026-10-01", "m", None, "cost", 8, 8, False)]
    assert without.notes == ["The file has no keys: the credentials of the ledger are summed up."]


@pytest.mark.parametrize(
    ("provider", "ledger", "percent", "rounding", "differs"),
    [
        (101, 100, 1.0, 0, False),
        (102, 100, 1.0, 0, True),
        (0, 1, 1.0, 0, True),
        (1, 0, 100.0, 0, False),
        (100, 101, 0.0, 0, True),
        (100, 105, 0.0, 5, False),
        (100, 106, 0.0, 5, True),
    ],
)
def test_the_tolerance(provider: int, ledger: int, percent: float, rounding: int, differs: bool) -> None:
    file = export(row(cost=provider, rounding=rounding, input_tokens=7))
    found = compared(file, used(cost=ledger, input_tokens=7), tolerance=percent)
    assert [line.differs for line in found.lines if line.what == "cost"] == [differs]
    assert found.differs is differs


def test_many_small_differences_make_a_total_that_differs() -> None:
    file = export(*(row(day=day, cost=100, rounding=0) for day in range(3)))
    usage = [used(hour=24 * day, cost=99) for day in range(3)]
    assert not compared(file, *usage, tolerance=1.0).differs
    assert compared(file, *usage, tolerance=0.9).differs


def test_requests_without_a_cost_are_noted() -> None:
    found = compared(export(row(cost=5)), used(cost=5, uncosted=1200))
    assert found.notes == ["The cost of 1,200 requests in the ledger is not known: their models have no price."]


def test_days_begin_where_the_provider_says() -> None:
    """Seven hours later in October: the last hours of a day of Google's are of the next in UTC."""
    start = FIRST + 7 * HOUR_MS
    one_day = ExportRow(start_ms=start, end_ms=start + DAY_MS, model="m", amounts=Amounts(cost=9))
    file = Export(provider="google", what="cost", rows=[one_day], zone="Pacific")
    assert period_of(file) == (start, start + DAY_MS)
    found = compared(file, used(hour=7, cost=4), used(hour=30, cost=5))
    assert short(found.lines) == [("2026-10-01", "m", None, "cost", 9, 9, False)]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("gpt-4o", "gpt-4o-2024-05-13"),
        ("claude-haiku-4-5-20251001", "claude-haiku-4-5"),
        ("Claude Haiku 4.5", "claude-haiku-4-5-20251001"),
        ("Claude Haiku 3.5", "claude-3-5-haiku-latest"),
        ("gemini 2.5 flash preview", "gemini-2.5-flash-preview-09-2025"),
        ("gemini 2.0 flash lite", "gemini-2.0-flash-lite-001"),
        ("image gemini 3 pro image", "gemini-3-pro-image-preview"),
        ("gemini 2.5 pro input image", "gemini-2.5-pro"),
        ("gemini 2.5 flash", "google/gemini-2.5-flash"),
    ],
)
def test_names_of_one_model(theirs: str, ours: str) -> None:
    assert ModelNames([ours, "gpt-4", "gemini-2.5", "o4-mini"], {}).name_of(theirs) == ours


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("gpt-4o-mini", "gpt-4o"),
        ("gpt-4o", "gpt-4o-mini"),
        ("gpt-4.1", "gpt-4"),
        ("gemini 2.5 flash lite", "gemini-2.5-flash"),
        ("gemini 2.5 flash", "gemini-2.5-flash-lite"),
        ("Claude Haiku 4.5", "claude-sonnet-4-5"),
        ("grounding with google search", "gemini-2.5-flash"),
    ],
)
def test_names_of_different_models(theirs: str, ours: str) -> None:
    assert ModelNames([ours], {}).name_of(theirs) == theirs
    assert words_of(theirs) != words_of(ours)


def test_the_operator_names_a_model() -> None:
    names = ModelNames(["ft:gpt-4o:us"], {"our tuned model": "ft:gpt-4o:us"})
    assert names.name_of("our tuned model") == "ft:gpt-4o:us"
