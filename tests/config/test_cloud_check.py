"""The tables of clouds: what contradicts itself, and what is masked."""

from typing import Any

import pytest

from streamweir.config.checks.cloud_check import check_cloud
from streamweir.config.cloud import AwsAuth
from streamweir.config.model import Config, Provider
from streamweir.config.secret import secrets_for, secrets_of

ROLE = "arn:aws:iam::123456789012:role/gateway"


def provider(**aws: Any) -> Provider:
    return Provider(name="up", kind="bedrock", region="eu-central-1", aws=AwsAuth(**aws))


@pytest.mark.parametrize(
    ("aws", "places"),
    [
        ({}, []),
        ({"role_arn": ROLE, "external_id": "x", "session_name": "weir", "sts_url": "https://sts.example"}, []),
        ({"source": "web_identity", "session_name": "weir"}, []),
        ({"external_id": "x"}, ["external_id"]),
        ({"session_name": "weir"}, ["session_name"]),
        ({"web_identity_token_file": "/x"}, ["web_identity_token_file"]),
        ({"role_arn": "gateway"}, ["role_arn"]),
        ({"role_arn": ROLE, "session_name": "a b"}, ["session_name"]),
        ({"sts_url": "http://sts.example"}, ["sts_url"]),
        ({"sts_url": "http://127.0.0.1:1", "metadata_url": "http://169.254.169.254"}, []),
        ({"metadata_url": "169.254.169.254"}, ["metadata_url"]),
        ({"role_arn": f"{ROLE}\n"}, ["role_arn"]),
        ({"profile": "p", "access_key_id": "id", "secret_access_key": "s"}, []),
        ({"source": "profile", "profile": "p"}, []),
        ({"source": "instance", "profile": "p"}, ["profile"]),
        (
            {"source": "environment", "access_key_id": "id", "secret_access_key": "s", "session_token": "t"},
            ["access_key_id", "secret_access_key", "session_token"],
        ),
        ({"source": "static", "access_key_id": "id\n", "secret_access_key": "s"}, ["access_key_id"]),
        (
            {"access_key_id": "id", "secret_access_key": "s s", "session_token": "t\r\nx: y"},
            ["secret_access_key", "session_token"],
        ),
    ],
)
def test_the_table_of_aws(aws: dict[str, Any], places: list[str]) -> None:
    found = [problem.where for problem in check_cloud(provider(**aws), "providers.up")]
    assert found == [f"providers.up.aws.{place}" for place in places]


def test_secrets_of_the_table_are_masked() -> None:
    known = provider(access_key_id="AKIAEXAMPLE", secret_access_key="s" * 40, session_token="t" * 40)
    config = Config(providers=(known,))
    assert secrets_for(config, "up") == {"s" * 40, "t" * 40}
    assert set(secrets_of(config)) == {"s" * 40, "t" * 40}
    assert "ssss" not in repr(config)
    assert "tttt" not in repr(config)
