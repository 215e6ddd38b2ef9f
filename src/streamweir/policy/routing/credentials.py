"""The credentials (API keys) of a provider that has several: which are available, and in which order they are tried.

    available --the provider refuses it--> ejected (600 s, doubled each time, at most 3600 s) --time--> being probed
    being probed: one request at a time may try it. It is answered: available. It is refused: ejected, for longer.

A credential is refused, for all models, by a 401 and by a quota that is used up; a 403 refuses it only if it names the
key or the account (`StreamweirError.is_of_account`, `providers.failure`). Any other 403 may be about one model, and a
rate limit is: these are of the candidate (`policy.routing.health`). A text can quote the request: what is known from
one only counts when the same request was answered with another credential (`Router.confirmed`). If all credentials are
ejected, one request at a time may probe one of them, every 30 s: the provider may have refused them by mistake
(docs/decisions/0035).

Only a probe makes a credential available again: an answer that began before it was refused proves nothing. Pure: time
and random values are arguments.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from streamweir.policy.routing.health import PROBE_LEASE_S, Candidate, Span, State
from streamweir.policy.routing.strategy import Random, shuffle

FIRST_EJECTION_S = 600.0
MAX_EJECTION_S = 3600.0
EARLY_PROBE_S = 30.0
"""If all credentials are ejected: the time between two probes."""


class WeightedName(NamedTuple):
    name: str
    weight: int = 1


class CredentialChange(NamedTuple):
    """A credential was ejected, or is available again: for the log and the metrics."""

    provider: str
    credential: str
    reason: str | None
    """The code of the error. None: it is available again."""
    ejected_s: float = 0.0


class CredentialHealth:
    __slots__ = ("_ejections", "_probe", "_probing", "ejection", "error", "refused_at", "times_ejected", "tried")

    def __init__(self) -> None:
        self.ejection: Span | None = None
        self.times_ejected = 0
        """The total. `_ejections`, which decides for how long it is ejected, is reset when it is available again."""
        self.error: str | None = None
        """The code with which it was refused last, also if it was answered since."""
        self.refused_at = 0.0
        self.tried = Span(0.0, 0.0)
        """After it was refused, or a probe began: the time without a further early probe."""
        self._ejections = 0
        self._probe: Candidate | None = None
        self._probing = Span(0.0, 0.0)

    def is_probed(self, now: float) -> bool:
        return self._probe is not None and self._probing.covers(now)

    def begin_probe(self, candidate: Candidate, now: float) -> None:
        self._probe, self._probing = candidate, Span(now, PROBE_LEASE_S)
        self.tried = Span(now, EARLY_PROBE_S)

    def end_probe(self, candidate: Candidate) -> bool:
        """Whether it was this one."""
        if self._probe is not candidate:
            return False
        self._probe = None
        return True

    def restore(self) -> None:
        self.ejection, self._ejections = None, 0

    def refuse(self, now: float, *, was_probe: bool) -> bool:
        """True: it is ejected now, and was not before, or for longer."""
        if self.ejection is not None:
            if was_probe:
                self.tried = Span(now, EARLY_PROBE_S)
            if not was_probe or self.ejection.covers(now):
                return False  # an attempt that began before the ejection, or an early probe
        duration_s = min(FIRST_EJECTION_S * 2.0 ** min(self._ejections, 10), MAX_EJECTION_S)
        self.ejection, self.tried = Span(now, duration_s), Span(now, EARLY_PROBE_S)
        self._ejections += 1
        self.times_ejected += 1
        return True


Renaming = Callable[[str, str], str | None]
"""The name that a credential (provider, name) has after a reload. None: its secret is not used any more."""
Secrets = Mapping[str, Mapping[str, str]]
"""By the names of the provider and the credential."""


def renaming(before: Secrets, now: Secrets) -> Renaming:
    """Health belongs to the secret, whatever its name."""
    names: dict[tuple[str, str], str] = {}
    for provider, secrets in now.items():
        name_of = {secret: name for name, secret in secrets.items()}
        for name, secret in before.get(provider, {}).items():
            if secret in name_of:
                names[provider, name] = name_of[secret]
    return lambda provider, name: names.get((provider, name))


class CredentialPool:
    """The credentials of one provider."""

    def __init__(self, provider: str, credentials: Sequence[WeightedName]) -> None:
        self.provider = provider
        self.credentials = tuple(credentials)
        self._health = {each.name: CredentialHealth() for each in credentials}
        self._weights = {each.name: each.weight for each in credentials}

    def adopt(self, old: "CredentialPool", renamed: Renaming) -> None:
        """Takes over the health of the credentials of `old`."""
        for name, health in old._health.items():
            now_named = renamed(self.provider, name)
            if now_named in self._health:
                self._health[now_named] = health

    def names(self, random: Random | None = None) -> list[str]:
        """In a random order by weight, or (None) in the order of the configuration."""
        ordered = self.credentials if random is None else shuffle(self.credentials, random)
        return [each.name for each in ordered]

    def weight_of(self, candidate: Candidate) -> float:
        return self._weights[candidate.credential]

    def state(self, name: str, now: float) -> State:
        health = self._health.get(name)
        if health is None:  # what is remembered of a conversation can be older than the configuration
            return State.UNAVAILABLE
        if health.ejection is None:
            return State.HEALTHY
        if health.is_probed(now):
            return State.UNAVAILABLE
        is_due = not health.ejection.covers(now) or self._early_wait_s(name, now) == 0.0
        return State.PROBING if is_due else State.UNAVAILABLE

    def remaining_s(self, name: str, now: float) -> float:
        """The time until it is available or may be probed, as far as is known."""
        health = self._health[name]
        if health.ejection is None:
            return 0.0
        if health.is_probed(now):
            return 1.0  # its answer may come at any moment
        remaining_s, early_s = health.ejection.remaining_s(now), self._early_wait_s(name, now)
        return remaining_s if early_s is None else min(remaining_s, early_s)

    def begin_probe(self, candidate: Candidate, now: float) -> None:
        """`candidate`: the object with which the result is reported."""
        self._health[candidate.credential].begin_probe(candidate, now)

    def answered(self, candidate: Candidate) -> CredentialChange | None:
        health = self._health.get(candidate.credential)
        if health is None or not health.end_probe(candidate) or health.ejection is None:
            return None
        health.restore()
        return CredentialChange(self.provider, candidate.credential, None)

    def refused(
        self, candidate: Candidate, now: float, reason: str, *, is_confirmed: bool = False
    ) -> CredentialChange | None:
        """`is_confirmed`: with another credential the same request was answered. It counts as the result of a probe."""
        health = self._health.get(candidate.credential)
        if health is not None:
            health.error, health.refused_at = reason, now
        if health is None or not health.refuse(now, was_probe=health.end_probe(candidate) or is_confirmed):
            return None
        assert health.ejection is not None  # noqa: S101 (it was just ejected)
        return CredentialChange(self.provider, candidate.credential, reason, health.ejection.duration_s)

    def abandoned(self, candidate: Candidate) -> None:
        """Neither answered nor refused: another error, or the caller disconnected. Releases the probe."""
        health = self._health.get(candidate.credential)
        if health is not None:
            health.end_probe(candidate)

    def known(self) -> Iterator[tuple[WeightedName, CredentialHealth]]:
        yield from ((each, self._health[each.name]) for each in self.credentials)

    def _early_wait_s(self, name: str, now: float) -> float | None:
        """The time until it may be probed before its ejection is over. None: another one is available, or is next."""
        every = self._health.values()
        if any(each.ejection is None or each.is_probed(now) for each in every):
            return None
        first = min(self._health, key=lambda each: self._health[each].tried.since)
        return max(each.tried.remaining_s(now) for each in every) if name == first else None
