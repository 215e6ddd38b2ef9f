"""Rules for a stream: its events, their order, and the content of the first and the last ones."""

from collections.abc import Iterator
from typing import Any

from streamweir.conformance.api_group import lacking
from streamweir.conformance.messages.answer import TERMINAL, MessageEvent, MessagesAnswer
from streamweir.conformance.messages.api import MessagesApi
from streamweir.conformance.messages.group import ERRORS, MessagesGroup
from streamweir.conformance.parsed_answer import is_count
from streamweir.conformance.rule import Severity, Violation
from streamweir.conformance.rules.group import quote, quote_names, violation_in

EVENT = MessagesGroup("event")
START = MessagesGroup("start")
STOP = MessagesGroup("stop")
COUNT = MessagesGroup("count")
ERROR = MessagesGroup("error")

_BLOCKS = ("content_block_start", "content_block_delta", "content_block_stop")
_KNOWN = ("message_start", *_BLOCKS, "ping", "message_delta", *TERMINAL)
_CORE = ("input_tokens", "output_tokens")


def _starts(answer: MessagesAnswer) -> list[MessageEvent]:
    return answer.of_type("message_start")


def _ends(answer: MessagesAnswer) -> list[MessageEvent]:
    return answer.of_type("message_delta")


def _errors(answer: MessagesAnswer) -> list[MessageEvent]:
    return answer.of_type("error")


