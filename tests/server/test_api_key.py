"""Keys and workspaces over the API."""

from pathlib import Path
from typing import Any

import httpx2

from streamweir.policy.secret import is_well_formed
from streamweir.store.journal.entries import Entry
from streamweir.store.keys import audit
from streamweir.store.ledger.posting import apply
from support.api import Api, Role, api_on, bearer
from support.common_entries import hold, settle
from support.key_store import dump
from support.stores import one_database

EVERYTHING: dict[str, Any] = {
    "scopes": ["chat"],
    "models": ["gpt-4o", "claude-*"],
    "dialect": "opentoken",
    "rpm": 60,
    "tpm": 100_000,
    "max_streams": 4,
    "budget_usd": "12.345678901",
    "budget_period": "week",
    "log_content": True,
    "show_routing": True,
    "show_cost": True,
    "resumable": True,
}


async def create(api: Api, role: Role, name: str = "made", **more: Any) -> httpx2.Response:
    return await api.ask("POST", "/api/keys", body={"name": name, **more}, **role)


async def change(api: Api, role: Role, id: str, **more: Any) -> httpx2.Response:
    return await api.ask("PATCH", f"/api/keys/{id}", body=more, **role)


def code_of(reply: httpx2.Response) -> tuple[int, str, str | None]:
    error = reply.json()["error"]
    return reply.status_code, error["code"], error["param"]


