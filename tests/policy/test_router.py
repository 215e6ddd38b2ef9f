"""Where a request may go, in which order, and what is kept of how it went."""

from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations, permutations, product
from math import lcm

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.core.errors import UpstreamError
from streamweir.policy.health import MAX_FAILURES, Probe, State, TargetId
from streamweir.policy.route import MAX_NAME_LENGTH, Route, Router, Strategy, WeightedTarget, matches_pattern

BROKEN = UpstreamError("upstream_server_error", "m")
A, B, C = (TargetId("p", name) for name in "abc")


def chances(*values: float) -> Callable[[], float]:
    """Gives these, one after the other, and no more."""
    given_out: Iterator[float] = iter(values)
    return lambda: next(given_out)


NO_CHANCE = chances()


def route(strategy: Strategy = "priority", *targets: WeightedTarget) -> Route:
    return Route("alias", targets or tuple(WeightedTarget(target) for target in (A, B, C)), strategy)


def router(*routes: Route) -> Router:
    return Router(routes or (route(),), {"p", "q"})


def eject(router: Router, *targets: TargetId, at: float = 0.0) -> None:
    for target in targets:
        assert [router.failed(target, at, BROKEN) for _ in range(MAX_FAILURES)][-1]


@pytest.mark.parametrize(
    ("asked", "targets"),
    [
        ("alias", [A, B, C]),
        ("p/a", [TargetId("p", "a")]),
        ("q/meta/llama-3", [TargetId("q", "meta/llama-3")]),
        ("p/sim?a=b&c=d e", [TargetId("p", "sim?a=b&c=d e")]),
        ("p/" + "x" * (MAX_NAME_LENGTH - 2), [TargetId("p", "x" * (MAX_NAME_LENGTH - 2))]),
        ("p/" + "x" * (MAX_NAME_LENGTH - 1), None),
        ("p", None),
        ("p/", None),
        ("/a", None),
        ("", None),
        ("r/a", None),
        ("P/a", None),
        ("Alias", None),
        ("p/a\n", None),
        ("p/\x1b[31m", None),
        ("p/\ud800", None),
    ],
)
def test_what_a_name_stands_for(asked: str, targets: list[TargetId] | None) -> None:
    found = router().resolve(asked)
    assert ([entry.target for entry in found.targets] if found is not None else None) == targets
    assert found is None or found.id == asked


def test_an_alias_goes_before_a_provider() -> None:
    own = Route("p/a", (WeightedTarget(B),))
    assert router(own).resolve("p/a") == own


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("claude-*", ("claude-opus-5-5", "claude-"), ("claude", "Claude-x", "a-claude-x", "claude-x/y", "p/claude-x")),
        ("claude-*haiku*", ("claude-haiku", "claude-3-5-haiku-20241022"), ("claude-opus", "claude-haik", "haiku")),
        ("*", ("anything", ""), ("p/a", "/")),
        ("p/*", ("p/a", "p/"), ("p", "p/a/b", "q/a")),
        ("*/*-mini", ("p/o3-mini", "r/-mini"), ("o3-mini", "p/o3-mini-high")),
        ("a*a", ("aa", "aba"), ("a",)),
        ("*a*ab*b", ("aabb", "xaxabxb"), ("aab", "abb", "ab")),
        ("a**b", ("ab", "acb"), ("a",)),
        ("a.c", ("a.c",), ("abc",)),
    ],
)
def test_what_a_pattern_matches(pattern: str, matching: tuple[str, ...], others: tuple[str, ...]) -> None:
    assert [name for name in (*matching, *others) if matches_pattern(name, pattern)] == list(matching)


def test_a_long_name_against_many_stars_takes_no_time() -> None:
    assert not matches_pattern("a" * MAX_NAME_LENGTH, "*a" * 100 + "b")


PATTERNS = ("claude-*", "*-5-5", "claude-*-5-5", "claude-opus-*", "*haiku*", "*opus*", "p/*", "claude-opus-4-1")


