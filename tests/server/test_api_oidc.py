"""Signing in at an identity provider, over the API: what it opens, who is refused, and how it is attacked."""

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from msgspec import structs

from streamweir.policy.login_limit import PER_ADDRESS
from streamweir.policy.secret import csrf_of
from streamweir.server.control import identity
from streamweir.server.control.api.people.oidc import COOKIE, SECURE_COOKIE
from streamweir.server.control.identity import Identity
from streamweir.server.control.identity_failure import SENTENCES, SignInFailure
from streamweir.server.control.identity_return import return_routes
from streamweir.server.telemetry.log import close_log, configure_log
from streamweir.store.keys.people import list_people
from streamweir.store.keys.sign_ins import LIFETIME_MS
from support.api import api_on, app_of
from support.api_session import ORIGIN, page
from support.key_store import dump
from support.oidc_server import ADA, SECRET, returned, signed
from support.script import whole
from support.sign_ins import failure_in, session_in, signing_in

GROUPS = """
[[oidc.roles]]
group = "platform"
role = "operator"

[[oidc.roles]]
group = "research"
role = "member"
workspace = "one"

[[oidc.roles]]
group = "lost"
role = "member"
workspace = "nowhere"
"""


@pytest.fixture
def log() -> Iterator[StringIO]:
    written = StringIO()
    configure_log("json", written)
    yield written
    close_log()


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
async def test_an_invited_person_from_the_button_to_the_session(database: str, tmp_path: Path) -> None:
    async with signing_in(tmp_path, database=database) as sign_ins:
        api = sign_ins.api
        await sign_ins.invite()
        options = await api.ask("GET", "/api/login")
        assert options.json() == {"oidc": "Acme", "failure": None}
        token = await sign_ins.opened()
        shown = (await api.ask("GET", "/api/session", **page(token))).json()
        assert (shown["actor"], shown["role"], shown["csrf"]) == ("person:Ada", "operator", csrf_of(token))
        rows = (await api.ask("GET", "/api/audit", params={"limit": 2}, **api.operator)).json()["data"]
        assert [(row["actor"], row["action"]) for row in rows] == [
            ("person:Ada", "session.create"),
            ("person:Ada", "person.link"),
        ]
        assert rows[0]["detail"] == {"way": "oidc"}
        stored = repr(await dump(api.storage.store))
        assert not [secret for secret in (*sign_ins.server.issued, SECRET, token) if secret in stored]
        (family,) = api.context.logins.families()
        counted = {(each.labels["way"], each.labels["outcome"]): each.value for each in family.samples if each.value}
        assert counted == {("oidc", "opened"): 1}


async def test_it_begins_at_one_node_and_ends_at_another(tmp_path: Path) -> None:
    async with signing_in(tmp_path) as sign_ins:
        await sign_ins.invite()
        cookie, address = await sign_ins.begin()
        other = structs.replace(sign_ins.api.context, identity=Identity())
        await sign_ins.api.serve(app_of(other, *return_routes(other)))
        assert session_in(await sign_ins.come_back(cookie, sign_ins.server.sign_in(address))) is not None


async def test_groups_say_the_role(tmp_path: Path) -> None:
    person = {"sub": "eve-1", "name": "Eve", "groups": ["x", "research", 5, None]}
    async with signing_in(tmp_path, GROUPS, person=person) as sign_ins:
        first = await sign_ins.opened()
        shown = (await sign_ins.api.ask("GET", "/api/session", **page(first))).json()
        assert (shown["role"], shown["workspace"]) == ("member", sign_ins.api.one.workspace.id)
        sign_ins.server.person["groups"] = ["research", "platform"]
        await sign_ins.opened()
        assert (await sign_ins.api.ask("GET", "/api/session", **page(first))).json()["role"] == "operator"
        for groups, failure in (
            (["x"], SignInFailure.NO_ROLE),
            ("platform ", SignInFailure.NO_ROLE),
            ({"platform": 1}, SignInFailure.NO_ROLE),
            (["lost"], SignInFailure.WORKSPACE),
        ):
            sign_ins.server.person["groups"] = groups
            assert failure_in(await sign_ins.whole()) is failure
        assert (await sign_ins.api.ask("GET", "/api/session", **page(first))).status_code == 401
        sign_ins.server.person["groups"] = "platform"
        assert session_in(await sign_ins.whole()) is not None
        (person_,) = await sign_ins.api.storage.store.read(list_people)
        refused = await sign_ins.api.ask(
            "PATCH", f"/api/people/{person_.id}", body={"role": "owner"}, **sign_ins.api.operator
        )
        assert refused.status_code == 409


