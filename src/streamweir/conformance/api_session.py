"""Rules for a probe session that are the same for every API without dialects: keys, connections, kinds of answers."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from streamweir.conformance.probe_session import FailureKind, ProbeSession
from streamweir.conformance.recording import Kind
from streamweir.conformance.rule import Rule, Severity, Violation

Check = Callable[[ProbeSession, Any], Iterable[Violation]]
SkipReason = Callable[[ProbeSession, Any], str | None]


def answered(*names: str) -> SkipReason:
    """Skips a rule unless these requests were answered."""
    return lambda session, _: session.why_unanswered(*names)


def is_of_kind(name: str, kind: Kind) -> Check:
    def check(session: ProbeSession, _: object) -> Iterator[Violation]:
        recording = session.recording(name)
        if recording.kind is not kind:
            yield Violation(f"the answer is of the kind {recording.kind}", recording.body, answer=name)

    return check


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
        told = [id for id in ids if id]
        if len(set(told)) < len(told):
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
