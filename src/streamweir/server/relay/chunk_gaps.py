"""The time between the pieces of an answer, counted in buckets that grow by a third: a few hundred bytes per stream.

A bucket is found by bisection and counted up where the gap is measured (`server.relay.relay`), for every
chunk; all else happens once, when the answer is over.
"""

from streamweir.server.telemetry.record import Gaps

_SHORTEST_S = 0.001
_GROWTH = 4 / 3
BOUNDS_S = tuple(_SHORTEST_S * _GROWTH**index for index in range(40))
"""Up to 75 seconds: no pause within an answer is longer, or it is an idle timeout."""

_NO_GAPS = Gaps(count=1)
"""Of an answer that came in one piece, as most short ones do."""


def no_gaps() -> list[int]:
    """A bucket for each bound, of the gaps up to it, and one for those beyond."""
    return [0] * (len(BOUNDS_S) + 1)


def read_gaps(buckets: list[int], longest_s: float) -> Gaps:
    """Of an answer that came. A percentile is right to within its bucket, and never more than the longest gap."""
    count = sum(buckets)
    if not count:
        return _NO_GAPS
    return Gaps(
        count=count + 1,
        p50_s=min(_percentile(buckets, count * 0.50, longest_s), longest_s),
        p99_s=min(_percentile(buckets, count * 0.99, longest_s), longest_s),
        max_s=longest_s,
    )


def _percentile(buckets: list[int], rank: float, longest_s: float) -> float:
    below = 0
    for index, count in enumerate(buckets):
        if count and below + count >= rank:
            start = BOUNDS_S[index - 1] if index else 0.0
            end = BOUNDS_S[index] if index < len(BOUNDS_S) else longest_s
            return start + (end - start) * (rank - below) / count
        below += count
    return 0.0
