"""Reasoning of one family of models, carried through the API of another and back.

An API has one opaque member per block of reasoning, for the signature of its own models. The gateway uses it for the
data that other models need back (their entries of `reasoning_details`) and for text that the caller does not want to
see, in an envelope: `sw1.` and the base64url of deflated JSON. A block without such data has an envelope too, so that
it is recognised later and never sent to a provider as one of the provider's signatures. Envelopes are not trusted: a
provider checks its own signatures, and an envelope that cannot be read is ignored.
"""

import base64
import binascii
import zlib
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from streamweir.core.completion import entry_key
from streamweir.wire import jsonio

MARK = "sw1."
MAX_PACKED = 256 * 1024
"""Bytes of an envelope before compression. If it would have more, the text is left out."""
MAX_UNPACKED = 8 * 1024 * 1024
"""Bytes of all envelopes of a request, unpacked."""
MAX_VALUES = 30_000
"""Values in the objects and lists of all envelopes of a request: those of thousands of blocks. A few kilobytes could
unpack to millions, which are parsed and checked on the event loop."""
_QUOTES_PER_VALUE = 8
_TEXT_MEMBERS = {"reasoning.text": "text", "reasoning.summary": "summary"}


class Carried(Struct):
    model: str | None
    """The model that wrote it, by the upstream's name."""
    entries: list[dict[str, Any]]
    """Entries of `reasoning_details`."""
    text: str
    """Text that was not shown to the caller."""


def carry(model: str | None, entries: Sequence[dict[str, Any]], text: str = "") -> str:
    document: dict[str, Any] = {}
    if model and (entries or text):
        document["m"] = model
    if entries:
        document["e"] = [_without_text(entry) for entry in entries]
    data = jsonio.encode({**document, "x": text}) if text else jsonio.encode(document)
    if len(data) > MAX_PACKED and text:
        data = jsonio.encode(document)
    if len(data) > MAX_UNPACKED:
        data = b"{}"  # it could not be opened again
    # Entries are encrypted and hardly compressible. Compressing megabytes of them would block the event loop.
    level = 0 if len(data) > MAX_PACKED else -1
    return MARK + base64.urlsafe_b64encode(zlib.compress(data, level)).decode().rstrip("=")


def add_piece(entry: dict[str, Any], entries: list[dict[str, Any]]) -> None:
    """Joins a piece of an entry to the one before, as `core.completion.merge_details` does, at once and without text.

    Some upstreams send a piece with every token, and all of them would have to be joined in one step at the end.
    """
    piece = {name: value for name, value in entry.items() if name not in ("text", "summary")}
    if entries and entry_key(piece) == entry_key(last := entries[-1]):
        last.update((name, value) for name, value in piece.items() if value is not None or name not in last)
    else:
        entries.append(piece)


def is_carried(value: object) -> bool:
    return isinstance(value, str) and value.startswith(MARK)


class CarriedReader:
    """Opens the envelopes of one request. A few bytes can unpack to very many, so their total size is bounded, and so
    is the number of values."""

    def __init__(self, max_bytes: int = MAX_UNPACKED, max_values: int = MAX_VALUES) -> None:
        self.unpacked_bytes = 0
        self._left = max_bytes
        self._values_left = max_values

    def open(self, value: str, shown: str = "") -> Carried:
        """`shown`: the text of the block. It is put back into the entry that had it."""
        document = self._unpack(value[len(MARK) :])
        model, entries, text = document.get("m"), document.get("e"), document.get("x")
        carried = Carried(
            model=model if isinstance(model, str) else None,
            entries=[entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else [],
            text=text if isinstance(text, str) else "",
        )
        whole = shown or carried.text
        for place, entry in enumerate(carried.entries):
            member = _TEXT_MEMBERS.get(str(entry.get("type")))
            if member is not None and whole:
                carried.entries[place] = {**entry, member: whole}
                break
        return carried

    def _unpack(self, text: str) -> dict[str, Any]:
        """Empty if it cannot be read, or is too large."""
        if self._left <= 0 or self._values_left < 0:
            return {}
        try:
            packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            unpacking = zlib.decompressobj()
            data = unpacking.decompress(packed, self._left)
            self._left -= len(data)
            self.unpacked_bytes += len(data)
            self._values_left -= _values_in(data, self._values_left)
            document = jsonio.decode(data) if unpacking.eof and self._values_left >= 0 else None
        except (binascii.Error, zlib.error, ValueError):
            return {}
        if not isinstance(document, dict) or (b"\\u" in data and jsonio.has_lone_surrogate(document)):
            return {}  # a body with half of a surrogate pair is refused, so an envelope must not contain one either
        return document


def _values_in(data: bytes, limit: int) -> int:
    """About how many values a JSON document has in its objects and lists; more than `limit` is any number above it."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    if data.count(b'"') > _QUOTES_PER_VALUE * limit:
        return limit + 1
    outside = b"".join(data.split(b'"')[::2])  # every second piece between quotes
    return len(outside) - len(outside.translate(None, b",[{"))


def _without_text(entry: dict[str, Any]) -> dict[str, Any]:
    member = _TEXT_MEMBERS.get(str(entry.get("type")))
    return {name: value for name, value in entry.items() if name != member}
