"""Rules for the parts of an item, for the pieces of its text, and for calls."""

from collections.abc import Iterator

from streamweir.conformance.api_group import lacking
from streamweir.conformance.parsed_answer import parse_json
from streamweir.conformance.responses.answer import Part, ResponseEvent, ResponsesAnswer, Spelled
from streamweir.conformance.responses.api import PART_TEXTS, ResponsesApi
from streamweir.conformance.responses.group import ResponsesGroup, items_of
from streamweir.conformance.rule import Severity, Violation
from streamweir.conformance.rules.group import quote, violation_in
from streamweir.wire.responses import INPUTS, PARTS, TEXTS

PART = ResponsesGroup("part")
DELTA = ResponsesGroup("delta")
CALL = ResponsesGroup("call")

CALLS = {names.item: names.member for names in INPUTS.values()}
"""Kinds of items that call a tool, and the member that has the input."""
_NO_PART = "no part in it"


def _parts(answer: ResponsesAnswer) -> list[Part]:
    return [part for item in items_of(answer) for _, part in sorted(item.parts.items())]


def _index_name(event: ResponseEvent) -> str | None:
    return PARTS.get(event.stem) or (TEXTS[event.stem].index if event.stem in TEXTS else None)


def _spelled(answer: ResponsesAnswer) -> list[Spelled]:
    return [*(part.spelled for part in _parts(answer)), *(item.input for item in items_of(answer))]


def _has_deltas(answer: ResponsesAnswer) -> bool:
    return any(spelled.deltas for spelled in _spelled(answer))


