"""Which candidates of a route are tried, in which order, and the health of each.

`order` returns the available candidates, by the route's strategy; the first of them is taken by that call, every
further one must be taken with `take` before it is tried. Each candidate that was tried is reported once, with the same
object: `succeeded`, `failed` or `abandoned`. Two more reports may come: `answered` before it, and `confirmed` after
`failed`. This module only decides; time and random values are arguments. Callers choose model names, so what is kept
about them is bounded.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Literal, get_args

from streamweir.core.errors import StreamweirError, UpstreamError
from streamweir.policy.routing.affinity import Affinity, Preference
from streamweir.policy.routing.credentials import CredentialChange, CredentialPool, Renaming, WeightedName
from streamweir.policy.routing.health import DEFAULT_SETTINGS, Candidate, Health, HealthSettings, Probe, State, TargetId
from streamweir.policy.routing.route import Route, RouteTable, RouteTarget
from streamweir.policy.routing.strategy import Measure, Measures, Random, arrange

TargetState = Literal["available", "probing", "paused", "ejected"]
TARGET_STATES: tuple[TargetState, ...] = get_args(TargetState)
"""`available`: it gets requests. `probing`: the next request tries it again, or one does so now. `paused`: its provider
asked for a pause. `ejected`: it has failed, and gets none for a while."""


def _unknown_cost(_: TargetId) -> None:
    return None


def _stage_of(entry: RouteTarget) -> int:
    return entry.stage


def _unchanged(_: str, credential: str) -> str | None:
    return credential


class Router:
    """`max_unrouted` bounds what is kept about targets without a route. Providers in `scripted` fail on purpose: if
    they are requested by name, they are never ejected. `credentials`: of the providers with several."""

    def __init__(
        self,
        routes: RouteTable,
        provider_names: Collection[str],
        *,
        scripted: Collection[str] = (),
        max_unrouted: int = 10_000,
        settings_of: Callable[[TargetId], HealthSettings] = lambda _: DEFAULT_SETTINGS,
        affinity_s: float = 0.0,
        credentials: Mapping[str, Sequence[WeightedName]] = MappingProxyType({}),
    ) -> None:
        self.affinity: Affinity[Candidate] = Affinity(affinity_s)
        self._providers = frozenset(provider_names)
        self._settings_of = settings_of
        self.pools = {name: CredentialPool(name, several) for name, several in credentials.items()}
        self.changes: list[CredentialChange] = []
        """What has happened to credentials, until it is reported and removed."""
        self.answered_at: dict[str, float] = {}
        """When each provider has answered last."""
        self._routed = {
            candidate: Health(settings_of(target)) for target in routes.targets() for candidate in self._of(target)
        }
        self._unrouted: OrderedDict[Candidate, Health] = OrderedDict()  # only those that have failed
        self._scripted = frozenset(scripted)
        self._max_unrouted = max_unrouted

    def adopt(
        self,
        old: "Router",
        changed: Collection[str | TargetId] = (),
        renamed: Renaming = _unchanged,
    ) -> None:
        """Takes over the health of the candidates of `old`. Those of `changed` providers and targets start without."""
        self.affinity.adopt(old.affinity)
        self.answered_at = old.answered_at  # requests that began before report to `old`
        for candidate, health in (*old._unrouted.items(), *old._routed.items()):
            provider, credential = candidate.target.provider, renamed(candidate.target.provider, candidate.credential)
            if provider in changed or candidate.target in changed or provider not in self._providers:
                continue
            if credential is None:
                continue
            candidate = Candidate(candidate.target, credential)
            health.settings = self._settings_of(candidate.target)
            if candidate in self._routed:
                self._routed[candidate] = health
            else:
                self._keep(candidate, health)
        for provider, pool in old.pools.items():
            if provider not in changed and provider in self.pools:
                self.pools[provider].adopt(pool, renamed)

    def uses_affinity(self, route: Route) -> bool:
        """Whether a conversation chooses: some targets or credentials are in no order of the operator."""
        if not route.affinity or not self.affinity.hold_s:
            return False
        if len(route.targets) == 1 and not route.reachable:
            return route.targets[0].target.provider in self.pools
        return any(map(self._is_unordered, (route, *route.reachable)))

    def order(
        self,
        route: Route,
        now: float,
        random: Random,
        conversation: bytes | None = None,
        has_room: Callable[[Candidate], bool] | None = None,
        cost: Measure = _unknown_cost,
        without: Collection[TargetId] = (),
    ) -> list[Candidate]:
        """The candidates to try, best first; empty: all are unavailable.

        `conversation`: the one that the request belongs to, if it chooses (`uses_affinity`). `has_room`: by what its
        provider reports, a candidate can take the request. Others are tried last. `cost`: what a target costs for this
        request. `without`: targets that are left out.
        """
        preference = self._preference_of(conversation, now) if conversation is not None else None
        entries: Sequence[RouteTarget] = route.targets
        if len(entries) != 1 or route.chain or without:
            measures = Measures(self._ttft_s, self._count_running, cost)
            entries = self._arrange(route, now, random, measures, preference, without)
        candidates = [
            candidate
            for entry in entries
            for candidate in self._of(entry.target, random, preference)
            if self._state(candidate, now) is not State.UNAVAILABLE
        ]
        if has_room is not None and len(candidates) > 1:
            candidates.sort(key=has_room, reverse=True)  # those with room first, else in the same order
        if candidates:
            candidates[0] = self.take(candidates[0], now) or candidates[0]
        return candidates

    def _is_unordered(self, group: Route) -> bool:
        if len(group.targets) > 1 and group.strategy != "priority":
            return True
        return any(entry.target.provider in self.pools for entry in group.targets)

    def _preference_of(self, conversation: bytes, now: float) -> Preference:
        recent = self.affinity.recent(conversation, now)
        return Preference(conversation, [each for each in recent if self._state(each, now) is not State.UNAVAILABLE])

    def _arrange(
        self,
        route: Route,
        now: float,
        random: Random,
        measures: Measures,
        preference: Preference | None,
        without: Collection[TargetId],
    ) -> list[RouteTarget]:
        """The available targets: stage by stage, and after those of the route those of its chain."""
        arranged: list[RouteTarget] = []
        for group in route.groups:
            for _, stage in groupby(group.targets, _stage_of):
                available = [
                    entry for entry in stage if entry.target not in without and self._has_available(entry, now)
                ]
                arranged += arrange(group.strategy, available, random, measures, preference)
        return arranged

    def take(self, candidate: Candidate, now: float) -> Candidate | None:
        """The candidate as it must be reported later; None: it is unavailable, or another request is probing it."""
        pool, health = self.pools.get(candidate.target.provider), self._find(candidate)
        state = pool.state(candidate.credential, now) if pool is not None else State.HEALTHY
        if state is State.UNAVAILABLE:
            return None
        taken = health.begin(candidate, now) if health is not None else candidate
        if pool is None or state is State.HEALTHY or taken is None:
            return taken
        probe = taken if isinstance(taken, Probe) else Probe(*taken)
        pool.begin_probe(probe, now)
        return probe

    def retry_after_s(self, route: Route, now: float) -> float:
        """The time until the first of the route's candidates is available."""
        return min((self.wait_of(each, self._find(each), now) for each in self._of_all(route)), default=0.0)

    def unavailable(self, route: Route, now: float) -> UpstreamError:
        """The error for the caller if `order` is empty: all candidates limit their rate, or none is available."""
        found = [self._find(each) for each in self._of_all(route) if not self._is_refused(each, now)]
        wait_s = self.retry_after_s(route, now)
        if found and all(health is not None and health.is_limited(now) for health in found):
            return UpstreamError("upstream_rate_limited", "The provider's rate limit is reached.", retry_after_s=wait_s)
        message = "None of the model's targets is available at the moment."
        return UpstreamError("no_available_deployment", message, retry_after_s=wait_s)

    def answered(self, candidate: Candidate, now: float, ttft_s: float) -> None:
        """The first token has arrived. May be reported before the end: a probe need not finish to succeed."""
        self.answered_at[candidate.target.provider] = now
        health = self._find(candidate)
        if health is not None:
            health.answered(now, ttft_s)
        if self.pools:
            self._restore(candidate)

    def succeeded(self, candidate: Candidate, now: float, ttft_s: float | None = None) -> None:
        """`ttft_s`: if it was not reported by `answered`."""
        self.answered_at[candidate.target.provider] = now
        health = self._find(candidate)
        if health is not None:
            health.succeeded(now, ttft_s)
        if self.pools:
            self._restore(candidate)

    def failed(self, candidate: Candidate, now: float, error: StreamweirError) -> bool:
        """True: this failure ejects the candidate for a while."""
        pool, health = self.pools.get(candidate.target.provider), self._find(candidate)
        if pool is not None:
            if error.is_of_account and not error.is_only_in_text:
                self._note_change(pool.refused(candidate, now, error.code))
                if health is not None:
                    health.abandoned(candidate)
                return False
            pool.abandoned(candidate)
        if health is None:
            if candidate.target.provider in self._scripted:
                return False
            health = Health(self._settings_of(candidate.target))
            self._keep(Candidate(*candidate), health)
        return health.failed(candidate, now, error)

    def confirmed(self, candidate: Candidate, now: float, error: StreamweirError) -> bool:
        """After `failed` with an error of the credential: the same target has answered the same request with another
        credential, so it was not about the request. True: this ejects the candidate for a while."""
        pool, health = self.pools.get(candidate.target.provider), self._find(candidate)
        if pool is None:
            return False
        if error.is_of_account:
            self._note_change(pool.refused(candidate, now, error.code, is_confirmed=True))
            return False
        return health is not None and health.refused(now)

    def abandoned(self, candidate: Candidate) -> None:
        """Neither success nor failure: the caller disconnected, or it was not tried. Releases the probe, if it was
        one."""
        health, pool = self._find(candidate), self.pools.get(candidate.target.provider)
        if health is not None:
            health.abandoned(candidate)
        if pool is not None:
            pool.abandoned(candidate)

    def known(self) -> Iterator[tuple[Candidate, Health, bool]]:
        """The known candidates, and whether a route names their target. Other names were made up by callers."""
        yield from ((candidate, health, True) for candidate, health in self._routed.items())
        yield from ((candidate, health, False) for candidate, health in self._unrouted.items())

    def target_states(self, now: float) -> Iterator[tuple[str, str, TargetState]]:
        """For each target with a route: the provider, `{provider}/{model}`, and its state."""
        for target in dict.fromkeys(candidate.target for candidate in self._routed):
            state, _, _ = self.summary_of(target, now)
            if state is not State.UNAVAILABLE:
                yield target.provider, str(target), "available" if state is State.HEALTHY else "probing"
                continue
            healths = [self.health_of(each) for each in self._of(target) if not self._is_refused(each, now)]
            is_paused = any(health is not None and health.is_limited(now) for health in healths)
            yield target.provider, str(target), "paused" if is_paused else "ejected"

    def credentials(self, now: float) -> Iterator[tuple[str, str, bool]]:
        """For each credential of a provider with several: the provider, its name, and whether it is available."""
        for pool in self.pools.values():
            yield from ((pool.provider, name, pool.state(name, now) is State.HEALTHY) for name in pool.names())

    def failed_at(self) -> dict[str, float]:
        """Of providers with an ejected target or credential: when the last of them was ejected."""
        found: dict[str, float] = {}
        ejected = [(each.target.provider, health.ejected_at) for each, health, _ in self.known()]
        for pool in self.pools.values():
            ejected += [(pool.provider, each.ejection.since) for _, each in pool.known() if each.ejection is not None]
        for provider, at in ejected:
            if at is not None:
                found[provider] = max(at, found.get(provider, at))
        return found

    def health_of(self, candidate: Candidate) -> Health | None:
        """Without counting it as a use. None: nothing is known, so the candidate is healthy."""
        return self._routed.get(candidate) or self._unrouted.get(candidate)

    def is_unavailable(self, candidate: Candidate, now: float) -> bool:
        return self._state(candidate, now) is State.UNAVAILABLE

    def wait_of(self, candidate: Candidate, health: Health | None, now: float) -> float:
        """The time until it is available, as far as is known."""
        pool = self.pools.get(candidate.target.provider)
        own_s = health.remaining_s(now) if health is not None else 0.0
        return own_s if pool is None else max(own_s, pool.remaining_s(candidate.credential, now))

    def summary_of(self, target: TargetId, now: float) -> tuple[State, float, float | None]:
        """Of all its candidates: the best state, the time until one is available, and the time to the first token."""
        found = [(each, self.health_of(each)) for each in self._of(target)]
        states = {self.state_of(candidate, health, now) for candidate, health in found}
        state = next(each for each in (State.HEALTHY, State.PROBING, State.UNAVAILABLE) if each in states)
        wait_s = min(self.wait_of(candidate, health, now) for candidate, health in found)
        known = [health.ttft_s for _, health in found if health is not None and health.ttft_s is not None]
        return state, wait_s, min(known, default=None)

    def pick(self, target: TargetId, now: float, random: Random) -> Candidate:
        """For a call whose result is not reported: an available candidate of the target, if there is one."""
        candidates = self._of(target, random)
        return next((each for each in candidates if self._state(each, now) is State.HEALTHY), candidates[0])

    def _of(
        self, target: TargetId, random: Random | None = None, preference: Preference | None = None
    ) -> Sequence[Candidate]:
        """The candidates of a target: one for each credential of its provider, as the conversation prefers them, or in
        a random order by weight."""
        pool = self.pools.get(target.provider)
        if pool is None:
            return (Candidate(target),)
        candidates = [Candidate(target, name) for name in pool.names(None if preference else random)]
        return candidates if preference is None else preference.arrange_credentials(candidates, pool.weight_of)

    def _is_refused(self, candidate: Candidate, now: float) -> bool:
        pool = self.pools.get(candidate.target.provider)
        return pool is not None and pool.state(candidate.credential, now) is State.UNAVAILABLE

    def _restore(self, candidate: Candidate) -> None:
        """If this was the probe of a credential, it is available again."""
        pool = self.pools.get(candidate.target.provider)
        if pool is not None:
            self._note_change(pool.answered(candidate))

    def _note_change(self, change: CredentialChange | None) -> None:
        if change is not None:
            self.changes.append(change)

    def _has_available(self, entry: RouteTarget, now: float) -> bool:
        return any(self._state(candidate, now) is not State.UNAVAILABLE for candidate in self._of(entry.target))

    def _count_running(self, target: TargetId) -> int:
        return sum(health.running for each in self._of(target) if (health := self._find(each)) is not None)

    def _ttft_s(self, target: TargetId) -> float | None:
        """The recent time to the first token of a target: the shortest of its candidates."""
        known = [health.ttft_s for each in self._of(target) if (health := self._find(each)) is not None]
        return min([measured_s for measured_s in known if measured_s is not None], default=None)

    def _of_all(self, route: Route) -> list[Candidate]:
        return [candidate for group in route.groups for entry in group.targets for candidate in self._of(entry.target)]

    def _state(self, candidate: Candidate, now: float) -> State:
        health = self._find(candidate)
        if self.pools:
            return self.state_of(candidate, health, now)
        return health.state(now) if health is not None else State.HEALTHY

    def state_of(self, candidate: Candidate, health: Health | None, now: float) -> State:
        """Of its own state and that of its credential the worse one."""
        pool = self.pools.get(candidate.target.provider)
        own = health.state(now) if health is not None else State.HEALTHY
        if pool is None or own is State.UNAVAILABLE:
            return own
        state = pool.state(candidate.credential, now)
        return own if state is State.HEALTHY else state

    def _find(self, candidate: Candidate) -> Health | None:
        health = self._routed.get(candidate)
        if health is None:
            health = self._unrouted.get(candidate)
            if health is not None:
                self._unrouted.move_to_end(candidate)
        return health

    def _keep(self, candidate: Candidate, health: Health) -> None:
        self._unrouted[candidate] = health
        self._unrouted.move_to_end(candidate)
        if len(self._unrouted) > self._max_unrouted:
            self._unrouted.popitem(last=False)
