"""Google's exports: CSV files of the billing reports and of the cost table, and rows of the export to BigQuery as JSON.

Google bills by SKU. Its description names model and direction (`Generate content output token count gemini 2.5 flash
short input text` is output), so both are read from it; underscores are spaces. Tokens are in the usage of SKUs whose
unit is a count. Costs are net: after savings and credits. The row of a credit has a negative cost, and repeats the
usage of the row that it belongs to, which counts once. Days of the reports begin at midnight Pacific time; rows of
BigQuery have times in UTC.
There are no API keys in these files: a row's key is its project, if the file has it. Rows of other services, and sums
at the end of a file, are left out.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from streamweir.policy.billing.exports.base import (
    DAY_MS,
    HOUR_MS,
    Amounts,
    Export,
    ExportError,
    ExportRow,
    count_of,
    day_name,
    member,
    midnight_in,
    moment_of,
    nano_of_dollars,
    shown,
    text_of,
    with_rounding,
)

SKU = "sku description"
_SERVICES = ("gemini", "generative language", "vertex ai")
_COSTS = ("unrounded subtotal", "unrounded cost", "subtotal", "cost")
"""The columns with what is asked for, the most exact first; the currency stands behind them."""
_CURRENCY = re.compile(r"(?P<name>.*?) \((?P<currency>[^)]*)\)")
_DIRECTION = re.compile(r"\b(input|output)\b(?= token)", re.IGNORECASE)
_ANY_DIRECTION = re.compile(r"\b(input|output)\b", re.IGNORECASE)
_CACHED = re.compile(r"\b(cached|caching)\b", re.IGNORECASE)
_COUNTS = ("count", "tokens", "token")
_NO_MODEL = re.compile(
    r"generate ?content|embed ?content|token count|(?:online )?predictions|native(?= image)|(?<=image )generation|"
    r"cloud vertex ai model garden model as a service|"
    r"\b(?:for|cached|caching|input|output|short|long|text|audio|video|batch|flex|priority|ga|thinking|global|offpeak)\b|"
    r"-+(?= )|-$",
    re.IGNORECASE,
)
_IMAGE_TOKENS = re.compile(
    r"\bimage(?= (?:input |output )?token count)|"
    r"token count (?!for ).*\bimage(?=(?: caching| batch| flex| priority)*$)",
    re.IGNORECASE,
)
"""A kind of token. Elsewhere `image` belongs to the name of a model."""


def is_row(document: Any) -> bool:
    return isinstance(document, Mapping) and "usage_start_time" in document and "sku" in document


def read_rows(documents: Iterable[Any]) -> Export:
    """Rows of `gcp_billing_export_v1_...`: nested, as BigQuery writes JSON; numbers may be text."""
    rows: list[ExportRow] = []
    others = 0
    for number, document in enumerate(documents, 1):
        where = f"row {number}"
        if not _is_ours(text_of(_inner(document, "service", "description", where))):
            others += 1
            continue
        currency = member(document, "currency", where)
        if currency not in (None, "USD"):
            raise ExportError(f"{where}: the amounts are not in US dollars but in {shown(currency)}")
        credits = member(document, "credits", where) or []
        if not isinstance(credits, list):
            raise ExportError(f"{where}.credits: expected a list")
        cost = nano_of_dollars(member(document, "cost", where), f"{where}.cost")
        cost += sum(nano_of_dollars(member(each, "amount", where), f"{where}.credits") for each in credits)
        sku = text_of(_inner(document, "sku", "description", where)) or "unknown SKU"
        start_ms = moment_of(member(document, "usage_start_time", where), f"{where}.usage_start_time")
        used, unit = (_inner(document, "usage", name, where) for name in ("amount", "unit"))
        rows.append(
            ExportRow(
                start_ms=start_ms,
                end_ms=start_ms // HOUR_MS * HOUR_MS + HOUR_MS,
                model=model_of(sku),
                key=text_of(_inner(document, "project", "id", where)),
                amounts=_amounts(sku, used, text_of(unit), cost, where),
            )
        )
    return Export(provider="google", what="usage and cost", rows=rows, notes=_notes(others))


def read_csv(lines: Iterable[tuple[int, Mapping[str, str]]], preamble: Mapping[str, str]) -> Export:
    """`preamble`: what stands above the columns (`start date`). Columns have lower case names."""
    if (currency := text_of(preamble.get("currency"))) not in (None, "USD"):  # `($)` is also that of other dollars
        raise ExportError(f"the amounts are not in US dollars but in {shown(currency)}")
    rows: list[ExportRow] = []
    others, is_exact = 0, False
    for number, line in lines:
        where = f"line {number}"
        sku = text_of(line[SKU])
        if sku is None:
            continue  # a sum at the end of the file, or a tax
        if "service description" in line and not _is_ours(text_of(line["service description"])):
            others += 1
            continue
        column, amount = _cost_of(line, where)
        is_exact |= column.startswith("unrounded")
        start_ms, end_ms = _period(line, preamble, where)
        unit = text_of(line.get("usage unit"))
        cost = nano_of_dollars(amount, f"{where}, cost")
        used = line.get("usage amount") if text_of(line.get("credit type")) is None else None
        amounts = _amounts(sku, used, unit, cost, where)
        key = text_of(line.get("project id"))
        rows.append(ExportRow(start_ms=start_ms, end_ms=end_ms, model=model_of(sku), key=key, amounts=amounts))
    rows = rows if is_exact else with_rounding(rows)
    return Export(provider="google", what="usage and cost", rows=rows, zone="Pacific", notes=_notes(others))


def model_of(sku: str) -> str:
    """What is left of a description without its direction, modality and service tier: `gemini 2.5 flash lite`."""
    name = _IMAGE_TOKENS.sub(lambda found: found[0].removesuffix("image"), sku.replace("_", " "))
    return " ".join(_NO_MODEL.sub(" ", name).split()).lower() or sku


def _amounts(sku: str, used: Any, unit: str | None, cost: int, where: str) -> Amounts:
    sku = sku.replace("_", " ")
    found = _DIRECTION.search(sku) or _ANY_DIRECTION.search(sku)
    if found is None or unit is None or unit.lower() not in _COUNTS:
        return Amounts(input_tokens=0, cached_tokens=0, output_tokens=0, cost=cost)
    tokens = count_of(used, f"{where}, usage amount")
    is_input, is_cached = found[1].lower() == "input", _CACHED.search(sku) is not None
    return Amounts(
        input_tokens=tokens if is_input else 0,
        cached_tokens=tokens if is_input and is_cached else 0,
        output_tokens=0 if is_input else tokens,
        cost=cost,
    )


def _cost_of(line: Mapping[str, str], where: str) -> tuple[str, str]:
    """The name of the column, and what it has."""
    columns = {found["name"]: (name, found["currency"]) for name in line if (found := _CURRENCY.fullmatch(name))}
    for wanted in _COSTS:
        if wanted in columns:
            name, currency = columns[wanted]
            if currency.upper() not in ("$", "USD", "US$"):
                raise ExportError(f"{where}: the amounts are not in US dollars but in {shown(currency)}")
            return wanted, line[name] or "0"
    raise ExportError(f"{where}: there is no column with the cost")


def _period(line: Mapping[str, str], preamble: Mapping[str, str], where: str) -> tuple[int, int]:
    if text_of(line.get("date")) is not None:
        first = last = moment_of(line["date"], f"{where}, date")
    elif text_of(line.get("usage start date")) is not None:
        first = moment_of(line["usage start date"], f"{where}, usage start date")
        last = moment_of(line.get("usage end date") or line["usage start date"], f"{where}, usage end date")
    elif (month := text_of(line.get("month"))) is not None:
        first = moment_of(f"{month}-01", f"{where}, month")
        last = (first + 31 * DAY_MS) // DAY_MS * DAY_MS
        while day_name(last)[:7] != month:
            last -= DAY_MS
    elif {"start date", "end date"} <= preamble.keys():
        first, last = (moment_of(preamble[name], f"the {name}") for name in ("start date", "end date"))
    else:
        raise ExportError(f"{where}: the file has no dates. Group the report by day, or export it by invoice month")
    return midnight_in(first, "Pacific"), midnight_in(last + DAY_MS, "Pacific")


def _inner(document: Any, name: str, inner: str, where: str) -> Any:
    found = member(document, name, where)
    return member(found, inner, f"{where}.{name}") if found is not None else None


def _is_ours(service: str | None) -> bool:
    return service is None or any(each in service.lower() for each in _SERVICES)


def _notes(others: int) -> list[str]:
    return [f"Rows of other services, which were left out: {others:,}."] if others else []