@PART.rule(
    "index",
    "Events of a part have an index",
    text="Every event of a part has its `content_index` or `summary_index`, 0 or more.",
    why="Clients find the part by it.",
    needs=lambda answer: any(_index_name(event) for event in answer.events),
    lacks=_NO_PART,
)
def index(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for event in answer.events:
        name = _index_name(event)
        if name is not None and ((number := event.count(name)) is None or number < 0):
            yield violation_in(event.frame, f"`{name}` is {quote(event.document.get(name))}")


@PART.rule(
    "no-gaps",
    "Parts are counted without gaps",
    text="The parts of an item are added with the indexes 0, 1, 2 and so on, each once, in this order.",
    why="SDKs append a part and look it up by its index: a gap is an exception in them.",
    needs=_parts,
    lacks=_NO_PART,
)
def no_gaps(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for item in items_of(answer):
        expected = dict.fromkeys(PARTS.values(), 0)
        for event in item.events:
            name = PARTS.get(event.stem)
            number = event.count(name) if name is not None and event.change == "added" else None
            if name is None or number is None:
                continue
            if number != expected[name]:
                yield violation_in(event.frame, f"part {number} is added, expected is {expected[name]}")
            expected[name] = max(expected[name], number + 1)


@PART.rule(
    "members",
    "A part has its members",
    text="A part has a `type`, and one of a known kind its text: empty when it is added.",
    why="Clients append to it: they cannot append to a missing member, and content that is already there is doubled.",
    needs=_parts,
    lacks=_NO_PART,
)
def members(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for part in _parts(answer):
        for event in (part.added, part.done):
            if event is None:
                continue
            document = event.member("part")
            kind = document.get("type")
            if not isinstance(kind, str):
                yield violation_in(event.frame, "`part` has no `type`")
            elif kind in PART_TEXTS and lacking(document, {PART_TEXTS[kind]: ""}):
                yield violation_in(event.frame, f"`{PART_TEXTS[kind]}` missing, or no text")
            elif event is part.added and kind in PART_TEXTS and document[PART_TEXTS[kind]]:
                yield violation_in(event.frame, f"`{PART_TEXTS[kind]}` is not empty")


@PART.rule(
    "open",
    "Text belongs to an open part",
    text="A piece of text is sent after its part is added and before the text and the part are done.",
    why="Before it, SDKs raise; after it, the text is lost.",
    needs=lambda answer: _parts(answer) or answer.part_strays,
    lacks=_NO_PART,
)
def is_open(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for event, why in answer.part_strays:
        yield violation_in(event.frame, why)


@PART.rule(
    "done",
    "Every part is done",
    text="When an item is done, its parts are done, and their text is: `KIND.done`, then the part.",
    why="Clients show and store a text when it is done.",
    needs=lambda answer: any(item.done is not None and item.parts for item in items_of(answer)),
    lacks="no part of an item that is done",
)
def done(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for item in items_of(answer):
        for (_name, number), part in sorted(item.parts.items()):
            if item.done is not None and part.kind in PART_TEXTS and (part.done is None or part.spelled.done is None):
                what = "is never done" if part.done is None else "is done without its text"
                yield violation_in(part.added.frame, f"part {number} {what}")


@DELTA.rule(
    "member",
    "A delta has a text",
    text="Every `.delta` has a `delta`, and every `.done` the whole: texts.",
    why="SDKs append it: anything but a text is a type error.",
    needs=lambda answer: any(event.stem in (*TEXTS, *INPUTS) for event in answer.events),
    lacks="no delta in it",
)
def member(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for event in answer.events:
        names = TEXTS.get(event.stem) or INPUTS.get(event.stem)
        if names is None:
            continue
        wanted = "delta" if event.change == "delta" else names.member
        if event.text(wanted) is None:
            yield violation_in(event.frame, f"`{wanted}` missing, or no text")


@DELTA.rule(
    "kind",
    "A delta fits its item",
    text="A delta has the kind of its item and its part: `output_text` in a text of a message, arguments in a call.",
    why="SDKs append it to a member that the item does not have.",
    needs=_has_deltas,
    lacks="no delta in it",
)
def kind(answer: ResponsesAnswer, api: ResponsesApi) -> Iterator[Violation]:
    for item in items_of(answer, *api.items):
        for event in item.events:
            names = TEXTS.get(event.stem) or INPUTS.get(event.stem)
            if names is not None and names.item != item.kind:
                yield violation_in(event.frame, f"`{event.type}` in an item of the kind {quote(item.kind)}")
        for part in item.parts.values():
            for event in part.spelled.deltas:
                if (
                    item.kind == TEXTS[event.stem].item
                    and part.kind in PART_TEXTS
                    and part.kind != TEXTS[event.stem].part
                ):
                    yield violation_in(event.frame, f"`{event.type}` in a part of the kind {quote(part.kind)}")


@DELTA.rule(
    "sum",
    "Deltas add up to the text",
    text="The deltas of a text, put together, are the text of its `.done`.",
    why="Some clients read the pieces, others the whole: both must be equal.",
    needs=lambda answer: any(part.spelled.done for part in _parts(answer)),
    lacks="no text that is done",
)
def text_sum(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for part in _parts(answer):
        event, whole = part.spelled.done, _whole_of(part.spelled)
        if event is not None and whole is not None and whole != part.spelled.text:
            yield violation_in(event.frame, f"the deltas are {quote(part.spelled.text)}, the text {quote(whole)}")


@DELTA.rule(
    "repeated",
    "Part and item repeat the text",
    text="The text of a part that is done is that of its `.done`, and the item that is done has the same parts.",
    why="Codex reads the text from the item, others from the deltas.",
    needs=lambda answer: any(part.done for part in _parts(answer)),
    lacks="no part that is done",
)
def repeated(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for item in items_of(answer, "message", "reasoning"):
        for (name, number), part in sorted(item.parts.items()):
            shown = part.done.member("part") if part.done is not None else {}
            text = shown.get(PART_TEXTS.get(str(shown.get("type")), ""))
            whole = _whole_of(part.spelled)
            if part.done is None or whole is None or not isinstance(text, str):
                continue
            if text != whole:
                yield violation_in(part.done.frame, f"the part has {quote(text)}, its text was {quote(whole)}")
                continue
            kept = item.done.item.get(name.removesuffix("_index")) if item.done is not None else None
            in_item = kept[number] if isinstance(kept, list) and 0 <= number < len(kept) else None
            in_item = in_item if isinstance(in_item, dict) else {}
            if item.done is not None and in_item.get(PART_TEXTS[shown["type"]]) != text:
                yield violation_in(item.done.frame, f"part {number} of the item differs")


def _whole_of(spelled: Spelled) -> str | None:
    return spelled.done.text(TEXTS[spelled.done.stem].member) if spelled.done is not None else None


@CALL.rule(
    "id",
    "A call has an id of its own",
    text="Every call has a name and a `call_id`, neither empty, and no two have the same `call_id`.",
    why="The result is sent back under it: with the same one twice, results are mixed up.",
    needs=lambda answer: items_of(answer, *CALLS),
    lacks="no call in it",
)
def call_id(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    seen: set[str] = set()
    for item in items_of(answer, *CALLS):
        id, name = item.added.item.get("call_id"), item.added.item.get("name")
        if not isinstance(id, str) or not isinstance(name, str):
            continue
        if not id or not name or id in seen:
            yield violation_in(item.added.frame, f"`call_id` {quote(id)}, name {quote(name)}")
        seen.add(id)


@CALL.rule(
    "sum",
    "Deltas add up to the input",
    text="The input of a call is the same in the deltas, if there are any, in their `.done` and in the item.",
    why="Some clients read the pieces, others the whole: both must be equal.",
    needs=lambda answer: any(item.done for item in items_of(answer, *CALLS)),
    lacks="no call that is done",
)
def call_sum(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for item in items_of(answer, *CALLS):
        member_name = CALLS[item.kind or ""]
        whole = item.done.item.get(member_name) if item.done is not None else None
        if item.done is None or not isinstance(whole, str):
            continue
        found = item.input.done.text(member_name) if item.input.done is not None else None
        if found is not None and found != whole:
            yield violation_in(item.done.frame, f"the item has {quote(whole)}, `.done` has {quote(found)}")
        elif item.input.deltas and item.input.text != whole:
            yield violation_in(item.done.frame, f"the item has {quote(whole)}, the deltas {quote(item.input.text)}")


@CALL.rule(
    "done",
    "The input of a call is done",
    text="`.done` of the arguments or the input is sent before the call is done.",
    why="Clients that do not read items call the tool at this event.",
    needs=lambda answer: any(item.done for item in items_of(answer, *CALLS)),
    lacks="no call that is done",
)
def call_done(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for item in items_of(answer, *CALLS):
        if item.done is not None and item.input.done is None:
            yield violation_in(item.done.frame, "no `.done` of its input before it")


@CALL.rule(
    "spelled",
    "The input of a call is sent in deltas",
    text="Arguments and input that are not empty are sent in at least one delta.",
    why="Clients that show a call while it is streamed show nothing.",
    severity=Severity.ODD,
    needs=lambda answer: any(item.done for item in items_of(answer, *CALLS)),
    lacks="no call that is done",
)
def spelled(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for item in items_of(answer, *CALLS):
        if item.done is not None and item.done.item.get(CALLS[item.kind or ""]) and not item.input.deltas:
            yield violation_in(item.done.frame, "no delta of its input before it")


@CALL.rule(
    "arguments",
    "Arguments are one JSON object",
    text="The arguments of a function call that is complete are one JSON object.",
    why="Clients parse them, and raise.",
    needs=lambda answer: any(item.done for item in items_of(answer, "function_call")),
    lacks="no call of a function that is done",
)
def arguments(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for item in items_of(answer, "function_call"):
        if item.done is not None and (wrong := wrong_arguments(item.done.item)):
            yield violation_in(item.done.frame, wrong, b'"arguments"')


def wrong_arguments(item: dict[str, object]) -> str:
    text = item.get("arguments")
    if not isinstance(text, str) or item.get("status") == "incomplete":
        return ""
    is_object = isinstance(parse_json(text.encode("utf-8", "replace")).value, dict)
    return "" if is_object else f"the arguments are {quote(text)}"
