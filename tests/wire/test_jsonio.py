"""The codec: what both of its readers accept, what it refuses, and that it writes what it read."""

import json
import math
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from streamweir.core.errors import CallerError
from streamweir.wire import jsonio

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def nested(depth: int, inner: bytes = b"") -> bytes:
    return b"[" * depth + inner + b"]" * depth


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": [1, None, True, 1.5]}, b'{"a":[1,null,true,1.5]}'),
        ("zażółć 🌊 \u2028", '"zażółć 🌊 \u2028"'.encode()),
        ('"\\\n\r\t\0', b'"\\"\\\\\\n\\r\\t\\u0000"'),
        ("\ud83d", b'"\\ud83d"'),
        ({"half": "a\udc00", "é": 1}, '{"half":"a\\udc00","é":1}'.encode()),
        ({"\ud83d": "\n"}, b'{"\\ud83d":"\\n"}'),
        (2**70, b"1180591620717411303424"),
    ],
)
def test_encode(value: Any, expected: bytes) -> None:
    assert jsonio.encode(value) == expected


def test_a_struct_with_a_lone_surrogate_is_encoded() -> None:
    class Point(Struct, omit_defaults=True):
        name: str
        x: int = 0

    assert jsonio.encode([Point("\ud83d")]) == b'[{"name":"\\ud83d"}]'
    assert jsonio.to_members(Point("a", 1)) == {"name": "a", "x": 1}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"a": 1}', {"a": 1}),
        (b' [1, "x"]\n', [1, "x"]),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b'"\\ud83d"', "\ud83d"),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'{"a":NaN,"b":-Infinity,"c":1e400,"d":1.5}', {"a": None, "b": None, "c": None, "d": 1.5}),
        (b'"' + b"[" * 600 + b'"', "[" * 600),
        (b"[" + b",".join([b"[]"] * 600) + b"]", [[]] * 600),
    ],
)
def test_decode(data: bytes, expected: Any) -> None:
    assert jsonio.decode(data) == expected


REFUSED = [
    b"",
    b" ",
    b"nul",
    b'{"a":',
    b"{} {}",
    b"foo",
    b"[1,]",
    b"{'a':1}",
    b'"a\nb"',
    b'"\\ud83d\x01"',
    b"\xef\xbb\xbf{}",
    b'"\xff"',
    b'{"a":"\xed\xa0\xbd"}',
    b"9" * 5000,
    b"[" * 100_000,
    nested(jsonio.MAX_DOCUMENT_DEPTH + 1),
]


@pytest.mark.parametrize("data", REFUSED, ids=lambda data: repr(data[:20]))
def test_what_is_no_document_is_refused(data: bytes) -> None:
    with pytest.raises(jsonio.InvalidJson):
        jsonio.decode(data)
    with pytest.raises(jsonio.InvalidJson):
        decode_point(data)


@given(st.binary())
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for decode in (jsonio.decode, decode_point):
        with suppress(jsonio.InvalidJson):
            decode(data)


@given(JSON)
def test_what_was_written_is_read(value: Any) -> None:
    data = jsonio.encode(value)
    assert b"\n" not in data
    assert b"\r" not in data
    assert jsonio.decode(data) == json.loads(data) == value


@given(st.text(st.characters(categories=None)))
def test_lone_surrogates_survive(text: str) -> None:
    assert jsonio.decode(jsonio.encode(text)) == json.loads(json.dumps(text))


def test_the_deepest_document_can_be_written_inside_others() -> None:
    value = jsonio.decode(nested(jsonio.MAX_DOCUMENT_DEPTH, b'"\\ud83d"'))
    for _ in range(20):
        value = {"wrapped": value}
    assert jsonio.encode(value).count(b"[") == jsonio.MAX_DOCUMENT_DEPTH


class Point(Struct):
    x: float | None = None
    name: str | None = None


def point_of(value: Any) -> Point:
    members = value if isinstance(value, dict) else {}
    x, name = members.get("x"), members.get("name")
    return Point(
        x=float(x) if isinstance(x, int | float | str) and str(x).isdecimal() else None,
        name=name if isinstance(name, str) else None,
    )


decode_point = jsonio.typed(Point, point_of)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"x":1.5,"name":"a","other":[1]}', Point(1.5, "a")),
        (b'{"x":"12","name":7}', Point(12.0, None)),
        (b'{"name":"\\ud83d"}', Point(None, "\ud83d")),
        ('{"name":"é","other":"ü"}'.encode(), Point(None, "é")),
        (b"[]", Point()),
        (b'{"x":1e400,"name":"a"}', Point(None, "a")),
        (b'{"name":"a","other":' + nested(jsonio.MAX_DOCUMENT_DEPTH - 1) + b"}", Point(None, "a")),
    ],
)
def test_typed(data: bytes, expected: Point) -> None:
    assert decode_point(data) == expected