@pytest.mark.parametrize(
    ("asked", "counts"),
    [
        ("claude-opus-4-1", "claude-opus-4-1"),
        ("claude-sonnet-4", "claude-*"),
        ("claude-opus-4", "claude-opus-*"),
        ("claude-opus-5-5", "claude-opus-*"),
        ("claude-sonnet-5-5", "claude-*-5-5"),
        ("my-haiku-5-5", "*haiku*"),
        ("haiku-opus", "*haiku*"),
        ("p/a", "p/*"),
        ("claude-*", "claude-*"),
        ("q/a", "q/a"),
        ("claude-" + "x" * MAX_NAME_LENGTH, None),
        ("claude-\n", None),
        ("Claude-opus", "*opus*"),
        ("gpt-4o", None),
    ],
)
@pytest.mark.parametrize("listed", [PATTERNS, PATTERNS[::-1]], ids=["as listed", "the other way round"])
def test_the_name_itself_counts_before_the_longest_pattern_and_that_before_a_provider(
    asked: str, counts: str | None, listed: tuple[str, ...]
) -> None:
    found = router(*(Route(each, (WeightedTarget(A),)) for each in listed)).resolve(asked)
    assert (found.configured_id if found is not None else None) == counts
    assert found is None or found.id == asked


@pytest.mark.parametrize("listed", [("a-*", "*-b"), ("*-b", "a-*")])
def test_of_equally_long_patterns_the_first_counts(listed: tuple[str, str]) -> None:
    found = router(*(Route(each, (WeightedTarget(A),)) for each in listed)).resolve("a-b")
    assert found is not None
    assert found.configured_id == listed[0]


def test_what_a_pattern_stands_for_is_tried_like_any_alias() -> None:
    made = router(Route("claude-*", (WeightedTarget(B), WeightedTarget(C, 3)), "weighted"))
    found = made.resolve("claude-x")
    assert found == Route("claude-x", (WeightedTarget(B), WeightedTarget(C, 3)), "weighted", "claude-*")
    assert {target for target, _, is_configured in made.known() if is_configured} >= {B, C}


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
    assert router().retry_after_s(Route("p/x", (WeightedTarget(TargetId("p", "x")),)), 0.0) == 0.0


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
    assert router_.take(TargetId("q", "new"), 31.0) == TargetId("q", "new")


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
    assert router_.retry_after_s(Route("x", (WeightedTarget(A),)), 30.0) == 60.0
    probe, *_ = router_.order(route(), 90.0, NO_CHANCE)
    router_.succeeded(probe, 90.0, 0.5)
    assert router_.order(route(), 90.0, NO_CHANCE) == [A, B, C]


def all_orders(weights: tuple[int, ...]) -> Counter[tuple[TargetId, ...]]:
    """How often each order comes when every chance comes equally often: exactly, by trying them all."""
    targets = tuple(WeightedTarget(TargetId("p", str(at)), weight) for at, weight in enumerate(weights))
    weighted = route("weighted", *targets)
    total = lcm(*(sum(some) for size in range(2, len(weights) + 1) for some in combinations(weights, size)))
    points = [(at + 0.5) / total for at in range(total)]
    router_ = Router([weighted], {"p"})
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
        assert Fraction(counted[tuple(TargetId("p", str(at)) for at in order)], counted.total()) == share


def test_weighted_ignores_unavailable_targets() -> None:
    weighted = route("weighted", WeightedTarget(A, 90), WeightedTarget(B, 1), WeightedTarget(C, 1))
    router_ = router(weighted)
    eject(router_, A)
    assert router_.order(weighted, 0.0, chances(0.49)) == [B, C]
    assert router_.order(weighted, 0.0, chances(0.5)) == [C, B]
    eject(router_, B)
    assert router_.order(weighted, 0.0, NO_CHANCE) == [C], "one is no choice"


