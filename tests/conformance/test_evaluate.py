"""Verdicts over several answers, and the nearest dialect."""

import re

import pytest

from streamweir.conformance import Outcome, Recording, check, nearest
from streamweir.conformance.evaluate import MAX_FINDINGS
from streamweir.conformance.report import badge, nearest_summary
from streamweir.frontends.chat.table import DIALECTS
from support import valid_answers as right
from support.answer_changes import Defect
from support.defects import DEFECTS

OPENAI = DIALECTS["openai"]


def outcome_of(rule: str, *recordings: Recording) -> Outcome:
    return next(verdict.outcome for verdict in check(recordings, OPENAI).verdicts if verdict.rule.id == rule)


def test_a_rule_holds_where_any_answer_shows_it_and_none_breaks_it() -> None:
    text, tool = right.stream(right.text()), right.stream(right.tool())
    spoiled = right.tool()
    del spoiled[1]["choices"][0]["delta"]["tool_calls"][0]["id"]
    assert outcome_of("tool.id", text) is Outcome.SKIPPED
    assert outcome_of("tool.id", text, tool) is Outcome.HOLDS
    assert outcome_of("tool.id", tool, right.stream(spoiled), text) is Outcome.BROKEN
    assert outcome_of("tool.id") is Outcome.SKIPPED


def test_a_finding_names_its_answer_and_shows_its_bytes() -> None:
    documents = right.text()
    documents[4]["usage"]["total_tokens"] = 1
    recording = right.stream(documents, name="hello")
    (finding,) = check([right.stream(right.tool()), recording], OPENAI).findings
    assert (finding.rule, finding.answer, finding.frame) == ("usage.sum", "hello", 5)
    assert finding.offset is not None
    assert recording.body[finding.offset :].startswith(finding.excerpt)
    assert b'"total_tokens":1' in finding.excerpt


def test_many_findings_are_counted_and_few_are_kept() -> None:
    recording = right.recorded(right.written(right.text()).replace(b"\n", b"\r\n"))
    (verdict,) = check(recording, OPENAI).with_outcome(Outcome.BROKEN)
    assert (len(verdict.findings), verdict.count) == (MAX_FINDINGS, 12)


def test_nothing_recorded_holds_nothing() -> None:
    report = check([], OPENAI)
    assert not report.has_checked
    assert not report.holds


@pytest.mark.parametrize("name", DIALECTS)
def test_a_right_answer_is_nearest_to_its_own_dialect(name: str) -> None:
    answers = [right.stream(right.text(name), name), right.stream(right.tool(name), name)]
    found = nearest(answers)
    assert (found.dialect.name, found.distance) == (name, (0, 0))
    assert found.runner_up_distance > found.distance


@pytest.mark.parametrize("name", DIALECTS)
def test_a_cut_recording_is_nearest_to_its_own_dialect(name: str) -> None:
    """The missing end breaks rules of every dialect that has a terminator: no reason to choose the one without."""
    body = right.stream(right.text(name), name).body
    ends = [end.end() for end in re.finditer(rb"\n\n", body)]
    for end in ends[:-1]:
        for cut in (end, end + 9):
            found = nearest([Recording(body=body[:cut])])
            tied = found.runner_up if found.distance == found.runner_up_distance else found.dialect
            assert name in (found.dialect.name, tied.name)
            assert found.is_cut == (name != "bitseek")
    assert not nearest([Recording(body=body)]).is_cut


def test_a_tie_goes_to_the_first_of_the_table() -> None:
    found = nearest([])
    assert (found.dialect.name, found.runner_up.name, found.runner_up_distance) == ("openai", "opentoken", (0, 0))
    assert nearest_summary(found) == "no dialect was named: openai is taken, and opentoken is as near"


def test_that_the_end_is_missing_is_said() -> None:
    body = right.stream(right.text("aivene"), "aivene").body
    found = nearest([Recording(body=body.removesuffix(b"data: [DONE]\n\n"))])
    assert nearest_summary(found).startswith(
        "no dialect was named: aivene is the nearest (apart from the missing end, 0 broken, 0 odd; "
    )


def test_the_distance_is_shown() -> None:
    found = nearest([right.stream(right.text("bitseek"), "bitseek")])
    assert nearest_summary(found).startswith("no dialect was named: bitseek is the nearest (0 broken, 0 odd; ")


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: f"{defect.dialect}-{defect.rule}")
def test_the_last_line_does_not_claim_that_all_hold(defect: Defect) -> None:
    report = check(defect.recording, DIALECTS[defect.dialect])
    holding, total = (
        len(report.with_outcome(Outcome.HOLDS)),
        len(report.verdicts) - len(report.with_outcome(Outcome.SKIPPED)),
    )
    assert holding < total
    assert badge(report).startswith(f"{report.dialect.name}: {holding} of {total} rules hold (")
