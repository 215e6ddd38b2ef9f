"""Checks whether answers, recorded or of an endpoint, conform to a dialect or to another API."""

from streamweir.conformance.embeddings.rules import check_embeddings
from streamweir.conformance.evaluate import Nearest, Report, check, nearest
from streamweir.conformance.messages.evaluate import check_messages
from streamweir.conformance.recording import Exchange, Piece, Recording, RequestInfo
from streamweir.conformance.responses.evaluate import check_responses
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
    "check_embeddings",
    "check_messages",
    "check_responses",
    "nearest",
]
