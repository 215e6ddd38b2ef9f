"""Models over the API: their targets, how these do, and what each costs."""

import time
from pathlib import Path
from typing import Any

from streamweir.core.errors import UpstreamError
from streamweir.policy.routing.health import MAX_FAILURES, Candidate, TargetId
from streamweir.server.accounting.target_limiter import AttemptHold
from support.api import ADDRESSES, HIDDEN, TOML, Api, api_on, bearer

MORE = """
[[providers]]
name = "listed"
kind = "openai"
api_key = "sk-upstream-1414213562"
models = ["gpt-4o-mini"]

[[models]]
id = "shared out"
strategy = "weighted"
targets = [{ provider = "up", model = "gpt-4o", weight = 3 }, { provider = "sim", model = "ok" }]

[[models]]
id = "staged"
strategy = "least_busy"
targets = [{ provider = "sim", model = "ok", stage = 2 }, { provider = "up", model = "gpt-4o", weight = 3 }]
fallbacks = ["shared out", "up/gpt-4.1"]
context_fallbacks = ["up/gpt-4.1"]
content_filter_fallbacks = ["smart"]
"""


async def models_of(api: Api, secret: str) -> dict[str, Any]:
    reply = await api.ask("GET", "/api/models", **bearer(secret))
    assert reply.status_code == 200
    for text in (*HIDDEN, *ADDRESSES):
        assert text not in reply.text
    return {model["id"]: model for model in reply.json()["data"]}


async def test_models(tmp_path: Path) -> None:
    default = '[server]\ndefault_model = "smart"\n'
    async with api_on("sqlite", tmp_path, default + TOML + MORE) as api:
        found = await models_of(api, api.secret)
        assert found == await models_of(api, api.one.admin.secret)
        assert list(found)[:4] == ["smart", "own", "shared out", "staged"]
        assert {"sim/hello", "listed/gpt-4o-mini"} < set(found)
        assert [id for id, model in found.items() if model["is_default"]] == ["smart"]
        well = {"wire": "chat", "state": "well", "is_limited": False, "away_for_s": 0.0, "ttft_s": None}
        well |= {"processes": 1, "away": 0, "probation": 0}
        assert found["smart"]["targets"] == [
            {"provider": "up", "model": "gpt-4o", "weight": None, "stage": 1, **well},
            {"provider": "sim", "model": "ok", "weight": None, "stage": 1, **well},
        ]
        assert [target["weight"] for target in found["shared out"]["targets"]] == [3, 1]
        staged = found["staged"]
        assert [(target["provider"], target["weight"], target["stage"]) for target in staged["targets"]] == [
            ("up", 3, 1),
            ("sim", 1, 2),
        ]
        assert (staged["strategy"], staged["fallbacks"]) == ("least_busy", ["shared out", "up/gpt-4.1"])
        assert (staged["context_fallbacks"], staged["content_filter_fallbacks"]) == (["up/gpt-4.1"], ["smart"])
        assert (found["smart"]["strategy"], found["smart"]["fallbacks"]) == ("priority", [])
        assert found["own"]["source"] == "config"
        assert found["own"]["rates"] == {"input_usd": "0.1", "output_usd": "0.000000001"}
        assert (found["sim/hello"]["source"], found["listed/gpt-4o-mini"]["source"]) == ("built-in", "list")
        prices = (await api.ask("GET", "/api/prices", params={"provider": "alias"}, **api.operator)).json()["data"]
        assert [(each["model"], each["source"], each["rates"]) for each in prices] == [
            (id, found[id]["source"], found[id]["rates"]) for id in ("smart", "own", "shared out", "staged")
        ]


async def test_patterns_are_shown_to_the_operator(tmp_path: Path) -> None:
    more = '[[models]]\nid = "claude-*"\ntargets = [{ provider = "up", model = "gpt-4o" }]\n'
    async with api_on("sqlite", tmp_path, TOML + more) as api:
        found = await models_of(api, api.secret)
        assert [target["model"] for target in found["claude-*"]["targets"]] == ["gpt-4o"]
        prices = (await api.ask("GET", "/api/prices", params={"provider": "alias"}, **api.operator)).json()["data"]
        assert found["claude-*"]["rates"] == {each["model"]: each["rates"] for each in prices}["claude-*"]


