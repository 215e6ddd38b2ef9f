"""Every operation of the API for everyone who may ask it, and what all answers have in common.

docs/spec/security.md S1.
"""

from pathlib import Path

import httpx2
import pytest
from msgspec import Struct, structs
from sqlalchemy import update
from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse
from starlette.responses import Response as HttpResponse
from starlette.routing import Route

from streamweir.policy import permission
from streamweir.policy.permission import GATEWAY_ROLES, Permission, roles_with
from streamweir.server.control.api.authentication import SAFE, api_gates
from streamweir.server.control.api.operation import JSON, Nothing, Operation
from streamweir.server.control.api.table import OPERATIONS
from streamweir.server.control.routing import Access, OpenRoute
from streamweir.server.http.security_headers import SECURITY_HEADERS
from streamweir.store.db.tables import people
from support.api import ADDRESSES, HIDDEN, HOST, WRONG_KEY, Api, Role, api_on, app_of, bearer
from support.api_calls import make_call, name_of, named
from support.key_store import dump

OPERATOR_ONLY = 403


class Expected(Struct):
    """What a key with the scope `admin` of the workspace that is asked about gets, one of another, and the operator."""

    own: int
    foreign: int
    operator: int
    own_admin: int | None = None
    """The person who is the admin of the workspace. None: as the key."""
    foreign_admin: int | None = None


