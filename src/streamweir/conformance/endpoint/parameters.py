"""Rules for request parameters that must have an effect: stream, max_tokens, n, tool_choice.

A model that does not support a parameter (it called no tool, it refused the request) is not a finding: the rule is
skipped with a reason.
"""

from collections.abc import Callable, Iterable

from streamweir.conformance.plan import FUNCTION, TIGHT_LIMIT
from streamweir.conformance.probe_session import ProbeSession, why_inconclusive
from streamweir.conformance.recording import Kind
from streamweir.conformance.rule import Rule, Severity, Violation
from streamweir.conformance.rules.group import quote
from streamweir.core.events import FinishReason
from streamweir.frontends.chat.dialect import Dialect

_SAME_QUESTION = ("streamed", "plain", "buffered", "after-cancel")
"""Requests with the same prompt."""


def _why_unanswered(*names: str) -> Callable[[ProbeSession, Dialect], str | None]:
    """The skip reason of a rule that needs these answers."""
    return lambda session, _: session.why_unanswered(*names)


def _check_whole(session: ProbeSession, dialect: Dialect) -> Iterable[Violation]:
    kind, body = session.parsed("buffered").kind, session.recording("buffered").body
    if dialect.request.always_streams and kind is not Kind.STREAM:
        yield Violation("a whole body came from a dialect that always streams", body, answer="buffered")
    elif not dialect.request.always_streams and kind is Kind.STREAM:
        yield Violation("no stream was asked for, and one came", body, answer="buffered")


def _check_limit(session: ProbeSession, _: Dialect) -> Iterable[Violation]:
    tokens = session.content("limited").completion_tokens
    if tokens is not None and tokens > TIGHT_LIMIT:
        message = f"{tokens} tokens, where at most {TIGHT_LIMIT} were asked for"
        yield Violation(message, session.recording("limited").body, answer="limited")


def _why_no_count(session: ProbeSession, _: Dialect) -> str | None:
    reason = session.why_unanswered("limited")
    if reason is None and session.content("limited").completion_tokens is None:
        return "limited has no count of its tokens"
    return reason


def _why_not_limited(session: ProbeSession, _: Dialect) -> str | None:
    """The full answer must be longer than the limit, and the limited one must reach it."""
    reason = session.why_unanswered("streamed", "limited")
    if reason is not None:
        return reason
    full, limited = session.content("streamed"), session.content("limited")
    if full.completion_tokens is None or limited.completion_tokens is None:
        return "there are no counts of tokens to compare"
    if full.completion_tokens <= TIGHT_LIMIT:
        return "the answer is shorter than the limit anyway"
    if limited.completion_tokens > TIGHT_LIMIT or limited.calls:
        return "the limit was not what ended the answer"
    return None


def _check_limit_finish(session: ProbeSession, dialect: Dialect) -> Iterable[Violation]:
    wanted = dialect.finish_reasons[FinishReason.LENGTH]
    for choice, word in session.content("limited").finish_reasons.items():
        if word != wanted:
            message = f"choice {choice} was cut at the limit and finishes with {quote(word)}, where {wanted} belongs"
            yield Violation(message, session.recording("limited").body[-240:], answer="limited")


def _why_no_choices(session: ProbeSession, _: Dialect) -> str | None:
    reason = session.why_unanswered("choices")
    if reason is None and session.parsed("choices").errors:
        return "choices ended with an error"
    return reason


def _check_choices(session: ProbeSession, _: Dialect) -> Iterable[Violation]:
    content = session.content("choices")
    if len(content.texts) < 2:
        message = f"{len(content.texts)} of the two choices that were asked for came, and the answer ends as if whole"
        yield Violation(message, session.recording("choices").body[-240:], answer="choices")
        return
    silent = [choice for choice, text in sorted(content.texts.items()) if not text and not content.calls.get(choice)]
    if 0 < len(silent) < len(content.texts):
        body = session.recording("choices").body
        yield Violation(f"choice {silent[0]} says nothing, and another does", body, answer="choices")


def _why_no_calls(name: str) -> Callable[[ProbeSession, Dialect], str | None]:
    def skip_reason(session: ProbeSession, _: Dialect) -> str | None:
        reason = session.why_unanswered(name)
        return reason if reason is not None or session.content(name).calls else "the model called no tool"

    return skip_reason


def _check_tool(session: ProbeSession, _: Dialect) -> Iterable[Violation]:
    body = session.recording("tool").body
    for calls in session.content("tool").calls.values():
        for name, _arguments in calls:
            if name != FUNCTION:
                yield Violation(f"{quote(name)} was called, where only {FUNCTION} is offered", body, answer="tool")


def _why_no_default(session: ProbeSession, _: Dialect) -> str | None:
    return session.why_missing("no-model") or why_inconclusive(session, "no-model")


def _check_default(session: ProbeSession, _: Dialect) -> Iterable[Violation]:
    recording = session.recording("no-model")
    if recording.status != 200:
        yield Violation(f"status {recording.status} for what may be left out", recording.body, answer="no-model")


def _why_no_options(session: ProbeSession, _: Dialect) -> str | None:
    return session.why_missing("lone-options") or why_inconclusive(session, "lone-options")


def _check_options(session: ProbeSession, _: Dialect) -> Iterable[Violation]:
    recording = session.recording("lone-options")
    if recording.status != 200:
        yield Violation(f"status {recording.status} for what is to be ignored", recording.body, answer="lone-options")


