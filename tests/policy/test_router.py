"""In which order the candidates of a route are tried, and what is kept of how it went."""

from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations, permutations, product
from math import lcm

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.core.errors import UpstreamError
from streamweir.policy.routing.health import MAX_FAILURES, Candidate, Probe, State, TargetId
from streamweir.policy.routing.route import Route, RouteTable, RouteTarget, Strategy
from streamweir.policy.routing.router import Router

BROKEN = UpstreamError("upstream_server_error", "m")


def named(provider: str, model: str) -> Candidate:
    return Candidate(TargetId(provider, model))


def entry(candidate: Candidate, weight: int = 1) -> RouteTarget:
    return RouteTarget(candidate.target, weight)


A, B, C = (named("p", name) for name in "abc")


def chances(*values: float) -> Callable[[], float]:
    """Gives these, one after the other, and no more."""
    given_out: Iterator[float] = iter(values)
    return lambda: next(given_out)


NO_CHANCE = chances()


def route(strategy: Strategy = "priority", *targets: RouteTarget) -> Route:
    return Route("alias", targets or tuple(map(entry, (A, B, C))), strategy)


def router(*routes: Route) -> Router:
    return made(*(routes or (route(),)))


def made(*routes: Route, max_unrouted: int = 10_000, scripted: tuple[str, ...] = ()) -> Router:
    providers = {"p", "q"}
    return Router(RouteTable(routes, providers), providers, max_unrouted=max_unrouted, scripted=scripted)


def eject(router: Router, *candidates: Candidate, at: float = 0.0) -> None:
    for candidate in candidates:
        assert [router.failed(candidate, at, BROKEN) for _ in range(MAX_FAILURES)][-1]


def test_priority_is_the_order_of_the_file() -> None:
    router_ = router()
    assert router_.order(route(), 0.0, NO_CHANCE) == [A, B, C]
    eject(router_, A)
    assert router_.order(route(), 0.0, NO_CHANCE) == [B, C]
    assert router_.is_unavailable(A, 0.0)
    assert not router_.is_unavailable(B, 0.0)


def test_all_are_unavailable() -> None:
    router_ = router()
    eject(router_, A, at=0.0)
    eject(router_, B, at=5.0)
    eject(router_, C, at=9.0)
    assert router_.order(route(), 10.0, NO_CHANCE) == []
    assert router_.retry_after_s(route(), 10.0) == 20.0
    error = router_.unavailable(route(), 10.0)
    assert (error.code, error.retry_after_s) == ("no_available_deployment", 20.0)


def test_all_limit_their_rate() -> None:
    router_ = router()
    for target, wait_s in ((A, 9.0), (B, 7.0), (C, 8.0)):
        router_.failed(target, 0.0, UpstreamError("upstream_rate_limited", "m", retry_after_s=wait_s))
    assert router_.order(route(), 0.0, NO_CHANCE) == []
    error = router_.unavailable(route(), 1.0)
    assert (error.code, error.retry_after_s) == ("upstream_rate_limited", 6.0)
    eject(router_, A)
    assert router_.unavailable(route(), 1.0).code == "no_available_deployment"


def test_nothing_to_wait_for() -> None:
    assert router().retry_after_s(route(), 0.0) == 0.0
    assert router().retry_after_s(Route("p/x", (entry(named("p", "x")),)), 0.0) == 0.0


def test_the_first_choice_is_given_as_a_probe_to_one_caller() -> None:
    router_ = router()
    eject(router_, A)
    first, second = (router_.order(route(), 30.0, NO_CHANCE) for _ in range(2))
    assert first == [A, B, C]
    assert isinstance(first[0], Probe)
    assert second == [B, C]
    router_.abandoned(first[0])
    assert router_.order(route(), 30.0, NO_CHANCE) == [A, B, C]


def test_a_later_choice_is_taken_before_it_is_tried() -> None:
    router_ = router()
    eject(router_, B)
    first, second = (router_.order(route(), 30.0, NO_CHANCE) for _ in range(2))
    assert first == second == [A, B, C]
    assert not any(isinstance(target, Probe) for target in first)
    probe = router_.take(first[1], 30.0)
    assert isinstance(probe, Probe)
    assert router_.take(second[1], 30.0) is None
    assert router_.order(route(), 30.0, NO_CHANCE) == [A, C]
    router_.answered(probe, 31.0, 0.3)
    assert router_.take(second[1], 31.0) is second[1]
    assert router_.take(named("q", "new"), 31.0) == named("q", "new")


def test_a_target_ejected_meanwhile_is_not_taken() -> None:
    router_ = router()
    targets = router_.order(route(), 0.0, NO_CHANCE)
    eject(router_, B)
    assert router_.take(targets[1], 0.0) is None


def test_success_and_failure_reach_the_target() -> None:
    router_ = router()
    eject(router_, A)
    probe, *_ = router_.order(route(), 30.0, NO_CHANCE)
    assert router_.failed(probe, 30.0, BROKEN)
    assert router_.retry_after_s(Route("x", (entry(A),)), 30.0) == 60.0
    probe, *_ = router_.order(route(), 90.0, NO_CHANCE)
    router_.succeeded(probe, 90.0, 0.5)
    assert router_.order(route(), 90.0, NO_CHANCE) == [A, B, C]