EXPECTED = {
    "GET /api/session": Expected(200, 200, 200),
    "DELETE /api/session": Expected(200, 200, 200),
    "POST /api/me/password": Expected(403, 403, 404),
    "GET /api/me": Expected(403, 403, 404),
    "GET /api/me/sessions": Expected(403, 403, 404),
    "DELETE /api/me/sessions": Expected(403, 403, 404),
    "DELETE /api/me/sessions/{id}": Expected(403, 403, 404),
    "GET /api/me/keys": Expected(403, 403, 404),
    "POST /api/me/keys": Expected(403, 403, 404),
    "GET /api/me/keys/{id}": Expected(403, 403, 404),
    "POST /api/me/keys/{id}/revoke": Expected(403, 403, 404),
    "GET /api/me/credit": Expected(403, 403, 404),
    "GET /api/me/usage": Expected(403, 403, 404),
    "GET /api/me/overview": Expected(403, 403, 404),
    "GET /api/me/requests": Expected(403, 403, 404),
    "GET /api/me/requests/{id}": Expected(403, 403, 404),
    "GET /api/people": Expected(403, 403, 200, 200, 200),
    "POST /api/people": Expected(403, 403, 201, 201, 404),
    "GET /api/people/{id}": Expected(403, 403, 200, 200, 404),
    "PATCH /api/people/{id}": Expected(403, 403, 200, 200, 404),
    "POST /api/people/{id}/invite": Expected(403, 403, 200, 200, 404),
    "DELETE /api/people/{id}": Expected(403, 403, 200, 200, 404),
    "GET /api/people/{id}/sessions": Expected(403, 403, 200, 200, 404),
    "DELETE /api/people/{id}/sessions": Expected(403, 403, 200, 200, 404),
    "GET /api/sessions": Expected(OPERATOR_ONLY, OPERATOR_ONLY, 200),
    "DELETE /api/sessions/{id}": Expected(OPERATOR_ONLY, OPERATOR_ONLY, 200),
    "GET /api/workspaces": Expected(200, 200, 200),
    "POST /api/workspaces": Expected(OPERATOR_ONLY, OPERATOR_ONLY, 201),
    "GET /api/workspaces/{id}": Expected(200, 404, 200),
    "PATCH /api/workspaces/{id}": Expected(OPERATOR_ONLY, OPERATOR_ONLY, 200),
    "GET /api/workspaces/{id}/member-keys": Expected(200, 404, 200),
    "PATCH /api/workspaces/{id}/member-keys": Expected(200, 404, 200),
    "GET /api/keys": Expected(200, 200, 200),
    "POST /api/keys": Expected(201, 404, 201),
    "GET /api/keys/{id}": Expected(200, 404, 200),
    "PATCH /api/keys/{id}": Expected(200, 404, 200),
    "POST /api/keys/{id}/revoke": Expected(200, 404, 200),
    "POST /api/keys/{id}/rotate": Expected(200, 404, 200),
    "DELETE /api/keys/{id}/content": Expected(200, 404, 200),
    "GET /api/credits": Expected(200, 200, 200),
    "POST /api/credits": Expected(OPERATOR_ONLY, OPERATOR_ONLY, 201),
    "GET /api/payments": Expected(200, 200, 200),
    "POST /api/payments": Expected(201, 404, 201),
    "GET /api/ledger": Expected(200, 200, 200),
    "GET /api/requests/export": Expected(200, 200, 200),
    "GET /api/requests": Expected(200, 200, 200),
    "GET /api/requests/{id}": Expected(200, 404, 200),
    "GET /api/requests/{id}/content": Expected(200, 404, 200),
    "DELETE /api/requests/{id}/content": Expected(200, 404, 200),
    "GET /api/usage": Expected(200, 200, 200),
    "GET /api/overview": Expected(200, 200, 200),
    "GET /api/live": Expected(200, 200, 200),
    "GET /api/live/events": Expected(200, 200, 200),
    "POST /api/live/{id}/cancel": Expected(200, 404, 200),
    "GET /api/playground": Expected(200, 200, 200),
    "POST /api/playground/chat": Expected(200, 404, 200),
    "GET /api/providers": Expected(200, 200, 200),
    "POST /api/providers/{id}/test": Expected(OPERATOR_ONLY, OPERATOR_ONLY, 200),
    "GET /api/nodes": Expected(OPERATOR_ONLY, OPERATOR_ONLY, 200),
    "GET /api/models": Expected(200, 200, 200),
    "GET /api/prices": Expected(200, 200, 200),
    "GET /api/alerts": Expected(200, 200, 200),
    "GET /api/audit": Expected(200, 200, 200),
    "GET /api/audit/verify": Expected(OPERATOR_ONLY, OPERATOR_ONLY, 200),
    "GET /api/check": Expected(OPERATOR_ONLY, OPERATOR_ONLY, 200),
    "GET /api/settings": Expected(OPERATOR_ONLY, OPERATOR_ONLY, 200),
    "GET /api/openapi.json": Expected(200, 200, 200),
}
ANYONE = {
    "POST /api/session",
    "GET /api/login",
    "POST /api/login",
    "POST /api/invitation",
    "POST /api/invitation/show",
    "POST /api/oidc",
}
OWN = {
    "POST /api/me/password": 401,
    "GET /api/me": 200,
    "GET /api/me/sessions": 200,
    "DELETE /api/me/sessions": 200,
    "DELETE /api/me/sessions/{id}": 404,
    "GET /api/me/keys": 200,
    "POST /api/me/keys": 201,
    "GET /api/me/keys/{id}": 404,
    "POST /api/me/keys/{id}/revoke": 404,
    "GET /api/me/credit": 200,
    "GET /api/me/usage": 200,
    "GET /api/me/overview": 200,
    "GET /api/me/requests": 200,
    "GET /api/me/requests/{id}": 404,
}
"""What a person gets: of itself, whoever it is. The password of the call is wrong, and the session, the key and the
request are another's."""
NOT_OF_THE_GATEWAY = {"POST /api/me/keys": 409, "GET /api/me/credit": 409}
"""What people get who belong to no workspace."""
TOLD = ("show_content", "export_requests")
"""Of what changes nothing: the audit log hears of these."""


