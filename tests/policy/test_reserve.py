"""The sizes of reservations that are tried: a finite series that falls, whatever the numbers are."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.policy.reserve import extension_sizes

tokens = st.integers(0, 10**12)


@pytest.mark.parametrize(
    ("covered", "needed", "step", "sizes"),
    [
        (1024, 1025, 1024, (2048, 1280, 1088, 1040, 1028, 1025)),
        (10, 14, 10, (20, 14)),
        (10, 30, 10, (30,)),
        (10, 31, 10, (31,)),
        (0, 1, 1, (1,)),
        (10, 10, 10, ()),
        (1024, 4, 1024, ()),
        (0, 0, 0, ()),
    ],
)
def test_an_extension_is_tried_whole_and_then_down_to_what_is_needed(
    covered: int, needed: int, step: int, sizes: tuple[int, ...]
) -> None:
    assert extension_sizes(covered, needed, step) == sizes


@given(tokens, tokens, tokens)
def test_every_try_is_smaller_than_the_one_before_and_no_less_than_what_is_needed(
    covered: int, needed: int, step: int
) -> None:
    sizes = extension_sizes(covered, needed, step)
    assert len(sizes) <= 42
    assert all(larger > smaller for larger, smaller in pairwise(sizes))
    assert all(size >= needed > covered for size in sizes)
    assert (sizes[-1:] == (needed,)) == (needed > covered)
