"""What providers ask for, and the margin: shown to the operator, and to nobody else by any way.

A workspace's own admin asks for everything that it may ask for, and no answer has the cost: neither as a member, nor as
a number, nor by whether a filter finds something.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streamweir.console.assets import Assets
from streamweir.policy.pricing.prices import Quote, Rates, encode_quote
from streamweir.server.control.api.operation import Operation
from streamweir.server.control.api.table import OPERATIONS
from streamweir.server.control.app import control_plane
from streamweir.server.control.metrics_access import MetricsAccess
from streamweir.server.control.readiness import Readiness
from streamweir.server.telemetry.metrics import Metrics
from streamweir.store.ledger.posting import apply
from support.api import TOML, Api, api_on, bearer
from support.api_calls import is_for_keys, make_call, name_of
from support.common_entries import hold
from support.entries import progress
from support.stores import one_database

USD = 10**9
COST, PRICE = 1_234_567_891, 2 * USD
RATES = Rates(input=COST, output=COST)
HIDDEN = re.compile(r"1\.?234567891|0\.?765432109|7407\.?407")
"""The cost of a request, its margin, and what a running one has cost so far, wherever the point is."""
LOCAL = "127.0.0.1"
SETTINGS = {"show_cost"}
"""Of a key: whether its callers are shown the price, which is what a request costs them."""
TOLD_BY = {"min_cost_usd", "max_cost_usd"}
QUIET = (
    "open_session",
    "log_in",
    "accept_invitation",
    "show_invitation",
    "show_login",
    "begin_oidc",
    "close_session",
    "show_openapi",
    "chat_as_key",
)
"""The document names members; the others say nothing about requests."""


async def filled(api: Api) -> str:
    """Three that are over and one that runs, in the first workspace. The id of the latter."""
    text = RATES.text
    for _ in range(3):
        await api.new_request(
            api.one,
            cost=COST,
            price=PRICE,
            rates=Rates(input=1, output=1).text,
            cost_rates=text,
            usage='{"output":1}',
            charge_rule="caller_left:used",
        )
    return await running(api)


async def running(api: Api) -> str:
    id = f"req_{api.clock.at_ms:012x}{'e' * 16}"
    quote = encode_quote(Quote("v", {"up/m": RATES}, {"up/m": Rates(input=1, output=1)}))
    known = {"workspace_id": api.one.workspace.id, "key_id": api.one.chat.key.id, "at_ms": api.clock.at_ms}
    entry = hold(id, 7, **known, prices=quote, prompt_tokens=6000, instance=api.storage.node.instance)
    await api.storage.store.write(lambda conn: apply(conn, [entry, progress((id, "up/m", 0))]))
    return id


def members(value: Any) -> Iterator[str]:
    """The names of all members in a JSON document."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield name
            yield from members(each)
    elif isinstance(value, list):
        for each in value:
            yield from members(each)


def secrets_in(reply: Any) -> list[str]:
    found = HIDDEN.findall(reply.text)
    if reply.headers["content-type"].startswith("application/json"):
        names = set(members(reply.json()))
    else:
        names = set(re.findall(r"\w+", reply.text))
    return [*found, *sorted(name for name in names - SETTINGS if re.search("cost|margin|charge_rule", name))]


