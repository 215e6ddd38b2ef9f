"""Sessions of the console: how one is opened, what it may do, and every way in which it ends."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from streamweir import __version__
from streamweir.policy import secret as form
from streamweir.policy.permission import PERMISSIONS, Permission, Role
from streamweir.policy.secret import csrf_of, is_well_formed, make_admin_secret, make_session_token
from streamweir.server.control.api.context import _MAX_PEERS, MAX_TRIES, WINDOW_MS, FailedLogins
from streamweir.server.control.api.people.session import Login
from streamweir.server.http.answers import Refusal
from streamweir.server.request.admission import authenticate
from streamweir.store.keys.sessions import IDLE_MS, TOUCH_MS, reset_admin_secret
from support.api import HOST, TOML, api_on, bearer
from support.api_session import ORIGIN, log_in, make_workspace, page, token_of
from support.gateway import KEY
from support.key_store import dump
from support.untrusted_texts import FOREIGN

WRONG = make_admin_secret(bytes(32))


async def test_a_session_from_its_opening_to_its_end(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        opened = await log_in(api, api.secret, headers={"origin": ORIGIN})
        assert opened.status_code == 200
        token = token_of(opened)
        assert is_well_formed(token, form.SESSION)
        assert opened.headers["set-cookie"] == f"streamweir={token}; Path=/; HttpOnly; SameSite=Strict"
        assert opened.json() == {
            "actor": "admin",
            "role": "owner",
            "permissions": sorted(Permission),
            "person": None,
            "is_operator": True,
            "workspace": None,
            "csrf": csrf_of(token),
            "idle_s": 43_200,
            "version": __version__,
        }
        again = await api.ask("GET", "/api/session", **page(token))
        assert again.json() == opened.json(), "a page that is loaded again gets the same"
        assert await make_workspace(api, page(token)) == 403
        assert await make_workspace(api, page(token, csrf_of(token))) == 201
        ended = await api.ask("DELETE", "/api/session", **page(token, csrf_of(token)))
        assert ended.json() == {"ended": True}
        assert ended.headers["set-cookie"] == "streamweir=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"
        over = await api.ask("GET", "/api/session", **page(token))
        assert (over.status_code, over.json()["error"]["message"]) == (401, "The session has ended. Sign in again.")
        rows = (await api.ask("GET", "/api/audit", params={"limit": 3}, **api.operator)).json()["data"]
        assert [(row["actor"], row["action"]) for row in rows] == [
            ("admin", "session.end"),
            ("admin", "workspace.create"),
            ("admin", "session.create"),
        ]
        assert rows[0]["object"] == rows[2]["object"]


async def test_by_tls_the_cookie_is_bound_to_the_host(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path, is_secure=True) as api:
        opened = await log_in(api, api.secret)
        token = token_of(opened)
        assert opened.headers["set-cookie"] == f"__Host-streamweir={token}; Path=/; HttpOnly; SameSite=Strict; Secure"
        for name, status in (("__Host-streamweir", 200), ("streamweir", 401), ("__host-streamweir", 401)):
            assert (await api.ask("GET", "/api/keys", headers={"cookie": f"{name}={token}"})).status_code == status


async def test_what_a_page_must_send_to_change_something(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        token, other = [token_of(await log_in(api, api.secret)) for _ in range(2)]
        before = await dump(api.storage.store)
        for csrf in (None, "", "x", csrf_of(other), token, csrf_of(token)[:-1], csrf_of(token) + "x"):
            assert await make_workspace(api, page(token, csrf)) == 403, csrf
        good = csrf_of(token)
        for origin in (
            "null",
            "",
            "http://evil.example",
            f"http://{HOST}.evil.example",
            f"http://evil.example/{HOST}",
            f"http://{HOST}:8080",
            f"http://{HOST}@evil.example",
            HOST,
            f"http://x.{HOST}",
        ):
            assert await make_workspace(api, page(token, good, origin)) == 403, origin
            reply = await api.ask("GET", "/api/keys", **page(token, good, origin))
            assert reply.status_code == 403, "nor does it read"
        headers = {"cookie": f"streamweir={token}", "x-csrf-token": good}
        assert await make_workspace(api, {"headers": headers}) == 403, "it does not say where it comes from"
        assert await dump(api.storage.store) == before
        for number, origin in enumerate((ORIGIN, f"https://{HOST}", f"http://{HOST.upper()}")):
            assert await make_workspace(api, page(token, good, origin), f"made {number}") == 201


async def test_a_login_gives_a_new_session_and_ends_the_one_before(tmp_path: Path) -> None:
    """Nobody can give another a session that he knows (fixation)."""
    async with api_on("sqlite", tmp_path) as api:
        planted = make_session_token(bytes(32))
        first = token_of(await log_in(api, api.secret, **page(planted)))
        assert first != planted
        assert (await api.ask("GET", "/api/session", **page(planted))).status_code == 401
        second = token_of(await log_in(api, api.secret, **page(first)))
        assert second != first
        assert (await api.ask("GET", "/api/session", **page(first))).status_code == 401
        assert (await log_in(api, WRONG, **page(second))).status_code == 401
        assert (await api.ask("GET", "/api/session", **page(second))).status_code == 200


async def test_a_login_from_another_sites_page_is_refused(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        reply = await log_in(api, api.secret, headers={"origin": "https://evil.example"})
        assert (reply.status_code, "set-cookie" in reply.headers) == (403, False)
        form_headers = {"content-type": "text/plain"}
        reply = await api.ask("POST", "/api/session", raw=b'{"secret":"x"}', headers=form_headers)
        assert reply.status_code == 415


async def test_twelve_idle_hours_end_it_and_each_use_gives_twelve_more(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        role = page(token_of(await log_in(api, api.secret)))

        async def is_open() -> bool:
            return (await api.ask("GET", "/api/session", **role)).status_code == 200

        for _ in range(3):
            api.clock.at_ms += IDLE_MS - 1
            assert await is_open()
        api.clock.at_ms += TOUCH_MS - 1
        assert await is_open()
        api.clock.at_ms += IDLE_MS - TOUCH_MS + 1  # a use within a minute of the last is not noted
        assert not await is_open()
        api.clock.at_ms -= 1
        assert await is_open(), "it is over by the clock"


async def test_a_new_secret_ends_every_session(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        tokens = [token_of(await log_in(api, api.secret)) for _ in range(2)]
        new = await api.storage.store.write(partial(reset_admin_secret, actor="cli", at_ms=api.clock.at_ms))
        for token in tokens:
            assert (await api.ask("GET", "/api/session", **page(token))).status_code == 401
        assert (await log_in(api, api.secret)).status_code == 401
        assert (await api.ask("GET", "/api/keys", **api.operator)).status_code == 401
        assert (await log_in(api, new)).status_code == 200
        assert (await api.ask("GET", "/api/keys", **bearer(new))).status_code == 200


async def test_wrong_secrets_are_counted_by_address(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        api.clock.at_ms = 1_800_000_000_000
        for number in range(MAX_TRIES):
            api.clock.at_ms += 1000
            wrong = log_in(api, WRONG) if number % 2 else api.ask("GET", "/api/keys", **bearer(WRONG))
            reply = await wrong
            assert (reply.status_code, reply.json()["error"]["code"]) == (401, "invalid_api_key")
        for reply in (await log_in(api, WRONG), await api.ask("GET", "/api/keys", **bearer(WRONG))):
            assert (reply.status_code, reply.json()["error"]["code"]) == (429, "rate_limit_exceeded")
            assert reply.headers["retry-after"] == "56"
        assert (await log_in(api, api.secret)).status_code == 200, "nobody locks the operator out"
        assert (await api.ask("GET", "/api/keys", **bearer(api.secret))).status_code == 200
        assert (await log_in(api, WRONG, peer="192.0.2.8")).status_code == 401
        assert (await api.ask("GET", "/api/keys", **bearer(api.one.admin.secret))).status_code == 200, (
            "a key is no guess"
        )
        assert (await api.ask("GET", "/api/keys", **await api.session())).status_code == 200
        api.clock.at_ms += WINDOW_MS - 4000
        assert (await log_in(api, WRONG)).status_code == 401, "the first is a minute old"
        assert (await log_in(api, WRONG)).status_code == 429
        api.clock.at_ms += WINDOW_MS
        assert (await log_in(api, WRONG)).status_code == 401


async def test_guesses_at_the_same_moment_are_all_counted(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        replies = await asyncio.gather(*(log_in(api, WRONG) for _ in range(20)), log_in(api, api.secret))
        statuses = [reply.status_code for reply in replies]
        assert statuses.count(401) == MAX_TRIES
        assert statuses.count(429) == 20 - MAX_TRIES
        assert statuses[-1] == 200


async def test_the_address_from_a_proxy_is_used_only_if_it_is_trusted(tmp_path: Path) -> None:
    for number, trusted in enumerate(("", '[server]\ntrusted_proxies = ["192.0.2.0/24"]\n')):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with api_on("sqlite", folder, trusted + TOML) as api:
            for _ in range(MAX_TRIES):
                await log_in(api, WRONG, headers={"x-forwarded-for": "198.51.100.1"})
            others = await log_in(api, WRONG, headers={"x-forwarded-for": "198.51.100.2"})
            assert others.status_code == (401 if trusted else 429)


def test_what_is_kept_of_addresses_is_bounded() -> None:
    tries = FailedLogins()
    for number in range(_MAX_PEERS + 100):
        for _ in range(MAX_TRIES):
            tries.failed(str(number), 0)
    assert len(tries._failed) == _MAX_PEERS
    assert tries.failed(str(_MAX_PEERS), 0) is not None
    assert tries.failed(str(_MAX_PEERS), WINDOW_MS) is None
    assert tries.failed(str(_MAX_PEERS + 1), -1) is None  # a clock that was set back locks nobody out
    assert tries.failed("0", 0) is None


async def test_no_text_is_the_secret(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        before = await dump(api.storage.store)
        near = [api.secret[:-1], api.secret + " ", api.secret.upper(), form.ADMIN, "a" * 5000]
        key = api.one.admin
        near += [key.secret[:-1], key.secret + " ", key.secret.upper(), key.key.id, f"Bearer {key.secret}", KEY[:-1]]
        for number, text in enumerate((*FOREIGN, *near)):
            reply = await log_in(api, text, peer=f"198.51.100.{number}")
            assert reply.status_code in (400, 401, 413)
            assert "set-cookie" not in reply.headers
        assert await dump(api.storage.store) == before


async def test_the_current_identity(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        assert (await api.ask("GET", "/api/session", **bearer(api.one.admin.secret))).json() == {
            "actor": f"key:{api.one.admin.key.id}",
            "role": "key",
            "permissions": sorted(PERMISSIONS[Role.KEY]),
            "person": None,
            "is_operator": False,
            "workspace": api.one.workspace.id,
            "csrf": None,
            "idle_s": None,
            "version": __version__,
        }
        operator = (await api.ask("GET", "/api/session", **api.operator)).json()
        assert (operator["actor"], operator["is_operator"], operator["csrf"]) == ("admin", True, None)


async def test_a_key_of_the_file_is_an_admin_like_any_other(tmp_path: Path) -> None:
    keys = f'[[keys]]\nname = "file admin"\nkey = "{KEY}"\nscopes = ["admin"]\nworkspace = "filed"\n'
    async with api_on("sqlite", tmp_path, TOML + keys) as api:
        admin = bearer(KEY)
        who = (await api.ask("GET", "/api/session", **admin)).json()
        (workspace,) = (await api.ask("GET", "/api/workspaces", **admin)).json()["data"]
        assert (workspace["name"], workspace["id"]) == ("filed", who["workspace"])
        (key,) = (await api.ask("GET", "/api/keys", **admin)).json()["data"]
        assert (key["name"], key["origin"], key["last4"]) == ("file admin", "file", KEY[-4:])
        path = f"/api/keys/{key['id']}/revoke"
        assert (await api.ask("POST", path, **admin)).status_code == 403
        assert (await api.ask("POST", path, **api.operator)).status_code == 409, "it is changed in the file"


async def test_neither_cookie_nor_admin_secret_is_anything_to_the_data_plane(tmp_path: Path) -> None:
    """Which asks `authenticate` alone (docs/spec/security.md S16)."""
    async with api_on("sqlite", tmp_path) as api:
        directory, now = api.storage.accounting.directory, api.clock.at_ms / 1000
        refused: list[tuple[dict[str, str], str]] = [({"authorization": f"Bearer {api.secret}"}, "invalid_api_key")]
        for secret in (api.secret, api.one.admin.secret):  # of a key that may chat
            token = token_of(await log_in(api, secret))
            refused += [
                ({**page(token, csrf_of(token))["headers"]}, "missing_api_key"),
                ({"cookie": f"__Host-streamweir={token}"}, "missing_api_key"),
                ({"authorization": f"Bearer {token}"}, "invalid_api_key"),
                ({"authorization": f"Bearer {csrf_of(token)}"}, "invalid_api_key"),
            ]
        for headers, code in refused:
            with pytest.raises(Refusal) as caught:
                authenticate(headers, directory, now)
            assert caught.value.error.code == code
        assert authenticate(bearer(api.one.chat.secret)["headers"], directory, now).id == api.one.chat.key.id


def test_a_secret_is_not_printed() -> None:
    assert repr(Login(secret=WRONG)) == "Login('****')"
