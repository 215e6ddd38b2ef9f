"""In which order a conversation tries the candidates of a route: what counts, and what counts more."""

from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from msgspec import structs

from streamweir.core.errors import UpstreamError
from streamweir.policy.routing.credentials import WeightedName
from streamweir.policy.routing.health import MAX_FAILURES, Candidate, TargetId
from streamweir.policy.routing.route import Route, RouteTable, RouteTarget, Strategy
from streamweir.policy.routing.router import Router

HOLD_S = 600.0
BROKEN = UpstreamError("upstream_server_error", "m")
LIMITED = UpstreamError("upstream_rate_limited", "m", retry_after_s=20.0)
A, B, C = (Candidate(TargetId("p", name)) for name in "abc")
CONVERSATIONS = [b"%d" % n for n in range(300)]


def chances(*values: float) -> Callable[[], float]:
    """Gives these, one after the other, and no more."""
    given_out: Iterator[float] = iter(values)
    return lambda: next(given_out)


def route(strategy: Strategy, **weights: int) -> Route:
    targets = tuple(RouteTarget(TargetId("p", name), weight) for name, weight in weights.items())
    return Route("alias", targets or tuple(RouteTarget(each.target) for each in (A, B, C)), strategy)


def made(chosen: Route, affinity_s: float = HOLD_S) -> Router:
    return Router(RouteTable([chosen], {"p"}), {"p"}, affinity_s=affinity_s)


def test_weighted_targets_are_chosen_by_the_conversation_and_not_at_random() -> None:
    chosen = route("weighted", a=3, b=1)
    router, other = made(chosen), made(chosen)
    orders = [router.order(chosen, 0.0, chances(), conversation) for conversation in CONVERSATIONS]
    assert orders == [other.order(chosen, 99.0, chances(), conversation) for conversation in CONVERSATIONS]
    assert Counter(order[0] for order in orders)[A] / len(orders) == pytest.approx(0.75, abs=0.1)
    assert {len(order) for order in orders} == {2}


@pytest.mark.parametrize("strategy", ["weighted", "fastest"])
def test_what_has_answered_comes_first(strategy: Strategy) -> None:
    chosen = route(strategy)
    router = made(chosen)
    for candidate, ttft_s in ((A, 1.0), (B, 2.0), (C, 3.0)):
        router.answered(candidate, 0.0, ttft_s)
        router.affinity.note(b"1", candidate, 0.0)
        assert router.order(chosen, 1.0, lambda: 0.5, b"1")[0] == candidate
    assert router.order(chosen, 1.0, lambda: 0.5, b"1") == [C, B, A]


def test_the_fastest_is_chosen_if_nothing_is_remembered() -> None:
    chosen = route("fastest")
    router = made(chosen)
    for candidate, ttft_s in ((A, 3.0), (B, 1.0), (C, 2.0)):
        router.answered(candidate, 0.0, ttft_s)
    router.affinity.note(b"1", A, 0.0)
    assert router.order(chosen, 1.0, lambda: 0.5, b"1") == [A, B, C]
    assert router.order(chosen, 1.0, lambda: 0.5, b"2") == [B, C, A]
    assert router.order(chosen, HOLD_S, lambda: 0.5, b"1") == [B, C, A]


def test_a_list_by_priority_is_the_operators_order() -> None:
    chosen = route("priority")
    router = made(chosen)
    router.affinity.note(b"1", C, 0.0)
    assert router.order(chosen, 1.0, chances(), b"1") == [A, B, C]


@pytest.mark.parametrize("error", [BROKEN, LIMITED], ids=["ejected", "cooling down"])
def test_what_is_not_available_is_not_chosen_and_is_not_forgotten(error: UpstreamError) -> None:
    chosen = route("weighted")
    router = made(chosen)
    router.affinity.note(b"1", B, 0.0)
    router.affinity.note(b"1", A, 0.0)
    for _ in range(MAX_FAILURES):
        router.failed(A, 0.0, error)
    assert router.order(chosen, 1.0, chances(), b"1") == [B, C]
    assert router.order(chosen, 100.0, chances(), b"1") == [A, B, C]


def test_something_can_be_chosen_where_the_operator_has_no_order() -> None:
    assert made(route("weighted")).uses_affinity(route("weighted"))
    assert made(route("fastest")).uses_affinity(route("fastest"))
    assert not made(route("priority")).uses_affinity(route("priority"))
    assert not made(route("weighted", a=1)).uses_affinity(route("weighted", a=1))
    assert not made(route("weighted"), affinity_s=0).uses_affinity(route("weighted"))
    opted_out = Route("alias", route("weighted").targets, "weighted", affinity=False)
    assert not made(opted_out).uses_affinity(opted_out)


