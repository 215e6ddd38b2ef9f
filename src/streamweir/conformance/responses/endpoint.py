"""Rules for a probe session of a Responses endpoint: what it refuses, and whether it follows the requests.

The expected status, type and code of a refusal are those that the gateway itself answers with (`core.errors`), so the
gateway and the checker use one table.
"""

from collections.abc import Iterator

from streamweir.conformance.api_session import (
    COMPLETE,
    INPUT_CASES,
    KEEPS_SECRETS,
    RefusalCase,
    SkipReason,
    answered,
    before_stream,
    refuses,
    refuses_by_name,
    request_ids,
    streamed_rule,
    whole_rule,
)
from streamweir.conformance.evaluate import Report, apply_rules
from streamweir.conformance.plan import FUNCTION
from streamweir.conformance.probe_session import FailureKind, ProbeSession
from streamweir.conformance.responses.answer import ResponsesAnswer, parse_responses_answer
from streamweir.conformance.responses.api import RESPONSES_API, ResponsesApi
from streamweir.conformance.responses.evaluate import check_responses
from streamweir.conformance.responses.group import ERRORS, REFERENCE
from streamweir.conformance.responses.part import CALLS
from streamweir.conformance.responses.plan import LEAST_LIMIT, NOTE
from streamweir.conformance.rule import Rule, Violation
from streamweir.conformance.rules.group import quote

SessionRule = Rule[ProbeSession, ResponsesApi]
_OTHER_FORM = frozenset({"unknown-response", "websocket"})
"""Requests that no model answers: the rules for one answer do not apply to them."""


_CASES = (
    RefusalCase(
        name="unknown-model",
        code="model_not_found",
        title="An unknown model is refused",
        text="A model that does not exist is refused as such.",
        why="With another model's answer the misspelled name stays unnoticed.",
    ),
    *INPUT_CASES,
    RefusalCase(
        name="previous",
        code="previous_response_not_found",
        title="An unknown conversation is refused",
        text="`previous_response_id` that is not known is refused, not ignored.",
        why="The model would answer without the earlier conversation, and the caller would not notice.",
        param="previous_response_id",
    ),
    RefusalCase(
        name="unknown-response",
        code="not_found",
        title="A response that is not stored is not found",
        text="A response that does not exist, or is not stored, cannot be fetched.",
        why="Clients fetch it to continue a stream that was cut, and wait until they get a refusal.",
    ),
)


def _why_not_upgraded(session: ProbeSession, _: ResponsesApi) -> str | None:
    reason = session.why_missing("websocket")
    return None if _has_waited(session) else reason


def _has_waited(session: ProbeSession) -> bool:
    """It got no answer in time."""
    kinds = [each.failure_kind for each in session.exchanges if each.name == "websocket" and each.recording is None]
    return FailureKind.TIMED_OUT in kinds


def _websocket(session: ProbeSession, _: ResponsesApi) -> Iterator[Violation]:
    if _has_waited(session):
        yield Violation("there was no answer in time", answer="websocket")
        return
    recording = session.recording("websocket")
    status = recording.status or 0
    if status != 101 and not 400 <= status < 500:
        yield Violation(f"the status is {status}", recording.body, answer="websocket")


def _answer(session: ProbeSession, name: str) -> ResponsesAnswer:
    return parse_responses_answer(session.recording(name))


def _string(session: ProbeSession, _: ResponsesApi) -> Iterator[Violation]:
    recording = session.recording("string")
    if recording.status in (400, 422):
        yield Violation(f"with a text the status is {recording.status}", recording.body, answer="string")


def _limit(session: ProbeSession, _: ResponsesApi) -> Iterator[Violation]:
    answer, reported = _answer(session, "limited"), _answer(session, "long").usage.get("output_tokens")
    if type(reported) is int and reported > 2 * LEAST_LIMIT and answer.response.get("status") == "completed":
        yield Violation(f"the answer is completed, and the whole one has {reported} tokens", answer.recording.body)


def _calls(session: ProbeSession, name: str) -> list[dict[str, object]]:
    return [item for item in _answer(session, name).output if item.get("type") in CALLS]


def _why_no_call(name: str) -> SkipReason:
    def skip_reason(session: ProbeSession, _: ResponsesApi) -> str | None:
        reason = session.why_unanswered(name)
        return reason if reason is not None or _calls(session, name) else "the model called no tool"

    return skip_reason


def _tool(session: ProbeSession, _: ResponsesApi) -> Iterator[Violation]:
    for item in _calls(session, "tool"):
        if (item.get("type"), item.get("name")) != ("function_call", FUNCTION):
            message = f"{quote(item.get('type'))} of {quote(item.get('name'))}"
            yield Violation(message, session.recording("tool").body)


def _custom(session: ProbeSession, _: ResponsesApi) -> Iterator[Violation]:
    for item in _calls(session, "custom-tool"):
        if (item.get("type"), item.get("name")) != ("custom_tool_call", NOTE):
            message = f"{quote(item.get('type'))} of {quote(item.get('name'))}"
            yield Violation(message, session.recording("custom-tool").body)


