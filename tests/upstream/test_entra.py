"""Tokens of Microsoft Entra ID and of managed identities, from a server that checks what it is sent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import PrivateFormat

from streamweir.core.errors import StreamweirError
from streamweir.providers.base import UpstreamRequest
from streamweir.upstream.authorized import BearerAuthorizer
from streamweir.upstream.cloud.entra import EntraSettings, authorizer_of
from streamweir.upstream.cloud.managed_identity import ManagedIdentity
from streamweir.upstream.credential import RefreshFailure
from support.entra_server import (
    ARC_KEY,
    CLIENT,
    FEDERATED,
    IDENTITY_HEADER,
    SECRET,
    TENANT,
    Entra,
    certificate_pem,
    key_pem,
)
from support.gateway import nothing_left
from support.script import Hang, whole
from support.scripted_upstream import ScriptedUpstream, closed_port
from support.upstream_server import turns

REQUEST = UpstreamRequest(path="/", headers=(), body=b"")
VARIABLES = (
    "AZURE_TENANT_ID",
    "AZURE_CLIENT_ID",
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_AUTHORITY_HOST",
    "IDENTITY_ENDPOINT",
    "IDENTITY_HEADER",
    "IMDS_ENDPOINT",
)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


class Setup:
    def __init__(self, entra: Entra, up: ScriptedUpstream) -> None:
        self.entra = entra
        self.up = up
        self.now = 1000.0
        self.failures: list[RefreshFailure] = []

    def authorizer(self, **settings: Any) -> BearerAuthorizer:
        own = {"tenant_id": TENANT, "client_id": CLIENT, "authority_url": self.entra.url, **settings}
        return authorizer_of(EntraSettings(**own), on_failure=self.failures.append, clock=lambda: self.now)

    async def error(self, authorizer: BearerAuthorizer) -> StreamweirError:
        with pytest.raises(StreamweirError) as raised:
            await authorizer.headers_for(REQUEST)
        report = raised.value.report
        assert "canary" not in f"{raised.value.message} {report.message() if report is not None else ''}"
        return raised.value


@asynccontextmanager
async def running(**knowledge: Any) -> AsyncIterator[Setup]:
    entra = Entra(**knowledge)
    async with nothing_left(), ScriptedUpstream(entra.script) as up:
        entra.port = up.port
        yield Setup(entra, up)


async def token(authorizer: BearerAuthorizer) -> str:
    ((name, value),) = await authorizer.headers_for(REQUEST)
    assert name == "authorization"
    return value


async def test_a_secret_and_one_refresh_for_many() -> None:
    async with running() as setup:
        authorizer = setup.authorizer(client_secret=SECRET)
        assert setup.up.requests == [], "nothing is fetched before somebody asks"
        found = await asyncio.gather(*(token(authorizer) for _ in range(20)))
        assert set(found) == {"Bearer canary.token.1"}
        setup.now += 3000  # 80 % of an hour: the old one is used, and the next one is fetched
        assert await token(authorizer) == "Bearer canary.token.1"
        await setup.up.played(2)
        await turns()
        assert await token(authorizer) == "Bearer canary.token.2"
        setup.now += 40
        assert await authorizer.refused(), "the provider may have revoked it"
        assert await token(authorizer) == "Bearer canary.token.3"
        await authorizer.close()
        assert "canary" not in repr(EntraSettings(client_secret=SECRET))


async def test_a_service_that_hangs_stops_nobody_who_has_a_token() -> None:
    async with running() as setup:
        authorizer = setup.authorizer(client_secret=SECRET)
        await token(authorizer)
        setup.entra.steps = lambda _: [Hang()]
        setup.now += 3000
        assert [await token(authorizer) for _ in range(5)] == ["Bearer canary.token.1"] * 5
        await setup.up.seen(2)
        assert await token(authorizer) == "Bearer canary.token.1"
        await authorizer.close()
        await setup.up.aborted(1)


@pytest.mark.parametrize("is_one_file", [True, False])
async def test_a_certificate_that_is_rotated(tmp_path: Path, is_one_file: bool) -> None:
    both, key = tmp_path / "both.pem", tmp_path / "key.pem"
    files = {"certificate_file": str(both)} | ({} if is_one_file else {"certificate_key_file": str(key)})

    def write(number: int) -> None:
        pem = key_pem(number, PrivateFormat.PKCS8 if number == 1 else PrivateFormat.TraditionalOpenSSL)
        key.write_text(pem)
        both.write_text(f"Bag Attributes\n{pem if is_one_file else ''}{certificate_pem(number)}{certificate_pem(3)}")

    write(1)
    async with running(known=(1, 2)) as setup:
        authorizer = setup.authorizer(source="certificate", **files)
        assert await token(authorizer) == "Bearer canary.token.1"
        write(2)
        setup.now += 4000
        assert await token(authorizer) == "Bearer canary.token.2"
        setup.entra.known = (1,)
        setup.now += 4000
        error = await setup.error(authorizer)
        assert error.code == "upstream_auth_failed"
        assert error.message.endswith(
            "The application does not know the certificate: upload it to the application. (AADSTS700027)"
        )
        both.unlink()
        setup.now += 4000
        error = await setup.error(authorizer)
        assert error.code == "upstream_auth_failed"
        assert "certificate_file: it cannot be read: No such file or directory" in error.message


def test_certificates_that_cannot_be_used(tmp_path: Path) -> None:
    one, other = tmp_path / "one.pem", tmp_path / "other.pem"

    def fault(certificate: str, key: str | None = None) -> str:
        one.write_text(certificate)
        other.write_text(key or "")
        with pytest.raises(ValueError, match=r"^the certificate cannot be used: ") as raised:
            authorizer_of(
                EntraSettings(
                    source="certificate",
                    certificate_file=str(one),
                    certificate_key_file=str(other) if key is not None else None,
                )
            )
        return str(raised.value).removeprefix("the certificate cannot be used: ")

    assert fault("") == "certificate_file has no certificate as PEM"
    assert fault(certificate_pem()) == "certificate_file has no private key as PEM"
    assert fault(certificate_pem(), "") == "certificate_key_file has no private key as PEM"
    assert fault(certificate_pem(), key_pem(2)) == "the private key is not that of the certificate"
    damaged = certificate_pem()[:100] + "\n-----END CERTIFICATE-----\n"
    assert fault(damaged, key_pem()) == "the certificate in certificate_file is damaged"
    locked = key_pem().replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY")
    assert fault(certificate_pem(), locked).startswith("the private key cannot be read")
    one.unlink()
    one.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="certificate_file: it is not text"):
        authorizer_of(EntraSettings(source="certificate", certificate_file=str(one)))


async def test_workload_identity_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    async with running() as setup:
        authorizer = setup.authorizer(source="workload_identity", tenant_id=None, client_id=None, authority_url=None)
        assert "AZURE_TENANT_ID or AZURE_CLIENT_ID is missing" in (await setup.error(authorizer)).message
        monkeypatch.setenv("AZURE_TENANT_ID", TENANT)
        monkeypatch.setenv("AZURE_CLIENT_ID", CLIENT)
        monkeypatch.setenv("AZURE_AUTHORITY_HOST", f"{setup.entra.url}/")
        setup.now += 100
        assert "AZURE_FEDERATED_TOKEN_FILE is missing" in (await setup.error(authorizer)).message
        monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(file))
        file.write_text("\n")
        setup.now += 100
        assert "federated_token_file is empty" in (await setup.error(authorizer)).message
        file.write_text(f"{FEDERATED}\n")
        setup.now += 100
        assert await token(authorizer) == "Bearer canary.token.1"


@pytest.mark.parametrize("client_id", [None, CLIENT])
@pytest.mark.parametrize("service", ["instance", "app service", "arc"])
async def test_managed_identities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service: str, client_id: str | None
) -> None:
    file = tmp_path / "a.key"
    file.write_text(ARC_KEY)
    async with running(arc_file=file) as setup:
        if service != "instance":
            path = "/msi/token" if service == "app service" else "/arc/token"
            monkeypatch.setenv("IDENTITY_ENDPOINT", f"{setup.entra.url}{path}")
            name, value = ("IDENTITY_HEADER", IDENTITY_HEADER) if service == "app service" else ("IMDS_ENDPOINT", "x")
            monkeypatch.setenv(name, value)
        identity = ManagedIdentity(
            resource="https://cognitiveservices.azure.com",
            client_id=client_id,
            metadata_url=setup.entra.url if service == "instance" else None,
            arc_folder=tmp_path,
        )
        lease = await identity.fetch()
        assert lease.value == "canary.token.1"
        assert lease.lives_s is not None
        assert 3500 < lease.lives_s <= 3599


async def test_a_managed_identity_that_is_not_there() -> None:
    async with running() as setup:
        other = setup.authorizer(source="managed_identity", client_id="other", metadata_url=setup.entra.url)
        error = await setup.error(other)
        assert (error.code, error.is_of_account) == ("upstream_auth_failed", True)
        assert error.message.startswith("Azure's metadata service gave no token (invalid_request). This machine has no")
        nowhere = setup.authorizer(source="managed_identity", metadata_url=f"http://127.0.0.1:{closed_port()}")
        error = await setup.error(nowhere)
        assert error.code == "upstream_connect_failed"
        assert error.message == "Azure's metadata service gave no credential: it could not be reached."
        assert setup.failures[-1].service == "Azure's metadata service"


@pytest.mark.parametrize("status", [404, 410])
async def test_a_metadata_service_that_is_being_updated_has_not_refused(status: int) -> None:
    async with running(refuses=(status, b"{}")) as setup:
        error = await setup.error(setup.authorizer(source="managed_identity", metadata_url=setup.entra.url))
        assert (error.code, error.is_of_account) == ("upstream_connect_failed", False)
        assert error.message == "Azure's metadata service gave no credential: it is overloaded, or not ready yet."
        assert error.report is not None
        assert error.report.status == status


async def test_a_managed_identity_whose_variable_cannot_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IDENTITY_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("IDENTITY_HEADER", "canary\n")
    with pytest.raises(StreamweirError, match="IDENTITY_HEADER contains a character") as raised:
        await ManagedIdentity(resource="r", client_id=None, metadata_url=None).fetch()
    assert raised.value.code == "upstream_auth_failed"


@pytest.mark.parametrize(
    "realm", ["", "/etc/passwd", "{folder}/../x.key", "{folder}/sub/x.key", "{folder}/x.txt", "{folder}/link.key"]
)
async def test_the_file_that_arc_names_must_be_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, realm: str
) -> None:
    folder = tmp_path / "tokens"
    (folder / "sub").mkdir(parents=True)
    for name in (tmp_path / "x.key", folder / "sub" / "x.key", folder / "x.txt"):
        name.write_text("canary-of-another-file")
    (folder / "link.key").symlink_to(tmp_path / "x.key")
    challenge = [("www-authenticate", f"Basic realm={realm.format(folder=folder)}")]
    async with nothing_left(), ScriptedUpstream(whole(b"{}", status=401, headers=challenge)) as up:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"http://127.0.0.1:{up.port}/arc/token")
        monkeypatch.setenv("IMDS_ENDPOINT", "x")
        identity = ManagedIdentity(resource="r", client_id=None, metadata_url=None, arc_folder=folder)
        with pytest.raises(StreamweirError, match="it is not one of its own"):
            await identity.fetch()
        assert len(up.requests) == 1


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({"client_secret": "wrong"}, "client_secret must be the value of the secret, and not its ID. (AADSTS7000215)"),
        ({"tenant_id": "no/such"}, "if it is in a national cloud. (AADSTS90002)"),
        (
            {"source": "workload_identity"},
            "Check tenant_id, client_id and the credentials of the application. (AADSTS50027)",
        ),
    ],
)
async def test_what_the_operator_has_configured_wrongly(tmp_path: Path, settings: dict[str, Any], advice: str) -> None:
    (tmp_path / "token").write_text("canary")
    async with running() as setup:
        authorizer = setup.authorizer(federated_token_file=str(tmp_path / "token"), **settings)
        error = await setup.error(authorizer)
        assert (error.code, error.is_of_account) == ("upstream_auth_failed", True)
        assert error.message.startswith("Microsoft's token service gave no token (invalid_client). ")
        assert error.message.endswith(advice)
        assert not await authorizer.refused()
        assert await setup.error(authorizer) is not error
        assert len(setup.up.requests) == 1, "within the pause it is not asked again"


@pytest.mark.parametrize(
    ("refuses", "code"),
    [
        ((500, b"canary"), "upstream_connect_failed"),
        ((429, b"{}"), "upstream_connect_failed"),
        ((302, b""), "upstream_connect_failed"),
        ((200, b"<html>canary"), "upstream_connect_failed"),
        ((200, b'{"access_token": "canary\\r\\nx: y", "expires_in": 5}'), "upstream_connect_failed"),
        ((200, b'{"access_token": ["canary"]}'), "upstream_connect_failed"),
        ((200, b'{"access_token": "canary", "expires_in": -5}'), "upstream_auth_failed"),
        ((200, b'{"x": "' + b"c" * 70_000 + b'"}'), "upstream_connect_failed"),
        ((400, b'{"error": "canary is\\nlong", "error_codes": ["canary", -1, 1e99, true]}'), "upstream_auth_failed"),
        ((400, b'{"error_codes": {"canary": 1}}'), "upstream_auth_failed"),
        ((400, b"[]"), "upstream_auth_failed"),
    ],
)
async def test_answers_that_are_none(refuses: tuple[int, bytes], code: str) -> None:
    async with running(refuses=refuses) as setup:
        for own in ({"client_secret": SECRET}, {"source": "managed_identity", "metadata_url": setup.entra.url}):
            assert (await setup.error(setup.authorizer(**own))).code == code
