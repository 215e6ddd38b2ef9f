"""Rules for the items of a stream: their indexes, ids, members, and the output at the end."""

from collections.abc import Iterator
from typing import Any

from streamweir.conformance.api_group import lacking
from streamweir.conformance.responses.answer import ADDED, DONE, ResponseEvent, ResponsesAnswer
from streamweir.conformance.responses.api import ResponsesApi
from streamweir.conformance.responses.group import ResponsesGroup, items_of
from streamweir.conformance.rule import Severity, Violation
from streamweir.conformance.rules.group import quote, quote_names, violation_in
from streamweir.wire.responses import INPUTS, PARTS, TEXTS

ITEM = ResponsesGroup("item")
OUTPUT = ResponsesGroup("output")

ANNOTATION = "response.output_text.annotation.added"
_NO_ITEM = "no item in it"
_EMPTY_AT_FIRST = ("content", "summary", "arguments", "input")
_STATUSES = {"added": ("in_progress",), "done": ("completed", "incomplete")}


def _of_items(answer: ResponsesAnswer) -> list[ResponseEvent]:
    return [event for event in answer.events if event.type in (ADDED, DONE, ANNOTATION) or event.stem in _STEMS]


_STEMS = frozenset([*PARTS, *TEXTS, *INPUTS])


def _has_items(answer: ResponsesAnswer) -> object:
    return answer.items


