"""An interview judged: every rule for one answer over all its answers, then the rules over all of them together."""

from streamweir.conformance.endpoint.table import RULES
from streamweir.conformance.evaluate import Distance, Nearest, Report, apply, judge
from streamweir.conformance.probe_session import ProbeSession
from streamweir.conformance.rule import Outcome
from streamweir.frontends.chat.dialect import Dialect
from streamweir.frontends.chat.table import DIALECTS


def examine(interview: ProbeSession, dialect: Dialect) -> Report:
    alone = judge(interview.readings, dialect).verdicts
    together = apply(RULES, [interview], dialect, lambda _: "")
    return Report(dialect=dialect, verdicts=(*alone, *together))


def nearest_to(interview: ProbeSession) -> Nearest:
    """The dialect with the fewest broken rules, then the fewest odd ones, then the first of the table."""
    ranked = sorted(
        ((_distance(examine(interview, dialect)), dialect) for dialect in DIALECTS.values()), key=lambda pair: pair[0]
    )
    (best, first), (second, other) = ranked[:2]
    return Nearest(first, best, other, second)


def _distance(report: Report) -> Distance:
    return Distance(len(report.of(Outcome.BROKEN)), len(report.of(Outcome.ODD)))
