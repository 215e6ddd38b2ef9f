"""A configuration made into what works: what it takes from the one before, and what only shows when it is tried."""

import pytest

from streamweir.config.error import ConfigError
from streamweir.config.model import Provider as ProviderConfig
from streamweir.core.errors import UpstreamError
from streamweir.policy.routing.health import Candidate, HealthSettings, TargetId
from streamweir.server.request.runtime.config import RuntimeConfig, build_runtime_config, connections_of
from streamweir.upstream.base import Upstream
from support.gateway import configured

PROVIDERS = """
[[providers]]
name = "a"
kind = "openai"
base_url = "http://127.0.0.1:9/v1"

[[providers]]
name = "b"
kind = "anthropic"
api_key = "{key}"
timeouts = {{ idle_s = {idle_s} }}
"""


def built(toml: str, old: RuntimeConfig | None = None) -> RuntimeConfig:
    return build_runtime_config(configured(toml), _no_local, old)


def _no_local(_: ProviderConfig) -> Upstream:
    raise AssertionError("no embedded model here")


async def test_what_did_not_change_keeps_its_connections() -> None:
    first = built(PROVIDERS.format(key="one", idle_s=5))
    second = built(PROVIDERS.format(key="two", idle_s=5), first)
    assert second.providers["a"].upstream is first.providers["a"].upstream
    assert second.providers["b"].upstream is first.providers["b"].upstream, "a connection can be used with any key"
    assert second.providers["b"].secrets == {"": "two"}
    assert (second.budget, second.refusals) == (first.budget, first.refusals)


async def test_a_provider_has_the_servers_timeouts_but_for_its_own() -> None:
    runtime = built(PROVIDERS.format(key="one", idle_s=5) + "[server.timeouts]\nidle_s = 7\ntotal_s = 70\n")
    assert (runtime.providers["a"].timeouts.idle_s, runtime.providers["b"].timeouts.idle_s) == (7, 5)
    assert runtime.providers["b"].timeouts.total_s == 70


async def test_what_is_known_of_aborts_can_be_overruled() -> None:
    runtime = built('[[providers]]\nname = "g"\nkind = "gemini"\n[[providers]]\nname = "o"\nkind = "openai"\n')
    assert not runtime.providers["g"].abort_stops_billing
    assert runtime.providers["o"].abort_stops_billing
    overruled = built('[[providers]]\nname = "g"\nkind = "gemini"\ncancel_stops_billing = true\n')
    assert overruled.providers["g"].abort_stops_billing


@pytest.mark.parametrize(
    "line",
    [
        'base_url = "http://a..b/v1"',
        'base_url = "http://host:0/v1"',
        f'base_url = "http://{"a" * 64}.example/v1"',
        'headers = { Proxy-Authorization = "x" }',
    ],
)
async def test_what_only_a_connection_can_find_wrong_is_a_config_error_with_its_place(line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        built(f'[[providers]]\nname = "up"\nkind = "openai"\n{line}\n')
    assert "providers.up" in str(caught.value)


TARGET = """
[[models]]
id = "m"
targets = [{{ provider = "a", model = "x", {own} }}, {{ provider = "b", model = "y" }}]
"""
X, Y = TargetId("a", "x"), TargetId("b", "y")


def with_target(own: str, old: RuntimeConfig | None = None, idle_s: int = 5) -> RuntimeConfig:
    return built(PROVIDERS.format(key="one", idle_s=idle_s) + TARGET.format(own=own), old)


async def test_a_target_has_its_providers_settings_but_for_its_own() -> None:
    own = "retries = 0, max_failures = 9, ejection_s = 4, cooldown_s = 3, idle_s = 2, timeouts = { total_s = 1 }"
    runtime = with_target(own)
    mine, theirs = runtime.provider_for(X), runtime.provider_for(TargetId("a", "z"))
    assert theirs is runtime.providers["a"]
    assert (mine.config.retries, theirs.config.retries) == (0, 2)
    assert (mine.health, theirs.health) == (HealthSettings(9, 4, 3), HealthSettings())
    assert (mine.timeouts.idle_s, mine.timeouts.total_s) == (2, 1)
    assert mine.timeouts.first_event_s == theirs.timeouts.first_event_s
    assert mine.upstream is theirs.upstream, "nothing of this needs connections of its own"
    assert runtime.provider_for(Y) is runtime.providers["b"]


@pytest.mark.parametrize(
    "own",
    ['base_url = "http://127.0.0.1:8/v1"', 'proxy = "http://127.0.0.1:8"', 'headers = { x-a = "b" }', "connect_s = 2"],
)
async def test_a_target_that_connects_differently_has_connections_of_its_own(own: str) -> None:
    first = with_target(own)
    mine, theirs = first.provider_for(X).upstream, first.providers["a"].upstream
    assert mine is not theirs
    assert [(name, upstream) for name, upstream in first.upstreams() if name == "a"] == [("a", theirs), ("a", mine)]
    assert sorted(connections_of(first)) == [("a", 0, 0), ("b", 0, 0)]
    second = with_target(f"{own}, retries = 1, max_failures = 1", first)
    assert second.provider_for(X).upstream is mine, "the rest does not change how it is connected"
    third = with_target("retries = 1", second)
    assert third.provider_for(X).upstream is third.providers["a"].upstream
    fourth = with_target(own.replace("8", "7").replace('"b"', '"c"').replace("= 2", "= 3"), second)
    assert fourth.provider_for(X).upstream not in (mine, theirs)


async def test_headers_of_a_target_are_over_those_of_its_provider() -> None:
    provider = '[[providers]]\nname = "a"\nkind = "openai"\nheaders = { X-A = "1", x-b = "2" }\n'
    target = 'headers = { x-a = "3", x-c = "4" }'
    runtime = built(provider + f'[[models]]\nid = "m"\ntargets = [{{ provider = "a", model = "x", {target} }}]\n')
    assert runtime.provider_for(X).config.headers == {"x-b": "2", "x-a": "3", "x-c": "4"}


async def test_health_survives_a_reload_with_its_new_settings_unless_it_is_another_server() -> None:
    first = with_target("max_failures = 1")
    for target in (X, Y):
        first.router.failed(Candidate(target), 0.0, UpstreamError("upstream_server_error", "Broken."))
    same = with_target("max_failures = 3, ejection_s = 7", first, idle_s=6)
    assert same.router.is_unavailable(Candidate(X), 1.0)
    health = same.router.health_of(Candidate(X))
    assert health is not None
    assert health.settings == HealthSettings(3, 7)
    elsewhere = with_target('max_failures = 3, base_url = "http://127.0.0.1:8/v1"', same)
    assert not elsewhere.router.is_unavailable(Candidate(X), 1.0)


async def test_the_address_of_a_target_that_cannot_be_used_is_named_with_its_place() -> None:
    with pytest.raises(ConfigError) as caught:
        with_target('base_url = "http://a..b/v1"')
    assert "models.m.targets[0]" in str(caught.value)
