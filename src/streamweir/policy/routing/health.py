"""The health of one candidate: healthy, ejected, or being probed.

    healthy --failures in a row--> ejected (doubled each time, at most 300 s) --time--> being probed
    being probed: one request at a time may try (a `Probe`). It succeeds: healthy. It fails: ejected, for longer.

How many failures, and for how long, is in `HealthSettings`.

A rate limit is not a failure: the candidate gets no requests for as long as it asked, and is then as before. Errors of
the caller or of the gateway say nothing about a candidate. Time is an argument; a clock that was set back behind the
beginning of a wait ends that wait.
"""

from enum import Enum
from typing import NamedTuple

from streamweir.core.errors import StreamweirError, UpstreamError

MAX_FAILURES = 5
FIRST_EJECTION_S = 30.0
MAX_EJECTION_S = 300.0
"""Unless the first ejection is configured to take longer."""
MAX_COOLDOWN_S = 120.0
MIN_COOLDOWN_S = 1.0
PROBE_LEASE_S = 300.0
"""A probe without a result is lost after this time."""
_NEWEST_WEIGHT = 0.2
_HALF_LIFE_S = 60.0

_NOT_A_FAILURE = frozenset({"upstream_rate_limited", "upstream_model_not_found"})
"""The target answered: with a rate limit, or about a model name that a caller may have made up."""


class TargetId(NamedTuple):
    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


class Candidate(NamedTuple):
    """What one attempt asks: a target, with one of the credentials of its provider."""

    target: TargetId
    credential: str = ""
    """The name of the credential. Empty: the provider has only one."""


class Probe(Candidate):
    """A candidate that is being probed, for the one request that may try it. The object itself is the permission."""

    __slots__ = ()


class HealthSettings(NamedTuple):
    max_failures: int = MAX_FAILURES
    """In a row, until it is ejected. 0: it never is."""
    ejection_s: float = FIRST_EJECTION_S
    """Of the first ejection; each further one takes twice as long as the one before."""
    cooldown_s: float = MIN_COOLDOWN_S
    """After a rate limit that does not say for how long."""


DEFAULT_SETTINGS = HealthSettings()


class State(Enum):
    HEALTHY = "well"
    PROBING = "probation"
    UNAVAILABLE = "away"


class Span(NamedTuple):
    since: float
    duration_s: float

    def covers(self, now: float) -> bool:
        return self.since <= now < self.since + self.duration_s

    def remaining_s(self, now: float) -> float:
        return self.since + self.duration_s - now if self.covers(now) else 0.0


_NEVER = Span(0.0, 0.0)


