"""Tool calls: how they open, how their arguments grow, and that they can be joined."""

from collections.abc import Iterator

from streamweir.conformance.parsed_answer import Call, CallPiece, ParsedAnswer, call_pieces, parse_json
from streamweir.conformance.rule import Severity, Violation
from streamweir.conformance.rules.group import RuleGroup, quote, quote_names, violation_in
from streamweir.core.events import FinishReason
from streamweir.frontends.chat.dialect import Dialect

TOOL = RuleGroup("tool")

_CUT_SHORT = ("length", "content_filter")


def _no_calls(answer: ParsedAnswer, _: Dialect) -> str | None:
    return None if any(part.delta.get("tool_calls") for part in answer.parts) else "no tool call in it"


def _no_function_call(answer: ParsedAnswer, _: Dialect) -> str | None:
    return None if any(part.delta.get("function_call") for part in answer.parts) else "no `function_call` in it"


def _has_partial_calls(dialect: Dialect) -> bool:
    return not dialect.whole_tool_calls


def _check_opener(answer: ParsedAnswer, member: str) -> Iterator[Violation]:
    for call in answer.calls.values():
        found = call.pieces[0].call.get(member)
        if not isinstance(found, str) or not found:
            yield _violation(call.pieces[0], f"`{member}` of {_describe(call)} is {quote(found)}")


def _violation(piece: CallPiece, message: str, needle: bytes = b'"tool_calls"') -> Violation:
    return violation_in(piece.part.frame, message, needle)


def _describe(call: Call) -> str:
    return f"call {call.index} of choice {call.choice}"


