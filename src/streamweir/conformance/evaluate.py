"""Rules applied: recordings and a dialect in, a report out; and which dialect is the nearest.

Every rule of the dialect gets one verdict over all recordings: broken or odd where any shows it, else
holding where any gave it something to look at, else skipped. Nothing here raises for what a body holds.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct

from streamweir.conformance.parsed_answer import Reading, read
from streamweir.conformance.recording import Recording
from streamweir.conformance.rule import EXCERPT_BYTES, Finding, Outcome, Rule, Severity, Verdict
from streamweir.conformance.rules.table import RULES
from streamweir.frontends.chat.dialect import Dialect
from streamweir.frontends.chat.table import DIALECTS

Looked = TypeVar("Looked")

MOST_FINDINGS = 5
"""Of one rule that a report keeps; the others are counted."""


class Report(Struct, frozen=True, kw_only=True):
    dialect: Dialect
    verdicts: tuple[Verdict, ...]

    def of(self, outcome: Outcome) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if verdict.outcome is outcome]

    @property
    def findings(self) -> list[Finding]:
        return [finding for verdict in self.verdicts for finding in verdict.findings]

    @property
    def has_checked(self) -> bool:
        """Any rule had something to look at."""
        return any(verdict.outcome is not Outcome.SKIPPED for verdict in self.verdicts)

    @property
    def holds(self) -> bool:
        return self.has_checked and not self.findings


class Distance(NamedTuple):
    """How far a dialect is from what was recorded: less is nearer."""

    broken: int
    odd: int


class Nearest(NamedTuple):
    dialect: Dialect
    distance: Distance
    runner_up: Dialect
    its_distance: Distance


def check(recordings: Recording | Sequence[Recording], dialect: Dialect) -> Report:
    """One recording, or several answers of the same endpoint, held to every rule of a dialect."""
    if isinstance(recordings, Recording):
        recordings = [recordings]
    readings = [read(recording) for recording in recordings]
    return judge(readings, dialect)


def judge(readings: Sequence[Reading], dialect: Dialect) -> Report:
    return Report(dialect=dialect, verdicts=tuple(apply(RULES, readings, dialect, _name_of)))


def _name_of(reading: Reading) -> str:
    return reading.recording.name


def apply(
    rules: Iterable[Rule[Looked]], things: Sequence[Looked], dialect: Dialect, name_of: Callable[[Looked], str]
) -> list[Verdict]:
    """A verdict for each of the rules that hold in this dialect."""
    return [_verdict(rule, things, dialect, name_of) for rule in rules if rule.holds_for(dialect)]


def _verdict(
    rule: Rule[Looked], things: Sequence[Looked], dialect: Dialect, name_of: Callable[[Looked], str]
) -> Verdict:
    findings: list[Finding] = []
    count = 0
    reasons: list[str] = []
    severity = rule.severity_in(dialect)
    for thing in things:
        reason = rule.needs(thing, dialect)
        if reason is not None:
            reasons.append(reason)
            continue
        for breach in rule.check(thing, dialect):
            count += 1
            if len(findings) < MOST_FINDINGS:
                findings.append(
                    Finding(
                        rule=rule.id,
                        severity=severity,
                        message=breach.message,
                        answer=breach.answer or name_of(thing),
                        excerpt=breach.excerpt[:EXCERPT_BYTES],
                        offset=breach.offset,
                        frame=breach.frame,
                    )
                )
    shown: Rule[Any] = rule
    if findings:
        outcome = Outcome.BROKEN if severity is Severity.BROKEN else Outcome.ODD
        return Verdict(rule=shown, outcome=outcome, findings=tuple(findings), count=count)
    if len(reasons) == len(things):
        return Verdict(rule=shown, outcome=Outcome.SKIPPED, reason=reasons[0] if reasons else "nothing was recorded")
    return Verdict(rule=shown, outcome=Outcome.HOLDS)


def distance(readings: Sequence[Reading], dialect: Dialect) -> Distance:
    report = judge(readings, dialect)
    return Distance(len(report.of(Outcome.BROKEN)), len(report.of(Outcome.ODD)))


def nearest(recordings: Sequence[Recording]) -> Nearest:
    """The dialect with the fewest broken rules, then the fewest odd ones, then the first of the table."""
    readings = [read(recording) for recording in recordings]
    ranked = sorted(((distance(readings, dialect), dialect) for dialect in DIALECTS.values()), key=lambda pair: pair[0])
    (best, first), (second, other) = ranked[:2]
    return Nearest(first, best, other, second)
