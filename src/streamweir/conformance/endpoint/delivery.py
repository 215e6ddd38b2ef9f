"""Rules for the delivery of answers: when their pieces arrive, whether the connection is kept, what a cancel does.

Times are those of the recording, in seconds since the request was sent. A rule is skipped if the times are not
conclusive: an answer that was generated very fast may arrive all at once.
"""

from collections import Counter
from collections.abc import Iterable

from streamweir.conformance.plan import ORIGIN
from streamweir.conformance.probe_session import FailureKind, ObservedExchange, ProbeSession, arrival_s, text_frames
from streamweir.conformance.recording import Kind
from streamweir.conformance.rule import Rule, Severity, Violation
from streamweir.conformance.rules.group import quote
from streamweir.frontends.chat.dialect import Dialect

MIN_DURATION_S = 0.25
"""In a shorter time the network alone may deliver everything at once."""
MIN_FRAMES = 8
MIN_SHARE = 0.2
"""The share of the answer's time in which its pieces arrive. Below this, the answer was buffered."""
MIN_DELAY_S = 0.1
MIN_BLOCKED_S = 1.0
BLOCKED_SHARE = 0.75
"""A request that waits for this share of the rest of a cancelled answer is blocked by it."""


def _spread(session: ProbeSession, name: str) -> tuple[int, float, float] | None:
    """Of a streamed answer: the number of frames with content, and the times of the first and the last of them."""
    recording = session.recording(name)
    frames = text_frames(session.parsed(name))
    times = [at for frame in frames if (at := arrival_s(recording, frame)) is not None]
    return (len(times), times[0], times[-1]) if times else None


def _why_not_measured(session: ProbeSession, _: Dialect) -> str | None:
    reason = session.why_unanswered("streamed", "long")
    if reason is not None:
        return reason
    spread = _spread(session, "long")
    if spread is None or _spread(session, "streamed") is None:
        return "no time was taken"
    count, first, last = spread
    if count < MIN_FRAMES:
        return f"the answer has only {count} frames with something in them"
    if last < MIN_DURATION_S:
        return f"the whole answer was there in {last:.2f} s: too fast to tell"
    if (last - first) / last < MIN_SHARE and not _begins_later(session):
        return f"it was made in {last - first:.2f} s: too fast to tell"
    return None


def _begins_later(session: ProbeSession) -> bool:
    """A longer answer begins later than a short one only if it is buffered.

    Both long answers must begin later, because a single one may be late for other reasons. The second one is the
    answer that is cancelled.
    """
    if session.why_missing("cancelled") is not None:
        return False
    again, short_s = _spread(session, "cancelled"), _first_s(session, "streamed")
    return again is not None and min(_first_s(session, "long"), again[1]) > 2 * short_s + MIN_DELAY_S


def _first_s(session: ProbeSession, name: str) -> float:
    spread = _spread(session, name)
    return spread[1] if spread is not None else 0.0


def _check_delivery(session: ProbeSession, _: Dialect) -> Iterable[Violation]:
    spread = _spread(session, "long")
    if spread is None:
        return
    count, first, last = spread
    share = (last - first) / last
    if share < MIN_SHARE:
        message = f"{count} frames came within {share:.0%} of the answer's time: from {first:.2f} s to {last:.2f} s"
        message += f" (a short answer begins at {_first_s(session, 'streamed'):.2f} s)"
        yield Violation(message, answer="long")


def _check_complete(session: ProbeSession, _: Dialect) -> Iterable[Violation]:
    for exchange in session.exchanges:
        if exchange.failure_kind is FailureKind.CUT:
            body = exchange.recording.body if exchange.recording is not None else b""
            yield Violation(exchange.failure or "the answer was cut", body[-240:], answer=exchange.name)


def _followed_by(session: ProbeSession, kind: str) -> list[tuple[ObservedExchange, ObservedExchange]]:
    """Complete answers of a kind, each with the exchange that followed."""
    pairs = []
    for exchange, following in zip(session.exchanges, session.exchanges[1:], strict=False):
        recording = exchange.recording
        if exchange.failure_kind is not None or recording is None or recording.was_cut or exchange.connection is None:
            continue
        status = recording.status or 0
        is_error, is_stream = 400 <= status < 500, status == 200 and recording.kind is Kind.STREAM
        if following.connection is not None and (is_error if kind == "error" else is_stream):
            pairs.append((exchange, following))
    return pairs


def _check_kept(session: ProbeSession, kind: str) -> Iterable[Violation]:
    for exchange, following in _followed_by(session, kind):
        connection_header = exchange.recording.header("connection") if exchange.recording is not None else None
        if exchange.connection != following.connection and "close" not in (connection_header or "").lower():
            yield Violation("the connection was closed behind it without a word", answer=exchange.name)


def _request_ids(session: ProbeSession) -> list[tuple[str, str]]:
    return [
        (each.name, id)
        for each in session.exchanges
        if each.recording is not None and (id := each.recording.header("x-request-id"))
    ]


def _check_request_ids(session: ProbeSession, _: Dialect) -> Iterable[Violation]:
    counts = Counter(id for _, id in _request_ids(session))
    for id, count in counts.items():
        if count > 1:
            names = [name for name, own in _request_ids(session) if own == id]
            yield Violation(f"{count} answers have the request id {quote(id)}: {', '.join(names[:5])}", answer=names[1])


def _check_origin(session: ProbeSession, _: Dialect) -> Iterable[Violation]:
    allowed = session.recording("origin").header("access-control-allow-origin")
    if allowed in ("*", ORIGIN):
        yield Violation(f"access-control-allow-origin {quote(allowed)} for a page that nobody knows", answer="origin")


