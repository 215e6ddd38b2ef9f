"""Which targets a model name stands for."""

import pytest

from streamweir.policy.routing.health import TargetId
from streamweir.policy.routing.route import MAX_NAME_LENGTH, Route, RouteTable, RouteTarget, matches_pattern

A, B, C = (TargetId("p", name) for name in "abc")


def table(*routes: Route) -> RouteTable:
    return RouteTable(routes or (Route("alias", tuple(RouteTarget(target) for target in (A, B, C))),), {"p", "q"})


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
    found = table().resolve(asked)
    assert ([entry.target for entry in found.targets] if found is not None else None) == targets
    assert found is None or found.id == asked


def test_an_alias_goes_before_a_provider() -> None:
    own = Route("p/a", (RouteTarget(B),))
    assert table(own).resolve("p/a") == own


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
    found = table(*(Route(each, (RouteTarget(A),)) for each in listed)).resolve(asked)
    assert (found.configured_id if found is not None else None) == counts
    assert found is None or found.id == asked


@pytest.mark.parametrize("listed", [("a-*", "*-b"), ("*-b", "a-*")])
def test_of_equally_long_patterns_the_first_counts(listed: tuple[str, str]) -> None:
    found = table(*(Route(each, (RouteTarget(A),)) for each in listed)).resolve("a-b")
    assert found is not None
    assert found.configured_id == listed[0]


def test_what_a_pattern_stands_for_is_tried_like_any_alias() -> None:
    made = table(Route("claude-*", (RouteTarget(B), RouteTarget(C, 3)), "weighted"))
    found = made.resolve("claude-x")
    assert found == Route("claude-x", (RouteTarget(B), RouteTarget(C, 3)), "weighted", "claude-*")
    assert {B, C} <= set(made.targets())
