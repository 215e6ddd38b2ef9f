"""The content blocks of one Anthropic message (`providers.blocks`): each has a start that says what it is."""

from collections.abc import Mapping
from typing import Any

from streamweir.core.events import Event, ReasoningDelta, ToolCallDelta
from streamweir.providers.anthropic.frame import Delta
from streamweir.providers.blocks import NO_INDEX, Blocks, CallBlock, OtherBlock, ReasoningBlock, TextBlock
from streamweir.providers.members import text_of
from streamweir.wire.messages import REASONING_FORMAT as FORMAT


class BlockTable(Blocks):
    __slots__ = ()

    def start(self, index: int, block: Mapping[str, Any], events: list[Event]) -> None:
        self.is_empty = False
        if index == NO_INDEX:
            index = self._last + 1
        self._last = index
        if index == self.text_index:
            self.text_index = None
        kind = block.get("type")
        if kind == "text":
            self._open[index] = TextBlock()
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
            self._start_call(index, block, "id", events)
        else:
            self._open[index] = OtherBlock()

    def add(self, index: int, delta: Delta, events: list[Event]) -> None:
        self.is_empty = False
        if index == NO_INDEX:
            index = self._last
        block = self._open.get(index)
        if block is None:
            # There was no start: the type of the delta shows what kind of block it belongs to.
            if delta.type == "text_delta":
                block = self._open[index] = TextBlock()
            elif delta.type == "thinking_delta":
                block = self._open_reasoning(index)
        if isinstance(block, TextBlock):
            if delta.type == "text_delta":
                self._add_text(index, delta.text, events)
        elif isinstance(block, ReasoningBlock):
            self._add_reasoning(block, delta.thinking, delta.signature, events)
        elif isinstance(block, CallBlock) and delta.partial_json:
            block.has_arguments = True
            events.append(ToolCallDelta(0, block.ordinal, delta.partial_json))

    def _add_text(self, index: int, text: str | None, events: list[Event]) -> None:
        if text:
            self._send_text(index, text, events)

    def _open_reasoning(self, index: int) -> ReasoningBlock:
        block = self._open[index] = ReasoningBlock(self._next_position())
        return block

    def _add_reasoning(
        self, block: ReasoningBlock, text: str | None, signature: str | None, events: list[Event]
    ) -> None:
        entry: dict[str, Any] = {"type": "reasoning.text"}
        if text:
            entry["text"] = text
        if signature:
            entry["signature"] = signature
        if text or signature:
            entry["format"] = FORMAT
            entry["index"] = block.position
            events.append(ReasoningDelta(0, text or "", (entry,)))
