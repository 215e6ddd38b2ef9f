"""The members of an Anthropic frame that are used here, as types.

There is one flat typed decode per frame: all event types share one Struct and differ in `type`. The members of frequent
frames are typed; those of rare ones stay untyped and are read where they are used. If a member has the wrong type, the
frame is decoded again without types, and the usable members are kept. This module does not interpret frames: that is
the decoder's part.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from streamweir.providers.blocks import NO_INDEX
from streamweir.providers.members import object_of, text_of
from streamweir.wire import jsonio


class Delta(Struct, gc=False):
    """The delta of a block or (with `stop_reason`) of the message."""

    type: str | None = None
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None


class StreamEvent(Struct, gc=False):
    """The document of one frame."""

    type: str | None = None
    index: int = NO_INDEX
    delta: Delta | None = None
    content_block: dict[str, Any] | None = None
    message: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


def read_stream_event(value: Any) -> StreamEvent:
    if not isinstance(value, Mapping):
        raise jsonio.InvalidJson("a frame is not an object")
    index = value.get("index")
    delta = value.get("delta")
    return StreamEvent(
        type=text_of(value, "type"),
        index=index if isinstance(index, int) else NO_INDEX,
        delta=Delta(**{name: text_of(delta, name) for name in Delta.__struct_fields__})
        if isinstance(delta, Mapping)
        else None,
        content_block=object_of(value, "content_block"),
        message=object_of(value, "message"),
        usage=object_of(value, "usage"),
        error=value.get("error"),
    )


decode_stream_event = jsonio.typed(StreamEvent, read_stream_event)
