"""The JSON codec of the whole project.

It uses msgspec, for speed. msgspec refuses a lone surrogate (`"\\ud83d"`, an emoji that an upstream split), which
every client accepts, in both directions; the standard json module is used for such a document. A number outside the
range of a float (`NaN`, `1e400`) is read as null. An invalid document raises `InvalidJson`, and nothing else. A
document that was read can be written again inside a few more levels: the depth limit ensures that.
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
"""In a caller's body: values in all its objects and lists. Thousands of messages with tool calls have a tenth of it."""
_MAX_BRACKETS_AND_QUOTES = 100_000
"""In a document that is parsed in one step: about ten milliseconds."""
MAX_DOCUMENT_DEPTH = 500
"""Half of what the interpreter's stack allows: the rest is for the call stack, and for levels that are added."""
FAST_BYTES = 64 * 1024
"""A document of at most this size is parsed quickly, whatever it contains."""
_MIN_DEEP_BYTES = 2 * MAX_DOCUMENT_DEPTH  # a level has two brackets: a shorter document needs no check

_MAX_PATH_LENGTH = 128
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""Brackets as signed bytes: one level down, or one up."""
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


class InvalidJson(ValueError):
    """The bytes are not one JSON document in UTF-8, or not of the expected type."""


def encode(value: Any) -> bytes:
    """Compact, raw UTF-8, on one line."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        # Only a lone surrogate gets here. It has no UTF-8 form; its escape is the same character.
        text = json.dumps(msgspec.to_builtins(value, enc_hook=_decode_raw), ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace")


def _decode_raw(value: Any) -> Any:
    """A part that was encoded before (`msgspec.Raw`)."""
    return decode(bytes(value))


def to_members(value: Any) -> dict[str, Any]:
    """A Struct as the object that `encode` would write."""
    members: dict[str, Any] = msgspec.to_builtins(value)
    return members


def is_dense(data: bytes) -> bool:
    """Whether a document has so many small values that parsing takes long for its size."""
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
    """A decode function for a Struct that tolerates wrong types.

    A document that msgspec cannot read as `model` (a lone surrogate, a string instead of a number) is read without
    types and given to `from_any`, which uses the valid members.
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

    Two readers of a body with a duplicate key may use different values. Which model is called and which is billed
    must not depend on that, so such a body is refused. msgspec silently keeps the last value: its result is used if it
    has as many keys as were sent. msgspec parses in one step, which no other thread can interrupt: a dense body is
    read object by object instead.
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
    """The colons of a valid document outside of its strings: there is one after each key."""
    return _outside_strings(data).count(b":")


def _has_more_elements(data: bytes, limit: int) -> bool:
    """For a valid document. Each element of a list or an object, except the first, follows a comma."""
    if data.count(b'"') - data.count(b'\\"') > 4 * limit:  # two quotes for a value, and two for its key
        return True
    outside = _outside_strings(data)
    return outside.count(b",") + outside.count(b"{") + outside.count(b"[") > limit


def _outside_strings(data: bytes) -> bytes:
    """A valid document without its strings. The result for an invalid one is arbitrary; the parser refuses it then."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(data.split(b'"')[::2])


def _count_keys(value: Any, levels: int) -> int:
    """The keys of `value` (an object or a list) and of everything inside it. Raises if that is too deep, or if an
    object has too many."""
    count, elements = 0, value
    if type(value) is dict:
        count, elements = len(value), value.values()
    if count > MAX_KEYS or not levels:
        raise RecursionError
    for inner in elements:
        kind = type(inner)
        if kind is dict or kind is list:
            count += _count_keys(inner, levels - 1)
    return count


def _decode_body_slowly(data: bytes) -> dict[str, Any]:
    """As `decode_body`, object by object; its errors name the problem."""
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
    """Counts brackets outside of strings, before any parser runs."""
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
    """Replaces an object that has a key twice."""

    def __init__(self, name: str) -> None:
        self.name = name


def _refuse_repeated_keys(value: Any, path: str) -> None:
    """Raises an error with the path of the first. Objects inside an object with a duplicate key were replaced, too."""
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
    if has_lone_surrogate(value):
        raise CallerError("invalid_json", "The request body has half of a surrogate pair.")


def has_lone_surrogate(value: Any) -> bool:
    """In any text of it. Such a text has no UTF-8 form."""
    try:
        _encoder.encode(value)
    except UnicodeEncodeError:
        return True
    return False
