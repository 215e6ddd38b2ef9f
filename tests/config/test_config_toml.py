"""The importer's TOML: what the standard library's reader makes of it is what was written."""

import tomllib
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streamweir.config.toml import write

NAMES = st.text(max_size=6)
VALUES = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.decimals(-(10**9), 10**9, allow_nan=False, allow_infinity=False, places=9)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
MEMBERS = st.dictionaries(NAMES, VALUES, max_size=4)


def read(text: str) -> dict[str, Any]:
    return tomllib.loads(text, parse_float=Decimal)


@given(MEMBERS, MEMBERS, st.lists(MEMBERS, max_size=3))
def test_what_is_written_is_what_is_read(
    one: dict[str, Any], nested: dict[str, Any], rows: list[dict[str, Any]]
) -> None:
    text = write([("a", one), ("b.c", nested), *(("[[d]]", row) for row in rows)])
    full = [row for row in rows if row]
    assert read(text) == {
        **({"a": one} if one else {}),
        **({"b": {"c": nested}} if nested else {}),
        **({"d": full} if full else {}),
    }


def test_what_is_not_known_is_not_written() -> None:
    assert write([("a", {"x": None}), ("[[b]]", {})]) == ""
    assert write([("a", {"x": None, "y": 1})]) == "[a]\ny = 1\n"


def test_a_list_of_tables_keeps_its_layout_however_short() -> None:
    assert write([("[[a]]", {"x": [{"y": 1}], "z": ["p", "q"]})]) == (
        '[[a]]\nx = [\n    { y = 1 },\n]\nz = ["p", "q"]\n'
    )


def test_a_decimal_is_written_without_an_exponent() -> None:
    numbers = {"x": Decimal("1E-7"), "y": Decimal("1E+2"), "z": Decimal("0.100")}
    assert write([("a", numbers)]) == "[a]\nx = 0.0000001\ny = 100.0\nz = 0.1\n"


def test_a_text_that_cannot_be_encoded_is_written_all_the_same() -> None:
    assert read(write([("a", {"x": "\ud83d \x7f"})])) == {"a": {"x": "? \x7f"}}
