"""Rules for a stream: its events, their order and their numbers."""

from collections.abc import Iterator

from streamweir.conformance.parsed_answer import is_count
from streamweir.conformance.responses.answer import ResponseEvent, ResponsesAnswer
from streamweir.conformance.responses.api import KNOWN, OF_TOOLS, TERMINAL, ResponsesApi
from streamweir.conformance.responses.group import ResponsesGroup
from streamweir.conformance.rule import Severity, Violation
from streamweir.conformance.rules.group import quote, violation_in

EVENT = ResponsesGroup("event")
SEQUENCE = ResponsesGroup("sequence")

_NUMBER = "sequence_number"


def _created(answer: ResponsesAnswer) -> list[ResponseEvent]:
    return answer.of_type("response.created")


def _numbered(answer: ResponsesAnswer) -> list[ResponseEvent]:
    return [event for event in answer.events if is_count(event.document.get(_NUMBER))]


@EVENT.rule(
    "typed",
    "Every document has a type",
    text="The document of every frame has a `type`, which is a text.",
    why="Clients distinguish events by it, and skip a document without one.",
)
def typed(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for frame in answer.parsed.data_frames:
        if frame.document is not None and not isinstance(frame.document.get("type"), str):
            yield violation_in(frame, f"`type` is {quote(frame.document.get('type'))}")


@EVENT.rule(
    "name",
    "The `event` line names the type",
    text="Every frame has one `event` line, whose value is the `type` of the document.",
    why="Some clients read this line, others the type: both must be equal.",
)
def name(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for event in answer.events:
        names = event.frame.values_of(b"event")
        if names != [event.type.encode("utf-8", "replace")]:
            yield violation_in(event.frame, f"`event` is {quote(names)}, the type is {quote(event.type)}")


@EVENT.rule(
    "known",
    "Events are known",
    text="The type of an event is one of the API's.",
    why="Clients skip unknown events: if one has content, that is lost.",
    severity=Severity.ODD,
    needs=lambda answer: answer.events,
    lacks="no event in it",
)
def known(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for event in answer.events:
        if event.type not in KNOWN and not OF_TOOLS.fullmatch(event.type):
            yield violation_in(event.frame, f"no event is named {quote(event.type)}")


@EVENT.rule(
    "created-first",
    "`response.created` is first",
    text="The first event is `response.created`, or `error`. A `keepalive` is sent after it.",
    why="SDKs build the response from it: any other event before it is an exception in them.",
    needs=lambda answer: answer.events,
    lacks="no event in it",
)
def created_first(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    first = answer.events[0]
    if first.type not in ("response.created", "error"):
        yield violation_in(first.frame, f"the first event is {quote(first.type)}")


@EVENT.rule(
    "created-once",
    "`response.created` is sent once",
    text="There is one `response.created`.",
    why="Clients begin a new response with it: earlier content is lost.",
    needs=_created,
    lacks="no `response.created` in it",
)
def created_once(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for event in _created(answer)[1:]:
        yield violation_in(event.frame, "a second `response.created`")


@EVENT.rule(
    "end",
    "The last event is a terminal event",
    text="A stream ends with `response.completed`, `response.incomplete` or `response.failed`.",
    why="Without it a cut answer looks like a complete one: SDKs report no error, and Codex sends the request again.",
    needs=lambda answer: answer.events and not answer.parsed.was_cut and not answer.of_type("error"),
    lacks="no event in it, an error, or the recording was cut",
)
def end(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    if answer.end is None:
        yield violation_in(answer.events[-1].frame, "the stream ends after this event")


@EVENT.rule(
    "nothing-after-the-end",
    "Nothing follows the end",
    text="There is one end, and nothing follows it: no `keepalive` either. Only `response.failed` follows `error`.",
    why="Clients stop reading there: what follows is lost, or the connection cannot be used again.",
    needs=lambda answer: answer.of_type("error", *TERMINAL),
    lacks="no end in it",
)
def nothing_after_the_end(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    last = answer.of_type("error", *TERMINAL)[0]
    if last.type == "error":
        following = [event for event in answer.events if event.frame.number > last.frame.number]
        if following and following[0].type == "response.failed":
            last = following[0]
    for frame in answer.parsed.data_frames:
        if frame.number > last.frame.number and not frame.is_terminator:
            yield violation_in(frame, f"this follows `{last.type}`")


@EVENT.rule(
    "no-done",
    "No `[DONE]`",
    text="There is no `[DONE]`, which is part of chat completions.",
    why="The end of this API is an event. Clients that parse every frame as JSON fail at it.",
    severity=Severity.ODD,
)
def no_done(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for frame in answer.parsed.terminators:
        yield violation_in(frame, "this is no event of the API")


@SEQUENCE.rule(
    "present",
    "Every event has a number",
    text="Every event has a `sequence_number`, a whole number, 0 or more; a `keepalive` too.",
    why="Typed clients refuse an event without it.",
    needs=lambda answer: answer.events,
    lacks="no event in it",
)
def present(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for event in answer.events:
        if not is_count(event.document.get(_NUMBER)):
            yield violation_in(event.frame, f"`{_NUMBER}` is {quote(event.document.get(_NUMBER))}")


@SEQUENCE.rule(
    "no-gaps",
    "Events are numbered without gaps",
    text="The numbers are 0, 1, 2 and so on.",
    why="Clients use them to detect lost events and to order events.",
    needs=_numbered,
    lacks="no event with a number in it",
)
def no_gaps(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    expected = 0
    for event in answer.events:
        number = event.count(_NUMBER)
        if number is None or number < 0:
            expected += 1
            continue
        if number != expected:
            yield violation_in(event.frame, f"the number is {number}, expected is {expected}")
        expected = number + 1
