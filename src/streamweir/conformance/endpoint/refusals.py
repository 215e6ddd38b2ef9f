"""Rules for requests that must be refused: with which status, type and code, and before a stream begins.

The expected error is computed from the `Dialect` value by the function that the gateway itself uses for its refusals
(`frontends.chat.errors.error_fields`), so the gateway and the checker use one table. Clients choose their exception by
status and type; a different code, or a missing parameter name, is odd.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct

from streamweir.conformance.probe_session import ProbeSession, why_inconclusive
from streamweir.conformance.recording import Kind
from streamweir.conformance.rule import Rule, Severity, Violation
from streamweir.conformance.rules.group import quote
from streamweir.core.errors import CallerError
from streamweir.frontends.chat.dialect import Dialect, ErrorFields
from streamweir.frontends.chat.errors import error_fields

_TABLE = "docs/spec/dialects.md E1 to E17"


class Case(Struct, frozen=True, kw_only=True):
    """A request that must be refused, and the expected error."""

    request_name: str
    code: str
    """The gateway's own code; the dialect determines the error."""
    title: str
    text: str
    why: str
    param: str | None = None
    source: str = _TABLE
    severity: Severity = Severity.BROKEN
    other_statuses: frozenset[int] = frozenset()
    """Other statuses that are accepted."""
    applies_to: Callable[[Dialect], bool] = lambda _: True
    skip_reason: Callable[[ProbeSession], str | None] = lambda _: None

    def expected_error(self, dialect: Dialect) -> ErrorFields:
        return error_fields(CallerError(self.code, ""), dialect)


def _why_keys_do_not_matter(session: ProbeSession) -> str | None:
    """An endpoint that needs no key has no reason to refuse a wrong one."""
    if session.why_missing("no-key") is None and session.recording("no-key").status == 200:
        return "the endpoint asks nobody for a key"
    return None


_NOT_RETRIED = "Clients retry temporary errors: a request that can never succeed must not look like one."

CASES = (
    Case(
        request_name="unknown-model",
        code="model_not_found",
        param="model",
        title="An unknown model is refused",
        text="A model that does not exist is refused as such.",
        why="With another model's answer, or an error to retry, the misspelled name stays unnoticed.",
    ),
    Case(
        request_name="wrong-key",
        code="invalid_api_key",
        title="A wrong key is refused",
        text="An unknown key is refused with 401.",
        why="SDKs raise their authentication error by this status alone.",
        skip_reason=_why_keys_do_not_matter,
    ),
    Case(
        request_name="no-key",
        code="missing_api_key",
        title="A missing key is refused",
        text="If a key is needed, a request without one is refused with 401.",
        why="SDKs raise their authentication error by this status alone.",
        skip_reason=_why_keys_do_not_matter,
    ),
    Case(
        request_name="not-json",
        code="invalid_json",
        title="A body that is not JSON is refused",
        text="A body that is not JSON is refused with 400, in the dialect's own envelope.",
        why=_NOT_RETRIED,
    ),
    Case(
        request_name="wrong-type",
        code="invalid_type",
        param="messages",
        title="A member of the wrong type is refused",
        text="A request whose messages are a string is refused with 400.",
        why=_NOT_RETRIED,
    ),
    Case(
        request_name="no-messages",
        code="missing_required_parameter",
        param="messages",
        title="A request without messages is refused",
        text="A request without messages is refused with 400.",
        why=_NOT_RETRIED,
    ),
    Case(
        request_name="no-model",
        code="missing_required_parameter",
        param="model",
        title="A request without a model is refused",
        text="If the model is required, a request without one is refused with 400.",
        why="The caller would pay for a model that it did not choose.",
        source="docs/spec/dialects.md D27",
        applies_to=lambda dialect: dialect.request.model_required,
    ),
    Case(
        request_name="lone-options",
        code="invalid_value",
        param="stream_options",
        title="Options of a stream without a stream are refused",
        text="stream_options without stream is refused with 400.",
        why="The caller probably expects a stream.",
        source="docs/spec/dialects.md D26",
        applies_to=lambda dialect: dialect.request.checks_stream_options and not dialect.request.always_streams,
    ),
    Case(
        request_name="choices",
        code="invalid_value",
        param="n",
        title="More than one choice is refused",
        text="A dialect with one choice refuses n above 1 with 400.",
        why="The client waits for the second choice.",
        source="docs/spec/dialects.md D29",
        applies_to=lambda dialect: dialect.request.max_choices == 1,
    ),
    Case(
        request_name="wrong-method",
        code="method_not_allowed",
        title="Another method is refused",
        text="GET is refused with 405 (or 404).",
        why="A health check or a crawler must not cause costs.",
        source="RFC 9110 15.5.6",
        severity=Severity.ODD,
        other_statuses=frozenset({404}),
    ),
    Case(
        request_name="elsewhere",
        code="unknown_url",
        title="An unknown path is refused",
        text="An unknown path gets 404.",
        why="A wrong base URL is then easy to see.",
        severity=Severity.ODD,
    ),
)


