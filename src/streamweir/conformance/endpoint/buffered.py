"""Rules that an answer has the same text, finish reason and usage, streamed or buffered.

This can only be checked if the model is deterministic. So the prompt is streamed twice; if the two answers differ, the
rules are skipped.
"""

from collections.abc import Iterable

from streamweir.conformance.probe_session import ProbeSession
from streamweir.conformance.rule import Rule, Violation
from streamweir.conformance.rules.group import quote
from streamweir.frontends.chat.dialect import Dialect

_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")


def _why_not_equal(session: ProbeSession, _: Dialect) -> str | None:
    reason = session.why_unanswered("streamed", "plain", "buffered")
    if reason is not None:
        return reason
    once, again = session.content("streamed"), session.content("plain")
    if (once.texts, once.calls) != (again.texts, again.calls):
        return "the model does not say the same twice"
    return None


def _why_no_usage(session: ProbeSession, dialect: Dialect) -> str | None:
    reason = _why_not_equal(session, dialect)
    if reason is None and (session.content("streamed").usage is None or session.content("buffered").usage is None):
        return "there are no two usages to compare"
    return reason


def _check_text(session: ProbeSession, _: Dialect) -> Iterable[Violation]:
    streamed, whole = session.content("streamed"), session.content("buffered")
    body = session.recording("buffered").body
    for choice in sorted(streamed.texts.keys() | whole.texts.keys()):
        one, other = streamed.texts.get(choice, ""), whole.texts.get(choice, "")
        if one != other:
            message = f"choice {choice} says {quote(other)} in one piece and {quote(one)} in deltas"
            yield Violation(message, body, answer="buffered")
    if streamed.calls != whole.calls:
        yield Violation("the calls are others in one piece than in deltas", body, answer="buffered")


def _check_finish(session: ProbeSession, _: Dialect) -> Iterable[Violation]:
    streamed, whole = session.content("streamed").finish_reasons, session.content("buffered").finish_reasons
    for choice in sorted(streamed.keys() | whole.keys()):
        if streamed.get(choice) != whole.get(choice):
            message = f"choice {choice} finishes with {quote(whole.get(choice))} in one piece"
            message += f" and {quote(streamed.get(choice))} in a stream"
            yield Violation(message, session.recording("buffered").body, answer="buffered")


def _check_usage(session: ProbeSession, _: Dialect) -> Iterable[Violation]:
    streamed, whole = session.content("streamed").usage or {}, session.content("buffered").usage or {}
    for name in _COUNTS:
        if streamed.get(name) != whole.get(name):
            message = f"{name} is {quote(whole.get(name))} in one piece and {quote(streamed.get(name))} in a stream"
            yield Violation(message, session.recording("buffered").body[-240:], answer="buffered")


RULES: tuple[Rule[ProbeSession, Dialect], ...] = (
    Rule(
        id="buffered.text",
        title="Deltas add up to the whole message",
        text="The deltas of a stream, put together, are exactly the message of the buffered answer.",
        why="A client that switches between the two must get the same answer.",
        source="docs/spec/dialects.md A6",
        skip_reason=_why_not_equal,
        check=_check_text,
    ),
    Rule(
        id="buffered.finish",
        title="Both have the same finish reason",
        text="The finish reason of a stream is that of the buffered answer.",
        why="Programs decide by it what to do next.",
        source="docs/spec/dialects.md A6",
        skip_reason=_why_not_equal,
        check=_check_finish,
    ),
    Rule(
        id="buffered.usage",
        title="Both have the same usage",
        text="The usage of a stream is that of the buffered answer.",
        why="The cost must not depend on the form of delivery.",
        source="docs/spec/dialects.md A11",
        skip_reason=_why_no_usage,
        check=_check_usage,
    ),
)
