"""Every rule finds what it is there for, and nothing else does; right answers break none."""

import json
import re

import pytest

from streamweir.conformance import Asked, Outcome, Recording, Rule, check
from streamweir.conformance.reading import Reading
from streamweir.conformance.rules.table import RULES, STREAM_RULES
from streamweir.dialects.table import DIALECTS
from support import rightanswers as right
from support.defects import DEFECTS, Defect
from support.seeds import SEEDS, WHY_NO_SEEDS


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: f"{defect.dialect}-{defect.rule}")
def test_a_defect_is_found_by_its_rule(defect: Defect) -> None:
    report = check(defect.recording, DIALECTS[defect.dialect])
    found = {finding.rule for finding in report.findings}
    assert found == {defect.rule, *defect.also}, [f"{f.rule}: {f.message}" for f in report.findings]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_has_a_defect(rule: Rule[Reading]) -> None:
    assert rule.id in {defect.rule for defect in DEFECTS}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_says_all_there_is_to_say(rule: Rule[Reading]) -> None:
    assert re.fullmatch(r"[a-z]+\.[a-z0-9-]+", rule.id)
    for sentence in (rule.text, rule.why):
        assert sentence.endswith((".", ".)"))
    assert rule.title
    assert re.search(r"\.md|seed|-streaming-|bitseek-sse|RFC|WHATWG", rule.source)
    assert any(rule.holds_for(dialect) for dialect in DIALECTS.values())


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
    uninvited = right.stream(right.text()[:-1], asked=Asked(include_usage=False))
    comment = right.recorded(b": keep-alive\n" + right.written(right.text()))
    for recording in (uninvited, comment):
        looked |= {v.rule.id for v in check(recording, DIALECTS["openai"]).verdicts if v.outcome is Outcome.HOLDS}
    # Where it may speak at all, it speaks against the answer.
    assert {rule.id for rule in RULES} - looked == {"whole.never"}


def seed(name: str) -> str:
    path = SEEDS / f"{name}.txt"
    if not path.exists():
        pytest.skip(WHY_NO_SEEDS)
    return path.read_text()


def frames_in(page: str) -> list[str]:
    """Raw frames as a page shows them. Blank lines are not always kept there."""
    return [line for line in page.splitlines() if re.fullmatch(r'data: (\{"(id|error)":(?!.*\.\.\.).*|\[DONE\])', line)]


def chunks_in(page: str) -> right.Documents:
    """Whole chunks that a page shows as indented JSON."""
    starts = [found.start() for found in re.finditer(r'^\{\n  "id"', page, re.MULTILINE)]
    return [json.JSONDecoder().raw_decode(page[start:])[0] for start in starts]


def broken_by(frames: list[str], name: str) -> list[str]:
    body = "".join(f"{frame}\n\n" for frame in frames).encode()
    return [finding.rule for finding in check(Recording(body=body), DIALECTS[name]).findings]


@pytest.mark.parametrize("page", ["opentoken-streaming-guide", "opentoken-streaming-wire-format"])
def test_opentokens_example_breaks_no_rule(page: str) -> None:
    *chunks, done = frames_in(seed(page))
    (usage,) = chunks_in(seed(page))  # shown apart, and said to come always
    assert broken_by([*chunks, f"data: {json.dumps(usage)}", done], "opentoken") == []
    assert broken_by([*chunks, done], "opentoken") == ["usage.present"]


def test_bitseeks_examples_break_no_rule() -> None:
    frames = frames_in(seed("bitseek-sse-response-format"))
    assert (broken_by(frames[:3], "bitseek"), broken_by(frames[3:], "bitseek")) == ([], [])


def test_aivenes_examples_break_no_rule() -> None:
    page = seed("aivene-streaming-events")
    chunks = [f"data: {json.dumps(chunk)}" for chunk in chunks_in(page)]
    assert len(chunks) == 5
    assert broken_by([*chunks, "data: [DONE]"], "aivene") == []
    assert broken_by(frames_in(page)[-2:], "aivene") == []


def test_openais_examples_break_no_rule() -> None:
    _every_member, role, text, usage = chunks_in(seed("openai-chat-streaming-structure"))
    finish = {**text, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}  # the page shows none
    chunks = [f"data: {json.dumps(chunk)}" for chunk in (role, text, finish, usage)]
    assert broken_by([*chunks, "data: [DONE]"], "openai") == []
