"""Rules of the Responses API: each finds what it is there for, and nothing else does; right answers break none."""

import json
import re
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from streamweir.cli.commands.replay import replay
from streamweir.conformance import Outcome, Recording
from streamweir.conformance.probe_session import ProbeSession
from streamweir.conformance.responses.answer import speaks_responses
from streamweir.conformance.responses.api import RESPONSES_API
from streamweir.conformance.responses.endpoint import SESSION_RULES, evaluate_responses_session
from streamweir.conformance.responses.evaluate import check_responses
from streamweir.conformance.responses.group import ResponsesRule
from streamweir.conformance.responses.table import OWN, RULES
from streamweir.core.usage import Usage
from streamweir.frontends.base import Reply
from streamweir.frontends.responses.echo import ResponseState
from streamweir.frontends.responses.output import Output
from streamweir.frontends.responses.usage import usage_object
from support import responses_answers as right
from support.answer_changes import put
from support.corpus import ROOT as CORPUS
from support.corpus import WHY_MISSING
from support.responses_defects import DEFECTS, SESSION_DEFECTS, Defect, right_exchanges
from support.soak import part_of

VALUES: list[object] = [None, 7, -1, "x", [], {}, [{}], {"type": []}, True]
ROOT = Path(__file__).parents[1] / "fixtures"
BODIES = sorted([*ROOT.glob("*/*/response.sse"), *ROOT.glob("*/*/response.json")])
SENT_SO = {
    "anthropic/emoji_cut_in_two": {"framing.whole-characters"},
    "anthropic/empty_answer": {"output.some", "whole.some"},
    "gemini/audio_in_the_answer": {"output.some", "whole.some"},
    "gemini/emoji_cut_in_two": {"framing.whole-characters"},
    "gemini/unexpected_tool_call": {"output.some", "whole.some"},
    "openai/lone_surrogate": {"framing.whole-characters"},
    "openai/usage_of_zero": {"output.some", "whole.some"},
    "openai-compatible/tool_without_name": {"call.id", "whole.calls"},
    "openai-responses/emoji_cut_in_two": {"framing.whole-characters"},
    "openai-responses/empty_answer": {"output.some", "whole.some"},
    "openai-responses/pages_opened_are_not_searches": {"output.some", "whole.some"},
    "openai-responses/searches_in_a_report": {"output.some", "whole.some"},
    "openrouter/images": {"output.some", "whole.some"},
    "openrouter/tool_calls_though_native_length": {"call.arguments", "whole.calls"},
}
"""The upstream itself sent it so."""
RIGHT = [
    pytest.param(right.stream(right.text()), id="text"),
    pytest.param(right.stream(right.agent()), id="agent"),
    pytest.param(right.stream(right.cut_short()), id="incomplete"),
    pytest.param(right.stream(right.failed()), id="failed"),
    pytest.param(right.stream(right.failed()[-2:]), id="failed alone"),
    pytest.param(right.document(right.whole()), id="whole"),
    pytest.param(
        right.document(right.whole("failed", error={"code": "server_error", "message": "No."}, output=[], usage=None)),
        id="whole, failed",
    ),
    pytest.param(right.document(right.failure(), 404), id="failure"),
]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.rule)
def test_a_defect_is_found_by_its_rule(defect: Defect) -> None:
    report = check_responses(defect.recording)
    found = {finding.rule for finding in report.findings}
    assert found == {defect.rule, *defect.also}, [f"{f.rule}: {f.message}" for f in report.findings]


def test_every_rule_has_a_defect() -> None:
    assert {rule.id for rule in OWN} - {defect.rule for defect in DEFECTS} == set()


@pytest.mark.parametrize("rule", [*OWN, *SESSION_RULES], ids=lambda rule: rule.id)
def test_a_rule_has_all_its_texts(rule: ResponsesRule) -> None:
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
    report = check_responses(recording)
    assert [f"{f.rule}: {f.message}" for f in report.findings] == []
    assert report.holds


def test_every_rule_is_looked_at_by_some_right_answer() -> None:
    """Else it would hold because it never looks."""
    reports = [check_responses(case.values[0]) for case in RIGHT]  # type: ignore[arg-type]
    looked = {verdict.rule.id for report in reports for verdict in report.with_outcome(Outcome.HOLDS)}
    assert {rule.id for rule in OWN} - looked == set()


def test_answers_of_this_api_are_told_by_their_form() -> None:
    for recording in (right.stream(right.text()), right.stream(right.failed()[-2:]), right.document(right.whole())):
        assert speaks_responses(recording)
    for body in (
        b"",
        b'data: {"type":"message_start"}\n\n',
        b'{"object":"chat.completion"}',
        b'{"error":{"message":"x"}}',
    ):
        assert not speaks_responses(Recording(body=body))


