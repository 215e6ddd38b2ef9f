"""Rules for the way an answer takes: when its pieces come, how its connection ends, what becomes of the next one.

Times are those of the recording, in seconds since the request was sent. What cannot be told from them is
skipped: an answer that was made in a moment can come in one lump honestly.
"""

from collections import Counter
from collections.abc import Iterable

from streamweir.conformance.plan import ORIGIN
from streamweir.conformance.probe_session import Loss, ObservedExchange, ProbeSession, arrival_s, text_frames
from streamweir.conformance.recording import Kind
from streamweir.conformance.rule import Rule, Severity, Violation
from streamweir.conformance.rules.group import shown
from streamweir.frontends.chat.dialect import Dialect

SHORTEST_S = 0.25
"""Below this the network alone may deliver everything at once."""
FEWEST_FRAMES = 8
SMALLEST_SHARE = 0.2
"""Of the answer's time in which its pieces come: below this, it comes in one lump."""
LATER_BY_S = 0.1
WAITED_S = 1.0
MOST_OF_IT = 0.75
"""Who waits for so much of the rest of an answer waits for that answer."""


def _spread(interview: ProbeSession, name: str) -> tuple[int, float, float] | None:
    """Of a streamed answer: its frames with something in them, when the first and when the last of them came."""
    recording = interview.recording(name)
    frames = text_frames(interview.reading(name))
    times = [at for frame in frames if (at := arrival_s(recording, frame)) is not None]
    return (len(times), times[0], times[-1]) if times else None


def _why_not_measured(interview: ProbeSession, _: Dialect) -> str | None:
    reason = interview.why_unanswered("streamed", "long")
    if reason is not None:
        return reason
    spread = _spread(interview, "long")
    if spread is None or _spread(interview, "streamed") is None:
        return "no time was taken"
    count, first, last = spread
    if count < FEWEST_FRAMES:
        return f"the answer has only {count} frames with something in them"
    if last < SHORTEST_S:
        return f"the whole answer was there in {last:.2f} s: too fast to tell"
    if (last - first) / last < SMALLEST_SHARE and not _begins_later(interview):
        return f"it was made in {last - first:.2f} s: too fast to tell"
    return None


def _begins_later(interview: ProbeSession) -> bool:
    """A longer answer begins no later than a short one, unless somebody collects it first.

    Seen twice, for once anything can be late: the long question is put again, as the one that is left.
    """
    if interview.why_missing("cancelled") is not None:
        return False
    again, short_s = _spread(interview, "cancelled"), _first_s(interview, "streamed")
    return again is not None and min(_first_s(interview, "long"), again[1]) > 2 * short_s + LATER_BY_S


def _first_s(interview: ProbeSession, name: str) -> float:
    spread = _spread(interview, name)
    return spread[1] if spread is not None else 0.0


def _check_delivery(interview: ProbeSession, _: Dialect) -> Iterable[Violation]:
    spread = _spread(interview, "long")
    if spread is None:
        return
    count, first, last = spread
    share = (last - first) / last
    if share < SMALLEST_SHARE:
        message = f"{count} frames came within {share:.0%} of the answer's time: from {first:.2f} s to {last:.2f} s"
        message += f" (a short answer begins at {_first_s(interview, 'streamed'):.2f} s)"
        yield Violation(message, answer="long")


def _check_complete(interview: ProbeSession, _: Dialect) -> Iterable[Violation]:
    for heard in interview.heard:
        if heard.loss is Loss.CUT:
            body = heard.recording.body if heard.recording is not None else b""
            yield Violation(heard.failure or "the answer was cut", body[-240:], answer=heard.name)


def _followed(interview: ProbeSession, wanted: str) -> list[tuple[ObservedExchange, ObservedExchange]]:
    """Answers of a kind that came whole, each with the one that was asked for next."""
    pairs = []
    for heard, following in zip(interview.heard, interview.heard[1:], strict=False):
        recording = heard.recording
        if heard.loss is not None or recording is None or recording.was_cut or heard.connection is None:
            continue
        status = recording.status or 0
        is_error, is_stream = 400 <= status < 500, status == 200 and recording.kind is Kind.STREAM
        if following.connection is not None and (is_error if wanted == "error" else is_stream):
            pairs.append((heard, following))
    return pairs


def _check_kept(interview: ProbeSession, wanted: str) -> Iterable[Violation]:
    for heard, following in _followed(interview, wanted):
        told = heard.recording.header("connection") if heard.recording is not None else None
        if heard.connection != following.connection and "close" not in (told or "").lower():
            yield Violation("the connection was closed behind it without a word", answer=heard.name)


def _request_ids(interview: ProbeSession) -> list[tuple[str, str]]:
    return [
        (each.name, id)
        for each in interview.heard
        if each.recording is not None and (id := each.recording.header("x-request-id"))
    ]


def _check_request_ids(interview: ProbeSession, _: Dialect) -> Iterable[Violation]:
    counts = Counter(id for _, id in _request_ids(interview))
    for id, count in counts.items():
        if count > 1:
            names = [name for name, own in _request_ids(interview) if own == id]
            yield Violation(f"{count} answers have the request id {shown(id)}: {', '.join(names[:5])}", answer=names[1])


