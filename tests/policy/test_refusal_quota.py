"""Refusals of callers without a key: a few of each address are recorded, and the others are counted."""

import pytest

from streamweir.policy.refusal_quota import IN_ALL, PER_ADDRESS, WINDOW_S, LeftOut, RefusalQuota, network_of


def admitted(quota: RefusalQuota, address: str, count: int, now: float = 0.0) -> int:
    return sum(quota.admits(address, now) for _ in range(count))


def test_a_flood_from_one_address_is_recorded_in_part_and_hides_no_other() -> None:
    quota = RefusalQuota()
    assert admitted(quota, "192.0.2.1", 10_000) == PER_ADDRESS
    assert admitted(quota, "192.0.2.2", 3) == 3
    assert quota.take_left_out(WINDOW_S - 0.1) is None, "the minute is not over"
    left_out = quota.take_left_out(WINDOW_S)
    assert left_out == LeftOut(10_000 - PER_ADDRESS, ["192.0.2.1: 10000", "192.0.2.2: 3"])
    assert quota.take_left_out(2 * WINDOW_S) is None, "each minute is summed up once"
    assert admitted(quota, "192.0.2.1", 30, 3 * WINDOW_S) == PER_ADDRESS


def test_a_minute_in_which_all_was_recorded_is_not_summed_up() -> None:
    quota = RefusalQuota()
    assert admitted(quota, "192.0.2.1", 2) == 2
    assert quota.take_left_out(WINDOW_S) is None


def test_many_addresses_have_a_limit_together() -> None:
    quota = RefusalQuota()
    assert sum(admitted(quota, f"10.0.{number // 256}.{number % 256}", 1) for number in range(20_000)) == IN_ALL
    left_out = quota.take_left_out(WINDOW_S)
    assert left_out is not None
    assert left_out.count == 20_000 - IN_ALL
    assert left_out.most[0] == "others: 10000", "what is kept of addresses is bounded"
    assert len(left_out.most) == 5


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_an_address_of_version_6_counts_as_its_network(address: str, network: str) -> None:
    assert network_of(address) == network
