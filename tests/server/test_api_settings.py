"""Settings over the API: all that is configured, for the operator's eyes, and no secret of it."""

from pathlib import Path
from typing import Any

from msgspec import structs

from streamweir import __version__
from streamweir.config.display.difference import difference
from streamweir.config.error import ConfigError
from streamweir.config.model import Config, Store
from streamweir.config.source import ConfigSource
from support.api import HIDDEN, TOML, Api, api_on, app_of, bearer
from support.canary import CANARIES, KEYS_TOML, CanarySet, providers_toml

ADDRESSES = ("host of a provider",)
"""Which the operator may see."""


async def settings_of(api: Api) -> Any:
    reply = await api.ask("GET", "/api/settings", **api.operator)
    assert reply.status_code == 200
    return reply.json()


def lines(settings: Any) -> dict[str, Any]:
    return {line["path"]: line for section in settings["sections"] for line in section["lines"]}


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
            "oidc",
            "providers.up",
            "providers.sim",
            "models.smart",
            "models.own",
            "price_groups.resale",
            "keys.test",
            "streams",
            "alerts",
            "webhooks",
            "telemetry",
            "limits",
        ]
        by_path = lines(found)
        assert by_path["server.timeouts.keepalive_s"] == {
            "path": "server.timeouts.keepalive_s",
            "text": "keepalive_s = 15.0",
            "value": 15.0,
            "origin": "default",
            "about": "default",
            "is_default": True,
        }
        assert by_path["providers.up.api_key"]["value"] == "****1828"
        assert by_path["providers.up"]["text"] == "[[providers]]"
        for secret in HIDDEN:
            assert secret not in str(found)
        assert found["reloads"] == []


async def test_the_origin_of_each_value_and_the_last_reloads(tmp_path: Path) -> None:
    source = ConfigSource(tmp_path / "own.toml", {"UP": "up"}, listen="127.0.0.1:2")
    async with api_on("sqlite", tmp_path) as api:
        (tmp_path / "own.toml").write_text(TOML.replace('name = "up"', 'name = "${UP}"'))
        source.load()
        source.log.taken(5, "request", difference(Config(), Config(store=Store(retention_days=7.0))))
        source.log.refused(6, "secret", ConfigError("server.listen", "is wrong"))
        await api.serve(app_of(structs.replace(api.context, source=source)))
        found = await settings_of(api)
        assert found["file"] == str(tmp_path / "own.toml")
        by_path = lines(found)
        shown = {path: by_path[path]["about"] for path in ("server.listen", "providers.up.name", "providers.up.kind")}
        assert shown == {
            "server.listen": "--listen",
            "providers.up.name": "own.toml:3, environment variable UP",
            "providers.up.kind": "own.toml:4",
        }
        assert found["reloads"] == [
            {
                "at_ms": 6,
                "cause": "secret",
                "is_taken": False,
                "problems": ["server.listen: is wrong"],
                "changes": [],
                "more_changes": 0,
            },
            {
                "at_ms": 5,
                "cause": "request",
                "is_taken": True,
                "problems": [],
                "changes": [
                    {
                        "path": "store.retention_days",
                        "what": "changed",
                        "before": "30.0",
                        "after": "7.0",
                        "needs_restart": False,
                    }
                ],
                "more_changes": 0,
            },
        ]


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
        by_path = lines(reply.json())
        assert by_path["providers.careless.base_url"]["value"] == "http://127.0.0.1:9/****/v1"
        assert by_path["providers.openai.headers.x-team"]["value"] == "****"
        assert by_path["providers.careless.proxy"]["value"] == "http://****@127.0.0.1:9"
        assert by_path["keys.first.key"]["value"] == "****cdef"
