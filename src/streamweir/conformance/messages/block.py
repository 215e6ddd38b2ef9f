"""Rules for the content blocks of a stream: their indexes, kinds, deltas, signatures and calls."""

from collections.abc import Iterator

from streamweir.conformance.api_group import lacking
from streamweir.conformance.messages.answer import Block, MessagesAnswer
from streamweir.conformance.messages.api import MessagesApi
from streamweir.conformance.messages.group import MessagesGroup
from streamweir.conformance.parsed_answer import parse_json
from streamweir.conformance.rule import Severity, Violation
from streamweir.conformance.rules.group import quote, quote_names, violation_in

BLOCK = MessagesGroup("block")
DELTA = MessagesGroup("delta")
SIGNATURE = MessagesGroup("signature")
CALL = MessagesGroup("call")

_EVENTS = ("content_block_start", "content_block_delta", "content_block_stop")
_NO_BLOCK = "no block in it"


def _blocks(answer: MessagesAnswer, kind: str | None = None) -> list[Block]:
    return [block for _, block in sorted(answer.blocks.items()) if kind is None or block.kind == kind]


def _deltas(answer: MessagesAnswer) -> bool:
    return any(block.deltas for block in answer.blocks.values())


@BLOCK.rule(
    "some",
    "An answer has a block",
    text="A whole answer has at least one content block.",
    why="Clients read the first one without asking whether it is there.",
    severity=Severity.ODD,
    needs=lambda answer: answer.of_type("message_stop"),
    lacks="no `message_stop` in it",
)
def some(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    if not answer.of_type("content_block_start"):
        yield violation_in(answer.of_type("message_stop")[0].frame, "the answer has no block")


@BLOCK.rule(
    "index",
    "Events of a block have an index",
    text="Every event of a block has an `index`, 0 or more.",
    why="Clients find the block by it.",
    needs=lambda answer: any(event.type in _EVENTS for event in answer.events),
    lacks=_NO_BLOCK,
)
def index(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    for event in answer.events:
        if event.type in _EVENTS and (event.index is None or event.index < 0):
            yield violation_in(event.frame, f"`index` is {quote(event.document.get('index'))}")


@BLOCK.rule(
    "no-gaps",
    "Blocks are counted without gaps",
    text="Blocks start with the indices 0, 1, 2 and so on, each once, in this order.",
    why="SDKs append a block and look it up by its index: a gap is an exception in them.",
    needs=lambda answer: answer.of_type("content_block_start"),
    lacks=_NO_BLOCK,
)
def no_gaps(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    expected = 0
    for event in answer.of_type("content_block_start"):
        if event.index is None:
            continue
        if event.index != expected:
            yield violation_in(event.frame, f"block {event.index} starts, expected is {expected}")
        expected = max(expected, event.index) + 1 if event.index >= expected else expected


@BLOCK.rule(
    "members",
    "A block is opened with its members",
    text="A block of a known kind is opened with the members of its kind.",
    why="Clients append to them: to a member that is missing nothing can be appended.",
    needs=lambda answer: answer.blocks,
    lacks=_NO_BLOCK,
)
def members(answer: MessagesAnswer, api: MessagesApi) -> Iterator[Violation]:
    for block in _blocks(answer):
        if block.kind is None:
            yield violation_in(block.start.frame, "`content_block` has no `type`")
        elif block.kind in api.blocks and (missing := lacking(block.content, dict(api.blocks[block.kind]))):
            yield violation_in(block.start.frame, f"{quote_names(missing)} missing, or of another type")


@BLOCK.rule(
    "open",
    "Deltas and stops belong to an open block",
    text="A delta or a stop comes after the start of its block and before its stop.",
    why="Before it, SDKs raise; after it, what comes is lost.",
    needs=lambda answer: answer.blocks or answer.strays,
    lacks=_NO_BLOCK,
)
def is_open(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    for event, why in answer.strays:
        yield violation_in(event.frame, why)


@BLOCK.rule(
    "stopped",
    "Every block is stopped",
    text="In a whole answer every block that was started is stopped.",
    why="Clients act on a block when it stops: a call that never does is never carried out.",
    needs=lambda answer: answer.blocks and answer.of_type("message_stop"),
    lacks="no block, or no `message_stop`",
)
def stopped(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    for number, block in sorted(answer.blocks.items()):
        if not block.is_stopped:
            yield violation_in(block.start.frame, f"block {number} is never stopped")


@BLOCK.rule(
    "one-open",
    "One block is open at a time",
    text="Text and thinking are open alone: no other block starts before they stop.",
    why="Clients show the block that grows; those that keep only one lose the other.",
    severity=Severity.ODD,
    needs=lambda answer: len(answer.blocks) > 1,
    lacks="fewer than two blocks in it",
)
def one_open(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    open_kinds: dict[int, object] = {}
    for event in answer.events:
        if event.index is None:
            continue
        if event.type == "content_block_start":
            alone = [number for number, kind in open_kinds.items() if kind in ("text", "thinking")]
            if alone:
                yield violation_in(event.frame, f"block {alone[0]} is still open")
            open_kinds.setdefault(event.index, event.member("content_block").get("type"))
        elif event.type == "content_block_stop":
            open_kinds.pop(event.index, None)


@DELTA.rule(
    "known",
    "Deltas are known",
    text="The type of a delta is one of the API's.",
    why="Clients pass over what they do not know: its content is lost.",
    severity=Severity.ODD,
    needs=_deltas,
    lacks="no delta in it",
)
def known(answer: MessagesAnswer, api: MessagesApi) -> Iterator[Violation]:
    for block in _blocks(answer):
        for event in block.deltas:
            if str(event.member("delta").get("type")) not in api.deltas:
                yield violation_in(event.frame, f"no delta is named {quote(event.member('delta').get('type'))}")


@DELTA.rule(
    "kind",
    "A delta fits its block",
    text="A delta has the kind of its block: text in text, thinking and signatures in thinking, arguments in a call.",
    why="An SDK loses a delta of another kind without a word, and Claude Code ends the turn.",
    needs=_deltas,
    lacks="no delta in it",
)
def kind(answer: MessagesAnswer, api: MessagesApi) -> Iterator[Violation]:
    for block in _blocks(answer):
        if block.kind not in api.blocks:  # the server's own tools also have arguments
            continue
        for event in block.deltas:
            found = api.deltas.get(str(event.member("delta").get("type")))
            if found is not None and found.block != block.kind:
                word = event.member("delta")["type"]
                yield violation_in(event.frame, f"`{word}` in a block of the kind {quote(block.kind)}")


@DELTA.rule(
    "member",
    "A delta has its member",
    text="A delta has the member that its type says: a text; for a citation an object.",
    why="SDKs append it: anything but a text is a type error.",
    needs=_deltas,
    lacks="no delta in it",
)
def member(answer: MessagesAnswer, api: MessagesApi) -> Iterator[Violation]:
    for block in _blocks(answer):
        for event in block.deltas:
            found = api.deltas.get(str(event.member("delta").get("type")))
            if found is None:
                continue
            wanted = dict if found.member == "citation" else str
            if not isinstance(event.member("delta").get(found.member), wanted):
                yield violation_in(event.frame, f"`{found.member}` missing, or of another type")


@SIGNATURE.rule(
    "last",
    "The signature comes once, at the end",
    text="A block of thinking has one `signature_delta`, and nothing comes after it in the block.",
    why="A signature replaces the one before it: of two, one is lost, and the provider refuses what is sent back.",
    needs=lambda answer: any(block.deltas_of("signature_delta") for block in _blocks(answer, "thinking")),
    lacks="no signature in it",
)
def last(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    for block in _blocks(answer, "thinking"):
        signed = block.deltas_of("signature_delta")
        if len(signed) > 1:
            yield violation_in(signed[1].frame, "a second signature in the block")
        elif signed and block.deltas[-1] is not signed[0]:
            yield violation_in(signed[0].frame, "thinking goes on after the signature")


@SIGNATURE.rule(
    "present",
    "Thinking is signed",
    text="A block of thinking has a signature that is not empty when it stops.",
    why="The block is sent back with the next request, and refused without one.",
    severity=Severity.ODD,
    needs=lambda answer: any(block.is_stopped for block in _blocks(answer, "thinking")),
    lacks="no thinking in it",
)
def present(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    for block in _blocks(answer, "thinking"):
        texts = [each.member("delta").get("signature") for each in block.deltas_of("signature_delta")]
        if block.is_stopped and not any([*texts, block.content.get("signature")]):
            yield violation_in(block.start.frame, "the block has no signature")


@CALL.rule(
    "id",
    "A call has an id of its own",
    text="Every `tool_use` block has a name and an `id`, neither empty, and no two have the same id.",
    why="The result is sent back under the id: with the same one twice, results are mixed up.",
    needs=lambda answer: _blocks(answer, "tool_use"),
    lacks="no call in it",
)
def call_id(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    seen: set[object] = set()
    for block in _blocks(answer, "tool_use"):
        id, name = block.content.get("id"), block.content.get("name")
        if not isinstance(id, str) or not isinstance(name, str):
            continue
        if not id or not name or id in seen:
            yield violation_in(block.start.frame, f"id {quote(id)}, name {quote(name)}")
        seen.add(id)


@CALL.rule(
    "arguments",
    "Arguments are one JSON object",
    text="The pieces of a call's arguments are one JSON object, or there are none, unless `max_tokens` cut them off.",
    why="SDKs parse them while they arrive, and raise.",
    needs=lambda answer: any(block.is_stopped for block in _blocks(answer, "tool_use")),
    lacks="no call in it",
)
def arguments(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    if answer.stop_reason == "max_tokens":
        return
    for block in _blocks(answer, "tool_use"):
        text = block.arguments
        if block.is_stopped and text and not isinstance(parse_json(text.encode("utf-8", "replace")).value, dict):
            yield violation_in(block.start.frame, f"the arguments are {quote(text)}")
