"""Rules for requests that must be refused: with which status, in which words, before anything else was said.

What is right is read off the `Dialect` value by the function that words our own gateway's refusals
(`frontends.chat.errors.error_fields`), so one table says what we answer and what we expect of others. Status and
type are what clients choose their exception by; a code that differs, or a parameter that is not named, is odd.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct

from streamweir.conformance.probe_session import ProbeSession, why_passing
from streamweir.conformance.recording import Kind
from streamweir.conformance.rule import Rule, Severity, Violation
from streamweir.conformance.rules.group import shown
from streamweir.core.errors import CallerError
from streamweir.frontends.chat.dialect import Dialect, ErrorFields
from streamweir.frontends.chat.errors import error_fields

_TABLE = "docs/spec/dialects.md E1 to E17"


class Case(Struct, frozen=True, kw_only=True):
    """A question that must be refused, and as what."""

    ask: str
    code: str
    """Ours; the dialect words it."""
    title: str
    text: str
    why: str
    param: str | None = None
    source: str = _TABLE
    severity: Severity = Severity.BROKEN
    also: frozenset[int] = frozenset()
    """Other statuses that are as good."""
    holds_for: Callable[[Dialect], bool] = lambda _: True
    needs: Callable[[ProbeSession], str | None] = lambda _: None

    def words(self, dialect: Dialect) -> ErrorFields:
        return error_fields(CallerError(self.code, ""), dialect)


def _why_keys_do_not_matter(interview: ProbeSession) -> str | None:
    """Where nobody is asked for a key, a wrong one is no reason to refuse."""
    if interview.why_missing("no-key") is None and interview.recording("no-key").status == 200:
        return "the endpoint asks nobody for a key"
    return None


_NOT_RETRIED = "Clients retry temporary errors: a request that can never succeed must not look like one."

CASES = (
    Case(
        ask="unknown-model",
        code="model_not_found",
        param="model",
        title="An unknown model is refused",
        text="A model that does not exist is refused as such.",
        why="With another model's answer, or an error to retry, the misspelled name stays unnoticed.",
    ),
    Case(
        ask="wrong-key",
        code="invalid_api_key",
        title="A wrong key is refused",
        text="An unknown key is refused with 401.",
        why="SDKs raise their authentication error by this status alone.",
        needs=_why_keys_do_not_matter,
    ),
    Case(
        ask="no-key",
        code="missing_api_key",
        title="A missing key is refused",
        text="If a key is needed, a request without one is refused with 401.",
        why="SDKs raise their authentication error by this status alone.",
        needs=_why_keys_do_not_matter,
    ),
    Case(
        ask="not-json",
        code="invalid_json",
        title="A body that is not JSON is refused",
        text="A body that is not JSON is refused with 400, in the dialect's own envelope.",
        why=_NOT_RETRIED,
    ),
    Case(
        ask="wrong-type",
        code="invalid_type",
        param="messages",
        title="A member of the wrong type is refused",
        text="A request whose messages are a string is refused with 400.",
        why=_NOT_RETRIED,
    ),
    Case(
        ask="no-messages",
        code="missing_required_parameter",
        param="messages",
        title="A request without messages is refused",
        text="A request without messages is refused with 400.",
        why=_NOT_RETRIED,
    ),
    Case(
        ask="no-model",
        code="missing_required_parameter",
        param="model",
        title="A request without a model is refused",
        text="If the model is required, a request without one is refused with 400.",
        why="The caller would pay for a model that it did not choose.",
        source="docs/spec/dialects.md D27",
        holds_for=lambda dialect: dialect.request.model_required,
    ),
    Case(
        ask="lone-options",
        code="invalid_value",
        param="stream_options",
        title="Options of a stream without a stream are refused",
        text="stream_options without stream is refused with 400.",
        why="The caller probably expects a stream.",
        source="docs/spec/dialects.md D26",
        holds_for=lambda dialect: dialect.request.checks_stream_options and not dialect.request.always_streams,
    ),
    Case(
        ask="choices",
        code="invalid_value",
        param="n",
        title="More than one choice is refused",
        text="A dialect with one choice refuses n above 1 with 400.",
        why="The client waits for the second choice.",
        source="docs/spec/dialects.md D29",
        holds_for=lambda dialect: dialect.request.max_choices == 1,
    ),
    Case(
        ask="wrong-method",
        code="method_not_allowed",
        title="Another method is refused",
        text="GET is refused with 405 (or 404).",
        why="A health check or a crawler must not cause costs.",
        source="RFC 9110 15.5.6",
        severity=Severity.ODD,
        also=frozenset({404}),
    ),
    Case(
        ask="elsewhere",
        code="unknown_url",
        title="An unknown path is refused",
        text="An unknown path gets 404.",
        why="A wrong base URL is then easy to see.",
        severity=Severity.ODD,
    ),
)


def _refuses(case: Case) -> Rule[ProbeSession]:
    is_strict = case.severity is Severity.BROKEN

    def needs(interview: ProbeSession, _: Dialect) -> str | None:
        return interview.why_missing(case.ask) or why_passing(interview, case.ask) or case.needs(interview)

    def check(interview: ProbeSession, dialect: Dialect) -> Iterable[Violation]:
        words = case.words(dialect)
        recording = interview.recording(case.ask)
        excerpt = recording.body
        if recording.status != words.status and recording.status not in case.also:
            message = f"status {recording.status}, where {words.status} belongs"
            yield Violation(message, excerpt, answer=case.ask)
        elif is_strict and recording.kind is Kind.FAILURE:
            error = interview.error(case.ask)
            if error is None:
                yield Violation("the body has no error object", excerpt, answer=case.ask)
            elif error.get("type") != words.type:
                message = f"type {shown(error.get('type'))}, where {words.type} belongs"
                yield Violation(message, excerpt, answer=case.ask)

    return Rule(
        id=f"refused.{'too-many-choices' if case.ask == 'choices' else case.ask}",
        title=case.title,
        text=case.text,
        why=case.why,
        source=case.source,
        severity=case.severity,
        holds_for=case.holds_for,
        value=lambda dialect: _spelled(case.words(dialect), dialect),
        needs=needs,
        check=check,
    )


def _refused(interview: ProbeSession, dialect: Dialect) -> list[Case]:
    """The cases that hold here and were refused with the status that belongs to them."""
    return [
        case
        for case in CASES
        if case.severity is Severity.BROKEN
        and case.holds_for(dialect)
        and interview.why_missing(case.ask) is None
        and interview.recording(case.ask).status == case.words(dialect).status
        and interview.error(case.ask) is not None
    ]


def _why_none_refused(interview: ProbeSession, dialect: Dialect) -> str | None:
    return None if _refused(interview, dialect) else "nothing was refused as it should be"


def _check_codes(interview: ProbeSession, dialect: Dialect) -> Iterable[Violation]:
    for case in _refused(interview, dialect):
        error, wanted = interview.error(case.ask) or {}, case.words(dialect).code
        if error.get("code") != wanted:
            message = f"code {shown(error.get('code'))}, where {wanted or 'null'} belongs"
            yield Violation(message, interview.recording(case.ask).body, answer=case.ask)


def _check_params(interview: ProbeSession, dialect: Dialect) -> Iterable[Violation]:
    for case in _refused(interview, dialect):
        error = interview.error(case.ask) or {}
        if case.param is not None and error.get("param") != case.param:
            message = f"param {shown(error.get('param'))}, but {case.param} is at fault"
            yield Violation(message, interview.recording(case.ask).body, answer=case.ask)


_STREAMED = "unknown-model-streamed"


def _why_no_streamed(interview: ProbeSession, _: Dialect) -> str | None:
    return interview.why_missing(_STREAMED) or why_passing(interview, _STREAMED)


def _check_before_stream(interview: ProbeSession, _: Dialect) -> Iterable[Violation]:
    recording = interview.recording(_STREAMED)
    kind = recording.header("content-type") or ""
    if recording.status is not None and recording.status < 400:
        message = f"status {recording.status} and an answer, where the request could be refused at once"
        yield Violation(message, recording.body, answer=_STREAMED)
    elif "event-stream" in kind.lower():
        yield Violation(f"a refusal as {shown(kind)}", recording.body, answer=_STREAMED)


def _why_not_both(interview: ProbeSession, _: Dialect) -> str | None:
    for name in ("unknown-model", _STREAMED):
        reason = interview.why_missing(name) or why_passing(interview, name)
        if reason is None and interview.recording(name).kind is not Kind.FAILURE:
            reason = f"{name} was not refused"
        if reason is not None:
            return reason
    return None


def _check_same(interview: ProbeSession, _: Dialect) -> Iterable[Violation]:
    whole, streamed = interview.recording("unknown-model"), interview.recording(_STREAMED)
    if whole.status != streamed.status:
        message = f"status {streamed.status} with stream, {whole.status} without"
        yield Violation(message, streamed.body, answer=_STREAMED)
    one, other = interview.error("unknown-model") or {}, interview.error(_STREAMED) or {}
    for name in ("type", "code", "param"):
        if one.get(name) != other.get(name):
            message = f"{name} {shown(other.get(name))} with stream, {shown(one.get(name))} without"
            yield Violation(message, streamed.body, answer=_STREAMED)


def _check_leak(interview: ProbeSession, _: Dialect) -> Iterable[Violation]:
    for heard in interview.heard:
        if heard.has_leaked and heard.recording is not None:
            yield Violation("the key stands in the answer (masked here)", heard.recording.body, answer=heard.name)


RULES: tuple[Rule[ProbeSession], ...] = (
    *(_refuses(case) for case in CASES),
    Rule(
        id="refused.code",
        title="A refusal has its code",
        text="The code of a refusal is the one of the dialect's table.",
        why="It distinguishes refusals with the same status and type.",
        source="docs/spec/dialects.md E1 to E17",
        severity=Severity.ODD,
        holds_for=lambda dialect: "code" in dialect.error_members,
        needs=_why_none_refused,
        check=_check_codes,
    ),
    Rule(
        id="refused.param",
        title="A refusal names what is wrong",
        text="A refusal for one member of the request names it in param.",
        why="Without the name a client can only show the text.",
        source="docs/spec/dialects.md D22, E1",
        severity=Severity.ODD,
        holds_for=lambda dialect: "param" in dialect.error_members,
        needs=_why_none_refused,
        check=_check_params,
    ),
    Rule(
        id="refused.before-stream",
        title="A refusal has a status, streamed or not",
        text="A request that asks for a stream and cannot be answered gets a status and a JSON body, not a stream.",
        why="Many clients do not look for errors in a stream with status 200.",
        source="docs/spec/dialects.md E1 to E17",
        needs=_why_no_streamed,
        check=_check_before_stream,
    ),
    Rule(
        id="refused.same-when-streamed",
        title="A refusal is the same, streamed or not",
        text="The same mistake gets the same status, type, code and param, whether or not a stream was asked for.",
        why="Otherwise every client needs two error readers.",
        source="docs/spec/failures.md K2",
        needs=_why_not_both,
        check=_check_same,
    ),
    Rule(
        id="refused.keeps-secrets",
        title="No answer contains the key",
        text="No answer repeats the key that was sent, right or wrong.",
        why="Error texts end up in logs and on screens.",
        source="docs/spec/failures.md K3",
        check=_check_leak,
    ),
)


def _spelled(words: ErrorFields, dialect: Dialect) -> str:
    has_code = words.code is not None and "code" in dialect.error_members
    return f"{words.status} {words.type}" + (f" / {words.code}" if has_code else "")
