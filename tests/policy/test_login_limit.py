"""How long the next attempt at a password waits."""

import pytest

from streamweir.policy.login_limit import PER_ADDRESS, PER_NAME, PER_NAME_AND_ADDRESS, WINDOW_MS, network_of, wait_ms

NOW = 1_800_000_000_000


def ago(*count: int) -> list[int]:
    """So many attempts, a second apart, the last a second ago."""
    return [NOW - 1000 * (1 + each) for each in range(*count)]


@pytest.mark.parametrize(
    ("both", "address", "name", "is_familiar", "waits"),
    [
        (0, 0, 0, False, False),
        (PER_NAME_AND_ADDRESS - 1, PER_ADDRESS - 1, PER_NAME - 1, False, False),
        (PER_NAME_AND_ADDRESS, 0, 0, False, True),
        (PER_NAME_AND_ADDRESS, 0, 0, True, True),
        (0, PER_ADDRESS, 0, False, True),
        (0, PER_ADDRESS, 0, True, True),
        (0, 0, PER_NAME, False, True),
        (0, 0, PER_NAME, True, False),
        (0, 0, 10 * PER_NAME, True, False),
    ],
)
def test_the_bounds(both: int, address: int, name: int, is_familiar: bool, waits: bool) -> None:
    wait = wait_ms(ago(both), ago(address), ago(name), is_familiar=is_familiar, at_ms=NOW)
    assert (wait > 0) == waits


def test_it_waits_until_the_bound_holds_again() -> None:
    wait = wait_ms(ago(PER_NAME_AND_ADDRESS + 3), (), (), is_familiar=True, at_ms=NOW)
    assert wait == WINDOW_MS - PER_NAME_AND_ADDRESS * 1000
    assert wait_ms(ago(PER_NAME_AND_ADDRESS), (), (), is_familiar=True, at_ms=NOW + wait) == 0
    assert wait_ms(ago(PER_NAME_AND_ADDRESS), (), (), is_familiar=True, at_ms=NOW + wait - 1) == 1


def test_what_is_older_than_the_window_or_of_the_future_does_not_count() -> None:
    old = [NOW - WINDOW_MS - each for each in range(100)]
    future = [NOW + 1 + each for each in range(100)]  # the clock was set back
    assert wait_ms(old + future, old + future, old + future, is_familiar=False, at_ms=NOW) == 0


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::1", "::/64"),
        ("", ""),
        ("unix", "unix"),
    ],
)
def test_what_counts_as_one_address(address: str, network: str) -> None:
    assert network_of(address) == network