def test_a_name_that_matches_a_pattern_has_its_affinity() -> None:
    table = RouteTable([Route("x-*", route("weighted").targets, "weighted", affinity=False)], {"p"})
    found = table.resolve("x-1")
    assert found is not None
    assert (found.id, found.pattern, found.affinity) == ("x-1", "x-*", False)


def test_a_new_router_takes_over_what_is_remembered() -> None:
    chosen = route("weighted")
    old, new = made(chosen), made(chosen)
    first = old.order(chosen, 0.0, chances(), b"1")
    old.affinity.note(b"1", first[2], 0.0)
    new.adopt(old)
    assert new.order(chosen, 1.0, chances(), b"1") == [first[2], *first[:2]]


# Credentials, stages and fallbacks.


def pooled(chosen: Route, **weights: int) -> Router:
    names = [WeightedName(name, weight) for name, weight in weights.items()]
    return Router(RouteTable([chosen], {"p"}), {"p"}, affinity_s=HOLD_S, credentials={"p": names})


def test_credentials_are_chosen_by_the_conversation_in_the_shares_of_their_weights() -> None:
    chosen = route("priority", a=1)
    router, other = pooled(chosen, one=3, two=1), pooled(chosen, two=1, one=3)
    orders = [router.order(chosen, 0.0, chances(), conversation) for conversation in CONVERSATIONS]
    assert orders == [other.order(chosen, 0.0, chances(), conversation) for conversation in CONVERSATIONS]
    assert Counter(order[0].credential for order in orders)["one"] / len(orders) == pytest.approx(0.75, abs=0.1)
    assert {frozenset(order) for order in orders} == {frozenset(A._replace(credential=name) for name in ("one", "two"))}
    assert router.uses_affinity(chosen)


def test_the_credential_that_has_answered_comes_first_also_in_a_list_by_priority() -> None:
    chosen = route("priority", a=1, b=1)
    router = pooled(chosen, one=1, two=1, three=1)
    for name in ("one", "two", "three"):
        router.affinity.note(b"1", B._replace(credential=name), 0.0)
        ordered = router.order(chosen, 1.0, chances(), b"1")
        assert [each.target for each in ordered] == [A.target] * 3 + [B.target] * 3
        assert ordered[3].credential == name
    assert [each.credential for each in ordered[3:]] == ["three", "two", "one"]


def test_another_credential_of_a_remembered_target_is_as_good_as_another_target() -> None:
    """Its account has nothing of the conversation."""
    chosen = route("weighted", a=1, b=1)
    router = pooled(chosen, one=1, two=1)
    for conversation in CONVERSATIONS[:20]:
        usual = router.order(chosen, 0.0, chances(), conversation)
        remembered = usual[2]
        router.affinity.note(conversation, remembered, 0.0)
        assert router.order(chosen, 0.0, chances(), conversation)[0] == remembered
        router.failed(remembered, 0.0, LIMITED)
        assert router.order(chosen, 1.0, chances(), conversation) == [each for each in usual if each != remembered]
        router = pooled(chosen, one=1, two=1)


def test_an_earlier_stage_comes_before_what_is_remembered() -> None:
    entries = [RouteTarget(each.target, stage=stage) for each, stage in ((A, 1), (B, 1), (C, 2))]
    chosen = Route("alias", tuple(entries), "weighted")
    router = made(chosen)
    for candidate in (B, C):
        router.affinity.note(b"1", candidate, 0.0)
    assert router.order(chosen, 1.0, chances(), b"1") == [B, A, C]
    for candidate in (A, B):
        router.failed(candidate, 1.0, LIMITED)
    assert router.order(chosen, 2.0, chances(), b"1") == [C]
    assert router.order(chosen, 100.0, chances(), b"1") == [B, A, C]


@pytest.mark.parametrize("kind", ["fallbacks", "context_fallbacks", "content_filter_fallbacks"])
def test_a_conversation_chooses_in_fallbacks_too(kind: str) -> None:
    first = structs.replace(route("priority", a=1), **{kind: ("other",)})
    other = Route("other", (RouteTarget(B.target), RouteTarget(C.target)), "weighted")
    table = RouteTable([first, other], {"p"})
    found = table.resolve("alias")
    assert found is not None
    router = Router(table, {"p"}, affinity_s=HOLD_S)
    assert router.uses_affinity(found)
    alone = RouteTable([route("priority", a=1)], {"p"}).resolve("alias")
    assert alone is not None
    assert not router.uses_affinity(alone)