@ITEM.rule(
    "index",
    "Events of an item have an index",
    text="Every event of an item has an `output_index`, 0 or more.",
    why="Clients find the item by it.",
    needs=_of_items,
    lacks=_NO_ITEM,
)
def index(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for event in _of_items(answer):
        if event.output_index is None or event.output_index < 0:
            yield violation_in(event.frame, f"`output_index` is {quote(event.document.get('output_index'))}")


@ITEM.rule(
    "no-gaps",
    "Items are counted without gaps",
    text="Items are added with the indexes 0, 1, 2 and so on, each once, in this order.",
    why="SDKs append an item and look it up by its index: a gap is an exception in them.",
    needs=lambda answer: answer.of_type(ADDED),
    lacks=_NO_ITEM,
)
def no_gaps(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    expected = 0
    for event in answer.of_type(ADDED):
        if event.output_index is None:
            continue
        if event.output_index != expected:
            yield violation_in(event.frame, f"item {event.output_index} is added, expected is {expected}")
        expected = max(expected, event.output_index + 1)


@ITEM.rule(
    "members",
    "An item has its members",
    text="An item has a `type`, and one of a known kind the members of its kind, when it is added and when it is done.",
    why="Typed clients refuse an item without them; to a member that is missing nothing can be appended.",
    needs=lambda answer: answer.of_type(ADDED, DONE),
    lacks=_NO_ITEM,
)
def members(answer: ResponsesAnswer, api: ResponsesApi) -> Iterator[Violation]:
    for event in answer.of_type(ADDED, DONE):
        if wrong := wrong_item(event.document.get("item"), api):
            yield violation_in(event.frame, wrong)


def wrong_item(item: Any, api: ResponsesApi) -> str:
    kind = item.get("type") if isinstance(item, dict) else None
    if not isinstance(kind, str):
        return "an item has no `type`"
    missing = lacking(item, dict(api.items[kind])) if kind in api.items else []
    return f"{quote_names(missing)} of `{kind}` missing, or of another type" if missing else ""


@ITEM.rule(
    "id-form",
    "Ids of items have their form",
    text="The id of an item begins with the letters of its kind: `msg_`, `rs_`, `fc_`, `ctc_`.",
    why="Items are sent back with the next request. Codex discards an id without such a prefix.",
    severity=Severity.ODD,
    needs=lambda answer: any(item.id is not None for item in items_of(answer)),
    lacks=_NO_ITEM,
)
def id_form(answer: ResponsesAnswer, api: ResponsesApi) -> Iterator[Violation]:
    for item in items_of(answer, *api.prefixes):
        if item.id is not None and not item.id.startswith(api.prefixes[item.kind or ""]):
            yield violation_in(item.added.frame, f"the id is {quote(item.id)}", b'"id"')


@ITEM.rule(
    "own-id",
    "Items have ids of their own",
    text="No two items have the same id.",
    why="Clients store items by id: of two with the same id, one is lost.",
    needs=lambda answer: len(answer.items) > 1,
    lacks="fewer than two items in it",
)
def own_id(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    seen: set[str] = set()
    for item in items_of(answer):
        if item.id is not None and item.id in seen:
            yield violation_in(item.added.frame, f"the id {quote(item.id)} is another item's", b'"id"')
        seen.add(item.id or "")


@ITEM.rule(
    "same-id",
    "An item keeps its id",
    text="`item_id` of every event is the id that the item was added with, and so is the id when it is done.",
    why="Clients find the item by either its index or its id: they must be the same item.",
    needs=_has_items,
    lacks=_NO_ITEM,
)
def same_id(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for item in items_of(answer):
        for event in item.events:
            found = event.document.get("item_id")
            must_have = event.type == ANNOTATION or event.stem in _STEMS
            if item.id is not None and found != item.id and (must_have or found is not None):
                yield violation_in(event.frame, f"`item_id` is {quote(found)}, the item is {quote(item.id)}")
        if item.done is not None and isinstance(item.done.item.get("id"), str) and item.done.item["id"] != item.id:
            yield violation_in(item.done.frame, f"the id is {quote(item.done.item['id'])}, it was {quote(item.id)}")


@ITEM.rule(
    "same-kind",
    "An item keeps its kind",
    text="`type`, `name`, `call_id` and `role` of an item are the same when it is done as when it was added.",
    why="Clients begin to act when the item is added.",
    needs=lambda answer: any(item.done is not None for item in items_of(answer)),
    lacks="no item that is done",
)
def same_kind(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for item in items_of(answer):
        for name in ("type", "name", "call_id", "role"):
            before, now = item.added.item.get(name), item.done.item.get(name) if item.done is not None else None
            if item.done is not None and isinstance(before, str) and isinstance(now, str) and before != now:
                yield violation_in(item.done.frame, f"`{name}` is {quote(now)}, it was {quote(before)}")


@ITEM.rule(
    "empty",
    "An item is empty at first",
    text="An item is added with its content, summary, arguments or input empty.",
    why="Clients append the deltas that follow: content that is already there is doubled.",
    severity=Severity.ODD,
    needs=_has_items,
    lacks=_NO_ITEM,
)
def empty(answer: ResponsesAnswer, api: ResponsesApi) -> Iterator[Violation]:
    for item in items_of(answer, *api.items):
        filled = [name for name in _EMPTY_AT_FIRST if item.added.item.get(name)]
        if filled:
            yield violation_in(item.added.frame, f"{quote_names(filled)} not empty")


@ITEM.rule(
    "status",
    "The status of an item fits its event",
    text="The status of an item is `in_progress` when it is added, and `completed` or `incomplete` when it is done.",
    why="Clients wait for an item that is in progress. Reasoning need not have a status.",
    needs=_has_items,
    lacks=_NO_ITEM,
)
def status(answer: ResponsesAnswer, api: ResponsesApi) -> Iterator[Violation]:
    for item in items_of(answer, *api.items):
        for event in (item.added, item.done):
            found = event.item.get("status") if event is not None else None
            if event is not None and isinstance(found, str) and found not in _STATUSES[event.change]:
                yield violation_in(event.frame, f"`status` is {quote(found)}", b'"status"')


@ITEM.rule(
    "open",
    "Events belong to an open item",
    text="An event of an item is sent after the item is added and before it is done.",
    why="Before it, SDKs raise, and Codex shows nothing; after it, the content is lost.",
    needs=lambda answer: answer.items or answer.strays,
    lacks=_NO_ITEM,
)
def is_open(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for event, why in answer.strays:
        yield violation_in(event.frame, why)


@ITEM.rule(
    "done",
    "Every item is done",
    text="In a complete answer every item that was added is done.",
    why="Codex reads an item only from its `done` event: without it the turn has no result.",
    needs=lambda answer: answer.items and answer.has_ended_well,
    lacks="no item, or no complete answer",
)
def done(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for number, item in sorted(answer.items.items()):
        if item.done is None:
            yield violation_in(item.added.frame, f"item {number} is never done")


@OUTPUT.rule(
    "some",
    "An answer has an item",
    text="A completed answer has at least one item.",
    why="Clients read the first one without a check.",
    severity=Severity.ODD,
    needs=lambda answer: answer.end is not None and answer.end.type == "response.completed",
    lacks="no `response.completed` in it",
)
def some(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    if answer.end is not None and not answer.of_type(ADDED):
        yield violation_in(answer.end.frame, "the answer has no item")


@OUTPUT.rule(
    "same",
    "The end repeats the items",
    text="`output` of the last response has the items that were done, in their order, with the same content.",
    why="SDKs read the answer from the end, Codex from the items: both must be equal.",
    needs=lambda answer: answer.has_ended_well and all(item.done is not None for item in items_of(answer)),
    lacks="no complete answer in it, or an item that is not done",
)
def same(answer: ResponsesAnswer, api: ResponsesApi) -> Iterator[Violation]:
    found = answer.response.get("output")
    if answer.end is None or not isinstance(found, list):
        return
    items = [item.done.item for item in items_of(answer) if item.done is not None]
    if len(found) != len(items):
        yield violation_in(answer.end.frame, f"{len(found)} items, done are {len(items)}", b'"output"')
        return
    for number, (now, before) in enumerate(zip(found, items, strict=True)):
        now = now if isinstance(now, dict) else {}
        names = ("type", "id", *api.items.get(str(before.get("type")), ()))
        wrong = [name for name in dict.fromkeys(names) if now.get(name) != before.get(name)]
        if wrong:
            yield violation_in(answer.end.frame, f"{quote_names(wrong)} of item {number} differ", b'"output"')


@OUTPUT.rule(
    "complete",
    "A completed response has no incomplete item",
    text="In `response.completed` no item is `incomplete`.",
    why="Otherwise a part of an answer is treated as the whole answer.",
    needs=lambda answer: answer.of_type("response.completed"),
    lacks="no `response.completed` in it",
)
def complete(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    if answer.end is None or answer.end.type != "response.completed":
        return
    for item in items_of(answer):
        if item.done is not None and item.done.item.get("status") == "incomplete":
            yield violation_in(item.done.frame, "the item is incomplete, the response is completed", b'"status"')
