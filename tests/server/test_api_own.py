"""The self-service view of a person: its keys, usage, credit and requests, and nothing of anybody else.

Others are: a member of the same workspace, one of another, a key of nobody, and whoever had a key before.
"""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec import Struct

from streamweir.core.errors import CallerError
from streamweir.policy.access import check
from streamweir.policy.limits.budget import NANO, key_account, period_of
from streamweir.policy.permission import Role
from streamweir.policy.secret import KEY, is_well_formed
from streamweir.server.control.api import context
from streamweir.server.control.api.people.own_request import OwnRequestQuery
from streamweir.store.keys.keys import KeyRecord, NewSecret, show_key
from streamweir.store.keys.people import Person
from streamweir.store.ledger.posting import apply
from support.api import Api, Space, api_on
from support.api import Role as Caller
from support.deadlines import WAIT_TIMEOUT_S
from support.entries import hold, settle
from support.entries import refused as refused_entry
from support.gateway import until
from support.key_store import dump
from support.stores import DATABASES, one_database

DAY = 86_400_000


class Member(Struct, kw_only=True):
    person: Person
    caller: Caller
    key: NewSecret
    request: str
    running: str

    @property
    def texts(self) -> list[str]:
        """What nobody else may see."""
        key = self.key.key
        return [key.id, key.name, f"model of {key.name}", self.request, self.running, self.person.id]


async def new_member(api: Api, space: Space, role: Role = Role.MEMBER) -> Member:
    """With a key, a request that is over and one that runs."""
    person = await api.new_person(role, space)
    key = await api.new_key(space, person_id=person.id)
    more: dict[str, Any] = {"model": f"model of {key.key.name}", "key_name": key.key.name}
    return Member(
        person=person,
        caller=await api.person_session(person),
        key=key,
        request=await api.new_request(space, key, prompt_tokens=3, completion_tokens=4, cost=9, price=20, **more),
        running=await api.new_open(space, key, **more),
    )


async def fetch(api: Api, path: str, member: Member, **params: Any) -> Any:
    reply = await api.ask("GET", f"/api/me{path}", params=params, **member.caller)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def ask(api: Api, method: str, path: str, member: Member, **body: Any) -> httpx2.Response:
    return await api.ask(method, f"/api/me{path}", body=body or None, **member.caller)


async def record(api: Api, id: str) -> KeyRecord:
    return await api.storage.store.read(lambda conn: show_key(conn, id))