@pytest.mark.parametrize(
    ("changes", "failure"),
    [
        ({"email_verified": False}, SignInFailure.UNINVITED),
        ({"email_verified": None}, SignInFailure.UNINVITED),
        ({"email_verified": 1}, SignInFailure.UNINVITED),
        ({"email_verified": "yes"}, SignInFailure.UNINVITED),
        ({"email": "eve@example.com"}, SignInFailure.UNINVITED),
        ({"email": "\N{KELVIN SIGN}im@example.com"}, SignInFailure.UNINVITED),
        ({"email": ["ada@example.com"]}, SignInFailure.UNINVITED),
        ({"email": None}, SignInFailure.UNINVITED),
        ({"email_verified": "true"}, None),
        ({"email": "ADA@EXAMPLE.COM"}, None),
    ],
)
async def test_an_address_counts_only_if_it_is_verified(
    changes: dict[str, Any], failure: SignInFailure | None, tmp_path: Path
) -> None:
    async with signing_in(tmp_path, claims=changes) as sign_ins:
        await sign_ins.invite()
        await sign_ins.invite("owner", None, "Kim")
        reply = await sign_ins.whole()
        assert session_in(reply) is not None if failure is None else failure_in(reply) is failure


@pytest.mark.parametrize(
    ("changes", "failure"),
    [
        ({}, None),
        ({"email": "ada@sub.example.com"}, SignInFailure.DOMAIN),
        ({"email": "ada@example.com.evil.example"}, SignInFailure.DOMAIN),
        ({"email": "ada@evil.example@example.com"}, SignInFailure.UNVERIFIED),
        ({"email_verified": False}, SignInFailure.UNVERIFIED),
    ],
)
async def test_domains_restrict_groups_too(changes: dict[str, Any], failure: Any, tmp_path: Path) -> None:
    claims = {"groups": ["platform"], **changes}
    async with signing_in(
        tmp_path, GROUPS.replace("\n[[", 'domains = ["example.com"]\n[[', 1), claims=claims
    ) as sign_ins:
        reply = await sign_ins.whole()
        assert session_in(reply) is not None if failure is None else failure_in(reply) is failure


async def test_a_disabled_person_is_refused(tmp_path: Path) -> None:
    async with signing_in(tmp_path) as sign_ins:
        await sign_ins.invite()
        token = await sign_ins.opened()
        (person,) = await sign_ins.api.storage.store.read(list_people)
        await sign_ins.api.ask("PATCH", f"/api/people/{person.id}", body={"disabled": True}, **sign_ins.api.operator)
        assert failure_in(await sign_ins.whole()) is SignInFailure.DISABLED
        assert (await sign_ins.api.ask("GET", "/api/session", **page(token))).status_code == 401


async def test_state_and_code_are_good_once_in_one_browser_in_time(tmp_path: Path) -> None:
    async with signing_in(tmp_path) as sign_ins:
        await sign_ins.invite()
        cookie, address = await sign_ins.begin()
        sent = sign_ins.server.sign_in(address)
        others, _ = await sign_ins.begin(peer="192.0.2.99")
        asked = len(sign_ins.server.codes)
        for wrong, parameters in (
            (None, sent),
            ("", sent),
            ("x" * 43, sent),
            (others, sent),  # a victim's browser, with the attacker's answer
            (cookie, sent | {"state": "x" * 43}),
            (cookie, sent | {"state": ""}),
            (cookie, {"code": sent["code"]}),
        ):
            assert failure_in(await sign_ins.come_back(wrong, parameters)) is SignInFailure.EXPIRED
        assert len(sign_ins.server.codes) == asked, "no code was used"
        reply = await sign_ins.api.ask(
            "GET", returned(sent) + f"&state={sent['state']}", headers={"cookie": f"{COOKIE}={cookie}"}
        )
        assert failure_in(reply) is SignInFailure.EXPIRED, "a parameter that comes twice"
        assert session_in(await sign_ins.come_back(cookie, sent)) is not None
        assert failure_in(await sign_ins.come_back(cookie, sent)) is SignInFailure.EXPIRED
        cookie, address = await sign_ins.begin()
        sign_ins.api.clock.at_ms += LIFETIME_MS
        assert failure_in(await sign_ins.come_back(cookie, sign_ins.server.sign_in(address))) is SignInFailure.EXPIRED


