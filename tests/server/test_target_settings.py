"""What a target sets over its provider, on real sockets: its address and headers, and how often it is asked again."""

from collections.abc import Sequence

import pytest

from support.answers import error_body, openai_stream
from support.gateway import configured, gateway, providers
from support.outcome import assert_completed, assert_record, assert_refused, serving
from support.script import Seen, Step, stream, whole
from support.scripted_upstream import ForbiddenServer, ScriptedUpstream

pytestmark = pytest.mark.usefixtures("no_jitter")

ANSWER = stream(openai_stream(["From", " the", " region", "."]))
BROKEN = whole(error_body("Broken."), 500)


async def test_a_target_with_its_own_address_is_asked_there() -> None:
    """By its alias, and as PROVIDER/MODEL; the provider's other models are asked at the provider's own address."""
    async with ScriptedUpstream(stream(openai_stream(["Home."]))) as home, ScriptedUpstream(ANSWER) as region:
        own = f'base_url = "{region.base_url}", headers = {{ x-region = "eu", x-team = "target" }}'
        toml = providers(up=home.base_url) + 'headers = { X-Team = "provider", x-kept = "yes" }\n'
        toml += f'[[models]]\nid = "m"\ntargets = [{{ provider = "up", model = "a", {own} }}]\n'
        async with gateway(toml) as gate:
            assert_completed(await gate.ask(model="m", stream=True), text="From the region.")
            assert_completed(await gate.ask(model="up/a", stream=True), text="From the region.")
            assert_completed(await gate.ask(model="up/b", stream=True), text="Home.")
            await gate.vacated()
            sent = region.requests[0].headers
            assert (sent["x-region"], sent["x-team"], sent["x-kept"]) == ("eu", "target", "yes")
            assert sent["authorization"] == "Bearer sk-upstream-secret"
            assert (home.requests[0].headers["x-team"], "x-region" in home.requests[0].headers) == ("provider", False)
            metrics = gate.gateway.metrics.text().decode()
            assert 'streamweir_upstream_connections{provider="up",state="idle"} 2.0' in metrics
            await gate.settled(3)
        await home.vacated()
        await region.vacated()


async def test_a_failover_to_another_region_is_not_rationed() -> None:
    """It asks another server, and so it does not take from the retry budget, which is ten of these requests."""

    def every_second(request: Seen) -> Sequence[Step]:
        return BROKEN if request.number % 2 else ANSWER

    async with ScriptedUpstream(every_second) as home, ScriptedUpstream(ANSWER) as region:
        targets = (
            f'{{ provider = "up", model = "a" }}, {{ provider = "up", model = "b", base_url = "{region.base_url}" }}'
        )
        toml = f'{providers(up=home.base_url)}[[models]]\nid = "m"\ntargets = [{targets}]\n'
        async with gateway(toml) as gate:
            assert [(await gate.ask(model="m", stream=True)).status for _ in range(30)] == [200] * 30
            assert len(region.requests) == 15
            await gate.settled(30)


async def test_connections_of_a_target_are_closed_when_it_has_none_of_its_own_any_more() -> None:
    async with ScriptedUpstream(ANSWER) as home, ScriptedUpstream(ANSWER) as region:
        plain = providers(up=home.base_url) + '[[models]]\nid = "m"\ntargets = [{ provider = "up", model = "a"'
        async with gateway(f'{plain}, base_url = "{region.base_url}" }}]\n') as gate:
            assert_completed(await gate.ask(model="m", stream=True), text="From the region.")
            gate.gateway.reload(configured(f"{plain} }}]\n"))
            await region.vacated()
            assert_completed(await gate.ask(model="m", stream=True), text="From the region.")
            assert (len(home.requests), len(region.requests)) == (1, 1)
            await gate.settled(2)
        await home.vacated()


@pytest.mark.parametrize(("own", "asked"), [("retries = 0", 1), ("retries = 1", 2), ("", 3), ("retries = 9", 3)])
async def test_a_target_is_asked_again_as_often_as_it_says(own: str, asked: int) -> None:
    """And at most as often as a request may make attempts."""
    async with serving(BROKEN, own=own) as (gate, up):
        assert_refused(await gate.ask(model="up/m", stream=True), "upstream_server_error")
        await assert_record(
            gate,
            "upstream_error",
            error="upstream_server_error",
            status=502,
            attempts=["upstream_server_error"] * asked,
        )
        assert len(up.requests) == asked


async def test_a_target_that_may_fail_once_is_ejected_by_its_first_failure() -> None:
    async with ScriptedUpstream(BROKEN) as up, ForbiddenServer() as other:
        own = "retries = 0, max_failures = 1, ejection_s = 77"
        toml = providers(up=up.base_url, other=other.base_url)
        toml += f'[[models]]\nid = "m"\ntargets = [{{ provider = "up", model = "a", {own} }}]\n'
        async with gateway(toml) as gate:
            assert_refused(await gate.ask(model="m", stream=True), "upstream_server_error")
            assert_refused(await gate.ask(model="m", stream=True), "no_available_deployment", retry_after="77")
            assert len(up.requests) == 1
            await gate.settled(2)