def _refuses(case: Case) -> Rule[ProbeSession, Dialect]:
    is_strict = case.severity is Severity.BROKEN

    def skip_reason(session: ProbeSession, _: Dialect) -> str | None:
        return (
            session.why_missing(case.request_name)
            or why_inconclusive(session, case.request_name)
            or case.skip_reason(session)
        )

    def check(session: ProbeSession, dialect: Dialect) -> Iterable[Violation]:
        expected = case.expected_error(dialect)
        recording = session.recording(case.request_name)
        excerpt = recording.body
        if recording.status != expected.status and recording.status not in case.other_statuses:
            message = f"status {recording.status}, where {expected.status} belongs"
            yield Violation(message, excerpt, answer=case.request_name)
        elif is_strict and recording.kind is Kind.FAILURE:
            error = session.error(case.request_name)
            if error is None:
                yield Violation("the body has no error object", excerpt, answer=case.request_name)
            elif error.get("type") != expected.type:
                message = f"type {quote(error.get('type'))}, where {expected.type} belongs"
                yield Violation(message, excerpt, answer=case.request_name)

    return Rule(
        id=f"refused.{'too-many-choices' if case.request_name == 'choices' else case.request_name}",
        title=case.title,
        text=case.text,
        why=case.why,
        source=case.source,
        severity=case.severity,
        applies_to=case.applies_to,
        value=lambda dialect: _describe(case.expected_error(dialect), dialect),
        skip_reason=skip_reason,
        check=check,
    )


def _refused(session: ProbeSession, dialect: Dialect) -> list[Case]:
    """The cases that apply to the dialect and were refused with the expected status."""
    return [
        case
        for case in CASES
        if case.severity is Severity.BROKEN
        and case.applies_to(dialect)
        and session.why_missing(case.request_name) is None
        and session.recording(case.request_name).status == case.expected_error(dialect).status
        and session.error(case.request_name) is not None
    ]


def _why_none_refused(session: ProbeSession, dialect: Dialect) -> str | None:
    return None if _refused(session, dialect) else "nothing was refused as it should be"


def _check_codes(session: ProbeSession, dialect: Dialect) -> Iterable[Violation]:
    for case in _refused(session, dialect):
        error, expected_code = session.error(case.request_name) or {}, case.expected_error(dialect).code
        if error.get("code") != expected_code:
            message = f"code {quote(error.get('code'))}, where {expected_code or 'null'} belongs"
            yield Violation(message, session.recording(case.request_name).body, answer=case.request_name)


def _check_params(session: ProbeSession, dialect: Dialect) -> Iterable[Violation]:
    for case in _refused(session, dialect):
        error = session.error(case.request_name) or {}
        if case.param is not None and error.get("param") != case.param:
            message = f"param {quote(error.get('param'))}, but {case.param} is at fault"
            yield Violation(message, session.recording(case.request_name).body, answer=case.request_name)