@pytest.mark.parametrize("chance", [0.0, 1 - 2**-53, 1.0])
def test_chance_at_its_edges(chance: float) -> None:
    weighted = route("weighted", WeightedTarget(A, 1), WeightedTarget(B, 2))
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
    entries = [WeightedTarget(TargetId("p", str(at)), weight) for at, (weight, _, _) in enumerate(targets)]
    all_of_them = route(strategy, *entries)
    router_ = router(all_of_them)
    for entry, (_, is_unavailable, ttft_s) in zip(entries, targets, strict=True):
        if ttft_s is not None:
            router_.succeeded(entry.target, 0.0, ttft_s)
        if is_unavailable:
            eject(router_, entry.target)
    there = [entry.target for entry, (_, is_unavailable, _) in zip(entries, targets, strict=True) if not is_unavailable]
    assert sorted(router_.order(all_of_them, 0.0, chances(*drawn))) == sorted(there)
    later = router_.order(all_of_them, 30.0, chances(*drawn))
    assert sorted(later) == sorted(entry.target for entry in entries), "those on probation among them"


def test_what_callers_name_is_kept_only_if_it_fails_and_only_so_many() -> None:
    router_ = Router([route()], {"p"}, max_unrouted=3)
    for number in range(10):
        router_.succeeded(TargetId("p", f"good{number}"), 0.0, 1.0)
        router_.answered(TargetId("p", f"good{number}"), 0.0, 1.0)
        router_.abandoned(TargetId("p", f"good{number}"))
    assert len(router_._unrouted) == 0
    eject(router_, A)
    for number in range(10):
        eject(router_, TargetId("p", f"bad{number}"))
    assert len(router_._unrouted) == 3
    assert router_.is_unavailable(TargetId("p", "bad9"), 0.0)
    assert not router_.is_unavailable(TargetId("p", "bad0"), 0.0)
    assert router_.is_unavailable(A, 0.0), "what the operator named is never pushed out"


def test_a_target_that_is_in_use_is_evicted_last() -> None:
    router_ = Router([], {"p"}, max_unrouted=2)
    old, other, new = (TargetId("p", name) for name in ("old", "other", "new"))
    eject(router_, old, other)
    router_.is_unavailable(old, 0.0)
    eject(router_, new)
    assert [router_.is_unavailable(target, 0.0) for target in (old, other, new)] == [True, False, True]


def test_a_script_that_fails_on_purpose_is_ejected_only_as_a_target() -> None:
    router_ = Router([Route("alias", (WeightedTarget(A),))], {"p"}, scripted={"p"})
    for _ in range(20):
        assert not router_.failed(TargetId("p", "error"), 0.0, BROKEN)
    assert not router_.is_unavailable(TargetId("p", "error"), 0.0)
    eject(router_, A)


def test_a_reload_keeps_what_is_known_of_those_that_stay() -> None:
    old = Router([route()], {"p", "q", "gone"})
    others = TargetId("p", "other"), TargetId("gone", "x"), TargetId("q", "changed")
    eject(old, A, B, *others)
    probe, *_ = old.order(route(), 30.0, NO_CHANCE)
    new = Router([Route("new", (WeightedTarget(A), WeightedTarget(others[0])))], {"p", "q"})
    new.adopt(old, changed={"q"})
    assert [new.is_unavailable(target, 10.0) for target in (A, B, *others)] == [True, True, True, False, False]
    assert new.is_unavailable(A, 30.0), "the probe goes on"
    new.succeeded(probe, 31.0, 0.1)
    assert not new.is_unavailable(A, 31.0)
    assert not old.is_unavailable(A, 31.0), "requests that began before the reload know it too"


def test_the_known_state_can_be_read() -> None:
    looked_at = router()
    made_up = TargetId("q", "made up")
    eject(looked_at, B, made_up)
    found = [(target, health.state(1.0), is_own) for target, health, is_own in looked_at.known()]
    assert found == [
        (A, State.HEALTHY, True),
        (B, State.UNAVAILABLE, True),
        (C, State.HEALTHY, True),
        (made_up, State.UNAVAILABLE, False),
    ]


def test_reading_the_health_of_a_target_is_not_a_use() -> None:
    looked_at = Router([route()], {"p", "q"}, max_unrouted=2)
    first, second, third = (TargetId("q", name) for name in ("first", "second", "third"))
    eject(looked_at, first, second)
    health = looked_at.health_of(first)
    assert health is not None
    assert health.state(1.0) is State.UNAVAILABLE
    eject(looked_at, third)
    assert looked_at.health_of(first) is None, "it was used the longest ago"
    own = looked_at.health_of(A)
    assert own is not None
    assert own.state(1.0) is State.HEALTHY
