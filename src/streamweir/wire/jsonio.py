"""The one JSON codec.

Speed is msgspec's. It refuses a lone surrogate (`"\\ud83d"`, an emoji cut in two by an
upstream) that every client accepts, in both directions; the standard json module takes
over for that one document. A number that no float can hold (`NaN`, `1e400`) is read as null.
Whatever cannot be read raises `InvalidJson`, and nothing else; what could be read can be
written again inside a few more levels, which is what the limit of depth is for.
"""

import json
from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from math import isfinite
from typing import Any, TypeVar

import msgspec

from streamweir.core.errors import CallerError

T = TypeVar("T")

MAX_BODY_DEPTH = 64
MAX_KEYS = 10_000
"""In one object of a caller's body."""
MAX_ELEMENTS = 200_000
"""Of a caller's body: values in all its objects and lists. Thousands of messages with calls and tools have a tenth."""
_MAX_BRACKETS_AND_QUOTES = 100_000
"""Brackets and quotes of a document that is read without a pause: some ten milliseconds."""
MAX_DOCUMENT_DEPTH = 500
"""Half of what the interpreter's stack allows: the rest is for the callers, and for what we wrap around it."""
FAST_BYTES = 64 * 1024
"""A document of so many bytes is read quickly, whatever is in it."""
_MIN_DEEP_BYTES = 2 * MAX_DOCUMENT_DEPTH  # a level is two brackets: what is shorter need not be looked at

_MAX_PATH_LENGTH = 128
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""Brackets as signed bytes: one level down, or one up."""
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


class InvalidJson(ValueError):
    """The bytes are not one JSON document in UTF-8, or not of the type asked for."""


def encode(value: Any) -> bytes:
    """Compact, raw UTF-8, on one line."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        # Only a lone surrogate gets here. It has no UTF-8 form; its escape is the same character.
        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace")


def to_members(value: Any) -> dict[str, Any]:
    """A Struct as the object that `encode` would write."""
    members: dict[str, Any] = msgspec.to_builtins(value)
    return members


def is_dense(data: bytes) -> bool:
    """Whether a document holds so many small things that it takes long for its size."""
    if len(data) <= FAST_BYTES:
        return False
    return data.count(b"{") + data.count(b"[") + data.count(b'"') - data.count(b'\\"') > _MAX_BRACKETS_AND_QUOTES


def decode(data: bytes) -> Any:
    """One document, of any type."""
    try:
        if len(data) > _MIN_DEEP_BYTES and _is_deeper(data, MAX_DOCUMENT_DEPTH):
            raise InvalidJson("nested too deep")
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_slowly(data)


