"""Google's access tokens, from a scripted server that checks every signature, secret and claim itself."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as generate_ec
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from streamweir.core.errors import StreamweirError, UpstreamError
from streamweir.providers.base import UpstreamRequest
from streamweir.upstream.cloud import jwt
from streamweir.upstream.cloud.file import FileFault
from streamweir.upstream.cloud.google import GoogleAuthorizer, GoogleSettings, authorizer_of
from streamweir.upstream.cloud.google_file import is_allowed, read_credentials
from streamweir.upstream.cloud.token_answer import token_in
from streamweir.upstream.credential import RefreshFailure
from streamweir.upstream.fetch import Fetched
from support.aws_server import IMDS_TOKEN, AwsAccount, origin_of
from support.deadlines import WAIT_TIMEOUT_S
from support.google_server import AUDIENCE, Google, pem, service_account, write_file
from support.script import Fin, Flood, Hang, Head, Raw, Rst, Seen, Send, Step, whole
from support.scripted_upstream import ScriptedUpstream

REQUEST = UpstreamRequest(path="/x", headers=(), body=b"{}")
AWS_TYPE = "urn:ietf:params:aws:token-type:aws4_request"
JWT_TYPE = "urn:ietf:params:oauth:token-type:jwt"


@asynccontextmanager
async def google(**members: Any) -> AsyncIterator[tuple[Google, ScriptedUpstream]]:
    known = Google(**members)
    async with ScriptedUpstream(known.script) as up:
        known.base_url = up.base_url.removesuffix("/v1")
        yield known, up


def user(url: str, kind: str = "authorized_user", **members: Any) -> dict[str, Any]:
    name = "token_uri" if kind == "authorized_user" else "token_url"
    login = {"client_id": "client", "client_secret": "client-secret", "refresh_token": "1//refresh"}
    return {"type": kind, **login, name: f"{url}/token", **members}


def external(url: str, source: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {
        "type": "external_account",
        "audience": AUDIENCE,
        "subject_token_type": JWT_TYPE,
        "token_url": f"{url}/sts",
        "credential_source": source,
        **members,
    }


def impersonated(url: str, source: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "impersonated_service_account",
        "service_account_impersonation_url": f"{url}/iam/other:generateAccessToken",
        "delegates": ["between"],
        "source_credentials": source,
    }


def of_file(path: str, **settings: Any) -> GoogleAuthorizer:
    return authorizer_of(GoogleSettings(source="file", credentials_file=path, **settings))


Make = Callable[[str, Path], dict[str, Any]]
CASES: dict[str, tuple[Make, int]] = {
    "a key of a service account": (lambda url, _: service_account(url), 1),
    "a login of gcloud": (lambda url, _: user(url), 1),
    "a login of a workforce": (lambda url, _: user(url, "external_account_authorized_user"), 1),
    "a token in a file": (lambda url, folder: external(url, {"file": f"{folder}/token"}), 1),
    "a token in a JSON file": (
        lambda url, folder: external(
            url, {"file": f"{folder}/json", "format": {"type": "json", "subject_token_field_name": "t"}}
        ),
        1,
    ),
    "a token and a service account": (
        lambda url, folder: external(
            url,
            {"file": f"{folder}/token"},
            service_account_impersonation_url=f"{url}/iam/me:generateAccessToken",
        ),
        2,
    ),
    "a login as a service account": (lambda url, _: impersonated(url, user(url)), 2),
}


@pytest.mark.parametrize("case", CASES)
async def test_a_file_gives_a_token(case: str, tmp_path: Path) -> None:
    make, calls = CASES[case]
    (tmp_path / "token").write_text("subject\n")
    (tmp_path / "json").write_text('{"t": "subject"}')
    async with google() as (known, up):
        authorizer = of_file(write_file(tmp_path, make(known.base_url, tmp_path)))
        # Many requests at once wait for one refresh.
        all_headers = await asyncio.gather(*(authorizer.headers_for(REQUEST) for _ in range(20)))
        assert set(all_headers) == {(("authorization", f"Bearer {known.tokens[-1]}"),)}
        assert len(up.requests) == calls
        await authorizer.close()


@pytest.mark.parametrize("document", ['{"t": "\\ud800"}', '{"t": ""}', '{"t": 5}', "[]", "{"])
async def test_a_file_without_a_token_of_another_identity(document: str, tmp_path: Path) -> None:
    (tmp_path / "json").write_text(document)
    source = {"file": f"{tmp_path}/json", "format": {"type": "json", "subject_token_field_name": "t"}}
    async with google() as (known, up):
        authorizer = of_file(write_file(tmp_path, external(known.base_url, source)))
        with pytest.raises(StreamweirError, match="There is no token for Google's workload identity") as caught:
            await authorizer.headers_for(REQUEST)
        assert (caught.value.code, len(up.requests)) == ("upstream_auth_failed", 0)


async def test_a_token_of_another_clouds_metadata_server(tmp_path: Path) -> None:
    def subject(request: Seen) -> list[Step]:
        assert (request.method, request.headers["metadata"]) == ("GET", "True")
        assert request.path == "/identity?resource=x"
        return whole(b'{"access_token": "subject"}')

    source = {
        "headers": {"Metadata": "True"},
        "format": {"type": "json", "subject_token_field_name": "access_token"},
    }
    async with ScriptedUpstream(subject) as other, google() as (known, _):
        url = f"{other.base_url.removesuffix('/v1')}/identity?resource=x"
        authorizer = of_file(write_file(tmp_path, external(known.base_url, {**source, "url": url})))
        assert await authorizer.headers_for(REQUEST) == (("authorization", "Bearer ya29.a0-token-0"),)


@pytest.mark.parametrize("has_environment", [True, False])
async def test_a_role_of_aws(has_environment: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Google is given a request that AWS would accept as signed by the machine's role: botocore says so."""
    account = AwsAccount(region="eu-west-1", service="sts")
    checked = list[str]()

    def metadata(request: Seen) -> Sequence[Step]:
        if request.path == "/latest/meta-data/placement/availability-zone":
            assert request.headers["x-aws-ec2-metadata-token"] == IMDS_TOKEN
            return whole(b"eu-west-1b")
        return account.services(request)

    def check(kind: str, token: str) -> None:
        assert kind == AWS_TYPE
        document = json.loads(unquote(token))
        fields = [(each["key"], each["value"]) for each in document["headers"]]
        headers = dict(fields)
        assert headers["x-goog-cloud-target-resource"] == AUDIENCE
        assert document["url"] == f"https://{headers['host']}/?Action=GetCallerIdentity&Version=2011-06-15"
        assert headers["host"] == "sts.eu-west-1.amazonaws.com"
        path = "/?Action=GetCallerIdentity&Version=2011-06-15"
        assert account.refusal_of(Seen(0, 0, document["method"], path, fields, b""), "sts") is None
        checked.append(headers["authorization"])

    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    if has_environment:
        keys = account.issue()
        monkeypatch.setenv("AWS_REGION", "eu-west-1")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", keys.access_key_id)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", keys.secret_access_key)
        monkeypatch.setenv("AWS_SESSION_TOKEN", keys.session_token or "")
    async with ScriptedUpstream(metadata) as instance, google(check_subject=check) as (known, _):
        origin = origin_of(instance)
        source = {
            "environment_id": "aws1",
            "region_url": f"{origin}/latest/meta-data/placement/availability-zone",
            "url": f"{origin}/latest/meta-data/iam/security-credentials",
            "imdsv2_session_token_url": f"{origin}/latest/api/token",
            "regional_cred_verification_url": (
                "https://sts.{region}.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15"
            ),
        }
        file = external(known.base_url, source, subject_token_type=AWS_TYPE)
        authorizer = of_file(write_file(tmp_path, file))
        assert await authorizer.headers_for(REQUEST) == (("authorization", "Bearer ya29.a0-token-0"),)
        assert len(checked) == 1
        assert bool(instance.requests) is not has_environment


