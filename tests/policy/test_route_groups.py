"""Stages, strategies and fallbacks: the order of the targets of a model, and of the models that follow it."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.core.errors import UpstreamError
from streamweir.policy.routing.health import MAX_FAILURES, Candidate, TargetId
from streamweir.policy.routing.route import Route, RouteTable, RouteTarget, Strategy
from streamweir.policy.routing.router import Router

BROKEN = UpstreamError("upstream_server_error", "m")


def target(name: str) -> TargetId:
    return TargetId("p", name)


def entries(*names: str, stage: int = 1) -> tuple[RouteTarget, ...]:
    return tuple(RouteTarget(target(name), stage=stage) for name in names)


def table(*routes: Route) -> RouteTable:
    return RouteTable(routes, {"p"})


def found(routes: RouteTable, name: str) -> Route:
    route = routes.resolve(name)
    assert route is not None
    return route


def names_of(candidates: Iterable[Candidate]) -> str:
    return "".join(candidate.target.model for candidate in candidates)


def first_number() -> float:
    return 0.0


def order(routes: RouteTable, name: str = "m", router: Router | None = None) -> str:
    router = router or Router(routes, {"p"})
    return names_of(router.order(found(routes, name), 0.0, first_number))


def eject(router: Router, *names: str) -> None:
    for name in names:
        for _ in range(MAX_FAILURES):
            router.failed(Candidate(target(name)), 0.0, BROKEN)


# Stages.


def test_a_stage_comes_after_all_of_the_lower_ones_wherever_it_is_in_the_file() -> None:
    routes = table(Route("m", (*entries("c", stage=7), *entries("a", "b"), *entries("d", stage=2))))
    assert order(routes) == "abdc"
    assert [entry.target.model for entry in found(routes, "m").targets] == ["a", "b", "d", "c"]


@pytest.mark.parametrize("strategy", ["weighted", "fastest", "least_busy", "cheapest"])
def test_the_strategy_orders_within_a_stage(strategy: Strategy) -> None:
    """By each of them `b` is better than `a`, and `d` better than `c`."""
    heavy = tuple(
        RouteTarget(target(name), 10**6 if name in "bd" else 1, stage)
        for name, stage in zip("acbd", (1, 2, 1, 2), strict=True)
    )
    routes = table(Route("m", heavy, strategy))
    router = Router(routes, {"p"})
    for name, ttft_s in (("a", 2.0), ("b", 1.0), ("c", 0.5), ("d", 0.1)):
        router.answered(Candidate(target(name)), 0.0, ttft_s)
    for name in "acc":
        assert router.take(Candidate(target(name)), 0.0) is not None
    costs = {"a": 5, "b": 4, "c": 3, "d": 2}
    candidates = router.order(found(routes, "m"), 0.0, lambda: 0.5, cost=lambda each: costs[each.model])
    assert names_of(candidates) == "badc"


def test_a_stage_without_an_available_target_is_passed_over() -> None:
    routes = table(Route("m", (*entries("a", "b"), *entries("c", stage=2))))
    router = Router(routes, {"p"})
    eject(router, "a", "b")
    assert order(routes, router=router) == "c"


# Strategies.


def test_least_busy_counts_running_attempts_relative_to_the_weight() -> None:
    route = Route("m", (RouteTarget(target("a"), 2), RouteTarget(target("b"), 1)), "least_busy")
    routes = table(route)
    router = Router(routes, {"p"})
    begun: list[Candidate] = []
    for _ in range(30):
        begun.append(router.order(route, 0.0, first_number)[0])
    assert (names_of(begun).count("a"), names_of(begun).count("b")) == (20, 10)
    for each in begun:
        if each.target.model == "a":
            router.succeeded(each, 0.0)
    assert names_of([router.order(route, 0.0, first_number)[0] for _ in range(20)]) == "a" * 20
    for report in (lambda each: router.failed(each, 0.0, BROKEN), router.abandoned):
        router.take(Candidate(target("a")), 0.0)
        report(Candidate(target("a")))
    assert names_of(router.order(route, 0.0, first_number)) == "ab", "each of them has ended"


def test_least_busy_survives_a_reload() -> None:
    routes = table(Route("m", entries("a", "b"), "least_busy"))
    old, new = Router(routes, {"p"}), Router(routes, {"p"})
    (taken, _) = old.order(found(routes, "m"), 0.0, first_number)
    new.adopt(old)
    assert order(routes, router=new) == "ba"
    old.succeeded(taken, 0.0)
    new.abandoned(Candidate(target("b")))
    assert order(routes, router=new) == "ab"


@given(st.lists(st.sampled_from("ab+-"), max_size=60))
def test_running_attempts_are_never_below_zero(steps: list[str]) -> None:
    routes = table(Route("m", entries("a", "b"), "least_busy"))
    router = Router(routes, {"p"})
    taken: list[Candidate] = []
    for step in steps:
        if step in "ab":
            router.abandoned(Candidate(target(step)))
            continue
        if step == "+":
            taken.append(router.order(found(routes, "m"), 0.0, first_number)[0])
        elif taken:
            router.succeeded(taken.pop(), 0.0)
    assert all(health.running >= 0 for _, health, _ in router.known())


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        ({"a": 3, "b": 1, "c": 2}, "bca"),
        ({"a": None, "b": None, "c": 9}, "cab"),
        ({"a": 1, "b": 0, "c": 1}, "bac"),
        ({"a": None, "b": None, "c": None}, "abc"),
    ],
)
def test_cheapest_is_by_the_price_and_without_one_last(costs: dict[str, int | None], expected: str) -> None:
    routes = table(Route("m", entries("a", "b", "c"), "cheapest"))
    candidates = Router(routes, {"p"}).order(found(routes, "m"), 0.0, first_number, cost=lambda each: costs[each.model])
    assert names_of(candidates) == expected


@pytest.mark.parametrize(("strategy", "expected"), [("least_busy", "a"), ("cheapest", "b"), ("fastest", "a")])
def test_a_conversation_stays_where_it_was_answered_but_not_where_it_is_dearer(
    strategy: Strategy, expected: str
) -> None:
    route = Route("m", entries("a", "b"), strategy)
    router = Router(table(route), {"p"}, affinity_s=60.0)
    router.affinity.note(b"1", Candidate(target("a")), 0.0)
    assert router.take(Candidate(target("a")), 0.0) is not None
    costs = {"a": 2, "b": 1}
    candidates = router.order(route, 0.0, lambda: 0.5, b"1", cost=lambda each: costs[each.model])
    assert names_of(candidates)[0] == expected


# Fallbacks.


def test_fallbacks_follow_with_their_own_stages_and_strategy() -> None:
    routes = table(
        Route("m", (*entries("b", stage=2), *entries("a"))[::1], fallbacks=("n", "o")),
        Route("n", (RouteTarget(target("c")), RouteTarget(target("d"), 10**6)), "weighted", fallbacks=("q",)),
        Route("o", entries("e")),
        Route("q", entries("f")),
    )
    router = Router(routes, {"p"})
    assert names_of(router.order(found(routes, "m"), 0.0, lambda: 0.5)) == "abdcef", "first those of the list"
    eject(router, "a", "b", "d")
    assert names_of(router.order(found(routes, "m"), 0.0, lambda: 0.5)) == "cef"
    assert names_of(router.order(found(routes, "m"), 0.0, lambda: 0.5, without=[target("c"), target("f")])) == "e"


def test_a_cycle_ends_and_no_target_is_there_twice() -> None:
    routes = table(
        Route("m", entries("a", "b"), fallbacks=("n",)),
        Route("n", entries("b", "c"), fallbacks=("o", "m")),
        Route("o", entries("c", "a"), fallbacks=("n", "m", "q")),
        Route("q", entries("d", "a"), fallbacks=("m",)),
    )
    assert [order(routes, name) for name in "mnoq"] == ["abcd", "bcad", "cabd", "dabc"]
    assert [[group.id for group in found(routes, name).groups] for name in "mo"] == [["m", "n", "q"], ["o", "n", "q"]]


def test_a_fallback_is_named_as_callers_name_models() -> None:
    routes = table(
        Route("m", entries("a"), fallbacks=("claude-opus", "p/x/y", "claude-sonnet", "none", "own-*")),
        Route("claude-*", entries("b"), fallbacks=("m",)),
        Route("own-*", entries("c")),
    )
    assert [str(each.target) for each in Router(routes, {"p"}).order(found(routes, "m"), 0.0, first_number)] == [
        "p/a",
        "p/b",
        "p/x/y",
        "p/c",
    ]
    pattern = found(routes, "claude-x")
    assert ([group.configured_id for group in pattern.groups], pattern.id) == (
        ["claude-*", "m", "p/x/y", "own-*"],
        "claude-x",
    )
    assert TargetId("p", "x/y") in set(routes.targets()), "its health is kept as that of any other target"


def test_what_can_be_reached_are_the_fallbacks_of_all_kinds_and_theirs() -> None:
    routes = table(
        Route("m", entries("a"), fallbacks=("n",), context_fallbacks=("o",)),
        Route("n", entries("b"), content_filter_fallbacks=("q",)),
        Route("o", entries("c", "a"), context_fallbacks=("r", "m")),
        Route("q", entries("d")),
        Route("r", entries("e", "b")),
        Route("s", entries("f")),
    )
    route = found(routes, "m")
    assert [(each.id, [entry.target.model for entry in each.targets]) for each in route.reachable] == [
        ("n", ["b"]),
        ("o", ["c"]),
        ("q", ["d"]),
        ("r", ["e"]),
    ]
    assert [group.id for group in route.groups] == ["m", "n"]
    assert found(routes, "s").reachable == ()


def test_no_model_is_available_only_if_no_fallback_is() -> None:
    routes = table(Route("m", entries("a"), fallbacks=("n",)), Route("n", entries("b")))
    router, route = Router(routes, {"p"}), found(routes, "m")
    eject(router, "a")
    assert names_of(router.order(route, 0.0, first_number)) == "b"
    router.failed(Candidate(target("b")), 0.0, UpstreamError("upstream_rate_limited", "m", retry_after_s=7.0))
    assert router.order(route, 0.0, first_number) == []
    assert router.unavailable(route, 0.0).code == "no_available_deployment"
    assert router.retry_after_s(route, 0.0) == 7.0


LINKS = st.dictionaries(st.sampled_from("mnoq"), st.lists(st.sampled_from("mnoq"), max_size=4), max_size=4)


@given(LINKS, LINKS)
def test_any_links_are_followed_to_their_end(fallbacks: dict[str, list[str]], others: dict[str, list[str]]) -> None:
    routes = table(
        *(
            Route(
                name,
                entries(name, "shared"),
                fallbacks=tuple(fallbacks.get(name, ())),
                context_fallbacks=tuple(others.get(name, ())),
            )
            for name in "mnoq"
        )
    )
    for name in "mnoq":
        route, expected = found(routes, name), {name}
        for _ in range(4):
            expected |= {each for known in expected for each in fallbacks.get(known, ())}
        tried = [entry.target.model for group in route.groups for entry in group.targets]
        assert len(tried) == len(set(tried))
        assert set(tried) == expected | {"shared"}
        assert {each.id for each in route.chain} <= {each.id for each in route.reachable}