@pytest.mark.skipif(not (CORPUS / "manifest.json").exists(), reason=WHY_MISSING)
def test_recorded_streams_of_openai_break_no_rule() -> None:
    """As they came: neither edited nor put together by hand, nor from before events had numbers."""
    checked = 0
    for entry in json.loads((CORPUS / "manifest.json").read_bytes()):
        is_whole = entry["family"] == "openai-responses" and entry["provider"] == "openai"
        if not is_whole or entry["provenance"] not in ("recorded", "recorded-normalised"):
            continue
        recording = Recording(body=(CORPUS / entry["file"]).read_bytes(), status=entry["status"])
        found = {finding.rule for finding in check_responses(recording).findings}
        if b'"sequence_number"' in recording.body:
            assert found - {"error.code"} == set(), entry["file"]
            checked += 1
    assert checked > 30


def test_the_tables_are_those_of_the_frontend() -> None:
    """Else the checker would ask for what the gateway does not write."""
    reply = Reply(id="resp_1", now=lambda: 0, model="m")
    output = Output(reply)
    for documents in (output.reasoning("x", []), output.text("x"), output.call(0, "call_1", "f"), output.close()):
        assert documents
    shown = {item["type"]: item for item in output.items}
    assert set(shown) == set(RESPONSES_API.items) - {"custom_tool_call"}
    for kind, item in shown.items():
        assert set(RESPONSES_API.items[kind]) <= set(item)
    usage = usage_object(Usage())
    assert set(usage) == {*RESPONSES_API.usage_counts, *RESPONSES_API.usage_details}
    assert set(RESPONSES_API.response) <= set(ResponseState(reply).document("completed", []))


@pytest.mark.parametrize("path", part_of(BODIES, 4), ids=lambda path: f"{path.parent.parent.name}/{path.parent.name}")
def test_what_the_engine_writes_keeps_every_rule(path: Path) -> None:
    source = path.parent.parent.name
    for buffered in (False, True):
        body, _ = replay(
            path.read_bytes(), source=source, target="responses", model="m", id="resp_1", buffered=buffered
        )
        found = {finding.rule for finding in check_responses(Recording(body=body)).findings}
        assert found <= SENT_SO.get(f"{source}/{path.parent.name}", set())


@pytest.mark.parametrize("at", range(8))
def test_a_stopped_recording_may_lack_its_end(at: int) -> None:
    body = right.written(right.agent())
    assert check_responses(Recording(body=body[: at * len(body) // 8], was_cut=True)).findings == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"data: 1\n\n",
        b'data: {"type":[]}\n\n',
        b"\xff\x00",
        b'{"object":"response"}',
        b'data: {"type":"response.completed","response":[]}\n\n',
        b'data: {"type":"response.output_item.added","output_index":-1,"item":4}\n\n',
        b'data: {"type":"response.output_item.done","output_index":"0","item":{"type":[]}}\n\n',
        b'{"object":"response","output":[[]],"status":{},"usage":7}',
        b'data: {"type":"error","error":[]}\n\n',
        b'data: {"type":"response.failed","response":{"error":7}}\n\n',
        b'{"error":7}',
    ],
)
def test_nothing_in_a_body_raises(body: bytes) -> None:
    assert check_responses(Recording(body=body)).verdicts


@pytest.mark.parametrize("shift", part_of(range(len(VALUES)), len(VALUES)))
def test_no_value_of_a_member_raises(shift: int) -> None:
    """Every member gets one of the values; in the long run, each of them."""
    values = cycle(VALUES[shift:] + VALUES[:shift])
    for make in (right.agent, right.failed):
        for at, document in enumerate(right.numbered(make())):
            for path in paths_in(document):
                documents = right.numbered(make())
                put(f"{at}.{path}", next(values))(documents)
                assert check_responses(right.stream(documents)).verdicts
    for path in paths_in(right.whole()):
        body = right.whole()
        put(path, next(values))(body)
        assert check_responses(right.document(body)).verdicts


def paths_in(document: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in document.items():
        yield prefix + name
        if isinstance(value, dict):
            yield from paths_in(value, f"{prefix}{name}.")


def test_a_right_endpoint_breaks_no_rule() -> None:
    report = evaluate_responses_session(ProbeSession(right_exchanges().values()))
    assert [f"{f.rule}: {f.answer}: {f.message}" for f in report.findings] == []
    assert {rule.id for rule in SESSION_RULES} <= {verdict.rule.id for verdict in report.with_outcome(Outcome.HOLDS)}


@pytest.mark.parametrize("rule", [rule.id for rule in SESSION_RULES])
def test_a_defect_of_an_endpoint_is_found_by_its_rule(rule: str) -> None:
    exchanges = right_exchanges()
    SESSION_DEFECTS[rule](exchanges)
    report = evaluate_responses_session(ProbeSession(exchanges.values()))
    found = {finding.rule for finding in report.findings}
    assert found == {rule}, [f"{f.rule}: {f.message}" for f in report.findings]


def test_an_endpoint_that_answers_nothing_is_skipped() -> None:
    assert evaluate_responses_session(ProbeSession([])).findings == []
