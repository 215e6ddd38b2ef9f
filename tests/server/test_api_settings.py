"""Settings over the API: all that is configured, for the operator's eyes, and no secret of it."""

from pathlib import Path
from typing import Any

from msgspec import structs

from streamweir import __version__
from support.api import HIDDEN, Api, api_on, app_of, bearer
from support.canary import CANARIES, KEYS_TOML, CanarySet, providers_toml

ADDRESSES = ("host of a provider",)
"""Which the operator may see."""


async def settings_of(api: Api) -> Any:
    reply = await api.ask("GET", "/api/settings", **api.operator)
    assert reply.status_code == 200
    return reply.json()


def entries(settings: Any) -> dict[str, Any]:
    return {entry["path"]: entry for section in settings["sections"] for entry in section["entries"]}


async def test_what_is_configured(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        found = await settings_of(api)
        assert found["version"] == __version__
        assert found["instance"] == api.storage.node.instance
        assert found["started_ms"] == api.context.started_ms
        assert (found["file"], found["store"]) == (None, "sqlite:///streamweir.db")
        assert [section["name"] for section in found["sections"]] == [
            "server",
            "store",
            "shared",
            "routing",
            "payments",
            "providers.up",
            "providers.sim",
            "models.smart",
            "models.own",
            "price_groups.resale",
            "keys.test",
            "streams",
            "alerts",
            "telemetry",
        ]
        by_path = entries(found)
        assert by_path["server.timeouts.keepalive_s"] == {
            "path": "server.timeouts.keepalive_s",
            "value": "15",
            "is_secret": False,
            "is_set": False,
        }
        assert by_path["providers.up.api_key"]["value"] == "****1828"
        for secret in HIDDEN:
            assert secret not in str(found)
        await api.serve(app_of(structs.replace(api.context, file="/etc/streamweir.toml")))
        assert (await settings_of(api))["file"] == "/etc/streamweir.toml"


async def test_it_is_for_the_operator_alone(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        reply = await api.ask("GET", "/api/settings", **bearer(api.one.admin.secret))
        assert (reply.status_code, "providers" in reply.text) == (403, False)
        assert (await api.ask("GET", "/api/settings", **await api.session(api.one.admin))).status_code == 403
        assert (await api.ask("GET", "/api/settings", **await api.session())).status_code == 200


async def test_no_secret_of_the_configuration_is_in_the_answer(tmp_path: Path) -> None:
    quoted = f'''
[[providers]]
name = "careless"
kind = "openai"
base_url = "http://127.0.0.1:9/{CANARIES["key of a provider"]}/v1"
api_key = "{CANARIES["key of a provider"]}"
proxy = "http://{CANARIES["key of a caller that is not good"]}@127.0.0.1:9"
'''
    async with api_on("sqlite", tmp_path, providers_toml("http://127.0.0.1:9/v1") + quoted + KEYS_TOML) as api:
        reply = await api.ask("GET", "/api/settings", **api.operator)
        assert reply.status_code == 200
        assert CanarySet().hits(reply.content, *ADDRESSES) == []
        by_path = entries(reply.json())
        assert by_path["providers.careless.base_url"] == {
            "path": "providers.careless.base_url",
            "value": "http://127.0.0.1:9/****/v1",
            "is_secret": True,
            "is_set": True,
        }
        assert by_path["providers.openai.headers.x-team"]["value"] == "****"
        assert by_path["providers.careless.proxy"]["value"] == "http://****@127.0.0.1:9"
        assert by_path["keys.first.key"]["value"] == "****cdef"
