"""A whole answer that is too large for the event loop: the part that runs in another process, in two steps.

`read` returns the events that the meter needs, in groups that are small enough for one turn of the loop, and keeps
the rest; `write` returns the body. The output is that of `pipeline.exchange`: events, fold and writer are the same.
Processes and pipes are in `server.relay.large_answer`.
"""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, structs

from streamweir.core.completion import Accumulator
from streamweir.core.embedding import Encoding
from streamweir.core.events import (
    ChoiceFinished,
    Event,
    ReasoningDelta,
    RefusalDelta,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    StreamTagged,
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
    UsageDiscarded,
    UsageReported,
)
from streamweir.core.request import ToolShape
from streamweir.core.usage import Usage
from streamweir.frontends.base import Frontend, Reply, WholeBody
from streamweir.providers.base import Provider
from streamweir.wire.jsonio import is_dense

MAX_BYTES_ON_LOOP = 1024 * 1024
"""Decoding and writing so much text takes some ten milliseconds."""
_PIECE = 128 * 1024
"""Characters of one event, and about the characters of a group of events."""
_GROUP = 1000
_PASSED = (StreamStarted, StreamTagged, UsageReported, UsageDiscarded, ChoiceFinished, StreamCompleted, StreamFailed)

MeteredEvent = (
    StreamStarted
    | StreamTagged
    | TextDelta
    | ReasoningDelta
    | UsageReported
    | UsageDiscarded
    | ChoiceFinished
    | StreamCompleted
    | StreamFailed
)
"""The events that a meter needs."""


class ReplyData(Struct, frozen=True, kw_only=True):
    """The parameters for writing the body: the members of `Reply` that can be sent to another process."""

    frontend: str
    """Its name in `frontends.table`."""
    id: str
    now: int
    model: str | None
    target_model: str
    exclude_reasoning: bool
    hides_reasoning: bool
    tool_names: dict[str, str] | None
    tools: dict[str, ToolShape] | None
    summarizes_reasoning: bool
    shows_logprobs: bool
    echoed: dict[str, Any] | None
    pinned: bool
    created: int | None
    usage: Usage
    price: float | None
    """What the caller pays, in dollars. None: it is not shown, or not known."""
    encoding: Encoding = "float"


def is_large(body: bytes) -> bool:
    """Whether a document takes too long for one turn of the loop."""
    return len(body) > MAX_BYTES_ON_LOOP or is_dense(body)


def reply_data_of(frontend: str, reply: Reply, usage: Usage) -> ReplyData:
    return ReplyData(
        frontend=frontend,
        id=reply.id,
        now=reply.now(),
        model=reply.model,
        target_model=reply.target_model,
        exclude_reasoning=reply.exclude_reasoning,
        hides_reasoning=reply.hides_reasoning,
        tool_names=dict(reply.tool_names) if reply.tool_names else None,
        tools=dict(reply.tools) if reply.tools else None,
        summarizes_reasoning=reply.summarizes_reasoning,
        shows_logprobs=reply.shows_logprobs,
        echoed=dict(reply.echoed) if reply.echoed else None,
        pinned=reply.pinned,
        created=reply.created,
        usage=usage,
        price=reply.price_of(usage) if reply.price_of is not None else None,
        encoding=reply.encoding,
    )


class LargeAnswer:
    def __init__(self, provider: Provider, choices: int | None) -> None:
        self._provider = provider
        self._choices = choices
        self._accumulator = Accumulator()

    def read(self, body: bytes) -> Iterator[list[MeteredEvent]]:
        """The meter needs only the length of texts, so pieces may be joined and cut."""
        group: list[MeteredEvent] = []
        size = 0
        for event in self._provider.decode_whole(body, self._choices):
            self._accumulator.feed(event)
            for metered in _metered(event):
                group.append(metered)
                size += _size_of(metered)
                if size >= _PIECE or len(group) >= _GROUP:
                    yield group
                    group, size = [], 0
        yield group

    def write(self, frontend: Frontend, reply_data: ReplyData) -> WholeBody:
        """`frontend`: the one named in `reply_data`."""
        members = structs.asdict(reply_data)
        _, now, usage = members.pop("frontend"), members.pop("now"), members.pop("usage")
        price = members.pop("price")
        reply = Reply(**members, now=lambda: now, price_of=lambda _: price)
        completion = self._accumulator.fold()
        completion.usage = usage
        return frontend.write_whole(completion, reply)


def _metered(event: Event) -> Iterator[MeteredEvent]:
    """The parts of the event that a meter needs."""
    if isinstance(event, TextDelta | RefusalDelta):
        yield from (TextDelta(0, piece) for piece in _cut(event.text))
    elif isinstance(event, ReasoningDelta):
        yield from (ReasoningDelta(0, piece) for piece in _cut(event.text))
    elif isinstance(event, ToolCallStarted):
        yield from (TextDelta(0, piece) for piece in _cut(event.name))
    elif isinstance(event, ToolCallDelta):
        yield from (TextDelta(0, piece) for piece in _cut(event.arguments))
    elif isinstance(event, _PASSED):
        yield event


def _cut(text: str) -> Iterator[str]:
    for at in range(0, len(text), _PIECE):
        yield text[at : at + _PIECE]


def _size_of(event: MeteredEvent) -> int:
    return len(event.text) if isinstance(event, TextDelta | ReasoningDelta) else 1
