"""Rules for a probe session of a Messages endpoint: what it refuses, and whether it follows the requests.

The expected status and type of a refusal are those that the gateway itself answers with
(`frontends.messages.errors`), so the gateway and the checker use one table.
"""

from collections.abc import Iterator

from streamweir.conformance.api_session import (
    COMPLETE,
    KEEPS_SECRETS,
    Expected,
    RefusalCase,
    answered,
    before_stream,
    refuses,
    request_ids,
    streamed_rule,
    whole_rule,
)
from streamweir.conformance.evaluate import Report, apply_rules
from streamweir.conformance.messages.answer import MessagesAnswer, parse_messages_answer
from streamweir.conformance.messages.api import MESSAGES_API, MessagesApi
from streamweir.conformance.messages.evaluate import check_messages
from streamweir.conformance.messages.group import ERRORS, REFERENCE
from streamweir.conformance.plan import FUNCTION, TIGHT_LIMIT
from streamweir.conformance.probe_session import ProbeSession
from streamweir.conformance.rule import Rule, Severity, Violation
from streamweir.conformance.rules.group import quote
from streamweir.core.errors import CallerError
from streamweir.frontends.messages.errors import words_of

SessionRule = Rule[ProbeSession, MessagesApi]


_CASES = (
    RefusalCase(
        name="unknown-model",
        code="model_not_found",
        title="An unknown model is refused",
        text="A model that does not exist is refused as such.",
        why="With another model's answer the misspelled name stays unnoticed.",
    ),
    RefusalCase(
        name="wrong-key",
        code="invalid_api_key",
        title="A wrong key is refused",
        text="A key that nobody has is refused as such.",
    ),
    RefusalCase(
        name="no-key",
        code="missing_api_key",
        title="No key is refused",
        text="A request without a key is refused as such.",
    ),
    RefusalCase(
        name="not-json",
        code="invalid_json",
        title="A body that is no JSON is refused",
        text="A body that is no JSON is refused.",
    ),
    RefusalCase(
        name="wrong-type",
        code="invalid_type",
        title="A wrong type is refused",
        text="`messages` that are no list are refused.",
    ),
    RefusalCase(
        name="no-messages",
        code="missing_required_parameter",
        title="No messages are refused",
        text="A request without `messages` is refused.",
    ),
    RefusalCase(
        name="no-max-tokens",
        code="missing_required_parameter",
        title="No limit is refused",
        text="A request without `max_tokens` is refused: the API requires it.",
        why="A client that forgets it works here, and nowhere else.",
        severity=Severity.ODD,
    ),
)


def _expected_of(code: str) -> Expected:
    return words_of(CallerError(code, ""))


def _answer(session: ProbeSession, name: str) -> MessagesAnswer:
    return parse_messages_answer(session.recording(name))


def _why_key_does_not_matter(session: ProbeSession, _: MessagesApi) -> str | None:
    return session.why_missing("x-api-key") or session.why_unanswered("streamed")


def _both_headers(session: ProbeSession, _: MessagesApi) -> Iterator[Violation]:
    recording = session.recording("x-api-key")
    if recording.status in (401, 403):
        yield Violation(f"with `x-api-key` the status is {recording.status}", recording.body)


def _limit(session: ProbeSession, _: MessagesApi) -> Iterator[Violation]:
    answer, whole = _answer(session, "limited"), _answer(session, "streamed")
    reported = whole.usage.get("output_tokens")
    if type(reported) is int and reported > TIGHT_LIMIT and answer.stop_reason == "end_turn":
        message = f"the stop reason is `end_turn`, and the whole answer has {reported} tokens"
        yield Violation(message, answer.recording.body)


def _why_no_call(session: ProbeSession, _: MessagesApi) -> str | None:
    reason = session.why_unanswered("tool")
    if reason is None and not any(block.get("type") == "tool_use" for block in _answer(session, "tool").content):
        return "the model called no tool"
    return reason


def _tool(session: ProbeSession, _: MessagesApi) -> Iterator[Violation]:
    for block in _answer(session, "tool").content:
        if block.get("type") == "tool_use" and block.get("name") != FUNCTION:
            yield Violation(f"the tool is {quote(block.get('name'))}", session.recording("tool").body)


