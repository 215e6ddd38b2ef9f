"""Lists of models that are read from the clouds: in `/v1/models` when they are there, and in nobody's way before."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from streamweir.core.errors import StreamweirError
from streamweir.server.request.lookup import model_refresh
from streamweir.server.request.lookup.model_lists import listing_for
from streamweir.server.request.lookup.model_refresh import ModelRefresh
from streamweir.server.request.lookup.models import model_ids
from streamweir.server.request.runtime.config import RuntimeConfig, build_runtime_config
from streamweir.server.telemetry.log import close_log, configure_log
from streamweir.upstream.sim import SimUpstream
from support.aws_server import AwsAccount, origin_of
from support.gateway import KEY, Gate, configured, gateway, nothing_left, providers, until
from support.raw_client import Reply
from support.script import Hang, Head, Seen, Send, Step, whole
from support.scripted_upstream import ScriptedUpstream


def foundation(id: str, output: str = "TEXT") -> dict[str, Any]:
    return {"modelId": id, "outputModalities": [output], "inferenceTypesSupported": ["ON_DEMAND"]}


def profile(id: str) -> dict[str, Any]:
    return {"inferenceProfileId": id, "status": "ACTIVE", "type": "SYSTEM_DEFINED"}


BEDROCK = {
    "/foundation-models": {"modelSummaries": [foundation("amazon.nova-pro-v1:0"), foundation("ai21.x", "IMAGE")]},
    "/inference-profiles?maxResults=1000&type=SYSTEM_DEFINED": {
        "inferenceProfileSummaries": [profile("eu.amazon.nova-pro-v1:0"), profile("eu.ai21.x")],
        "nextToken": "a+b/c==",
    },
    "/inference-profiles?maxResults=1000&type=SYSTEM_DEFINED&nextToken=a%2Bb%2Fc%3D%3D": {
        "inferenceProfileSummaries": [profile("eu.anthropic.claude-sonnet-4-5-20250929-v1:0")]
    },
}
SIM = '[[providers]]\nname = "sim"\nkind = "sim"\n'


def deployments(*names: str) -> bytes:
    return json.dumps({"data": [{"id": name, "status": "succeeded"} for name in names]}).encode()


def azure(base_url: str, more: str = "list_models = true") -> str:
    return f"{providers('azure', az=base_url)}{more}\n"


def named_azure(name: str, up: ScriptedUpstream) -> str:
    return f"{providers('azure', **{name: up.base_url})}list_models = true\n"


def runtime_of(toml: str, old: RuntimeConfig | None = None) -> RuntimeConfig:
    return build_runtime_config(configured(toml), lambda _: SimUpstream(), old)


async def listed(gate: Gate) -> list[str]:
    async with await gate.connect() as client:
        await client.send(f"GET /v1/models HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {KEY}\r\n\r\n".encode())
        reply: Reply = await client.response()
    return [row["id"] for row in json.loads(reply.body)["data"]]


async def test_the_models_of_a_cloud_are_listed_when_they_are_read() -> None:
    many = [f"deployed-{number}" for number in range(150)]
    async with (
        nothing_left(),
        ScriptedUpstream(whole(deployments(*many))) as up,
        gateway(SIM + azure(up.base_url)) as gate,
    ):
        await until(lambda: "az/deployed-0" in model_ids(gate.gateway.runtime))
        assert {"sim/hello", *(f"az/{name}" for name in many)} <= set(await listed(gate))
        (request,) = up.requests
        assert (request.method, request.path) == ("GET", "/openai/deployments?api-version=2023-03-15-preview")
        assert request.headers["api-key"] == "sk-upstream-secret"
        assert up.open_connections == 0


async def test_a_cloud_that_hangs_delays_nobody_and_the_end_does_not_wait_for_it() -> None:
    async with nothing_left(), ScriptedUpstream([Hang()]) as up, gateway(SIM + azure(up.base_url)) as gate:
        await up.seen(1)
        assert (await gate.ask(model="sim/hello")).status == 200
        assert not any(name.startswith("az/") for name in await listed(gate))
        await gate.gateway.close()
        await up.aborted(1)


async def test_a_cloud_that_hangs_does_not_delay_the_lists_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_refresh, "MAX_AT_ONCE", 2)
    names = ("slow", "a", "b")
    async with (
        nothing_left(),
        ScriptedUpstream([Hang()]) as slow,
        ScriptedUpstream(whole(deployments("new"))) as up,
        gateway(SIM + "".join(named_azure(name, slow if name == "slow" else up) for name in names)) as gate,
    ):
        await until(lambda: {"a/new", "b/new"} <= set(model_ids(gate.gateway.runtime)))
        assert (len(slow.requests), slow.open_connections) == (1, 1)
        await gate.gateway.close()
        await slow.aborted(1)


async def test_a_provider_that_comes_with_a_reload_is_asked() -> None:
    async with nothing_left(), ScriptedUpstream(whole(deployments("new"))) as up, gateway(SIM) as gate:
        gate.gateway.reload(configured(SIM + azure(up.base_url)))
        await until(lambda: "az/new" in model_ids(gate.gateway.runtime))
        gate.gateway.reload(configured(SIM + azure(up.base_url) + "retries = 1\n"))
        assert "az/new" in model_ids(gate.gateway.runtime)
        gate.gateway.reload(configured(SIM + azure(up.base_url, "list_models = false")))
        assert "az/new" not in model_ids(gate.gateway.runtime)
        gate.gateway.reload(configured(SIM + azure("http://127.0.0.1:9", "")))
        assert "az/new" not in model_ids(gate.gateway.runtime)


@pytest.mark.parametrize(
    "more", ["", "list_models = false", 'models = ["mine"]', 'list_models = true\nmodels = ["mine"]']
)
async def test_who_is_not_asked(more: str) -> None:
    refresh, runtime = ModelRefresh(lambda: runtime), runtime_of(azure("http://127.0.0.1:9", more))
    assert await refresh.refresh_due(runtime) is None
    assert model_ids(runtime) == (["az/mine"] if "mine" in more else [])


BROKEN: dict[str, Sequence[Step]] = {
    "refused": whole(b'{"error":{"code":"401","message":"Access denied due to invalid subscription key"}}', 401),
    "missing": whole(b'{"error":{"code":"404","message":"Resource not found"}}', 404),
    "redirected": whole(b"", 302, (("location", "http://127.0.0.1:9/"),)),
    "failing": whole(b"", 503),
    "no list": whole(b"[]"),
    "no JSON": whole(b"<html>"),
    "too large": [Head(200, "application/json", framing="close"), Send(b" " * (model_refresh.MAX_BYTES + 1)), Hang()],
}


@pytest.mark.parametrize("how", BROKEN)
async def test_the_last_list_stays_while_it_cannot_be_read(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_refresh, "INTERVAL_S", 0.0)
    answers = [whole(deployments("first")), BROKEN[how], whole(deployments("second"))]
    async with nothing_left(), ScriptedUpstream(lambda request: answers[request.number]) as up:
        runtime = runtime_of(azure(up.base_url))
        refresh = ModelRefresh(lambda: runtime)
        for names in (["az/first"], ["az/first"], ["az/second"]):
            await refresh.refresh_due(runtime)
            assert model_ids(runtime) == names


async def test_a_large_refusal_is_not_read() -> None:
    """Two megabytes of small values took longer than a second, in which nothing else ran."""
    text = json.dumps({"error": {"message": "no", "more": [{}] * 40_000}}).encode()
    async with ScriptedUpstream(whole(text, 400)) as up:
        (provider,) = runtime_of(azure(up.base_url)).providers.values()
        listing = listing_for(provider.config)
        assert listing is not None
        with pytest.raises(StreamweirError) as raised:
            await model_refresh.read_names(provider, listing)
    assert raised.value.report is not None
    assert raised.value.report.text == ""


async def test_what_fails_is_tried_again_after_longer_and_longer_pauses() -> None:
    now = 0.0
    async with ScriptedUpstream(lambda request: whole(b"", 503 if request.number < 9 else 200)) as up:
        runtime = runtime_of(azure(up.base_url))
        refresh, pauses = ModelRefresh(lambda: runtime, lambda: now), []
        for _ in range(9):
            pause = await refresh.refresh_due(runtime)
            assert pause is not None
            pauses.append(pause)
            assert await refresh.refresh_due(runtime) == pause  # it is not due before
            now += pause
    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert len(up.requests) == 9


def pages(request: Seen) -> Sequence[Step]:
    """Each has a next one; Google's own are refused."""
    publisher = request.path.split("/")[3]
    if publisher == "google":
        return whole(b'{"error":{"code":403,"status":"PERMISSION_DENIED","message":"no"}}', 403)
    name = f"publishers/{publisher}/models/m{request.number}-maas"
    return whole(json.dumps({"publisherModels": [{"name": name}], "nextPageToken": "more"}).encode())