def _prompt_counts(session: ProbeSession) -> dict[str, int]:
    counts = {}
    for name in _SAME_QUESTION:
        tokens = session.content(name).prompt_tokens if session.why_unanswered(name) is None else None
        if tokens is not None:
            counts[name] = tokens
    return counts


def _check_prompt(session: ProbeSession, _: Dialect) -> Iterable[Violation]:
    (first, wanted), *others = _prompt_counts(session).items()
    for name, tokens in others:
        if tokens != wanted:
            message = f"the same question counts {tokens} tokens in {name} and {wanted} in {first}"
            yield Violation(message, session.recording(name).body[-240:], answer=name)


def _ids(session: ProbeSession) -> dict[str, str]:
    answers = (each.name for each in session.exchanges if session.why_missing(each.name) is None)
    return {name: id for name in answers if (id := session.content(name).id)}


def _check_ids(session: ProbeSession, _: Dialect) -> Iterable[Violation]:
    owners: dict[str, str] = {}
    for name, id in _ids(session).items():
        owner = owners.setdefault(id, name)
        if owner != name:
            yield Violation(f"{name} has the id of {owner}", session.recording(name).body, answer=name)


def _check_no_repeat(session: ProbeSession, _: Dialect) -> Iterable[Violation]:
    for calls in session.content("tools").calls.values():
        if len(calls) > 1 and len(set(calls)) < len(calls):
            body = session.recording("tools").body
            yield Violation("two parallel calls are the same call", body, answer="tools")


RULES: tuple[Rule[ProbeSession, Dialect], ...] = (
    Rule(
        id="asked.whole",
        title="A whole answer is one body",
        text="Without stream, the answer is one JSON body; in a dialect that always streams, it is a stream.",
        why="A client without `stream` parses the body as one document.",
        source="docs/spec/dialects.md D28",
        value=lambda dialect: "a stream" if dialect.request.always_streams else "one JSON body",
        skip_reason=_why_unanswered("buffered"),
        check=_check_whole,
    ),
    Rule(
        id="asked.limit",
        title="The limit is respected",
        text="An answer has no more tokens than max_tokens allows.",
        why="The limit is the most that the caller will pay for.",
        source="docs/spec/dialects.md A19",
        skip_reason=_why_no_count,
        check=_check_limit,
    ),
    Rule(
        id="asked.limit-finish",
        title="An answer cut at the limit says so",
        text="An answer that was ended by max_tokens finishes with the dialect's word for it.",
        why="Without it an incomplete answer looks complete.",
        source="docs/spec/dialects.md A19, D10",
        value=lambda dialect: dialect.finish_reasons[FinishReason.LENGTH],
        skip_reason=_why_not_limited,
        check=_check_limit_finish,
    ),
    Rule(
        id="asked.choices",
        title="Every choice has its own deltas",
        text="With n of 2 there are two choices, and both have content; n may be refused.",
        why="A missing choice looks like an empty answer; deltas without their index mix two answers.",
        source="docs/spec/dialects.md A12, D29",
        applies_to=lambda dialect: dialect.request.max_choices > 1,
        skip_reason=_why_no_choices,
        check=_check_choices,
    ),
    Rule(
        id="asked.tool",
        title="Only offered tools are called",
        text="With tool_choice naming a function, that function is called.",
        why="Clients run the named function: an unknown name is an error at best.",
        source="docs/spec/dialects.md A20",
        skip_reason=_why_no_calls("tool"),
        check=_check_tool,
    ),
    Rule(
        id="asked.parallel-tools",
        title="Parallel calls differ",
        text="Of several calls in one answer no two are the same.",
        why="A repeated call is run twice.",
        source="docs/spec/dialects.md A20",
        severity=Severity.ODD,
        skip_reason=_why_no_calls("tools"),
        check=_check_no_repeat,
    ),
    Rule(
        id="asked.no-model",
        title="The default model answers",
        text="If the model is optional, a request without one is answered.",
        why="The document says that the member may be left out.",
        source="docs/spec/dialects.md D27",
        severity=Severity.ODD,
        applies_to=lambda dialect: not dialect.request.model_required,
        skip_reason=_why_no_default,
        check=_check_default,
    ),
    Rule(
        id="asked.options-ignored",
        title="Options of a stream are ignored",
        text="stream_options has no effect, and is not refused.",
        why="The document says that any such member is accepted and ignored.",
        source="docs/spec/dialects.md D26",
        applies_to=lambda dialect: not dialect.request.checks_stream_options,
        skip_reason=_why_no_options,
        check=_check_options,
    ),
    Rule(
        id="asked.prompt-count",
        title="The same prompt has the same count",
        text="The same messages have the same number of prompt tokens, streamed or not.",
        why="Budgets and bills depend on these counts.",
        source="docs/spec/dialects.md A21",
        skip_reason=lambda session, _: (
            None if len(_prompt_counts(session)) > 1 else "there are no two counts to compare"
        ),
        check=_check_prompt,
    ),
    Rule(
        id="asked.ids-differ",
        title="Every answer has its own id",
        text="No two answers have the same id.",
        why="Clients and services use it as a key in storage and logs.",
        source="docs/spec/dialects.md A21",
        skip_reason=lambda session, _: None if len(_ids(session)) > 1 else "there are no two answers with an id",
        check=_check_ids,
    ),
)
