"""Every rule finds what it is there for, and nothing else does; right answers break none."""

import re
from pathlib import Path

import pytest

from streamweir.conformance import Outcome, Recording, RequestInfo, Rule, check
from streamweir.conformance.parsed_answer import ParsedAnswer
from streamweir.conformance.rules.table import RULES, STREAM_RULES
from streamweir.frontends.chat.dialect import Dialect
from streamweir.frontends.chat.table import DIALECTS
from support import valid_answers as right
from support.answer_changes import Defect
from support.defects import DEFECTS

EXAMPLES = Path(__file__).parents[2] / "docs" / "spec" / "examples"


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: f"{defect.dialect}-{defect.rule}")
def test_a_defect_is_found_by_its_rule(defect: Defect) -> None:
    report = check(defect.recording, DIALECTS[defect.dialect])
    found = {finding.rule for finding in report.findings}
    assert found == {defect.rule, *defect.also}, [f"{f.rule}: {f.message}" for f in report.findings]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_has_a_defect(rule: Rule[ParsedAnswer, Dialect]) -> None:
    assert rule.id in {defect.rule for defect in DEFECTS}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_has_all_its_texts(rule: Rule[ParsedAnswer, Dialect]) -> None:
    assert re.fullmatch(r"[a-z]+\.[a-z0-9-]+", rule.id)
    for sentence in (rule.text, rule.why):
        assert sentence.endswith((".", ".)"))
    assert rule.title
    assert re.search(r"docs/spec/\w+\.md [A-Z]\d|RFC|WHATWG", rule.source)
    assert any(rule.applies_to(dialect) for dialect in DIALECTS.values())


def test_rules_have_names_of_their_own() -> None:
    ids = [rule.id for rule in RULES]
    assert len(ids) == len(set(ids))
    assert len(STREAM_RULES) >= 40


RIGHT = [
    *[pytest.param(right.stream(right.text(name), name), name, id=f"{name}-text") for name in DIALECTS],
    *[pytest.param(right.stream(right.tool(name), name), name, id=f"{name}-tool") for name in DIALECTS],
    *[pytest.param(right.stream(right.failed(name), name), name, id=f"{name}-error") for name in DIALECTS],
    *[
        pytest.param(right.stream(right.reasoning(name), name), name, id=f"{name}-reasoning")
        for name in ("openai", "opentoken", "aivene")
    ],
    pytest.param(right.stream(right.legacy()), "openai", id="openai-legacy"),
    pytest.param(right.stream(right.refusal()), "openai", id="openai-refusal"),
    pytest.param(right.stream(right.logprobs()), "openai", id="openai-logprobs"),
    *[
        pytest.param(right.whole(right.whole_document(name)), name, id=f"{name}-whole")
        for name in ("openai", "opentoken", "aivene")
    ],
    *[pytest.param(right.failure(right.failure_document(name)), name, id=f"{name}-failure") for name in DIALECTS],
]


@pytest.mark.parametrize(("recording", "name"), RIGHT)
def test_a_right_answer_breaks_no_rule(recording: Recording, name: str) -> None:
    report = check(recording, DIALECTS[name])
    assert [f"{f.rule}: {f.message}" for f in report.findings] == []
    assert report.holds


def test_a_custom_tools_call_is_a_call() -> None:
    documents = right.tool()
    opener = {"index": 0, "id": "call_1", "type": "custom", "custom": {"name": "shell", "input": ""}}
    pieces = [opener, *({"index": 0, "custom": {"input": part}} for part in ("ls", " -l"))]
    for document, piece in zip(documents[1:4], pieces, strict=True):
        document["choices"][0]["delta"]["tool_calls"] = [piece]
    assert check(right.stream(documents), DIALECTS["openai"]).findings == []


def test_a_time_with_a_fraction_is_a_number() -> None:
    documents = right.text("bitseek")
    documents[0]["created"] += 0.5
    assert check(right.stream(documents, "bitseek"), DIALECTS["bitseek"]).holds


def test_every_rule_is_looked_at_by_some_right_answer() -> None:
    """Else it would hold because it never looks."""
    looked = {
        verdict.rule.id
        for case in RIGHT
        for verdict in check(case.values[0], DIALECTS[str(case.values[1])]).verdicts  # type: ignore[arg-type]
        if verdict.outcome is Outcome.HOLDS
    }
    uninvited = right.stream(right.text()[:-1], request=RequestInfo(include_usage=False))
    comment = right.recorded(b": keep-alive\n" + right.written(right.text()))
    for recording in (uninvited, comment):
        looked |= {v.rule.id for v in check(recording, DIALECTS["openai"]).verdicts if v.outcome is Outcome.HOLDS}
    # Where it may speak at all, it speaks against the answer.
    assert {rule.id for rule in RULES} - looked == {"whole.never"}


def test_an_example_without_its_usage_breaks_the_rule_that_asks_for_it() -> None:
    *chunks, _usage, done = re.findall(r"data: .*\n\n", (EXAMPLES / "opentoken-text.sse").read_text())
    report = check(Recording(body="".join([*chunks, done]).encode()), DIALECTS["opentoken"])
    assert [finding.rule for finding in report.findings] == ["usage.present"]
