"""Writes the messages of OTLP as protobuf, and reads its answers.

Only what OTLP needs: numbers, texts and messages in messages, as bytes. It is written by hand because it is done for
every request: the generated classes of the official package take four times as long
(docs/decisions/0044-spans-are-written-from-the-record.md). The tests read the result with that package.
"""

import struct
from collections.abc import Iterator

SMALL = 4096
"""Smaller numbers have a place in `VARINTS`, of one or two bytes."""
_ONE_BYTE = 128
_MAX_KEPT = 256
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


VARINTS = tuple(map(_varint, range(SMALL)))


def varint(number: int) -> bytes:
    return VARINTS[number] if number < SMALL else _varint(number)


def tag(number: int, wire: int = _BYTES) -> bytes:
    return _varint(number << 3 | wire)


def message(field: bytes, content: bytes) -> bytes:
    """A message, a text or bytes. `field`: its tag."""
    size = len(content)
    return field + (VARINTS[size] if size < SMALL else _varint(size)) + content


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

    __slots__ = ("_heads", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._heads: dict[int, bytes] = {}
        """All that is before the text, by its length."""

    def encode(self, content: str) -> bytes:
        data = content.encode("utf-8", "replace")
        return (self._heads.get(len(data)) or self._head(len(data))) + data

    def _head(self, size: int) -> bytes:
        head = attribute(self._name, " " * size)[:-size] if size else attribute(self._name, "")
        if size < _MAX_KEPT:
            self._heads[size] = head
        return head


class IntField:
    """An attribute with a number, not negative, that is another one in each request."""

    __slots__ = ("_name", "_one", "_two")

    def __init__(self, name: str) -> None:
        self._name = name
        self._one, self._two = attribute(name, 1)[:-1], attribute(name, SMALL - 1)[:-2]

    def encode(self, number: int) -> bytes:
        if number < _ONE_BYTE:
            return self._one + VARINTS[number]
        return self._two + VARINTS[number] if number < SMALL else attribute(self._name, number)


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
