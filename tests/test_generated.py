"""What is derived from the declaration of the log's columns agrees with it, and what is generated is up to date."""

import inspect
import re
from pathlib import Path

import pytest
from scripts import generate

from streamweir.server.accounting import request_row
from streamweir.server.accounting.request_row import row_of
from streamweir.server.control.api.requests.request import RequestMembers
from streamweir.server.telemetry.log_line import RequestLine
from streamweir.server.telemetry.record import RequestRecord
from streamweir.store.db.request_log import COLUMNS
from streamweir.store.db.tables import requests

ROOT = Path(__file__).parents[1]
OF_EVERY_LINE = {"time", "level", "event", "node", "worker"}
OF_NO_COLUMN = {"method", "path", "client_ids", "trace_id"}


@pytest.mark.parametrize("path", generate.files())
def test_a_generated_file_is_up_to_date(path: str) -> None:
    made = generate.files()[path]
    assert (ROOT / path).read_text() == made, f"{path}: run `python -m scripts.generate`"


def test_a_page_without_markers_for_its_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="has no place for the table requests"):
        generate.with_tables("no table here", generate.API)


def test_every_column_of_the_table_is_declared_and_has_a_meaning() -> None:
    assert requests.c.keys() == ["seq", *(column.name for column in COLUMNS)]
    assert [column.name for column in COLUMNS if not column.about.about.endswith((".", "..."))] == []


def test_a_row_is_made_of_facts_alone() -> None:
    """Nothing that is not known has to be: every column has a value all the same."""
    row = row_of(RequestRecord(id="req_1", method="POST", path="/"), "here")
    assert all(getattr(row, column.name) is not None for column in COLUMNS if not column.is_nullable)


def test_every_column_is_given_its_value() -> None:
    steps = (row_of, request_row._add_money, request_row._add_times, request_row._add_caller)
    source = "".join([inspect.getsource(step) for step in steps])
    given = set(re.findall(r"(?:\brow\.|^        )(\w+)(?=[ =,])", source, re.MULTILINE))
    assert [column.name for column in COLUMNS if column.name not in given] == []


def test_filters_of_columns_are_those_of_the_api() -> None:
    declared = {name for column in COLUMNS for name in column.about.filters}
    assert declared == set(RequestMembers.__struct_fields__)


def test_the_line_of_the_log_shows_the_columns_that_say_so() -> None:
    declared = {column.about.log for column in COLUMNS if column.about.log}
    assert declared | OF_EVERY_LINE | OF_NO_COLUMN == set(RequestLine.__struct_fields__)


def test_the_page_on_operations_has_every_member_of_the_line() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    table = page.partition("| member | meaning |\n|---|---|\n")[2].partition("\n\n")[0]
    named = {name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert named == set(RequestLine.__struct_fields__) - OF_EVERY_LINE
