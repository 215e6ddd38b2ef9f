"""The frames of the journal: entries to bytes and back. Pure.

    length, u32 little endian | CRC-32 over length and payload, u32 | payload: MessagePack of an entry

Reading stops at the first frame that is incomplete or does not match its checksum, because the start of the next one
is then unknown. The number of bytes behind it is reported. A complete frame with an entry that this version does not
know (a newer version wrote it) is returned as bytes. This module knows neither files nor threads.
"""

from struct import Struct as Layout
from typing import NamedTuple
from zlib import crc32

import msgspec

from streamweir.store.journal.entries import Entry

MAX_FRAME_BYTES = 16 << 20
"""The maximum size of a payload. Every entry is far smaller, so a larger length means damage."""

_HEAD = Layout("<II")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Entry).decode


class ReadFrames(NamedTuple):
    entries: list[Entry]
    unknown: list[bytes]
    """Payloads that are complete but cannot be decoded."""
    dropped_bytes: int
    """The number of bytes behind the last complete frame."""


def encode_frame(entry: Entry) -> bytes:
    """Raises ValueError or OverflowError if an entry is too large or has values that no database accepts."""
    payload = _encode(entry)
    length = len(payload)
    if length > MAX_FRAME_BYTES:
        raise ValueError(f"an entry of {length} bytes: at most {MAX_FRAME_BYTES}")
    return _HEAD.pack(length, crc32(payload, length)) + payload


def read_frames(data: bytes) -> ReadFrames:
    """Reads a segment up to its end, or up to the first frame that is not complete."""
    entries: list[Entry] = []
    unknown: list[bytes] = []
    offset, size = 0, len(data)
    while size - offset >= _HEAD.size:
        length, checksum = _HEAD.unpack_from(data, offset)
        start, end = offset + _HEAD.size, offset + _HEAD.size + length
        # A length of zero would match trailing zeros, which a power failure can leave.
        if not 0 < length <= MAX_FRAME_BYTES or end > size:
            break
        payload = data[start:end]
        if crc32(payload, length) != checksum:
            break
        try:
            entries.append(_decode(payload))
        except msgspec.MsgspecError:
            unknown.append(payload)
        offset = end
    return ReadFrames(entries, unknown, size - offset)
