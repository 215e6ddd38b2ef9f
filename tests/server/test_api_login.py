"""Logging in with a password, choosing one with an invitation, changing it: what it opens, and how it is attacked."""

import asyncio
from pathlib import Path

import httpx2
from msgspec import structs
from sqlalchemy import select

from streamweir.policy.login_limit import PER_ADDRESS, PER_NAME_AND_ADDRESS, WINDOW_MS
from streamweir.policy.secret import csrf_of, make_session_token
from streamweir.server.control.api.people.login import Acceptance, PasswordChange, PasswordLogin
from streamweir.server.control.passwords import Cost, PasswordHashing
from streamweir.store.db.tables import login_attempts, people
from streamweir.store.keys.people import INVITED_MS
from support.api import Api, api_on, bearer
from support.api_session import ORIGIN, page, token_of
from support.key_store import dump
from support.untrusted_texts import FOREIGN

PASSWORD, OTHER = "correct horse battery", "another one, as long"


async def invited(api: Api, name: str = "Ada", role: str = "owner", **body: object) -> str:
    reply = await api.ask("POST", "/api/people", body={"name": name, "role": role, **body}, **api.operator)
    assert reply.status_code == 201
    token: str = reply.json()["invitation"]
    return token


async def accept(api: Api, invitation: str, password: str = PASSWORD, **more: object) -> httpx2.Response:
    body = {"invitation": invitation, "password": password}
    return await api.ask("POST", "/api/invitation", body=body, **more)  # type: ignore[arg-type]


async def log_in(api: Api, name: str = "Ada", password: str = PASSWORD, **more: object) -> httpx2.Response:
    return await api.ask("POST", "/api/login", body={"name": name, "password": password}, **more)  # type: ignore[arg-type]


async def joined(api: Api, name: str = "Ada", role: str = "owner", **body: object) -> str:
    """The token of the session that opens with the invitation."""
    reply = await accept(api, await invited(api, name, role, **body))
    assert reply.status_code == 200
    return token_of(reply)


async def is_open(api: Api, token: str) -> bool:
    return (await api.ask("GET", "/api/session", **page(token))).status_code == 200


