"""Folds the frames of the Messages API into a message, as the API itself would send it whole.

The events of a stream (`core.events`) are the same for every API and leave out what only one has: the order of blocks,
citations, blocks of the server's own tools. The message that a caller sends back in the next request needs all of it.
Whatever a frame contains, nothing is raised: the decoder of the events decides what is an error.
"""

from typing import Any

from streamweir.providers.anthropic.frame import StreamEvent, decode_stream_event
from streamweir.providers.members import object_of
from streamweir.wire import jsonio
from streamweir.wire.messages import DELTAS, read_input
from streamweir.wire.sse import Frame

_ARGUMENTS = "partial_json"
_REPLACED = ("signature",)
"""Members of a block that a delta replaces. All others grow."""


class MessageFold:
    """Feed it every frame of one stream, or `read` one body."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[tuple[int, str], list[str]] = {}  # of each member that grows

    @property
    def has_stop_reason(self) -> bool:
        return bool(self._message.get("stop_reason"))

    def feed(self, frame: Frame, /) -> None:
        if frame.data is None:
            return
        try:
            event = decode_stream_event(frame.data)
        except jsonio.InvalidJson:
            return
        if event.type == "content_block_delta":
            self._add(event, frame.data)
        elif event.type == "content_block_start" and event.content_block is not None:
            self._blocks.setdefault(event.index, dict(event.content_block))
        elif event.type == "message_start" and event.message is not None and not self._message:
            self.read(event.message)
        elif event.type == "message_delta":
            self._read_end(event)

    def read(self, message: dict[str, Any]) -> None:
        """A whole message, or its beginning."""
        self._message = {**message, "usage": dict(object_of(message, "usage") or {})}
        content = message.get("content")
        blocks = [dict(block) for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        self._blocks = dict(enumerate(blocks))

    def document(self) -> dict[str, Any]:
        """The message so far. It shares nothing with later ones."""
        content = [self._block(index, block) for index, block in sorted(self._blocks.items())]
        return {**self._message, "content": content, "usage": dict(self._message.get("usage", {}))}

    def _add(self, event: StreamEvent, data: bytes) -> None:
        delta, block = event.delta, self._blocks.get(event.index)
        if delta is None or block is None or delta.type not in DELTAS:
            return
        member = DELTAS[delta.type].member
        if member == "citation":
            citation = (jsonio.decode(data).get("delta") or {}).get(member)
            block["citations"] = [*(block.get("citations") or ()), citation]
            return
        piece = getattr(delta, member)
        if piece is None:
            return
        pieces = self._pieces.setdefault((event.index, member), [])
        if member in _REPLACED:
            pieces.clear()
        pieces.append(piece)

    def _block(self, index: int, block: dict[str, Any]) -> dict[str, Any]:
        made = dict(block)
        for member in ("text", "thinking", "signature", _ARGUMENTS):
            pieces = self._pieces.get((index, member))
            if not pieces:
                continue
            text = "".join(pieces)
            self._pieces[index, member] = [text]
            if member == _ARGUMENTS:
                made["input"] = read_input(text)
            else:
                made[member] = text if member in _REPLACED else f"{block.get(member) or ''}{text}"
        return made

    def _read_end(self, event: StreamEvent) -> None:
        if event.delta is not None and event.delta.stop_reason:
            self._message["stop_reason"] = event.delta.stop_reason
            self._message["stop_sequence"] = event.delta.stop_sequence
        self._message["usage"] = {**self._message.get("usage", {}), **(event.usage or {})}
