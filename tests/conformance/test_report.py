"""A report for people and for machines: nothing foreign in it is obeyed, and all of them say the same."""

import io
import json
import xml.etree.ElementTree as ElementTree

import pytest
from rich.console import Console

from streamweir.conformance import Outcome, Recording, check, nearest
from streamweir.conformance.evaluate import Report
from streamweir.conformance.report import badge, document, draw, escape_bytes, exit_status, junit, lines, location_of
from streamweir.frontends.chat.table import DIALECTS
from support import valid_answers as right

OPENAI = DIALECTS["openai"]
HOSTILE = "\x1b[31m<b>&\u202e\x07\r\n"


def spoiled() -> Report:
    documents = right.text()
    documents[1]["object"] = HOSTILE
    documents[1]["model"] = 4
    body = right.written(documents).replace(b"\n", b"\r\n")
    return check(right.recorded(body + b"\x1b[2J\x00\xff", name=f"an {HOSTILE} name"), OPENAI)


def good() -> Report:
    return check(right.stream(right.text()), OPENAI)


def drawn(report: Report) -> str:
    out = io.StringIO()
    draw(report, Console(file=out, width=100, force_terminal=False))
    return out.getvalue()


def test_exit_status() -> None:
    assert (exit_status(good()), exit_status(spoiled()), exit_status(check([], OPENAI))) == (0, 1, 2)


def test_the_last_line_counts() -> None:
    report = good()
    skipped = len(report.with_outcome(Outcome.SKIPPED))
    total = len(report.verdicts) - skipped
    assert badge(report) == f"openai: {total} of {total} rules hold ({skipped} skipped)"
    assert lines(report)[-1] == drawn(report).splitlines()[-1] == badge(report)
    only = Report(dialect=OPENAI, verdicts=tuple(report.with_outcome(Outcome.HOLDS)[:2]))
    assert badge(only) == "openai: 2 of 2 rules hold"


def test_a_rule_that_does_not_hold_is_explained() -> None:
    documents = right.text()
    documents[4]["usage"]["total_tokens"] = 22
    report = check(right.stream(documents, name="hello"), OPENAI)
    shown = "\n".join(lines(report))
    (finding,) = report.findings
    for said in (
        "usage.sum: broken",
        "rule    `total_tokens` is `prompt_tokens` and `completion_tokens` together.",
        "why     What is billed depends",
        "source  docs/spec/dialects.md A11",
        f"found   hello, frame 5, byte {finding.offset}: 9 and 12 are not 22",
        '"total_tokens":22}}',
    ):
        assert said in shown
    assert "usage.sum: broken" in drawn(report)


def test_findings_come_first_and_the_rest_is_folded() -> None:
    documents = right.text()
    documents[4]["usage"]["total_tokens"] = 22
    report = check(right.stream(documents), OPENAI)
    shown = lines(report)
    assert shown[0] == "usage.sum: broken"
    held, skipped = (len(report.with_outcome(outcome)) for outcome in (Outcome.HOLDS, Outcome.SKIPPED))
    assert f"{held} rules hold: framing (" in (rest := "\n".join(shown))
    assert f"{skipped} rules skipped: " in rest
    assert "holds    framing" not in rest
    listed = [line.split()[:2] for line in lines(report, every_rule=True)]
    for verdict in report.verdicts:
        assert [verdict.outcome.value, verdict.rule.id] in listed


def test_the_value_of_a_rule_in_the_dialect_is_shown() -> None:
    documents = right.text()
    documents[1]["object"] = "x"
    assert any("Here: `chat.completion.chunk`." in line for line in lines(check(right.stream(documents), OPENAI)))


@pytest.mark.parametrize("show", [lambda report: "\n".join(lines(report)), drawn], ids=["lines", "drawn"])
def test_nothing_foreign_reaches_a_terminal(show: object) -> None:
    assert callable(show)
    text = show(spoiled()).replace("\n", "")
    assert text.isascii()
    assert text.isprintable()
    assert "\\x1b[2J\\x00\\xff" in text


def test_json_is_the_whole_report() -> None:
    report = spoiled()
    found = json.loads(json.dumps(document(report, nearest([Recording(body=b"")]))))
    assert (found["dialect"], found["holds"], found["summary"]) == ("openai", False, badge(report))
    assert found["nearest"]["dialect"] == "openai"
    assert sum(found["counts"].values()) == len(found["rules"]) == len(report.verdicts)
    assert {rule["outcome"] for rule in found["rules"]} == {"holds", "broken", "skipped"}
    (broken,) = [rule for rule in found["rules"] if rule["id"] == "framing.line-ends"]
    assert (broken["count"], len(broken["findings"])) == (12, 5)
    assert document(good())["nearest"] is None


def test_junit_has_a_case_for_each_rule() -> None:
    report = spoiled()
    root = ElementTree.fromstring(junit(report, HOSTILE))  # noqa: S314 (our own)
    suite = root[0]
    failed = len(report.with_outcome(Outcome.BROKEN)) + len(report.with_outcome(Outcome.ODD))
    assert (suite.get("tests"), suite.get("failures")) == (str(len(report.verdicts)), str(failed))
    assert len(suite.findall("testcase")) == len(report.verdicts)
    assert len(suite.findall("testcase/failure")) == failed
    assert len(suite.findall("testcase/skipped")) == len(report.with_outcome(Outcome.SKIPPED))
    assert "found" in (suite.find("testcase/failure").text or "")  # type: ignore[union-attr]


def test_bytes_are_escaped_and_cut() -> None:
    assert escape_bytes(b'data: "\xff\n\\') == 'data: "\\xff\\n\\\\'
    assert escape_bytes(b"x" * 1000).endswith("xxx...")


def test_a_finding_without_a_place_has_none() -> None:
    report = check(right.stream(right.text(), headers=()), OPENAI)
    assert {location_of(finding) for finding in report.findings} == {""}