@pytest.mark.parametrize("zone", [b"", b"x", b"eu-west-1.evil.examplex", b"../../ax", b"EU-WEST-1b"])
async def test_a_region_that_is_none(zone: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    async with ScriptedUpstream(whole(zone)) as instance:
        source = {
            "environment_id": "aws1",
            "region_url": f"{origin_of(instance)}/zone",
            "regional_cred_verification_url": "https://sts.{region}.amazonaws.com/",
        }
        authorizer = of_file(write_file(tmp_path, external(GOOGLE, source)))
        with pytest.raises(UpstreamError, match="set AWS_REGION"):
            await authorizer.headers_for(REQUEST)


async def test_the_metadata_server(monkeypatch: pytest.MonkeyPatch) -> None:
    async with google() as (known, _):
        settings = GoogleSettings(source="metadata", metadata_url=known.base_url)
        assert await authorizer_of(settings).headers_for(REQUEST) == (("authorization", "Bearer ya29.a0-token-0"),)
        monkeypatch.setenv("GCE_METADATA_HOST", known.base_url.removeprefix("http://"))
        authorizer = authorizer_of(GoogleSettings(source="metadata"))
        assert await authorizer.headers_for(REQUEST) == (("authorization", "Bearer ya29.a0-token-1"),)


async def test_another_server_in_the_place_of_the_metadata_server_is_not_believed() -> None:
    async with ScriptedUpstream(whole(b'{"access_token": "theirs", "expires_in": 3000}')) as up:
        settings = GoogleSettings(source="metadata", metadata_url=up.base_url.removesuffix("/v1"))
        with pytest.raises(UpstreamError, match="is another one") as raised:
            await authorizer_of(settings).headers_for(REQUEST)
        assert raised.value.code == "upstream_auth_failed"


async def test_default_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The file that the environment names, the file of gcloud, the metadata server: in this order."""
    async with google() as (known, up):
        monkeypatch.setenv("GCE_METADATA_HOST", known.base_url.removeprefix("http://"))
        monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
        monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
        await authorizer_of(GoogleSettings()).headers_for(REQUEST)
        (tmp_path / "gcloud").mkdir()
        login = user(known.base_url, quota_project_id="acme-quota")
        write_file(tmp_path / "gcloud", login, "application_default_credentials.json")
        headers = await authorizer_of(GoogleSettings()).headers_for(REQUEST)
        assert headers[1] == ("x-goog-user-project", "acme-quota")
        named = write_file(tmp_path, service_account(known.base_url))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", named)
        await authorizer_of(GoogleSettings()).headers_for(REQUEST)
        kinds = [request.body.partition(b"&")[0].rpartition(b"%3A")[2] for request in up.requests]
        assert kinds == [b"", b"grant_type=refresh_token", b"jwt-bearer"]
        assert up.requests[0].method == "GET"


async def test_without_any_credentials_the_message_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GCE_METADATA_HOST", "metadata.invalid")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    with pytest.raises(UpstreamError, match=r"google\.credentials_file") as raised:
        await authorizer_of(GoogleSettings()).headers_for(REQUEST)
    assert (raised.value.code, raised.value.is_of_account) == ("upstream_auth_failed", True)


async def test_a_key_that_is_replaced_in_its_file_is_used_for_the_next_token(tmp_path: Path) -> None:
    now = [0.0]
    async with google(life_s=1000) as (known, up):
        path = write_file(tmp_path, user(known.base_url))
        settings = GoogleSettings(source="file", credentials_file=path)
        authorizer = authorizer_of(settings, clock=lambda: now[0])
        await authorizer.headers_for(REQUEST)
        write_file(tmp_path, service_account(known.base_url))
        now[0] = 1000.0
        assert (await authorizer.headers_for(REQUEST))[0][1].endswith(known.tokens[1])
        assert b"jwt-bearer" in up.requests[1].body


async def test_a_hanging_token_service_does_not_stall_requests_with_a_valid_token(tmp_path: Path) -> None:
    now, failures = [0.0], list[RefreshFailure]()
    async with google(life_s=1000) as (known, up):
        settings = GoogleSettings(source="file", credentials_file=write_file(tmp_path, service_account(known.base_url)))
        authorizer = authorizer_of(settings, clock=lambda: now[0], on_failure=failures.append)
        first = await authorizer.headers_for(REQUEST)
        known.steps = lambda _: [Hang()]
        now[0] = 900.0  # it is refreshed ahead of time, and the service hangs
        for _ in range(10):
            assert await authorizer.headers_for(REQUEST) == first
        await up.seen(2)
        assert await authorizer.headers_for(REQUEST) == first
        await authorizer.close()
        await up.aborted(1)
        assert len(up.requests) == 2, "one refresh for all"
        assert not failures, "it was ended, and has not failed"


@pytest.mark.parametrize(
    "instead",
    [
        whole(b"<html>Sign in</html>"),
        whole(b"", 302, [("location", "http://127.0.0.1:1/token")]),
        [Head(), Flood(b" " * 65_536)],
        [Head(), Send(b'{"access_token": "'), Hang()],
        [Raw(b"no HTTP\r\n\r\n"), Fin()],
        [Rst()],
    ],
    ids=["another page", "a redirect", "no end", "a part", "no HTTP", "a reset"],
)
async def test_whatever_the_token_service_answers_requests_use_their_valid_token(
    instead: list[Step], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, failures = [0.0], list[RefreshFailure]()
    async with google(life_s=1000) as (known, up), asyncio.timeout(WAIT_TIMEOUT_S):
        settings = GoogleSettings(source="file", credentials_file=write_file(tmp_path, user(known.base_url)))
        authorizer = authorizer_of(settings, clock=lambda: now[0], on_failure=failures.append)
        first = await authorizer.headers_for(REQUEST)
        monkeypatch.setattr("streamweir.upstream.cloud.google._TIMEOUT_S", 0.1)
        known.instead = instead
        now[0] = 900.0
        while not failures:
            assert await authorizer.headers_for(REQUEST) == first
            await asyncio.sleep(0)
        assert failures[0].is_valid
        assert len(up.requests) == 2, "one refresh for all, and nothing is followed"
        monkeypatch.undo()
        known.instead = ()
        now[0] += failures[0].pause_s
        while await authorizer.headers_for(REQUEST) == first:
            await asyncio.sleep(0)
        assert (await authorizer.headers_for(REQUEST))[0][1].endswith(known.tokens[-1])


@pytest.mark.parametrize(
    ("refuses", "code", "words"),
    [
        ((400, "invalid_grant"), "upstream_auth_failed", r"\(invalid_grant\)\. It refused the key of the service acc"),
        ((401, "invalid_client"), "upstream_auth_failed", r"\(invalid_client\)"),
        ((400, "<b>" * 99), "upstream_auth_failed", "gave no token. It"),
        ((500, "internal"), "upstream_connect_failed", "Google's token service gave no credential: it failed"),
        ((503, "busy"), "upstream_connect_failed", "it is overloaded, or not ready yet"),
        ((302, "elsewhere"), "upstream_connect_failed", "its answer cannot be used"),
    ],
)
async def test_a_refusal_of_the_token_service(refuses: tuple[int, str], code: str, words: str, tmp_path: Path) -> None:
    async with google(refuses=refuses) as (known, up):
        authorizer = of_file(write_file(tmp_path, service_account(known.base_url)))
        for _ in range(2):
            with pytest.raises(UpstreamError, match=words) as raised:
                await authorizer.headers_for(REQUEST)
            assert raised.value.code == code
            assert raised.value.report is not None
            assert raised.value.report.status == refuses[0]
            assert "PRIVATE" not in str(raised.value)
        assert len(up.requests) == 1, "there is a pause after a failure"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"access_token": 7}',
        b'{"access_token": ""}',
        b'{"access_token": "a b"}',
        b'{"access_token": "a\\r\\nx-evil: 1"}',
        json.dumps({"access_token": "x" * 20_000}).encode(),
        b"\xff" * 100,
    ],
)
def test_an_answer_without_a_usable_token(body: bytes) -> None:
    with pytest.raises(UpstreamError) as raised:
        token_in(Fetched(status=200, headers={}, body=body), "It", "Do.")
    assert raised.value.code == "upstream_bad_response"


@pytest.mark.parametrize(
    ("life", "seconds"),
    [(3599, 3599.0), ("3599", 3599.0), (None, 300.0), (True, 300.0), ("soon", 300.0), (-5, 0.0), (10**400, 31_622_400)],
)
def test_the_life_of_a_token(life: object, seconds: float) -> None:
    body = json.dumps({"access_token": "t", "expires_in": life}).encode()
    lease = token_in(Fetched(status=200, headers={}, body=body), "It", "Do.")
    assert lease.lives_s == seconds
    assert "t" not in repr(lease).replace("Lease", "")


OK = {
    "type": "service_account",
    "client_email": "a@b",
    "private_key": "-----BEGIN PRIVATE KEY-----",
    "token_uri": "https://oauth2.googleapis.com/token",
}
SOURCE = {"file": "/token"}
GOOGLE = "https://sts.googleapis.com"


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({}, "of a known kind"),
        ({"type": "gdch_service_account"}, "of a known kind"),
        ({**OK, "client_email": 7}, "of a known kind"),
        ({**OK, "token_uri": "http://example.com/token"}, "token_uri must begin with https://"),
        ({**OK, "token_uri": "file:///etc/passwd"}, "token_uri must begin with https://"),
        (impersonated(GOOGLE, {**OK, "token_uri": "http://x"}), "token_uri must begin"),
        (external("http://example.com", SOURCE), "token_url must begin"),
        (external(GOOGLE, SOURCE, service_account_impersonation_url="http://x"), "impersonation_url must begin"),
        (external(GOOGLE, {"executable": {"command": "/bin/id"}}), "the gateway runs no programs"),
        (external(GOOGLE, {"certificate": {}}), "a certificate, which is not supported"),
        (external(GOOGLE, {}), "needs either file or url"),
        (external(GOOGLE, {**SOURCE, "url": "https://x"}), "needs either file or url"),
        (external(GOOGLE, {"url": "http://10.0.0.1/x"}), "must begin with https://"),
        (external(GOOGLE, {"url": "https://x", "headers": {"a": "b\r\nc: d"}}), "a header of its credential_source"),
        (external(GOOGLE, {"url": "https://x", "headers": {"a b": "c"}}), "a header of its credential_source"),
        (external(GOOGLE, {**SOURCE, "format": {"type": "xml"}}), "an unknown format"),
        (external(GOOGLE, {**SOURCE, "format": {"type": "json"}}), "no subject_token_field_name"),
        (external(GOOGLE, {"environment_id": "azure1"}), "an environment_id that is not supported"),
        (external(GOOGLE, {"environment_id": "aws1"}), "has no regional_cred_verification_url"),
        (external(GOOGLE, {"environment_id": "aws1", "regional_cred_verification_url": "http://x"}), "must begin with"),
    ],
)
def test_a_file_that_cannot_be_used(document: dict[str, Any], reason: str, tmp_path: Path) -> None:
    path = write_file(tmp_path, document)
    with pytest.raises(FileFault, match=reason) as raised:
        read_credentials(path)
    assert "PRIVATE" not in str(raised.value)
    with pytest.raises(ValueError, match="the file of credentials_file: "):
        of_file(path)


@pytest.mark.parametrize(
    ("url", "is_metadata", "allowed"),
    [
        ("https://sts.googleapis.com/v1/token", False, True),
        ("http://127.0.0.1:8000/x", False, True),
        ("http://localhost/x", False, True),
        ("http://[::1]/x", False, True),
        ("http://169.254.169.254/x", False, False),
        ("http://169.254.169.254/x", True, True),
        ("http://127.0.0.1.evil.example/x", False, False),
        ("http://[bad/x", False, False),
        ("https://", False, False),
        ("ftp://127.0.0.1/x", False, False),
    ],
)
def test_where_a_secret_may_be_sent(url: str, is_metadata: bool, allowed: bool) -> None:
    assert is_allowed(url, is_metadata=is_metadata) is allowed


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b" " * 70_000)
    (tmp_path / "binary").write_bytes(b"\xff\xfe{")
    (tmp_path / "deep").write_bytes(b'{"type":"service_account","client_email":' + b"[" * 60_000)
    os.mkfifo(tmp_path / "pipe")
    for name in ("missing", "large", "binary", "deep", ".", "a\0b", "pipe"):
        with pytest.raises(FileFault):
            read_credentials(str(tmp_path / name) if name != "." else str(tmp_path))


async def test_a_file_that_disappears_is_a_failure_that_names_it_to_the_operator_alone(tmp_path: Path) -> None:
    async with google() as (known, _):
        path = write_file(tmp_path, service_account(known.base_url))
        authorizer = of_file(path)
        Path(path).unlink()
        with pytest.raises(StreamweirError, match="credentials cannot be used: it cannot be read") as raised:
            await authorizer.headers_for(REQUEST)
        assert raised.value.report is not None
        assert path in raised.value.report.text
        assert path not in raised.value.message


def test_keys_that_cannot_sign() -> None:
    short = pem(generate_private_key(public_exponent=65_537, key_size=1024))  # noqa: S505 (it is refused)
    curve = generate_ec(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    for key, reason in ((short, "too short"), (curve, "not an RSA key"), ("secret", "cannot be read")):
        with pytest.raises(jwt.KeyFault, match=reason) as raised:
            jwt.signed_token({}, {}, key.encode())
        assert "secret" not in str(raised.value)


def test_without_the_library_the_configuration_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jwt, "find_spec", lambda _: None)
    with pytest.raises(ValueError, match=r"install streamweir\[clouds\]"):
        of_file(write_file(tmp_path, OK))
