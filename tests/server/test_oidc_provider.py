"""Signing in at a real identity provider, which runs beside the test as a process of its own."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest

from streamweir.server.control.identity_failure import SignInFailure
from streamweir.server.control.identity_return import return_routes
from support.api import TOML, Api, api_on, app_of
from support.api_session import page
from support.deadlines import WAIT_TIMEOUT_S
from support.oidc_provider import identity_provider
from support.oidc_server import GATEWAY, OidcServer
from support.sign_ins import SignIns, failure_in, session_in

ROLES = """
[[oidc.roles]]
group = "platform"
role = "viewer"
"""


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    with identity_provider() as url:
        yield url


def config(provider: str, more: str = "") -> str:
    told = f'issuer = "{provider}"\nclient_id = "streamweir"\nclient_secret = "any will do"\nurl = "{GATEWAY}"'
    return f"{TOML}\n[oidc]\n{told}\n{more}"


async def answer_of(address: str, **form: str) -> dict[str, str]:
    """What the provider sends the browser back with, after its form was sent."""
    async with httpx2.AsyncClient(timeout=WAIT_TIMEOUT_S) as browser:
        assert (await browser.get(address)).status_code == 200
        reply = await browser.post(address, data=form)
    assert reply.status_code == 302
    where = urlsplit(reply.headers["location"])
    assert f"{where.scheme}://{where.netloc}{where.path}" == f"{GATEWAY}/api/oidc/callback"
    return dict(parse_qsl(where.query))


async def signing_in(api: Api) -> SignIns:
    await api.serve(app_of(api.context, *return_routes(api.context)))
    return SignIns(api, OidcServer())


async def test_an_invited_person_signs_in(provider: str, tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path, config(provider)) as api:
        sign_ins = await signing_in(api)
        await sign_ins.invite("operator")
        for _ in range(2):
            cookie, address = await sign_ins.begin()
            sent = await answer_of(address, sub="ada-1")
            token = session_in(await sign_ins.come_back(cookie, sent))
            assert token is not None
            shown = (await api.ask("GET", "/api/session", **page(token))).json()
            assert (shown["actor"], shown["role"]) == ("person:Ada", "operator")
            assert failure_in(await sign_ins.come_back(cookie, sent)) is SignInFailure.EXPIRED
        cookie, address = await sign_ins.begin()
        reply = await sign_ins.come_back(cookie, await answer_of(address, sub="eve-1"))
        assert failure_in(reply) is SignInFailure.UNINVITED, "the address is not verified"


async def test_a_group_has_a_role(provider: str, tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path, config(provider, ROLES)) as api:
        sign_ins = await signing_in(api)
        cookie, address = await sign_ins.begin()
        token = session_in(await sign_ins.come_back(cookie, await answer_of(address, sub="ada-1")))
        assert token is not None
        shown = (await api.ask("GET", "/api/session", **page(token))).json()
        assert (shown["actor"], shown["role"]) == ("person:Ada", "viewer")


async def test_a_code_of_another_sign_in_opens_nothing(provider: str, tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path, config(provider)) as api:
        sign_ins = await signing_in(api)
        await sign_ins.invite("operator")
        _, first = await sign_ins.begin()
        cookie, second = await sign_ins.begin()
        stolen, own = await answer_of(first, sub="ada-1"), await answer_of(second, sub="eve-1")
        reply = await sign_ins.come_back(cookie, own | {"code": stolen["code"]})
        assert failure_in(reply) is SignInFailure.UNTRUSTED, "its nonce is that of the other sign-in"


async def test_who_denies_does_not_come_in(provider: str, tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path, config(provider)) as api:
        sign_ins = await signing_in(api)
        cookie, address = await sign_ins.begin()
        sent = await answer_of(address, action="deny")
        assert sent["error"] == "access_denied"
        state = dict(parse_qsl(urlsplit(address).query))["state"]
        reply = await sign_ins.come_back(cookie, sent | {"state": state})  # this provider leaves it out
        assert failure_in(reply) is SignInFailure.DENIED
