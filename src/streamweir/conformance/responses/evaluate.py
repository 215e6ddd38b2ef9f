"""Applies the rules of the Responses API to recordings and returns a report. Nothing in a body raises an exception."""

from collections.abc import Sequence

from streamweir.conformance.evaluate import Report, apply_rules
from streamweir.conformance.recording import Recording
from streamweir.conformance.responses.answer import ResponsesAnswer, parse_responses_answer
from streamweir.conformance.responses.api import RESPONSES_API
from streamweir.conformance.responses.table import RULES


def check_responses(recordings: Recording | Sequence[Recording]) -> Report:
    """Checks one recording, or several answers of one endpoint, against every rule of the Responses API."""
    if isinstance(recordings, Recording):
        recordings = [recordings]
    answers = [parse_responses_answer(recording) for recording in recordings]
    return Report(dialect=RESPONSES_API, verdicts=tuple(apply_rules(RULES, answers, RESPONSES_API, _name_of)))


def _name_of(answer: ResponsesAnswer) -> str:
    return answer.recording.name
