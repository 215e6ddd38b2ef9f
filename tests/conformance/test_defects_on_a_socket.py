"""The spoiled answers of `support.defects`, played by an endpoint: what is found in bytes is found on a socket."""

import pytest

from streamweir.conformance.evaluate_session import evaluate_session
from streamweir.conformance.probe import ProbeLimits
from streamweir.conformance.recording import Kind
from streamweir.frontends.chat.table import DIALECTS
from support.answer_changes import Defect
from support.broken_endpoint import KEY, BrokenEndpoint, ReceivedRequest, ScriptedResponse
from support.conformance_check import found, run_probe
from support.defects import DEFECTS
from support.dialect_rules import DIALECTS as FORMS
from support.soak import part_of
from support.valid_answers import MODEL, REQUEST

ONE = ProbeLimits(requests=1, total_s=30.0)
STREAMED = [
    defect
    for defect in DEFECTS
    if defect.recording.kind is Kind.STREAM and defect.recording.request == REQUEST and not defect.recording.was_cut
]
"""Those that answer a request like the first one of the plan."""


@pytest.mark.parametrize("defect", part_of(STREAMED, 8), ids=lambda defect: f"{defect.dialect}-{defect.rule}")
async def test_a_defective_stream_is_detected(defect: Defect) -> None:
    recording = defect.recording

    def play_it(_: ReceivedRequest, response: ScriptedResponse) -> None:
        response.status, response.frames, response.pieces = recording.status or 200, [b""], [recording.body]
        if recording.headers is not None:
            response.fields = {name.lower(): value for name, value in recording.headers}
        if "content-length" in response.fields:
            response.fields["content-length"] = str(len(recording.body))

    (rules,) = [form for form in FORMS if form.name == defect.dialect]
    async with BrokenEndpoint(rules, play_it) as endpoint:
        heard = await run_probe(endpoint.base_url, MODEL, KEY, ONE)
    assert [each.name for each in heard.exchanges] == ["streamed"]
    assert set(found(evaluate_session(heard, DIALECTS[defect.dialect]))) == {defect.rule, *defect.also}


def test_there_are_enough() -> None:
    assert len({defect.rule for defect in STREAMED}) >= 40
