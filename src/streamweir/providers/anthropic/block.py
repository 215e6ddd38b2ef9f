"""The content blocks of one Anthropic message: the state that is kept between frames.

A block is identified by Anthropic's index while it is open. Its type decides which events its deltas become. Blocks of
types that are not part of the answer produce no events.

`index` of a reasoning detail is the position of its block among the blocks that a message in OpenAI's format can
represent (reasoning, a run of text, a call). A caller that returns the details returns their positions with them, and
`message.py` puts the blocks back there.
"""

from collections.abc import Mapping
from typing import Any

from streamweir.core.events import Event, ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStarted
from streamweir.providers.anthropic.frame import NO_INDEX, Delta
from streamweir.providers.members import text_of
from streamweir.wire import jsonio
from streamweir.wire.messages import REASONING_FORMAT as FORMAT


class _Text:
    __slots__ = ()


class _Reasoning:
    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position


class _Call:
    __slots__ = ("has_arguments", "input", "ordinal")

    def __init__(self, ordinal: int, input: Any) -> None:
        self.ordinal = ordinal
        self.input = input
        self.has_arguments = False


class _OtherBlock:
    """A block that is not part of the answer."""

    __slots__ = ()


_Block = _Text | _Reasoning | _Call | _OtherBlock


class BlockTable:
    __slots__ = ("_calls", "_in_text", "_last", "_open", "_positions", "is_empty", "text_index")

    def __init__(self) -> None:
        self.is_empty = True
        """No block has started."""
        self.text_index: int | None = None
        """The index of the block whose text is being sent."""
        self._open: dict[int, _Block] = {}
        self._last = NO_INDEX
        self._calls = 0
        self._positions = 0
        self._in_text = False

    def start(self, index: int, block: Mapping[str, Any], events: list[Event]) -> None:
        self.is_empty = False
        if index == NO_INDEX:
            index = self._last + 1
        self._last = index
        if index == self.text_index:
            self.text_index = None
        kind = block.get("type")
        if kind == "text":
            self._open[index] = _Text()
            self._add_text(index, text_of(block, "text"), events)
        elif kind == "thinking":
            reasoning = self._open_reasoning(index)
            self._add_reasoning(reasoning, text_of(block, "thinking"), text_of(block, "signature"), events)
        elif kind == "redacted_thinking":
            position = self._open_reasoning(index).position
            data = text_of(block, "data")
            if data:
                entry = {"type": "reasoning.encrypted", "data": data, "format": FORMAT, "index": position}
                events.append(ReasoningDelta(0, "", (entry,)))
        elif kind == "tool_use":
            self._open[index] = _Call(self._calls, block.get("input"))
            events.append(ToolCallStarted(0, self._calls, text_of(block, "id") or None, text_of(block, "name") or ""))
            self._calls += 1
            self._next_position()
        else:
            self._open[index] = _OtherBlock()

    def add(self, index: int, delta: Delta, events: list[Event]) -> None:
        self.is_empty = False
        if index == NO_INDEX:
            index = self._last
        block = self._open.get(index)
        if block is None:
            # There was no start: the type of the delta shows what kind of block it belongs to.
            if delta.type == "text_delta":
                block = self._open[index] = _Text()
            elif delta.type == "thinking_delta":
                block = self._open_reasoning(index)
        if isinstance(block, _Text):
            if delta.type == "text_delta":
                self._add_text(index, delta.text, events)
        elif isinstance(block, _Reasoning):
            self._add_reasoning(block, delta.thinking, delta.signature, events)
        elif isinstance(block, _Call) and delta.partial_json:
            block.has_arguments = True
            events.append(ToolCallDelta(0, block.ordinal, delta.partial_json))

    def stop(self, index: int, events: list[Event]) -> None:
        if index == NO_INDEX:
            index = self._last
        if index == self.text_index:
            self.text_index = None
        block = self._open.pop(index, None)
        if isinstance(block, _Call) and not block.has_arguments:
            # quirk: the whole input in the start of the block, or only empty pieces
            # (fixtures anthropic/tool_input_in_block_start, anthropic/tool_without_arguments).
            events.append(ToolCallDelta(0, block.ordinal, _arguments_of(block.input)))

    def close(self, events: list[Event]) -> None:
        """The message is finished: closes the blocks that got no stop."""
        for index in sorted(self._open):
            self.stop(index, events)

    def _add_text(self, index: int, text: str | None, events: list[Event]) -> None:
        if text:
            if not self._in_text:
                self._next_position()
                self._in_text = True
            self.text_index = index
            events.append(TextDelta(0, text))

    def _open_reasoning(self, index: int) -> _Reasoning:
        block = self._open[index] = _Reasoning(self._next_position())
        return block

    def _add_reasoning(self, block: _Reasoning, text: str | None, signature: str | None, events: list[Event]) -> None:
        entry: dict[str, Any] = {"type": "reasoning.text"}
        if text:
            entry["text"] = text
        if signature:
            entry["signature"] = signature
        if text or signature:
            entry["format"] = FORMAT
            entry["index"] = block.position
            events.append(ReasoningDelta(0, text or "", (entry,)))

    def _next_position(self) -> int:
        position = self._positions
        self._positions += 1
        self._in_text = False
        return position


def _arguments_of(input: Any) -> str:
    if isinstance(input, str):
        return input or "{}"
    return jsonio.encode(input).decode() if input else "{}"
