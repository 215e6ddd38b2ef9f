"""A configuration made into what works: what it takes from the one before, and what only shows when it is tried."""

import pytest

from streamweir.config.error import ConfigError
from streamweir.config.model import Provider as ProviderConfig
from streamweir.server.request.runtime import RuntimeConfig, build_runtime_config
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
    assert second.providers["b"].upstream is not first.providers["b"].upstream
    assert second.providers["b"].target.api_key == "two"
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
