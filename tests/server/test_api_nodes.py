"""The health of targets and keys of providers over the processes of all nodes: what each reports, and what is shown."""

import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs
from sqlalchemy import Connection, update

from streamweir.core.errors import UpstreamError
from streamweir.policy.routing.credentials import WeightedName
from streamweir.policy.routing.health import MAX_FAILURES, Candidate, TargetId
from streamweir.policy.routing.route import Route, RouteTable, RouteTarget
from streamweir.policy.routing.router import Router
from streamweir.server.nodes.report import (
    MAX_BYTES,
    MAX_UNROUTED,
    CredentialReport,
    Report,
    TargetReport,
    counts_of,
    decode_report,
    encode_report,
    news_of,
    report_of,
)
from streamweir.store.db.tables import health_reports, instances
from streamweir.store.requests.health_reports import write_report
from streamweir.store.requests.instances import retire, write_heartbeat
from support.api import TOML, Api, api_on, bearer
from support.untrusted_texts import FOREIGN

KEYS = TOML.replace(
    "api_key = ", 'api_keys = [{ name = "first", key = "sk-canary-1" }, { name = "second", key = "sk-canary-2" }] # ', 1
)
DOWN = UpstreamError("upstream_server_error", "what a provider said: <script>alert(1)</script>")


def router_of(models: Collection[str], credentials: Collection[str] = ()) -> Router:
    targets = tuple(RouteTarget(TargetId("up", model)) for model in models)
    pools = {"up": [WeightedName(name) for name in credentials]} if credentials else {}
    return Router(RouteTable([Route("alias", targets)], ["up"]), ["up"], credentials=pools)


def fail(router: Router, model: str, now: float, credential: str = "", times: int = MAX_FAILURES) -> None:
    for _ in range(times):
        router.failed(Candidate(TargetId("up", model), credential), now, DOWN)


def target(model: str = "gpt-4o", provider: str = "up", **more: Any) -> TargetReport:
    plain = TargetReport(provider, model, "", True, "well", False, 0, None, 0, 0, None, 0)
    return structs.replace(plain, **more)


def report(*targets: TargetReport, credentials: Collection[CredentialReport] = ()) -> Report:
    return Report(version="0.0.1", requests=3, targets=list(targets), credentials=list(credentials))


EJECTED = target(state="away", away_ms=20_000, ejections=2, error="upstream_timeout", error_age_ms=10_000)


# Reports.


def test_what_is_healthy_is_not_listed() -> None:
    router = router_of([f"m{number}" for number in range(1000)])
    assert report_of(router, 1.0, "1", 0).targets == []
    fail(router, "m7", 1.0)
    router.answered(Candidate(TargetId("up", "m8")), 1.0, 0.25)
    found = report_of(router, 11.0, "1", 2)
    assert [(each.model, each.state) for each in found.targets] == [("m7", "away"), ("m8", "well")], "the worst first"
    assert found.targets[0] == TargetReport(
        "up", "m7", "", True, "away", False, 20_000, None, 1, 0, "upstream_server_error", 10_000
    )
    assert found.targets[1].ttft_ms == 250
    assert found.requests == 2


def test_a_key_that_was_refused_is_told_for_every_target() -> None:
    router = router_of(["m", "other"], ["first", "second"])
    refused = UpstreamError("upstream_auth_failed", "sk-canary-1 is not a key")
    refused.is_of_account = True
    router.failed(Candidate(TargetId("up", "m"), "first"), 1.0, refused)
    found = report_of(router, 1.0, "1", 0)
    assert found.credentials == [CredentialReport("up", "first", "away", 600_000, 1, "upstream_auth_failed", 0)]
    assert [(each.model, each.credential, each.state) for each in found.targets] == [
        ("m", "first", "away"),
        ("other", "first", "away"),
    ]
    assert "canary" not in encode_report(found)


def test_what_a_report_says_and_how_it_ages() -> None:
    paused = target("paused", state="away", is_limited=True, away_ms=5_000, error="upstream_rate_limited")
    key = CredentialReport("up", "first", "away", 600_000, 1, "upstream_auth_failed", 0)
    text = encode_report(report(EJECTED, paused, credentials=[key]))
    assert decode_report(text, 0) == report(EJECTED, paused, credentials=[key])
    later = decode_report(text, 6_000)
    assert later is not None
    ejected, over = later.targets
    assert (ejected.state, ejected.away_ms, ejected.error_age_ms) == ("away", 14_000, 16_000)
    assert (over.state, over.away_ms) == ("well", 0), "a pause that is over leaves nothing behind"
    assert later.credentials[0].away_ms == 594_000
    much_later = decode_report(text, 3_600_000)
    assert much_later is not None
    assert (much_later.targets[0].state, much_later.credentials[0].state) == ("probation", "probation")


@pytest.mark.parametrize(
    "text",
    ["", "no json", "[]", '{"format": 2}', '{"format": 1}', '{"format": 1, "version": 1}', "[" * 100_000, '"\\ud800"'],
)
def test_a_report_that_cannot_be_read_is_none(text: str) -> None:
    assert decode_report(text, 0) is None