def _ids(session: ProbeSession, _: MessagesApi) -> Iterator[Violation]:
    ids = [answer.events[0].member("message").get("id") for answer in _streams(session) if answer.events]
    if len(ids) > 1 and len(set(map(str, ids))) < len(ids):
        yield Violation(f"two answers have the id {quote(ids[0])}")


def _streams(session: ProbeSession) -> list[MessagesAnswer]:
    names = [name for name in ("streamed", "x-api-key") if session.why_unanswered(name) is None]
    return [_answer(session, name) for name in names]


def _why_answers_differ(session: ProbeSession, _: MessagesApi) -> str | None:
    reason = session.why_unanswered("streamed", "x-api-key", "buffered")
    if reason is None and _answer(session, "streamed").text != _answer(session, "x-api-key").text:
        return "the model's answers differ"
    return reason


def _same_text(session: ProbeSession, _: MessagesApi) -> Iterator[Violation]:
    streamed, whole = _answer(session, "streamed"), _answer(session, "buffered")
    if (streamed.text, streamed.stop_reason) != (whole.text, whole.stop_reason):
        yield Violation("the text or the stop reason differs from the streamed one", whole.recording.body)


def _same_usage(session: ProbeSession, _: MessagesApi) -> Iterator[Violation]:
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    sums = [sum(_count(_answer(session, each).usage.get(n)) for n in names) for each in ("streamed", "buffered")]
    if sums[0] != sums[1]:
        message = f"{sums[1]} tokens of the prompt, streamed {sums[0]}"
        yield Violation(message, session.recording("buffered").body)


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


SESSION_RULES: tuple[SessionRule, ...] = (
    *[refuses(case, ERRORS, expected_of=_expected_of) for case in _CASES],
    before_stream("unknown-model-streamed", ERRORS),
    KEEPS_SECRETS,
    streamed_rule(REFERENCE),
    whole_rule(REFERENCE, "Clients parse it as such. Claude Code asks so after a stream that failed."),
    Rule(
        id="asked.key-header",
        title="Both key headers work",
        text="A key is taken from `x-api-key` as from `Authorization: Bearer`.",
        why="Older SDKs and some settings of Claude Code send the one, newer ones the other.",
        source=REFERENCE,
        skip_reason=_why_key_does_not_matter,
        check=_both_headers,
    ),
    Rule(
        id="asked.limit",
        title="`max_tokens` ends an answer",
        text="An answer that is longer than `max_tokens` ends with the stop reason `max_tokens`.",
        why="Else a cut answer is taken for a whole one.",
        source=REFERENCE,
        skip_reason=answered("streamed", "limited"),
        check=_limit,
    ),
    Rule(
        id="asked.tool",
        title="The tool that was asked for is called",
        text="With a `tool_choice` that names a tool, this tool is called.",
        why="The caller has no other.",
        source=REFERENCE,
        skip_reason=_why_no_call,
        check=_tool,
    ),
    Rule(
        id="asked.ids-differ",
        title="Answers have ids of their own",
        text="No two answers have the same id.",
        why="Clients keep messages by it.",
        source=REFERENCE,
        skip_reason=answered("streamed", "x-api-key"),
        check=_ids,
    ),
    Rule(
        id="buffered.text",
        title="Deltas add up to the whole message",
        text="The same question has the same text and stop reason, streamed and whole.",
        why="Clients choose between the two by need, not by result.",
        source=REFERENCE,
        skip_reason=_why_answers_differ,
        check=_same_text,
    ),
    Rule(
        id="buffered.usage",
        title="A prompt counts the same",
        text="The same prompt has the same number of tokens, streamed and whole.",
        why="It is billed.",
        source=REFERENCE,
        skip_reason=answered("streamed", "buffered"),
        check=_same_usage,
    ),
    COMPLETE,
    request_ids("request-id", ERRORS),
)


def evaluate_messages_session(session: ProbeSession) -> Report:
    """The rules for single answers on every answer, then the rules for the whole session."""
    recordings = [each.recording for each in session.exchanges if each.recording is not None]
    single = check_messages(recordings).verdicts
    together = apply_rules(SESSION_RULES, [session], MESSAGES_API, lambda _: "")
    return Report(dialect=MESSAGES_API, verdicts=(*single, *together))
