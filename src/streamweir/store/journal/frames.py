"""The frames of the journal: entries to bytes and back. Pure.

    length, u32 little endian | CRC-32 over length and payload, u32 | payload: MessagePack of an entry

A frame is believed only whole: the first that is cut off or does not match its sum ends the
reading, for where the next one begins is then unknown, and what lies behind it is counted. A frame
that is whole but tells of something this program does not know (a newer one wrote it) is handed
out as it is. It knows neither files nor threads.
"""

from struct import Struct as Layout
from typing import NamedTuple
from zlib import crc32

import msgspec

from streamweir.store.journal.entries import Entry

MOST_FRAME_BYTES = 16 << 20
"""Of a payload. Far beyond any entry: more is not a length."""

_HEAD = Layout("<II")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Entry).decode


class ReadFrames(NamedTuple):
    entries: list[Entry]
    unknown: list[bytes]
    """Payloads that are whole and not understood."""
    dropped_bytes: int
    """Behind the last whole frame."""


def encode_frame(entry: Entry) -> bytes:
    """Raises ValueError or OverflowError where an entry is too large or holds what no database takes."""
    payload = _encode(entry)
    length = len(payload)
    if length > MOST_FRAME_BYTES:
        raise ValueError(f"an entry of {length} bytes: at most {MOST_FRAME_BYTES}")
    return _HEAD.pack(length, crc32(payload, length)) + payload


def read_frames(data: bytes) -> ReadFrames:
    """What a segment holds, up to its end or to the first frame that is not whole."""
    entries: list[Entry] = []
    unknown: list[bytes] = []
    place, size = 0, len(data)
    while size - place >= _HEAD.size:
        length, total = _HEAD.unpack_from(data, place)
        start, end = place + _HEAD.size, place + _HEAD.size + length
        # A length of zero would match a tail of zeros, which is what a power failure leaves.
        if not 0 < length <= MOST_FRAME_BYTES or end > size:
            break
        payload = data[start:end]
        if crc32(payload, length) != total:
            break
        try:
            entries.append(_decode(payload))
        except msgspec.MsgspecError:
            unknown.append(payload)
        place = end
    return ReadFrames(entries, unknown, size - place)