def test_a_report_is_bounded_and_the_worst_is_kept() -> None:
    healthy = [target(f"well {number}", ttft_ms=number) for number in range(3000)]
    away = [structs.replace(EJECTED, model=f"away {number}") for number in range(1000)]
    long = target("m" * 1000, state="away")
    key = CredentialReport("up", "first", "away", 600_000, 1, None, 0)
    text = encode_report(report(long, *away, *healthy, credentials=[key]))
    assert len(text.encode()) <= MAX_BYTES + 200
    found = decode_report(text, 0)
    assert found is not None
    assert [each.model for each in found.targets[:1000]] == [each.model for each in away]
    assert found.credentials == [key]
    assert found.left_out == 4001 - len(found.targets) > 1


def test_names_that_callers_chose_are_few_and_harmless() -> None:
    router = router_of([])
    for number in range(3 * MAX_UNROUTED):
        fail(router, f"{number}", 1.0)
    for text in FOREIGN:
        fail(router, text, 2.0)
    found = report_of(router, 2.0, "1", 0)
    assert len(found.targets) == MAX_UNROUTED
    text = encode_report(found)
    assert "\x00" not in text
    assert decode_report(text, 0) is not None


def test_an_error_is_a_code_of_ours() -> None:
    hostile = encode_report(report(structs.replace(EJECTED, error="<script>alert(1)</script>")))
    found = decode_report(hostile, 0)
    assert found is not None
    assert found.targets[0].error is None
    router = router_of(["m"])
    fail(router, "m", 1.0)
    assert "script" not in encode_report(report_of(router, 1.0, "1", 0))


def test_what_is_told_at_once() -> None:
    router, at = router_of(["m", "n"]), Candidate(TargetId("up", "m"))

    def news(now: float) -> object:
        return news_of(report_of(router, now, "1", 0), now)

    calm = news(1.0)
    router.answered(at, 1.0, 0.5)
    assert news(2.0) == calm, "a latency"
    assert counts_of(report_of(router, 2.0, "1", 0)) != counts_of(report_of(router, 2.0, "1", 1))
    fail(router, "m", 2.0, times=1)
    failed_once = news(2.0)
    assert failed_once != calm
    assert news(9.0) == failed_once
    fail(router, "m", 10.0)
    ejected = news(10.0)
    assert ejected != failed_once
    assert news(11.0) == news(39.9) == ejected, "as long as it is ejected"
    assert news(40.1) != ejected, "the next request decides"
    router.failed(Candidate(TargetId("up", "n")), 50.0, UpstreamError("upstream_rate_limited", "", retry_after_s=20))
    paused = news(50.0)
    router.failed(Candidate(TargetId("up", "n")), 60.0, UpstreamError("upstream_rate_limited", "", retry_after_s=60))
    assert news(60.0) != paused, "for longer"


# What is shown.


async def add_process(api: Api, name: str, found: Report | str | None, *, seen_ms: int | None = None) -> None:
    def write(conn: Connection) -> None:
        write_heartbeat(conn, name, f"node of {name}", api.clock.at_ms if seen_ms is None else seen_ms)
        if found is not None:
            text = found if isinstance(found, str) else encode_report(found)
            write_report(conn, name, text, api.clock.at_ms)

    await api.storage.store.write(write)


async def nodes_of(api: Api, **params: str) -> dict[str, Any]:
    reply = await api.ask("GET", "/api/nodes", params=params, **api.operator)
    assert reply.status_code == 200
    return {each["instance"]: each for each in reply.json()["data"]}


async def target_of(api: Api, role: Any = None, model: str = "gpt-4o") -> Any:
    reply = await api.ask("GET", "/api/providers", **(role or api.operator))
    up = next(each for each in reply.json()["data"] if each["name"] == "up")
    return next(each for each in up["targets"] if each["model"] == model)


