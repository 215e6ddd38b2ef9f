"""Which providers get an authorizer, and what is logged when a credential cannot be refreshed."""

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from streamweir.config.cloud import AwsAuth
from streamweir.config.model import Credential, Provider
from streamweir.core.errors import StreamweirError
from streamweir.providers.base import UpstreamRequest
from streamweir.server.request.runtime.authorization import authorizer_for, is_authorized
from streamweir.server.telemetry.log import close_log, configure_log
from streamweir.upstream.authorized import AuthorizedUpstream
from streamweir.upstream.base import Endpoint
from streamweir.upstream.fetch import read_whole
from streamweir.upstream.http1 import Http1Upstream
from support.aws_server import AwsAccount, origin_of
from support.deadlines import WAIT_TIMEOUT_S
from support.script import whole
from support.scripted_upstream import ScriptedUpstream

REQUEST = UpstreamRequest(path="/x", headers=(), body=b"")


def provider(kind: str = "bedrock", **settings: Any) -> Provider:
    return Provider(**{"name": "up", "kind": kind, "base_url": "https://h", "region": "eu-central-1", **settings})


@pytest.mark.parametrize(
    ("settings", "is_signed"),
    [
        ({}, True),
        ({"kind": "bedrock-mantle"}, True),
        ({"aws": AwsAuth(source="environment")}, True),
        ({"api_key": "key"}, False),
        ({"api_keys": (Credential(name="a", key="one"), Credential(name="b", key="two"))}, False),
        ({"headers": {"Authorization": "Bearer key"}}, False),
        ({"kind": "openai"}, False),
    ],
)
def test_who_is_signed_for(settings: dict[str, Any], is_signed: bool) -> None:
    known = provider(**settings)
    assert is_authorized(known) is is_signed
    assert (authorizer_for(known) is not None) is is_signed


def test_settings_that_cannot_be_used() -> None:
    with pytest.raises(ValueError, match="region"):
        authorizer_for(provider(region=None))


@pytest.mark.parametrize("kind", ["bedrock", "bedrock-mantle"])
async def test_signatures_are_for_the_service_of_the_kind(kind: str) -> None:
    account = AwsAccount(service=kind)
    keys = account.issue()
    known = AwsAuth(
        access_key_id=keys.access_key_id, secret_access_key=keys.secret_access_key, session_token=keys.session_token
    )
    async with ScriptedUpstream(account.signed(whole(b"{}"))) as up:
        authorizer = authorizer_for(provider(kind, aws=known, base_url=up.base_url))
        assert authorizer is not None
        upstream = AuthorizedUpstream(Http1Upstream(Endpoint(base_url=up.base_url)), authorizer)
        assert (await read_whole(upstream, REQUEST, timeout_s=WAIT_TIMEOUT_S)).status == 200
        await upstream.close()
    assert account.refusals == []


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    written = io.StringIO()
    configure_log("json", written, level="debug")
    yield written
    close_log()


async def test_a_refresh_that_failed_is_logged_without_secrets(log: io.StringIO) -> None:
    async with ScriptedUpstream(AwsAccount().services) as services:
        aws = AwsAuth(
            access_key_id="AKIAEXAMPLE000000001",
            secret_access_key="geheim" * 7,
            role_arn="arn:aws:iam::123456789012:role/gateway",
            sts_url=origin_of(services),
        )
        authorizer = authorizer_for(provider(aws=aws))
        assert authorizer is not None
        with pytest.raises(StreamweirError, match="InvalidClientTokenId"):
            await authorizer.headers_for(REQUEST)
        await authorizer.close()
    close_log()
    event = json.loads(log.getvalue())
    assert (event["event"], event["provider"], event["service"]) == ("credential not refreshed", "up", "AWS STS")
    assert (event["code"], event["is_valid"], event["pause_s"]) == ("upstream_auth_failed", False, 1.0)
    assert "geheim" not in log.getvalue()
    assert "AKIAEXAMPLE" not in log.getvalue()


async def test_what_a_token_service_quotes_is_masked_in_the_log(log: io.StringIO) -> None:
    quoted = (
        b"<Code>AccessDenied</Code><Message>No role for geheim-tenant-1, signed with AKIA and geheim~geheim.</Message>"
    )
    async with ScriptedUpstream(whole(quoted, 403)) as services:
        aws = AwsAuth(
            access_key_id="AKIAEXAMPLE000000001",
            secret_access_key="geheim~geheim",  # noqa: S106
            role_arn="arn:aws:iam::123456789012:role/gateway",
            external_id="geheim-tenant-1",
            sts_url=origin_of(services),
        )
        authorizer = authorizer_for(provider(aws=aws))
        assert authorizer is not None
        with pytest.raises(StreamweirError, match="AccessDenied"):
            await authorizer.headers_for(REQUEST)
        await authorizer.close()
    close_log()
    assert json.loads(log.getvalue())["detail"] == "No role for ***, signed with AKIA and ***."
