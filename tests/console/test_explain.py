"""The page explains every verdict, code, flag and source."""

import re

from streamweir.core.errors import CODES
from streamweir.core.verdict import Verdict
from streamweir.frontends.table import FRONTENDS
from streamweir.pipeline.settlement import UsageSource
from support.web import WEB

WITHOUT_ROW = {
    "conflict",
    "invalid_after",
    "stream_lost",
    "stream_not_found",
    "stream_not_resumable",
    "streams_unavailable",
}
"""Codes of the admin API, and of those who come back to a stream, which no request of the log has."""


def names_in(table: str, file: str = "explain") -> set[str]:
    text = (WEB / "src" / "lib" / f"{file}.ts").read_text(encoding="utf-8")
    body = re.search(rf"^(?:export )?const {table}\b.*?^[}}\]]", text, re.MULTILINE | re.DOTALL)
    assert body is not None, table
    return set(re.findall(r'^  "?(\w+)"?[:,]', body[0], re.MULTILINE))


def test_every_verdict_is_explained_and_can_be_filtered_by() -> None:
    assert names_in("VERDICTS") == names_in("VERDICTS", "filters") == {verdict.value for verdict in Verdict}


def test_every_code_is_explained() -> None:
    assert names_in("CODES") == CODES.keys() - WITHOUT_ROW


def test_every_source_of_usage_is_explained() -> None:
    assert names_in("SOURCES") == {source.value for source in UsageSource}


def test_every_api_can_be_filtered_by() -> None:
    text = (WEB / "src" / "lib" / "apis.ts").read_text(encoding="utf-8")
    listed = re.search(r"^export const DIALECTS = \[(.*)\]", text, re.MULTILINE)
    others = re.search(r"^export const APIS = \[\.\.\.DIALECTS, (.*)\]", text, re.MULTILINE)
    assert listed is not None
    assert others is not None
    assert re.findall(r'"(\w+)"', listed[1]) == FRONTENDS.dialects
    assert [*FRONTENDS.dialects, *others[1].lower().split(", ")] == list(FRONTENDS.by_name)