async def roles_of(api: Api) -> dict[str, Role]:
    one = api.one
    return {
        "none": {},
        "wrong key": bearer(WRONG_KEY),
        "chat key": bearer(one.chat.secret),
        "models key": bearer(one.models.secret),
        "metrics key": bearer(one.metrics.secret),
        "expired": bearer(one.expired.secret),
        "revoked": bearer(one.revoked.secret),
        "own": bearer(one.admin.secret),
        "foreign": bearer(api.two.admin.secret),
        "admin secret": api.operator,
        "session without csrf": await api.session(with_csrf=False),
        "session": await api.session(),
        "session from elsewhere": await api.session(origin="https://evil.example"),
        "session from nowhere": await api.session(origin="null"),
        "session of no page": await api.session(origin=None),
        "own session": await api.session(one.admin),
        "own session without csrf": await api.session(one.admin, with_csrf=False),
        "foreign session": await api.session(api.two.admin),
        "chat key's session": await api.session(one.chat),
        "metrics key's session": await api.session(one.metrics),
        "expired key's session": await api.session(one.expired),
        "revoked key's session": await api.session(one.revoked),
        **{role.value: await api.person_session(await api.new_person(role)) for role in GATEWAY_ROLES},
        "own admin": await api.person_session(await api.new_person(permission.Role.ADMIN, one)),
        "own admin without csrf": await api.person_session(
            await api.new_person(permission.Role.ADMIN, one), with_csrf=False
        ),
        "foreign admin": await api.person_session(await api.new_person(permission.Role.ADMIN, api.two)),
        "own member": await api.person_session(await api.new_person(permission.Role.MEMBER, one)),
        "foreign member": await api.person_session(await api.new_person(permission.Role.MEMBER, api.two)),
        "disabled owner": await disabled(api),
    }


async def disabled(api: Api) -> Role:
    person = await api.new_person(permission.Role.OWNER)
    role = await api.person_session(person)
    await api.storage.store.write(
        lambda conn: conn.execute(update(people).where(people.c.id == person.id).values(disabled_ms=1))
    )
    return role


def expected_of(operation: Operation, role: str) -> int:
    row = EXPECTED[name_of(operation)]
    allowed = roles_with(operation.access) if isinstance(operation.access, Permission) else ()
    by_person = {each.value: row.operator if each in allowed else 403 for each in GATEWAY_ROLES}
    if name_of(operation) in OWN:
        of_gateway = NOT_OF_THE_GATEWAY.get(name_of(operation), OWN[name_of(operation)])
        by_person = dict.fromkeys(GATEWAY_ROLES, of_gateway)
        row = structs.replace(row, own_admin=OWN[name_of(operation)], foreign_admin=OWN[name_of(operation)])
    own_admin = row.own if row.own_admin is None else row.own_admin
    foreign_admin = row.foreign if row.foreign_admin is None else row.foreign_admin
    member = OWN.get(name_of(operation)) or row.operator if permission.Role.MEMBER in allowed else 403
    is_safe = operation.method in SAFE
    by_role = {
        "none": 401,
        "wrong key": 401,
        "chat key": 403,
        "models key": 403,
        "metrics key": 403,
        "expired": 401,
        "revoked": 401,
        "own": row.own,
        "foreign": row.foreign,
        "admin secret": row.operator,
        "session without csrf": row.operator if is_safe else 403,
        "session": row.operator,
        "session from elsewhere": 403,
        "session from nowhere": 403,
        "session of no page": row.operator if is_safe else 403,
        "own session": row.own,
        "own session without csrf": row.own if is_safe else 403,
        "foreign session": row.foreign,
        "chat key's session": 401,
        "metrics key's session": 401,
        "expired key's session": 401,
        "revoked key's session": 401,
        **by_person,
        "own admin": own_admin,
        "own admin without csrf": own_admin if is_safe else 403,
        "foreign admin": foreign_admin,
        "own member": member,
        "foreign member": member,
        "disabled owner": 401,
    }
    return by_role[role]


def test_every_operation_has_its_row() -> None:
    assert EXPECTED.keys() | ANYONE == {name_of(operation) for operation in OPERATIONS}
    assert len({name_of(operation) for operation in OPERATIONS}) == len(OPERATIONS)
    assert len({operation.name for operation in OPERATIONS}) == len(OPERATIONS)
    for operation in OPERATIONS:
        assert (operation.access is Access.ANYONE) == (name_of(operation) in ANYONE)
        assert operation.path.startswith("/api/")
        if operation.method in SAFE:
            assert operation.body is Nothing


