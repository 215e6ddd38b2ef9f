"""Evaluates a probe session: the rules for single answers on every answer, then the rules for the whole session."""

from streamweir.conformance.endpoint.table import RULES
from streamweir.conformance.evaluate import Distance, Nearest, Report, apply_rules, evaluate
from streamweir.conformance.probe_session import ProbeSession
from streamweir.conformance.rule import Outcome
from streamweir.frontends.chat.dialect import Dialect
from streamweir.frontends.chat.table import DIALECTS


def evaluate_session(session: ProbeSession, dialect: Dialect) -> Report:
    single = evaluate(session.parsed_answers, dialect).verdicts
    together = apply_rules(RULES, [session], dialect, lambda _: "")
    return Report(dialect=dialect, verdicts=(*single, *together))


def nearest_dialect(session: ProbeSession) -> Nearest:
    """The dialect with the fewest broken rules, then the fewest odd ones, then the first of the table."""
    ranked = sorted(
        ((_distance(evaluate_session(session, dialect)), dialect) for dialect in DIALECTS.values()),
        key=lambda pair: pair[0],
    )
    (best, first), (second, other) = ranked[:2]
    return Nearest(first, best, other, second)


def _distance(report: Report) -> Distance:
    return Distance(len(report.with_outcome(Outcome.BROKEN)), len(report.with_outcome(Outcome.ODD)))
