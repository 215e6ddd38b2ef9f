"""The content blocks of one Converse message: the state that is kept between frames.

A block is identified by Converse's index while it is open. Only a call has a start: the first delta of another block
says what it is. Blocks that are not part of the answer (tools that the service runs itself, and their results) produce
no events.

`index` of a reasoning detail is the position of its block among the blocks that a message in OpenAI's format can
represent (reasoning, a run of text, a call). A caller that returns the details returns their positions with them, and
`message.py` puts the blocks back there.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from streamweir.core.events import Event, Extra, ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStarted
from streamweir.providers.converse.frame import NO_INDEX, Delta, ReasoningPiece, read_reasoning
from streamweir.providers.converse.model import CONVERSE_FORMAT
from streamweir.providers.members import object_of, objects_in, text_of
from streamweir.wire import jsonio
from streamweir.wire.messages import REASONING_FORMAT as CLAUDE_FORMAT

_CLAUDE_DATA = re.compile(rb"E[g-v][A-Za-z0-9+/]+={0,2}")
"""How Anthropic's encrypted reasoning begins: base64 of a message whose first field has the number 2."""
_SERVER_TOOL = "server_tool_use"


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

    def start(self, index: int, start: Mapping[str, Any], events: list[Event]) -> None:
        self.is_empty = False
        if index == NO_INDEX:
            index = self._last + 1
        self._last = index
        self.stop(index, events)
        tool = object_of(start, "toolUse")
        if tool is not None and tool.get("type") != _SERVER_TOOL:
            self._open[index] = _Call(self._calls, tool.get("input"))
            events.append(
                ToolCallStarted(0, self._calls, text_of(tool, "toolUseId") or None, text_of(tool, "name") or "")
            )
            self._calls += 1
            self._next_position()
        elif tool is not None or "toolResult" in start:
            self._open[index] = _OtherBlock()

    def add(self, index: int, delta: Delta, events: list[Event]) -> None:
        self.is_empty = False
        if index == NO_INDEX:
            index = max(self._last, 0)
        self._last = index
        block = self._open.get(index)
        if isinstance(block, _OtherBlock):
            return
        if delta.text is not None:
            self._add_text(index, block, delta.text, events)
        elif delta.reasoning_content is not None:
            self._add_reasoning(index, block, delta.reasoning_content, events)
        elif delta.tool_use is not None:
            if isinstance(block, _Call) and delta.tool_use.input:
                block.has_arguments = True
                events.append(ToolCallDelta(0, block.ordinal, delta.tool_use.input))
        elif delta.citation is not None:
            _add_citations([delta.citation], events)
        elif delta.image is not None:
            _add_image(delta.image, events)

    def stop(self, index: int, events: list[Event]) -> None:
        if index == NO_INDEX:
            index = self._last
        if index == self.text_index:
            self.text_index = None
        block = self._open.pop(index, None)
        if isinstance(block, _Call) and not block.has_arguments:
            events.append(ToolCallDelta(0, block.ordinal, _arguments_of(block.input)))

    def close(self, events: list[Event]) -> None:
        """The message is finished: closes the blocks that got no stop."""
        for index in sorted(self._open):
            self.stop(index, events)

    def read_whole(self, block: Mapping[str, Any], events: list[Event]) -> None:
        """A block of an answer that was not streamed."""
        index = self._last + 1
        self.start(index, block, events)
        text, reasoning = text_of(block, "text"), object_of(block, "reasoningContent")
        cited, image = object_of(block, "citationsContent"), object_of(block, "image")
        if text is not None or reasoning is not None:
            piece = None if reasoning is None else read_reasoning(reasoning)
            self.add(index, Delta(text=text, reasoning_content=piece), events)
        elif cited is not None:
            for part in objects_in(cited, "content"):
                self.add(index, Delta(text=text_of(part, "text")), events)
            _add_citations(objects_in(cited, "citations"), events)
        elif image is not None:
            _add_image(image, events)
        self.stop(index, events)

    def _add_text(self, index: int, block: _Block | None, text: str, events: list[Event]) -> None:
        if not text:
            return
        if not isinstance(block, _Text):
            self.stop(index, events)
            self._open[index] = _Text()
        if not self._in_text:
            self._next_position()
            self._in_text = True
        self.text_index = index
        events.append(TextDelta(0, text))

    def _add_reasoning(self, index: int, block: _Block | None, piece: ReasoningPiece, events: list[Event]) -> None:
        if not (piece.text or piece.signature or piece.redacted_content):
            return
        if not isinstance(block, _Reasoning):
            self.stop(index, events)
            block = self._open[index] = _Reasoning(self._next_position())
        entries: list[dict[str, Any]] = []
        if piece.text or piece.signature:
            entry: dict[str, Any] = {"type": "reasoning.text"}
            if piece.text:
                entry["text"] = piece.text
            if piece.signature:  # only Claude signs its reasoning
                entry |= {"signature": piece.signature, "format": CLAUDE_FORMAT}
            entries.append({**entry, "index": block.position})
        if piece.redacted_content:
            form, data = _data_of(piece.redacted_content)
            entries.append({"type": "reasoning.encrypted", "data": data, "format": form, "index": block.position})
        events.append(ReasoningDelta(0, piece.text or "", tuple(entries)))

    def _next_position(self) -> int:
        position = self._positions
        self._positions += 1
        self._in_text = False
        return position


def _data_of(redacted: str) -> tuple[str, str]:
    """The format and the data of an entry. Claude's data is the same with all its hosts, but here it is wrapped in
    base64 once more (fixture bedrock/redacted_reasoning)."""
    try:
        inner = base64.b64decode(redacted, validate=True)
    except (binascii.Error, ValueError):
        return CONVERSE_FORMAT, redacted
    return (CLAUDE_FORMAT, inner.decode("ascii")) if _CLAUDE_DATA.fullmatch(inner) else (CONVERSE_FORMAT, redacted)


def _add_citations(citations: list[dict[str, Any]], events: list[Event]) -> None:
    """Those of pages of the web: other sources have no form in OpenAI's format."""
    annotations: list[dict[str, Any]] = []
    for citation in citations:
        page = object_of(object_of(citation, "location") or {}, "web") or {}
        url = text_of(page, "url")
        if url:
            cited: dict[str, Any] = {"url": url, "title": text_of(citation, "title") or text_of(page, "domain") or url}
            annotations.append({"type": "url_citation", "url_citation": cited})
    if annotations:
        events.append(Extra(0, {"annotations": annotations}))


def _add_image(image: Mapping[str, Any], events: list[Event]) -> None:
    data = text_of(object_of(image, "source") or {}, "bytes")
    if data:
        url = f"data:image/{text_of(image, 'format') or 'png'};base64,{data}"
        events.append(Extra(0, {"images": [{"type": "image_url", "image_url": {"url": url}}]}))


def _arguments_of(input: Any) -> str:
    if isinstance(input, str):
        return input or "{}"
    return jsonio.encode(input).decode() if input else "{}"