async def test_a_person_from_the_invitation_to_the_login(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        invitation = await invited(api)
        refused = await log_in(api)
        assert refused.status_code == 401, "there is no password yet"
        opened = await accept(api, invitation, headers={"origin": ORIGIN})
        assert (opened.status_code, opened.json()["actor"], opened.json()["role"]) == (200, "person:Ada", "owner")
        assert PASSWORD not in repr(await dump(api.storage.store))
        for again in (invitation, invitation[:-1], ""):
            reply = await accept(api, again, OTHER)
            assert (reply.status_code, "set-cookie" in reply.headers) == (401, False)
        reply = await log_in(api, " ada".strip(), headers={"origin": ORIGIN, "user-agent": "Firefox"})
        token = token_of(reply)
        assert reply.headers["set-cookie"] == f"streamweir={token}; Path=/; HttpOnly; SameSite=Strict"
        assert reply.json()["csrf"] == csrf_of(token)
        me = (await api.ask("GET", "/api/me", **page(token))).json()
        assert (me["person"]["name"], me["person"]["seen_ms"], me["workspace_name"]) == ("Ada", api.clock.at_ms, None)
        listed = (await api.ask("GET", "/api/me/sessions", **page(token))).json()["data"]
        assert {(each["browser"], each["is_current"]) for each in listed} == {
            ("Firefox", True),
            (opened.request.headers["user-agent"], False),
        }
        rows = (await api.ask("GET", "/api/audit", params={"limit": 4}, **api.operator)).json()["data"]
        assert [(row["actor"], row["action"]) for row in rows] == [
            ("person:Ada", "session.create"),
            ("person:Ada", "session.create"),
            ("person:Ada", "person.accept"),
            ("admin", "person.create"),
        ]


async def test_an_invitation_says_whom_it_is_for_while_it_is_valid(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        token = await invited(api, "Eve", "member", workspace=api.one.workspace.name)
        reply = await look(api, token)
        assert reply.json() == {
            "name": "Eve",
            "role": "member",
            "workspace_name": api.one.workspace.name,
            "email": None,
            "until_ms": api.clock.at_ms + INVITED_MS,
        }
        assert (await look(api, token, headers={"origin": "https://evil.example"})).status_code == 403
        assert (await accept(api, token)).status_code == 200, "it was not used up"
        for wrong in (token, token[:-1], *FOREIGN[:2]):
            assert (await look(api, wrong)).status_code == 401
        expired = await invited(api, "late")
        api.clock.at_ms += INVITED_MS
        assert (await look(api, expired)).status_code == 401


async def test_guesses_of_invitations_are_bounded(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        statuses = [(await look(api, f"sw-invite-{n}")).status_code for n in range(7)]
        assert statuses == [401, 401, 401, 401, 401, 429, 429]


async def look(api: Api, invitation: str, **more: object) -> httpx2.Response:
    return await api.ask("POST", "/api/invitation/show", body={"invitation": invitation}, **more)  # type: ignore[arg-type]


async def test_by_tls_the_cookie_is_bound_to_the_host(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path, is_secure=True) as api:
        for reply in (await accept(api, await invited(api)), await log_in(api)):
            cookie = reply.headers["set-cookie"]
            assert cookie.startswith("__Host-streamweir=")
            assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")


async def test_an_invitation_expires(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        invitation = await invited(api)
        api.clock.at_ms += INVITED_MS
        assert (await accept(api, invitation)).status_code == 401


async def test_a_bad_password_does_not_use_the_invitation_up(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        invitation = await invited(api)
        for bad in ("", "short", "x" * 12, "y" * 300, "ADA 12345678"):
            reply = await accept(api, invitation, bad)
            assert (reply.status_code, reply.json()["error"]["param"]) == (400, "password")
        assert (await accept(api, invitation)).status_code == 200


async def test_nobody_learns_who_exists(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        await joined(api)
        await invited(api, "invited")
        await joined(api, "disabled", "viewer")
        (person,) = [row for row in await listed(api) if row["name"] == "disabled"]
        await api.ask("PATCH", f"/api/people/{person['id']}", body={"disabled": True}, **api.operator)
        replies = [
            await log_in(api, "Ada", OTHER),
            await log_in(api, "nobody"),
            await log_in(api, "invited"),
            await log_in(api, "disabled"),
            await log_in(api, ""),
            *[await log_in(api, text[:200]) for text in FOREIGN[:4] if text.isprintable()],
        ]
        assert {(reply.status_code, reply.content) for reply in replies} == {(401, replies[0].content)}
        assert not any("set-cookie" in reply.headers for reply in replies)


async def listed(api: Api) -> list[dict[str, object]]:
    found: list[dict[str, object]] = (await api.ask("GET", "/api/people", **api.operator)).json()["data"]
    return found


async def test_attempts_are_bounded_by_name_and_by_address(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        await joined(api)
        for name in ("Ada", "nobody"):
            statuses = [(await log_in(api, name, OTHER)).status_code for _ in range(PER_NAME_AND_ADDRESS)]
            assert statuses == [401] * PER_NAME_AND_ADDRESS
            reply = await log_in(api, name)
            assert reply.status_code == 429, "the right one, too"
            assert "in 15 minutes" in reply.json()["error"]["message"]
        assert (await log_in(api, peer="192.0.2.8")).status_code == 200
        assert (await api.ask("GET", "/api/keys", **api.operator)).status_code == 200, "the admin secret is another way"
        left = PER_ADDRESS - 2 * PER_NAME_AND_ADDRESS
        statuses = [(await log_in(api, f"name {number}")).status_code for number in range(left + 1)]
        assert statuses == [*[401] * left, 429]
        api.clock.at_ms += WINDOW_MS
        assert (await log_in(api)).status_code == 200
        assert (await api.ask("GET", "/api/keys", **bearer("sw-admin-wrong"))).status_code == 401
        (family,) = api.context.logins.families()
        counted = {(each.labels["way"], each.labels["outcome"]): each.value for each in family.samples if each.value}
        assert counted == {
            ("invitation", "opened"): 1,
            ("password", "opened"): 2,
            ("password", "wrong"): PER_ADDRESS,
            ("password", "limited"): 3,
            ("secret", "wrong"): 1,
        }


async def test_a_login_takes_its_attempts_back(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        await joined(api)
        for _ in range(2):
            for _ in range(PER_NAME_AND_ADDRESS - 1):
                await log_in(api, password=OTHER)
            assert (await log_in(api)).status_code == 200
        rows = await api.storage.store.read(lambda conn: conn.execute(select(login_attempts)).all())
        assert rows == []


async def test_guesses_at_the_same_moment_are_all_counted(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        await joined(api)
        hashing = PasswordHashing(Cost(rounds=1, memory_kib=8), max_waiting=100)
        await api.use(structs.replace(api.context, passwords=hashing))
        replies = await asyncio.gather(*(log_in(api, password=OTHER) for _ in range(3 * PER_NAME_AND_ADDRESS)))
        statuses = [reply.status_code for reply in replies]
        assert (statuses.count(401), statuses.count(429)) == (PER_NAME_AND_ADDRESS, 2 * PER_NAME_AND_ADDRESS)


async def test_a_login_gives_a_new_session_and_ends_the_one_before(tmp_path: Path) -> None:
    """Nobody can give another a session that he knows (fixation)."""
    async with api_on("sqlite", tmp_path) as api:
        planted = make_session_token(bytes(32))
        first = token_of(await accept(api, await invited(api), headers=page(planted)["headers"]))
        assert first != planted
        assert not await is_open(api, planted)
        second = token_of(await log_in(api, headers=page(first)["headers"]))
        assert [await is_open(api, token) for token in (first, second)] == [False, True]
        assert (await log_in(api, password=OTHER, headers=page(second)["headers"])).status_code == 401
        assert await is_open(api, second)


async def test_a_login_from_another_sites_page_is_refused(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        invitation = await invited(api)
        elsewhere = {"origin": "https://evil.example"}
        assert (await accept(api, invitation, headers=elsewhere)).status_code == 403
        await accept(api, invitation)
        reply = await log_in(api, headers=elsewhere)
        assert (reply.status_code, "set-cookie" in reply.headers) == (403, False)
        raw = b'{"name":"Ada","password":"correct horse battery"}'
        reply = await api.ask("POST", "/api/login", raw=raw, headers={"content-type": "text/plain"})
        assert reply.status_code == 415, "a form of another page cannot send it"


async def test_a_cookie_that_was_stolen_is_nothing_after_the_end(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        stolen = await joined(api)
        ended = await api.ask("DELETE", "/api/session", **page(stolen, csrf_of(stolen)))
        assert ended.json() == {"ended": True}
        assert not await is_open(api, stolen)
        own = token_of(await log_in(api))
        stolen = token_of(await log_in(api, peer="203.0.113.9"))
        rows = (await api.ask("GET", "/api/me/sessions", **page(own))).json()["data"]
        (strange,) = [row for row in rows if row["address"] == "203.0.113.9"]
        path = f"/api/me/sessions/{strange['id']}"
        assert (await api.ask("DELETE", path, **page(own))).status_code == 403, "a change needs the token"
        assert (await api.ask("DELETE", path, **page(own, csrf_of(own)))).status_code == 200
        assert [await is_open(api, token) for token in (stolen, own)] == [False, True]


async def test_all_of_ones_sessions_end_at_once(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        first, other = await joined(api), await joined(api, "bob", "viewer")
        second = token_of(await log_in(api))
        reply = await api.ask("DELETE", "/api/me/sessions", **page(second))
        assert reply.status_code == 403, "a change needs the token"
        reply = await api.ask("DELETE", "/api/me/sessions", **page(second, csrf_of(second)))
        assert reply.json() == {"sessions_ended": 2}
        assert reply.headers["set-cookie"].startswith("streamweir=;")
        assert [await is_open(api, token) for token in (first, second, other)] == [False, False, True]
        (row,) = (await api.ask("GET", "/api/audit", params={"limit": 1}, **api.operator)).json()["data"]
        assert (row["actor"], row["action"]) == ("person:Ada", "person.end_sessions")


async def test_nobody_ends_the_session_of_another_as_its_own(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        ada, bob = await joined(api), await joined(api, "bob", "viewer")
        (of_ada,) = (await api.ask("GET", "/api/me/sessions", **page(ada))).json()["data"]
        reply = await api.ask("DELETE", f"/api/me/sessions/{of_ada['id']}", **page(bob, csrf_of(bob)))
        assert reply.status_code == 404
        assert await is_open(api, ada)


async def change(api: Api, token: str, old: str, new: str) -> httpx2.Response:
    body = {"old": old, "new": new}
    return await api.ask("POST", "/api/me/password", body=body, **page(token, csrf_of(token)))


async def test_a_change_of_the_password_ends_every_other_session(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        first = await joined(api)
        second, others = token_of(await log_in(api)), await joined(api, "bob", "viewer")
        wrong = await change(api, second, OTHER, "a third one, as long")
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (401, "invalid_api_key")
        short = await change(api, second, PASSWORD, "short")
        assert (short.status_code, short.json()["error"]["param"]) == (400, "new")
        assert await is_open(api, first)
        changed = await change(api, second, PASSWORD, OTHER)
        third = token_of(changed)
        assert [await is_open(api, token) for token in (first, second, third, others)] == [False, False, True, True]
        assert (await log_in(api)).status_code == 401
        assert (await log_in(api, password=OTHER)).status_code == 200


async def test_guessing_the_old_password_with_a_stolen_session_is_bounded(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        token = await joined(api)
        statuses = [(await change(api, token, OTHER, OTHER)).status_code for _ in range(PER_NAME_AND_ADDRESS + 1)]
        assert statuses == [*[401] * PER_NAME_AND_ADDRESS, 429]


async def test_a_reset_ends_what_the_person_had(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        token = await joined(api)
        (person,) = await listed(api)
        again = (await api.ask("POST", f"/api/people/{person['id']}/invite", **api.operator)).json()["invitation"]
        assert not await is_open(api, token)
        assert (await log_in(api)).status_code == 401
        assert (await accept(api, again, OTHER)).status_code == 200
        assert (await log_in(api)).status_code == 401
        assert (await log_in(api, password=OTHER)).status_code == 200


async def test_a_hash_of_older_costs_is_replaced_by_the_login(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        await joined(api)

        async def stored() -> str:
            found = await api.storage.store.read(lambda conn: conn.execute(select(people.c.password)).scalar_one())
            return str(found)

        before = await stored()
        newer = structs.replace(api.context, passwords=PasswordHashing(Cost(rounds=2, memory_kib=8)))
        await api.use(newer)
        assert (await log_in(api)).status_code == 200
        assert "t=1" in before
        assert "t=2" in await stored()
        assert (await log_in(api)).status_code == 200


async def test_the_admin_secret_and_keys_are_no_people(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        for path in ("/api/me", "/api/me/sessions"):
            assert (await api.ask("GET", path, **api.operator)).status_code == 404
            assert (await api.ask("GET", path, **await api.session())).status_code == 404
            assert (await api.ask("GET", path, **await api.session(api.one.admin))).status_code == 403


async def test_the_member_of_a_workspace_sees_its_account_and_nothing_else(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        token = await joined(api, "eve", "member", workspace="one")
        me = (await api.ask("GET", "/api/me", **page(token))).json()
        assert me["workspace_name"] == "one"
        for path in ("/api/keys", "/api/requests", "/api/usage", "/api/people", "/api/audit", "/api/models"):
            assert (await api.ask("GET", path, **page(token))).status_code == 403


def test_secrets_are_not_printed() -> None:
    for struct in (
        PasswordLogin(name="Ada", password=PASSWORD),
        Acceptance(invitation="sw-invite-x", password=PASSWORD),
        PasswordChange(old=PASSWORD, new=OTHER),
    ):
        assert repr(struct) == f"{type(struct).__name__}('****')"
