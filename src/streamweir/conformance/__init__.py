"""Checks whether answers conform to a dialect, or to the Messages API: recorded answers, and those of an endpoint."""

from streamweir.conformance.evaluate import Nearest, Report, check, nearest
from streamweir.conformance.messages.evaluate import check_messages
from streamweir.conformance.recording import Exchange, Piece, Recording, RequestInfo
from streamweir.conformance.rule import Finding, Outcome, Rule, Severity, Verdict, Violation

__all__ = [
    "Exchange",
    "Finding",
    "Nearest",
    "Outcome",
    "Piece",
    "Recording",
    "Report",
    "RequestInfo",
    "Rule",
    "Severity",
    "Verdict",
    "Violation",
    "check",
    "check_messages",
    "nearest",
]