def _check_origin(interview: ProbeSession, _: Dialect) -> Iterable[Violation]:
    allowed = interview.recording("origin").header("access-control-allow-origin")
    if allowed in ("*", ORIGIN):
        yield Violation(f"access-control-allow-origin {shown(allowed)} for a page that nobody knows", answer="origin")


def _why_not_left(interview: ProbeSession, _: Dialect) -> str | None:
    reason = interview.why_missing("cancelled")
    if reason is not None:
        return reason
    if interview.recording("cancelled").status != 200:
        return f"cancelled was answered with status {interview.recording('cancelled').status}"
    if not interview.recording("cancelled").was_cut:
        return "the answer was over before it could be left"
    return None if interview.of("after-cancel").loss is not Loss.LATE else "the next answer did not come in time"


def _why_no_next(interview: ProbeSession, dialect: Dialect) -> str | None:
    if all(each.name != "after-cancel" for each in interview.heard):
        return interview.why_missing("after-cancel")
    return _why_not_left(interview, dialect)


def _check_next(interview: ProbeSession, _: Dialect) -> Iterable[Violation]:
    heard = interview.of("after-cancel")
    if heard.recording is None:
        yield Violation(f"the request after it got no answer: {heard.failure}", answer="after-cancel")
    elif heard.recording.status != 200:
        message = f"the request after it was answered with status {heard.recording.status}"
        yield Violation(message, heard.recording.body, answer="after-cancel")


def _why_no_times(interview: ProbeSession, dialect: Dialect) -> str | None:
    reason = _why_no_next(interview, dialect) or interview.why_unanswered("streamed", "after-cancel", "long")
    if reason is not None:
        return reason
    if any(_spread(interview, name) is None for name in ("streamed", "after-cancel", "long")):
        return "no time was taken"
    if _remaining_s(interview) < WAITED_S:
        return "the rest of the answer would have taken too little time to be seen"
    return None


def _remaining_s(interview: ProbeSession) -> float:
    """How long the answer that was left would have gone on, by the one that was read."""
    spread = _spread(interview, "long")
    return spread[2] - spread[1] if spread is not None else 0.0


def _check_freed(interview: ProbeSession, _: Dialect) -> Iterable[Violation]:
    before, after = _spread(interview, "streamed"), _spread(interview, "after-cancel")
    if before is None or after is None:
        return
    later = after[1] - before[1]
    if later > max(WAITED_S, MOST_OF_IT * _remaining_s(interview)):
        message = f"the next answer began {later:.1f} s later than usual: the one that was left seems to have gone on"
        yield Violation(message, answer="after-cancel")


RULES: tuple[Rule[ProbeSession], ...] = (
    Rule(
        id="delivery.as-made",
        title="Chunks arrive as they are made",
        text="The frames of a stream arrive one after the other while the answer is generated, not all at its end.",
        why="A buffer on the way would defeat the purpose of streaming, without an error.",
        source="docs/spec/dialects.md A17",
        value=lambda _: f"over at least {SMALLEST_SHARE:.0%} of the answer's time",
        needs=_why_not_measured,
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
        needs=lambda interview, _: None if _followed(interview, "error") else "nothing was asked after a refusal",
        check=lambda interview, _: _check_kept(interview, "error"),
    ),
    Rule(
        id="connection.after-stream",
        title="A stream keeps the connection, or announces its end",
        text="After a stream the connection can be used for the next request, or `connection: close` was sent.",
        why="A client that uses it again finds it closed, and cannot know whether its request was read.",
        source="docs/spec/dialects.md A22; RFC 9112 9.6",
        severity=Severity.ODD,
        holds_for=lambda dialect: bool(dialect.terminator),
        needs=lambda interview, _: None if _followed(interview, "stream") else "nothing was asked after a stream",
        check=lambda interview, _: _check_kept(interview, "stream"),
    ),
    Rule(
        id="connection.request-ids",
        title="Every request has its own request id",
        text="No two answers have the same x-request-id.",
        why="Users give it to the operator of the service to find one request.",
        source="docs/spec/failures.md K4",
        needs=lambda interview, _: None if len(_request_ids(interview)) > 1 else "there are no two request ids",
        check=_check_request_ids,
    ),
    Rule(
        id="connection.origin",
        title="Unknown origins are refused",
        text="A page of an unknown origin is not allowed to read the answer.",
        why="A key in a web page is public; an open origin invites users to put it there.",
        source="WHATWG Fetch, CORS protocol",
        severity=Severity.ODD,
        needs=lambda interview, _: interview.why_missing("origin"),
        check=_check_origin,
    ),
    Rule(
        id="cancel.next-answer",
        title="A request after a cancel is answered",
        text="After a caller has closed the connection within a stream, the next request is answered as usual.",
        why="Callers cancel often; a slot that stays in use is lost for all.",
        source="docs/spec/failures.md C3",
        needs=_why_no_next,
        check=_check_next,
    ),
    Rule(
        id="cancel.frees-the-model",
        title="A cancel stops the work",
        text="After a cancel, the rest of the answer does not delay the next one.",
        why="An answer that is not read still costs money, and others wait for it.",
        source="docs/spec/failures.md C3",
        severity=Severity.ODD,
        needs=_why_no_times,
        check=_check_freed,
    ),
)
