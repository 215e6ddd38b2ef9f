"""The time between the pieces of an answer: a histogram whose buckets grow by a third, in a few hundred bytes.

`server.relay.relay` finds the bucket by bisection for every chunk. The summary is made once, when the answer is over.
"""

from streamweir.server.telemetry.record import Gaps

_MIN_BOUND_S = 0.001
_GROWTH = 4 / 3
BOUNDS_S = tuple(_MIN_BOUND_S * _GROWTH**index for index in range(40))
"""Up to 75 seconds: a longer pause within an answer is an idle timeout."""

_NO_GAPS = Gaps(count=1)
"""Of an answer in one piece, as most short answers are."""


def empty_buckets() -> list[int]:
    """One bucket for each upper bound, and one for longer gaps."""
    return [0] * (len(BOUNDS_S) + 1)


def summarize_gaps(buckets: list[int], max_s: float) -> Gaps:
    """A percentile is exact to within its bucket, and at most the longest gap."""
    count = sum(buckets)
    if not count:
        return _NO_GAPS
    return Gaps(
        count=count + 1,
        p50_s=min(_percentile(buckets, count * 0.50, max_s), max_s),
        p99_s=min(_percentile(buckets, count * 0.99, max_s), max_s),
        max_s=max_s,
    )


def _percentile(buckets: list[int], rank: float, max_s: float) -> float:
    below = 0
    for index, count in enumerate(buckets):
        if count and below + count >= rank:
            start = BOUNDS_S[index - 1] if index else 0.0
            end = BOUNDS_S[index] if index < len(BOUNDS_S) else max_s
            return start + (end - start) * (rank - below) / count
        below += count
    return 0.0
