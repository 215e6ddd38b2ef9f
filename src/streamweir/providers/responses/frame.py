"""The members of a frame of the Responses wire that are read.

One flat typed decode per frame: every event type in one Struct, distinguished by `type`. Members of the frequent frames
are typed, those of the rare ones stay plain objects. A frame with a wrong type somewhere is read again without types
and keeps what is usable. The meaning of a frame is the decoder's part.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from streamweir.providers.members import object_of, text_of
from streamweir.wire import jsonio

NO_INDEX = -1
"""Of a frame without the index of its item."""


class Response(Struct, gc=False):
    """What is read of a response that a frame describes. Its `output` is not: the last frame repeats all of it."""

    id: Any = None
    model: Any = None
    created_at: Any = None
    status: Any = None
    service_tier: Any = None
    tools: Any = None
    usage: Any = None
    error: Any = None
    incomplete_details: Any = None

    @property
    def members(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__struct_fields__}


class StreamEvent(Struct, gc=False):
    """One frame's document."""

    type: str | None = None
    output_index: int = NO_INDEX
    content_index: int = 0
    summary_index: int = 0
    delta: str | None = None
    logprobs: list[Any] | None = None
    text: str | None = None
    refusal: str | None = None
    arguments: str | None = None
    input: str | None = None
    item: dict[str, Any] | None = None
    annotation: dict[str, Any] | None = None
    response: Response | None = None
    error: Any = None

    @property
    def response_members(self) -> dict[str, Any]:
        return {} if self.response is None else self.response.members


def read_stream_event(value: Any) -> StreamEvent:
    if not isinstance(value, Mapping):
        raise jsonio.InvalidJson("a frame is not an object")
    logprobs = value.get("logprobs")
    return StreamEvent(
        output_index=_index_of(value, "output_index", NO_INDEX),
        content_index=_index_of(value, "content_index", 0),
        summary_index=_index_of(value, "summary_index", 0),
        logprobs=logprobs if isinstance(logprobs, list) else None,
        error=value.get("error"),
        type=text_of(value, "type"),
        delta=text_of(value, "delta"),
        text=text_of(value, "text"),
        refusal=text_of(value, "refusal"),
        arguments=text_of(value, "arguments"),
        input=text_of(value, "input"),
        item=object_of(value, "item"),
        annotation=object_of(value, "annotation"),
        response=Response(**{name: response.get(name) for name in Response.__struct_fields__})
        if (response := object_of(value, "response")) is not None
        else None,
    )


decode_stream_event = jsonio.typed(StreamEvent, read_stream_event)


def _index_of(value: Mapping[str, Any], name: str, default: int) -> int:
    member = value.get(name)
    return member if isinstance(member, int) and not isinstance(member, bool) else default
