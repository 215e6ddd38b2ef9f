"""The members of a Converse frame that are used here, as types.

There is one flat typed decode per frame: all events share one Struct, and the frame's name says which it is. The
members of frequent frames are typed; those of rare ones stay untyped and are read where they are used. If a member has
the wrong type, the frame is decoded again without types, and the usable members are kept. Each frame also has a member
of random length, which hides the length of the text; it is skipped.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from streamweir.providers.blocks import NO_INDEX
from streamweir.providers.members import object_of, text_of
from streamweir.wire import jsonio


class ToolUseDelta(Struct, gc=False):
    input: str | None = None


class ReasoningPiece(Struct, gc=False, rename="camel"):
    text: str | None = None
    signature: str | None = None
    redacted_content: str | None = None


class Delta(Struct, gc=False, rename="camel"):
    text: str | None = None
    tool_use: ToolUseDelta | None = None
    reasoning_content: ReasoningPiece | None = None
    citation: dict[str, Any] | None = None
    image: dict[str, Any] | None = None


class StreamEvent(Struct, gc=False, rename="camel"):
    """The document of one frame."""

    content_block_index: int = NO_INDEX
    delta: Delta | None = None
    start: dict[str, Any] | None = None
    stop_reason: str | None = None
    additional_model_response_fields: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    service_tier: dict[str, Any] | None = None


def read_stream_event(value: Any) -> StreamEvent:
    if not isinstance(value, Mapping):
        raise jsonio.InvalidJson("a frame is not an object")
    index = value.get("contentBlockIndex")
    delta = object_of(value, "delta")
    return StreamEvent(
        content_block_index=index if isinstance(index, int) and not isinstance(index, bool) else NO_INDEX,
        delta=None if delta is None else _read_delta(delta),
        start=object_of(value, "start"),
        stop_reason=text_of(value, "stopReason"),
        additional_model_response_fields=object_of(value, "additionalModelResponseFields"),
        usage=object_of(value, "usage"),
        service_tier=object_of(value, "serviceTier"),
    )


def _read_delta(delta: Mapping[str, Any]) -> Delta:
    tool, reasoning = object_of(delta, "toolUse"), object_of(delta, "reasoningContent")
    return Delta(
        text=text_of(delta, "text"),
        tool_use=None if tool is None else ToolUseDelta(_arguments_in(tool.get("input"))),
        reasoning_content=None if reasoning is None else read_reasoning(reasoning),
        citation=object_of(delta, "citation"),
        image=object_of(delta, "image"),
    )


def _arguments_in(input: Any) -> str | None:
    """A piece of the arguments' text, or all of them as an object."""
    if isinstance(input, dict):
        return jsonio.encode(input).decode()
    return input if isinstance(input, str) else None


def read_reasoning(value: Mapping[str, Any]) -> ReasoningPiece:
    """A piece of a stream, or the same in a whole answer, where the text is in an object of its own."""
    text = object_of(value, "reasoningText") or value
    return ReasoningPiece(text_of(text, "text"), text_of(text, "signature"), text_of(value, "redactedContent"))


decode_stream_event = jsonio.typed(StreamEvent, read_stream_event)
