"""Parses a recorded answer of the Messages API: its events, its blocks, its end. Never raises.

Frames and their offsets are those of `parsed_answer`. Values of a wrong type are left out here; only the rule about
that type reports them, so that one mistake is one finding.
"""

from dataclasses import dataclass, field
from typing import Any

from streamweir.conformance.parsed_answer import Frame, ParsedAnswer, parse_answer
from streamweir.conformance.recording import Kind, Recording

TERMINAL = ("message_stop", "error")


@dataclass
class MessageEvent:
    """One frame whose document is an object with a type."""

    frame: Frame
    type: str
    document: dict[str, Any]

    @property
    def index(self) -> int | None:
        index = self.document.get("index")
        return index if type(index) is int else None

    def member(self, name: str) -> dict[str, Any]:
        """A member that is an object; else an empty one."""
        value = self.document.get(name)
        return value if isinstance(value, dict) else {}


@dataclass
class Block:
    """One content block, with the deltas that came while it was open."""

    start: MessageEvent
    deltas: list[MessageEvent] = field(default_factory=list)
    is_stopped: bool = False

    @property
    def content(self) -> dict[str, Any]:
        return self.start.member("content_block")

    @property
    def kind(self) -> str | None:
        kind = self.content.get("type")
        return kind if isinstance(kind, str) else None

    def deltas_of(self, kind: str) -> list[MessageEvent]:
        return [delta for delta in self.deltas if delta.member("delta").get("type") == kind]

    @property
    def arguments(self) -> str:
        pieces = (each.member("delta").get("partial_json") for each in self.deltas_of("input_json_delta"))
        return "".join(piece for piece in pieces if isinstance(piece, str))


@dataclass
class MessagesAnswer:
    parsed: ParsedAnswer
    events: list[MessageEvent] = field(default_factory=list)
    blocks: dict[int, Block] = field(default_factory=dict)
    strays: list[tuple[MessageEvent, str]] = field(default_factory=list)
    """Deltas and stops that belong to no open block, and why."""

    @property
    def recording(self) -> Recording:
        return self.parsed.recording

    @property
    def kind(self) -> Kind:
        return self.parsed.kind

    @property
    def document(self) -> dict[str, Any]:
        """Of a whole answer or a failed response; empty if it is not an object."""
        value = self.parsed.body.value
        return value if isinstance(value, dict) else {}

    def of_type(self, name: str) -> list[MessageEvent]:
        return [event for event in self.events if event.type == name]

    @property
    def has_failed(self) -> bool:
        return bool(self.of_type("error"))

    @property
    def stop_reason(self) -> object:
        """As in the stream, or in the whole body."""
        if self.kind is Kind.WHOLE:
            return self.document.get("stop_reason")
        ends = self.of_type("message_delta")
        return ends[-1].member("delta").get("stop_reason") if ends else None

    @property
    def content(self) -> list[dict[str, Any]]:
        """The blocks, of a stream as they were opened."""
        if self.kind is not Kind.WHOLE:
            return [block.content for _, block in sorted(self.blocks.items())]
        content = self.document.get("content")
        return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []

    @property
    def text(self) -> str:
        if self.kind is Kind.WHOLE:
            texts = [block.get("text") for block in self.content if block.get("type") == "text"]
        else:
            texts = [
                each.member("delta").get("text")
                for _, block in sorted(self.blocks.items())
                for each in block.deltas_of("text_delta")
            ]
        return "".join(text for text in texts if isinstance(text, str))

    @property
    def usage(self) -> dict[str, Any]:
        """As clients have it at the end: a later report overwrites an earlier one."""
        holders = [self.document]
        if self.kind is not Kind.WHOLE:
            holders = [event.member("message") for event in self.of_type("message_start")]
            holders += [event.document for event in self.of_type("message_delta")]
        merged: dict[str, Any] = {}
        for holder in holders:
            usage = holder.get("usage")
            merged |= usage if isinstance(usage, dict) else {}
        return merged


def parse_messages_answer(recording: Recording) -> MessagesAnswer:
    answer = MessagesAnswer(parse_answer(recording))
    for frame in answer.parsed.data_frames:
        document = frame.document
        kind = document.get("type") if document is not None else None
        if document is not None and isinstance(kind, str):
            answer.events.append(MessageEvent(frame, kind, document))
    for event in answer.events:
        _collect(answer, event)
    return answer


def _collect(answer: MessagesAnswer, event: MessageEvent) -> None:
    index = event.index
    if index is None:
        return
    block = answer.blocks.get(index)
    if event.type == "content_block_start":
        answer.blocks.setdefault(index, Block(event))
    elif event.type in ("content_block_delta", "content_block_stop"):
        if block is None:
            answer.strays.append((event, f"block {index} was never started"))
        elif block.is_stopped:
            answer.strays.append((event, f"block {index} is stopped already"))
        elif event.type == "content_block_stop":
            block.is_stopped = True
        else:
            block.deltas.append(event)


def speaks_messages(recording: Recording) -> bool:
    """The answer has the form of this API: used if no dialect is named."""
    answer = parse_messages_answer(recording)
    if answer.kind is Kind.STREAM:
        return bool(answer.of_type("message_start")) or (answer.has_failed and not answer.parsed.chunks)
    return answer.document.get("type") in ("message", "error")