@one_database
async def test_a_member_from_its_first_key_to_its_last(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:
        person = await api.new_person(Role.MEMBER, api.one)
        ada = Member(person=person, caller=await api.person_session(person), key=api.one.chat, request="", running="")
        reply = await ask(api, "POST", "/keys", ada, name="laptop", models=["gpt-*"], budget_usd="5")
        assert reply.status_code == 201
        made = reply.json()
        assert is_well_formed(made["secret"], KEY)
        assert (made["person"], made["scopes"], made["models"]) == (person.id, ["chat", "models"], ["gpt-*"])
        assert (made["budget_usd"], made["budget_period"], made["workspace"]) == ("5", "total", api.one.workspace.id)
        assert api.context.accounting.directory.find(made["secret"]) is not None, "it can be used at once"
        (listed,) = (await fetch(api, "/keys", ada))["data"]
        assert listed == {name: value for name, value in made.items() if name != "secret"}
        revoked = await ask(api, "POST", f"/keys/{made['id']}/revoke", ada)
        assert (revoked.status_code, revoked.json()["revoked_ms"]) == (200, api.clock.at_ms)
        assert made["id"] in api.stopped, "its streams end"
        assert (await fetch(api, "/keys", ada, state="active"))["data"] == []
        assert [row["id"] for row in (await fetch(api, "/keys", ada, state="revoked"))["data"]] == [made["id"]]
        rows = (await api.ask("GET", "/api/audit", params={"limit": 2}, **api.operator)).json()["data"]
        assert [(row["actor"], row["action"]) for row in rows] == [
            (person.actor, "key.revoke"),
            (person.actor, "key.create"),
        ]


@pytest.mark.parametrize("database", DATABASES)
async def test_nothing_of_anybody_else_is_seen(database: str, tmp_path: Path) -> None:
    """In no list, by no id, through no filter, and in no sum."""
    async with api_on(database, tmp_path) as api:
        ada, eve = await new_member(api, api.one), await new_member(api, api.one)
        others = [eve, await new_member(api, api.one, Role.ADMIN), await new_member(api, api.two)]
        nobodys = await api.new_request(api.one)
        seen = ""
        for path in ("/keys", "/credit", "/usage", "/requests"):
            seen += (await api.ask("GET", f"/api/me{path}", **ada.caller)).text
        for by in ("total", "key", "model"):
            around = {"since_ms": api.clock.at_ms - 2 * DAY, "until_ms": api.clock.at_ms + 2 * DAY}
            for step in ("hour", "day"):
                found = await fetch(api, "/usage", ada, by=by, step=step, **around)
                total = found["total"]
                assert (total["requests"], total["prompt_tokens"], total["price_usd"]) == (1, 3, "0.00000002")
                assert sum(point["usage"]["requests"] for point in found["series"]) == 1
                seen += str(found)
        at_ms = api.clock.at_ms
        more = {"workspace_id": api.one.workspace.id, "at_ms": at_ms}
        members = [{**more, "key_id": each.key.key.id} for each in (ada, eve)]
        entries = [refused_entry(f"refused {number}", **each) for number, each in enumerate(members)]
        await api.storage.store.write(lambda conn: apply(conn, entries))
        for by in ("model", "key", "provider"):
            view = await fetch(api, "/overview", ada, by=by, period="day")
            assert (view["total"]["requests"], view["refused"]["total"], view["open_streams"]) == (1, 1, 1)
            seen += str(view)
        hidden = [text for other in others for text in other.texts] + [nobodys, api.one.chat.key.id]
        assert not [text for text in hidden if text in seen]
        assert ada.key.key.id in seen
        assert ada.request in seen
        for id in (*(id for other in others for id in (other.request, other.running)), nobodys, "req_none"):
            refused = await ask(api, "GET", f"/requests/{id}", ada)
            nothing = await ask(api, "GET", "/requests/req_0", ada)
            assert (refused.status_code, refused.text.replace(id, "req_0")) == (404, nothing.text)
        row = (await api.ask("GET", f"/api/requests/{eve.request}", **api.operator)).json()["request"]
        assert (await ask(api, "GET", f"/requests/{row['completion_id']}", ada)).status_code == 404
        filters: list[dict[str, Any]] = [{"key": eve.key.key.id}, {"key": eve.key.key.name}, {"key": "*"}]
        filters += [{"id": eve.request}, {"id": eve.request[:14]}, {"id": eve.request[-8:]}, {"model": "model of*"}]
        filters += [{"id": row["completion_id"]}, {"failed": False}, {"order": "oldest"}, {"min_price_usd": "0"}]
        filters += [{"cursor": row["cursor"]}, {"cursor": row["cursor"], "order": "oldest"}]
        for each in filters:
            found = await fetch(api, "/requests", ada, **each)
            assert {shown["request_id"] for shown in found["data"]} <= {ada.request, "refused 0"}, each
            for name in ({"key": eve.key.key.id}, {"model": f"model of {eve.key.key.name}"}):
                assert (await fetch(api, "/usage", ada, **name))["total"]["requests"] == 0
                assert (await fetch(api, "/overview", ada, period="day", **name))["total"]["requests"] == 0


@pytest.mark.parametrize("database", DATABASES)
async def test_who_gets_a_key_does_not_see_what_was_asked_with_it_before(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:
        ada, eve = await new_member(api, api.one), await new_member(api, api.one)
        started = api.clock.at_ms
        api.clock.at_ms = started + 3 * DAY
        for person in (eve.person.id, ada.person.id):
            given = await api.ask("PATCH", f"/api/keys/{ada.key.key.id}", body={"person": person}, **api.operator)
            assert given.status_code == 200
        ada.caller = await api.person_session(ada.person)
        assert (await fetch(api, "/requests", ada))["data"] == []
        for id in (ada.request, ada.running):
            assert (await ask(api, "GET", f"/requests/{id}", ada)).status_code == 404
        assert (await fetch(api, "/usage", ada))["total"]["requests"] == 0
        view = await fetch(api, "/overview", ada, period="month")
        assert (view["has_requests"], view["open_streams"], view["top_keys"]) == (False, 0, [])
        (key,) = (await fetch(api, "/keys", ada))["data"]
        assert (key["used_ms"], key["recent_requests"], key["recent_price_usd"]) == (None, 0, "0")
        later = api.clock.at_ms = started + 5 * DAY
        ada.caller = await api.person_session(ada.person)
        new = await api.new_request(api.one, ada.key, price=20, at_ms=later)
        assert [row["request_id"] for row in (await fetch(api, "/requests", ada))["data"]] == [new]
        assert (await fetch(api, "/usage", ada, until_ms=later + DAY))["total"]["requests"] == 1
        (key,) = (await fetch(api, "/keys", ada))["data"]
        assert (key["used_ms"], key["recent_requests"]) == (later, 1)


async def test_costs_and_margins_are_nobodys_business_here(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        for role in (Role.MEMBER, Role.ADMIN):
            ada = await new_member(api, api.one, role)
            text = ""
            for path in (
                "/keys",
                "/credit",
                "/usage",
                "/requests",
                f"/requests/{ada.request}",
                f"/requests/{ada.running}",
            ):
                text += (await api.ask("GET", f"/api/me{path}", **ada.caller)).text
            assert '"price_usd"' in text
            assert '"cost_usd"' not in text
            assert "margin" not in text
            for name in ("min_cost_usd", "max_cost_usd", "workspace"):
                assert name not in OwnRequestQuery.__struct_fields__
                reply = await api.ask("GET", "/api/me/requests", params={name: "1"}, **ada.caller)
                assert (reply.status_code, reply.json()["error"]["param"]) == (400, name)


async def test_what_is_left_to_spend(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        ada = await new_member(api, api.one)
        path = f"/api/workspaces/{api.one.workspace.id}"
        admin = await api.person_session(await api.new_person(Role.ADMIN, api.one))
        credit = await fetch(api, "/credit", ada)
        assert (credit["prepaid"], credit["left_usd"], credit["budget_left_usd"]) == (False, None, None)
        await api.ask("PATCH", path, body={"prepaid": True}, **api.operator)
        await api.ask("POST", "/api/credits", body={"workspace": "one", "amount_usd": "50"}, **api.operator)
        rules = {"max_keys": 3, "budget_usd": "10", "budget_period": "month", "models": ["gpt-*"], "rpm": 6}
        changed = await api.ask("PATCH", f"{path}/member-keys", body=rules, **admin)
        assert changed.status_code == 200
        assert (await api.ask("GET", f"{path}/member-keys", **admin)).json() == changed.json()
        made = await ask(api, "POST", "/keys", ada, name="new", budget_usd="4")
        assert (made.json()["rpm"], made.json()["models"], made.json()["budget_period"]) == (6, ["gpt-*"], "month")
        credit = await fetch(api, "/credit", ada)
        balance = (await api.ask("GET", "/api/credits", params={"workspace": "one"}, **api.operator)).json()["data"][0]
        assert credit == {
            "prepaid": True,
            "left_usd": balance["balance_usd"],
            "keys": 2,
            "budget_left_usd": "6",
            "allowed": changed.json(),
        }
        before = await dump(api.storage.store)
        refused: list[tuple[dict[str, Any], int, str | None]] = [
            ({"name": "x", "budget_usd": "7"}, 409, "budget_usd"),
            ({"name": "x", "budget_period": "day"}, 400, "budget_period"),
            ({"name": "x", "models": ["claude"]}, 400, "models"),
            ({"name": "new"}, 409, "name"),
            ({"name": "x", "expires_ms": 1}, 400, "expires_ms"),
        ]
        for forbidden in ("scopes", "workspace", "person", "rpm", "log_content", "price_group", "dialect", "resumable"):
            refused.append(({"name": "x", forbidden: None}, 400, forbidden))
        for body, status, param in refused:
            reply = await ask(api, "POST", "/keys", ada, **body)
            assert (reply.status_code, reply.json()["error"]["param"]) == (status, param)
        assert await dump(api.storage.store) == before


async def spend_unseen(api: Api, key_id: str, name: str = "first") -> None:
    """Two dollars, of which the database has one: the writer is between two batches."""
    writer, at_ms = api.context.accounting.writer, api.clock.at_ms
    assert writer is not None
    writer._pause_s = 3600.0
    account = key_account(key_id, period_of("month", at_ms / 1000))
    of_key: dict[str, Any] = {"workspace_id": api.one.workspace.id, "key_id": key_id, "account": account}
    for id in (f"{name} seen", f"{name} unseen"):
        assert await writer.flush(WAIT_TIMEOUT_S)
        writer.put(hold(id, NANO, at_ms=at_ms, **of_key), required=True)
        writer.put(settle(id, NANO, at_ms=at_ms, **of_key), required=True)


@pytest.mark.parametrize("database", DATABASES)
async def test_what_a_key_has_just_spent_is_no_budget_of_the_next_one(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:
        ada = await new_member(api, api.one)
        rules = {"budget_usd": "10", "budget_period": "month"}
        path = f"/api/workspaces/{api.one.workspace.id}/member-keys"
        assert (await api.ask("PATCH", path, body=rules, **api.operator)).status_code == 200
        made = (await ask(api, "POST", "/keys", ada, name="first")).json()
        assert made["budget_usd"] == "10"
        await spend_unseen(api, made["id"])
        assert (await ask(api, "POST", f"/keys/{made['id']}/revoke", ada)).status_code == 200
        again = await ask(api, "POST", "/keys", ada, name="second")
        assert (again.status_code, again.json()["budget_usd"]) == (201, "8")


async def test_no_budget_is_given_while_it_is_not_known_what_was_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "FLUSH_S", 0.0)
    async with api_on("sqlite", tmp_path) as api:
        ada, writer = await new_member(api, api.one), api.context.accounting.writer
        assert writer is not None
        path = f"/api/workspaces/{api.one.workspace.id}/member-keys"
        for budget, status in (("10", 503), (None, 201)):
            changed = await api.ask("PATCH", path, body={"budget_usd": budget}, **api.operator)
            assert changed.status_code == 200
            await spend_unseen(api, ada.key.key.id, str(budget))
            await until(lambda: not writer._is_idle)
            pausing, writer._pause_skipped = writer._pause_skipped, asyncio.Event()  # it does not end for anybody
            made = await ask(api, "POST", "/keys", ada, name="new")
            assert (made.status_code, made.json().get("error", {}).get("code")) == (
                status,
                "ledger_unavailable" if status == 503 else None,
            )
            pausing.set()


async def test_a_person_of_the_gateway_has_no_keys_of_its_own(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        await new_member(api, api.one)
        viewer = await api.person_session(await api.new_person(Role.VIEWER))
        for path in ("keys", "requests"):
            assert (await api.ask("GET", f"/api/me/{path}", **viewer)).json()["data"] == []
        assert (await api.ask("GET", "/api/me/usage", **viewer)).json()["total"]["requests"] == 0
        reply = await api.ask("POST", "/api/me/keys", body={"name": "x"}, **viewer)
        assert (reply.status_code, reply.json()["error"]["code"]) == (409, "conflict")


async def test_keys_end_with_their_person(tmp_path: Path) -> None:
    """Suspended while it is disabled, revoked when it is removed or goes to another workspace."""
    async with api_on("sqlite", tmp_path) as api:
        ada, eve, bob = [await new_member(api, api.one) for _ in range(3)]
        directory = api.context.accounting.directory

        def fault(member: Member) -> CallerError | None:
            key = directory.find(member.key.secret)
            assert key is not None
            return check(key, api.clock.at_ms / 1000)

        async def change(member: Member, **body: Any) -> None:
            reply = await api.ask("PATCH", f"/api/people/{member.person.id}", body=body, **api.operator)
            assert reply.status_code == 200

        await change(ada, disabled=True)
        error = fault(ada)
        assert error is not None
        assert (error.code, "suspended" in error.message) == ("key_revoked", True)
        assert api.stopped == [ada.key.key.id], "its streams end"
        await change(ada, disabled=False)
        assert fault(ada) is None
        await change(eve, workspace="two")
        assert (await record(api, eve.key.key.id)).revoked_ms == api.clock.at_ms
        await change(bob, role="admin", workspace="one")
        assert fault(bob) is None, "it is still of the workspace"
        assert (await api.ask("DELETE", f"/api/people/{bob.person.id}", **api.operator)).status_code == 200
        removed = await record(api, bob.key.key.id)
        assert (removed.revoked_ms, removed.person_id) == (api.clock.at_ms, None)
