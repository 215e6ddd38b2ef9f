"""Credit, the ledger, the audit log, prices and providers over the API."""

import time
from decimal import Decimal
from pathlib import Path
from typing import Any

from sqlalchemy import update

from streamweir.core.errors import UpstreamError
from streamweir.policy.routing.health import MAX_FAILURES, Candidate, TargetId
from streamweir.store.db.tables import accounts, audit
from support.api import ADDRESSES, HIDDEN, Api, Role, api_on, bearer


async def fetch(api: Api, path: str, role: Role, **params: Any) -> Any:
    reply = await api.ask("GET", path, params=params, **role)
    assert reply.status_code == 200, reply.text
    for secret in (*HIDDEN, *ADDRESSES):
        assert secret not in reply.text
    return reply.json()


async def add(api: Api, amount: object, workspace: str = "one", **more: Any) -> tuple[int, Any]:
    body = {"workspace": workspace, "amount_usd": amount, **more}
    reply = await api.ask("POST", "/api/credits", body=body, **api.operator)
    return reply.status_code, reply.json()


async def test_credit_is_given_and_seen(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        await api.new_request(api.one)
        await api.new_open(api.one)
        status, balance = await add(api, "20.000000001", note="invoice 7")
        assert (status, balance) == (
            201,
            {
                "workspace": api.one.workspace.id,
                "name": "one",
                "prepaid": False,
                "granted_usd": "25.000000001",
                "spent_usd": "1.5",
                "held_usd": "0.000000007",
                "balance_usd": "23.499999994",
            },
        )
        admin = bearer(api.one.admin.secret)
        assert (await fetch(api, "/api/credits", admin)) == {"data": [balance], "next": None}
        every = await fetch(api, "/api/credits", api.operator, limit=2)
        assert [each["name"] for each in every["data"]] == ["default", "one"]
        rest = await fetch(api, "/api/credits", api.operator, cursor=every["next"])
        assert ([each["name"] for each in rest["data"]], rest["next"]) == (["two"], None)
        rows, params = [], {"limit": 2}
        while True:
            page = await fetch(api, "/api/ledger", admin, kind="all", **params)
            rows += page["data"]
            if page["next"] is None:
                break
            params["before"] = page["next"]
        assert [(row["kind"], row["amount_usd"], row["released_usd"], row["note"]) for row in rows] == [
            ("credit", "20.000000001", None, "invoice 7"),
            ("reservation", "-0.000000007", None, None),
            ("charge", "-1.5", "2", None),
            ("reservation", "-2", None, None),
            ("credit", "5", None, "for one"),
        ]
        names = {key["id"]: key["name"] for key in (await fetch(api, "/api/keys", admin))["data"]}
        assert [row["key_name"] for row in rows] == [names.get(row["key_id"]) for row in rows]
        assert len({row["key_name"] for row in rows}) > 1
        moved = sum(Decimal(row["amount_usd"]) + Decimal(row["released_usd"] or 0) for row in rows)
        assert moved == Decimal(balance["balance_usd"])
        for kind, wanted in (
            ({}, ["credit", "charge", "credit"]),
            ({"kind": "charge"}, ["charge"]),
            ({"kind": "credit"}, ["credit", "credit"]),
            ({"kind": "reservation"}, ["reservation", "reservation"]),
        ):
            page = await fetch(api, "/api/ledger", admin, **kind)
            assert ([row["kind"] for row in page["data"]], page["next"]) == (wanted, None), kind
        assert (await api.ask("GET", "/api/ledger", params={"kind": "hold"}, **admin)).status_code == 400
        assert len((await fetch(api, "/api/ledger", api.operator, kind="all"))["data"]) == 6, "of all workspaces"
        assert len((await fetch(api, "/api/ledger", api.operator, workspace="two"))["data"]) == 1
        check = await fetch(api, "/api/check", api.operator)
        assert (check["agrees"], check["rows"], check["faults"]) == (True, 6, [])


async def test_credit_that_makes_no_sense(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        amounts: list[object] = [0, "0.0000000001", "NaN", 10**30, "", None, [], True, "-1000000001"]
        for amount in amounts:
            status, document = await add(api, amount)
            assert (status, document["error"]["param"]) == (400, "amount_usd"), amount
        assert (await add(api, "-5.000000001"))[0] == 409, "more than is left"
        assert (await add(api, 1, "nowhere"))[0] == 404
        assert (await add(api, 1, note="x" * 501))[0] == 400
        assert (await add(api, "-5"))[1]["balance_usd"] == "0"


async def test_an_inconsistent_ledger_is_reported(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        of_one = accounts.c.workspace_id == api.one.workspace.id
        await api.storage.store.write(lambda conn: conn.execute(update(accounts).where(of_one).values(granted=7)))
        check = await fetch(api, "/api/check", api.operator)
        assert not check["agrees"]
        assert check["faults"][0] == {
            "object": api.one.workspace.id,
            "what": "granted",
            "kept_usd": "0.000000007",
            "found_usd": "5",
        }


async def test_the_audit_log(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        admin = bearer(api.one.admin.secret)
        own = (await fetch(api, "/api/audit", admin))["data"]
        assert {row["workspace"] for row in own} == {api.one.workspace.id}
        assert "workspace.create" in {row["action"] for row in own}
        every = (await fetch(api, "/api/audit", api.operator))["data"]
        assert {row["workspace"] for row in every} > {api.one.workspace.id, api.two.workspace.id, None}
        numbers, params = [], {"limit": 3}
        while True:
            page = await fetch(api, "/api/audit", api.operator, **params)
            numbers += [row["seq"] for row in page["data"]]
            if page["next"] is None:
                break
            params["before"] = page["next"]
        assert numbers == list(range(len(numbers), 0, -1))
        reply = await api.ask("GET", "/api/audit", params={"workspace": "two"}, **admin)
        assert reply.status_code == 404
        verified = await fetch(api, "/api/audit/verify", api.operator)
        assert verified == {"is_as_written": True, "first_broken_seq": None}
        await api.storage.store.write(
            lambda conn: conn.execute(update(audit).where(audit.c.seq == 4).values(actor="x"))
        )
        verified = await fetch(api, "/api/audit/verify", api.operator)
        assert verified == {"is_as_written": False, "first_broken_seq": 4}


async def test_how_providers_do(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        router, now = api.context.runtime().router, time.monotonic()
        (up, sim) = (await fetch(api, "/api/providers", api.operator))["data"]
        assert [(each["name"], each["kind"]) for each in (up, sim)] == [("up", "openai"), ("sim", "sim")]
        assert up["targets"][0] == {
            "model": "gpt-4o",
            "credential": "",
            "is_in_alias": True,
            "wire": "chat",
            "state": "well",
            "is_limited": False,
            "away_for_s": 0.0,
            "ttft_s": None,
            "ejections": 0,
            "processes": 1,
            "away": 0,
            "probation": 0,
            "running": 0,
            "error": None,
            "error_at_ms": None,
        }
        gone, limited = TargetId("up", "gpt-4o"), TargetId("up", "a caller's choice")
        for _ in range(MAX_FAILURES):
            router.failed(Candidate(gone), now, UpstreamError("upstream_server_error", "no"))
        router.failed(Candidate(limited), now, UpstreamError("upstream_rate_limited", "no", retry_after_s=60.0))
        router.answered(Candidate(TargetId("sim", "ok")), now, 0.25)
        for role, names in (
            (api.operator, ["gpt-4o", "never-heard-of", "a caller's choice"]),
            (bearer(api.one.admin.secret), ["gpt-4o", "never-heard-of"]),
        ):
            up, sim = (await fetch(api, "/api/providers", role))["data"]
            assert [target["model"] for target in up["targets"]] == names
            assert (up["targets"][0]["state"], up["targets"][0]["is_limited"]) == ("away", False)
            assert 0 < up["targets"][0]["away_for_s"] <= 30
            assert [target["ejections"] for target in up["targets"][:2]] == [1, 0]
            assert sim["targets"][0]["ttft_s"] == 0.25
        other = (await fetch(api, "/api/providers", api.operator))["data"][0]["targets"][-1]
        assert (other["state"], other["is_limited"], other["is_in_alias"]) == ("away", True, False)


async def test_prices(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        admin = bearer(api.one.admin.secret)
        prices = await fetch(api, "/api/prices", admin, provider="alias")
        version = api.context.runtime().quotes.prices.table.version
        assert (prices["version"], prices["currency"], prices["unit"]) == (version, "USD", "1M tokens")
        smart, own = prices["data"]
        assert (smart["model"], smart["source"], smart["rates"]["input_usd"]) == ("smart", "list", "2.5")
        assert own == {
            "provider": "alias",
            "model": "own",
            "source": "config",
            "owner": "model",
            "owners": [],
            "context_window": None,
            "rates": {"input_usd": "0.1", "output_usd": "0.000000001"},
        }
        assert (smart["owner"], smart["owners"]) == ("target", ["up/gpt-4o"])
        assert (await fetch(api, "/api/prices", admin))["data"] == prices["data"], "the list has costs"
        by_kind = await fetch(api, "/api/prices", api.operator, provider="gemini", model="PRO", limit=1000)
        assert {row["provider"] for row in by_kind["data"]} == {"google"}
        assert all("pro" in row["model"].lower() for row in by_kind["data"])
        assert any(row["rates"] is not None and row["rates"].get("tiers") for row in by_kind["data"])
        rows, params = [], {"limit": 1000}
        while True:
            page = await fetch(api, "/api/prices", api.operator, **params)
            rows += page["data"]
            if page["next"] is None:
                break
            params["cursor"] = page["next"]
        listed = list(api.context.runtime().quotes.prices.table.rows(api.clock.at_ms))
        assert len(rows) == len(listed) + 2
        assert len({(row["provider"], row["model"]) for row in rows}) == len(rows)
        assert (await fetch(api, "/api/prices", api.operator, model="no such model"))["data"] == []
