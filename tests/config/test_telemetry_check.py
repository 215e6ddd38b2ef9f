"""Mistakes in the settings for a collector are found at the start, and no message contains an address or a secret."""

from pathlib import Path

import pytest

from streamweir.config.error import ConfigError
from streamweir.config.load import load_config
from streamweir.config.model import Config
from streamweir.config.secret import secrets_of

CANARY = "canary-8d1f0a93c57b28e4"


def load(folder: Path, settings: str) -> Config:
    file = folder / "streamweir.toml"
    file.write_text(f"[telemetry]\n{settings}\n")
    return load_config(file, {})


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (f'endpoint = "ftp://{CANARY}"', "endpoint: must begin with https:// or http://"),
        (f'endpoint = "{CANARY}:4318"', "endpoint: must begin with https:// or http://"),
        (
            f'endpoint = "http://{CANARY}:4318/v1/traces"',
            "endpoint: must not end in /v1/traces, which the gateway adds",
        ),
        (f'endpoint = "http://me:{CANARY}@host"', "endpoint: must not contain a user name or password: use headers"),
        (f'endpoint = "http://host?key={CANARY}"', "endpoint: must not have a query or a fragment"),
        (f'endpoint = "http://host"\nproxy = "socks5://{CANARY}:1"', "proxy: must begin with http://"),
        (
            f'endpoint = "http://host"\nheaders = {{ content-type = "{CANARY}" }}',
            "headers.content-type: is a header that the gateway sets itself",
        ),
        (
            f'endpoint = "http://host"\nresource = {{ "service.name" = "{CANARY}" }}',
            'resource."service.name": use telemetry.service_name',
        ),
        (
            f'endpoint = "http://host"\nresource = {{ "service.version" = "{CANARY}" }}',
            'resource."service.version": is set by the gateway itself',
        ),
        ('endpoint = "http://host"\nca_file = "missing.pem"', "ca_file: file not found"),
        ("sample_ratio = 1.5", "sample_ratio: "),
        ('callers = "trust"', "callers: "),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, settings: str, reason: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, settings)
    assert f"telemetry.{reason}" in str(raised.value)
    assert CANARY not in str(raised.value)


def test_headers_are_secrets(tmp_path: Path) -> None:
    config = load(tmp_path, f'endpoint = "http://host:4318/otlp/"\nheaders = {{ x-token = "{CANARY}" }}')
    assert CANARY not in repr(config)
    assert CANARY in secrets_of(config)


def test_a_header_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{CANARY}\n")
    config = load(tmp_path, 'endpoint = "http://host"\nheaders = { x-token = { file = "token" } }')
    assert config.telemetry.headers == {"x-token": CANARY}


def test_a_ca_file_is_relative_to_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("")
    config = load(tmp_path, 'endpoint = "https://host"\nca_file = "ca.pem"')
    assert config.telemetry.ca_file == str((tmp_path / "ca.pem").absolute())


def test_nothing_is_exported_unless_there_is_an_endpoint(tmp_path: Path) -> None:
    assert not load(tmp_path, "traces = true").telemetry.has_traces
    assert load(tmp_path, 'endpoint = "http://host"').telemetry.has_traces