async def test_every_operation_for_everyone(tmp_path: Path) -> None:
    found, wanted = {}, {}
    async with api_on("sqlite", tmp_path) as api:
        roles = await roles_of(api)
        for operation in OPERATIONS:
            if operation.access is Access.ANYONE:
                continue
            expected = {role: expected_of(operation, role) for role in roles}
            made = await make_call(api, operation)
            is_quiet = operation.method in SAFE and operation.name not in TOLD
            quiet = [role for role, status in expected.items() if status >= 400 or is_quiet]
            before = await unattempted(api)
            for role in [*quiet, *(role for role in roles if role not in quiet)]:
                if role not in quiet:
                    made = await make_call(api, operation)
                reply = await api.ask(operation.method, made.path, **made.sent, **roles[role])
                found[name_of(operation), role] = reply.status_code
                wanted[name_of(operation), role] = expected[role]
                assert_proper(api, operation, reply)
                if role == quiet[-1]:
                    assert await unattempted(api) == before, name_of(operation)
            if operation.name in ("close_session", "end_own_sessions"):
                roles = await roles_of(api)
    assert found == wanted


async def unattempted(api: Api) -> dict[str, list[tuple[object, ...]]]:
    """All that is stored, without the count of attempts to guess a password."""
    found = await dump(api.storage.store)
    found.pop("login_attempts")
    found["counters"] = [row for row in found["counters"] if row[0] != "logins"]
    return found


def assert_proper(api: Api, operation: Operation, reply: httpx2.Response) -> None:
    """What holds for every answer."""
    kinds = operation.media if reply.status_code < 400 else (JSON,)
    assert reply.headers["content-type"].partition(";")[0] in kinds
    for name, value in SECURITY_HEADERS:
        assert reply.headers[name] == value
    assert not [name for name in reply.headers if name.startswith("access-control-")], "no page of others may read it"
    if reply.status_code >= 400:
        error = reply.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert reply.headers["x-should-retry"] == "false"
        assert ("www-authenticate" in reply.headers) == (reply.status_code == 401)
    tells_an_invitation = operation.name in ("create_person", "invite_person") and reply.status_code < 400
    assert ("sw-invite-" in reply.text) == tells_an_invitation
    assert "argon2" not in reply.text
    tells_a_secret = operation.name in ("create_key", "create_own_key", "rotate_key") and reply.status_code < 400
    assert ("sk-sw-" in reply.text) == tells_a_secret
    for secret in (api.secret, *HIDDEN, *(ADDRESSES if operation.name != "show_settings" else ())):
        assert secret not in reply.text
    if operation.name != "show_session":
        assert "sw-csrf-" not in reply.text
    assert "sw-session-" not in reply.text


async def test_a_route_without_access_is_forbidden(tmp_path: Path) -> None:
    async def reached(_: HttpRequest) -> HttpResponse:
        return PlainTextResponse("reached")

    async with api_on("sqlite", tmp_path) as api:
        for gates in ({}, api_gates(api.context)):
            await api.serve(app_of(api.context, Route("/api/new", reached, methods=["GET", "POST"]), gates=gates))
            for method in ("GET", "POST"):
                reply = await api.ask(method, "/api/new", **api.operator)
                assert (reply.status_code, b"reached" in reply.content) == (403, False)
            status = (await api.ask("GET", "/api/keys", **api.operator)).status_code
            assert status == (200 if gates else 403), "a gate that is not there lets nobody in"


async def test_methods_and_paths_that_are_not_there(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        by_path: dict[str, set[str]] = {}
        for route in api.app.routes:
            if isinstance(route, OpenRoute) and route.path.startswith("/api/"):
                by_path.setdefault(route.path, set()).update(route.methods or ())
        for path, methods in by_path.items():
            for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} - methods:
                reply = await api.ask(method, path.replace("{id}", "x"), **api.operator)
                assert (reply.status_code, reply.headers["allow"]) == (405, ", ".join(sorted(methods))), path
                is_open = path in {each.partition(" ")[2] for each in ANYONE}
                nobody = await api.ask(method, path.replace("{id}", "x"))
                assert nobody.status_code == (405 if is_open else 401)
        for path in ("/api", "/api/", "/api/keys/", "/api/key", "/API/keys", "/api/keys/x/y", "/api//keys"):
            for role in ({}, api.operator):
                assert (await api.ask("GET", path, **role)).status_code == 404