def test_typed_checks_members_that_it_skips() -> None:
    with pytest.raises(jsonio.InvalidJson):
        decode_point(b'{"other":"\xff"}')


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "invalid_json"),
        (b"   ", "invalid_json"),
        (b"{", "invalid_json"),
        (b"[]", "invalid_json"),
        (b"null", "invalid_json"),
        (b'"text"', "invalid_json"),
        (b'{"a":1}{"b":2}', "invalid_json"),
        (b'{"a":NaN}', "invalid_json"),
        (b'{"a":Infinity}', "invalid_json"),
        (b'{"a":-Infinity}', "invalid_json"),
        (b'{"a":1e400}', "invalid_json"),
        (b'{"a":-1e400}', "invalid_json"),
        (b'{"a":' + b"9" * 5000 + b"}", "invalid_json"),
        (b'{"a":"\\ud800"}', "invalid_json"),
        (b'{"a":"\\uDC00"}', "invalid_json"),
        (b'{"\\ud800":1}', "invalid_json"),
        (b'{"a":"\xff"}', "invalid_json"),
        (b'{"a":"\xed\xa0\xbd"}', "invalid_json"),
        (b'\xef\xbb\xbf{"a":1}', "invalid_json"),
        (b'{"a":"\n"}', "invalid_json"),
        (b'{"model":"cheap","model":"dear"}', "duplicate_key"),
        (b'{"a":{"b":[{"c":1,"c":1}]}}', "duplicate_key"),
        (b'{"model":"cheap","\\u006dodel":"dear"}', "duplicate_key"),
        (b"[" * 200_000, "json_too_deep"),
        (b'{"a":' * 200_000, "json_too_deep"),
        (b'{"a":' + nested(jsonio.MAX_BODY_DEPTH) + b"}", "json_too_deep"),
        (b'{"a":"]]]","b":' + nested(jsonio.MAX_BODY_DEPTH) + b"}", "json_too_deep"),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value[:28]),
)
def test_a_body_is_refused(data: bytes, code: str) -> None:
    with pytest.raises(CallerError) as caught:
        jsonio.decode_body(data)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"{}", {}),
        (b'{"a":"\\u0000"}', {"a": "\0"}),
        (b'{"a":"\\ud83d\\ude00"}', {"a": "\U0001f600"}),
        (b'{"a":"\\\\ud800"}', {"a": "\\ud800"}),
        (b'{"a":1e308,"b":-0.5}', {"a": 1e308, "b": -0.5}),
        (b'{"a":18446744073709551616}', {"a": 2**64}),
        (b'{"a":"' + b"[" * 100 + b'"}', {"a": "[" * 100}),
        (b'{"a":"\\"' + b"{" * 100 + b'"}', {"a": '"' + "{" * 100}),
    ],
)
def test_a_body_is_read(data: bytes, expected: dict[str, Any]) -> None:
    assert jsonio.decode_body(data) == expected


def test_the_deepest_body_is_read() -> None:
    assert jsonio.decode_body(b'{"a":' + nested(jsonio.MAX_BODY_DEPTH - 1) + b"}").keys() == {"a"}
    many = b'{"a":[' + b",".join([b"{}"] * 1000) + b"]}"
    assert len(jsonio.decode_body(many)["a"]) == 1000


def test_an_object_may_have_many_keys_but_not_any_number() -> None:
    def with_keys(count: int) -> bytes:
        return jsonio.encode({"metadata": {f"k{number}": number for number in range(count)}})

    assert len(jsonio.decode_body(with_keys(jsonio.MAX_KEYS))["metadata"]) == jsonio.MAX_KEYS
    with pytest.raises(CallerError, match="more than 10000 keys"):
        jsonio.decode_body(with_keys(jsonio.MAX_KEYS + 1))


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b'{"messages":[],"n":1,"n":2}', "n"),
        (b'{"messages":[{"role":"user"},{"content":[{"text":"a","text":"b"}]}]}', "messages[1].content[0].text"),
        (b'{"a":{"b":{"c":1,"c":2}},"a":1}', "a"),
        (b'[{"a":1,"a":2}]', "[0].a"),
    ],
)
def test_a_duplicate_key_is_named_by_its_path(body: bytes, path: str) -> None:
    with pytest.raises(CallerError, match="occurs twice") as caught:
        jsonio.decode_body(body)
    assert caught.value.param == path


@given(st.binary() | JSON.map(json.dumps).map(str.encode))
def test_any_body_is_read_or_refused(data: bytes) -> None:
    try:
        body = jsonio.decode_body(data)
    except CallerError:
        return
    assert jsonio.decode(jsonio.encode(body)) == body
    assert all(math.isfinite(value) for value in body.values() if isinstance(value, float))


class Pairs(list[tuple[str, Any]]):
    """An object as it is sent: a key may stand in it twice."""


AWKWARD = st.text(st.sampled_from('"\\:{}[], a\n\u00e9'), max_size=3)
SENT = st.recursive(
    AWKWARD | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(AWKWARD, inner), max_size=3).map(Pairs),
    max_leaves=8,
)


def written(value: Any, blank: str) -> str:
    if isinstance(value, Pairs):
        members = [f"{json.dumps(name)}{blank}:{blank}{written(inner, blank)}" for name, inner in value]
        return "{" + f"{blank},{blank}".join(members) + "}"
    if isinstance(value, list):
        return "[" + f"{blank},".join([written(inner, blank) for inner in value]) + "]"
    return json.dumps(value, ensure_ascii=False)


def repeats(value: Any) -> bool:
    if isinstance(value, Pairs):
        return len(dict(value)) < len(value) or any(repeats(inner) for _, inner in value)
    return isinstance(value, list) and any(map(repeats, value))


@given(SENT, st.sampled_from(["", " ", "\t\r\n "]))
def test_a_duplicate_key_is_found_in_any_context(value: Any, blank: str) -> None:
    data = written(Pairs([("a", value), ("b", 1)]), blank).encode()
    if repeats(value):
        with pytest.raises(CallerError, match="occurs twice"):
            jsonio.decode_body(data)
    else:
        assert jsonio.decode_body(data) == json.loads(data)


def test_what_was_encoded_before_stands_beside_half_of_a_character() -> None:
    value = {"a": "\ud83d", "b": msgspec.Raw(b'{"c":"\\ude00"}')}
    assert jsonio.encode(value) == b'{"a":"\\ud83d","b":{"c":"\\ude00"}}'