def test_the_state_of_each_target_with_a_route() -> None:
    router_ = router()
    eject(router_, A, B, named("q", "no route"))
    router_.failed(C, 0.0, UpstreamError("upstream_rate_limited", "m", retry_after_s=90.0))
    assert list(router_.target_states(1.0)) == [
        ("p", "p/a", "ejected"),
        ("p", "p/b", "ejected"),
        ("p", "p/c", "paused"),
    ]
    probe, *_ = router_.order(route(), 30.0, NO_CHANCE)
    states = [("p", "p/a", "ejected"), ("p", "p/b", "probing"), ("p", "p/c", "paused")]
    assert list(router_.target_states(30.0)) == states, "one is tried again by one request alone, the other may be"
    router_.succeeded(probe, 31.0, 0.5)
    assert [state for _, _, state in router_.target_states(91.0)] == ["available", "probing", "available"]


def all_orders(weights: tuple[int, ...]) -> Counter[tuple[Candidate, ...]]:
    """How often each order comes when every chance comes equally often: exactly, by trying them all."""
    targets = tuple(entry(named("p", str(at)), weight) for at, weight in enumerate(weights))
    weighted = route("weighted", *targets)
    total = lcm(*(sum(some) for size in range(2, len(weights) + 1) for some in combinations(weights, size)))
    points = [(at + 0.5) / total for at in range(total)]
    router_ = made(weighted)
    return Counter(
        tuple(router_.order(weighted, 0.0, chances(*chance))) for chance in product(points, repeat=len(weights) - 1)
    )


@pytest.mark.parametrize("weights", [(1, 1), (3, 1), (1, 9), (1, 1, 1), (1, 2, 3), (4, 1, 1)])
def test_weighted_orders_have_exactly_the_frequency_of_their_weights(weights: tuple[int, ...]) -> None:
    counted = all_orders(weights)
    for order in permutations(range(len(weights))):
        share, left = Fraction(1), sum(weights)
        for at in order:
            share *= Fraction(weights[at], left)
            left -= weights[at]
        assert Fraction(counted[tuple(named("p", str(at)) for at in order)], counted.total()) == share


def test_weighted_ignores_unavailable_targets() -> None:
    weighted = route("weighted", entry(A, 90), entry(B, 1), entry(C, 1))
    router_ = router(weighted)
    eject(router_, A)
    assert router_.order(weighted, 0.0, chances(0.49)) == [B, C]
    assert router_.order(weighted, 0.0, chances(0.5)) == [C, B]
    eject(router_, B)
    assert router_.order(weighted, 0.0, NO_CHANCE) == [C], "one is no choice"


@pytest.mark.parametrize("chance", [0.0, 1 - 2**-53, 1.0])
def test_chance_at_its_edges(chance: float) -> None:
    weighted = route("weighted", entry(A, 1), entry(B, 2))
    assert router(weighted).order(weighted, 0.0, lambda: chance) == ([A, B] if chance == 0.0 else [B, A])


def test_fastest_tries_what_was_never_measured_and_then_the_fastest() -> None:
    fastest = route("fastest")
    router_ = router(fastest)
    assert router_.order(fastest, 0.0, chances(0.5)) == [A, B, C]
    router_.answered(A, 0.0, 0.3)
    assert router_.order(fastest, 0.0, chances(0.5)) == [B, C, A]
    router_.succeeded(B, 0.0, 0.9)
    router_.succeeded(C, 0.0, 0.1)
    assert router_.order(fastest, 0.0, chances(0.05)) == [C, A, B]
    for _ in range(30):
        router_.succeeded(C, 1.0, 2.0)
    assert router_.order(fastest, 1.0, chances(0.9)) == [A, B, C]


def test_fastest_explores_one_in_twenty() -> None:
    fastest = route("fastest")
    router_ = router(fastest)
    for target, ttft_s in ((A, 0.1), (B, 0.2), (C, 0.3)):
        router_.answered(target, 0.0, ttft_s)
    assert router_.order(fastest, 0.0, chances(0.049, 0.0)) == [B, A, C]
    assert router_.order(fastest, 0.0, chances(0.049, 0.49)) == [B, A, C]
    assert router_.order(fastest, 0.0, chances(0.0, 0.5)) == [C, A, B]
    explored = [router_.order(fastest, 0.0, chances((at + 0.5) / 100, 0.0))[0] == B for at in range(100)]
    assert sum(explored) == 5


STRATEGIES = st.sampled_from(["priority", "weighted", "fastest"])


