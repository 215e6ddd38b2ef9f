"""Server-sent events, read the plain way: the whole body at once, no state, no limits.

Blocks stand between blank lines; the lines `data:` of a block are joined, unless only each line
for itself is a document (a recording that lost its blank lines). A block without data keeps its
text, for a failure may stand there.
"""

import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from support.expected import Ending

DONE = object()
UNREADABLE = "not UTF-8"
"""The data of a block that is no text: no JSON either."""


@dataclass
class Block:
    text: str
    data: str | None
    terminated: bool

    @property
    def is_half(self) -> bool:
        """The body ended within this block, and not within a mere comment."""
        return not self.terminated and any(not line.startswith(":") for line in self.text.strip("\n").split("\n"))


def blocks_of(body: bytes) -> list[Block]:
    text = body.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    *ended, rest = text.split(b"\n\n")
    blocks = [_block(piece, True) for piece in ended if piece.strip(b"\n")]
    if rest.strip(b"\n"):
        blocks.append(_block(rest, False))
    return [part for block in blocks for part in _parted(block)]


def documents_of(body: bytes) -> Iterator[tuple[Any, Ending | None]]:
    """Each document of the body, `DONE` for the sentinel; or how the stream ended, if a block shows that."""
    for block in blocks_of(body):
        if block.data is None:
            if failure_in(block):
                yield None, "error"
            elif block.is_half:
                yield None, "truncated"
        elif block.data.strip() == "[DONE]":
            yield DONE, None
        elif _is_json(block.data):
            yield json.loads(block.data), None
        else:
            yield None, "error" if block.terminated else "truncated"


def failure_in(block: Block) -> bool:
    """Whether a block without data reports a failure: `error: ...`, or a bare JSON document with `error`."""
    text = block.text.strip()
    if text.startswith("error:"):
        return True
    try:
        return is_failure(json.loads(text))
    except ValueError:
        return False


def is_failure(document: Any) -> bool:
    if isinstance(document, list):
        return any(is_failure(item) for item in document)
    return isinstance(document, dict) and bool(document.get("error"))


def _block(raw: bytes, terminated: bool) -> Block:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return Block("", UNREADABLE, terminated)
    data = [line[5:].removeprefix(" ") for line in text.split("\n") if line.startswith("data:")]
    return Block(text, "\n".join(data) if data else None, terminated)


def _parted(block: Block) -> list[Block]:
    lines = (block.data or "").split("\n")
    if len(lines) < 2 or _is_json(block.data or "") or not all(_is_json(line) or line == "[DONE]" for line in lines):
        return [block]
    return [Block(block.text, line, block.terminated) for line in lines]


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