@one_database
async def test_no_operation_tells_a_workspaces_admin_a_cost(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:
        await filled(api)
        roles = {"key": bearer(api.one.admin.secret), "session": await api.session(api.one.admin)}
        asked, found = 0, {}
        for operation in OPERATIONS:
            if not is_for_keys(operation) or operation.name in QUIET:
                continue
            for role, sent in roles.items():
                made = await make_call(api, operation)
                for path in (made.path, *variants(operation, made.path)):
                    reply = await api.ask(operation.method, path, **made.sent, **sent)
                    assert reply.status_code < 300, (name_of(operation), reply.text)
                    asked += 1
                    if secrets_in(reply):
                        found[name_of(operation), role, path] = secrets_in(reply)
        assert found == {}
        assert asked > 2 * 25


def variants(operation: Operation, path: str) -> list[str]:
    """Further questions, where an operation has other answers to them."""
    if operation.name == "export_requests":
        return [f"{path}?format=jsonl"]
    if operation.name in ("show_usage", "show_overview"):
        return [f"{path}?by={by}" for by in ("model", "key", "provider")]
    return [f"{path}?kind=all"] if operation.name == "list_ledger" else []


async def test_the_operator_is_told_by_the_same_operations(tmp_path: Path) -> None:
    """So that the test above would find it."""
    async with api_on("sqlite", tmp_path) as api:
        id = await filled(api)
        for path in (
            "/api/requests",
            "/api/requests/export",
            "/api/requests/export?format=jsonl",
            "/api/ledger",
            "/api/live",
            "/api/live/events",
            f"/api/requests/{id}",
        ):
            reply = await api.ask("GET", path, **api.operator)
            assert {"cost_usd", "margin_usd"} <= set(secrets_in(reply)), path
            assert HIDDEN.search(reply.text), path
        total = (await api.ask("GET", "/api/usage", **api.operator)).json()["total"]
        assert (total["price_usd"], total["cost_usd"], total["margin_usd"]) == ("6", "3.703703673", "2.296296327")
        assert (total["uncosted"], total["unpriced"]) == (0, 0)
        overview = (await api.ask("GET", "/api/overview", **api.operator)).json()
        assert overview["total"] == total == overview["series"][0]["usage"] == overview["groups"][0]["usage"]


@one_database
async def test_the_margin_of_a_sum_is_of_requests_whose_price_and_cost_are_known(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:
        for cost, price in ((2, 5), (9, 8), (None, 700), (60, None), (None, None), (0, 4)):
            await api.new_request(api.one, cost=cost, price=price, dialect="openai")
        for by in ("total", "key", "api"):
            reply = await api.ask("GET", f"/api/usage?step=day&by={by}", **api.operator)
            total = reply.json()["total"]
            assert [total[f"{name}_usd"] for name in ("price", "cost", "margin")] == [
                "0.000000717",
                "0.000000071",
                "0.000000006",
            ]
            assert (total["uncosted"], total["unpriced"]) == (2, 2)


@one_database
async def test_only_the_operator_may_filter_by_cost(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:
        await filled(api)
        admin = bearer(api.one.admin.secret)
        for path in ("/api/requests", "/api/requests/export"):
            for name in sorted(TOLD_BY):
                reply = await api.ask("GET", path, params={name: "1.234567891"}, **admin)
                assert (reply.status_code, reply.json()["error"]["code"]) == (403, "insufficient_permissions")
                assert (await api.ask("GET", path, params={name: "1.234567891"}, **api.operator)).status_code == 200
        for params, count in (({"min_price_usd": "2"}, 3), ({"max_price_usd": "1.999999999"}, 0)):
            reply = await api.ask("GET", "/api/requests", params=params, **admin)
            assert len(reply.json()["data"]) == count


async def test_metrics_about_money_are_the_operators(tmp_path: Path) -> None:
    metrics = Metrics()

    async def text() -> bytes:
        return metrics.text()

    toml = f"{TOML}\n[server]\nmetrics_public = true\nmetrics_local = true\n"
    async with api_on("sqlite", tmp_path, toml) as api:
        page = control_plane(
            api.context,
            Assets(tmp_path),
            readiness=Readiness(),
            metrics=text,
            metrics_access=MetricsAccess(api.context.runtime, api.storage.accounting.directory),
            is_secure=False,
        )
        await api.serve(page)
        seen = {}
        for name, role in {
            "nobody": {},
            "workspace's admin": bearer(api.one.admin.secret),
            "workspace's session": await api.session(api.one.admin),
            "wrong secret": bearer("sw-admin-wrong"),
            "operator": api.operator,
            "operator's session": await api.session(),
            "trusted": {"peer": LOCAL},
            "operator's Prometheus": bearer(api.one.metrics.secret),
            "chat key": bearer(api.one.chat.secret),
        }.items():
            reply = await api.ask("GET", "/metrics", **role)
            assert reply.status_code == 200
            assert "streamweir_open_streams" in reply.text
            seen[name] = "streamweir_cost_usd" in reply.text, "streamweir_price_usd" in reply.text
        shown = {"operator", "operator's session", "trusted", "operator's Prometheus"}
        assert seen == {name: (name in shown, name in shown) for name in seen}


async def test_prices_are_those_of_the_workspaces_own_group(tmp_path: Path) -> None:
    """What keys without a group pay may be the cost."""
    groups = '[[price_groups]]\nname = "dearer"\nmarkup_percent = 20\n'
    async with api_on("sqlite", tmp_path, f"{TOML}\n{groups}") as api:
        path = f"/api/workspaces/{api.one.workspace.id}"
        reply = await api.ask("PATCH", path, body={"price_group": "dearer"}, **api.operator)
        assert reply.status_code == 200
        found = {}
        for name, role in {
            "one": bearer(api.one.admin.secret),
            "two": bearer(api.two.admin.secret),
            "operator": api.operator,
        }.items():
            prices = (await api.ask("GET", "/api/prices", params={"provider": "alias"}, **role)).json()["data"]
            models = (await api.ask("GET", "/api/models", **role)).json()["data"]
            found[name] = {
                each["rates"]["input_usd"]
                for each in (*prices, *models)
                if (each.get("model") or each.get("id")) == "smart"
            }
        assert found == {"one": {"3"}, "two": {"2.5"}, "operator": {"2.5"}}


@one_database
async def test_what_a_provider_sent_does_not_tell_what_it_charges(database: str, tmp_path: Path) -> None:
    """A workspace's admin may keep the content of its keys, with the frames of the provider. They are cut anywhere."""
    said = 'data: {"choices":[{"delta":{"content":"It costs 7"}}],"usage":{"total_tokens":12,"co'
    told = 'st":1.234567891,"is_byok":true,"cost_details":{"upstream_inference_cost": 1234567891e-9},'
    ends = '"estimated_cost":"1.234567891","cost_in_usd_ticks":1234567891}}'
    async with api_on(database, tmp_path) as api:
        id = await api.new_request(api.one, upstream_frames=[(1, said), (2, told), (3, ends)])
        path = f"/api/requests/{id}/content"
        for role in (bearer(api.one.admin.secret), await api.session(api.one.admin)):
            reply = await api.ask("GET", path, **role)
            assert HIDDEN.findall(reply.text) == []
            text = "".join(frame["text"] for frame in reply.json()["upstream_frames"])
            assert "true" not in text
            assert text.startswith(said), "the rest is shown"
        text = "".join(
            frame["text"] for frame in (await api.ask("GET", path, **api.operator)).json()["upstream_frames"]
        )
        assert text == said + told + ends


@one_database
async def test_the_rule_that_charges_the_cost_is_the_operators(database: str, tmp_path: Path) -> None:
    """It would say that the price of this request is its cost."""
    async with api_on(database, tmp_path) as api:
        id = await api.new_request(api.one, cost=COST, price=COST, charge_rule="caller_left:cost")
        for path in (f"/api/requests/{id}", "/api/requests", "/api/requests/export?format=jsonl"):
            assert "caller_left:cost" in (await api.ask("GET", path, **api.operator)).text, path
            assert "caller_left" not in (await api.ask("GET", path, **bearer(api.one.admin.secret))).text, path
