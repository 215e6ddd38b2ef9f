"""Which candidates a request tries, over any models that name each other: none is forgotten, and it ends."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamweir.core.errors import CallerError, StreamweirError, UpstreamError
from streamweir.frontends.table import FRONTENDS
from streamweir.policy.routing.route import Route
from streamweir.server.request.attempt.candidates import Candidates
from streamweir.server.request.request_route import order_route
from streamweir.server.request.runtime.config import build_runtime_config
from support.gateway import configured
from support.soak import SOAKS

ERRORS: Mapping[str, StreamweirError | None] = {
    "answers": None,
    "hangs": UpstreamError("upstream_timeout", "m"),  # for which no target is asked again
    "too long": CallerError("context_length_exceeded", "m"),
    "filtered": CallerError("content_filter", "m"),
}
NAMES, PROVIDERS = "mnoq", "abcdef"
LISTS = ("fallbacks", "context_fallbacks", "content_filter_fallbacks")


class Search(NamedTuple):
    route: Route
    tried: list[str]
    error: StreamweirError | None
    max_attempts: int


@st.composite
def worlds(draw: st.DrawFn, kinds: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """The models as TOML, and what each provider does."""
    toml = f"[routing]\nmax_attempts = {draw(st.integers(1, 8))}\n"
    for name in NAMES:
        providers = draw(st.lists(st.sampled_from(PROVIDERS), min_size=1, max_size=3, unique=True))
        targets = ", ".join(
            f'{{ provider = "{each}", model = "m", stage = {draw(st.integers(1, 2))} }}' for each in providers
        )
        toml += f'[[models]]\nid = "{name}"\ntargets = [{targets}]\n'
        others = st.lists(st.sampled_from(NAMES.replace(name, "")), max_size=2, unique=True)
        toml += "".join(f"{each} = {draw(others)}\n" for each in LISTS)
    return toml, {each: draw(st.sampled_from(kinds)) for each in PROVIDERS}


async def _search(toml: str, outcomes: Mapping[str, str]) -> Search:
    more = "".join(f'[[providers]]\nname = "{name}"\nkind = "sim"\n' for name in PROVIDERS)
    runtime = build_runtime_config(configured(toml + more), lambda _: pytest.fail("no local model"))
    route = runtime.routes.resolve("m")
    assert route is not None
    body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    chat = FRONTENDS.by_name["openai"].parse(body, {})

    def order(route: Route, without: Any = ()) -> Any:
        return order_route(runtime, chat, 0, lambda: 0.5, None, route, without)

    async def sleep(_: float) -> None:
        pytest.fail("nothing is repeated here")

    candidates = Candidates(runtime, route, order(route), order)
    tried: list[str] = []
    while True:
        provider = candidates.candidate.target.provider
        tried.append(provider)
        error = ERRORS[outcomes[provider]]
        if error is None:
            runtime.router.succeeded(candidates.candidate, time.monotonic())
            break
        runtime.router.failed(candidates.candidate, time.monotonic(), error)
        try:
            await candidates.advance(error, time.monotonic(), sleep)
        except StreamweirError as raised:
            error = raised
            break
    assert all(health.running == 0 for _, health, _ in runtime.router.known())
    return Search(route, tried, error, runtime.config.routing.max_attempts)


def search(toml: str, outcomes: Mapping[str, str]) -> Search:
    return asyncio.run(_search(toml, outcomes))


@settings(max_examples=500 if SOAKS else 40)
@given(worlds(("answers", "hangs")))
def test_a_request_fails_only_if_all_that_follow_fail_or_no_attempt_is_left(world: tuple[str, dict[str, str]]) -> None:
    toml, outcomes = world
    found = search(toml, outcomes)
    groups = [[entry.target.provider for entry in group.targets] for group in found.route.groups]
    reached = [provider for group in groups for provider in group]
    assert len(found.tried) == len(set(found.tried)) <= found.max_attempts
    assert set(found.tried) <= set(reached)
    if found.error is not None:
        assert len(found.tried) == min(found.max_attempts, len(reached))
        asked = [any(provider in found.tried for provider in group) for group in groups]
        assert sum(asked) == min(len(groups), found.max_attempts), "an attempt is kept for each fallback"
    else:
        assert outcomes[found.tried[-1]] == "answers"


@settings(max_examples=500 if SOAKS else 40)
@given(worlds(tuple(ERRORS)))
def test_every_search_ends_and_asks_no_target_twice(world: tuple[str, dict[str, str]]) -> None:
    toml, outcomes = world
    found = search(toml, outcomes)
    reachable = {entry.target.provider for route in (found.route, *found.route.reachable) for entry in route.targets}
    assert len(found.tried) == len(set(found.tried)) <= found.max_attempts
    assert set(found.tried) <= reachable, "its price is in the reservation"
    assert (found.error is None) == (outcomes[found.tried[-1]] == "answers")
    assert all(outcomes[provider] != "answers" for provider in found.tried[:-1])