@pytest.mark.parametrize("name", ["authorization", "cookie", "origin", "x-csrf-token"])
async def test_headers_may_be_any_text(tmp_path: Path, name: str) -> None:
    texts = ["' OR '1'='1", "Bearer ", "Bearer \xff\xfe", "Bearer x y z", "=", ";;;", "streamweir=", "a" * 20_000]
    texts += ["streamweir=\xff", "Bearer sw-admin-\xe9", "null", "http://", f"http://{HOST}@evil.example", "Basic YTpi"]
    async with api_on("sqlite", tmp_path) as api:
        session = await api.session()
        for text in texts:
            headers = {**session["headers"], name: text.encode("latin-1")}
            if name == "authorization":
                headers.pop("cookie")
            for method in ("GET", "POST"):
                path = "/api/keys" if method == "POST" else "/api/workspaces"
                reply = await api.ask(method, path, headers=headers)
                is_read = method == "GET" and name == "x-csrf-token"
                assert reply.status_code in ((200,) if is_read else (401, 403, 429)), text


async def test_a_secret_goes_before_a_cookie(tmp_path: Path) -> None:
    """So a page cannot lend its session to a request that brings a key of its own."""
    async with api_on("sqlite", tmp_path) as api:
        session = (await api.session())["headers"]
        both = {**session, **bearer(api.one.admin.secret)["headers"]}
        who = (await api.ask("GET", "/api/session", headers=both)).json()
        assert who["actor"] == f"key:{api.one.admin.key.id}"
        assert who["csrf"] is None
        wrong = {**session, **bearer(WRONG_KEY)["headers"]}
        assert (await api.ask("GET", "/api/keys", headers=wrong)).status_code == 401
        ended = await api.ask("DELETE", "/api/session", headers=both)
        assert ended.json() == {"ended": False}
        assert (await api.ask("GET", "/api/session", headers=session)).status_code == 200


@pytest.mark.parametrize("header", ["x-api-key", "api-key"])
async def test_a_key_may_come_in_the_other_headers_too(tmp_path: Path, header: str) -> None:
    async with api_on("sqlite", tmp_path) as api:
        reply = await api.ask("GET", "/api/keys", headers={header: api.one.admin.secret})
        assert reply.status_code == 200


async def test_bodies_are_json_and_nothing_else(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        for kind in (None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/json"):
            headers = {**api.operator["headers"], **({"content-type": kind} if kind is not None else {})}
            reply = await api.ask("POST", "/api/workspaces", headers=headers, raw=b'{"name":"x"}')
            assert (reply.status_code, reply.json()["error"]["code"]) == (415, "unsupported_media_type")
        before = await dump(api.storage.store)
        bad = [
            b"[]",
            b"nul",
            b'"x"',
            b"{",
            b'{"name":"a","name":"b"}',
            b'{"name":"\xff"}',
            b'{"name":"\\ud800"}',
            b'{"name":' + b"[" * 100 + b"]" * 100 + b"}",
            b'{"name":NaN}',
            b'{"name":"' + b"x" * (1 << 20) + b'"}',
            b"\xef\xbb\xbf{}",
            b"{}",
            b"",
        ]
        for raw in bad:
            headers = {**api.operator["headers"], "content-type": "application/json; charset=utf-8"}
            reply = await api.ask("POST", "/api/workspaces", headers=headers, raw=raw)
            assert reply.status_code in (400, 413), raw[:40]
        assert await dump(api.storage.store) == before


async def test_an_operation_without_a_body_takes_none(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        made = await make_call(api, named("revoke_key"))
        reply = await api.ask("POST", made.path, body={"why": "x"}, **api.operator)
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, "why")
        assert (await api.ask("POST", made.path, body={}, **api.operator)).status_code == 200


async def test_head_is_get_without_a_body(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        assert (await api.ask("HEAD", "/api/keys", **api.operator)).status_code == 200
        assert (await api.ask("HEAD", "/api/keys")).status_code == 401
