"""Sessions of keys: opened with one that has the scope `admin`, acting as it, and ending with it."""

from pathlib import Path
from typing import Any

from msgspec import structs

from streamweir import __version__
from streamweir.policy import permission
from streamweir.policy.access import KeyRing
from streamweir.policy.secret import csrf_of, make_admin_secret
from streamweir.server.control.api.context import MAX_TRIES
from streamweir.store.keys.keys import NewSecret
from support.api import TOML, WRONG_KEY, Role, api_on, bearer
from support.api_session import ORIGIN, log_in, make_workspace, page, token_of
from support.gateway import KEY
from support.key_store import dump
from support.stores import one_database

WRONG = make_admin_secret(bytes(32))


async def test_a_key_with_the_scope_admin_opens_a_session_of_its_own(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        key, workspace = api.one.admin, api.one.workspace
        opened = await log_in(api, key.secret, headers={"origin": ORIGIN})
        token = token_of(opened)
        assert opened.headers["set-cookie"] == f"streamweir={token}; Path=/; HttpOnly; SameSite=Strict"
        assert opened.json() == {
            "actor": f"key:{key.key.id}",
            "role": "key",
            "permissions": sorted(permission.PERMISSIONS[permission.Role.KEY]),
            "person": None,
            "is_operator": False,
            "workspace": workspace.id,
            "csrf": csrf_of(token),
            "idle_s": 43_200,
            "version": __version__,
        }
        assert (await api.ask("GET", "/api/session", **page(token))).json() == opened.json()
        by_page, by_key = page(token, csrf_of(token)), bearer(key.secret)
        for path in ("/api/keys", "/api/workspaces", "/api/providers", f"/api/keys/{api.two.chat.key.id}"):
            seen, meant = await api.ask("GET", path, **by_page), await api.ask("GET", path, **by_key)
            assert (seen.status_code, seen.json()) == (meant.status_code, meant.json())
        made = await api.ask("POST", "/api/keys", body={"name": "by a page"}, **by_page)
        assert (made.status_code, made.json()["workspace"]) == (201, workspace.id)
        assert await make_workspace(api, by_page) == 403, "that is the operator's"
        own = await api.ask("POST", f"/api/keys/{key.key.id}/revoke", **by_page)
        assert own.status_code == 403, "a key does not change itself"
        assert (await api.ask("DELETE", "/api/session", **by_page)).json() == {"ended": True}
        assert (await api.ask("GET", "/api/session", **page(token))).status_code == 401
        rows = (await api.ask("GET", "/api/audit", params={"limit": 3}, **by_key)).json()["data"]
        assert [(row["actor"], row["action"], row["workspace"]) for row in rows] == [
            (f"key:{key.key.id}", action, workspace.id) for action in ("session.end", "key.create", "session.create")
        ]


async def test_the_key_of_a_prometheus_cannot_log_in(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        reply = await log_in(api, api.one.metrics.secret, headers={"origin": ORIGIN})
        assert (reply.status_code, reply.headers.get("set-cookie")) == (403, None)
        assert reply.json()["error"]["message"] == "This key reads the metrics, and cannot log in."


async def test_what_a_keys_page_must_send_to_change_something(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        token = token_of(await log_in(api, api.one.admin.secret))
        other = token_of(await log_in(api, api.one.admin.secret))
        before = await dump(api.storage.store)
        wrong = [page(token), page(token, csrf_of(other)), page(token, csrf_of(token), "https://evil.example")]
        for role in wrong:
            assert (await api.ask("POST", "/api/keys", body={"name": "x"}, **role)).status_code == 403
        assert await dump(api.storage.store) == before


@one_database
async def test_a_keys_session_ends_with_the_key(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:

        async def is_open(role: Role) -> bool:
            reply = await api.ask("GET", "/api/session", **role)
            if reply.status_code != 200:
                assert (reply.status_code, reply.json()["error"]["message"]) == (
                    401,
                    "The session has ended. Sign in again.",
                )
            return reply.status_code == 200

        async def new(**more: Any) -> tuple[NewSecret, Role]:
            key = await api.new_key(api.one, scopes=("chat", "admin"), **more)
            return key, page(token_of(await log_in(api, key.secret)))

        async def change(key: NewSecret, path: str = "", **body: Any) -> None:
            reply = await api.ask(
                "POST" if path else "PATCH", f"/api/keys/{key.key.id}{path}", body=body, **api.operator
            )
            assert reply.status_code == 200

        revoked, by_revoked = await new()
        demoted, by_demoted = await new()
        rotated, by_rotated = await new()
        replaced, by_replaced = await new()
        _, by_expiring = await new(expires_ms=api.clock.at_ms + 60_000)
        _, by_other = await new()
        every = [by_revoked, by_demoted, by_rotated, by_replaced, by_expiring, by_other]
        assert [await is_open(role) for role in every] == [True] * 6
        await change(revoked, "/revoke")
        await change(demoted, scopes=["chat"])
        await change(rotated, "/rotate", grace_s=60)
        await change(replaced, "/rotate", grace_s=0)
        assert [await is_open(role) for role in every] == [False, False, True, False, True, True]
        api.clock.at_ms += 60_000
        assert [await is_open(role) for role in every] == [False] * 5 + [True]


async def test_the_session_of_a_key_of_the_file_goes_by_the_file(tmp_path: Path) -> None:
    keys = f'[[keys]]\nname = "file admin"\nkey = "{KEY}"\nscopes = ["admin"]\n'
    async with api_on("sqlite", tmp_path, TOML + keys) as api:
        role = page(token_of(await log_in(api, KEY)))
        who = (await api.ask("GET", "/api/session", **role)).json()
        assert (who["actor"], who["workspace"]) == ("key:file:file admin", "default")
        directory = api.storage.accounting.directory
        (key,) = directory.file_keys
        for changed, status in (
            (structs.replace(key, digest=bytes(32)), 401),
            (structs.replace(key, scopes=frozenset({"chat"})), 401),
            (structs.replace(key, id="file:another", name="another"), 401),
            (key, 200),
        ):
            directory.use_file_keys(KeyRing([changed]))
            assert (await api.ask("GET", "/api/session", **role)).status_code == status


async def test_a_key_without_access_gets_the_reason_and_no_session(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        before, one = await dump(api.storage.store), api.one
        for key, status, code in (
            (one.chat, 403, "insufficient_permissions"),
            (one.models, 403, "insufficient_permissions"),
            (one.expired, 401, "expired_api_key"),
            (one.revoked, 401, "key_revoked"),
        ):
            for _ in range(MAX_TRIES + 1):  # who has the secret does not guess
                reply = await log_in(api, key.secret)
                assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)
                assert "set-cookie" not in reply.headers
        assert await dump(api.storage.store) == before


async def test_wrong_keys_are_counted_as_wrong_secrets_are(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        bodies = set()
        for number in range(MAX_TRIES):
            reply = await log_in(api, (WRONG, WRONG_KEY, "sk-sw-x", "anything", KEY[:-1])[number])
            assert reply.status_code == 401
            bodies.add(reply.content)
        assert len(bodies) == 1, "all are answered alike"
        for secret in (WRONG, WRONG_KEY):
            assert (await log_in(api, secret)).status_code == 429
        for secret in (api.secret, api.one.admin.secret):
            assert (await log_in(api, secret)).status_code == 200


async def test_a_login_as_another_ends_the_session_before(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        first = token_of(await log_in(api, api.secret))
        second = token_of(await log_in(api, api.one.admin.secret, **page(first)))
        assert (await api.ask("GET", "/api/session", **page(first))).status_code == 401
        assert not (await api.ask("GET", "/api/session", **page(second))).json()["is_operator"]
        third = token_of(await log_in(api, api.secret, **page(second)))
        assert (await api.ask("GET", "/api/session", **page(second))).status_code == 401
        assert (await api.ask("GET", "/api/session", **page(third))).json()["is_operator"]