def typed(model: type[T], from_any: Callable[[Any], T]) -> Callable[[bytes], T]:
    """A decode function for a Struct that reads what providers really send.

    A document that msgspec cannot read as `model` (a lone surrogate, a string where a number
    belongs) is read without types and handed to `from_any`, which takes what is usable.
    """
    decode_fast = msgspec.json.Decoder(model).decode

    def decode_typed(data: bytes) -> T:
        try:
            if not data.isascii():
                data.decode()  # msgspec does not look into members that it skips
            if len(data) > _MIN_DEEP_BYTES and _is_deeper(data, MAX_DOCUMENT_DEPTH):
                raise InvalidJson("nested too deep")
            return decode_fast(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return from_any(_decode_slowly(data))

    return decode_typed


def decode_body(data: bytes) -> dict[str, Any]:
    """A caller's request body: one JSON object, no key twice, no deeper than `MAX_BODY_DEPTH`, no more than `MAX_KEYS`
    in an object and `MAX_ELEMENTS` in all.

    Two readers of a body with a repeated key may each believe another value; which model is
    called and which is paid for must not depend on that, so it is refused. msgspec keeps the last
    of them without a word: its reading is taken where it has as many keys as were sent. It reads in one
    go, which no other thread can interrupt: a body of many small things is read object by object.
    """
    if (
        data.count(b"{") + data.count(b"[") + data.count(b'"') > _MAX_BRACKETS_AND_QUOTES
        or data.count(b",") > _MAX_BRACKETS_AND_QUOTES
    ):
        return _decode_body_slowly(data)
    try:
        value = _decoder.decode(data)
        if type(value) is dict and _count_keys(value, MAX_BODY_DEPTH) == _count_colons(data):
            return value
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    return _decode_body_slowly(data)


def _count_colons(data: bytes) -> int:
    """Of a valid document, outside of its strings: there is one behind each key."""
    return _outside_strings(data).count(b":")


def _has_more_elements(data: bytes, limit: int) -> bool:
    """Of a valid document. Each but the first of a list or an object has a comma before it."""
    if data.count(b'"') - data.count(b'\\"') > 4 * limit:  # two quotes for a value, and two for its key
        return True
    outside = _outside_strings(data)
    return outside.count(b",") + outside.count(b"{") + outside.count(b"[") > limit


def _outside_strings(data: bytes) -> bytes:
    """A valid document without its strings. Of another one it is anything, which the parser then refuses."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(data.split(b'"')[::2])


def _count_keys(value: dict[str, Any] | list[Any], levels: int) -> int:
    """In it and in all that is inside of it. Raises where that is too deep, or too many of them in one place."""
    count = len(value) if type(value) is dict else 0
    if count > MAX_KEYS or not levels:
        raise RecursionError
    for inner in value.values() if type(value) is dict else value:
        if type(inner) is dict or type(inner) is list:
            count += _count_keys(inner, levels - 1)
    return count


def _decode_body_slowly(data: bytes) -> dict[str, Any]:
    """As `decode_body`, object by object; it knows what is wrong."""
    if _is_deeper(data, MAX_BODY_DEPTH):
        raise CallerError("json_too_deep", f"The request body is nested deeper than {MAX_BODY_DEPTH} levels.")
    if _has_more_elements(data, MAX_ELEMENTS):
        raise CallerError("invalid_value", f"The request body has more than {MAX_ELEMENTS} values.")
    duplicates: list[_DuplicateKey] = []

    def reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any] | _DuplicateKey:
        if len(pairs) > MAX_KEYS:
            raise CallerError("invalid_value", f"An object in the request body has more than {MAX_KEYS} keys.")
        members = dict(pairs)
        if len(members) == len(pairs):
            return members
        duplicates.append(_DuplicateKey(Counter(name for name, _ in pairs).most_common(1)[0][0]))
        return duplicates[-1]

    try:
        value = json.loads(
            data.decode(),
            object_pairs_hook=reject_duplicates,
            parse_constant=_reject_constant,
            parse_float=_parse_finite,
        )
    except (ValueError, RecursionError) as reason:
        raise CallerError("invalid_json", "The request body is not valid JSON.") from reason
    if duplicates:
        _refuse_repeated_keys(value, "")
    if not isinstance(value, dict):
        raise CallerError("invalid_json", "The request body must be a JSON object.")
    if b"\\ud" in data or b"\\uD" in data:
        _refuse_lone_surrogates(value)
    return value


def _decode_slowly(data: bytes) -> Any:
    try:
        return json.loads(data.decode(), parse_constant=_null, parse_float=_float_or_null)
    except (ValueError, RecursionError) as reason:
        raise InvalidJson("not valid JSON") from reason


def _is_deeper(data: bytes, limit: int) -> bool:
    """Counts brackets outside strings, before any parser sees them."""
    if data.count(b"[") + data.count(b"{") <= limit:
        return False
    steps = _outside_strings(data).translate(_STEPS, _NO_BRACKETS)
    return max(accumulate(memoryview(steps).cast("b")), default=0) > limit


def _null(_name: str) -> None:
    return None


def _float_or_null(text: str) -> float | None:
    value = float(text)
    return value if isfinite(value) else None


class _DuplicateKey:
    """Stands for an object in which a key stands twice."""

    def __init__(self, name: str) -> None:
        self.name = name


def _refuse_repeated_keys(value: Any, path: str) -> None:
    """Names the first by its path. Objects inside of one that repeats a key are gone with it."""
    if isinstance(value, _DuplicateKey):
        where = f"{path}.{value.name}".lstrip(".")[:_MAX_PATH_LENGTH]
        raise CallerError("duplicate_key", f"The key '{where}' occurs twice in one object.", param=where)
    if isinstance(value, dict):
        for name, member in value.items():
            _refuse_repeated_keys(member, f"{path}.{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _refuse_repeated_keys(item, f"{path}[{index}]")


def _reject_constant(name: str) -> Any:
    raise ValueError(name)


def _parse_finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError("out of range")
    return value


def _refuse_lone_surrogates(value: Any) -> None:
    try:
        _encoder.encode(value)
    except UnicodeEncodeError as reason:
        raise CallerError("invalid_json", "The request body has half of a surrogate pair.") from reason
