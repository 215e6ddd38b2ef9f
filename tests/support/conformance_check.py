"""Checks an endpoint as `streamweir check` does, in the test's own event loop."""

from collections.abc import Collection

from streamweir.conformance.evaluate import Report
from streamweir.conformance.evaluate_session import evaluate_session
from streamweir.conformance.probe import ProbeLimits, find_endpoint, probe
from streamweir.conformance.probe_session import ProbeSession
from streamweir.conformance.rule import Outcome
from streamweir.frontends.chat.table import DIALECTS

USUAL = ProbeLimits(total_s=30.0, answer_s=10.0)


async def run_probe(url: str, model: str, key: str | None, limits: ProbeLimits = USUAL) -> ProbeSession:
    return await probe(find_endpoint(url), model, key, limits)


async def checked(url: str, dialect: str, model: str, key: str | None) -> Report:
    return evaluate_session(await run_probe(url, model, key), DIALECTS[dialect])


def found(report: Report) -> dict[str, list[str]]:
    """The findings of each rule that does not hold."""
    return {
        verdict.rule.id: [f"{finding.answer}: {finding.message} {finding.excerpt!r}" for finding in verdict.findings]
        for verdict in report.verdicts
        if verdict.findings
    }


def held(report: Report) -> set[str]:
    return {verdict.rule.id for verdict in report.with_outcome(Outcome.HOLDS)}


def assert_conforms(report: Report, *, looked_at: Collection[str] = ()) -> None:
    """Without a finding; these rules had something to look at."""
    assert not found(report), found(report)
    assert set(looked_at) <= held(report), {each.rule.id: each.reason for each in report.with_outcome(Outcome.SKIPPED)}
