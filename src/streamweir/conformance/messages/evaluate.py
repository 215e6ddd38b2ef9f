"""Applies the rules of the Messages API to recordings and returns a report. Nothing in a body raises an exception."""

from collections.abc import Sequence

from streamweir.conformance.evaluate import Report, apply_rules
from streamweir.conformance.messages.answer import MessagesAnswer, parse_messages_answer
from streamweir.conformance.messages.api import MESSAGES_API
from streamweir.conformance.messages.table import RULES
from streamweir.conformance.recording import Recording


def check_messages(recordings: Recording | Sequence[Recording]) -> Report:
    """Checks one recording, or several answers of one endpoint, against every rule of the Messages API."""
    if isinstance(recordings, Recording):
        recordings = [recordings]
    answers = [parse_messages_answer(recording) for recording in recordings]
    return Report(dialect=MESSAGES_API, verdicts=tuple(apply_rules(RULES, answers, MESSAGES_API, _name_of)))


def _name_of(answer: MessagesAnswer) -> str:
    return answer.recording.name