async def test_how_the_targets_of_models_do(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path, TOML + MORE) as api:
        router, now = api.context.runtime().router, time.monotonic()
        for target in (TargetId("up", "gpt-4o"), TargetId("listed", "gpt-4o-mini")):
            for _ in range(MAX_FAILURES):
                router.failed(Candidate(target), now, UpstreamError("upstream_server_error", "no"))
        router.answered(Candidate(TargetId("sim", "ok")), now, 0.25)
        found = await models_of(api, api.secret)
        up, sim = found["smart"]["targets"]
        (listed,) = found["listed/gpt-4o-mini"]["targets"]
        assert (up["state"], sim["state"], listed["state"]) == ("away", "well", "away")
        assert 0 < up["away_for_s"] <= 30
        assert sim["ttft_s"] == 0.25


async def test_through_which_api_a_target_is_asked(tmp_path: Path) -> None:
    more = """
[[models]]
id = "both"
targets = [
  { provider = "up", model = "o3", wire = "responses" },
  { provider = "up", model = "o3-pro" },
  { provider = "up", model = "gpt-4o" },
]
"""
    async with api_on("sqlite", tmp_path, TOML + more) as api:
        found = await models_of(api, api.secret)
        assert [target["wire"] for target in found["both"]["targets"]] == ["responses", "responses", "chat"]
        up = (await api.ask("GET", "/api/providers", **api.operator)).json()["data"][0]
        wires = {target["model"]: target["wire"] for target in up["targets"]}
        assert (wires["o3"], wires["o3-pro"], wires["gpt-4o"]) == ("responses", "responses", "chat")


async def test_each_key_of_a_provider_with_its_state(tmp_path: Path) -> None:
    toml = TOML.replace(
        "api_key = ", 'api_keys = [{ name = "a", key = "sk-canary-1" }, { key = "sk-canary-2", weight = 3 }] # ', 1
    )
    async with api_on("sqlite", tmp_path, toml) as api:
        router, now = api.context.runtime().router, time.monotonic()
        refused = UpstreamError("upstream_auth_failed", "m")
        refused.is_of_account = True
        model = next(candidate.target for candidate, _, _ in router.known() if candidate.target.provider == "up")
        router.failed(Candidate(model, "a"), now, refused)
        router.failed(Candidate(model, "2"), now, UpstreamError("upstream_rate_limited", "m", retry_after_s=20))
        reply = await api.ask("GET", "/api/providers", **api.operator)
        assert "canary" not in reply.text
        up = reply.json()["data"][0]
        keys = [(each["name"], each["weight"], each["state"], each["ejections"]) for each in up["credentials"]]
        assert keys == [("a", 1, "away", 1), ("2", 3, "well", 0)]
        assert 500 < up["credentials"][0]["away_for_s"] <= 600
        rows = [(each["credential"], each["state"], each["is_limited"]) for each in up["targets"]]
        assert rows[:2] == [("a", "away", False), ("2", "away", True)]
        assert rows[2:] == [("a", "away", False), ("2", "well", False)], "another model with the same keys"
        models = await models_of(api, api.secret)
        states = {
            each["state"] for found in models.values() for each in found["targets"] if each["model"] == model.model
        }
        assert states == {"away"}


async def test_a_default_that_is_not_listed_is_shown(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path, '[server]\ndefault_model = "up/gpt-4o-mini"\n' + TOML) as api:
        last = list((await models_of(api, api.secret)).values())[-1]
        assert (last["id"], last["is_default"]) == ("up/gpt-4o-mini", True)


async def test_limits_of_targets_and_what_is_used_of_them(tmp_path: Path) -> None:
    more = """
    [[providers]]
    name = "busy"
    kind = "sim"
    rpm = 5
    [[models]]
    id = "limited"
    targets = [{ provider = "busy", model = "ok", tpm = 5000, max_streams = 2 }]
    """
    async with api_on("sqlite", tmp_path, TOML + more) as api:
        limits = api.context.runtime().target_limits
        assert limits is not None
        scopes = limits.scopes_of(TargetId("busy", "ok"))
        limiter = api.context.accounting.targets
        hold = await limiter.reserve("r", scopes, 100)
        reply = await api.ask("GET", "/api/providers", **api.operator)
        found = {provider["name"]: provider["limits"] for provider in reply.json()["data"]}
        none = {"rpm": None, "tpm": None, "max_streams": None}
        used = {"requests": 1, "tokens": 100, "streams": 1}
        assert found.pop("busy") == [
            {"scope": "target", "name": "ok", **none, "tpm": 5000, "max_streams": 2, **used},
            {"scope": "provider", "name": "busy", **none, "rpm": 5, **used},
        ]
        assert list(found.values()) == [[]] * len(found)
        other = await api.ask("GET", "/api/providers", **bearer(api.one.admin.secret))
        assert all(provider["limits"] == [] for provider in other.json()["data"])
        assert isinstance(hold, AttemptHold)
        limiter.release(hold)
