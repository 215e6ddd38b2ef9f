"""Whole answers: the one JSON body of a request that did not ask for a stream."""

from collections.abc import Iterator
from typing import Any

from streamweir.conformance.parsed_answer import ParsedAnswer, is_count, parse_json
from streamweir.conformance.recording import Kind
from streamweir.conformance.rule import Severity, Violation
from streamweir.conformance.rules.group import RuleGroup, quote, quote_names
from streamweir.conformance.rules.identity import id_description, id_format
from streamweir.conformance.rules.usage import COUNTS, has_wrong_sum
from streamweir.frontends.chat.dialect import Dialect

WHOLE = RuleGroup("whole", Kind.WHOLE)


def _has_whole_answers(dialect: Dialect) -> bool:
    return dialect.whole_object is not None


def _violation(answer: ParsedAnswer, message: str, needle: bytes = b"") -> Violation:
    start = max(answer.recording.body.find(needle) - 20, 0) if needle else 0
    return Violation(message, answer.recording.body[start:], start)


def _document(answer: ParsedAnswer) -> dict[str, Any]:
    return answer.body.value if isinstance(answer.body.value, dict) else {}


def _no_document(answer: ParsedAnswer, _: Dialect) -> str | None:
    return None if _document(answer) else "no JSON object in it"


def _choices(answer: ParsedAnswer) -> list[dict[str, Any]]:
    found = _document(answer).get("choices")
    return [choice for choice in found if isinstance(choice, dict)] if isinstance(found, list) else []


def _messages(answer: ParsedAnswer) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for choice in _choices(answer):
        if isinstance(choice.get("message"), dict):
            yield choice, choice["message"]


