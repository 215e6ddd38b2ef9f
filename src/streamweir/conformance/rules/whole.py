"""Whole answers: the one JSON body of a request that did not ask for a stream."""

from collections.abc import Iterator
from typing import Any

from streamweir.conformance.parsed_answer import Reading, is_count, read_json
from streamweir.conformance.recording import Kind
from streamweir.conformance.rule import Severity, Violation
from streamweir.conformance.rules.group import Chapter, shown, words
from streamweir.conformance.rules.identity import id_format, id_words
from streamweir.conformance.rules.usage import COUNTS, sums_differ
from streamweir.frontends.chat.dialect import Dialect

WHOLE = Chapter("whole", Kind.WHOLE)


def _is_whole(dialect: Dialect) -> bool:
    return dialect.whole_object is not None


def _here(reading: Reading, message: str, needle: bytes = b"") -> Violation:
    start = max(reading.recording.body.find(needle) - 20, 0) if needle else 0
    return Violation(message, reading.recording.body[start:], start)


def _document(reading: Reading) -> dict[str, Any]:
    return reading.body.value if isinstance(reading.body.value, dict) else {}


def _read(reading: Reading, _: Dialect) -> str | None:
    return None if _document(reading) else "no JSON object in it"


def _choices(reading: Reading) -> list[dict[str, Any]]:
    found = _document(reading).get("choices")
    return [choice for choice in found if isinstance(choice, dict)] if isinstance(found, list) else []


def _messages(reading: Reading) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for choice in _choices(reading):
        if isinstance(choice.get("message"), dict):
            yield choice, choice["message"]


@WHOLE.rule(
    "never",
    "Every answer is a stream",
    text="There is no whole answer: this dialect always streams.",
    why="A client of this dialect reads events, and finds none.",
    source="docs/spec/dialects.md D28",
    holds_for=lambda dialect: not _is_whole(dialect),
)
def never(reading: Reading, _: Dialect) -> Iterator[Violation]:
    yield _here(reading, "a whole answer")


@WHOLE.rule(
    "json",
    "A whole answer is a JSON object",
    text="The body is one JSON object.",
    why="The client's parser raises.",
    source="docs/spec/dialects.md D5",
    holds_for=_is_whole,
)
def is_json(reading: Reading, _: Dialect) -> Iterator[Violation]:
    if not _document(reading):
        yield _here(reading, reading.body.problem or f"the body is {shown(reading.body.value)}")


@WHOLE.rule(
    "not-asked",
    "A stream that was asked for is a stream",
    text="A request with `stream: true` is not answered with a whole body.",
    why="The client reads events, finds none, and shows an empty answer.",
    source="docs/spec/dialects.md D28",
    holds_for=_is_whole,
    needs=lambda reading, _: "what was asked for is not known" if reading.recording.asked.stream is None else None,
)
def not_asked(reading: Reading, _: Dialect) -> Iterator[Violation]:
    if reading.recording.asked.stream:
        yield _here(reading, "asked for a stream, answered whole")


@WHOLE.rule(
    "object",
    "The object is the dialect's",
    text="`object` is the word of the dialect.",
    why="Clients tell a whole answer from a chunk by it.",
    source="docs/spec/dialects.md D5",
    holds_for=_is_whole,
    value=lambda dialect: f"`{dialect.whole_object}`",
    needs=_read,
)
def object_word(reading: Reading, dialect: Dialect) -> Iterator[Violation]:
    found = _document(reading).get("object")
    if found != dialect.whole_object:
        yield _here(reading, f"`object` is {shown(found)}", b'"object"')


@WHOLE.rule(
    "identity",
    "An answer is named, dated, and names its model",
    text="`id` and `model` are strings that are not empty, `created` is an integer.",
    why="Typed clients refuse an answer without them.",
    source="docs/spec/dialects.md D3, D6, D7",
    holds_for=_is_whole,
    needs=_read,
)
def identity(reading: Reading, _: Dialect) -> Iterator[Violation]:
    document = _document(reading)
    for name in ("id", "model"):
        if not isinstance(document.get(name), str) or not document[name]:
            yield _here(reading, f"`{name}` is {shown(document.get(name))}")
    if type(document.get("created")) is not int:
        yield _here(reading, f"`created` is {shown(document.get('created'))}")


@WHOLE.rule(
    "id-form",
    "The id has the dialect's form",
    text="`id` is of the form that the dialect's document shows.",
    why="Logs and tools that tell ids by their form pass over others. No document forbids another form.",
    source="docs/spec/dialects.md D3",
    severity=Severity.ODD,
    holds_for=_is_whole,
    value=id_words,
    needs=_read,
)
def id_has_form(reading: Reading, dialect: Dialect) -> Iterator[Violation]:
    found = _document(reading).get("id")
    if isinstance(found, str) and found and not id_format(dialect).fullmatch(found):
        yield _here(reading, f"{shown(found)} is not {id_words(dialect)}")


