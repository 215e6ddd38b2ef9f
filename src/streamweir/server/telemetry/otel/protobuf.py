"""Writes the messages of OTLP as protobuf, and reads its answers.

Only what OTLP needs: numbers, texts and messages in messages, as bytes. It is written by hand because it is done for
every request: the generated classes of the official package take four times as long
(docs/decisions/0043-spans-are-written-from-the-record.md). The tests read the result with that package. An attribute
that repeats is encoded once and cached.
"""

import struct
from collections.abc import Iterator
from functools import lru_cache

_SMALL = 4096
_MAX_INT64 = 2**63 - 1
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
double = struct.Struct("<d").pack
fixed64 = struct.Struct("<Q").pack


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_VARINTS = tuple(map(_varint, range(_SMALL)))


def varint(number: int) -> bytes:
    return _VARINTS[number] if number < _SMALL else _varint(number)


def tag(number: int, wire: int = _BYTES) -> bytes:
    return _varint(number << 3 | wire)


def message(field: bytes, content: bytes) -> bytes:
    """A message, a text or bytes. `field`: its tag."""
    return field + varint(len(content)) + content


def text(field: bytes, content: str) -> bytes:
    return message(field, content.encode("utf-8", "replace"))


_KEY, _VALUE, _STRING, _BOOL, _INT, _DOUBLE, _ARRAY = (
    tag(1),
    tag(2),
    tag(1),
    tag(2, _VARINT),
    tag(3, _VARINT),
    tag(4, _FIXED64),
    tag(5),
)
ATTRIBUTES = tag(9)
"""The field of attributes in a span, and in a point of a metric."""

Value = str | bool | int | float | tuple[str, ...]


def attribute(name: str, value: Value, field: bytes = ATTRIBUTES) -> bytes:
    return message(field, text(_KEY, name) + message(_VALUE, _any(value)))


cached_attribute = lru_cache(maxsize=1024)(attribute)
"""For values that repeat: names of the configuration, codes."""


def _any(value: Value) -> bytes:
    if isinstance(value, str):
        return text(_STRING, value)
    if isinstance(value, bool):
        return _BOOL + varint(value)
    if isinstance(value, int):
        return _INT + varint(value & 0xFFFF_FFFF_FFFF_FFFF)
    if isinstance(value, float):
        return _DOUBLE + double(value)
    return message(_ARRAY, b"".join([message(_STRING, text(_STRING, each)) for each in value]))


class TextField:
    """An attribute with a text that is another one in each request."""

    __slots__ = ("_key",)

    def __init__(self, name: str) -> None:
        self._key = text(_KEY, name)

    def encode(self, content: str) -> bytes:
        return message(ATTRIBUTES, self._key + message(_VALUE, text(_STRING, content)))


class IntField:
    """An attribute with a number, not negative, that is another one in each request."""

    __slots__ = ("_heads",)

    def __init__(self, name: str) -> None:
        key = text(_KEY, name)
        self._heads = [message(ATTRIBUTES, key + message(_VALUE, _INT + bytes(size)))[:-size] for size in range(1, 11)]

    def encode(self, number: int) -> bytes:
        data = varint(number)
        return self._heads[len(data) - 1] + data


def fits_int64(number: int) -> bool:
    return -_MAX_INT64 <= number <= _MAX_INT64


class Malformed(Exception):
    """Not a protobuf message."""


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: numbers, and bytes for everything with a length. Raises `Malformed`."""
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        wire = key & 7
        if wire == _VARINT:
            value, at = _read_varint(data, at)
            yield key >> 3, value
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(wire)
        if wire == _BYTES:
            size, at = _read_varint(data, at)
        if size is None or at + size > len(data):
            raise Malformed
        yield key >> 3, data[at : at + size]
        at += size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise Malformed
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise Malformed