@WHOLE.rule(
    "never",
    "Every answer is a stream",
    text="There is no whole answer: this dialect always streams.",
    why="A client of this dialect reads events, and finds none.",
    source="docs/spec/dialects.md D28",
    applies_to=lambda dialect: not _has_whole_answers(dialect),
)
def never(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    yield _violation(answer, "a whole answer")


@WHOLE.rule(
    "json",
    "A whole answer is a JSON object",
    text="The body is one JSON object.",
    why="The client's parser raises.",
    source="docs/spec/dialects.md D5",
    applies_to=_has_whole_answers,
)
def is_json(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    if not _document(answer):
        yield _violation(answer, answer.body.problem or f"the body is {quote(answer.body.value)}")


@WHOLE.rule(
    "not-asked",
    "A stream that was asked for is a stream",
    text="A request with `stream: true` is not answered with a whole body.",
    why="The client reads events, finds none, and shows an empty answer.",
    source="docs/spec/dialects.md D28",
    applies_to=_has_whole_answers,
    skip_reason=lambda answer, _: (
        "what was asked for is not known" if answer.recording.request.stream is None else None
    ),
)
def not_asked(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    if answer.recording.request.stream:
        yield _violation(answer, "asked for a stream, answered whole")


@WHOLE.rule(
    "object",
    "The object is the dialect's",
    text="`object` is the word of the dialect.",
    why="Clients tell a whole answer from a chunk by it.",
    source="docs/spec/dialects.md D5",
    applies_to=_has_whole_answers,
    value=lambda dialect: f"`{dialect.whole_object}`",
    skip_reason=_no_document,
)
def object_word(answer: ParsedAnswer, dialect: Dialect) -> Iterator[Violation]:
    found = _document(answer).get("object")
    if found != dialect.whole_object:
        yield _violation(answer, f"`object` is {quote(found)}", b'"object"')


@WHOLE.rule(
    "identity",
    "An answer is named, dated, and names its model",
    text="`id` and `model` are strings that are not empty, `created` is an integer.",
    why="Typed clients refuse an answer without them.",
    source="docs/spec/dialects.md D3, D6, D7",
    applies_to=_has_whole_answers,
    skip_reason=_no_document,
)
def identity(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    document = _document(answer)
    for name in ("id", "model"):
        if not isinstance(document.get(name), str) or not document[name]:
            yield _violation(answer, f"`{name}` is {quote(document.get(name))}")
    if type(document.get("created")) is not int:
        yield _violation(answer, f"`created` is {quote(document.get('created'))}")


@WHOLE.rule(
    "id-form",
    "The id has the dialect's form",
    text="`id` is of the form that the dialect's document shows.",
    why="Logs and tools that tell ids by their form pass over others. No document forbids another form.",
    source="docs/spec/dialects.md D3",
    severity=Severity.ODD,
    applies_to=_has_whole_answers,
    value=id_description,
    skip_reason=_no_document,
)
def id_has_form(answer: ParsedAnswer, dialect: Dialect) -> Iterator[Violation]:
    found = _document(answer).get("id")
    if isinstance(found, str) and found and not id_format(dialect).fullmatch(found):
        yield _violation(answer, f"{quote(found)} is not {id_description(dialect)}")


@WHOLE.rule(
    "choices",
    "An answer has choices",
    text="`choices` is a list of objects, at least one, each with its `index` and its `message`.",
    why="Clients read `choices[0].message` without asking.",
    source="docs/spec/dialects.md A6, A16",
    applies_to=_has_whole_answers,
    skip_reason=_no_document,
)
def choices(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    found = _document(answer).get("choices")
    if not isinstance(found, list) or not found or len(_choices(answer)) != len(found):
        yield _violation(answer, f"`choices` is {quote(found)}", b'"choices"')
        return
    for choice in _choices(answer):
        if not is_count(choice.get("index")) or not isinstance(choice.get("message"), dict):
            yield _violation(answer, f"a choice is {quote(choice)}", b'"choices"')


@WHOLE.rule(
    "message",
    "A message is the assistant's",
    text="`role` of a message is `assistant`; `content` stands in it, a string or null.",
    why="The message goes back into the conversation as it is.",
    source="docs/spec/dialects.md A16",
    applies_to=_has_whole_answers,
    skip_reason=_no_document,
)
def message(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for _choice, found in _messages(answer):
        if found.get("role") != "assistant":
            yield _violation(answer, f"`role` is {quote(found.get('role'))}", b'"message"')
        content = found.get("content", False)
        if content is not None and not isinstance(content, str):
            description = "not there" if content is False else quote(content)
            yield _violation(answer, f"`content` is {description}", b'"message"')


@WHOLE.rule(
    "says-something",
    "A message says something",
    text="A message has text, a call, a refusal or reasoning; `content` of null stands beside one of the others.",
    why="Clients that show `content` show `null`.",
    source="docs/spec/dialects.md A6",
    severity=Severity.ODD,
    applies_to=_has_whole_answers,
    skip_reason=_no_document,
)
def says_something(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for _choice, found in _messages(answer):
        others = ("tool_calls", "function_call", "refusal", "reasoning_content", "audio")
        if found.get("content", "") is None and not any(found.get(name) for name in others):
            yield _violation(answer, "`content` is null, and there is nothing else", b'"message"')


@WHOLE.rule(
    "finish",
    "Every choice has finished",
    text="`finish_reason` is one of the dialect's words.",
    why="Clients choose what to do next by it.",
    source="docs/spec/dialects.md D10",
    applies_to=_has_whole_answers,
    value=lambda dialect: quote_names(sorted(set(dialect.finish_reasons.values()))),
    skip_reason=_no_document,
)
def finish(answer: ParsedAnswer, dialect: Dialect) -> Iterator[Violation]:
    for choice in _choices(answer):
        found = choice.get("finish_reason")
        if found not in dialect.finish_reasons.values():
            yield _violation(answer, f"`finish_reason` is {quote(found)}", b'"finish_reason"')


@WHOLE.rule(
    "tool-calls",
    "Calls are whole",
    text="Each of `tool_calls` has `id`, `type` and `function` with `name` and `arguments`, a string of JSON.",
    why="A client runs it as it is.",
    source="docs/spec/dialects.md A18",
    applies_to=_has_whole_answers,
    skip_reason=lambda answer, _: (
        None if any(found.get("tool_calls") for _, found in _messages(answer)) else "no tool call in it"
    ),
)
def tool_calls(answer: ParsedAnswer, dialect: Dialect) -> Iterator[Violation]:
    for choice, found in _messages(answer):
        calls = found.get("tool_calls")
        for call in calls if isinstance(calls, list) else [calls] if calls else []:
            problem = _call_problem(call, choice.get("finish_reason"), dialect)
            if problem is not None:
                yield _violation(answer, problem, b'"tool_calls"')


def _call_problem(call: object, finish_reason: object, dialect: Dialect) -> str | None:
    if not isinstance(call, dict):
        return f"a call is {quote(call)}"
    for name in ("id", "type"):
        if not isinstance(call.get(name), str) or not call[name]:
            return f"`{name}` of a call is {quote(call.get(name))}"
    if call["type"] != "function":
        return None
    function = call.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return f"`function` of a call is {quote(function)}"
    text = function.get("arguments")
    if not isinstance(text, str):
        return f"`arguments` of a call is {quote(text)}"
    # The document of openai allows that a model writes invalid JSON.
    is_whole = finish_reason in ("length", "content_filter") or dialect.labels
    if not is_whole and not isinstance(parse_json(text.encode("utf-8", "surrogatepass")).value, dict):
        return f"`arguments` of a call is {quote(text)}"
    return None


@WHOLE.rule(
    "usage",
    "A whole answer has usage",
    text="`usage` stands in it, with its three counts, and the total is the sum of the other two.",
    why="Costs are counted from it.",
    source="docs/spec/dialects.md A11, A16",
    applies_to=_has_whole_answers,
    skip_reason=_no_document,
)
def usage(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    found = _document(answer).get("usage")
    if not isinstance(found, dict) or not all(is_count(found.get(name)) for name in COUNTS):
        yield _violation(answer, f"`usage` is {quote(found)}", b'"usage"')
    elif has_wrong_sum(found):
        yield _violation(answer, f"the total is not the sum: {quote(found)}", b'"usage"')
