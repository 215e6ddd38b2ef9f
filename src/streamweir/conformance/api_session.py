"""Rules for a probe session that are the same for every API without dialects: refusals, keys, connections."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from msgspec import Struct

from streamweir.conformance.probe_session import FailureKind, ProbeSession, why_inconclusive
from streamweir.conformance.recording import Kind
from streamweir.conformance.rule import Rule, Severity, Violation
from streamweir.conformance.rules.group import quote
from streamweir.core.errors import CallerError

Check = Callable[[ProbeSession, Any], Iterable[Violation]]
SkipReason = Callable[[ProbeSession, Any], str | None]


NOT_RETRIED = "Clients retry temporary errors: a request that can never succeed must not look like one."


class RefusalCase(Struct, frozen=True, kw_only=True):
    """A request that must be refused, and the gateway's code for it."""

    name: str
    code: str
    title: str
    text: str
    why: str = NOT_RETRIED
    param: str | None = None
    """The member of the request that the refusal names."""
    severity: Severity = Severity.BROKEN


INPUT_CASES = (
    RefusalCase(
        name="wrong-key",
        code="invalid_api_key",
        title="A wrong key is refused",
        text="An unknown key is refused as such.",
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
        text="`input` that is neither a text nor a list is refused.",
        param="input",
    ),
    RefusalCase(
        name="no-input",
        code="missing_required_parameter",
        title="No input is refused",
        text="A request without `input` is refused.",
        param="input",
    ),
)
"""Of every API whose requests have `input`."""


class Expected(Protocol):
    """What a refusal looks like in an API."""

    @property
    def status(self) -> int: ...
    @property
    def type(self) -> str: ...


def _in_openai_form(code: str) -> Expected:
    return CallerError(code, "").spec


def refuses(
    case: RefusalCase, source: str, *, expected_of: Callable[[str], Expected] = _in_openai_form
) -> Rule[ProbeSession, Any]:
    """`expected_of`: what the gateway's code is in this API."""
    spec = expected_of(case.code)

    def skip_reason(session: ProbeSession, _: object) -> str | None:
        reason = session.why_missing(case.name) or why_inconclusive(session, case.name)
        if reason is None and case.code.endswith("_api_key") and session.why_missing("no-key") is None:
            return "the endpoint asks nobody for a key" if session.recording("no-key").status == 200 else None
        return reason

    def check(session: ProbeSession, _: object) -> Iterator[Violation]:
        recording, error = session.recording(case.name), session.error(case.name)
        if recording.status != spec.status:
            message = f"status {recording.status}, where {spec.status} belongs"
            yield Violation(message, recording.body, answer=case.name)
        elif error is not None and error.get("type") != spec.type:
            message = f"type {quote(error.get('type'))}, where {spec.type} belongs"
            yield Violation(message, recording.body, answer=case.name)

    return Rule(
        id=f"refused.{case.name}",
        title=case.title,
        text=case.text,
        why=case.why,
        source=source,
        severity=case.severity,
        value=lambda _: f"{spec.status} `{spec.type}`",
        skip_reason=skip_reason,
        check=check,
    )


def refuses_by_name(cases: Iterable[RefusalCase], source: str) -> Rule[ProbeSession, Any]:
    """Of the cases with a member that is the reason."""
    named = [case for case in cases if case.param is not None]

    def refused(session: ProbeSession) -> list[RefusalCase]:
        return [each for each in named if session.why_missing(each.name) is None and session.error(each.name)]

    def check(session: ProbeSession, _: object) -> Iterator[Violation]:
        for case in refused(session):
            param = (session.error(case.name) or {}).get("param")
            if param != case.param:
                message = f"`param` is {quote(param)}, where {quote(case.param)} belongs"
                yield Violation(message, session.recording(case.name).body, answer=case.name)

    return Rule(
        id="refused.param",
        title="A refusal names the member",
        text="A refusal for one member of the request names it in `param`.",
        why="Without the name a client can only show the text.",
        source=source,
        severity=Severity.ODD,
        skip_reason=lambda session, _: None if refused(session) else "no member was refused",
        check=check,
    )


