"""OpenAI's exports: the pages of its usage and costs APIs, and the CSV files of its usage page.

Buckets are in UTC. `input_tokens` includes cached ones. A line item of a cost is `{model}, {kind of token}`, or a tool.
A row of a CSV file without values is a day without usage.
"""

from collections.abc import Iterable, Iterator, Mapping
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
    in_range,
    member,
    nano_of_dollars,
    shown,
    text_of,
    without_columns,
)

USAGE_COLUMNS = frozenset({"start_time", "num_model_requests", "input_tokens", "model"})
COST_COLUMNS = frozenset({"start_time", "amount_value", "amount_currency"})
_MAY_BE_ABSENT = {"input_cached_tokens": "cached input", "output_tokens": "output"}
_KINDS = ("input", "cached input", "output", "training")


def is_page(document: Any) -> bool:
    return isinstance(document, Mapping) and isinstance(document.get("data"), list) and _has_bucket(document["data"])


def _has_bucket(data: list[Any]) -> bool:
    return any(isinstance(each, Mapping) and "start_time" in each and "results" in each for each in data)


def read_pages(pages: Iterable[Any]) -> Export:
    rows: list[ExportRow] = []
    kinds: set[str] = set()
    has_more = False
    for number, page in enumerate(pages):
        at = f"page {number + 1}"
        for index, bucket in enumerate(elements(page, "data", at)):
            where = f"{at}, data[{index}]"
            for place, result in enumerate(elements(bucket, "results", where)):
                kind, row = _result(bucket, result, f"{where}.results[{place}]")
                kinds.add(kind)
                rows.append(row)
        has_more = bool(member(page, "has_more", at))
    if len(kinds) > 1:
        raise ExportError("the file has both usage and costs: compare one at a time")
    return Export(
        provider="openai", what="cost" if "cost" in kinds else "usage", rows=rows, notes=further_pages(has_more)
    )


def _result(bucket: Any, result: Any, where: str) -> tuple[str, ExportRow]:
    start, end = (member(bucket, name, where) for name in ("start_time", "end_time"))
    key = text_of(member(result, "api_key_id", where))
    amount = member(result, "amount", where)
    if amount is not None:
        currency = member(amount, "currency", where)
        cost = nano_of_dollars(member(amount, "value", where) or 0, f"{where}.amount.value")
        line = text_of(member(result, "line_item", where))
        return "cost", _row(start, end, where, model_of(line), key, _in_dollars(cost, currency, where))
    amounts = Amounts(
        requests=count_of(member(result, "num_model_requests", where), f"{where}.num_model_requests"),
        input_tokens=count_of(member(result, "input_tokens", where), f"{where}.input_tokens"),
        cached_tokens=count_of(member(result, "input_cached_tokens", where), f"{where}.input_cached_tokens"),
        output_tokens=count_of(member(result, "output_tokens", where), f"{where}.output_tokens"),
    )
    return "usage", _row(start, end, where, text_of(member(result, "model", where)), key, amounts)


def read_usage_csv(lines: Iterable[tuple[int, Mapping[str, str]]]) -> Export:
    known = list(lines)
    notes = without_columns(known[0][1] if known else None, _MAY_BE_ABSENT)
    return Export(provider="openai", what="usage", rows=list(_usage_rows(known)), notes=notes)


def _usage_rows(lines: Iterable[tuple[int, Mapping[str, str]]]) -> Iterator[ExportRow]:
    for number, line in lines:
        where = f"line {number}"
        amounts = Amounts(
            requests=count_in(line, "num_model_requests", where),
            input_tokens=count_in(line, "input_tokens", where),
            cached_tokens=count_in(line, "input_cached_tokens", where),
            output_tokens=count_in(line, "output_tokens", where),
        )
        if line["num_model_requests"]:
            key, model = text_of(line.get("api_key_id")), text_of(line["model"])
            yield _row(line["start_time"], line.get("end_time"), where, model, key, amounts)


def read_cost_csv(lines: Iterable[tuple[int, Mapping[str, str]]]) -> Export:
    rows = []
    for number, line in lines:
        where = f"line {number}"
        if line["amount_value"]:
            cost = nano_of_dollars(line["amount_value"], f"{where}, amount_value")
            amounts = _in_dollars(cost, line["amount_currency"], where)
            model, key = model_of(text_of(line.get("line_item"))), text_of(line.get("api_key_id"))
            rows.append(_row(line["start_time"], line.get("end_time"), where, model, key, amounts))
    return Export(provider="openai", what="cost", rows=rows)


def model_of(line_item: str | None) -> str | None:
    """`gpt-4o-2024-08-06, cached input` is of that model; others have their own names."""
    if line_item is None:
        return None
    name, comma, kind = line_item.rpartition(",")
    return name.strip() if comma and kind.strip().lower() in _KINDS else line_item


def _in_dollars(cost: int, currency: Any, where: str) -> Amounts:
    if not isinstance(currency, str) or currency.lower() != "usd":
        raise ExportError(f"{where}: the amounts are not in US dollars but in {shown(currency)}")
    return Amounts(cost=cost)


def _row(start: Any, end: Any, where: str, model: str | None, key: str | None, amounts: Amounts) -> ExportRow:
    start_ms = in_range(count_of(start, f"{where}, start_time") * 1000, f"{where}, start_time")
    end_ms = in_range(count_of(end, f"{where}, end_time") * 1000 or start_ms + DAY_MS, f"{where}, end_time")
    return ExportRow(start_ms=start_ms, end_ms=end_ms, model=model, key=key, amounts=amounts)