@TOOL.rule(
    "list",
    "Tool calls are a list",
    text="`tool_calls` of a delta is a list of objects, each with a `function` object (`custom` for a custom tool).",
    why="Clients go through it without asking.",
    source="docs/spec/dialects.md D15",
    skip_reason=_no_calls,
)
def is_list(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for part in answer.parts:
        found = part.delta.get("tool_calls")
        if found is None:
            continue
        pieces = call_pieces(part)
        if not isinstance(found, list) or len(pieces) != len(found):
            yield violation_in(part.frame, f"`tool_calls` is {quote(found)}", b'"tool_calls"')
        elif not all(isinstance(piece.get("function", piece.get("custom")), dict) for piece in pieces):
            yield violation_in(part.frame, "a call without a `function` object", b'"tool_calls"')


@TOOL.rule(
    "index",
    "Every piece has its index",
    text="`index` is on every piece of every call: an integer, 0 or more.",
    why="It is the key by which pieces are joined; without it the arguments of two calls run together.",
    source="docs/spec/dialects.md D15; docs/spec/quirks.md W6",
    skip_reason=_no_calls,
)
def index(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for part in answer.parts:
        for piece in call_pieces(part):
            found = piece.get("index")
            if type(found) is not int or found < 0:
                yield violation_in(part.frame, f"`index` of a call is {quote(found)}", b'"tool_calls"')


@TOOL.rule(
    "index-order",
    "Calls are numbered from 0",
    text="The calls of a choice begin in the order of their index: 0, 1, 2.",
    why="Clients that keep a list append a call where its index says, and fail at a gap.",
    source="docs/spec/dialects.md A18",
    severity=Severity.ODD,
    skip_reason=_no_calls,
)
def index_order(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    counts: dict[int, int] = {}
    for call in answer.calls.values():
        expected = counts.get(call.choice, 0)
        if call.index != expected:
            yield _violation(call.pieces[0], f"{_describe(call)} begins where {expected} was to come")
        counts[call.choice] = max(expected, call.index) + 1


@TOOL.rule(
    "id",
    "A call opens with its id",
    text="The first piece of a call carries `id`, a string that is not empty.",
    why="The tool's result is sent back under this id; without one the next request is refused.",
    source="docs/spec/dialects.md D15",
    skip_reason=_no_calls,
)
def has_id(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    return _check_opener(answer, "id")


@TOOL.rule(
    "id-is-constant",
    "A call has one id",
    text="Pieces under one index never carry another id.",
    why="Two calls share an index, and their arguments are joined into one text.",
    source="docs/spec/dialects.md D15",
    skip_reason=_no_calls,
)
def id_is_constant(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for call in answer.calls.values():
        ids = [(piece, piece.call["id"]) for piece in call.pieces if piece.call.get("id")]
        for piece, found in ids[1:]:
            if found != ids[0][1]:
                yield _violation(piece, f"`id` of {_describe(call)} was {quote(ids[0][1])} and is {quote(found)}")


@TOOL.rule(
    "id-is-unique",
    "No two calls share an id",
    text="Each call of an answer has an id of its own.",
    why="Two results go back under one id, and the model takes one for the other.",
    source="docs/spec/dialects.md A18",
    skip_reason=_no_calls,
)
def id_is_unique(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    seen: dict[object, Call] = {}
    for call in answer.calls.values():
        found = call.pieces[0].call.get("id")
        if not isinstance(found, str) or not found:
            continue
        other = seen.setdefault(found, call)
        if other is not call:
            yield _violation(call.pieces[0], f"{_describe(call)} has the id of {_describe(other)}: {quote(found)}")


@TOOL.rule(
    "type",
    "A call opens with its type",
    text="The first piece of a call carries `type`, a string (`function`).",
    why="Clients choose by it how to read the call; typed ones refuse a call without it.",
    source="docs/spec/dialects.md D15",
    skip_reason=_no_calls,
)
def has_type(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    return _check_opener(answer, "type")


@TOOL.rule(
    "name",
    "A call opens with its name",
    text="The first piece of a call carries `function.name`, a string that is not empty.",
    why="No client can run a tool without its name.",
    source="docs/spec/dialects.md D15",
    skip_reason=_no_calls,
)
def has_name(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for call in answer.calls.values():
        found = call.pieces[0].function.get("name")
        if isinstance(call.pieces[0].call.get("function"), dict) and (not isinstance(found, str) or not found):
            yield _violation(call.pieces[0], f"`function.name` of {_describe(call)} is {quote(found)}")


@TOOL.rule(
    "name-once",
    "The name comes once",
    text="`function.name` stands on the first piece of a call and on no other.",
    why="Clients that join deltas member by member get `get_weatherget_weather`.",
    source="docs/spec/dialects.md D15; docs/spec/quirks.md W6",
    skip_reason=_no_calls,
)
def name_once(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for call in answer.calls.values():
        for piece in call.pieces[1:]:
            if piece.function.get("name"):
                yield _violation(piece, f"the name of {_describe(call)} again: {quote(piece.function['name'])}")


@TOOL.rule(
    "opener-only",
    "Only the opener is labelled",
    text="`id`, `type` and an empty `name` stand on no piece after the first.",
    why="Clients that take a piece with an id for a new call begin it again and again.",
    source="docs/spec/dialects.md D15; docs/spec/quirks.md W6",
    severity=Severity.ODD,
    applies_to=_has_partial_calls,
    skip_reason=_no_calls,
)
def opener_only(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for call in answer.calls.values():
        for piece in call.pieces[1:]:
            names: list[str] = [name for name in ("id", "type") if name in piece.call]
            if "name" in piece.function and not piece.function["name"]:
                names.append("function.name")
            if names:
                yield _violation(piece, f"{quote_names(names)} on a later piece of {_describe(call)}")


@TOOL.rule(
    "arguments",
    "Arguments are text",
    text="`function.arguments` is a string.",
    why="Clients append it to a text and parse it at the end; an object cannot be appended.",
    source="docs/spec/dialects.md A18",
    skip_reason=_no_calls,
)
def arguments(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for call in answer.calls.values():
        for piece in call.pieces:
            found = piece.function.get("arguments", "")
            if not isinstance(found, str):
                yield _violation(piece, f"`arguments` of {_describe(call)} is {quote(found)}", b'"arguments"')


@TOOL.rule(
    "opener-arguments",
    "The opener has no arguments yet",
    text='The first piece of a call has `arguments` of `""`; the pieces follow.',
    why="Clients that take the first piece for an announcement lose the text in it.",
    source="docs/spec/dialects.md D15",
    severity=Severity.ODD,
    applies_to=_has_partial_calls,
    skip_reason=_no_calls,
)
def opener_arguments(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for call in answer.calls.values():
        if isinstance(call.pieces[0].call.get("function"), dict):
            found = call.pieces[0].function.get("arguments")
            if found is None or (isinstance(found, str) and found):
                yield _violation(call.pieces[0], f"{_describe(call)} opens with {quote(found)}", b'"arguments"')


@TOOL.rule(
    "arguments-json",
    "Arguments join to JSON",
    text="The pieces of `arguments`, joined by index, are one JSON object, unless the answer was cut short.",
    why="The call cannot be run. (openai's document warns that a model may write invalid JSON.)",
    source="docs/spec/dialects.md A18",
    odd_in=lambda dialect: dialect.labels,
    skip_reason=lambda answer, dialect: (
        "the recording was cut"
        if answer.was_cut
        else "an error ended it"
        if answer.errors
        else _no_calls(answer, dialect)
    ),
)
def arguments_json(answer: ParsedAnswer, dialect: Dialect) -> Iterator[Violation]:
    finish_reasons = answer.finish_reasons()
    cut_short = {*_CUT_SHORT, dialect.finish_reasons[FinishReason.LENGTH]}
    for call in answer.calls.values():
        finish = finish_reasons.get(call.choice)
        is_function = call.pieces[0].call.get("type") == "function"
        if finish is None or finish in cut_short or not is_function or _has_other_types(call):
            continue
        text = call.arguments
        if not isinstance(parse_json(text.encode("utf-8", "surrogatepass")).value, dict):
            yield _violation(call.pieces[-1], f"arguments of {_describe(call)}: {quote(text)}", b'"arguments"')


def _has_other_types(call: Call) -> bool:
    """Another rule reports this."""
    return not all(isinstance(piece.function.get("arguments", ""), str) for piece in call.pieces)


@TOOL.rule(
    "whole",
    "A call is one frame",
    text="A call stands in one frame, with all of its arguments.",
    why="A client of this dialect runs the call when it sees it, with whatever arguments are there.",
    source="docs/spec/dialects.md D15",
    applies_to=lambda dialect: dialect.whole_tool_calls,
    skip_reason=_no_calls,
)
def whole(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for call in answer.calls.values():
        for piece in call.pieces[1:]:
            yield _violation(piece, f"another piece of {_describe(call)}")


@TOOL.rule(
    "no-function-call",
    "No legacy function call",
    text="A delta has no `function_call`: in this dialect every call is a tool call.",
    why="A client of this dialect never sees the call.",
    source="docs/spec/dialects.md D16",
    applies_to=lambda dialect: not dialect.legacy_function_call,
    skip_reason=lambda answer, _: None if answer.parts else "no choice in it",
)
def no_function_call(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for part in answer.parts:
        if part.delta.get("function_call"):
            yield violation_in(part.frame, "a member `function_call`", b'"function_call"')


@TOOL.rule(
    "function-call",
    "A legacy function call has its shape",
    text="`function_call` is an object; it opens with `name`; `arguments` is a string.",
    why="Clients of the old form join it like a tool call.",
    source="docs/spec/dialects.md D16",
    applies_to=lambda dialect: dialect.legacy_function_call,
    skip_reason=_no_function_call,
)
def function_call(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    named: set[int] = set()
    for part in answer.parts:
        found = part.delta.get("function_call")
        if not found:
            continue
        if not isinstance(found, dict) or not isinstance(found.get("arguments", ""), str):
            yield violation_in(part.frame, f"`function_call` is {quote(found)}", b'"function_call"')
        elif part.index not in named and not found.get("name"):
            yield violation_in(part.frame, "a function call opens without its name", b'"function_call"')
        named.add(part.index)