@pytest.mark.parametrize(
    ("sent", "failure"),
    [
        ({"error": "access_denied", "error_description": "<script>canary</script>"}, SignInFailure.DENIED),
        ({"error": "server_error"}, SignInFailure.PROVIDER),
        ({"error": "<b>canary</b>"}, SignInFailure.PROVIDER),
        ({"code": ""}, SignInFailure.UNTRUSTED),
        ({"code": "canary\r\nx"}, SignInFailure.UNTRUSTED),
        ({"code": "c" * 5000}, SignInFailure.UNTRUSTED),
        ({"code": "canary-of-another"}, SignInFailure.UNTRUSTED),
        ({"iss": "https://evil.example/canary"}, SignInFailure.UNTRUSTED),
    ],
)
async def test_what_the_provider_refuses_is_told_in_words_of_the_gateway(
    sent: dict[str, str], failure: SignInFailure, tmp_path: Path, log: StringIO
) -> None:
    async with signing_in(tmp_path) as sign_ins:
        await sign_ins.invite()
        reply = await sign_ins.whole(**sent)
        assert failure_in(reply) is failure
        assert "canary" not in repr(reply.headers) + reply.text
        told = (await sign_ins.api.ask("GET", "/api/login", params={"failure": failure.value})).json()
        assert told == {"oidc": "Acme", "failure": SENTENCES[failure]}
        close_log()
    written = log.getvalue()
    assert "sign-in refused" in written
    assert "canary" not in written


async def test_every_failure_has_a_sentence_and_others_have_none(tmp_path: Path) -> None:
    assert SENTENCES.keys() == set(SignInFailure)
    async with signing_in(tmp_path) as sign_ins:
        for unknown in ("", "<script>", "EXPIRED", "x" * 64):
            reply = await sign_ins.api.ask("GET", "/api/login", params={"failure": unknown})
            assert reply.json() == {"oidc": "Acme", "failure": None}
        reply = await sign_ins.api.ask("GET", "/api/login", params={"failure": "x" * 65})
        assert reply.status_code == 400


@pytest.mark.parametrize(
    "claims", [{"nonce": "of another"}, {"aud": "other"}, {"iss": "https://evil.example"}, {"exp": 1}]
)
async def test_a_token_that_is_not_valid_opens_nothing(claims: dict[str, Any], tmp_path: Path, log: StringIO) -> None:
    async with signing_in(tmp_path, claims=claims) as sign_ins:
        await sign_ins.invite()
        assert failure_in(await sign_ins.whole()) is SignInFailure.UNTRUSTED
        close_log()
        written = log.getvalue()
        assert "the ID token is not valid here" in written
        assert not [secret for secret in (*sign_ins.server.issued, SECRET) if secret in written]


async def test_a_token_of_another_key_opens_nothing(tmp_path: Path) -> None:
    wrong = signed
    async with signing_in(tmp_path, tokens=lambda claims: wrong(claims, 2, header={"kid": "RSA-1"})) as sign_ins:
        await sign_ins.invite()
        assert failure_in(await sign_ins.whole()) is SignInFailure.UNTRUSTED


async def test_an_answer_says_its_issuer_if_the_provider_has_promised_it(tmp_path: Path) -> None:
    metadata = {"authorization_response_iss_parameter_supported": True}
    async with signing_in(tmp_path, metadata=metadata) as sign_ins:
        await sign_ins.invite()
        assert failure_in(await sign_ins.whole()) is SignInFailure.UNTRUSTED
        assert session_in(await sign_ins.whole(iss=sign_ins.server.url)) is not None