@given(
    STRATEGIES,
    st.lists(st.tuples(st.integers(1, 1000), st.booleans(), st.none() | st.floats(0, 9)), min_size=1, max_size=8),
    st.lists(st.floats(0, 1, exclude_max=True), min_size=20, max_size=20),
)
def test_an_order_is_of_all_that_are_there_each_once(
    strategy: Strategy, targets: list[tuple[int, bool, float | None]], drawn: list[float]
) -> None:
    entries = [entry(named("p", str(at)), weight) for at, (weight, _, _) in enumerate(targets)]
    all_of_them = route(strategy, *entries)
    router_ = router(all_of_them)
    candidates = [Candidate(each.target) for each in entries]
    for candidate, (_, is_unavailable, ttft_s) in zip(candidates, targets, strict=True):
        if ttft_s is not None:
            router_.succeeded(candidate, 0.0, ttft_s)
        if is_unavailable:
            eject(router_, candidate)
    there = [each for each, (_, is_unavailable, _) in zip(candidates, targets, strict=True) if not is_unavailable]
    assert sorted(router_.order(all_of_them, 0.0, chances(*drawn))) == sorted(there)
    later = router_.order(all_of_them, 30.0, chances(*drawn))
    assert sorted(later) == sorted(candidates), "those on probation among them"


def test_what_callers_name_is_kept_only_if_it_fails_and_only_so_many() -> None:
    router_ = made(route(), max_unrouted=3)
    for number in range(10):
        router_.succeeded(named("p", f"good{number}"), 0.0, 1.0)
        router_.answered(named("p", f"good{number}"), 0.0, 1.0)
        router_.abandoned(named("p", f"good{number}"))
    assert len(router_._unrouted) == 0
    eject(router_, A)
    for number in range(10):
        eject(router_, named("p", f"bad{number}"))
    assert len(router_._unrouted) == 3
    assert router_.is_unavailable(named("p", "bad9"), 0.0)
    assert not router_.is_unavailable(named("p", "bad0"), 0.0)
    assert router_.is_unavailable(A, 0.0), "what the operator named is never pushed out"


def test_a_target_that_is_in_use_is_evicted_last() -> None:
    router_ = made(max_unrouted=2)
    old, other, new = (named("p", name) for name in ("old", "other", "new"))
    eject(router_, old, other)
    router_.is_unavailable(old, 0.0)
    eject(router_, new)
    assert [router_.is_unavailable(target, 0.0) for target in (old, other, new)] == [True, False, True]


def test_a_script_that_fails_on_purpose_is_ejected_only_as_a_target() -> None:
    router_ = made(Route("alias", (entry(A),)), scripted=("p",))
    for _ in range(20):
        assert not router_.failed(named("p", "error"), 0.0, BROKEN)
    assert not router_.is_unavailable(named("p", "error"), 0.0)
    eject(router_, A)


OLD = {"p", "q", "gone"}


def test_a_reload_keeps_what_is_known_of_those_that_stay() -> None:
    old = Router(RouteTable([route()], OLD), OLD)
    others = named("p", "other"), named("gone", "x"), named("q", "changed")
    eject(old, A, B, *others)
    probe, *_ = old.order(route(), 30.0, NO_CHANCE)
    new = made(Route("new", (entry(A), entry(others[0]))))
    new.adopt(old, changed={"q"})
    assert [new.is_unavailable(target, 10.0) for target in (A, B, *others)] == [True, True, True, False, False]
    assert new.is_unavailable(A, 30.0), "the probe goes on"
    new.succeeded(probe, 31.0, 0.1)
    assert not new.is_unavailable(A, 31.0)
    assert not old.is_unavailable(A, 31.0), "requests that began before the reload know it too"


def test_the_known_state_can_be_read() -> None:
    looked_at = router()
    made_up = named("q", "made up")
    eject(looked_at, B, made_up)
    found = [(target, health.state(1.0), is_own) for target, health, is_own in looked_at.known()]
    assert found == [
        (A, State.HEALTHY, True),
        (B, State.UNAVAILABLE, True),
        (C, State.HEALTHY, True),
        (made_up, State.UNAVAILABLE, False),
    ]


def test_reading_the_health_of_a_target_is_not_a_use() -> None:
    looked_at = made(route(), max_unrouted=2)
    first, second, third = (named("q", name) for name in ("first", "second", "third"))
    eject(looked_at, first, second)
    health = looked_at.health_of(first)
    assert health is not None
    assert health.state(1.0) is State.UNAVAILABLE
    eject(looked_at, third)
    assert looked_at.health_of(first) is None, "it was used the longest ago"
    own = looked_at.health_of(A)
    assert own is not None
    assert own.state(1.0) is State.HEALTHY


def test_candidates_without_room_by_their_providers_report_are_tried_last() -> None:
    targets = tuple(RouteTarget(TargetId("p", name)) for name in "abcd")
    router = Router(RouteTable([Route("m", targets)], ["p"]), ["p"])
    ordered = router.order(Route("m", targets), 0.0, NO_CHANCE, None, lambda candidate: candidate.target.model in "bd")
    assert [each.target.model for each in ordered] == ["b", "d", "a", "c"]
    nowhere = router.order(Route("m", targets), 0.0, NO_CHANCE, None, lambda _: False)
    assert [each.target.model for each in nowhere] == ["a", "b", "c", "d"], "the provider decides"
    single = Route("m", targets[:1])
    assert len(router.order(single, 0.0, NO_CHANCE, None, lambda _: False)) == 1
