"""Folds the frames of the Responses API into a response, as the API itself would send it whole.

The events of a stream (`core.events`) are the same for every API and leave out what only one has: items with their ids,
their order, annotations, items of the server's own tools. The items that a caller sends back in the next request need
all of it. An item that is done replaces what was known of it, and the last frame replaces everything, unless it leaves
the items out. Whatever a frame contains, nothing is raised: the decoder of the events decides what is an error.
"""

from typing import Any

from streamweir.wire import jsonio
from streamweir.wire.responses import INPUTS, PARTS, TEXTS, Text
from streamweir.wire.sse import Frame

Document = dict[str, Any]

_ADDED = "response.output_item.added"
_DONE = "response.output_item.done"
_ANNOTATION = "response.output_text.annotation.added"
_ENDS = ("response.completed", "response.incomplete", "response.failed")


class _Item:
    """While it grows. Texts are kept in pieces, so that the work is linear."""

    def __init__(self, item: Document) -> None:
        self.document = item
        self.parts: dict[tuple[str, int], Document] = {}
        self.pieces: dict[tuple[str, int, str], list[str]] = {}
        self.annotations: dict[int, list[object]] = {}

    def add_part(self, name: str, index: int, part: Document) -> None:
        self.parts.setdefault((name, index), dict(part))

    def annotate(self, index: int, annotation: object) -> None:
        self.annotations.setdefault(index, []).append(annotation)

    def add_text(self, words: Text, index: int, piece: str) -> None:
        name = words.index.removesuffix("_index")
        self.parts.setdefault((name, index), {"type": words.part})
        self.pieces.setdefault((name, index, words.member), []).append(piece)

    def add_input(self, member: str, piece: str) -> None:
        self.pieces.setdefault(("", 0, member), []).append(piece)

    def shown(self) -> Document:
        """A copy, which does not change later."""
        made = dict(self.document)
        parts = {place: dict(part) for place, part in self.parts.items()}
        for (name, index, member), pieces in self.pieces.items():
            pieces[:] = ["".join(pieces)]
            holder = parts[name, index] if name else made
            before = holder.get(member)
            holder[member] = (before if isinstance(before, str) else "") + pieces[0]
        for index, annotations in self.annotations.items():
            if ("content", index) in parts:
                before = parts["content", index].get("annotations")
                parts["content", index]["annotations"] = [*(before if isinstance(before, list) else ()), *annotations]
        for name in sorted({name for name, _ in parts}):
            made[name] = [part for (owner, _), part in sorted(parts.items(), key=lambda pair: pair[0]) if owner == name]
        return made


class ResponseFold:
    """Feed it every frame of one stream, or `read` one body."""

    def __init__(self) -> None:
        self._response: Document = {}
        self._items: dict[int, _Item] = {}
        self._has_ended = False

    def feed(self, frame: Frame, /) -> None:
        if frame.data is None:
            return
        try:
            document = jsonio.decode(frame.data)
        except jsonio.InvalidJson:
            return
        kind = document.get("type") if isinstance(document, dict) else None
        if isinstance(kind, str) and not self._has_ended:
            self._read(kind, document)

    def read(self, response: Document) -> None:
        """A whole response."""
        self._response, self._has_ended = response, True

    def document(self) -> Document:
        """The response so far. It shares nothing that grows with later ones."""
        items = [item.shown() for _, item in sorted(self._items.items())]
        output = self._response.get("output")
        return {**self._response, "output": output if isinstance(output, list) and output else items}

    def _read(self, kind: str, document: Document) -> None:
        response = document.get("response")
        if isinstance(response, dict) and kind in _ENDS:
            self.read({**self._response, **response})
        elif isinstance(response, dict) and not self._response:
            self._response = response
        elif kind in (_ADDED, _DONE):
            self._read_item(kind, document)
        else:
            self._read_piece(kind, document)

    def _read_item(self, kind: str, document: Document) -> None:
        item, index = document.get("item"), _count(document, "output_index")
        if not isinstance(item, dict):
            return
        if index is None:  # quirk: an end without an index: the next one
            index = max(self._items, default=-1) + 1
        if kind == _DONE:
            self._items[index] = _Item(item)
        else:
            self._items.setdefault(index, _Item(item))

    def _read_piece(self, kind: str, document: Document) -> None:
        index = _count(document, "output_index")
        item = self._items.get(index) if index is not None else None
        stem, _, change = kind.rpartition(".")
        if item is None:
            return
        delta = document.get("delta")
        if stem in PARTS:
            name, part = PARTS[stem], document.get("part")
            if change == "added" and isinstance(part, dict):
                item.add_part(name.removesuffix("_index"), _count(document, name) or 0, part)
        elif kind == _ANNOTATION:
            item.annotate(_count(document, "content_index") or 0, document.get("annotation"))
        elif change != "delta" or not isinstance(delta, str):
            pass
        elif stem in INPUTS:
            item.add_input(INPUTS[stem].member, delta)
        elif stem in TEXTS:
            item.add_text(TEXTS[stem], _count(document, TEXTS[stem].index) or 0, delta)


def _count(document: Document, name: str) -> int | None:
    value = document.get(name)
    return value if type(value) is int else None
