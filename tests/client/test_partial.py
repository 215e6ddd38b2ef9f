"""A JSON document read while it is written: what is shown is never taken back, and the end is the document itself."""

import json
import time
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.client.partial import MAX_DEPTH, NOTHING, PartialJson

DOCUMENTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=[]), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
SPACED = {"separators": (" , ", " :\n")}


def read(*pieces: str) -> PartialJson:
    reader = PartialJson()
    for piece in pieces:
        reader.feed(piece)
    return reader


def is_extended_by(part: Any, whole: Any) -> bool:
    """Whether `whole` says all that `part` says, and perhaps more."""
    if part is NOTHING:
        return True
    if isinstance(part, str) and isinstance(whole, str):
        return whole.startswith(part)
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) <= len(whole) and all(map(is_extended_by, part, whole))
    if isinstance(part, dict) and isinstance(whole, dict):
        return list(part) == list(whole)[: len(part)] and all(is_extended_by(part[name], whole[name]) for name in part)
    return type(part) is type(whole) and part == whole


def texts(document: Any) -> Iterator[str]:
    """As it may be written: tight or wide, escaped or not."""
    yield json.dumps(document)
    yield json.dumps(document, ensure_ascii=False)
    yield json.dumps(document, **SPACED)  # type: ignore[arg-type]


@given(DOCUMENTS)
def test_every_prefix_is_extended_by_the_next_and_by_the_whole(document: Any) -> None:
    for text in texts(document):
        reader = PartialJson()
        before: Any = NOTHING
        for sign in text:
            reader.feed(sign)
            assert is_extended_by(before, reader.value)
            assert is_extended_by(reader.value, json.loads(text))
            before = deepcopy(reader.value) if reader.value is not NOTHING else NOTHING
        reader.finish()
        assert reader.is_complete
        assert reader.value == json.loads(text)


@given(DOCUMENTS, st.data())
def test_no_cut_changes_what_is_read(document: Any, data: st.DataObject) -> None:
    text = json.dumps(document)
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    end = data.draw(st.integers(0, len(text)))
    whole, cut = read(text[:end]), PartialJson()
    for start, stop in zip([0, *places], [*places, len(text)], strict=True):
        cut.feed(text[start : min(stop, end)] if start < end else "")
        _ = cut.value  # to look does not change anything
    assert cut.value == whole.value
    assert cut.is_invalid is whole.is_invalid is False


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", NOTHING),
        ("  ", NOTHING),
        ("{", {}),
        ('{"a', {}),
        ('{"a"', {}),
        ('{"a":', {}),
        ('{"a": "', {"a": ""}),
        ('{"a": "x', {"a": "x"}),
        ('{"a": "x\\', {"a": "x"}),
        ('{"a": "x\\u00', {"a": "x"}),
        ('{"a": "x\\u00e9', {"a": "x\u00e9"}),
        ('{"a": "\\ud83d', {"a": ""}),
        ('{"a": "\\ud83d\\ude00', {"a": "\U0001f600"}),
        ('{"a": "\\ud83dx', {"a": "\ud83dx"}),
        ('{"a": "\\ud83d"}', {"a": "\ud83d"}),
        ('{"a": 12', {}),
        ('{"a": 12,', {"a": 12}),
        ('{"a": tru', {}),
        ('{"a": true}', {"a": True}),
        ('{"a": null ', {"a": None}),
        ("[1, 2", [1]),
        ("[1, ", [1]),
        ("[[], {}, [", [[], {}, []]),
        ('["a", "b', ["a", "b"]),
        ("12", NOTHING),
    ],
)
def test_what_is_shown_of_a_beginning(text: str, value: Any) -> None:
    reader = read(text)
    assert reader.value is value if value is NOTHING else reader.value == value
    assert not reader.is_invalid
    assert not reader.is_complete or text.endswith("}")


@pytest.mark.parametrize(
    "text",
    ["}", "]", "[,", "[1,]", '{"a",', "{1", '{"a":}', '{"a":1,}', "nul,", "[01,", "[1.]", "+1,", "NaN,", "[Infinity]",
     "[1e999]", "[" + "9" * 5000 + "]",
     '"a\\x', '"\\u00zz', '"a\nb"', "{} {", "[1 2]", '{"a" 1', "'a'", '{"a":1]', "\ufeff{}"],
)  # fmt: skip
def test_what_is_no_json_breaks_it(text: str) -> None:
    reader = read(text)
    assert reader.is_invalid
    assert not reader.is_complete
    shown = repr(reader.value)
    reader.feed('"more"}')
    reader.finish()
    assert repr(reader.value) == shown, "nothing is read behind it"


def test_a_number_is_over_when_the_document_is() -> None:
    reader = read("-1", "2.5e", "3")
    assert reader.value is NOTHING
    reader.finish()
    assert reader.is_complete
    assert json.dumps(reader.value) == "-12500.0"
    half = read("-")
    half.finish()
    assert half.is_invalid
    assert not NOTHING
    assert repr(NOTHING) == "NOTHING"


def test_the_last_value_of_a_duplicate_key_counts() -> None:
    assert read('{"a": 1, "a": "x"}').value == {"a": "x"}


def test_it_is_no_deeper_than_the_codec() -> None:
    assert not read("[" * MAX_DEPTH).is_invalid
    assert read("[" * (MAX_DEPTH + 1)).is_invalid


def test_the_work_is_linear() -> None:
    """By counting: the time of twice as many pieces is near to twice the time, never four times."""

    def seconds(count: int) -> float:
        reader = PartialJson()
        began = time.process_time()
        reader.feed('{"a": "')
        for _ in range(count):
            reader.feed("some text \\n and more")
        reader.feed('"}')
        assert len(reader.value["a"]) == 20 * count
        return time.process_time() - began

    seconds(1000)
    small = min(seconds(10_000) for _ in range(3))
    assert min(seconds(40_000) for _ in range(3)) < 10 * small, "16 times were quadratic"