@EVENT.rule(
    "typed",
    "Every document has a type",
    text="The document of every frame has a `type`, which is a text.",
    why="Clients tell events apart by it, and pass over a document without one.",
)
def typed(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    for frame in answer.parsed.data_frames:
        if frame.document is not None and not isinstance(frame.document.get("type"), str):
            yield violation_in(frame, f"`type` is {quote(frame.document.get('type'))}")


@EVENT.rule(
    "name",
    "The `event` line names the type",
    text="Every frame has one `event` line, whose value is the `type` of the document.",
    why="The SDKs choose by this line: without it they see nothing, and Claude Code asks again, unstreamed.",
)
def name(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    for event in answer.events:
        names = event.frame.values_of(b"event")
        if names != [event.type.encode("utf-8", "replace")]:
            yield violation_in(event.frame, f"`event` is {quote(names)}, the type is {quote(event.type)}")


@EVENT.rule(
    "known",
    "Events are known",
    text="The type of an event is one of the API's.",
    why="Clients pass over what they do not know: if it carries content, that is lost.",
    severity=Severity.ODD,
)
def known(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    for event in answer.events:
        if event.type not in _KNOWN:
            yield violation_in(event.frame, f"no event is named {quote(event.type)}")


@EVENT.rule(
    "start-first",
    "`message_start` comes first",
    text="The first event is `message_start`, or `error`. A `ping` comes after it.",
    why="SDKs build the message from it: any other event before it is an exception in them.",
    needs=lambda answer: answer.events,
    lacks="no event in it",
)
def start_first(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    first = answer.events[0]
    if first.type not in ("message_start", "error"):
        yield violation_in(first.frame, f"the first event is {quote(first.type)}")


@EVENT.rule(
    "start-once",
    "`message_start` comes once",
    text="There is one `message_start`.",
    why="Clients begin a new message with it: what came before is lost, or the SDK raises.",
    needs=_starts,
    lacks="no `message_start` in it",
)
def start_once(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    for event in _starts(answer)[1:]:
        yield violation_in(event.frame, "a second `message_start`")


@EVENT.rule(
    "end",
    "`message_stop` ends an answer",
    text="A stream ends with `message_stop`, or with `error`.",
    why="Without it a cut answer looks like a whole one: one SDK returns the part as if it were all.",
    needs=lambda answer: answer.events and not answer.parsed.was_cut,
    lacks="no event in it, or the recording was cut",
)
def end(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    if not any(event.type in TERMINAL for event in answer.events):
        yield violation_in(answer.events[-1].frame, "the stream ends after this event")


@EVENT.rule(
    "nothing-after-the-end",
    "Nothing follows the end",
    text="Nothing follows `message_stop` or `error`: no event, no `ping`, no `[DONE]`.",
    why="Clients parse it as a part of the answer, or as JSON; or the connection cannot be used again.",
    needs=lambda answer: any(event.type in TERMINAL for event in answer.events),
    lacks="no end in it",
)
def nothing_after_the_end(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    last = next(event for event in answer.events if event.type in TERMINAL)
    for frame in answer.parsed.data_frames:
        if frame.number > last.frame.number:
            yield violation_in(frame, f"this follows `{last.type}`")


@EVENT.rule(
    "no-done",
    "No `[DONE]`",
    text="There is no `[DONE]`: it belongs to chat completions.",
    why="Clients of this API parse it as JSON and raise.",
)
def no_done(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    ends = [event.frame.number for event in answer.events if event.type in TERMINAL]
    for frame in answer.parsed.terminators:
        if not ends or frame.number < ends[0]:  # after the end, another rule applies
            yield violation_in(frame, "this is no event of the API")


@EVENT.rule(
    "delta-after-blocks",
    "Blocks come before `message_delta`",
    text="No block begins, grows or ends after `message_delta`.",
    why="Clients take the message for finished with it.",
    needs=_ends,
    lacks="no `message_delta` in it",
)
def delta_after_blocks(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    first = _ends(answer)[0].frame.number
    terminal = next((e.frame.number for e in answer.events if e.type in TERMINAL), None)
    for event in answer.events:
        if event.type in _BLOCKS and event.frame.number > first and (terminal is None or event.frame.number < terminal):
            yield violation_in(event.frame, "a part of a block after `message_delta`")


@EVENT.rule(
    "delta-before-stop",
    "`message_delta` comes before `message_stop`",
    text="A whole answer has a `message_delta` before its `message_stop`.",
    why="It has the stop reason and the usage: without it the SDKs have neither.",
    needs=lambda answer: answer.of_type("message_stop"),
    lacks="no `message_stop` in it",
)
def delta_before_stop(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    stop = answer.of_type("message_stop")[0]
    if not any(event.frame.number < stop.frame.number for event in _ends(answer)):
        yield violation_in(stop.frame, "no `message_delta` before it")


@START.rule(
    "members",
    "The message has its members",
    text="`message_start` has a `message` with every member that a whole one has, of the same types.",
    why="SDKs read each of them; a missing one is a type error later, far from its cause.",
    needs=_starts,
    lacks="no `message_start` in it",
)
def members(answer: MessagesAnswer, api: MessagesApi) -> Iterator[Violation]:
    event = _starts(answer)[0]
    wanted = {name: like for name, like in api.message.items() if name not in ("usage", "stop_reason")}
    missing = lacking(event.document.get("message"), {**wanted, "stop_reason": None})
    if missing:
        yield violation_in(event.frame, f"{quote_names(missing)} of `message` missing, or of another type")


@START.rule(
    "empty",
    "The message is empty at first",
    text="In `message_start`, `content` is empty and `stop_reason` is null.",
    why="Clients add the blocks that follow: what is there already is there twice, or is never shown.",
    needs=_starts,
    lacks="no `message_start` in it",
)
def empty(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    event = _starts(answer)[0]
    message = event.member("message")
    if message.get("content") or message.get("stop_reason") is not None:
        yield violation_in(event.frame, "`content` or `stop_reason` is set")


@START.rule(
    "usage",
    "Usage stands in `message_start`",
    text="`message` has `usage` with `input_tokens` and `output_tokens`, which are counts.",
    why="Both SDKs, and others, break with a type error where it is missing.",
    needs=_starts,
    lacks="no `message_start` in it",
)
def start_usage(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    event = _starts(answer)[0]
    yield from _wrong_counts(event, event.member("message").get("usage"), _CORE)


@STOP.rule(
    "once",
    "`message_delta` comes once",
    text="There is one `message_delta`.",
    why="Clients overwrite: the last one counts, and a stop reason that changes has been acted on already.",
    severity=Severity.ODD,
    needs=_ends,
    lacks="no `message_delta` in it",
)
def once(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    for event in _ends(answer)[1:]:
        yield violation_in(event.frame, "a second `message_delta`")


@STOP.rule(
    "reason",
    "The stop reason is known",
    text="`message_delta` has a `stop_reason`, which is one of the API's words.",
    why="Agents act on it: with an unknown word they stop, or go on for ever.",
    needs=_ends,
    lacks="no `message_delta` in it",
)
def reason(answer: MessagesAnswer, api: MessagesApi) -> Iterator[Violation]:
    event = _ends(answer)[-1]
    if str(answer.stop_reason) not in api.stop_reasons:
        yield violation_in(event.frame, f"the stop reason is {quote(answer.stop_reason)}", b"stop_reason")


@STOP.rule(
    "sequence",
    "The stop sequence is sent with its reason",
    text="`stop_sequence` is a text if the stop reason is `stop_sequence`, and null otherwise.",
    why="Clients tell by it which of their sequences was hit.",
    severity=Severity.ODD,
    needs=_ends,
    lacks="no `message_delta` in it",
)
def sequence(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    event = _ends(answer)[-1]
    reported = event.member("delta").get("stop_sequence")
    if isinstance(reported, str) != (answer.stop_reason == "stop_sequence") or not isinstance(reported, str | None):
        yield violation_in(event.frame, f"`stop_sequence` is {quote(reported)}", b"stop_sequence")


@STOP.rule(
    "tool-use",
    "A call ends with `tool_use`",
    text="The stop reason is `tool_use` only if a `tool_use` block was sent, and never `end_turn` if one was.",
    why="An agent that reads `end_turn` stops without carrying out the call; without a call it has nothing to do.",
    needs=_ends,
    lacks="no `message_delta` in it",
)
def tool_use(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    wrong = wrong_call_reason(answer)
    if wrong:
        yield violation_in(_ends(answer)[-1].frame, wrong, b"stop_reason")


def wrong_call_reason(answer: MessagesAnswer) -> str:
    has_call = any(block.get("type") == "tool_use" for block in answer.content)
    if has_call and answer.stop_reason == "end_turn":
        return "a tool is called, and the stop reason is `end_turn`"
    if answer.stop_reason == "tool_use" and not has_call:
        return "the stop reason is `tool_use`, and no tool is called"
    return ""


@COUNT.rule(
    "usage",
    "Usage stands in `message_delta`",
    text="`message_delta` has `usage` with `output_tokens`, which is a count.",
    why="Clients bill by it; both SDKs break with a type error where it is missing.",
    needs=_ends,
    lacks="no `message_delta` in it",
)
def delta_usage(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    for event in _ends(answer):
        yield from _wrong_counts(event, event.document.get("usage"), ("output_tokens",))


@COUNT.rule(
    "counts",
    "Counts are counts",
    text="Every count of `usage` that is sent is a whole number, 0 or more; in `message_delta` it is the sum so far.",
    why="Clients overwrite what `message_start` said, which may have been an estimate, and bill by it.",
    needs=lambda answer: answer.usage,
    lacks="no usage in it",
)
def counts(answer: MessagesAnswer, api: MessagesApi) -> Iterator[Violation]:
    for event in (*_starts(answer), *_ends(answer)):
        holder = event.member("message") if event.type == "message_start" else event.document
        reported = holder.get("usage")
        reported = reported if isinstance(reported, dict) else {}
        others = [name for name in api.usage_counts if name not in _CORE and name in reported]
        wrong = [name for name in others if not _may_be(reported[name])]
        if wrong:
            yield violation_in(event.frame, f"{quote_names(wrong)} no count", b"usage")


def _may_be(value: object) -> bool:
    return value is None or is_count(value)


@COUNT.rule(
    "grows",
    "Output tokens never shrink",
    text="`output_tokens` of `message_delta` is at least that of `message_start`.",
    why="It is the sum so far, not what was added: who adds it up counts twice.",
    needs=lambda answer: _starts(answer) and _ends(answer),
    lacks="no `message_start`, or no `message_delta`",
)
def grows(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    first = (_starts(answer)[0].member("message").get("usage") or {}) if _starts(answer) else {}
    before, after = first.get("output_tokens") if isinstance(first, dict) else None, answer.usage.get("output_tokens")
    if type(before) is int and type(after) is int and 0 <= after < before:
        yield violation_in(_ends(answer)[-1].frame, f"{after} output tokens, after {before}", b"usage")


def _wrong_counts(event: MessageEvent, usage: Any, names: tuple[str, ...]) -> Iterator[Violation]:
    if not isinstance(usage, dict):
        yield violation_in(event.frame, f"`usage` is {quote(usage)}")
        return
    wrong = [each for each in names if not is_count(usage.get(each))]
    if wrong:
        yield violation_in(event.frame, f"{quote_names(wrong)} missing, or no count", b"usage")


@ERROR.rule(
    "object",
    "An error says what it is",
    text="An `error` event has an `error` object with a `type` and a `message`, both texts that are not empty.",
    why="SDKs raise an exception with both; without them nobody knows what happened.",
    source=ERRORS,
    needs=_errors,
    lacks="no error in it",
)
def error_object(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    for event in _errors(answer):
        if lacks_words(event.document):
            yield violation_in(event.frame, "no `error` with a `type` and a `message`")


@ERROR.rule(
    "type",
    "The type of an error is known",
    text="The type of an error is one of the API's words.",
    why="Clients decide by it whether to try again.",
    source=ERRORS,
    needs=lambda answer: any(not lacks_words(event.document) for event in _errors(answer)),
    lacks="no error with a type in it",
)
def error_type(answer: MessagesAnswer, api: MessagesApi) -> Iterator[Violation]:
    known_types = frozenset().union(*api.error_types.values())
    for event in _errors(answer):
        if not lacks_words(event.document) and event.member("error")["type"] not in known_types:
            yield violation_in(event.frame, f"no error is named {quote(event.member('error')['type'])}")


def lacks_words(document: dict[str, Any]) -> bool:
    error = document.get("error")
    return not isinstance(error, dict) or not all(
        isinstance(error.get(n), str) and error[n] for n in ("type", "message")
    )
