"""Parses a recorded answer of the Responses API: its events, its items and their parts, its end. Never raises.

Frames and their offsets are those of `parsed_answer`. Values of a wrong type are left out here; only the rule about
that type reports them, so that one mistake is one finding.
"""

from dataclasses import dataclass, field
from typing import Any

from streamweir.conformance.parsed_answer import Frame, ParsedAnswer, parse_answer
from streamweir.conformance.recording import Kind, Recording
from streamweir.conformance.responses.api import TERMINAL
from streamweir.core.completion import join_text
from streamweir.wire.responses import INPUTS, PARTS, TEXTS

ADDED = "response.output_item.added"
DONE = "response.output_item.done"
Document = dict[str, Any]
PartKey = tuple[str, int]
"""The member that counts the parts, and its value."""


@dataclass
class ResponseEvent:
    """One frame whose document is an object with a type."""

    frame: Frame
    type: str
    document: Document

    @property
    def stem(self) -> str:
        """Without the last part: `response.output_text` of `response.output_text.delta`."""
        return self.type.rpartition(".")[0]

    @property
    def change(self) -> str:
        return self.type.rpartition(".")[2]

    @property
    def output_index(self) -> int | None:
        return self.count("output_index")

    def count(self, name: str) -> int | None:
        value = self.document.get(name)
        return value if type(value) is int else None

    def text(self, name: str) -> str | None:
        value = self.document.get(name)
        return value if isinstance(value, str) else None

    def member(self, name: str) -> Document:
        """A member that is an object; else an empty one."""
        value = self.document.get(name)
        return value if isinstance(value, dict) else {}

    @property
    def response(self) -> Document:
        return self.member("response")

    @property
    def item(self) -> Document:
        return self.member("item")


@dataclass
class Spelled:
    """A text in pieces, and the whole of it."""

    deltas: list[ResponseEvent] = field(default_factory=list)
    done: ResponseEvent | None = None

    @property
    def text(self) -> str:
        return join_text([piece for event in self.deltas if (piece := event.text("delta")) is not None])


@dataclass
class Part:
    added: ResponseEvent
    spelled: Spelled = field(default_factory=Spelled)
    done: ResponseEvent | None = None

    @property
    def kind(self) -> str | None:
        kind = self.added.member("part").get("type")
        return kind if isinstance(kind, str) else None


@dataclass
class Item:
    added: ResponseEvent
    events: list[ResponseEvent] = field(default_factory=list)
    """All between the item's `added` and its `done`."""
    parts: dict[PartKey, Part] = field(default_factory=dict)
    input: Spelled = field(default_factory=Spelled)
    done: ResponseEvent | None = None

    @property
    def kind(self) -> str | None:
        kind = self.added.item.get("type")
        return kind if isinstance(kind, str) else None

    @property
    def id(self) -> str | None:
        id = self.added.item.get("id")
        return id if isinstance(id, str) else None


