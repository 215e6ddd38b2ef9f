"""Applies the rules of a dialect to recordings and returns a report; also finds the nearest dialect.

Every rule of the dialect gets one verdict for all recordings: broken or odd if any recording violates it, else holding
if it could be checked with any recording, else skipped. No content of a body raises an exception.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from streamweir.conformance.embeddings.api import EmbeddingsApi
from streamweir.conformance.messages.api import MessagesApi
from streamweir.conformance.parsed_answer import ParsedAnswer, parse_answer
from streamweir.conformance.recording import Kind, Recording
from streamweir.conformance.responses.api import ResponsesApi
from streamweir.conformance.rule import EXCERPT_BYTES, Finding, Form, Outcome, Rule, Severity, Verdict
from streamweir.conformance.rules.table import RULES
from streamweir.frontends.chat.dialect import Dialect
from streamweir.frontends.chat.table import DIALECTS

Subject = TypeVar("Subject")

MAX_FINDINGS = 5
"""Maximum findings per rule in a report; further ones are only counted."""


class Report(Struct, frozen=True, kw_only=True):
    dialect: Dialect | MessagesApi | ResponsesApi | EmbeddingsApi
    verdicts: tuple[Verdict, ...]

    def with_outcome(self, outcome: Outcome) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if verdict.outcome is outcome]

    @property
    def findings(self) -> list[Finding]:
        return [finding for verdict in self.verdicts for finding in verdict.findings]

    @property
    def has_checked(self) -> bool:
        """At least one rule was not skipped."""
        return any(verdict.outcome is not Outcome.SKIPPED for verdict in self.verdicts)

    @property
    def holds(self) -> bool:
        return self.has_checked and not self.findings


class Distance(NamedTuple):
    """The number of rules of a dialect that the recordings violate: less is nearer."""

    broken: int
    odd: int


class Nearest(NamedTuple):
    dialect: Dialect
    distance: Distance
    runner_up: Dialect
    runner_up_distance: Distance
    is_cut: bool = False
    """A stream has not the terminator of the dialect: the rules of the end were not compared."""


def check(recordings: Recording | Sequence[Recording], dialect: Dialect) -> Report:
    """Checks one recording, or several answers of one endpoint, against every rule of a dialect."""
    if isinstance(recordings, Recording):
        recordings = [recordings]
    answers = [parse_answer(recording) for recording in recordings]
    return evaluate(answers, dialect)


def evaluate(answers: Sequence[ParsedAnswer], dialect: Dialect) -> Report:
    return Report(dialect=dialect, verdicts=tuple(apply_rules(RULES, answers, dialect, _name_of)))


def _name_of(answer: ParsedAnswer) -> str:
    return answer.recording.name


def apply_rules(
    rules: Iterable[Rule[Subject, Form]], subjects: Sequence[Subject], dialect: Form, name_of: Callable[[Subject], str]
) -> list[Verdict]:
    """One verdict for each rule that applies to this dialect."""
    return [_verdict(rule, subjects, dialect, name_of) for rule in rules if rule.applies_to(dialect)]


def _verdict(
    rule: Rule[Subject, Form], subjects: Sequence[Subject], dialect: Form, name_of: Callable[[Subject], str]
) -> Verdict:
    findings: list[Finding] = []
    count = 0
    reasons: list[str] = []
    severity = rule.severity_in(dialect)
    for subject in subjects:
        reason = rule.skip_reason(subject, dialect)
        if reason is not None:
            reasons.append(reason)
            continue
        for violation in rule.check(subject, dialect):
            count += 1
            if len(findings) < MAX_FINDINGS:
                findings.append(
                    Finding(
                        rule=rule.id,
                        severity=severity,
                        message=violation.message,
                        answer=violation.answer or name_of(subject),
                        excerpt=violation.excerpt[:EXCERPT_BYTES],
                        offset=violation.offset,
                        frame=violation.frame,
                    )
                )
    any_rule: Rule[Any, Any] = rule
    if findings:
        outcome = Outcome.BROKEN if severity is Severity.BROKEN else Outcome.ODD
        return Verdict(rule=any_rule, outcome=outcome, findings=tuple(findings), count=count)
    if len(reasons) == len(subjects):
        return Verdict(rule=any_rule, outcome=Outcome.SKIPPED, reason=reasons[0] if reasons else "nothing was recorded")
    return Verdict(rule=any_rule, outcome=Outcome.HOLDS)


def distance(answers: Sequence[ParsedAnswer], dialect: Dialect) -> Distance:
    report = evaluate(answers, dialect)
    return Distance(len(report.with_outcome(Outcome.BROKEN)), len(report.with_outcome(Outcome.ODD)))


def nearest(recordings: Sequence[Recording]) -> Nearest:
    """The dialect with the fewest broken rules, then the fewest odd ones, then the first of the table.

    A stream without its terminator says nothing about the rules of the end: it is compared as one that was cut.
    """
    parsed = [parse_answer(recording) for recording in recordings]
    answers = [_without_end(answer) if _is_cut(answer) else answer for answer in parsed]
    ranked = sorted(((distance(answers, dialect), dialect) for dialect in DIALECTS.values()), key=lambda pair: pair[0])
    (best, first), (second, other) = ranked[:2]
    return Nearest(first, best, other, second, is_cut=bool(first.terminator) and any(map(_is_cut, parsed)))


def _is_cut(answer: ParsedAnswer) -> bool:
    return answer.kind is Kind.STREAM and not answer.terminators


def _without_end(answer: ParsedAnswer) -> ParsedAnswer:
    return answer if answer.was_cut else parse_answer(replace(answer.recording, was_cut=True))
