"""Rules of the embeddings API: each finds what it is there for, and nothing else does; the gateway breaks none."""

import asyncio
import json
import re
from typing import Any

import pytest
from click.testing import CliRunner

from streamweir.cli.main import main
from streamweir.conformance import Outcome, Recording, Rule, check_embeddings
from streamweir.conformance.embeddings.answer import speaks_embeddings
from streamweir.conformance.embeddings.endpoint import SESSION_RULES, evaluate_embeddings_session
from streamweir.conformance.embeddings.plan import EMBEDDINGS_PLAN
from streamweir.conformance.embeddings.rules import OWN, RULES
from streamweir.conformance.probe import find_endpoint, probe
from streamweir.conformance.probe_session import ProbeSession
from support import embeddings_defects as right
from support.conformance_check import USUAL, assert_conforms
from support.embeddings_defects import DEFECTS, SESSION_DEFECTS, Defect, right_exchanges
from support.gateway import KEY, gateway

ALL: list[Rule[Any, Any]] = [*OWN, *SESSION_RULES]
SIMULATED = '[[providers]]\nname = "sim"\nkind = "sim"\n'


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.rule)
def test_a_defect_is_found_by_its_rule(defect: Defect) -> None:
    report = check_embeddings(defect.recording)
    assert {finding.rule for finding in report.findings} == {defect.rule}


def test_every_rule_has_a_defect_and_says_all_there_is_to_say() -> None:
    assert {rule.id for rule in OWN} == {defect.rule for defect in DEFECTS}
    ids = [*(rule.id for rule in RULES), *(rule.id for rule in SESSION_RULES)]
    assert len(ids) == len(set(ids))
    for rule in ALL:
        assert re.fullmatch(r"[a-z]+\.[a-z0-9-]+", rule.id)
        assert rule.title
        assert rule.source
        assert rule.text.endswith(".")
        assert rule.why.endswith(".")


@pytest.mark.parametrize(
    "recording",
    [
        right.recorded(right.body(right.RIVER, right.PRIMES)),
        right.recorded(right.body(right.packed(right.RIVER), right.packed(right.PRIMES))),
    ],
    ids=["numbers", "base64"],
)
def test_a_right_answer_breaks_no_rule(recording: Recording) -> None:
    report = check_embeddings(recording)
    assert report.findings == []
    assert {rule.id for rule in OWN} <= {verdict.rule.id for verdict in report.with_outcome(Outcome.HOLDS)}
    assert speaks_embeddings(recording)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"object":"list"}', b'{"object":"list","data":[7,{"index":"x"}],"usage":7}', b"data: 1\n\n"]
)
def test_nothing_in_a_body_raises(body: bytes) -> None:
    assert check_embeddings(Recording(body=body)).verdicts
    assert not speaks_embeddings(Recording(body=body))


def test_a_right_endpoint_breaks_no_rule() -> None:
    report = evaluate_embeddings_session(ProbeSession(right_exchanges().values()))
    assert [f"{f.rule}: {f.answer}: {f.message}" for f in report.findings] == []
    assert {rule.id for rule in SESSION_RULES} <= {verdict.rule.id for verdict in report.with_outcome(Outcome.HOLDS)}


@pytest.mark.parametrize("rule", [rule.id for rule in SESSION_RULES])
def test_a_defect_of_an_endpoint_is_found_by_its_rule(rule: str) -> None:
    exchanges = right_exchanges()
    SESSION_DEFECTS[rule](exchanges)
    report = evaluate_embeddings_session(ProbeSession(exchanges.values()))
    found = {finding.rule for finding in report.findings}
    assert found == {rule}, [f"{f.rule}: {f.message}" for f in report.findings]


async def test_the_gateway_breaks_none() -> None:
    async with gateway(SIMULATED) as gate:
        endpoint = find_endpoint(gate.base_url, EMBEDDINGS_PLAN)
        report = evaluate_embeddings_session(await probe(endpoint, "sim/embed", KEY, USUAL, api=EMBEDDINGS_PLAN))
        assert_conforms(report, looked_at=[rule.id for rule in ALL])


async def test_the_command() -> None:
    def run(*words: str, data: bytes | None = None) -> list[str]:
        result = CliRunner().invoke(main, ["check", *words], input=data, env={"STREAMWEIR_KEY": ""})
        assert result.exit_code == 0, result.output
        lines: list[str] = result.output.splitlines()
        return lines

    async with gateway(SIMULATED) as gate:
        url = f"{gate.base_url}/v1/embeddings"
        lines = await asyncio.to_thread(run, url, "--model", "sim/embed", "--key", KEY)
        assert lines[0] == f"11 requests were sent to {url}"
        assert lines[-1].startswith("embeddings: ")
    recorded = json.dumps(right.body(right.RIVER)).encode()
    assert run("-", data=recorded)[-1].startswith("embeddings: ")
