"""No key takes everything, busy keys get the same, and a new key always gets something."""

from itertools import cycle

import pytest

from streamweir.policy.shares import FACTOR, Shares


def fill(shares: Shares, keys: list[str]) -> None:
    """Each takes in turn, until none may any more."""
    refused = 0
    for key in cycle(keys):
        if shares.may_take(key):
            shares.take(key)
            refused = 0
        else:
            refused += 1
        if refused == len(keys):
            return


@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_busy_keys_get_equal_parts_and_leave_one_part_in_so_many(count: int) -> None:
    shares = Shares(1000)
    keys = [f"key-{number}" for number in range(count)]
    fill(shares, keys)
    each = FACTOR * 1000 / (1 + FACTOR * count)
    assert all(each - 1 <= shares.held(key) <= each + 1 for key in keys)
    assert shares.may_take("quiet")


def test_what_is_given_back_can_be_taken_and_a_key_without_any_leaves_nothing_behind() -> None:
    shares = Shares(5)
    fill(shares, ["a"])
    held = shares.held("a")
    assert (held, shares.may_take("a")) == (4, False)
    for _ in range(held):
        shares.release("a")
    assert (shares.total, shares.held("a"), shares.may_take("a")) == (0, 0, True)


def test_a_smaller_bound_releases_nothing_but_admits_no_key() -> None:
    shares = Shares()
    for _ in range(10):
        shares.take("a")
    shares.bound = 5
    assert (shares.total, shares.may_take("a"), shares.may_take("b")) == (10, False, False)
    for _ in range(8):
        shares.release("a")
    assert shares.may_take("b")


def test_more_keys_than_the_cache_holds() -> None:
    shares = Shares(4)
    fill(shares, [f"key-{number}" for number in range(100)])
    assert shares.total == 4