@dataclass
class ResponsesAnswer:
    parsed: ParsedAnswer
    events: list[ResponseEvent] = field(default_factory=list)
    items: dict[int, Item] = field(default_factory=dict)
    strays: list[tuple[ResponseEvent, str]] = field(default_factory=list)
    """Events without an open item, with the reason."""
    part_strays: list[tuple[ResponseEvent, str]] = field(default_factory=list)
    """Events without an open part, with the reason."""

    @property
    def recording(self) -> Recording:
        return self.parsed.recording

    @property
    def kind(self) -> Kind:
        """A whole response that failed is a response too."""
        is_response = self.parsed.kind is Kind.FAILURE and self.document.get("object") == "response"
        return Kind.WHOLE if is_response else self.parsed.kind

    @property
    def document(self) -> Document:
        """Of a whole answer or a failed response; empty if it is not an object."""
        value = self.parsed.body.value
        return value if isinstance(value, dict) else {}

    def of_type(self, *names: str) -> list[ResponseEvent]:
        return [event for event in self.events if event.type in names]

    @property
    def end(self) -> ResponseEvent | None:
        """The first terminal event."""
        return next((event for event in self.events if event.type in TERMINAL), None)

    @property
    def has_ended_well(self) -> bool:
        return self.end is not None and self.end.type != "response.failed"

    @property
    def response(self) -> Document:
        """The response at its end, as in the stream, or in the whole body."""
        if self.kind is Kind.WHOLE:
            return self.document
        return self.end.response if self.end is not None else {}

    @property
    def output(self) -> list[Document]:
        """The items, of a stream as they were done."""
        if self.kind is not Kind.WHOLE:
            return [item.done.item for _, item in sorted(self.items.items()) if item.done is not None]
        output = self.document.get("output")
        return [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []

    @property
    def text(self) -> str:
        """The text of the answer; of a stream, the text of its deltas."""
        if self.kind is Kind.WHOLE:
            return "".join(said_in(item) for item in self.output)
        parts = [part for _, item in sorted(self.items.items()) for _, part in sorted(item.parts.items())]
        return "".join(part.spelled.text for part in parts if part.kind in ("output_text", "refusal"))

    @property
    def usage(self) -> Document:
        usage = self.response.get("usage")
        return usage if isinstance(usage, dict) else {}


def said_in(item: Document) -> str:
    """The text of a message."""
    content = item.get("content") if item.get("type") == "message" else None
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = [part.get("text") if part.get("type") == "output_text" else part.get("refusal") for part in parts]
    return "".join(text for text in texts if isinstance(text, str))


def parse_responses_answer(recording: Recording) -> ResponsesAnswer:
    answer = ResponsesAnswer(parse_answer(recording))
    for frame in answer.parsed.data_frames:
        document = frame.document
        kind = document.get("type") if document is not None else None
        if document is not None and isinstance(kind, str):
            answer.events.append(ResponseEvent(frame, kind, document))
    for event in answer.events:
        _collect(answer, event)
    return answer


def _collect(answer: ResponsesAnswer, event: ResponseEvent) -> None:
    index = event.output_index
    if index is None:
        return
    item = answer.items.get(index)
    if event.type == ADDED:
        answer.items.setdefault(index, Item(event))
    elif item is None:
        answer.strays.append((event, f"item {index} was never added"))
    elif item.done is not None:
        answer.strays.append((event, f"item {index} is done already"))
    elif event.type == DONE:
        item.done = event
    else:
        item.events.append(event)
        _collect_in(answer, item, event)


def _collect_in(answer: ResponsesAnswer, item: Item, event: ResponseEvent) -> None:
    if event.stem in INPUTS:
        _spell(answer.strays, item.input, event)
        return
    name = PARTS.get(event.stem) or (TEXTS[event.stem].index if event.stem in TEXTS else None)
    number = event.count(name) if name is not None else None
    if name is None or number is None:
        return
    part = item.parts.get((name, number))
    if event.stem in PARTS and event.change == "added":
        item.parts.setdefault((name, number), Part(event))
    elif part is None:
        answer.part_strays.append((event, f"part {number} was never added"))
    elif part.done is not None:
        answer.part_strays.append((event, f"part {number} is done already"))
    elif event.stem in PARTS:
        part.done = event
    else:
        _spell(answer.part_strays, part.spelled, event)


def _spell(strays: list[tuple[ResponseEvent, str]], spelled: Spelled, event: ResponseEvent) -> None:
    if spelled.done is not None:
        strays.append((event, f"`{event.stem}.done` was already sent"))
    elif event.change == "done":
        spelled.done = event
    else:
        spelled.deltas.append(event)


def speaks_responses(recording: Recording) -> bool:
    """The answer has the form of this API: used if no dialect is named."""
    answer = parse_responses_answer(recording)
    if answer.kind is Kind.STREAM:
        return any(event.type in ("response.created", *TERMINAL) for event in answer.events)
    return answer.document.get("object") == "response"
