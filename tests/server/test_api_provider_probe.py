"""A provider is tested over the API: what is asked of it, what is told of it, and what is not."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2

from support.answers import error_body
from support.api import Api, api_on, bearer
from support.script import Seen, Step, Wait, whole
from support.scripted_upstream import ScriptedUpstream

CANARY = "sk-canary-8414213562373"
MODELS = b'{"object":"list","data":[]}'


def configuration(base_url: str) -> str:
    keys = f'api_keys = [{{ name = "good", key = "{CANARY}-1" }}, {{ name = "old", key = "{CANARY}-2" }}]'
    return f"""
[[providers]]
name = "up"
kind = "openai"
base_url = "{base_url}"
{keys}

[[providers]]
name = "gone"
kind = "openai"
base_url = "http://127.0.0.1:1"
api_key = "{CANARY}-3"

[[providers]]
name = "sim"
kind = "sim"
"""


def answer(seen: Seen) -> Sequence[Step]:
    if seen.headers["authorization"].endswith("-2"):
        return whole(error_body(f"Incorrect API key provided: {CANARY}-2"), 401)
    return whole(MODELS)


async def tried(api: Api, name: str, status: int = 200) -> Any:
    reply = await api.ask("POST", f"/api/providers/{name}/test", **api.operator)
    assert (reply.status_code, CANARY in reply.text) == (status, False)
    return reply.json()


async def test_each_key_is_tried_and_nothing_secret_is_told(tmp_path: Path) -> None:
    async with ScriptedUpstream(answer) as up, api_on("sqlite", tmp_path, configuration(up.base_url)) as api:
        found = await tried(api, "up")
        assert (found["provider"], found["at_ms"]) == ("up", api.clock.at_ms)
        good, old = found["results"]
        assert (good["credential"], good["outcome"], good["advice"]) == ("good", "ok", None)
        assert good["message"].startswith("reached, the key is accepted")
        assert (old["credential"], old["outcome"]) == ("old", "fail")
        assert "status 401" in old["message"]
        assert old["advice"] == "check the key, and where it comes from"
        assert [(each.method, each.path) for each in up.requests] == [("GET", "/v1/models")] * 2
        (gone,) = (await tried(api, "gone"))["results"]
        assert (gone["outcome"], "the firewall" in gone["advice"]) == ("fail", True)
        (built_in,) = (await tried(api, "sim"))["results"]
        assert (built_in["outcome"], built_in["message"]) == ("ok", "it is built in")
        rows = (await api.ask("GET", "/api/audit", params={"limit": 3}, **api.operator)).json()["data"]
        assert [(row["action"], row["object"]) for row in rows] == [
            ("provider.test", name) for name in ("sim", "gone", "up")
        ]
        assert (await tried(api, "nobody", 404))["error"]["code"] == "not_found"
        assert (await tried(api, "%2E%2E", 404))["error"]["code"] == "not_found"
        forbidden = await api.ask("POST", "/api/providers/up/test", **bearer(api.one.admin.secret))
        assert forbidden.status_code == 403
        assert len(up.requests) == 2, "who may not, reaches nothing"


async def test_one_test_of_a_provider_at_a_time(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    def slow(_: Seen) -> Sequence[Step]:
        return [Wait(go_on), *whole(MODELS)]

    async with ScriptedUpstream(slow) as up, api_on("sqlite", tmp_path, configuration(up.base_url)) as api:
        first: asyncio.Task[httpx2.Response] = asyncio.create_task(
            api.ask("POST", "/api/providers/up/test", **api.operator)
        )
        await up.seen(1)
        assert (await tried(api, "up", 409))["error"]["code"] == "conflict"
        go_on.set()
        assert (await first).status_code == 200
        assert [each["outcome"] for each in (await tried(api, "up"))["results"]] == ["ok", "ok"]
