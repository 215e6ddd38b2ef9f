"""Signed requests with keys of every source, against services that check them: what is found, refused and refreshed."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from streamweir.core.errors import StreamweirError, UpstreamError
from streamweir.providers.base import UpstreamRequest
from streamweir.upstream.authorized import AuthorizedUpstream
from streamweir.upstream.base import Endpoint
from streamweir.upstream.cloud.aws import authorizer_of
from streamweir.upstream.cloud.aws_source import AwsSettings
from streamweir.upstream.credential import RefreshFailure
from streamweir.upstream.fetch import Fetched, read_whole
from streamweir.upstream.http1 import Http1Upstream
from support.aws_server import CONTAINER_PATH, AwsAccount, IssuedKeys, origin_of
from support.deadlines import WAIT_TIMEOUT_S
from support.script import Hang, Script, Step, whole
from support.scripted_upstream import ScriptedUpstream
from support.upstream_server import refusing

ROLE_ARN = "arn:aws:iam::123456789012:role/gateway"
REQUEST = UpstreamRequest(
    path="/model/amazon.nova-lite-v1%3A0/converse", headers=(("content-type", "application/json"),), body=b"{}"
)


def static(keys: IssuedKeys) -> dict[str, Any]:
    return {
        "access_key_id": keys.access_key_id,
        "secret_access_key": keys.secret_access_key,
        "session_token": keys.session_token,
    }


class Cloud:
    """An account, its services, and requests of a gateway to it."""

    def __init__(self, account: AwsAccount, model: ScriptedUpstream, services: ScriptedUpstream) -> None:
        self.account = account
        self.model = model
        self.services = services
        self.failures: list[RefreshFailure] = []
        self.opened: list[AuthorizedUpstream] = []
        self.now = 1000.0

    @property
    def asked(self) -> list[str]:
        """What of the services, without accounts."""
        return [each.replace(ROLE_ARN, "ROLE") for each in self.account.asked]

    def upstream(self, environment: Mapping[str, str] | None = None, **settings: Any) -> AuthorizedUpstream:
        origin = origin_of(self.services)
        known = AwsSettings(region=self.account.region, **{"sts_url": origin, "metadata_url": origin, **settings})
        authorizer = authorizer_of(
            known,
            base_url=self.model.base_url,
            service="bedrock",
            environment={"HOME": "/nonexistent", **(environment or {})},
            on_failure=self.failures.append,
            clock=lambda: self.now,
        )
        upstream = AuthorizedUpstream(Http1Upstream(Endpoint(base_url=self.model.base_url)), authorizer)
        self.opened.append(upstream)
        return upstream

    async def ask(self, environment: Mapping[str, str] | None = None, **settings: Any) -> Fetched:
        return await send(self.upstream(environment, **settings))

    async def error(self, environment: Mapping[str, str] | None = None, **settings: Any) -> StreamweirError:
        with pytest.raises(StreamweirError) as caught:
            await self.ask(environment, **settings)
        return caught.value


async def send(upstream: AuthorizedUpstream, request: UpstreamRequest = REQUEST) -> Fetched:
    return await read_whole(upstream, request, timeout_s=WAIT_TIMEOUT_S)


@asynccontextmanager
async def cloud(services: Script | None = None, **account: Any) -> AsyncIterator[Cloud]:
    known = AwsAccount(**account)
    async with (
        ScriptedUpstream(known.signed(whole(b'{"ok":true}'))) as model,
        ScriptedUpstream(known.services if services is None else services) as given,
    ):
        running = Cloud(known, model, given)
        yield running
        for upstream in running.opened:
            await upstream.close()
            assert upstream.inner.in_use == 0


async def test_keys_of_the_operators_file() -> None:
    async with cloud() as aws:
        for temporary in (False, True):
            answer = await aws.ask(**static(aws.account.issue(temporary=temporary)))
            assert (answer.status, answer.body) == (200, b'{"ok":true}')
        assert (aws.asked, aws.account.refusals) == ([], [])


async def test_wrong_keys_are_refused_once() -> None:
    async with cloud() as aws:
        keys = aws.account.issue()
        answer = await aws.ask(**{**static(keys), "secret_access_key": "wrong"})
        assert answer.status == 403
        assert aws.account.refusals == ["InvalidSignatureException"]
        aws.account.revoke()
        assert (await aws.ask(**static(keys))).status == 403
        assert aws.account.refusals[1:] == ["ExpiredTokenException"]  # there are no others to try


async def test_a_large_body_and_other_methods() -> None:
    async with cloud() as aws:
        upstream = aws.upstream(**static(aws.account.issue()))
        large = UpstreamRequest(path="/a", headers=(("content-type", "x"),), body=b"x" * 300_000)
        assert (await send(upstream, large)).status == 200
        listed = UpstreamRequest(path="/foundation-models?b=1&a=2", headers=(), body=b"", method="GET")
        assert (await send(upstream, listed)).status == 200


async def test_keys_of_the_environment() -> None:
    async with cloud() as aws:
        keys = aws.account.issue()
        environment = {
            "AWS_ACCESS_KEY_ID": keys.access_key_id,
            "AWS_SECRET_ACCESS_KEY": keys.secret_access_key,
            "AWS_SESSION_TOKEN": keys.session_token or "",
        }
        for source in ("chain", "environment"):
            assert (await aws.ask(environment, source=source)).status == 200
        assert (await aws.error(source="environment")).code == "upstream_auth_failed"


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"])
async def test_variables_that_end_with_a_line_or_cannot_be_sent(name: str) -> None:
    async with cloud() as aws:
        keys = static(aws.account.issue())
        environment = {f"AWS_{each.upper()}": text for each, text in keys.items()}
        ended = {**environment, name: f"{environment[name]}\r\n"}
        assert (await aws.ask(ended, source="environment")).status == 200
        for more in ("\r\nx: y", " x", "é"):
            error = await aws.error({**environment, name: environment[name] + more}, source="environment")
            assert error.code == "upstream_auth_failed"
            assert "in the gateway's environment contains a character that cannot be sent" in error.message


async def test_web_identity(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("web-identity-token\n")
    named = {"AWS_WEB_IDENTITY_TOKEN_FILE": str(file), "AWS_ROLE_ARN": ROLE_ARN, "AWS_ROLE_SESSION_NAME": "pod"}
    async with cloud() as aws:
        assert (await aws.ask(named)).status == 200
        assert (await aws.ask(role_arn=ROLE_ARN, web_identity_token_file=str(file))).status == 200
        assert aws.asked == ["AssumeRoleWithWebIdentity ROLE pod", "AssumeRoleWithWebIdentity ROLE streamweir"]
        other = {**named, "AWS_ROLE_ARN": "arn:aws:iam::1:role/pod"}
        assert (await aws.ask(other, role_arn=ROLE_ARN)).status == 200
        assert aws.asked[2:] == ["AssumeRoleWithWebIdentity arn:aws:iam::1:role/pod pod", "AssumeRole ROLE streamweir"]
        file.write_text("another")
        error = await aws.error(named, source="web_identity")
        assert (error.code, error.is_of_account) == ("upstream_auth_failed", True)
        assert "AWS STS refused the gateway (403 InvalidIdentityToken)" in error.message
        assert "123456789012" not in error.message
        assert error.report is not None
        assert "123456789012" in error.report.text
        file.unlink()
        error = await aws.error(named)
        assert error.code == "upstream_auth_failed"
        assert str(tmp_path) not in error.message
        assert "web identity" in (await aws.error(source="web_identity")).message


async def test_a_role_with_keys_of_the_operators_file() -> None:
    async with cloud(external_id="tenant-1") as aws:
        keys = aws.account.issue(temporary=False)
        role = {**static(keys), "role_arn": ROLE_ARN, "session_name": "weir"}
        assert (await aws.ask(**role, external_id="tenant-1")).status == 200
        assert aws.asked == ["AssumeRole ROLE weir"]
        error = await aws.error(**role)
        assert "AccessDenied" in error.message
        assert "trust policy" in error.message
        assert "arn:" not in error.message


def profiles(folder: Path, config: str = "", credentials: str = "") -> dict[str, str]:
    """An environment whose home has these files."""
    (folder / ".aws").mkdir(exist_ok=True)
    (folder / ".aws" / "config").write_text(config)
    (folder / ".aws" / "credentials").write_text(credentials)
    return {"HOME": str(folder), "AWS_EC2_METADATA_DISABLED": "true"}


def keys_text(keys: IssuedKeys) -> str:
    lines = f"aws_access_key_id = {keys.access_key_id}\naws_secret_access_key = {keys.secret_access_key}\n"
    return lines + (f"aws_session_token = {keys.session_token}\n" if keys.session_token else "")


async def test_profiles_of_shared_files(tmp_path: Path) -> None:
    async with cloud(external_id="x y") as aws:
        base, other, wrong = (aws.account.issue(temporary=temporary) for temporary in (False, True, False))
        credentials = f"# keys\n[default]\n{keys_text(other)}\n[base]\n{keys_text(base)}"
        config = f"""
