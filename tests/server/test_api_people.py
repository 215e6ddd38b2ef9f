"""People over the API: what an owner may do, what the admin of a workspace may, and what a change of role does."""

from pathlib import Path
from typing import Any

import httpx2

from streamweir.policy import permission
from streamweir.policy.permission import Role
from streamweir.policy.secret import INVITATION, is_well_formed
from support.api import Api, api_on
from support.key_store import dump
from support.stores import one_database


async def invite(api: Api, caller: Any, **body: Any) -> httpx2.Response:
    return await api.ask("POST", "/api/people", body=body, **caller)


@one_database
async def test_a_person_from_the_invitation_to_the_removal(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:
        owner = await api.person_session(await api.new_person(Role.OWNER))
        made = (await invite(api, owner, name="Ada", role="member", workspace="one")).json()
        assert is_well_formed(made.pop("invitation"), INVITATION)
        path = f"/api/people/{made['id']}"
        assert (await api.ask("GET", path, **owner)).json() == made
        assert made["workspace"] == api.one.workspace.id
        listed = (await api.ask("GET", "/api/people", params={"workspace": "one"}, **owner)).json()["data"]
        assert listed == [made]
        changed = await api.ask("PATCH", path, body={"role": "billing"}, **owner)
        assert (changed.json()["role"], changed.json()["workspace"]) == ("billing", None)
        again = (await api.ask("POST", f"{path}/invite", **owner)).json()
        assert is_well_formed(again["invitation"], INVITATION)
        assert (await api.ask("PATCH", path, body={"disabled": True}, **owner)).json()["disabled_ms"] is not None
        assert (await api.ask("DELETE", path, **owner)).status_code == 200
        assert (await api.ask("GET", path, **owner)).status_code == 404
        taken = await invite(api, owner, name="ada", role="member", workspace="one")
        assert (taken.status_code, taken.json()["error"]["param"]) == (409, "name")
        rows = (await api.ask("GET", "/api/audit", params={"limit": 5}, **owner)).json()["data"]
        actions = ["person.remove", "person.change", "person.reset", "person.change", "person.create"]
        assert [row["action"] for row in rows] == actions
        (name,) = {row["actor"] for row in rows}
        assert name.startswith("person:owner "), "the audit log names the person"


async def test_the_admin_of_a_workspace_has_its_members_and_appoints_nobody(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        admin = await api.person_session(await api.new_person(Role.ADMIN, api.one))
        other_admin = await api.new_person(Role.ADMIN, api.one)
        member, foreign = await api.new_person(Role.MEMBER, api.one), await api.new_person(Role.MEMBER, api.two)
        owner = await api.new_person(Role.OWNER)
        assert (await invite(api, admin, name="a", role="member")).json()["workspace"] == api.one.workspace.id
        before = await dump(api.storage.store)
        refused = [
            (await invite(api, admin, name="b", role=role), 403) for role in ("owner", "viewer", "operator", "admin")
        ]
        refused.append((await invite(api, admin, name="b", role="member", workspace="two"), 404))
        refused.append((await invite(api, admin, name="b", role="member", workspace="nowhere"), 404))
        for body in ({"role": "owner"}, {"role": "admin"}, {"role": "billing", "workspace": None}):
            refused.append((await api.ask("PATCH", f"/api/people/{member.id}", body=body, **admin), 403))
        refused.append((await api.ask("PATCH", f"/api/people/{member.id}", body={"workspace": "two"}, **admin), 404))
        for person, status in ((other_admin, 403), (foreign, 404), (owner, 404)):
            path = f"/api/people/{person.id}"
            refused.append((await api.ask("PATCH", path, body={"disabled": True}, **admin), status))
            refused.append((await api.ask("POST", f"{path}/invite", **admin), status))
            refused.append((await api.ask("DELETE", path, **admin), status))
            refused.append((await api.ask("DELETE", f"{path}/sessions", **admin), status))
        assert [reply.status_code for reply, _ in refused] == [status for _, status in refused]
        assert await dump(api.storage.store) == before
        names = {row["name"] for row in (await api.ask("GET", "/api/people", **admin)).json()["data"]}
        assert foreign.name not in names
        assert owner.name not in names
        assert member.name in names


async def test_nobody_changes_its_own_account(tmp_path: Path) -> None:
    """So nobody keeps itself from logging in by mistake, or gives itself a role."""
    async with api_on("sqlite", tmp_path) as api:
        for role, space in ((Role.OWNER, None), (Role.ADMIN, api.one)):
            person = await api.new_person(role, space)
            session = await api.person_session(person)
            for body in ({"role": "owner"}, {"disabled": True}):
                reply = await api.ask("PATCH", f"/api/people/{person.id}", body=body, **session)
                assert reply.status_code == 403
            assert (await api.ask("DELETE", f"/api/people/{person.id}", **session)).status_code == 403


async def test_a_role_that_is_lowered_has_effect_at_once(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        person = await api.new_person(Role.OWNER)
        await api.new_person(Role.OWNER)
        session = await api.person_session(person)
        path = f"/api/people/{person.id}"

        async def statuses() -> list[int]:
            asked = ("/api/settings", "/api/people", "/api/keys", "/api/session")
            return [(await api.ask("GET", each, **session)).status_code for each in asked]

        assert await statuses() == [200, 200, 200, 200]
        await api.ask("PATCH", path, body={"role": "viewer"}, **api.operator)
        assert await statuses() == [403, 403, 200, 200]
        who = (await api.ask("GET", "/api/session", **session)).json()
        assert (who["role"], who["person"], who["is_operator"]) == ("viewer", person.id, False)
        assert who["permissions"] == sorted(permission.PERMISSIONS[Role.VIEWER])
        await api.ask("PATCH", path, body={"role": "member", "workspace": "one"}, **api.operator)
        assert await statuses() == [403, 403, 403, 200]
        await api.ask("PATCH", path, body={"disabled": True}, **api.operator)
        assert await statuses() == [401, 401, 401, 401]
        await api.ask("PATCH", path, body={"disabled": False}, **api.operator)
        assert await statuses() == [401, 401, 401, 401], "the session is over"


async def test_the_last_owner_cannot_be_removed_by_anyone(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        person = await api.new_person(Role.OWNER)
        path = f"/api/people/{person.id}"
        for method, body in (("DELETE", None), ("PATCH", {"role": "viewer"}), ("PATCH", {"disabled": True})):
            reply = await api.ask(method, path, body=body, **api.operator)
            assert (reply.status_code, reply.json()["error"]["code"]) == (409, "conflict")
            assert "last owner" in reply.json()["error"]["message"]


async def test_the_owner_lists_and_ends_sessions_of_everyone(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        person = await api.new_person(Role.VIEWER)
        of_person = [await api.person_session(person) for _ in range(2)]
        of_key, of_secret = await api.session(api.one.admin), await api.session()
        listed = (await api.ask("GET", "/api/sessions", **api.operator)).json()["data"]
        assert {(row["person"], row["key"]) for row in listed} == {
            (person.id, None),
            (None, api.one.admin.key.id),
            (None, None),
        }
        key = api.one.admin.key
        assert {(row["name"], row["person"] or row["key"]) for row in listed} == {
            (person.name, person.id),
            (key.name, key.id),
            (None, None),
        }
        assert not [row for row in listed if row["is_current"]], "a secret is no session"
        own = (await api.ask("GET", "/api/sessions", **of_secret)).json()["data"]
        assert [row["person"] or row["key"] for row in own if row["is_current"]] == [None]
        (one,) = [row for row in listed if row["key"] is not None]
        ended = await api.ask("DELETE", f"/api/sessions/{one['id']}", **api.operator)
        assert ended.json() == {"sessions_ended": 1}
        assert (await api.ask("GET", "/api/session", **of_key)).status_code == 401
        assert (await api.ask("DELETE", f"/api/sessions/{one['id']}", **api.operator)).status_code == 404
        path = f"/api/people/{person.id}/sessions"
        assert len((await api.ask("GET", path, **api.operator)).json()["data"]) == 2
        assert (await api.ask("DELETE", path, **api.operator)).json() == {"sessions_ended": 2}
        for session in of_person:
            assert (await api.ask("GET", "/api/session", **session)).status_code == 401
        assert (await api.ask("GET", "/api/session", **of_secret)).status_code == 200


async def test_a_key_is_given_to_a_member_of_its_workspace(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        admin = await api.person_session(await api.new_person(Role.ADMIN, api.one))
        member, foreign = await api.new_person(Role.MEMBER, api.one), await api.new_person(Role.MEMBER, api.two)
        made = (await api.ask("POST", "/api/keys", body={"name": "of ada", "person": member.id}, **admin)).json()
        assert made["person"] == member.id
        path = f"/api/keys/{made['id']}"
        refused = await api.ask("PATCH", path, body={"person": foreign.id}, **admin)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "person")
        assert (await api.ask("PATCH", path, body={"person": None}, **admin)).json()["person"] is None
        await api.ask("PATCH", path, body={"person": member.id}, **admin)
        removed = await api.ask("DELETE", f"/api/people/{member.id}", params={"revoke_keys": "true"}, **admin)
        assert removed.status_code == 200
        key = (await api.ask("GET", path, **admin)).json()
        assert (key["person"], key["revoked_ms"]) == (None, api.clock.at_ms)
        rows = (await api.ask("GET", "/api/audit", **admin)).json()["data"]
        (created,) = [row for row in rows if row["action"] == "key.create" and row["object"] == made["id"]]
        (gone,) = [row for row in rows if row["action"] == "person.remove"]
        assert (gone["object_name"], gone["names"]) == (member.name, {})
        assert created["names"] == {member.id: member.name}, "who was removed is still named"
