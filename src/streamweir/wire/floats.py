"""Vectors as packed 32-bit floats, little-endian: the form that base64 carries."""

import struct
from collections.abc import Sequence


def pack(numbers: Sequence[float]) -> bytes:
    """Raises `OverflowError` for a number that does not fit."""
    return struct.pack(f"<{len(numbers)}f", *numbers)


def unpack(packed: bytes) -> tuple[float, ...]:
    """The length must be a multiple of four."""
    return struct.unpack(f"<{len(packed) // 4}f", packed)