@WHOLE.rule(
    "choices",
    "An answer has choices",
    text="`choices` is a list of objects, at least one, each with its `index` and its `message`.",
    why="Clients read `choices[0].message` without asking.",
    source="docs/spec/dialects.md A6, A16",
    holds_for=_is_whole,
    needs=_read,
)
def choices(reading: Reading, _: Dialect) -> Iterator[Violation]:
    found = _document(reading).get("choices")
    if not isinstance(found, list) or not found or len(_choices(reading)) != len(found):
        yield _here(reading, f"`choices` is {shown(found)}", b'"choices"')
        return
    for choice in _choices(reading):
        if not is_count(choice.get("index")) or not isinstance(choice.get("message"), dict):
            yield _here(reading, f"a choice is {shown(choice)}", b'"choices"')


@WHOLE.rule(
    "message",
    "A message is the assistant's",
    text="`role` of a message is `assistant`; `content` stands in it, a string or null.",
    why="The message goes back into the conversation as it is.",
    source="docs/spec/dialects.md A16",
    holds_for=_is_whole,
    needs=_read,
)
def message(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for _choice, found in _messages(reading):
        if found.get("role") != "assistant":
            yield _here(reading, f"`role` is {shown(found.get('role'))}", b'"message"')
        content = found.get("content", False)
        if content is not None and not isinstance(content, str):
            said = "not there" if content is False else shown(content)
            yield _here(reading, f"`content` is {said}", b'"message"')


@WHOLE.rule(
    "says-something",
    "A message says something",
    text="A message has text, a call, a refusal or reasoning; `content` of null stands beside one of the others.",
    why="Clients that show `content` show `null`.",
    source="docs/spec/dialects.md A6",
    severity=Severity.ODD,
    holds_for=_is_whole,
    needs=_read,
)
def says_something(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for _choice, found in _messages(reading):
        others = ("tool_calls", "function_call", "refusal", "reasoning_content", "audio")
        if found.get("content", "") is None and not any(found.get(name) for name in others):
            yield _here(reading, "`content` is null, and there is nothing else", b'"message"')


@WHOLE.rule(
    "finish",
    "Every choice has finished",
    text="`finish_reason` is one of the dialect's words.",
    why="Clients choose what to do next by it.",
    source="docs/spec/dialects.md D10",
    holds_for=_is_whole,
    value=lambda dialect: words(sorted(set(dialect.finish_reasons.values()))),
    needs=_read,
)
def finish(reading: Reading, dialect: Dialect) -> Iterator[Violation]:
    for choice in _choices(reading):
        found = choice.get("finish_reason")
        if found not in dialect.finish_reasons.values():
            yield _here(reading, f"`finish_reason` is {shown(found)}", b'"finish_reason"')


@WHOLE.rule(
    "tool-calls",
    "Calls are whole",
    text="Each of `tool_calls` has `id`, `type` and `function` with `name` and `arguments`, a string of JSON.",
    why="A client runs it as it is.",
    source="docs/spec/dialects.md A18",
    holds_for=_is_whole,
    needs=lambda reading, _: (
        None if any(found.get("tool_calls") for _, found in _messages(reading)) else "no tool call in it"
    ),
)
def tool_calls(reading: Reading, dialect: Dialect) -> Iterator[Violation]:
    for choice, found in _messages(reading):
        calls = found.get("tool_calls")
        for call in calls if isinstance(calls, list) else [calls] if calls else []:
            problem = _call_problem(call, choice.get("finish_reason"), dialect)
            if problem is not None:
                yield _here(reading, problem, b'"tool_calls"')


def _call_problem(call: object, finish_reason: object, dialect: Dialect) -> str | None:
    if not isinstance(call, dict):
        return f"a call is {shown(call)}"
    for name in ("id", "type"):
        if not isinstance(call.get(name), str) or not call[name]:
            return f"`{name}` of a call is {shown(call.get(name))}"
    if call["type"] != "function":
        return None
    function = call.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return f"`function` of a call is {shown(function)}"
    text = function.get("arguments")
    if not isinstance(text, str):
        return f"`arguments` of a call is {shown(text)}"
    # Where a model may write what it likes, the document of openai says so.
    is_whole = finish_reason in ("length", "content_filter") or dialect.labels
    if not is_whole and not isinstance(read_json(text.encode("utf-8", "surrogatepass")).value, dict):
        return f"`arguments` of a call is {shown(text)}"
    return None


@WHOLE.rule(
    "usage",
    "A whole answer has usage",
    text="`usage` stands in it, with its three counts, and the total is the sum of the other two.",
    why="Costs are counted from it.",
    source="docs/spec/dialects.md A11, A16",
    holds_for=_is_whole,
    needs=_read,
)
def usage(reading: Reading, _: Dialect) -> Iterator[Violation]:
    found = _document(reading).get("usage")
    if not isinstance(found, dict) or not all(is_count(found.get(name)) for name in COUNTS):
        yield _here(reading, f"`usage` is {shown(found)}", b'"usage"')
    elif sums_differ(found):
        yield _here(reading, f"the total is not the sum: {shown(found)}", b'"usage"')