class Health:
    __slots__ = (
        "_cooldown",
        "_ejection",
        "_ejections",
        "_failures",
        "_measured_at",
        "_probe",
        "_probing",
        "error",
        "failed_at",
        "running",
        "settings",
        "times_ejected",
        "ttft_s",
    )

    def __init__(self, settings: HealthSettings = DEFAULT_SETTINGS) -> None:
        self.settings = settings
        """A reload may replace them."""
        self.times_ejected = 0
        """The total. `_ejections`, which decides for how long it is ejected, is reset by a success."""
        self.ttft_s: float | None = None
        """The recent time to the first token: a decaying mean."""
        self.running = 0
        """Attempts that have begun, and whose end was not reported yet."""
        self.error: str | None = None
        """The code of its last failure, also if it has answered since."""
        self.failed_at = 0.0
        self._measured_at = 0.0
        self._failures = 0
        self._ejections = 0
        self._ejection: Span | None = None
        self._cooldown = _NEVER
        self._probe: Probe | None = None
        self._probing = _NEVER

    def state(self, now: float) -> State:
        if self._cooldown is not _NEVER and self._cooldown.covers(now):
            return State.UNAVAILABLE
        if self._ejection is None:
            return State.HEALTHY
        is_unavailable = self._ejection.covers(now) or self._is_probed(now)
        return State.UNAVAILABLE if is_unavailable else State.PROBING

    def is_limited(self, now: float) -> bool:
        """Unavailable only because of a rate limit."""
        return self._cooldown.covers(now) and self._ejection is None

    @property
    def is_unknown(self) -> bool:
        """Nothing was reported of it that is of interest."""
        is_calm = self._ejection is None and self._cooldown is _NEVER and self.error is None
        return is_calm and self.ttft_s is None and not self.running and not self.times_ejected

    @property
    def ejected_at(self) -> float | None:
        """When it was ejected last. None: it is not ejected, or has answered since."""
        return self._ejection.since if self._ejection is not None else None

    def remaining_s(self, now: float) -> float:
        """The time until it is available, as far as is known."""
        ejected_s = self._ejection.remaining_s(now) if self._ejection is not None else 0.0
        probed_s = 1.0 if self._is_probed(now) else 0.0  # its answer may come at any moment
        return max(self._cooldown.remaining_s(now), ejected_s, probed_s)

    def begin(self, candidate: Candidate, now: float) -> Candidate | None:
        """The candidate as it must be reported later (a `Probe` if it is being probed); None: it is unavailable."""
        state = self.state(now)
        if state is State.UNAVAILABLE:
            return None
        self.running += 1
        if state is State.HEALTHY:
            return candidate
        self._probe = Probe(*candidate)
        self._probing = Span(now, PROBE_LEASE_S)
        return self._probe

    def answered(self, now: float, ttft_s: float) -> None:
        """The first token arrived: it works again. Whether it also completes its answer is reported later."""
        self._measure(now, ttft_s)
        self._ejection = self._probe = None

    def succeeded(self, now: float, ttft_s: float | None) -> None:
        if ttft_s is not None:
            self._measure(now, ttft_s)
        self._end_attempt()
        self._failures = self._ejections = 0
        self._ejection = self._probe = None

    def failed(self, candidate: Candidate, now: float, error: StreamweirError) -> bool:
        """True: this failure ejects it."""
        was_probe = self._probe is candidate
        self.abandoned(candidate)
        if not isinstance(error, UpstreamError) or error.is_of_caller:
            return False
        self.error, self.failed_at = error.code, now
        if error.retry_after_s is not None or error.code == "upstream_rate_limited":
            asked_s = error.retry_after_s
            wait_s = self.settings.cooldown_s if asked_s is None else min(max(asked_s, MIN_COOLDOWN_S), MAX_COOLDOWN_S)
            self._cooldown = Span(now, max(wait_s, self._cooldown.remaining_s(now)))
        if error.code in _NOT_A_FAILURE or not self.settings.max_failures:
            return False
        if self._ejection is not None:
            # Failures of attempts that began before the ejection are not counted.
            if not was_probe and (self._ejection.covers(now) or self._is_probed(now)):
                return False
        else:
            self._failures += 1
            if self._failures < self.settings.max_failures:
                return False
        self._eject(now)
        return True

    def refused(self, now: float) -> bool:
        """Its credential may not use this model: there is no need to wait for more failures. True: it is ejected."""
        is_known = self._ejection is not None and (self._ejection.covers(now) or self._is_probed(now))
        if is_known or not self.settings.max_failures:
            return False
        self._eject(now)
        return True

    def abandoned(self, candidate: Candidate) -> None:
        self._end_attempt()
        if self._probe is candidate:
            self._probe = None

    def _end_attempt(self) -> None:
        """Not below 0: an attempt may be made without `begin`, and one that began before its health was kept."""
        if self.running:
            self.running -= 1

    def _eject(self, now: float) -> None:
        first_s = self.settings.ejection_s
        duration_s = min(first_s * 2.0 ** min(self._ejections, 10), max(first_s, MAX_EJECTION_S))
        self._ejection = Span(now, duration_s)
        self._ejections += 1
        self.times_ejected += 1
        self._failures = 0

    def _is_probed(self, now: float) -> bool:
        return self._probe is not None and self._probing.covers(now)

    def _measure(self, now: float, ttft_s: float) -> None:
        if self.ttft_s is None:
            self.ttft_s = ttft_s
        else:
            rest = (1 - _NEWEST_WEIGHT) * 0.5 ** (max(now - self._measured_at, 0.0) / _HALF_LIFE_S)
            self.ttft_s = rest * self.ttft_s + (1 - rest) * ttft_s
        self._measured_at = now
