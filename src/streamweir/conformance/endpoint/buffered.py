"""Rules for the promise that an answer is the same, streamed or buffered: its text, its finish, its usage.

It can only be seen where the model says the same twice. So the question is put as a stream two times; where
these two differ, the model is not deterministic, and the rules are skipped rather than guessed at.
"""

from collections.abc import Iterable

from streamweir.conformance.probe_session import ProbeSession
from streamweir.conformance.rule import Rule, Violation
from streamweir.conformance.rules.group import shown
from streamweir.frontends.chat.dialect import Dialect

_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")


def _why_not_equal(interview: ProbeSession, _: Dialect) -> str | None:
    reason = interview.why_unanswered("streamed", "plain", "buffered")
    if reason is not None:
        return reason
    once, again = interview.said("streamed"), interview.said("plain")
    if (once.texts, once.calls) != (again.texts, again.calls):
        return "the model does not say the same twice"
    return None


def _why_no_usage(interview: ProbeSession, dialect: Dialect) -> str | None:
    reason = _why_not_equal(interview, dialect)
    if reason is None and (interview.said("streamed").usage is None or interview.said("buffered").usage is None):
        return "there are no two usages to compare"
    return reason


def _check_text(interview: ProbeSession, _: Dialect) -> Iterable[Violation]:
    streamed, whole = interview.said("streamed"), interview.said("buffered")
    body = interview.recording("buffered").body
    for choice in sorted(streamed.texts.keys() | whole.texts.keys()):
        one, other = streamed.texts.get(choice, ""), whole.texts.get(choice, "")
        if one != other:
            message = f"choice {choice} says {shown(other)} in one piece and {shown(one)} in deltas"
            yield Violation(message, body, answer="buffered")
    if streamed.calls != whole.calls:
        yield Violation("the calls are others in one piece than in deltas", body, answer="buffered")


def _check_finish(interview: ProbeSession, _: Dialect) -> Iterable[Violation]:
    streamed, whole = interview.said("streamed").finishes, interview.said("buffered").finishes
    for choice in sorted(streamed.keys() | whole.keys()):
        if streamed.get(choice) != whole.get(choice):
            message = f"choice {choice} finishes with {shown(whole.get(choice))} in one piece"
            message += f" and {shown(streamed.get(choice))} in a stream"
            yield Violation(message, interview.recording("buffered").body, answer="buffered")


def _check_usage(interview: ProbeSession, _: Dialect) -> Iterable[Violation]:
    streamed, whole = interview.said("streamed").usage or {}, interview.said("buffered").usage or {}
    for name in _COUNTS:
        if streamed.get(name) != whole.get(name):
            message = f"{name} is {shown(whole.get(name))} in one piece and {shown(streamed.get(name))} in a stream"
            yield Violation(message, interview.recording("buffered").body[-240:], answer="buffered")


RULES: tuple[Rule[ProbeSession], ...] = (
    Rule(
        id="buffered.text",
        title="Deltas add up to the whole message",
        text="The deltas of a stream, put together, are exactly the message of the buffered answer.",
        why="A client that switches between the two must get the same answer.",
        source="docs/spec/dialects.md A6",
        needs=_why_not_equal,
        check=_check_text,
    ),
    Rule(
        id="buffered.finish",
        title="Both have the same finish reason",
        text="The finish reason of a stream is that of the buffered answer.",
        why="Programs decide by it what to do next.",
        source="docs/spec/dialects.md A6",
        needs=_why_not_equal,
        check=_check_finish,
    ),
    Rule(
        id="buffered.usage",
        title="Both have the same usage",
        text="The usage of a stream is that of the buffered answer.",
        why="The cost must not depend on the form of delivery.",
        source="docs/spec/dialects.md A11",
        needs=_why_no_usage,
        check=_check_usage,
    ),
)
