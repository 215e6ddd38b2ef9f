"""A sign-in at an identity provider as a browser makes it: with the API of a test, and the scripted provider."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from streamweir.server.control.api.people.oidc import COOKIE
from streamweir.server.control.identity_failure import SignInFailure
from streamweir.server.control.identity_return import return_routes
from streamweir.server.http.security_headers import SECURITY_HEADERS
from streamweir.store.keys.people import PersonSpec, create_person
from support.api import TOML, Api, api_on, app_of
from support.api_session import ORIGIN
from support.oidc_server import GATEWAY, OidcServer, returned, toml
from support.scripted_upstream import ScriptedUpstream

SIGN_IN = re.compile(rf"{COOKIE}=(?P<value>[\w-]{{43}}); Path=/; HttpOnly; SameSite=Lax; Max-Age=600")
SESSION = re.compile(r"streamweir=(?P<value>sw-session-\w+); Path=/; HttpOnly; SameSite=Strict")


class SignIns:
    """A browser, the gateway and the provider."""

    def __init__(self, api: Api, server: OidcServer) -> None:
        self.api = api
        self.server = server

    async def begin(self, **more: Any) -> tuple[str, str]:
        """The cookie, and the address that the page goes to."""
        reply = await self.api.ask("POST", "/api/oidc", **({"headers": {"origin": ORIGIN}} | more))
        assert reply.status_code == 200, reply.text
        found = SIGN_IN.fullmatch(reply.headers["set-cookie"])
        assert found is not None
        return found["value"], reply.json()["url"]

    async def come_back(self, cookie: str | None, sent: dict[str, str], **more: Any) -> httpx2.Response:
        headers = {"cookie": f"other=1; {COOKIE}={cookie}"} if cookie is not None else {}
        reply = await self.api.ask("GET", returned(sent), headers=headers, **more)
        assert reply.status_code == 303
        for name, value in SECURITY_HEADERS:
            assert reply.headers[name] == value
        assert f"{COOKIE}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0" in reply.headers.get_list("set-cookie")
        return reply

    async def whole(self, **changes: str) -> httpx2.Response:
        cookie, address = await self.begin()
        return await self.come_back(cookie, self.server.sign_in(address, **changes))

    async def opened(self) -> str:
        """The session's token."""
        token = session_in(await self.whole())
        assert token is not None
        return token

    async def invite(self, role: Any = "operator", email: str | None = "ada@example.com", name: str = "Ada") -> None:
        spec = PersonSpec(name=name, role=role, email=email)
        await self.api.storage.store.write(
            lambda conn: create_person(conn, spec, actor="cli", at_ms=self.api.clock.at_ms)
        )


def session_in(reply: httpx2.Response) -> str | None:
    """None: it has opened none, and the browser is told why."""
    found = [match for each in reply.headers.get_list("set-cookie") if (match := SESSION.fullmatch(each))]
    if not found:
        assert reply.headers["location"].startswith("/console#sign-in=")
        return None
    assert reply.headers["location"] == "/console"
    return found[0]["value"]


def failure_in(reply: httpx2.Response) -> SignInFailure:
    assert session_in(reply) is None
    return SignInFailure(reply.headers["location"].removeprefix("/console#sign-in="))


@asynccontextmanager
async def signing_in(
    folder: Path, more: str = "", database: str = "sqlite", **knowledge: Any
) -> AsyncIterator[SignIns]:
    server = OidcServer(**knowledge)
    settings = {"url": GATEWAY, "name": "Acme"}
    async with ScriptedUpstream(server.script) as up:
        server.port = up.port
        text = f"{TOML}\n{toml(server, **settings)}\n{more}"
        async with api_on(database, folder, text) as api:
            await api.serve(app_of(api.context, *return_routes(api.context)))
            yield SignIns(api, server)
