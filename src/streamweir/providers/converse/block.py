"""The content blocks of one Converse message (`providers.blocks`).

Only a call has a start: the first delta of another block says what it is. Tools that the service runs itself, and their
results, are not part of the answer.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from streamweir.core.events import Event, Extra, ReasoningDelta, ToolCallDelta
from streamweir.providers.blocks import NO_INDEX, Block, Blocks, CallBlock, OtherBlock, ReasoningBlock, TextBlock
from streamweir.providers.converse.frame import Delta, ReasoningPiece, read_reasoning
from streamweir.providers.converse.model import CONVERSE_FORMAT
from streamweir.providers.members import object_of, objects_in, text_of
from streamweir.wire.messages import REASONING_FORMAT as CLAUDE_FORMAT

_CLAUDE_DATA = re.compile(rb"E[g-v][A-Za-z0-9+/]+={0,2}")
"""How Anthropic's encrypted reasoning begins: base64 of a message whose first field has the number 2."""
_SERVER_TOOL = "server_tool_use"


class BlockTable(Blocks):
    __slots__ = ()

    def start(self, index: int, start: Mapping[str, Any], events: list[Event]) -> None:
        self.is_empty = False
        if index == NO_INDEX:
            index = self._last + 1
        self._last = index
        self.stop(index, events)
        tool = object_of(start, "toolUse")
        if tool is not None and tool.get("type") != _SERVER_TOOL:
            self._start_call(index, tool, "toolUseId", events)
        elif tool is not None or "toolResult" in start:
            self._open[index] = OtherBlock()

    def add(self, index: int, delta: Delta, events: list[Event]) -> None:
        self.is_empty = False
        if index == NO_INDEX:
            index = max(self._last, 0)
        self._last = index
        block = self._open.get(index)
        if isinstance(block, OtherBlock):
            return
        if delta.text is not None:
            self._add_text(index, block, delta.text, events)
        elif delta.reasoning_content is not None:
            self._add_reasoning(index, block, delta.reasoning_content, events)
        elif delta.tool_use is not None:
            if isinstance(block, CallBlock) and delta.tool_use.input:
                block.has_arguments = True
                events.append(ToolCallDelta(0, block.ordinal, delta.tool_use.input))
        elif delta.citation is not None:
            _add_citations([delta.citation], events)
        elif delta.image is not None:
            _add_image(delta.image, events)

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

    def _add_text(self, index: int, block: Block | None, text: str, events: list[Event]) -> None:
        if not text:
            return
        if not isinstance(block, TextBlock):
            self.stop(index, events)
            self._open[index] = TextBlock()
        self._send_text(index, text, events)

    def _add_reasoning(self, index: int, block: Block | None, piece: ReasoningPiece, events: list[Event]) -> None:
        if not (piece.text or piece.signature or piece.redacted_content):
            return
        if not isinstance(block, ReasoningBlock):
            self.stop(index, events)
            block = self._open[index] = ReasoningBlock(self._next_position())
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