def answered(*names: str) -> SkipReason:
    """Skips a rule unless these requests were answered."""
    return lambda session, _: session.why_unanswered(*names)


def is_of_kind(name: str, kind: Kind) -> Check:
    def check(session: ProbeSession, _: object) -> Iterator[Violation]:
        recording = session.recording(name)
        if recording.kind is not kind:
            yield Violation(f"the answer is of the kind {recording.kind}", recording.body, answer=name)

    return check


def streamed_rule(source: str) -> Rule[ProbeSession, Any]:
    return Rule(
        id="asked.stream",
        title="A stream is a stream",
        text="With `stream: true` the answer is an event stream.",
        why="A client that waits for events sees nothing.",
        source=source,
        skip_reason=answered("streamed"),
        check=is_of_kind("streamed", Kind.STREAM),
    )


def whole_rule(source: str, why: str) -> Rule[ProbeSession, Any]:
    return Rule(
        id="asked.whole",
        title="A whole answer is one body",
        text="Without `stream` the answer is one JSON body.",
        why=why,
        source=source,
        skip_reason=answered("buffered"),
        check=is_of_kind("buffered", Kind.WHOLE),
    )


def before_stream(name: str, source: str) -> Rule[ProbeSession, Any]:
    """`name`: of a streamed request that must be refused."""

    def check(session: ProbeSession, _: object) -> Iterator[Violation]:
        recording = session.recording(name)
        if recording.kind is Kind.STREAM or (recording.status or 0) < 400:
            yield Violation("the refusal is a stream, or has no error status", recording.body)

    return Rule(
        id="refused.before-stream",
        title="A refusal is no stream",
        text="A streamed request that is refused gets a status and a JSON body, not a stream.",
        why="SDKs raise by the status, and may retry; an error inside a stream is final.",
        source=source,
        skip_reason=lambda session, _: session.why_missing(name),
        check=check,
    )


def _complete(session: ProbeSession, _: object) -> Iterator[Violation]:
    for each in session.exchanges:
        if each.failure_kind is FailureKind.CUT:
            yield Violation(each.failure or "the endpoint broke off", answer=each.name)


def _secrets(session: ProbeSession, _: object) -> Iterator[Violation]:
    for each in session.exchanges:
        if each.leaked_key:
            yield Violation("the answer repeats the key", answer=each.name)


KEEPS_SECRETS: Rule[ProbeSession, Any] = Rule(
    id="refused.keeps-secrets",
    title="No answer repeats the key",
    text="No answer contains the key that was sent.",
    why="Answers are logged and shown.",
    source="docs/spec/security.md S1",
    check=_secrets,
)
COMPLETE: Rule[ProbeSession, Any] = Rule(
    id="connection.complete",
    title="Answers come to their end",
    text="No connection breaks off inside of an answer.",
    why="The client gets a part.",
    source="RFC 9112 section 8",
    check=_complete,
)


def request_ids(header: str, source: str) -> Rule[ProbeSession, Any]:
    """`header`: the one that names a request."""

    def check(session: ProbeSession, _: object) -> Iterator[Violation]:
        ids = [each.recording.header(header) for each in session.exchanges if each.recording is not None]
        known = [id for id in ids if id]
        if len(set(known)) < len(known):
            yield Violation(f"two answers have the same `{header}`")

    return Rule(
        id="connection.request-ids",
        title="Requests have ids of their own",
        text=f"No two answers have the same `{header}`.",
        why="By it a user names the request that went wrong.",
        source=source,
        severity=Severity.ODD,
        skip_reason=lambda session, _: None if len(session.exchanges) > 1 else "fewer than two answers",
        check=check,
    )