def _ids(session: ProbeSession, _: ResponsesApi) -> Iterator[Violation]:
    ids = [_answer(session, name).response.get("id") for name in ("streamed", "string")]
    if ids[0] is not None and ids[0] == ids[1]:
        yield Violation(f"two answers have the id {quote(ids[0])}")


def _why_answers_differ(session: ProbeSession, _: ResponsesApi) -> str | None:
    reason = session.why_unanswered("streamed", "string", "buffered")
    if reason is None and _answer(session, "streamed").text != _answer(session, "string").text:
        return "the model's answers differ"
    return reason


def _same_text(session: ProbeSession, _: ResponsesApi) -> Iterator[Violation]:
    streamed, whole = _answer(session, "streamed"), _answer(session, "buffered")
    if (streamed.text, streamed.response.get("status")) != (whole.text, whole.response.get("status")):
        yield Violation("the text or the status differs from the streamed one", whole.recording.body)


def _same_usage(session: ProbeSession, _: ResponsesApi) -> Iterator[Violation]:
    counts = [_answer(session, each).usage.get("input_tokens") for each in ("streamed", "buffered")]
    if None not in counts and counts[0] != counts[1]:
        message = f"{counts[1]} tokens of the input, streamed {counts[0]}"
        yield Violation(message, session.recording("buffered").body)


SESSION_RULES: tuple[SessionRule, ...] = (
    *[refuses(case, ERRORS) for case in _CASES],
    refuses_by_name(_CASES, ERRORS),
    before_stream("unknown-model-streamed", ERRORS),
    Rule(
        id="refused.websocket",
        title="A WebSocket is accepted or refused",
        text="A request to upgrade the connection to a WebSocket is answered with 101, or with a status of 400 to 499.",
        why="Codex tries it first if it is configured to, and uses HTTP as soon as it is refused.",
        source="RFC 6455 section 4.2",
        skip_reason=_why_not_upgraded,
        check=_websocket,
    ),
    KEEPS_SECRETS,
    streamed_rule(REFERENCE),
    whole_rule(REFERENCE, "Clients parse it as such."),
    Rule(
        id="asked.string",
        title="Input may be a text",
        text="`input` is a list of items, or a text, which is one message of the user.",
        why="It is the first example in every manual.",
        source=REFERENCE,
        skip_reason=lambda session, _: session.why_missing("string") or session.why_unanswered("streamed"),
        check=_string,
    ),
    Rule(
        id="asked.limit",
        title="`max_output_tokens` ends an answer",
        text="An answer that is longer than `max_output_tokens` ends as `incomplete`.",
        why="Otherwise a cut answer is treated as a whole one.",
        source=REFERENCE,
        value=lambda _: f"{LEAST_LIMIT} tokens",
        skip_reason=answered("long", "limited"),
        check=_limit,
    ),
    Rule(
        id="asked.tool",
        title="The requested tool is called",
        text="With a `tool_choice` that names a function, this function is called.",
        why="The caller has no other.",
        source=REFERENCE,
        skip_reason=_why_no_call("tool"),
        check=_tool,
    ),
    Rule(
        id="asked.custom-tool",
        title="A custom tool is called as one",
        text="A tool of the type `custom` is called by `custom_tool_call`, with its input unchanged.",
        why="Codex refuses a function call instead of it: a patch is then never applied.",
        source=REFERENCE,
        skip_reason=_why_no_call("custom-tool"),
        check=_custom,
    ),
    Rule(
        id="asked.ids-differ",
        title="Answers have ids of their own",
        text="No two answers have the same id.",
        why="Clients store responses by id.",
        source=REFERENCE,
        skip_reason=answered("streamed", "string"),
        check=_ids,
    ),
    Rule(
        id="buffered.text",
        title="Deltas add up to the whole response",
        text="The same question has the same text and status, streamed and whole.",
        why="Clients expect the same result from both.",
        source=REFERENCE,
        skip_reason=_why_answers_differ,
        check=_same_text,
    ),
    Rule(
        id="buffered.usage",
        title="An input counts the same",
        text="The same input has the same number of tokens, streamed and whole.",
        why="It is billed.",
        source=REFERENCE,
        skip_reason=answered("streamed", "buffered"),
        check=_same_usage,
    ),
    COMPLETE,
    request_ids("x-request-id", "docs/spec/failures.md K4"),
)


def evaluate_responses_session(session: ProbeSession) -> Report:
    """The rules for single answers on every answer, then the rules for the whole session."""
    recordings = [
        each.recording for each in session.exchanges if each.recording is not None and each.name not in _OTHER_FORM
    ]
    single = check_responses(recordings).verdicts
    together = apply_rules(SESSION_RULES, [session], RESPONSES_API, lambda _: "")
    return Report(dialect=RESPONSES_API, verdicts=(*single, *together))