def _why_not_cancelled(session: ProbeSession, _: Dialect) -> str | None:
    reason = session.why_missing("cancelled")
    if reason is not None:
        return reason
    if session.recording("cancelled").status != 200:
        return f"cancelled was answered with status {session.recording('cancelled').status}"
    if not session.recording("cancelled").was_cut:
        return "the answer was over before it could be left"
    return (
        None
        if session.exchange("after-cancel").failure_kind is not FailureKind.TIMED_OUT
        else "the next answer did not come in time"
    )


def _why_no_next(session: ProbeSession, dialect: Dialect) -> str | None:
    if all(each.name != "after-cancel" for each in session.exchanges):
        return session.why_missing("after-cancel")
    return _why_not_cancelled(session, dialect)


def _check_next(session: ProbeSession, _: Dialect) -> Iterable[Violation]:
    exchange = session.exchange("after-cancel")
    if exchange.recording is None:
        yield Violation(f"the request after it got no answer: {exchange.failure}", answer="after-cancel")
    elif exchange.recording.status != 200:
        message = f"the request after it was answered with status {exchange.recording.status}"
        yield Violation(message, exchange.recording.body, answer="after-cancel")


def _why_no_times(session: ProbeSession, dialect: Dialect) -> str | None:
    reason = _why_no_next(session, dialect) or session.why_unanswered("streamed", "after-cancel", "long")
    if reason is not None:
        return reason
    if any(_spread(session, name) is None for name in ("streamed", "after-cancel", "long")):
        return "no time was taken"
    if _remaining_s(session) < MIN_BLOCKED_S:
        return "the rest of the answer would have taken too little time to be seen"
    return None


def _remaining_s(session: ProbeSession) -> float:
    """How long the cancelled answer would have continued, estimated from the complete one."""
    spread = _spread(session, "long")
    return spread[2] - spread[1] if spread is not None else 0.0


def _check_cancelled(session: ProbeSession, _: Dialect) -> Iterable[Violation]:
    before, after = _spread(session, "streamed"), _spread(session, "after-cancel")
    if before is None or after is None:
        return
    delay_s = after[1] - before[1]
    if delay_s > max(MIN_BLOCKED_S, BLOCKED_SHARE * _remaining_s(session)):
        message = f"the next answer began {delay_s:.1f} s later than usual: the one that was left seems to have gone on"
        yield Violation(message, answer="after-cancel")


RULES: tuple[Rule[ProbeSession, Dialect], ...] = (
    Rule(
        id="delivery.as-made",
        title="Chunks arrive as they are made",
        text="The frames of a stream arrive one after the other while the answer is generated, not all at its end.",
        why="A buffer on the way would defeat the purpose of streaming, without an error.",
        source="docs/spec/dialects.md A17",
        value=lambda _: f"over at least {MIN_SHARE:.0%} of the answer's time",
        skip_reason=_why_not_measured,
        check=_check_delivery,
    ),
    Rule(
        id="connection.complete",
        title="Every answer ends as HTTP says",
        text="No answer is cut: its last chunk arrives, or all announced bytes.",
        why="A cut connection is an error to some clients and the end of the answer to others.",
        source="RFC 9112 8",
        check=_check_complete,
    ),
    Rule(
        id="connection.after-error",
        title="A refusal keeps the connection, or announces its end",
        text="After a refusal the connection can be used for the next request, or `connection: close` was sent.",
        why="A client that uses it again finds it closed, and cannot know whether its request was read.",
        source="RFC 9112 9.6",
        severity=Severity.ODD,
        skip_reason=lambda session, _: None if _followed_by(session, "error") else "nothing was asked after a refusal",
        check=lambda session, _: _check_kept(session, "error"),
    ),
    Rule(
        id="connection.after-stream",
        title="A stream keeps the connection, or announces its end",
        text="After a stream the connection can be used for the next request, or `connection: close` was sent.",
        why="A client that uses it again finds it closed, and cannot know whether its request was read.",
        source="docs/spec/dialects.md A22; RFC 9112 9.6",
        severity=Severity.ODD,
        applies_to=lambda dialect: bool(dialect.terminator),
        skip_reason=lambda session, _: None if _followed_by(session, "stream") else "nothing was asked after a stream",
        check=lambda session, _: _check_kept(session, "stream"),
    ),
    Rule(
        id="connection.request-ids",
        title="Every request has its own request id",
        text="No two answers have the same x-request-id.",
        why="Users give it to the operator of the service to find one request.",
        source="docs/spec/failures.md K4",
        skip_reason=lambda session, _: None if len(_request_ids(session)) > 1 else "there are no two request ids",
        check=_check_request_ids,
    ),
    Rule(
        id="connection.origin",
        title="Unknown origins are refused",
        text="A page of an unknown origin is not allowed to read the answer.",
        why="A key in a web page is public; an open origin invites users to put it there.",
        source="WHATWG Fetch, CORS protocol",
        severity=Severity.ODD,
        skip_reason=lambda session, _: session.why_missing("origin"),
        check=_check_origin,
    ),
    Rule(
        id="cancel.next-answer",
        title="A request after a cancel is answered",
        text="After a caller has closed the connection within a stream, the next request is answered as usual.",
        why="Callers cancel often; a slot that stays in use is lost for all.",
        source="docs/spec/failures.md C3",
        skip_reason=_why_no_next,
        check=_check_next,
    ),
    Rule(
        id="cancel.frees-the-model",
        title="A cancel stops the work",
        text="After a cancel, the rest of the answer does not delay the next one.",
        why="An answer that is not read still costs money, and others wait for it.",
        source="docs/spec/failures.md C3",
        severity=Severity.ODD,
        skip_reason=_why_no_times,
        check=_check_cancelled,
    ),
)
