"""Finds out whose export a file is, and reads it: by its columns or members, never by its name.

JSON: one document, a list of documents (pages), or one document on each line. CSV: the columns stand in the first line,
or below a few lines about the report (Google); commas or tabs.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from streamweir.policy.billing.exports import anthropic, google, openai
from streamweir.policy.billing.exports.base import Export, ExportError
from streamweir.wire import jsonio

MAX_BYTES = 256 << 20
_MAX_PREAMBLE = 20
_KNOWN = (
    "expected a usage or cost export of OpenAI, Anthropic or Google, in JSON or CSV (docs/invoices.md lists the files)"
)


def read_export(data: bytes) -> Export:
    """Raises `ExportError`."""
    if len(data) > MAX_BYTES:
        raise ExportError(f"the file is larger than {MAX_BYTES >> 20} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ExportError("the file is not text in UTF-8") from None
    export = _read_json(text) if text.lstrip()[:1] in ("{", "[") else _read_csv(text)
    if not export.rows:
        raise ExportError("the file has no usage")
    if any(row.start_ms >= row.end_ms for row in export.rows):
        raise ExportError("a period in the file ends before it begins")
    return export


def _read_json(text: str) -> Export:
    documents = _documents(text)
    if documents and all(map(google.is_row, documents)):
        return google.read_rows(documents)
    if any(map(openai.is_page, documents)):
        return openai.read_pages(documents)
    if any(map(anthropic.is_page, documents)):
        return anthropic.read_pages(documents)
    raise ExportError(_KNOWN)


def _documents(text: str) -> list[Any]:
    try:
        document = _decode(text.encode())
    except jsonio.InvalidJson:
        return [_line(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    return document if isinstance(document, list) else [document]


def _decode(data: bytes) -> Any:
    """Raises `InvalidJson`. A number that is none, or too large, is read as nothing elsewhere: here it would be a 0."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        jsonio.decode(data)
        raise ExportError("a number in the file is not finite or too large, or a text is not Unicode") from None


def _line(number: int, line: str) -> Any:
    try:
        return _decode(line.encode())
    except jsonio.InvalidJson as error:
        raise ExportError(f"line {number} is not JSON: {error}") from None


def _read_csv(text: str) -> Export:
    if "\0" in text:
        raise ExportError(_KNOWN)
    records = _records(text)
    preamble: dict[str, str] = {}
    for number, record in records:
        columns = [name.strip().lower() for name in record]
        found = frozenset(columns)
        lines = _lines(records, columns, may_be_short=google.SKU in found)
        if found >= openai.USAGE_COLUMNS:
            return openai.read_usage_csv(lines)
        if found >= openai.COST_COLUMNS:
            return openai.read_cost_csv(lines)
        if found >= anthropic.USAGE_COLUMNS:
            return anthropic.read_usage_csv(lines)
        if found >= anthropic.COST_COLUMNS:
            return anthropic.read_cost_csv(lines)
        if google.SKU in found:
            return google.read_csv(lines, preamble)
        if number > _MAX_PREAMBLE:
            break
        preamble[columns[0]] = record[1] if len(record) > 1 else ""
    raise ExportError(_KNOWN)


def _records(text: str) -> Iterator[tuple[int, list[str]]]:
    lines = [f"{line}\n" for line in text.split("\n")]  # no other characters: they can be in a quoted value
    delimiter = "\t" if lines and lines[0].count("\t") > lines[0].count(",") else ","
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        for record in reader:
            if any(record):
                yield reader.line_num, record
    except csv.Error as error:
        raise ExportError(f"line {reader.line_num} is not CSV: {error}") from None


def _lines(
    records: Iterator[tuple[int, list[str]]], columns: Sequence[str], *, may_be_short: bool
) -> Iterator[tuple[int, Mapping[str, str]]]:
    """By column. A shorter line has empty values in Google's files, whose sums are such; elsewhere the file is cut."""
    for number, record in records:
        if len(record) > len(columns):
            raise ExportError(f"line {number} has more values than there are columns")
        if len(record) < len(columns) and not may_be_short:
            raise ExportError(f"line {number} has fewer values than there are columns: is the file complete?")
        yield number, dict(zip(columns, record + [""] * (len(columns) - len(record)), strict=True))