_STREAMED = "unknown-model-streamed"


def _why_no_streamed(session: ProbeSession, _: Dialect) -> str | None:
    return session.why_missing(_STREAMED) or why_inconclusive(session, _STREAMED)


def _check_before_stream(session: ProbeSession, _: Dialect) -> Iterable[Violation]:
    recording = session.recording(_STREAMED)
    kind = recording.header("content-type") or ""
    if recording.status is not None and recording.status < 400:
        message = f"status {recording.status} and an answer, where the request could be refused at once"
        yield Violation(message, recording.body, answer=_STREAMED)
    elif "event-stream" in kind.lower():
        yield Violation(f"a refusal as {quote(kind)}", recording.body, answer=_STREAMED)


def _why_not_both(session: ProbeSession, _: Dialect) -> str | None:
    for name in ("unknown-model", _STREAMED):
        reason = session.why_missing(name) or why_inconclusive(session, name)
        if reason is None and session.recording(name).kind is not Kind.FAILURE:
            reason = f"{name} was not refused"
        if reason is not None:
            return reason
    return None


def _check_same(session: ProbeSession, _: Dialect) -> Iterable[Violation]:
    whole, streamed = session.recording("unknown-model"), session.recording(_STREAMED)
    if whole.status != streamed.status:
        message = f"status {streamed.status} with stream, {whole.status} without"
        yield Violation(message, streamed.body, answer=_STREAMED)
    one, other = session.error("unknown-model") or {}, session.error(_STREAMED) or {}
    for name in ("type", "code", "param"):
        if one.get(name) != other.get(name):
            message = f"{name} {quote(other.get(name))} with stream, {quote(one.get(name))} without"
            yield Violation(message, streamed.body, answer=_STREAMED)


def _check_leak(session: ProbeSession, _: Dialect) -> Iterable[Violation]:
    for exchange in session.exchanges:
        if exchange.leaked_key and exchange.recording is not None:
            yield Violation("the key stands in the answer (masked here)", exchange.recording.body, answer=exchange.name)


RULES: tuple[Rule[ProbeSession, Dialect], ...] = (
    *(_refuses(case) for case in CASES),
    Rule(
        id="refused.code",
        title="A refusal has its code",
        text="The code of a refusal is the one of the dialect's table.",
        why="It distinguishes refusals with the same status and type.",
        source="docs/spec/dialects.md E1 to E17",
        severity=Severity.ODD,
        applies_to=lambda dialect: "code" in dialect.error_members,
        skip_reason=_why_none_refused,
        check=_check_codes,
    ),
    Rule(
        id="refused.param",
        title="A refusal names what is wrong",
        text="A refusal for one member of the request names it in param.",
        why="Without the name a client can only show the text.",
        source="docs/spec/dialects.md D22, E1",
        severity=Severity.ODD,
        applies_to=lambda dialect: "param" in dialect.error_members,
        skip_reason=_why_none_refused,
        check=_check_params,
    ),
    Rule(
        id="refused.before-stream",
        title="A refusal has a status, streamed or not",
        text="A request that asks for a stream and cannot be answered gets a status and a JSON body, not a stream.",
        why="Many clients do not look for errors in a stream with status 200.",
        source="docs/spec/dialects.md E1 to E17",
        skip_reason=_why_no_streamed,
        check=_check_before_stream,
    ),
    Rule(
        id="refused.same-when-streamed",
        title="A refusal is the same, streamed or not",
        text="The same mistake gets the same status, type, code and param, whether or not a stream was asked for.",
        why="Otherwise every client needs two error readers.",
        source="docs/spec/failures.md K2",
        skip_reason=_why_not_both,
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


def _describe(expected: ErrorFields, dialect: Dialect) -> str:
    has_code = expected.code is not None and "code" in dialect.error_members
    return f"{expected.status} {expected.type}" + (f" / {expected.code}" if has_code else "")
