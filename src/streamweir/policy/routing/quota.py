"""What is left of the providers' own rate limits, as their last answers said, less what was sent since.

A report is a hint: it lowers the rank of a candidate whose quota cannot hold the request, and never refuses one. A
bucket refills continuously and is full after its reset, as OpenAI and Anthropic document; where the limit is not known,
it counts as empty as it was until then. A report holds for `MAX_AGE_S` at most, so that a candidate is asked again even
if its provider reports nonsense. Callers choose model names, so what is kept is bounded. Time is an argument.
"""

from collections import OrderedDict
from collections.abc import Hashable, Mapping

from streamweir.providers.rate_limit import Bucket, RateLimitReport, read_rate_limits

MAX_AGE_S = 300.0
UNKNOWN_RESET_S = 10.0
"""How long a report without a reset holds."""
_MAX_KNOWN = 10_000


class _Reported:
    __slots__ = ("at", "report", "requests", "tokens")

    def __init__(self, report: RateLimitReport, at: float) -> None:
        self.report = report
        self.at = at
        self.requests = 0
        """Sent since."""
        self.tokens = 0
        """Of these, as estimated."""


class Quotas:
    """By any key: the candidate, which is a target with one of its credentials."""

    def __init__(self, max_known: int = _MAX_KNOWN) -> None:
        self._max_known = max_known
        self._reported: OrderedDict[Hashable, _Reported] = OrderedDict()  # the oldest report first

    def __len__(self) -> int:
        return len(self._reported)

    def note_headers(self, key: Hashable, headers: Mapping[str, str], now: float) -> None:
        """The head of a response, whatever its status."""
        report = read_rate_limits(headers)
        if report is not None:
            self.note(key, report, now)

    def note(self, key: Hashable, report: RateLimitReport, now: float) -> None:
        self._reported[key] = _Reported(report, now)
        self._reported.move_to_end(key)
        if len(self._reported) > self._max_known:
            self._reported.popitem(last=False)

    def note_sent(self, key: Hashable, tokens: int) -> None:
        """A request that the next report includes, at the latest."""
        known = self._reported.get(key)
        if known is not None:
            known.requests += 1
            known.tokens += tokens

    def has_room(self, key: Hashable, tokens: int, now: float) -> bool:
        """False: by the last report the provider would refuse a request of so many tokens."""
        known = self._reported.get(key)
        if known is None:
            return True
        age_s = now - known.at
        if not 0 <= age_s < MAX_AGE_S:
            del self._reported[key]
            return True
        requests, buckets = known.report
        if requests is not None and _left(requests, known.requests, age_s) < 1:
            return False
        for bucket in buckets:
            used, needed = (known.tokens, tokens) if bucket.is_by_estimate else (0, 1)
            if _left(bucket, used, age_s) < needed:
                return False
        return True


def _left(bucket: Bucket, used: int, age_s: float) -> float:
    reset_s = UNKNOWN_RESET_S if bucket.reset_s is None else bucket.reset_s
    if age_s >= reset_s:
        return float("inf")  # as far as is known
    refilled = 0.0
    if bucket.limit is not None and bucket.limit > bucket.remaining:
        refilled = (bucket.limit - bucket.remaining) * age_s / reset_s
    return bucket.remaining - used + refilled