async def test_lists_without_an_end_are_cut_and_one_that_is_refused_is_left_out() -> None:
    async with nothing_left(), ScriptedUpstream(pages) as up:
        runtime = runtime_of(
            f'[[providers]]\nname = "vx"\nkind = "vertex"\nproject = "p"\nbase_url = "{up.base_url}"\n'
            'api_key = "ya29.upstream-secret"\nlist_models = true\n'
        )
        refresh = ModelRefresh(lambda: runtime)
        await refresh.refresh_due(runtime)
        publishers = [request.path.split("/")[3] for request in up.requests]
        assert publishers.count("google") == 1
        assert publishers.count("meta") == model_refresh.MAX_PAGES
        assert "pageToken=more" in up.requests[-1].path
        names = model_ids(runtime)
        assert names
        assert all(name.startswith("vx/") and name.endswith("-maas") for name in names)
        assert up.requests[0].headers["authorization"] == "Bearer ya29.upstream-secret"


async def test_bedrock_is_asked_with_signed_requests() -> None:
    account = AwsAccount()
    keys = account.issue()
    script = account.signed(lambda request: whole(json.dumps(BEDROCK[request.path]).encode()))
    async with nothing_left(), ScriptedUpstream(script) as up:
        runtime = runtime_of(
            f'[[providers]]\nname = "br"\nkind = "bedrock"\nregion = "{account.region}"\nbase_url = "{origin_of(up)}"\n'
            f'list_models = true\n[providers.aws]\naccess_key_id = "{keys.access_key_id}"\n'
            f'secret_access_key = "{keys.secret_access_key}"\nsession_token = "{keys.session_token}"\n'
        )
        refresh = ModelRefresh(lambda: runtime)
        await refresh.refresh_due(runtime)
        assert (account.refusals, [request.method for request in up.requests]) == ([], ["GET"] * 3)
        assert model_ids(runtime) == [
            "br/amazon.nova-pro-v1:0",
            "br/eu.amazon.nova-pro-v1:0",
            "br/eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
        ]
        account.revoke()
        assert await refresh.refresh_due(runtime) is not None
        assert len(model_ids(runtime)) == 3


