"""Anthropic's exports: the pages of its usage and cost reports, and the CSV files of its console.

Buckets are in UTC. A usage report has no number of requests. The cost report has its amounts in cents, as text, and no
keys; the CSV file has them in dollars, rounded, with the names of keys and the models' names for people
(`Claude Haiku 4.5`).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from streamweir.policy.billing.exports.base import (
    DAY_MS,
    Amounts,
    Export,
    ExportError,
    ExportRow,
    count_in,
    count_of,
    elements,
    further_pages,
    member,
    moment_of,
    nano_of_dollars,
    shown,
    text_of,
    with_rounding,
    without_columns,
)

USAGE_COLUMNS = frozenset({"usage_date_utc", "model_version", "usage_input_tokens_no_cache", "usage_output_tokens"})
COST_COLUMNS = frozenset({"usage_date_utc", "model", "cost_usd"})
_INPUT = (
    "usage_input_tokens_no_cache",
    "usage_input_tokens_cache_write_5m",
    "usage_input_tokens_cache_write_1h",
    "usage_input_tokens_cache_read",
)
_CACHE_WRITES = ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")


def is_page(document: Any) -> bool:
    data = document.get("data") if isinstance(document, Mapping) else None
    return isinstance(data, list) and any(isinstance(each, Mapping) and "starting_at" in each for each in data)


def read_pages(pages: Iterable[Any]) -> Export:
    rows: list[ExportRow] = []
    kinds: set[str] = set()
    has_more = False
    for number, page in enumerate(pages):
        at = f"page {number + 1}"
        for index, bucket in enumerate(elements(page, "data", at)):
            where = f"{at}, data[{index}]"
            start_ms = moment_of(member(bucket, "starting_at", where), f"{where}.starting_at")
            end = member(bucket, "ending_at", where)
            end_ms = moment_of(end, f"{where}.ending_at") if end is not None else start_ms + DAY_MS
            for place, result in enumerate(elements(bucket, "results", where)):
                kind, model, key, amounts = _result(result, f"{where}.results[{place}]")
                kinds.add(kind)
                rows.append(ExportRow(start_ms=start_ms, end_ms=end_ms, model=model, key=key, amounts=amounts))
        has_more = bool(member(page, "has_more", at))
    if len(kinds) > 1:
        raise ExportError("the file has both usage and costs: compare one at a time")
    return Export(
        provider="anthropic", what="cost" if "cost" in kinds else "usage", rows=rows, notes=further_pages(has_more)
    )


def _result(result: Any, where: str) -> tuple[str, str | None, str | None, Amounts]:
    model = text_of(member(result, "model", where))
    amount = member(result, "amount", where)
    if amount is not None:
        currency = member(result, "currency", where)
        if currency not in (None, "USD"):
            raise ExportError(f"{where}: the amounts are not in US dollars but in {shown(currency)}")
        cost = nano_of_dollars(amount, f"{where}.amount", divided_by=100)
        return "cost", model or text_of(member(result, "description", where)), None, Amounts(cost=cost)
    read = count_of(member(result, "cache_read_input_tokens", where), f"{where}.cache_read_input_tokens")
    writes = member(result, "cache_creation", where) or {}
    written = sum(count_of(member(writes, name, where), f"{where}.cache_creation.{name}") for name in _CACHE_WRITES)
    fresh = count_of(member(result, "uncached_input_tokens", where), f"{where}.uncached_input_tokens")
    amounts = Amounts(
        input_tokens=fresh + written + read,
        cached_tokens=read,
        output_tokens=count_of(member(result, "output_tokens", where), f"{where}.output_tokens"),
    )
    return "usage", model, text_of(member(result, "api_key_id", where)), amounts


def read_usage_csv(lines: Iterable[tuple[int, Mapping[str, str]]]) -> Export:
    rows, notes = [], []
    for number, line in lines:
        where = f"line {number}"
        parts = [count_in(line, name, where) for name in _INPUT]
        counts = [count for count in parts if count is not None]
        amounts = Amounts(
            input_tokens=sum(counts) if len(counts) == len(parts) else None,
            cached_tokens=parts[-1],
            output_tokens=count_in(line, "usage_output_tokens", where),
        )
        rows.append(_row(line, where, text_of(line["model_version"]), amounts))
        notes = without_columns(line, dict.fromkeys(_INPUT, "input"))
    return Export(provider="anthropic", what="usage", rows=rows, notes=notes)


def read_cost_csv(lines: Iterable[tuple[int, Mapping[str, str]]]) -> Export:
    rows = []
    for number, line in lines:
        where = f"line {number}"
        cost = nano_of_dollars(line["cost_usd"], f"{where}, cost_usd")
        name = text_of(line["model"]) or text_of(line.get("cost_type")) or "other"
        rows.append(_row(line, where, name, Amounts(cost=cost)))
    return Export(provider="anthropic", what="cost", rows=with_rounding(rows))


def _row(line: Mapping[str, str], where: str, model: str | None, amounts: Amounts) -> ExportRow:
    start_ms = moment_of(line["usage_date_utc"], f"{where}, usage_date_utc")
    key = text_of(line.get("api_key")) or text_of(line.get("api_key_id"))
    start_ms -= start_ms % DAY_MS  # the file can be by the hour
    return ExportRow(start_ms=start_ms, end_ms=start_ms + DAY_MS, model=model, key=key, amounts=amounts)
