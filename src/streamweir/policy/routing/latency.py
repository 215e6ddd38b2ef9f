"""Times to the first token, counted in buckets: sums over any period, and their quantiles.

The bounds grow geometrically, from 10 ms to a minute. They define the meaning of numbers in the database, so they never
change, and a test checks that. A quantile is in the bucket of the true one, so it is wrong by a factor of 1.5 at most
(below 10 ms, by 10 ms); beyond a minute it is a minute. Within a bucket, values are assumed to be distributed evenly by
their logarithm, which for real streams is much more exact than that.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

BOUNDS_MS = (
    *(10, 15, 22, 33, 49, 72, 107, 159, 237, 351, 522, 775),
    *(1150, 1708, 2537, 3767, 5594, 8308, 12337, 18321, 27207, 40403, 60000),
)
"""The largest value of each bucket except the last, which is unbounded."""
BUCKETS = len(BOUNDS_MS) + 1


def bucket_of(time_ms: int) -> int:
    return bisect_left(BOUNDS_MS, time_ms)


def quantile_ms(counts: Sequence[int], quantile: float) -> int | None:
    """The time that this share of all stayed within. None if there are none."""
    reached = list(accumulate(counts))
    rank = quantile * reached[-1]
    if rank <= 0:
        return None
    bucket = bisect_left(reached, rank)
    if bucket >= len(BOUNDS_MS):
        return BOUNDS_MS[-1]
    return _interpolate(bucket, 1 - (reached[bucket] - rank) / counts[bucket])


def _interpolate(bucket: int, fraction: float) -> int:
    """The value at this fraction of a bucket, from its lower bound."""
    upper = BOUNDS_MS[bucket]
    if bucket == 0:
        return round(upper * fraction)
    lower = BOUNDS_MS[bucket - 1]
    return round(lower * math.pow(upper / lower, fraction))
