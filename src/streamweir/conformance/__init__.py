"""Whether an answer keeps a dialect's promises: rules over recorded answers, and over an endpoint that is asked."""

from streamweir.conformance.evaluate import Nearest, Report, check, nearest
from streamweir.conformance.recording import Asked, Exchange, Piece, Recording
from streamweir.conformance.rule import Finding, Outcome, Rule, Severity, Verdict, Violation

__all__ = [
    "Asked",
    "Exchange",
    "Finding",
    "Nearest",
    "Outcome",
    "Piece",
    "Recording",
    "Report",
    "Rule",
    "Severity",
    "Verdict",
    "Violation",
    "check",
    "nearest",
]