async def test_the_log_says_why_a_list_cannot_be_read_and_no_secret(tmp_path: Path) -> None:
    """Once, and again only after it could be read."""
    quoting = whole(b'{"error":{"code":"BadRequest","message":"No list for sk-upstream-secret: upstream-secret"}}', 400)
    found, missing = whole(deployments("one")), whole(b'{"error":{"code":"404","message":"Resource not found"}}', 404)
    answers = [quoting, quoting, found, BROKEN["refused"], found, missing]
    now = 0.0
    with (tmp_path / "log").open("w") as log:
        configure_log("json", log)
        try:
            async with ScriptedUpstream(lambda request: answers[request.number]) as up:
                runtime = runtime_of(azure(up.base_url))
                refresh = ModelRefresh(lambda: runtime, lambda: now)
                for _ in answers:
                    await refresh.refresh_due(runtime)
                    now += 2 * model_refresh.INTERVAL_S
        finally:
            close_log()
    text = (tmp_path / "log").read_text()
    first, second, third, _, last = map(json.loads, text.splitlines())
    assert (first["provider"], first["error"], "No list for ***" in first["message"]) == ("az", "invalid_value", True)
    assert (second["event"], second["models"]) == ("models listed", 1)
    assert (third["error"], "key of the same resource" in third["message"]) == ("upstream_auth_failed", True)
    assert last["message"] == "The provider has no list of models at this address (404).", "no model is meant"
    assert "upstream-secret" not in text
