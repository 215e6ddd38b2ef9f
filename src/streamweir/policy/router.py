"""Which candidates of a route are tried, in which order, and the health of each.

`order` returns the available candidates, by the route's strategy; the first of them is taken by that call, every
further one must be taken with `take` before it is tried. Each candidate that was tried is reported once, with the same
object: `succeeded`, `failed` or `abandoned`. This module only decides; time and random values are arguments. Callers
choose model names, so what is kept about them is bounded.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby

from streamweir.core.errors import StreamweirError, UpstreamError
from streamweir.policy.affinity import Affinity, Preference
from streamweir.policy.health import DEFAULT_SETTINGS, Candidate, Health, HealthSettings, State, TargetId
from streamweir.policy.route import Route, RouteTable, RouteTarget
from streamweir.policy.strategy import Measure, Measures, Random, arrange


def _unknown_cost(_: TargetId) -> None:
    return None


def _stage_of(entry: RouteTarget) -> int:
    return entry.stage


class Router:
    """`max_unrouted` bounds what is kept about targets without a route. Providers in `scripted` fail on purpose: if
    they are requested by name, they are never ejected."""

    def __init__(
        self,
        routes: RouteTable,
        provider_names: Collection[str],
        *,
        scripted: Collection[str] = (),
        max_unrouted: int = 10_000,
        settings_of: Callable[[TargetId], HealthSettings] = lambda _: DEFAULT_SETTINGS,
        affinity_s: float = 0.0,
    ) -> None:
        self.affinity: Affinity[Candidate] = Affinity(affinity_s)
        self._providers = frozenset(provider_names)
        self._settings_of = settings_of
        self._routed = {
            candidate: Health(settings_of(target)) for target in routes.targets() for candidate in self._of(target)
        }
        self._unrouted: OrderedDict[Candidate, Health] = OrderedDict()  # only those that have failed
        self._scripted = frozenset(scripted)
        self._max_unrouted = max_unrouted

    def adopt(self, old: "Router", changed: Collection[str | TargetId] = ()) -> None:
        """Takes over the health of the candidates of `old`. Those of `changed` providers and targets start without."""
        self.affinity.adopt(old.affinity)
        for candidate, health in (*old._unrouted.items(), *old._routed.items()):
            provider = candidate.target.provider
            if provider in changed or candidate.target in changed or provider not in self._providers:
                continue
            health.settings = self._settings_of(candidate.target)
            if candidate in self._routed:
                self._routed[candidate] = health
            else:
                self._keep(candidate, health)

    def has_equals(self, route: Route) -> bool:
        """Whether a conversation can choose: there are targets or credentials that the operator has not put in an
        order."""
        if not route.affinity or not self.affinity.hold_s:
            return False
        return any(len(group.targets) > 1 and group.strategy != "priority" for group in route.groups)

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

        `conversation`: the one that the request belongs to, if it chooses (`has_equals`). `has_room`: by what its
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
            for candidate in self._of(entry.target)
            if self._state(candidate, now) is not State.UNAVAILABLE
        ]
        if has_room is not None and len(candidates) > 1:
            candidates.sort(key=has_room, reverse=True)  # those with room first, else in the same order
        if candidates:
            candidates[0] = self.take(candidates[0], now) or candidates[0]
        return candidates

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
        health = self._find(candidate)
        return health.begin(candidate, now) if health is not None else candidate

    def retry_after_s(self, route: Route, now: float) -> float:
        """The time until the first of the route's candidates is available."""
        found = self._health_of_all(route)
        return min((health.remaining_s(now) if health is not None else 0.0 for health in found), default=0.0)

    def unavailable(self, route: Route, now: float) -> UpstreamError:
        """The error for the caller if `order` is empty: all candidates limit their rate, or none is available."""
        found = self._health_of_all(route)
        wait_s = self.retry_after_s(route, now)
        if all(health is not None and health.is_limited(now) for health in found):
            return UpstreamError("upstream_rate_limited", "The provider's rate limit is reached.", retry_after_s=wait_s)
        message = "None of the model's targets is available at the moment."
        return UpstreamError("no_available_deployment", message, retry_after_s=wait_s)

    def answered(self, candidate: Candidate, now: float, ttft_s: float) -> None:
        """The first token has arrived. May be reported before the end: a probe need not finish to succeed."""
        health = self._find(candidate)
        if health is not None:
            health.answered(now, ttft_s)

    def succeeded(self, candidate: Candidate, now: float, ttft_s: float | None = None) -> None:
        """`ttft_s`: if it was not reported by `answered`."""
        health = self._find(candidate)
        if health is not None:
            health.succeeded(now, ttft_s)

    def failed(self, candidate: Candidate, now: float, error: StreamweirError) -> bool:
        """True: this failure ejects the candidate for a while."""
        health = self._find(candidate)
        if health is None:
            if candidate.target.provider in self._scripted:
                return False
            health = Health(self._settings_of(candidate.target))
            self._keep(Candidate(*candidate), health)
        return health.failed(candidate, now, error)

    def abandoned(self, candidate: Candidate) -> None:
        """Neither success nor failure: the caller disconnected, or it was not tried. Releases the probe, if it was
        one."""
        health = self._find(candidate)
        if health is not None:
            health.abandoned(candidate)

    def known(self) -> Iterator[tuple[Candidate, Health, bool]]:
        """The known candidates, and whether a route names their target. Other names were made up by callers."""
        yield from ((candidate, health, True) for candidate, health in self._routed.items())
        yield from ((candidate, health, False) for candidate, health in self._unrouted.items())

    def health_of(self, candidate: Candidate) -> Health | None:
        """Without counting it as a use. None: nothing is known, so the candidate is healthy."""
        return self._routed.get(candidate) or self._unrouted.get(candidate)

    def is_unavailable(self, candidate: Candidate, now: float) -> bool:
        return self._state(candidate, now) is State.UNAVAILABLE

    def _of(self, target: TargetId) -> tuple[Candidate, ...]:
        """The candidates of a target: one for each credential of its provider."""
        return (Candidate(target),)

    def _has_available(self, entry: RouteTarget, now: float) -> bool:
        return any(self._state(candidate, now) is not State.UNAVAILABLE for candidate in self._of(entry.target))

    def _count_running(self, target: TargetId) -> int:
        return sum(health.running for each in self._of(target) if (health := self._find(each)) is not None)

    def _ttft_s(self, target: TargetId) -> float | None:
        """The recent time to the first token of a target: the shortest of its candidates."""
        known = [health.ttft_s for each in self._of(target) if (health := self._find(each)) is not None]
        return min([measured_s for measured_s in known if measured_s is not None], default=None)

    def _health_of_all(self, route: Route) -> list[Health | None]:
        return [
            self._find(candidate)
            for group in route.groups
            for entry in group.targets
            for candidate in self._of(entry.target)
        ]

    def _state(self, candidate: Candidate, now: float) -> State:
        health = self._find(candidate)
        return health.state(now) if health is not None else State.HEALTHY

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