async def test_the_sum_over_all_processes(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        await add_process(api, "b", report(EJECTED))
        await add_process(api, "c", report(target(ttft_ms=500, running=4)))
        await add_process(api, "older version", None)
        await add_process(api, "newer version", '{"format": 2}')
        await add_process(api, "dead", report(EJECTED), seen_ms=api.clock.at_ms - 60_000)
        await add_process(api, "ended", report(EJECTED))
        await api.storage.store.write(lambda conn: retire(conn, "ended", api.clock.at_ms))
        api.context.runtime().router.answered(Candidate(TargetId("up", "gpt-4o")), time.monotonic(), 0.25)

        found = await target_of(api)
        assert (found["state"], found["processes"], found["away"], found["probation"]) == ("away", 3, 1, 0)
        assert 0 < found["away_for_s"] <= 20
        assert (found["ttft_s"], found["running"], found["ejections"]) == (0.375, 4, 2)
        assert (found["error"], found["error_at_ms"]) == ("upstream_timeout", api.clock.at_ms - 10_000)
        assert (await target_of(api, model="never-heard-of"))["processes"] == 3

        models = (await api.ask("GET", "/api/models", **bearer(api.one.admin.secret))).json()["data"]
        (smart,) = [each for each in models if each["id"] == "smart"]
        up, sim = smart["targets"]
        assert (up["state"], up["away"], up["processes"], sim["state"], sim["away"]) == ("away", 1, 3, "well", 0)

        nodes = await nodes_of(api, provider="up", model="gpt-4o")
        own = api.storage.node.instance
        assert nodes.keys() == {own, "b", "c", "older version", "newer version"}
        assert [name for name, each in nodes.items() if each["is_this"]] == [own]
        assert [each["state"] for each in nodes["b"]["targets"]] == ["away"]
        assert (nodes["b"]["node"], nodes["b"]["version"], nodes["b"]["requests"]) == ("node of b", "0.0.1", 3)
        for name in ("older version", "newer version"):
            assert (nodes[name]["reported_ms"], nodes[name]["version"], nodes[name]["targets"]) == (None, None, [])
        assert all(each["targets"] == [] for each in (await nodes_of(api)).values()), "only of a provider that is named"


async def test_a_report_grows_old(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        await add_process(api, "b", report(EJECTED))
        assert (await target_of(api))["state"] == "away"
        # A report that was written long ago: nothing has changed since, and its process is alive.
        await api.storage.store.write(lambda conn: conn.execute(update(health_reports).values(at_ms=1)))
        found = await target_of(api)
        assert (found["state"], found["away"], found["probation"], found["away_for_s"]) == ("probation", 0, 1, 0)
        # The clock was set back since: the report is from the future.
        ahead = api.clock.at_ms + 3_600_000
        await api.storage.store.write(lambda conn: conn.execute(update(health_reports).values(at_ms=ahead)))
        await api.storage.store.write(lambda conn: conn.execute(update(instances).values(seen_ms=ahead)))
        found = await target_of(api)
        assert (found["state"], found["away_for_s"]) == ("away", 20)


async def test_who_sees_only_a_workspace_sees_neither_keys_nor_others_names(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path, KEYS) as api:
        key = CredentialReport("up", "second", "away", 600_000, 1, "upstream_auth_failed", 0)
        own_name, other = target("made-up by a caller", is_routed=False), target("gpt-4o", credential="first")
        away = structs.replace(EJECTED, credential="second")
        await add_process(api, "b", report(away, structs.replace(other, **_failed()), own_name, credentials=[key]))
        reply = await api.ask("GET", "/api/providers", **api.operator)
        up = reply.json()["data"][0]
        assert [(each["name"], each["state"], each["away"]) for each in up["credentials"]] == [
            ("first", "well", 0),
            ("second", "away", 1),
        ]
        assert up["credentials"][1]["error"] == "upstream_auth_failed"
        shown = [(each["model"], each["credential"], each["state"], each["is_in_alias"]) for each in up["targets"]]
        assert shown[:2] == [("gpt-4o", "first", "well", True), ("gpt-4o", "second", "away", True)]
        assert ("made-up by a caller", "", "well", False) in shown
        assert "canary" not in reply.text

        for role in (bearer(api.one.admin.secret), await api.session(api.one.admin)):
            reply = await api.ask("GET", "/api/providers", **role)
            up = reply.json()["data"][0]
            assert up["credentials"] == []
            assert [(each["model"], each["credential"], each["state"]) for each in up["targets"]] == [
                ("gpt-4o", "", "well"),
                ("never-heard-of", "", "well"),
            ], "one of its keys works"
            for hidden in ("made-up", "second", "upstream_", "node of"):
                assert hidden not in reply.text
            assert (await api.ask("GET", "/api/nodes", **role)).status_code == 403


def _failed() -> dict[str, Any]:
    return {"error": "upstream_server_error", "error_age_ms": 1}


async def test_other_nodes_with_another_configuration(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        many = [structs.replace(EJECTED, model=f"new {number}") for number in range(300)]
        stranger = structs.replace(EJECTED, provider="of another file")
        await add_process(api, "b", report(stranger, *many))
        reply = await api.ask("GET", "/api/providers", **api.operator)
        providers = {each["name"]: each for each in reply.json()["data"]}
        assert providers.keys() == {"up", "sim"}
        assert len(providers["up"]["targets"]) == 202
        assert len((await nodes_of(api, provider="of another file"))["b"]["targets"]) == 1


async def test_a_large_report_is_read(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        many = [structs.replace(EJECTED, model=f"m{number}") for number in range(1000)]
        await add_process(api, "b", report(EJECTED, *many))
        assert (await target_of(api))["away"] == 1
        assert len((await nodes_of(api, provider="up"))["b"]["targets"]) == 1001


async def test_nothing_of_a_report_is_more_than_data(tmp_path: Path) -> None:
    """Whoever can write into the database can write this."""
    async with api_on("sqlite", tmp_path) as api:
        hostile = structs.replace(EJECTED, model="<img src=x>", away_ms=10**15, error="<b>", error_age_ms=-(10**12))
        document = msgspec.to_builtins(report(hostile, EJECTED))
        await add_process(api, "b", msgspec.json.encode(document).decode())
        nodes = await nodes_of(api, provider="up")
        shown = [(each["error"], each["away_for_s"] < 1e9) for each in nodes["b"]["targets"]]
        assert shown == [(None, True), ("upstream_timeout", True)]
