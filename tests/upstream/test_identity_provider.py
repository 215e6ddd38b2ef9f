"""An identity provider over real sockets: what it is asked, how often, and what it can do wrong."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from streamweir.upstream.oidc.documents import MAX_DOCUMENT_BYTES, ProviderFault
from streamweir.upstream.oidc.provider import (
    FRESH_S,
    REFRESH_S,
    RETRY_S,
    Challenge,
    IdentityProvider,
    ProviderAway,
    ProviderSettings,
    merged,
)
from support.deadlines import WAIT_TIMEOUT_S
from support.oidc_server import ADA, CLIENT, GATEWAY, SECRET, OidcServer, jwk, signed
from support.script import Hang, Head, Send, Step, whole
from support.scripted_upstream import ScriptedUpstream

CHALLENGE = Challenge(nonce="n" * 43, verifier="v" * 43, redirect_uri=f"{GATEWAY}/api/oidc/callback")
STATE = "s" * 43


class Setup:
    def __init__(self, server: OidcServer, up: ScriptedUpstream, **more: Any) -> None:
        self.server = server
        self.up = up
        self.now_s = 1000.0
        settings: dict[str, Any] = {
            "issuer": server.url,
            "client_id": CLIENT,
            "client_secret": SECRET,
            "scopes": ("openid", "email"),
            "wanted": ("name", "email"),
            "timeout_s": WAIT_TIMEOUT_S,
        }
        self.provider = IdentityProvider(ProviderSettings(**(settings | more)), clock=lambda: self.now_s)

    async def claims(self, **changes: str) -> dict[str, Any]:
        import time

        address = await self.provider.address(CHALLENGE, STATE)
        code = self.server.sign_in(address, **changes)["code"]
        return await self.provider.claims(code, CHALLENGE, time.time())

    def asked(self) -> dict[str, int]:
        paths = [urlsplit(request.path).path for request in self.up.requests]
        return {path: paths.count(path) for path in dict.fromkeys(paths)}


@asynccontextmanager
async def running(settings: dict[str, Any] | None = None, **knowledge: Any) -> AsyncIterator[Setup]:
    server = OidcServer(**knowledge)
    async with ScriptedUpstream(server.script) as up:
        server.port = up.port
        yield Setup(server, up, **(settings or {}))


async def test_a_sign_in_asks_for_what_is_needed_and_keeps_the_documents() -> None:
    async with running() as setup:
        for number in (1, 2):
            claims = await setup.claims()
            assert {name: claims[name] for name in ADA} == ADA
            assert setup.asked() == {"/.well-known/openid-configuration": 1, "/token": number, "/keys": 1}
        setup.now_s += FRESH_S
        await setup.claims()
        assert setup.asked() == {"/.well-known/openid-configuration": 2, "/token": 3, "/keys": 2}
        address = await setup.provider.address(CHALLENGE, STATE)
        query = dict(parse_qsl(urlsplit(address).query))
        assert (query["tenant"], query["state"], query["scope"]) == ("1", STATE, "openid email")
        shown = repr(setup.provider.settings) + repr(CHALLENGE)
        assert SECRET not in shown
        assert CHALLENGE.verifier not in address + shown


@pytest.mark.parametrize(
    ("methods", "in_header"),
    [(None, True), (["client_secret_basic", "client_secret_post"], True), (["client_secret_post"], False)],
)
async def test_the_secret_goes_where_the_provider_takes_it(methods: list[str] | None, in_header: bool) -> None:
    async with running(metadata={"token_endpoint_auth_methods_supported": methods}) as setup:
        await setup.claims()
        (request,) = [each for each in setup.up.requests if each.path == "/token"]
        assert ("authorization" in request.headers) == in_header
        assert (b"client_secret" in request.body) != in_header


async def test_a_client_without_a_secret_has_pkce_alone() -> None:
    async with running({"client_secret": None}, secret=None) as setup:
        assert (await setup.claims())["sub"] == "ada-1"


async def test_what_the_id_token_lacks_is_read_from_the_user_info() -> None:
    person, more = {"sub": "ada-1"}, {"sub": "ada-1", "name": "Ada", "email": "a@b.example", "email_verified": True}
    async with running(person=person, more=more) as setup:
        claims = await setup.claims()
        assert (claims["name"], claims["email"], claims["email_verified"]) == ("Ada", "a@b.example", True)
        setup.server.more = more | {"sub": "eve-1"}
        with pytest.raises(ProviderFault, match="about somebody else"):
            await setup.claims()
        setup.server.metadata = {"userinfo_endpoint": None}
        setup.now_s += FRESH_S
        assert "name" not in await setup.claims()


def test_an_address_and_its_verification_are_of_one_document() -> None:
    own, other = {"email": "own@b.example"}, {"email": "other@b.example", "email_verified": True}
    assert merged({"sub": "1", **own}, other) == {"sub": "1", **other}
    assert merged({**own, "email_verified": False}, other) == {**own, "email_verified": False}
    assert merged({"email_verified": True}, {"email": "other@b.example"}) == {"email_verified": True}
    assert merged({"email": "own@a.example"}, {"email_verified": True}) == {"email": "own@a.example"}
    assert merged({"sub": "1", "name": "own"}, {"sub": "2", "name": "other"}) == {"sub": "1", "name": "own"}


async def test_an_unknown_key_reads_the_keys_again_but_not_often() -> None:
    async with running() as setup:
        await setup.claims()
        setup.server.keys, setup.server.tokens = [jwk(2)], lambda claims: signed(claims, 2)
        for _ in range(3):
            with pytest.raises(ProviderFault, match="does not publish the key"):
                await setup.claims()
        assert setup.asked()["/keys"] == 1, "they were read a moment ago"
        setup.now_s += REFRESH_S
        assert (await setup.claims())["sub"] == "ada-1"
        assert setup.asked()["/keys"] == 2
        setup.server.tokens = lambda claims: signed(claims, 3)
        setup.now_s += REFRESH_S
        for _ in range(3):
            with pytest.raises(ProviderFault, match="does not publish the key"):
                await setup.claims()
        assert setup.asked()["/keys"] == 3


async def test_a_key_without_a_name_may_be_replaced() -> None:
    def nameless(number: int) -> None:
        setup.server.keys = [jwk(number, kid=None)]
        setup.server.tokens = lambda claims: signed(claims, number, header={"kid": None})

    async with running() as setup:
        nameless(1)
        await setup.claims()
        nameless(2)
        with pytest.raises(ProviderFault, match="signature of the ID token is not valid"):
            await setup.claims()
        setup.now_s += REFRESH_S
        assert (await setup.claims())["sub"] == "ada-1"
        assert setup.asked()["/keys"] == 2


GARBAGE: dict[str, Sequence[Step]] = {
    "text": whole(b"canary"),
    "list": whole(b"[]"),
    "twice": whole(b'{"issuer": 1, "issuer": 2}'),
    "deep": whole(b'{"a":' * 1000 + b"1" + b"}" * 1000),
    "latin": whole(b'{"a": "\xff"}'),
    "empty": whole(b""),
    "error": whole(b'{"canary": 1}', status=500),
    "gone": whole(b"{}", status=404),
    "huge": whole(b'{"a": "' + b"x" * MAX_DOCUMENT_BYTES + b'"}'),
    "redirect": whole(b"{}", status=302, headers=[("location", "http://127.0.0.1:1/canary")]),
    "created": whole(b"{}", status=201),
}
PATHS = ("/.well-known/openid-configuration", "/keys", "/token", "/userinfo")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", GARBAGE)
async def test_garbage_is_a_failure_without_its_text(path: str, kind: str) -> None:
    async with running({"wanted": ("nickname",)}, instead={path: GARBAGE[kind]}) as setup:
        with pytest.raises(ProviderFault) as caught:
            await setup.claims()
        assert "canary" not in str(caught.value)
        assert not any(secret in str(caught.value) for secret in (SECRET, *setup.server.issued))


@pytest.mark.parametrize("path", PATHS)
async def test_a_provider_that_hangs_is_left_in_time(path: str) -> None:
    async with running({"wanted": ("nickname",), "timeout_s": 0.3}, instead={path: [Hang()]}) as setup:
        with pytest.raises(ProviderAway, match="cannot be reached"):
            await setup.claims()


async def test_one_that_sends_slowly_is_left_in_time() -> None:
    steps = [Head(200, "application/json", framing=100), Send(b"{"), Hang()]
    async with running({"timeout_s": 0.3}, instead={PATHS[0]: steps}) as setup:
        with pytest.raises(ProviderAway):
            await setup.provider.metadata()


async def test_a_failure_is_not_repeated_by_everyone_who_waits() -> None:
    async with running(instead={PATHS[0]: whole(b"", status=503)}) as setup:
        found = await asyncio.gather(*(setup.provider.metadata() for _ in range(20)), return_exceptions=True)
        assert all(isinstance(each, ProviderFault) for each in found)
        assert len({id(each) for each in found}) == 20
        assert len(setup.up.requests) == 1
        setup.server.instead.clear()
        with pytest.raises(ProviderFault):
            await setup.provider.metadata()
        setup.now_s += RETRY_S
        await asyncio.gather(*(setup.provider.metadata() for _ in range(20)))
        assert len(setup.up.requests) == 2


async def test_who_leaves_while_the_documents_are_read_leaves_them_to_the_next() -> None:
    async with running(instead={PATHS[0]: [Hang()]}) as setup:
        first = asyncio.create_task(setup.provider.metadata())
        await setup.up.until(lambda: len(setup.up.requests) == 1)
        setup.server.instead.clear()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert (await setup.provider.metadata()).token_endpoint == f"{setup.server.url}/token"


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"issuer": "https://other.example"}, "another issuer"),
        ({"issuer": None}, "another issuer"),
        ({"jwks_uri": None}, "no usable jwks_uri"),
        ({"token_endpoint": 5}, "no usable token_endpoint"),
        ({"token_endpoint": "https://"}, "no usable token_endpoint"),
        ({"token_endpoint": "https://user:canary@idp.example/"}, "no usable token_endpoint"),
        ({"token_endpoint": "https://idp.example/a b"}, "no usable token_endpoint"),
        ({"token_endpoint": "https://idp.example:99999/"}, "no usable token_endpoint"),
        ({"token_endpoint": "https://idp.example/" + "x" * 2048}, "no usable token_endpoint"),
        ({"authorization_endpoint": "https://idp.example/#canary"}, "no usable authorization_endpoint"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "authorization_endpoint"),
        ({"userinfo_endpoint": "file:///etc/passwd"}, "userinfo_endpoint"),
    ],
)
async def test_a_discovery_document_that_cannot_be_used(metadata: dict[str, Any], reason: str) -> None:
    async with running(metadata=metadata) as setup:
        with pytest.raises(ProviderFault, match=reason) as caught:
            await setup.provider.metadata()
        assert "canary" not in str(caught.value)


async def test_what_the_token_endpoint_refuses_says_what_to_check() -> None:
    async with running({"client_secret": "wrong"}) as setup:
        with pytest.raises(ProviderFault, match=r"\(invalid_client\): check oidc.client_id, oidc.client_secret"):
            await setup.claims()
    async with running() as setup:
        await setup.claims()
        with pytest.raises(ProviderFault, match=r"\(invalid_grant\)"):
            await setup.provider.claims(setup.server.issued[0], CHALLENGE, 0)


async def test_a_token_without_an_id_token_or_with_a_strange_access_token() -> None:
    async with running() as setup:
        setup.server.instead["/token"] = whole(b'{"access_token": "x", "token_type": "Bearer"}')
        with pytest.raises(ProviderFault, match="no ID token"):
            await setup.claims()
