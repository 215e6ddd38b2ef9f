"""Rules of the Messages API: each finds what it is there for, and nothing else does; right answers break none."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamweir.cli.commands.replay import replay
from streamweir.conformance import Outcome, Recording
from streamweir.conformance.messages.answer import speaks_messages
from streamweir.conformance.messages.api import MESSAGES_API
from streamweir.conformance.messages.endpoint import SESSION_RULES, evaluate_messages_session
from streamweir.conformance.messages.evaluate import check_messages
from streamweir.conformance.messages.group import MessagesRule
from streamweir.conformance.messages.table import OWN, RULES
from streamweir.conformance.probe_session import ProbeSession
from support import messages_defects as right
from support.answer_changes import put
from support.messages_defects import DEFECTS, SESSION_DEFECTS, Defect, right_exchanges
from support.soak import part_of

ROOT = Path(__file__).parents[1] / "fixtures"
BODIES = sorted([*ROOT.glob("*/*/response.sse"), *ROOT.glob("*/*/response.json")])
SENT_SO = {
    "anthropic/emoji_cut_in_two": {"framing.whole-characters"},
    "anthropic/empty_answer": {"stop.sequence"},
    "gemini/emoji_cut_in_two": {"framing.whole-characters"},
    "openai-responses/emoji_cut_in_two": {"framing.whole-characters"},
    "openai/custom_tool_call": {"call.arguments"},  # free-form text, which no caller of this API can ask for
    "openai/lone_surrogate": {"framing.whole-characters"},
    "openai-compatible/tool_without_name": {"call.id"},
    "openrouter/tool_calls_though_native_length": {"call.arguments"},
}
"""The upstream itself sent it so."""
RIGHT = [
    pytest.param(right.stream(right.text()), id="text"),
    pytest.param(right.stream(right.agent()), id="agent"),
    pytest.param(right.stream(right.failed()), id="error"),
    pytest.param(right.stream(right.failed()[-1:]), id="error alone"),
    pytest.param(right.document(right.whole()), id="whole"),
    pytest.param(right.document(right.failure(), 404), id="failure"),
]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.rule)
def test_a_defect_is_found_by_its_rule(defect: Defect) -> None:
    report = check_messages(defect.recording)
    found = {finding.rule for finding in report.findings}
    assert found == {defect.rule, *defect.also}, [f"{f.rule}: {f.message}" for f in report.findings]


@pytest.mark.parametrize("rule", OWN, ids=lambda rule: rule.id)
def test_every_rule_has_a_defect(rule: MessagesRule) -> None:
    assert rule.id in {defect.rule for defect in DEFECTS}


@pytest.mark.parametrize("rule", [*OWN, *SESSION_RULES], ids=lambda rule: rule.id)
def test_a_rule_has_all_its_texts(rule: MessagesRule) -> None:
    assert re.fullmatch(r"[a-z]+\.[a-z0-9-]+", rule.id)
    assert rule.title
    assert rule.source
    for sentence in (rule.text, rule.why):
        assert sentence.endswith(".")


def test_rules_have_names_of_their_own() -> None:
    ids = [*(rule.id for rule in RULES), *(rule.id for rule in SESSION_RULES)]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("recording", RIGHT)
def test_a_right_answer_breaks_no_rule(recording: Recording) -> None:
    report = check_messages(recording)
    assert [f"{f.rule}: {f.message}" for f in report.findings] == []
    assert report.holds
    assert speaks_messages(recording)


def test_every_rule_is_looked_at_by_some_right_answer() -> None:
    """Else it would hold because it never looks."""
    reports = [check_messages(case.values[0]) for case in RIGHT]  # type: ignore[arg-type]
    looked = {verdict.rule.id for report in reports for verdict in report.with_outcome(Outcome.HOLDS)}
    assert {rule.id for rule in OWN} - looked == set()


def test_the_tables_are_those_of_the_frontend() -> None:
    assert set(MESSAGES_API.blocks) == {"text", "thinking", "redacted_thinking", "tool_use"}
    assert set(MESSAGES_API.blocks["tool_use"]) == {"type", "id", "name", "input"}
    assert {"id", "type", "role", "model", "content", "stop_reason", "usage"} <= set(MESSAGES_API.message)
    assert MESSAGES_API.error_types[529] == {"overloaded_error"}
    assert MESSAGES_API.error_types[402] == {"billing_error"}
    assert "pause_turn" in MESSAGES_API.stop_reasons


@pytest.mark.parametrize("path", part_of(BODIES, 4), ids=lambda path: f"{path.parent.parent.name}/{path.parent.name}")
def test_what_the_engine_writes_keeps_every_rule(path: Path) -> None:
    source = path.parent.parent.name
    for buffered in (False, True):
        body, _ = replay(path.read_bytes(), source=source, target="messages", model="m", id="msg_1", buffered=buffered)
        found = {finding.rule for finding in check_messages(Recording(body=body)).findings}
        assert found <= SENT_SO.get(f"{source}/{path.parent.name}", set())


@pytest.mark.parametrize("at", range(8))
def test_a_stopped_recording_may_lack_its_end(at: int) -> None:
    body = right.written(right.text())
    assert check_messages(Recording(body=body[: at * len(body) // 8], was_cut=True)).findings == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"data: 1\n\n",
        b'data: {"type":[]}\n\n',
        b"\xff\x00",
        b'{"type":"message"}',
        b'event: message_start\ndata: {"type":"message_start","message":[]}\n\n',
        b'data: {"type":"content_block_start","index":0,"content_block":{"type":[]}}\n\n',
        b'data: {"type":"content_block_delta","index":"0","delta":4}\n\n',
        b'data: {"type":"message_delta","usage":[],"delta":{"stop_reason":[]}}\n\n',
        b'{"type":"message","content":[[]],"stop_reason":{}}',
        b'event: error\ndata: {"type":"error","error":{"type":"x","message":"y"}}\n\n',
    ],
)
def test_nothing_in_a_body_raises(body: bytes) -> None:
    assert check_messages(Recording(body=body)).verdicts


@pytest.mark.parametrize("value", [None, 7, -1.5, "x", [], {}, [{}], {"type": []}, True], ids=repr)
def test_no_value_of_a_member_raises(value: object) -> None:
    for make in (right.agent, right.failed):
        for at, document in enumerate(make()):
            for path in paths_in(document):
                documents = make()
                put(f"{at}.{path}", value)(documents)
                assert check_messages(right.stream(documents)).verdicts
    for path in paths_in(right.whole()):
        body = right.whole()
        put(path, value)(body)
        assert check_messages(right.document(body)).verdicts


def paths_in(document: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in document.items():
        yield prefix + name
        if isinstance(value, dict):
            yield from paths_in(value, f"{prefix}{name}.")


def test_a_right_endpoint_breaks_no_rule() -> None:
    report = evaluate_messages_session(ProbeSession(right_exchanges().values()))
    assert [f"{f.rule}: {f.answer}: {f.message}" for f in report.findings] == []
    assert {rule.id for rule in SESSION_RULES} <= {verdict.rule.id for verdict in report.with_outcome(Outcome.HOLDS)}


@pytest.mark.parametrize("rule", [rule.id for rule in SESSION_RULES])
def test_a_defect_of_an_endpoint_is_found_by_its_rule(rule: str) -> None:
    exchanges = right_exchanges()
    SESSION_DEFECTS[rule](exchanges)
    report = evaluate_messages_session(ProbeSession(exchanges.values()))
    found = {finding.rule for finding in report.findings}
    assert found == {rule}, [f"{f.rule}: {f.message}" for f in report.findings]


def test_an_endpoint_that_answers_nothing_is_skipped() -> None:
    report = evaluate_messages_session(ProbeSession([]))
    assert report.findings == []
