"""What is typed for amounts and times, and how they are shown: exactly, or not at all."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.cli.argument import parse_dollars, parse_length, parse_moment
from streamweir.cli.view.table import dollars, for_terminal, number

NOW = 1_763_200_000_000


@pytest.mark.parametrize(
    ("nano", "shown"),
    [
        (None, "-"),
        (0, "$0.00"),
        (1, "$0.000000001"),
        (-1, "-$0.000000001"),
        (10**9, "$1.00"),
        (1_500_000_000, "$1.50"),
        (1_234_000_000, "$1.234"),
        (-12_345_678_900_000_000_000, "-$12,345,678,900.00"),
    ],
)
def test_money_is_shown_to_the_last_digit(nano: int | None, shown: str) -> None:
    assert dollars(nano) == shown


@given(st.integers(-(10**18) + 1, 10**18 - 1))
def test_what_is_shown_can_be_typed(nano: int) -> None:
    assert parse_dollars(dollars(nano).replace(",", "")) == nano


@pytest.mark.parametrize(
    ("typed", "length_ms"),
    [
        ("0", 0),
        ("90s", 90_000),
        ("30m", 1_800_000),
        ("12h", 43_200_000),
        ("30d", 2_592_000_000),
        ("2w", 1_209_600_000),
        ("", None),
        ("1", None),
        ("h", None),
        ("-1h", None),
        ("1.5h", None),
        ("1H", None),
        ("1 h", None),
        ("99999999s", None),
    ],
)
def test_lengths(typed: str, length_ms: int | None) -> None:
    assert parse_length(typed) == length_ms


@pytest.mark.parametrize(
    ("typed", "at_ms"),
    [
        ("1h", NOW + 3_600_000),
        ("2026-01-31T12:00:00Z", 1_769_860_800_000),
        ("2026-01-31T12:00:00+02:00", 1_769_853_600_000),
        ("2026-01-31 12:00:00.5Z", 1_769_860_800_500),
        ("2026-13-01", None),
        ("tomorrow", None),
        ("", None),
        ("0001-01-01T00:00:00+14:00", -62_135_647_200_000),
    ],
)
def test_moments(typed: str, at_ms: int | None) -> None:
    assert parse_moment(typed, NOW) == at_ms


def test_a_date_is_where_it_was_typed() -> None:
    assert parse_moment("2026-01-31", NOW) == round(datetime(2026, 1, 31).timestamp() * 1000)


@given(st.text())
def test_nothing_typed_is_too_odd(typed: str) -> None:
    parse_dollars(typed)
    parse_length(typed)
    parse_moment(typed, NOW)


@given(st.text())
def test_no_terminal_control_sequences(text: str) -> None:
    assert for_terminal(text).isprintable()
    assert len(for_terminal(text)) == len(text)


def test_counts() -> None:
    assert (number(None), number(0), number(1234567)) == ("-", "0", "1,234,567")
