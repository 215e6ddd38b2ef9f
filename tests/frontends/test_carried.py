"""Reasoning of other families in the gateway's envelope: out, back, and after any changes on the way."""

import base64
import zlib

import pytest

from streamweir.frontends.carried import (
    MARK,
    MAX_PACKED,
    MAX_UNPACKED,
    MAX_VALUES,
    Carried,
    CarriedReader,
    carry,
    is_carried,
)
from streamweir.wire import jsonio

ENTRIES = [
    {"type": "reasoning.text", "text": "hm", "signature": "c2ln", "index": 0, "format": "google-gemini-v1"},
    {"type": "reasoning.encrypted", "data": "ZGF0YQ==", "id": "rs_1", "index": 1, "format": "openai-responses-v1"},
]


def test_entries_come_back_with_the_text_that_was_shown() -> None:
    value = carry("gemini-3", ENTRIES)
    assert is_carried(value)
    assert CarriedReader().open(value, "hm") == Carried("gemini-3", ENTRIES, "")


def test_text_that_was_not_shown_is_carried() -> None:
    assert CarriedReader().open(carry("m", ENTRIES, "hm")) == Carried("m", ENTRIES, "hm")


def test_a_block_that_carries_nothing_is_known_again() -> None:
    assert is_carried(carry("m", []))
    assert CarriedReader().open(carry("m", []), "shown") == Carried(None, [], "")


def test_too_much_text_is_left_out_and_the_entries_are_not() -> None:
    assert CarriedReader().open(carry("m", ENTRIES[1:], "x" * (MAX_PACKED + 1))) == Carried("m", ENTRIES[1:], "")


def packed(data: bytes) -> str:
    return MARK + base64.urlsafe_b64encode(zlib.compress(data)).decode().rstrip("=")


@pytest.mark.parametrize(
    "value",
    [
        MARK,
        f"{MARK}!",
        f"{MARK}AAAA",
        packed(b"not json"),
        packed(b"[]"),
        packed(b'{"e": 3, "x": [], "m": {}}'),
        packed(b'{"e": [1, null]}'),
        packed(rb'{"x": "\ud800"}'),
        packed(rb'{"e": [{"type": "reasoning.text", "format": "\udc00"}], "x": "a"}'),
        carry("m", ENTRIES)[:-4],
        packed(b'{"x": "' + b"x" * 64 * 1024 * 1024 + b'"}'),
    ],
)
def test_what_cannot_be_read_is_ignored(value: str) -> None:
    assert CarriedReader().open(value) == Carried(None, [], "")


@pytest.mark.parametrize("value", [b"{}", b"[[]]", b"1", b'""', b'"\\\\"', b'{"a":{"b":[1]}}'])
def test_many_small_values_are_not_unpacked(value: bytes) -> None:
    few, many = (b'{"m":"m","e":[{"a":[' + b",".join([value] * count) + b"]}]}" for count in (1000, MAX_VALUES))
    assert CarriedReader().open(packed(few)).model == "m"
    assert CarriedReader().open(packed(many)) == Carried(None, [], "")
    reader = CarriedReader()
    assert sum(bool(reader.open(packed(few)).entries) for _ in range(50)) < 50  # they count together


def test_a_long_text_is_one_value() -> None:
    text = 'He said: "[a, b], {c}", \\ and so on, "\\' * 5000
    assert CarriedReader(max_values=20).open(packed(jsonio.encode({"m": "m", "x": text}))).text == text


def test_many_that_unpack_to_much_are_bounded_together() -> None:
    bomb, reader = packed(b'{"x": "' + b"x" * (MAX_UNPACKED // 4) + b'"}'), CarriedReader()
    sizes = [len(reader.open(bomb).text) for _ in range(10)]
    assert sizes[:3] == [MAX_UNPACKED // 4] * 3
    assert sizes[4:] == [0] * 6
    assert reader.open(carry("m", ENTRIES)) == Carried(None, [], "")


def test_megabytes_are_not_compressed_and_unreadable_data_is_left_out() -> None:
    large = [{**ENTRIES[1], "data": "ab" * MAX_PACKED}]
    value = carry("m", large)
    assert len(value) > len(str(large[0]["data"])), "which would not block the event loop"
    assert CarriedReader().open(value) == Carried("m", large, "")
    assert CarriedReader().open(carry("m", [{**ENTRIES[1], "data": "ab" * MAX_UNPACKED}])) == Carried(None, [], "")