async def test_a_provider_that_is_away_is_told_on_the_page(tmp_path: Path) -> None:
    gone = whole(b"", status=503)
    async with signing_in(tmp_path, instead={"/.well-known/openid-configuration": gone}) as sign_ins:
        reply = await sign_ins.api.ask("POST", "/api/oidc", headers={"origin": ORIGIN})
        assert (reply.status_code, reply.json()["error"]["message"]) == (502, SENTENCES[SignInFailure.AWAY])
        assert "set-cookie" not in reply.headers


async def test_who_may_begin_and_how_often(tmp_path: Path) -> None:
    async with signing_in(tmp_path) as sign_ins:
        await sign_ins.invite()
        refused = await sign_ins.api.ask("POST", "/api/oidc", headers={"origin": "https://evil.example"})
        assert refused.status_code == 403
        for _ in range(PER_ADDRESS + 5):
            await sign_ins.opened()  # who comes in is not counted
        for _ in range(PER_ADDRESS):
            await sign_ins.begin()
        reply = await sign_ins.api.ask("POST", "/api/oidc")
        assert (reply.status_code, "set-cookie" in reply.headers) == (429, False)
        assert int(reply.headers["retry-after"]) > 0
        await sign_ins.begin(peer="192.0.2.88")


async def test_too_many_answers_at_once_are_put_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "MAX_EXCHANGES", 0)
    async with signing_in(tmp_path) as sign_ins:
        await sign_ins.invite()
        assert failure_in(await sign_ins.whole()) is SignInFailure.BUSY


async def test_nothing_of_a_request_is_in_a_redirect(tmp_path: Path) -> None:
    async with signing_in(tmp_path) as sign_ins:
        evil = {"redirect_uri": "https://evil.example", "next": "//evil.example", "state": "//evil.example"}
        headers = {"host": "evil.example", "x-forwarded-host": "evil.example"}
        reply = await sign_ins.api.ask("GET", returned(evil), headers=headers)
        assert reply.headers["location"] == "/console#sign-in=expired"
        _, address = await sign_ins.begin(headers=headers)
        assert dict(parse_qsl(urlsplit(address).query))["redirect_uri"] == "http://localhost/api/oidc/callback"
        assert address.startswith(f"{sign_ins.server.url}/authorize?")


async def test_with_https_the_cookie_is_bound_to_the_host(tmp_path: Path) -> None:
    async with signing_in(tmp_path) as sign_ins:
        config = sign_ins.api.context.runtime().config
        assert config.oidc is not None
        secure = structs.replace(config, oidc=structs.replace(config.oidc, url="https://gateway.example"))
        runtime = structs.replace(sign_ins.api.context.runtime(), config=secure)
        await sign_ins.api.use(structs.replace(sign_ins.api.context, runtime=lambda: runtime))
        reply = await sign_ins.api.ask("POST", "/api/oidc")
        cookie = reply.headers["set-cookie"]
        assert cookie.startswith(f"{SECURE_COOKIE}=")
        assert cookie.endswith("; Path=/; HttpOnly; SameSite=Lax; Secure; Max-Age=600")


async def test_without_a_provider_there_is_nothing_to_begin(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        await api.serve(app_of(api.context, *return_routes(api.context)))
        assert (await api.ask("GET", "/api/login")).json() == {"oidc": None, "failure": None}
        assert (await api.ask("POST", "/api/oidc")).status_code == 404
        assert (await api.ask("GET", returned({"code": "x", "state": "y"}))).status_code == 404


def test_the_provider_is_made_anew_for_other_settings() -> None:
    from streamweir.config.oidc import Oidc

    found, oidc = Identity(), Oidc(issuer="https://a.example", client_id="c", url="https://b.example")
    first = found.provider(oidc)
    assert found.provider(structs.replace(oidc)) is first
    assert found.provider(structs.replace(oidc, client_id="d")) is not first
    assert ADA["sub"] not in repr(first.settings)
