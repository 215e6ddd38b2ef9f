"""Whether to try again, with which candidate, and after how long.

Asked only while nothing has been sent to the caller. There are two kinds of further attempts. A failover, to another
candidate, helps against every problem of one; the number of attempts of the request bounds it, and the health and the
limits of that candidate. A repeat, at the same provider, helps only against temporary problems; a budget over all
requests limits the extra load, so that repeats do not overload a failing provider (docs/spec/failures.md U10).
"""

from collections.abc import Callable

from streamweir.core.errors import CallerError, GatewayFault, StreamweirError, UpstreamError
from streamweir.policy.limits.window import SlidingCount
from streamweir.policy.routing.health import MIN_COOLDOWN_S

SHORT_WAIT_S = 2.0
"""The longest `Retry-After` that is worth waiting out while a caller waits."""
_BASE_S = 0.1
_MAX_S = 2.0

_NOT_TARGET_SPECIFIC = frozenset({"response_too_large", "stream_deadline_exceeded", "no_available_deployment"})
_TRANSIENT = frozenset(
    {
        "upstream_connect_failed",
        "upstream_dns_failed",
        "upstream_server_error",
        "upstream_overloaded",
        "upstream_empty_response",
        "upstream_stream_truncated",
        "upstream_stream_reset",
    }
)
_REFUSED_CREDENTIAL = frozenset({"upstream_auth_failed", "upstream_quota_exhausted"})
_OF_CREDENTIAL = _REFUSED_CREDENTIAL | {"upstream_rate_limited"}
_NOT_OF_PROVIDER = _OF_CREDENTIAL | {"upstream_model_not_found"}


def is_of_credential(error: StreamweirError) -> bool:
    """The same target could answer with another credential."""
    return error.code in _OF_CREDENTIAL


def is_refusal_of_credential(error: StreamweirError) -> bool:
    """The credential may not be used, at all or for this model; unless the error was about the request."""
    return error.code in _REFUSED_CREDENTIAL


def is_of_provider(error: StreamweirError) -> bool:
    """The provider's other models probably have the same problem: to ask it again is a repeat."""
    return error.code not in _NOT_OF_PROVIDER and not isinstance(error, CallerError)


def may_try_elsewhere(error: StreamweirError) -> bool:
    """Another target could answer: the problem is the target's, not the request's or the gateway's."""
    if isinstance(error, UpstreamError):
        return error.code not in _NOT_TARGET_SPECIFIC
    return isinstance(error, GatewayFault) and error.code == "overloaded"  # no connection to it was free


def may_try_again(error: StreamweirError) -> bool:
    """The same target could answer a moment later."""
    if error.code == "upstream_rate_limited":
        return error.retry_after_s is not None and error.retry_after_s <= SHORT_WAIT_S
    return error.code in _TRANSIENT and (error.retry_after_s is None or error.retry_after_s <= SHORT_WAIT_S)


def error_to_show(earlier: StreamweirError | None, latest: StreamweirError) -> StreamweirError:
    """Of the errors of two attempts, the one for the caller: the latest, unless that says that a retry cannot help and
    the one before says what can: a retry, or another prompt. A provider that refuses the gateway's key is no reason
    for a caller to give up."""
    is_final = isinstance(latest, UpstreamError) and not latest.spec.may_retry
    if not is_final or earlier is None:
        return latest
    return earlier if earlier.spec.may_retry or isinstance(earlier, CallerError) else latest


def backoff_s(attempt: int, random: Callable[[], float], retry_after_s: float | None = None) -> float:
    """The wait before the extra attempt number `attempt` (the first is 0): full jitter, after the pause that the
    upstream asked for, if any. `random` returns numbers from 0 up to 1."""
    pause_s = 0.0 if retry_after_s is None else max(retry_after_s, MIN_COOLDOWN_S)
    return pause_s + random() * min(_MAX_S, _BASE_S * 2.0 ** min(attempt, 10))


class RetryBudget:
    """Repeats in the last `window_s`: at most `share` of the requests, or `minimum` if that is more."""

    def __init__(self, share: float = 0.2, minimum: int = 10, window_s: float = 10.0) -> None:
        self._share = share
        self._minimum = minimum
        self._requests = SlidingCount(window_s, window_s / 20)
        self._repeats = SlidingCount(window_s, window_s / 20)

    def note_request(self, now: float) -> None:
        self._requests.add(now)

    def has_budget(self, now: float) -> bool:
        needed = self._repeats.count(now) + 1
        return needed <= self._minimum or needed <= self._share * self._requests.count(now)

    def take(self, now: float) -> bool:
        """Takes one from the budget, if there is one."""
        if not self.has_budget(now):
            return False
        self._repeats.add(now)
        return True