@one_database
async def test_the_lifecycle_of_a_key(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:
        admin, space = bearer(api.one.admin.secret), api.one.workspace
        expires_ms = api.clock.at_ms + 1_000_000
        reply = await create(api, admin, **EVERYTHING, expires_ms=expires_ms)
        made = reply.json()
        secret, id = made.pop("secret"), made["id"]
        assert reply.status_code == 201
        assert is_well_formed(secret)
        assert made == {
            "id": id,
            "workspace": space.id,
            "name": "made",
            "origin": "store",
            "last4": secret[-4:],
            **EVERYTHING,
            "price_group": None,
            "person": None,
            "spent_usd": "0",
            "held_usd": "0",
            "expires_ms": expires_ms,
            "created_ms": api.clock.at_ms,
            "revoked_ms": None,
            "old_until_ms": None,
            "used_ms": None,
            "recent_requests": 0,
            "recent_price_usd": "0",
        }
        assert (await api.ask("GET", f"/api/keys/{id}", **admin)).json() == made
        found = api.storage.accounting.directory.find(secret)
        assert found is not None, "this process knows it at once"
        assert found.rpm == 60

        changed = await change(api, admin, id, rpm=None, name="other", budget_usd=0.1, models=None)
        assert changed.json() == {**made, "rpm": None, "name": "other", "budget_usd": "0.1", "models": None}
        assert (await change(api, admin, id)).json() == changed.json()

        rotated = (await api.ask("POST", f"/api/keys/{id}/rotate", body={"grace_s": 60}, **admin)).json()
        assert rotated["secret"] != secret
        assert rotated["old_until_ms"] == api.clock.at_ms + 60_000
        assert (await api.ask("POST", f"/api/keys/{id}/rotate", **admin)).json()["old_until_ms"] == (
            api.clock.at_ms + 3_600_000
        )

        revoked = await api.ask("POST", f"/api/keys/{id}/revoke", **admin)
        assert revoked.json()["revoked_ms"] == api.clock.at_ms
        assert api.stopped[-1] == id, "its streams end"
        assert code_of(await change(api, admin, id, rpm=1)) == (409, "conflict", None)
        assert code_of(await api.ask("POST", f"/api/keys/{id}/rotate", **admin)) == (409, "conflict", None)
        rows = (await api.ask("GET", "/api/audit", params={"limit": 5}, **admin)).json()["data"]
        assert [row["action"] for row in rows] == [
            "key.revoke",
            "key.rotate",
            "key.rotate",
            "key.change",
            "key.create",
        ]
        assert {(row["actor"], row["object"], row["workspace"]) for row in rows} == {
            (f"key:{api.one.admin.key.id}", id, space.id)
        }
        assert await api.storage.store.read(audit.verify) is None


@one_database
async def test_lists_of_keys(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:

        async def ids(role: Role, **params: Any) -> list[str]:
            found: list[str] = []
            while True:
                reply = await api.ask("GET", "/api/keys", params={"limit": 2, **params}, **role)
                document = reply.json()
                assert len(document["data"]) <= 2
                assert "secret" not in reply.text
                found += [key["id"] for key in document["data"]]
                if document["next"] is None:
                    return found
                params["cursor"] = document["next"]

        one, two = (
            {
                each.key.id
                for each in (space.chat, space.models, space.metrics, space.admin, space.expired, space.revoked)
            }
            for space in (api.one, api.two)
        )
        every = await ids(api.operator)
        assert len(every) == 13, "and the one of the file"
        assert one | two < set(every)
        assert set(await ids(api.operator, workspace="one")) == one
        assert set(await ids(bearer(api.two.admin.secret))) == two
        assert await ids(api.operator, revoked="true", workspace="one") == [api.one.revoked.key.id]
        assert len(await ids(api.operator, revoked="false", workspace="one")) == 5
        assert await ids(api.operator, state="revoked", workspace="one") == [api.one.revoked.key.id]
        assert await ids(api.operator, state="expired", workspace="one") == [api.one.expired.key.id]
        active = set(await ids(api.operator, state="active", workspace="one"))
        assert active == one - {api.one.revoked.key.id, api.one.expired.key.id}
        assert (await api.ask("GET", "/api/keys", params={"state": "odd"}, **api.operator)).status_code == 400
        for params in ({"workspace": "one"}, {"workspace": api.one.workspace.id}, {"cursor": api.one.chat.key.id}):
            reply = await api.ask("GET", "/api/keys", params=params, **bearer(api.two.admin.secret))
            assert reply.status_code == 404


async def test_only_the_operator_makes_admins(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        admin, chat = bearer(api.one.admin.secret), api.one.chat.key.id
        before = await dump(api.storage.store)
        for reply in (
            await create(api, admin, scopes=["admin"]),
            await create(api, admin, scopes=["chat", "admin"]),
            await change(api, admin, chat, scopes=["chat", "models", "admin"]),
            await create(api, admin, scopes=["metrics"]),
            await change(api, admin, chat, scopes=["metrics"]),
        ):
            assert code_of(reply) == (403, "insufficient_permissions", None)
        assert await dump(api.storage.store) == before
        assert (await create(api, api.operator, scopes=["admin"], workspace="one")).status_code == 201
        assert (await change(api, api.operator, chat, scopes=["admin"])).json()["scopes"] == ["admin"]
        second = await create(api, api.operator, "second", scopes=["admin"], workspace="two")
        assert second.json()["workspace"] == api.two.workspace.id
        reader = await create(api, api.operator, "reader", scopes=["metrics"], workspace="one")
        assert (reader.status_code, reader.json()["scopes"]) == (201, ["metrics"])
        assert (await create(api, api.operator, "third")).json()["workspace"] == "default"


async def test_a_key_does_nothing_to_itself_nor_to_other_admins(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        admin, own = bearer(api.one.admin.secret), api.one.admin.key.id
        peer = (await api.new_key(api.one, scopes=("admin",))).key.id
        reader = api.one.metrics.key.id  # whoever rotates it has a secret that shows what all workspaces pay
        before = await dump(api.storage.store)
        for id in (own, peer, reader):
            calls: list[tuple[str, str, Any]] = [
                ("PATCH", "", {"name": "x"}),
                ("PATCH", "", {"rpm": None, "budget_usd": None}),
                ("PATCH", "", {"scopes": ["chat"]}),
                ("PATCH", "", {"expires_ms": None}),
                ("PATCH", "", {}),
                ("POST", "/revoke", None),
                ("POST", "/rotate", {"grace_s": 0}),
                ("DELETE", "/content", None),
            ]
            for method, path, body in calls:
                reply = await api.ask(method, f"/api/keys/{id}{path}", body=body, **admin)
                assert code_of(reply) == (403, "insufficient_permissions", None)
        assert await dump(api.storage.store) == before
        assert (await api.ask("POST", f"/api/keys/{own}/revoke", **api.operator)).status_code == 200
        assert (await api.ask("GET", "/api/keys", **admin)).status_code == 401, "at once"


SENSELESS: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "name"),
    ({"name": "x" * 65}, "name"),
    ({"name": " x"}, "name"),
    ({"name": 1}, "name"),
    ({"scopes": []}, "scopes"),
    ({"scopes": ["root"]}, "scopes[0]"),
    ({"scopes": "chat"}, "scopes"),
    ({"models": ["a*b"]}, "models"),
    ({"models": [""]}, "models[0]"),
    ({"dialect": "klingon"}, "dialect"),
    ({"rpm": 0}, "rpm"),
    ({"rpm": 1.5}, "rpm"),
    ({"rpm": "1"}, "rpm"),
    ({"rpm": True}, "rpm"),
    ({"tpm": 10**30}, "tpm"),
    ({"max_streams": -1}, "max_streams"),
    ({"budget_usd": "1.0000000001"}, "budget_usd"),
    ({"budget_usd": -1}, "budget_usd"),
    ({"budget_usd": "NaN"}, "budget_usd"),
    ({"budget_usd": "sNaN"}, "budget_usd"),
    ({"budget_usd": "-Infinity"}, "budget_usd"),
    ({"budget_usd": "1e999999"}, "budget_usd"),
    ({"budget_usd": "1e-999999"}, "budget_usd"),
    ({"budget_usd": "a lot"}, "budget_usd"),
    ({"budget_usd": 10**20}, "budget_usd"),
    ({"budget_usd": True}, "budget_usd"),
    ({"budget_usd": []}, "budget_usd"),
    ({"budget_period": "day"}, "budget_period"),
    ({"budget_usd": 1, "budget_period": "year"}, "budget_period"),
    ({"log_content": "yes"}, "log_content"),
    ({"show_routing": 1}, "show_routing"),
    ({"show_cost": 1}, "show_cost"),
    ({"resumable": 1}, "resumable"),
    ({"expires_ms": 1}, "expires_ms"),
    ({"expires_ms": 10**18}, "expires_ms"),
    ({"expires_ms": -1}, "expires_ms"),
    ({"workspace": None, "nested": {}}, "nested"),
]


async def test_what_makes_no_sense(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        before = await dump(api.storage.store)
        for members, param in SENSELESS:
            reply = await create(api, api.operator, **{"name": "made", **members})
            assert (reply.status_code, reply.json()["error"]["param"]) == (400, param), members
            assert reply.json()["error"]["message"].isprintable()
        assert await dump(api.storage.store) == before


async def test_money_is_read_digit_by_digit(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        for written, shown in (
            (b'"0.1"', "0.1"),
            (b"0.1", "0.1"),
            (b"0", "0"),
            (b"1e2", "100"),
            (b"123456789.123456789", "123456789.123456789"),  # more digits than a float holds
            (b'"1000000000"', "1000000000"),
            (b"0.000000001", "0.000000001"),
            (b"12.50", "12.5"),
        ):
            raw = b'{"budget_usd":' + written + b"}"
            headers = {**api.operator["headers"], "content-type": "application/json"}
            reply = await api.ask("PATCH", f"/api/keys/{api.one.chat.key.id}", raw=raw, headers=headers)
            assert reply.json()["budget_usd"] == shown


async def test_names_are_taken_once(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        assert (await create(api, api.operator, workspace="one")).status_code == 201
        assert code_of(await create(api, api.operator, workspace="one")) == (409, "conflict", "name")
        assert (await create(api, api.operator, workspace="two")).status_code == 201
        reply = await api.ask("POST", "/api/workspaces", body={"name": "one"}, **api.operator)
        assert code_of(reply) == (409, "conflict", "name")


async def test_workspaces(tmp_path: Path) -> None:
    async with api_on("postgres", tmp_path) as api:
        role = api.operator
        made = (await api.ask("POST", "/api/workspaces", body={"name": "three", "prepaid": True}, **role)).json()
        assert made == {
            "id": made["id"],
            "name": "three",
            "prepaid": True,
            "created_ms": api.clock.at_ms,
            "price_group": None,
        }
        for path in (made["id"], "three"):
            assert (await api.ask("GET", f"/api/workspaces/{path}", **role)).json() == made
        changed = await api.ask("PATCH", "/api/workspaces/three", body={"name": "drei", "prepaid": False}, **role)
        assert changed.json() == {**made, "name": "drei", "prepaid": False}
        names, cursor = [], None
        while True:
            params = {"limit": 1} if cursor is None else {"limit": 1, "cursor": cursor}
            page = (await api.ask("GET", "/api/workspaces", params=params, **role)).json()
            names += [each["name"] for each in page["data"]]
            cursor = page["next"]
            if cursor is None:
                break
        assert names == ["default", "drei", "one", "two"]
        own = (await api.ask("GET", "/api/workspaces", **bearer(api.one.admin.secret))).json()
        assert [each["name"] for each in own["data"]] == ["one"]
        assert code_of(await api.ask("GET", "/api/workspaces", params={"cursor": "x"}, **role))[0] == 404


async def test_a_limit_that_cannot_be_enforced_is_refused(tmp_path: Path) -> None:
    """Several workers on SQLite have nothing in common that they could count in."""
    async with api_on("sqlite", tmp_path, is_worker=True) as api:
        assert not api.storage.accounting.can_enforce_limits
        id = api.one.chat.key.id
        limits: dict[str, Any] = {"rpm": 1, "tpm": 1, "max_streams": 1, "budget_usd": 0}
        for member in limits:
            limit: dict[str, Any] = {member: limits[member]}
            assert code_of(await create(api, api.operator, **limit)) == (409, "conflict", member)
            assert code_of(await change(api, api.operator, id, **limit)) == (409, "conflict", member)
            assert (await change(api, api.operator, id, **{member: None})).status_code == 200
        assert (await create(api, api.operator)).status_code == 201
        for method, path in (("POST", "/api/workspaces"), ("PATCH", "/api/workspaces/one")):
            reply = await api.ask(method, path, body={"name": "new", "prepaid": True}, **api.operator)
            assert code_of(reply) == (409, "conflict", "prepaid")
        reply = await api.ask("PATCH", "/api/workspaces/one", body={"prepaid": False}, **api.operator)
        assert reply.status_code == 200


async def test_all_that_was_kept_of_a_key_is_erased(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        id = await api.new_request(api.one, peer="192.0.2.9", client="curl")
        admin = bearer(api.one.admin.secret)
        row = (await api.ask("GET", f"/api/requests/{id}", **admin)).json()["request"]
        assert (row["peer"], row["client"], row["has_content"]) == ("192.0.2.9", "curl", True)
        reply = await api.ask("DELETE", f"/api/keys/{row['key_id']}/content", **admin)
        assert reply.json() == {"requests": 1, "contents": 1}
        erased = (await api.ask("GET", f"/api/requests/{id}", **admin)).json()["request"]
        assert erased == {**row, "peer": None, "client": None, "has_content": False}
        assert (await api.ask("GET", f"/api/requests/{id}/content", **admin)).status_code == 404
        newest = (await api.ask("GET", "/api/audit", **admin)).json()["data"][0]
        assert (newest["action"], newest["object"]) == ("content.erase", row["key_id"])


@one_database
async def test_what_is_spent_of_a_budget(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:
        admin = bearer(api.one.admin.secret)
        budget = {"budget_usd": "5", "budget_period": "month"}
        key = (await create(api, admin, **budget)).json()
        members: dict[str, Any] = {"workspace_id": key["workspace"], "key_id": key["id"], "at_ms": api.clock.at_ms}
        entries: list[Entry] = [
            hold("req_1", 2_000_000_000, **members),
            settle("req_1", 1_500_000_000, **members),
            hold("req_2", 70_000_000, **members),
        ]
        await api.storage.store.write(lambda conn: apply(conn, entries))
        use = {"used_ms": api.clock.at_ms, "recent_requests": 1, "recent_price_usd": "1.5"}
        spent = {**key, "spent_usd": "1.5", "held_usd": "0.07", **use}
        secret = spent.pop("secret")
        path = f"/api/keys/{key['id']}"
        assert (await api.ask("GET", path, **admin)).json() == spent
        listed = {each["id"]: each for each in (await api.ask("GET", "/api/keys", **admin)).json()["data"]}
        assert listed[key["id"]] == spent
        assert {each["spent_usd"] for id, each in listed.items() if id != key["id"]} == {None}
        changed = (await change(api, admin, key["id"], budget_usd="9")).json()
        assert changed == {**spent, "budget_usd": "9"}
        rotated = (await api.ask("POST", f"{path}/rotate", **admin)).json()
        assert (rotated["spent_usd"], rotated["held_usd"], rotated["secret"] != secret) == ("1.5", "0.07", True)
        bare = (await change(api, admin, key["id"], budget_usd=None, budget_period=None)).json()
        assert (bare["spent_usd"], bare["held_usd"]) == (None, None)
        again = (await change(api, admin, key["id"], budget_usd=1)).json()
        assert (again["spent_usd"], again["held_usd"]) == ("1.5", "0.07"), "a budget that comes later knows"
        assert (await api.ask("POST", f"{path}/revoke", **admin)).json()["spent_usd"] == "1.5"


@one_database
async def test_only_the_operator_chooses_price_groups_and_only_those_of_the_file(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:
        admin, operator = bearer(api.one.admin.secret), api.operator
        id, space = api.one.chat.key.id, f"/api/workspaces/{api.one.workspace.id}"
        for group in ("resale", None):
            assert (await change(api, admin, id, price_group=group)).status_code == 403
        assert (await create(api, admin, price_group="resale")).status_code == 403
        assert code_of(await change(api, operator, id, price_group="none")) == (400, "invalid_value", "price_group")
        assert (await api.ask("PATCH", space, body={"price_group": "none"}, **operator)).status_code == 400
        assert (await change(api, operator, id, price_group="resale")).json()["price_group"] == "resale"
        changed = await api.ask("PATCH", space, body={"price_group": "resale"}, **operator)
        assert changed.json()["price_group"] == "resale"
        key = api.storage.accounting.directory.find(api.one.chat.secret)
        assert key is not None
        assert key.price_group == "resale"
        other = api.storage.accounting.directory.find(api.one.models.secret)
        assert other is not None
        assert (other.price_group, api.storage.accounting.directory.price_group_of(other)) == (None, "resale")
        assert (await change(api, operator, id, price_group=None)).json()["price_group"] is None
