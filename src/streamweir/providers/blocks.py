"""Content blocks of one message, for protocols that number them: the state that is kept between frames.

A block is identified by the protocol's index while it is open. Its kind decides which events its deltas become. Blocks
that are not part of the answer produce no events.

`position` of reasoning is the place of its block among the blocks that a message in OpenAI's format can represent
(reasoning, a run of text, a call). It goes out as `index` of a reasoning detail. A caller that returns the details
returns their positions with them, and the request's builder puts the blocks back there.
"""

from collections.abc import Mapping
from typing import Any

from streamweir.core.events import Event, TextDelta, ToolCallDelta, ToolCallStarted
from streamweir.providers.members import text_of
from streamweir.wire import jsonio

NO_INDEX = -1
"""The frame does not say which block it is about."""


class TextBlock:
    __slots__ = ()


class ReasoningBlock:
    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position


class CallBlock:
    __slots__ = ("has_arguments", "input", "ordinal")

    def __init__(self, ordinal: int, input: Any) -> None:
        self.ordinal = ordinal
        self.input = input
        self.has_arguments = False


class OtherBlock:
    """A block that is not part of the answer."""

    __slots__ = ()


Block = TextBlock | ReasoningBlock | CallBlock | OtherBlock


class Blocks:
    """The part of a table of blocks that all protocols share."""

    __slots__ = ("_calls", "_in_text", "_last", "_open", "_positions", "is_empty", "text_index")

    def __init__(self) -> None:
        self.is_empty = True
        """No block has started."""
        self.text_index: int | None = None
        """The index of the block whose text is being sent."""
        self._open: dict[int, Block] = {}
        self._last = NO_INDEX
        self._calls = 0
        self._positions = 0
        self._in_text = False

    def stop(self, index: int, events: list[Event]) -> None:
        if index == NO_INDEX:
            index = self._last
        if index == self.text_index:
            self.text_index = None
        block = self._open.pop(index, None)
        if isinstance(block, CallBlock) and not block.has_arguments:
            # quirk: the whole input in the start of the block, or only empty pieces
            # (fixtures anthropic/tool_input_in_block_start, anthropic/tool_without_arguments).
            events.append(ToolCallDelta(0, block.ordinal, _arguments_of(block.input)))

    def close(self, events: list[Event]) -> None:
        """The message is finished: closes the blocks that got no stop."""
        for index in sorted(self._open):
            self.stop(index, events)

    def _start_call(self, index: int, call: Mapping[str, Any], id_name: str, events: list[Event]) -> None:
        """`id_name`: the member of `call` with its id."""
        self._open[index] = CallBlock(self._calls, call.get("input"))
        events.append(ToolCallStarted(0, self._calls, text_of(call, id_name) or None, text_of(call, "name") or ""))
        self._calls += 1
        self._next_position()

    def _send_text(self, index: int, text: str, events: list[Event]) -> None:
        """Of an open block. `text` is not empty."""
        if not self._in_text:
            self._next_position()
            self._in_text = True
        self.text_index = index
        events.append(TextDelta(0, text))

    def _next_position(self) -> int:
        position = self._positions
        self._positions += 1
        self._in_text = False
        return position


def _arguments_of(input: Any) -> str:
    if isinstance(input, str):
        return input or "{}"
    return jsonio.encode(input).decode() if input else "{}"