[default]
region = eu-west-1
s3 =
    max_queue = 1
[profile base]
{keys_text(wrong)}
[profile  team]
role_arn = {ROLE_ARN}
source_profile = base
external_id = x y
role_session_name = team
duration_seconds = 900
[profile outer]
role_arn = {ROLE_ARN}
source_profile = team
external_id = x y
[profile self]
role_arn = {ROLE_ARN}
source_profile = self
external_id = x y
{keys_text(base)}
[profile from-instance]
role_arn = {ROLE_ARN}
credential_source = Ec2InstanceMetadata
external_id = x y
"""
        environment = profiles(tmp_path, config, credentials)
        for settings in ({}, {"profile": "base"}, {"profile": "team"}, {"profile": "outer"}, {"profile": "self"}):
            assert (await aws.ask(environment, **settings)).status == 200, settings
        assert aws.asked == [
            "AssumeRole ROLE team",
            "AssumeRole ROLE team",
            "AssumeRole ROLE streamweir",
            "AssumeRole ROLE streamweir",
        ]
        assert (await aws.ask({**environment, "AWS_PROFILE": "from-instance"}, source="profile")).status == 200
        assert aws.asked[4:] == ["session", "instance", "AssumeRole ROLE streamweir"]
        assert aws.account.refusals == []


@pytest.mark.parametrize(
    ("config", "settings", "words"),
    [
        ("[profile p]\nrole_arn = r\nsource_profile = q\n[profile q]\nrole_arn = r\nsource_profile = p", "p", "circle"),
        ("[profile p]\nregion = x", "p", "has no keys"),
        ("", "p", "does not exist"),
        ("[profile p]\ncredential_process = /bin/geheim", "p", "runs a program"),
        ("[profile p]\nsso_session = s", "p", "signs in"),
        ("[default]\nlogin_session = arn:aws:iam::1:user/x", None, "signs in"),
        ("[profile p]\nrole_arn = r\nmfa_serial = m\nsource_profile = q", "p", "second factor"),
        ("[profile p]\nrole_arn = r\ncredential_source = Other", "p", "no keys to assume it with"),
        ("[profile p]\nrole_arn = r\ncredential_source = Environment", "p", "no keys to assume it with"),
        ("aws_secret_access_key = geheim", "p", "not valid"),
        ("[profile p]\naws_access_key_id = i\naws_secret_access_key = geheim x", "p", "cannot be sent"),
        ("[profile p]\nrole_arn = r\nweb_identity_token_file = /nonexistent/geheim", "p", "does not exist"),
        ("\x00" * 1_100_000, "p", "cannot be used: it has more than 1048576 bytes"),
        ("", None, "no AWS credentials"),
    ],
    ids=lambda value: value[-20:] if isinstance(value, str) else None,
)
async def test_profiles_that_cannot_be_used(tmp_path: Path, config: str, settings: str | None, words: str) -> None:
    async with cloud() as aws:
        error = await aws.error(profiles(tmp_path, config), profile=settings)
        assert (error.code, error.is_of_account) == ("upstream_auth_failed", True)
        assert words in error.message
        assert error.report is not None
        assert error.report.advice == error.message, "for the record of the attempt"
        assert "geheim" not in error.message
        assert [failure.error.message for failure in aws.failures] == [error.message]


async def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    environment = profiles(tmp_path)
    (tmp_path / ".aws" / "config").unlink()
    (tmp_path / ".aws" / "config").mkdir()
    async with cloud() as aws:
        message = "A file with AWS credentials cannot be used: it is not a file."
        assert (await aws.error(environment)).message == message
        (tmp_path / ".aws" / "config").rmdir()
        os.mkfifo(tmp_path / ".aws" / "config")  # reading it would wait for a writer
        assert (await aws.error(environment)).message == message
        (tmp_path / ".aws" / "config").unlink()
        (tmp_path / ".aws" / "config").write_bytes(b"[default]\nx = \xff")
        error = await aws.error(environment)
        assert error.message == "A file with AWS credentials cannot be used: it is not text."
        assert error.__context__ is None, "it has the content of the file"


async def test_keys_of_a_file_are_read_again_when_they_are_refused(tmp_path: Path) -> None:
    async with cloud() as aws:
        upstream = aws.upstream(profiles(tmp_path, credentials="[default]\n" + keys_text(aws.account.issue())))
        assert (await send(upstream)).status == 200
        aws.now += 31
        aws.account.revoke()
        profiles(tmp_path, credentials="[default]\n" + keys_text(aws.account.issue()))
        assert (await send(upstream)).status == 200
        assert aws.account.refusals == ["ExpiredTokenException"]
        aws.now += 31
        aws.account.revoke()  # the file has no others now
        assert (await send(upstream)).status == 403


@pytest.mark.parametrize("source", ["chain", "container"])
async def test_keys_of_a_container(tmp_path: Path, source: str) -> None:
    file = tmp_path / "token"
    file.write_text("pod-token")
    async with cloud(container_token="pod-token") as aws:  # noqa: S106
        relative = {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": CONTAINER_PATH}
        full = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": origin_of(aws.services) + CONTAINER_PATH}
        plain, named = (
            {"AWS_CONTAINER_AUTHORIZATION_TOKEN": "pod-token"},
            {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(file)},
        )
        for environment in ({**relative, **plain}, {**full, **named}):
            assert (await aws.ask(environment, source=source)).status == 200
        assert aws.asked == ["container", "container"]
        assert "refused the gateway (401 Unauthorized)" in (await aws.error(full, source=source)).message
        bad = {**full, "AWS_CONTAINER_AUTHORIZATION_TOKEN": "a\r\nx-evil: 1"}
        assert "cannot be sent" in (await aws.error(bad, source=source)).message


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/x",
        "http://example.com/x",
        "http://127.0.0.1.example.com/",
        "ftp://127.0.0.1/",
        "",
        "http://[",
    ],
)
async def test_addresses_of_containers_that_are_not_asked(url: str) -> None:
    async with cloud() as aws:
        error = await aws.error({"AWS_CONTAINER_CREDENTIALS_FULL_URI": url}, source="container")
        assert error.code == "upstream_auth_failed"


@pytest.mark.parametrize("source", ["chain", "instance"])
async def test_keys_of_an_instance(source: str) -> None:
    async with cloud() as aws:
        assert (await aws.ask(source=source)).status == 200
        assert aws.asked == ["session", "instance"]
        endpoint = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": origin_of(aws.services) + "/"}
        assert (await aws.ask(endpoint, source=source, metadata_url=None)).status == 200
        aws.account.lives_s = -10.0  # AWS asks to use them on
        upstream = aws.upstream(source=source)
        assert (await send(upstream)).status == 403
        aws.account.role = None
        error = await aws.error(source=source)
        assert error.code == "upstream_auth_failed"
        assert ("has no role" if source == "instance" else "no AWS credentials") in error.message


async def test_keys_are_refreshed_while_requests_use_the_old_ones() -> None:
    async with cloud() as aws:
        upstream = aws.upstream(source="instance")
        assert (await send(upstream)).status == 200
        first = aws.model.requests[0].headers["x-amz-security-token"]
        aws.now += 0.85 * aws.account.lives_s
        assert (await send(upstream)).status == 200
        assert aws.model.requests[1].headers["x-amz-security-token"] == first
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            while aws.model.requests[-1].headers["x-amz-security-token"] == first:
                await send(upstream)
        assert (aws.asked.count("instance"), aws.account.refusals) == (2, [])


async def test_a_service_that_hangs_does_not_stall_requests_with_valid_keys() -> None:
    async with cloud() as aws:
        upstream = aws.upstream(source="instance")
        assert (await send(upstream)).status == 200
        aws.services.script = [Hang()]
        aws.now += 0.9 * aws.account.lives_s
        for _ in range(3):
            assert (await send(upstream)).status == 200
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            while len(aws.services.requests) < 4:  # the refresh has begun, and hangs
                await send(upstream)
        assert (await send(upstream)).status == 200
        assert (len(aws.services.requests), aws.failures) == (4, [])


async def test_an_instance_whose_metadata_fails_later_is_still_an_instance() -> None:
    async with cloud() as aws:
        upstream = aws.upstream()
        assert (await send(upstream)).status == 200
        aws.services.script = whole(b"", 500)
        aws.now += aws.account.lives_s
        with pytest.raises(UpstreamError) as caught:
            await send(upstream)
        assert caught.value.code == "upstream_connect_failed"  # not that there are no credentials


async def test_revoked_keys_are_replaced_and_the_request_is_sent_once_more() -> None:
    async with cloud() as aws:
        upstream = aws.upstream(source="instance")
        await send(upstream)
        aws.now += 31
        aws.account.revoke()
        answers = await asyncio.gather(*(send(upstream) for _ in range(8)))
        assert [answer.status for answer in answers] == [200] * 8
        assert len(aws.account.refusals) <= 8
        assert aws.asked.count("instance") == 2


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (whole(b"<Error><Code>Throttling</Code></Error>", 400), "upstream_connect_failed"),
        (whole(b"", 500), "upstream_connect_failed"),
        (whole(b"", 302), "upstream_connect_failed"),
        (whole(b"<html>", 200), "upstream_connect_failed"),
        (whole(b"\xff\xfe{", 400), "upstream_auth_failed"),
        (whole(b"<Code>a&#10;b</Code>", 400), "upstream_auth_failed"),
        (whole(b"x" * 70_000, 200), "upstream_connect_failed"),
        (
            whole(
                b"<AccessKeyId>a\r\nx: y</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
                b"<SessionToken>t</SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration>"
            ),
            "upstream_connect_failed",
        ),
        (
            whole(
                b"<AccessKeyId>a</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
                b"<SessionToken>t</SessionToken><Expiration>2001-01-01T00:00:00</Expiration>"
            ),
            "upstream_auth_failed",
        ),
    ],
)
@pytest.mark.parametrize("source", ["static", "instance", "container"])
async def test_services_that_answer_with_something_else(script: Sequence[Step], code: str, source: str) -> None:
    async with cloud(services=script) as aws:
        keys = static(aws.account.issue()) if source == "static" else {}
        role = {"role_arn": ROLE_ARN} if source == "static" else {}
        environment = {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": CONTAINER_PATH}
        error = await aws.error(environment, source=source, **keys, **role)
        assert error.code in ((code,) if source == "static" else ("upstream_connect_failed", "upstream_auth_failed"))
        assert "AWS" in error.message


@pytest.mark.parametrize(
    ("name", "value"),
    [("AccessKeyId", "a\\r\\nx: y"), ("SecretAccessKey", "\\ud800"), ("Token", ""), ("Token", "\\u00e9")],
)
async def test_keys_of_a_service_that_cannot_be_sent(name: str, value: str) -> None:
    keys = {"AccessKeyId": "a", "SecretAccessKey": "s", "Token": "t", "Expiration": "2999-01-01T00:00:00Z", name: value}
    document = ",".join(f'"{key}":"{text}"' for key, text in keys.items())
    async with cloud(services=whole(f"{{{document}}}".encode())) as aws:
        error = await aws.error({"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": CONTAINER_PATH}, source="container")
        assert error.code == "upstream_connect_failed"
        assert error.message == "AWS's container credentials gave no credential: its answer cannot be used."


async def test_services_that_hang_or_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamweir.upstream.cloud.aws_token_service._METADATA_S", 0.05)
    monkeypatch.setattr("streamweir.upstream.cloud.aws_token_service._STS_S", 0.05)
    async with cloud(services=[Hang()]) as aws:
        role = {**static(aws.account.issue()), "role_arn": ROLE_ARN}
        for settings, name in ((role, "AWS STS"), ({"source": "instance"}, "instance metadata")):
            error = await aws.error(**settings)
            assert (error.code, "did not answer in time" in error.message) == ("upstream_timeout", True)
            assert name in error.message
        assert (await aws.error()).code == "upstream_auth_failed"  # a chain: most likely no machine of AWS
        with refusing() as port:
            error = await aws.error(**{**role, "sts_url": f"http://127.0.0.1:{port}"})
            assert error.code == "upstream_connect_failed"
        error = await aws.error(**{**role, "sts_url": "http://user@host"})
        assert error.code == "upstream_connect_failed"


@pytest.mark.parametrize(
    "settings",
    [
        {"access_key_id": "a"},
        {"secret_access_key": "a"},
        {"source": "static"},
        {"web_identity_token_file": "/x"},
    ],
)
def test_settings_that_contradict_each_other(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="need"):
        authorizer_of(AwsSettings(region="r", **settings), base_url="http://h", service="bedrock", environment={})


def test_nothing_shows_the_settings() -> None:
    assert "geheim" not in repr(AwsSettings(region="r", secret_access_key="geheim"))  # noqa: S106
