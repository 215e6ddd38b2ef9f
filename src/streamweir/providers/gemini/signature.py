"""Thought signatures: sent to callers as entries of `reasoning_details`, and sent back on the parts they came with.

A signature belongs to one part of an answer and must come back on that part. A message in OpenAI's format has no parts,
only one text and a list of calls, so the `id` of an entry says where it belongs: the id of a call; `call:0` for a call
without an id, by its ordinal; `text:5-9` for the piece of text between two offsets; `part` for a part that is not
represented at all (code that Google ran). Each entry has its own index, so that no client merges two of them.
"""

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

FORMAT = "google-gemini-v1"
UNCARRIED = "part"

SKIPS_VALIDATION = "skip_thought_signature_validator"
"""Documented by Google for a call that no Gemini model made, where a signature is required."""

_CALL = re.compile(r"call:(\d{1,6})")
_TEXT = re.compile(r"text:(\d{1,9})-(\d{1,9})")


def entry(signature: str, index: int, position: str) -> dict[str, Any]:
    return {"type": "reasoning.encrypted", "data": signature, "format": FORMAT, "id": position, "index": index}


def call_position(ordinal: int, id: str | None) -> str:
    return id or f"call:{ordinal}"


def text_position(start: int, end: int) -> str:
    return f"text:{start}-{end}"


class Signatures(Struct):
    """The signatures of one message, by the part that each belongs to."""

    calls: dict[int, str] = field(default_factory=dict)
    texts: list[tuple[int, int, str]] = field(default_factory=list)
    """Start and end of the piece of text, in the order of the text."""
    unplaced: list[int] = field(default_factory=list)
    """The numbers of entries that cannot be sent back here: another vendor's, or of a part that is not represented."""


def read_signatures(details: Sequence[dict[str, Any]], call_ids: Sequence[str], text_length: int) -> Signatures:
    """Entries as they were sent, or as another gateway writes them (the id of a call, or no position)."""
    found = Signatures()
    for number, detail in enumerate(details):
        data = detail.get("data")
        if not isinstance(data, str) or not data:
            if detail.get("signature"):
                found.unplaced.append(number)
        elif detail.get("format") != FORMAT or not _put(found, data, detail.get("id"), call_ids, text_length):
            found.unplaced.append(number)
    found.texts.sort(key=lambda piece: piece[:2])
    return found


def _put(found: Signatures, data: str, position: object, call_ids: Sequence[str], text_length: int) -> bool:
    if isinstance(position, str) and position:
        if position in call_ids:
            found.calls[call_ids.index(position)] = data
            return True
        text = _TEXT.fullmatch(position)
        if text:
            end = min(int(text[2]), text_length)
            found.texts.append((min(int(text[1]), end), end, data))
            return True
        call = _CALL.fullmatch(position)
        if call is None or int(call[1]) >= len(call_ids):
            return False
        found.calls[int(call[1])] = data
    elif call_ids and 0 not in found.calls:
        found.calls[0] = data
    else:
        found.texts.append((text_length, text_length, data))
    return True
