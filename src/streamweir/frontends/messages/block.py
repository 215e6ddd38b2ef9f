"""Events to content blocks: which blocks are open, their indexes, and how each ends.

It returns the documents of `content_block_start`, `content_block_delta` and `content_block_stop`. A stream writes them
as frames and a whole body folds them, so both have the same content. One block is open at a time, except that a call
with incomplete arguments stays open while others begin. Indexes have no gaps. A block is opened by its first content. A
block of reasoning ends with one signature: that of Anthropic's models unchanged, else an envelope
(`frontends.carried`).
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from streamweir.core.completion import join_text, reasoning_index
from streamweir.frontends.base import Reply
from streamweir.frontends.carried import add_piece, carry
from streamweir.frontends.identifier import ALNUM, digest_text
from streamweir.wire import jsonio
from streamweir.wire.jsonio import FAST_BYTES
from streamweir.wire.messages import DELTAS, REASONING_FORMAT

Document = dict[str, Any]
NO_INDEX = -1


class _Thinking(Struct):
    index: int
    source_index: object = None
    pieces: list[str] = field(default_factory=list)
    details: list[dict[str, Any]] = field(default_factory=list)


class _Call(Struct):
    index: int
    arguments: list[str] = field(default_factory=list)
    size: int = 0
    """The length of the arguments, in characters."""
    custom: bool = False
    """Its input is any text: it is written as the member `input` of an object, and ends with the answer."""


class Blocks:
    def __init__(self, reply: Reply) -> None:
        self.text_index = NO_INDEX
        """The index of the open text block."""
        self.has_calls = False
        self._answer_id = reply.id
        self._model = reply.target_model
        self._own_names = reply.tool_names or {}
        self._hides_reasoning = reply.hides_reasoning
        self._next = 0
        self._thinking: _Thinking | None = None
        self._calls: dict[int, _Call] = {}  # the open calls, by their ordinal
        self._newest = NO_INDEX  # the ordinal of the last call, until something follows it
        self._ids: set[str] = set()

    def text(self, text: str) -> list[Document]:
        if not text:
            return []
        documents: list[Document] = []
        if self.text_index == NO_INDEX:
            documents = self._end_open_block()
            self.text_index = self._take_index()
            documents.append(_start(self.text_index, {"type": "text", "text": ""}))
        documents.append(_delta(self.text_index, "text_delta", text))
        return documents

    def reasoning(self, text: str, details: Sequence[dict[str, Any]]) -> list[Document]:
        if not text and details and all(entry.get("type") == "reasoning.encrypted" for entry in details):
            return self._redacted(details)
        if not text and not details:
            return []
        documents: list[Document] = []
        thinking, index = self._thinking, reasoning_index(details)
        if thinking is not None and None not in (thinking.source_index, index) and thinking.source_index != index:
            thinking = None
        if thinking is None:
            documents = self._end_open_block()
            thinking = self._thinking = _Thinking(NO_INDEX if self._hides_reasoning else self._take_index())
            if not self._hides_reasoning:
                documents.append(_start(thinking.index, _empty_thinking()))
        if index is not None:
            thinking.source_index = index
        for entry in details:
            add_piece(entry, thinking.details)
        if text:
            if self._hides_reasoning:
                thinking.pieces.append(text)
            else:
                documents.append(_delta(thinking.index, "thinking_delta", text))
        return documents

    def call(self, ordinal: int, id: str | None, name: str, custom: bool = False) -> list[Document]:
        documents = self._end_open_block()
        if not id or id in self._ids:
            id = _call_id(self._answer_id, ordinal)
        self._ids.add(id)
        self.has_calls = True
        self._newest = ordinal
        call = self._calls[ordinal] = _Call(self._take_index(), custom=custom)
        documents.append(
            _start(call.index, {"type": "tool_use", "id": id, "name": self._own_names.get(name, name), "input": {}})
        )
        if custom:
            documents.append(_delta(call.index, "input_json_delta", '{"input":"'))
        return documents

    def arguments(self, ordinal: int, arguments: str) -> list[Document]:
        call = self._calls.get(ordinal)
        if call is None or not arguments:  # after complete arguments only white space can follow, or they are invalid
            return []
        if call.custom:
            return [_delta(call.index, "input_json_delta", jsonio.encode(arguments)[1:-1].decode())]
        call.arguments.append(arguments)
        call.size += len(arguments)
        return [_delta(call.index, "input_json_delta", arguments)]

    def close(self) -> list[Document]:
        """The answer ends. An answer without any block gets an empty text: clients read the first block."""
        documents = self._end_open_block()
        for call in self._calls.values():  # in the order of their indexes
            if call.custom:
                documents.append(_delta(call.index, "input_json_delta", '"}'))
            documents.append(_stop(call.index))
        self._calls.clear()
        if not self._next:
            index = self._take_index()
            documents += [_start(index, {"type": "text", "text": ""}), _stop(index)]
        return documents

    def _end_open_block(self) -> list[Document]:
        """Ends the open block, because another one begins. A call is checked once: when something follows it."""
        if self.text_index != NO_INDEX:
            index, self.text_index = self.text_index, NO_INDEX
            return [_stop(index)]
        if self._thinking is not None:
            thinking, self._thinking = self._thinking, None
            return self._end_thinking(thinking)
        newest, self._newest = self._newest, NO_INDEX
        call = self._calls.get(newest)
        if call is None or call.custom or call.size > FAST_BYTES or not _is_whole(join_text(call.arguments)):
            return []  # very large arguments are not parsed here: the call stays open to the end
        del self._calls[newest]
        return [_stop(call.index)]

    def _end_thinking(self, thinking: _Thinking) -> list[Document]:
        entries = thinking.details
        signature = next((_signature_in(entry) for entry in entries if _signature_in(entry)), None)
        if signature is None:
            signature = carry(self._model, entries, join_text(thinking.pieces))
        documents: list[Document] = []
        if thinking.index == NO_INDEX:
            thinking.index = self._take_index()
            documents.append(_start(thinking.index, _empty_thinking()))
        documents.append(_delta(thinking.index, "signature_delta", signature))
        documents.append(_stop(thinking.index))
        return documents

    def _redacted(self, details: Sequence[dict[str, Any]]) -> list[Document]:
        """Entries without a text. Those of other families are added to the open reasoning, if there is one."""
        own = [entry["data"] for entry in details if _is_own(entry) and isinstance(entry.get("data"), str)]
        others = [entry for entry in details if not _is_own(entry)]
        if not own and self._thinking is not None:
            for entry in others:
                add_piece(entry, self._thinking.details)
            return []
        documents = self._end_open_block()
        for data in [*own, *([carry(self._model, others)] if others else [])]:
            index = self._take_index()
            documents += [_start(index, {"type": "redacted_thinking", "data": data}), _stop(index)]
        return documents

    def _take_index(self) -> int:
        index = self._next
        self._next += 1
        return index


def _start(index: int, block: Document) -> Document:
    return {"type": "content_block_start", "index": index, "content_block": block}


def _delta(index: int, kind: str, value: str) -> Document:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, DELTAS[kind].member: value}}


def _stop(index: int) -> Document:
    return {"type": "content_block_stop", "index": index}


def _empty_thinking() -> Document:
    return {"type": "thinking", "thinking": "", "signature": ""}


def _is_own(entry: dict[str, Any]) -> bool:
    return entry.get("format") == REASONING_FORMAT


def _signature_in(entry: dict[str, Any]) -> str | None:
    signature = entry.get("signature")
    return signature if _is_own(entry) and isinstance(signature, str) and signature else None


def _call_id(answer_id: str, ordinal: int) -> str:
    """The id for a call without one, or with a duplicate one: always the same for the same call."""
    return "toolu_" + digest_text(hashlib.sha256(f"{answer_id}/{ordinal}".encode()).digest(), ALNUM, 24)


def _is_whole(arguments: str) -> bool:
    try:
        return isinstance(jsonio.decode(arguments.encode("utf-8", "surrogatepass")), dict)
    except jsonio.InvalidJson:
        return False
