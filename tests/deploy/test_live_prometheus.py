"""A real Prometheus that reads a real gateway with traffic: every query of the dashboards has data, or is empty for a
reason, and every rule can be evaluated. In `make soak`: `test_queries` holds every query to the metrics that there are.
"""

from pathlib import Path
from typing import Any

import httpx2
import pytest

from support import serve_process
from support.answers import error_body, openai_stream
from support.deploy_files import RULES, panel_queries
from support.gateway import chat_request
from support.prometheus import Prometheus, prometheus_of, why_absent
from support.raw_client import Reply
from support.script import Seen, Step, stream, whole
from support.scripted_upstream import ScriptedUpstream
from support.serve_process import Program, served

pytestmark = [pytest.mark.soak, pytest.mark.skipif(why_absent() is not None, reason=why_absent() or "")]

OPEN, LIMITED, PREPAID = "sk-sw-4f9a0c7be2d85163", "sk-sw-5a0b1d8cf3e96274", "sk-sw-6b1c2e9d04fa7385"
TOML = f"""
[server]
metrics_local = true
[[providers]]
name = "sim"
kind = "sim"
[[providers]]
name = "up"
kind = "openai"
base_url = "BASE_URL"
api_keys = [{{ name = "good", key = "sk-of-the-provider-1" }}, {{ name = "revoked", key = "sk-of-the-provider-2" }}]
[[models]]
id = "priced"
targets = [{{ provider = "up", model = "m", cost = {{ input = 500.0, output = 1000.0 }} }}]
price = {{ input = 1000.0, output = 2000.0 }}
[[models]]
id = "busy"
targets = [{{ provider = "up", model = "busy", rpm = 1 }}, {{ provider = "sim", model = "hello" }}]
price = {{ input = 1.0, output = 1.0 }}
[[models]]
id = "broken"
targets = [{{ provider = "sim", model = "error?status=500" }}]
[[keys]]
name = "open"
key = "{OPEN}"
[[keys]]
name = "limited"
key = "{LIMITED}"
budget_usd = 2
budget_period = "month"
[[keys]]
name = "prepaid"
key = "{PREPAID}"
workspace = "acme"
[[webhooks]]
name = "ops"
url = "http://127.0.0.1:9/"
secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
"""
CACHED = b'"prompt_tokens_details":{"cached_tokens":20}'
EMPTY = {
    "internals / Workers / A": "there is one process",
    "internals / Workers that died / A": "as before",
    "internals / Bugs by kind / A": "there is no bug",
    "internals / Refused because of overload / A": "there is no overload",
    "overview / Refused because of overload / A": "as before",
    "internals / Exported / A": "there is no collector",
    "internals / Dropped / A": "as before",
    "internals / Requests being opened / B": "there is no limit while the event loop is not busy",
}
"""Queries that have no data here, and why."""
CONFIG = f"""
global: {{ scrape_interval: 250ms, evaluation_interval: 500ms }}
rule_files: ["{RULES}"]
scrape_configs:
  - job_name: streamweir
    static_configs: [{{ targets: ["ADDRESS"] }}]
"""


def play(seen: Seen) -> list[Step]:
    if "provider-2" in seen.headers["authorization"]:
        return list(whole(error_body("revoked"), status=401))
    if seen.json["model"] == "unreported":
        return list(stream(openai_stream(["42"], usage=None)))
    frames = openai_stream(["42"], usage=(60, 40))
    return list(stream(frames.replace(b'"prompt_tokens":60', b'"prompt_tokens":60,' + CACHED)))


async def ask(program: Program, key: str, model: str, **members: Any) -> Reply:
    return await program.answer(chat_request(key=key, model=model, stream=True, **members))


async def traffic(program: Program, admin: str) -> None:
    async with httpx2.AsyncClient(base_url=program.base_url, headers={"authorization": f"Bearer {admin}"}) as api:
        (await api.patch("/api/workspaces/acme", json={"prepaid": True})).raise_for_status()
        (await api.post("/api/credits", json={"workspace": "acme", "amount_usd": "10"})).raise_for_status()
    for _ in range(8):
        for key in (OPEN, LIMITED, PREPAID):
            assert (await ask(program, key, "priced", max_tokens=50)).status == 200
        await ask(program, OPEN, "busy", max_tokens=50)
        await ask(program, OPEN, "broken", max_tokens=50)
        await ask(program, OPEN, "up/unreported", max_tokens=50)
    assert (await ask(program, OPEN, "no such model")).status == 404


async def read_twice(prometheus: Prometheus) -> None:
    """Since everything that was asked has been counted."""
    await prometheus.holds('streamweir_key_requests_total{key="open"} == 33')
    await prometheus.holds("streamweir_workspace_credit_used_ratio > 0 and on () streamweir_key_budget_used_ratio > 0")
    await prometheus.holds("streamweir_alert_oldest_seconds")
    (sample,) = await prometheus.query('timestamp(streamweir_key_requests_total{key="open"})')
    read_s = float(sample["value"][1])
    await prometheus.holds(f'timestamp(streamweir_key_requests_total{{key="open"}}) > {read_s}')


async def test_every_query_of_the_dashboards_has_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        serve_process,
        "PROGRAM",
        [each.replace("f();", "f(budget_use_s=0.1, alert_check_s=0.1);") for each in serve_process.PROGRAM],
    )
    async with ScriptedUpstream(play) as up, served(tmp_path, TOML.replace("BASE_URL", up.base_url)) as program:
        admin = (await program.tells(r"^  admin +(sw-admin-\S+)$"))[1]
        config = CONFIG.replace("ADDRESS", program.base_url.removeprefix("http://"))
        async with prometheus_of(tmp_path, config) as prometheus:
            await prometheus.holds("streamweir_build_info")
            await traffic(program, admin)
            await read_twice(prometheus)
            empty = {name for name, text in panel_queries().items() if not await prometheus.query(text)}
            assert sorted(empty - EMPTY.keys()) == []
            assert sorted(EMPTY.keys() - empty) == []
            await prometheus.holds("streamweir:requests_failed:ratio_rate5m > 0")
            rules = await prometheus.rules()
            assert {rule["name"]: rule["lastError"] for rule in rules if rule["health"] != "ok"} == {}
            assert len(rules) > 30
