"""Quantiles of counted times: within the bound that is promised, and the same however the counts were added up."""

import random
from itertools import pairwise

import pytest

from streamweir.policy.routing.latency import BOUNDS_MS, BUCKETS, bucket_of, quantile_ms

FACTOR = 1.5


def counted(times: list[int]) -> list[int]:
    counts = [0] * BUCKETS
    for time in times:
        counts[bucket_of(time)] += 1
    return counts


def true_quantile(times: list[int], share: float) -> int:
    """The smallest that so many stayed within."""
    return sorted(times)[max(0, -int(-share * len(times) // 1) - 1)]


def test_the_bounds_are_those_that_the_database_was_filled_by() -> None:
    assert list(BOUNDS_MS) == [
        *(10, 15, 22, 33, 49, 72, 107, 159, 237, 351, 522, 775),
        *(1150, 1708, 2537, 3767, 5594, 8308, 12337, 18321, 27207, 40403, 60000),
    ]
    assert BUCKETS == 24
    assert all(upper / lower <= FACTOR for lower, upper in pairwise(BOUNDS_MS))


def test_a_bucket_ends_with_its_bound() -> None:
    assert [bucket_of(time) for time in (-1, 0, 1, 10, 11, 15, 16)] == [0, 0, 0, 0, 1, 1, 2]
    assert [bucket_of(time) for time in (59_999, 60_000, 60_001, 10**12)] == [22, 22, 23, 23]


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("share", [0.01, 0.5, 0.95, 0.99, 1.0])
def test_a_quantile_is_within_its_bound(seed: int, share: float) -> None:
    chance = random.Random(seed)
    middle, spread = 10 ** chance.uniform(0, 5), chance.uniform(0, 2)
    times = [round(middle * 10 ** chance.gauss(0, spread / 3)) for _ in range(chance.randrange(1, 400))]
    found, true = quantile_ms(counted(times), share), true_quantile(times, share)
    assert found is not None
    if true > BOUNDS_MS[-1]:
        assert found == BOUNDS_MS[-1]
    elif true <= BOUNDS_MS[0]:
        assert 0 <= found <= BOUNDS_MS[0]
    else:
        assert true / FACTOR <= found <= true * FACTOR


def test_of_times_as_streams_have_them_it_is_much_nearer() -> None:
    chance = random.Random(7)
    times = [round(400 * 10 ** chance.gauss(0, 0.3)) for _ in range(20_000)]
    for share in (0.5, 0.95):
        found = quantile_ms(counted(times), share)
        assert found is not None
        assert found == pytest.approx(true_quantile(times, share), rel=0.05)


def test_quantiles_never_fall_with_the_share_and_none_is_none() -> None:
    assert quantile_ms([0] * BUCKETS, 0.5) is None
    counts = [number % 5 for number in range(BUCKETS)]
    found = [quantile_ms(counts, step / 100) or 0 for step in range(1, 101)]
    assert found == sorted(found)
    assert [quantile_ms(counted([20]), share) for share in (0.5, 1.0)] == [18, 22]
