"""Mistakes in the settings for an identity provider are found at the start, with their place and without a secret."""

from pathlib import Path

import pytest

from streamweir.config.error import ConfigError
from streamweir.config.load import load_config
from streamweir.config.model import Config
from streamweir.config.secret import secrets_of

CANARY = "canary-8d1f0a93c57b28e4"
GOOD = {
    "issuer": '"https://idp.example/realms/acme"',
    "client_id": '"streamweir"',
    "client_secret": f'"{CANARY}"',
    "url": '"https://gateway.example/"',
}


def load(folder: Path, *more: str, **changes: str | None) -> Config:
    file = folder / "streamweir.toml"
    settings = {name: value for name, value in (GOOD | changes).items() if value is not None}
    file.write_text("[oidc]\n" + "".join(f"{name} = {value}\n" for name, value in settings.items()) + "".join(more))
    return load_config(file, {})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"issuer": None}, "oidc.issuer: "),
        ({"url": None}, "oidc.url: "),
        ({"client_id": None}, "oidc.client_id: "),
        (
            {"issuer": f'"http://{CANARY}.example"'},
            "oidc.issuer: must begin with https://: plain HTTP is for addresses",
        ),
        ({"issuer": '"http://10.0.0.1"'}, "oidc.issuer: must begin with https://"),
        ({"issuer": f'"ftp://{CANARY}"'}, "oidc.issuer: must begin with https:// or http://"),
        ({"issuer": f'"https://me:{CANARY}@idp.example"'}, "oidc.issuer: must not contain a user name or password"),
        ({"issuer": f'"https://idp.example?{CANARY}"'}, "oidc.issuer: must not have a query"),
        ({"issuer": '"https://"'}, "oidc.issuer: has no host"),
        ({"url": '"http://gateway.example"'}, "oidc.url: must begin with https://"),
        ({"url": f'"https://gateway.example/{CANARY}"'}, "oidc.url: must be https://HOST, with nothing after it"),
        ({"client_id": '"caf\u00e9"'}, "oidc.client_id: must be printable ASCII"),
        ({"client_secret": '""'}, "oidc.client_secret: is empty"),
        ({"name": '" x"'}, "oidc.name: must be plain text"),
        ({"scopes": '["email"]'}, 'oidc.scopes: must contain "openid"'),
        ({"scopes": '["openid", "a b"]'}, "oidc.scopes: must be words"),
        ({"domains": '["@example.com"]'}, "oidc.domains[0]: must be a domain"),
        ({"domains": '["example.com", "Example.com"]'}, "oidc.domains[1]: must be a domain"),
        ({"domains": '["localhost"]'}, "oidc.domains[0]: must be a domain"),
        ({"proxy": f'"socks5://{CANARY}:1"'}, "oidc.proxy: must begin with http://"),
        ({"ca_file": '"missing.pem"'}, "oidc.ca_file: file not found"),
        ({"timeout_s": "0"}, "oidc.timeout_s: "),
        ({"roles": '[{ group = "a", role = "king" }]'}, "oidc.roles[0].role: "),
        ({"roles": '[{ group = "a", role = "member" }]'}, "oidc.roles[0].workspace: is needed"),
        ({"roles": '[{ group = "a", role = "owner", workspace = "w" }]'}, "oidc.roles[0].workspace: must be left out"),
        ({"roles": '[{ group = "", role = "owner" }]'}, "oidc.roles[0].group: "),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, changes: dict[str, str | None], reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, **changes)
    (line,) = str(caught.value).splitlines()
    assert reason in line
    assert CANARY not in str(caught.value)
    (name,) = changes
    number = 2 + list(GOOD | changes).index(name) if changes[name] is not None else 1
    assert f"streamweir.toml:{number}:" in line or changes[name] is None


def test_without_a_database_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="oidc: needs a database"):
        load(tmp_path, '[store]\nurl = "none"\n')


def test_the_secret_may_be_elsewhere_and_is_known_as_one(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{CANARY}\n")
    elsewhere = {"client_secret": '{ file = "secret" }'}
    config = load(tmp_path, **elsewhere)
    assert config.oidc is not None
    assert config.oidc.client_secret == CANARY
    assert secrets_of(config) == [CANARY]
    assert CANARY not in repr(config)


def test_this_machine_needs_no_tls_and_a_client_no_secret(tmp_path: Path) -> None:
    local = {"issuer": '"http://127.0.0.1:9000"', "url": '"http://localhost:8080"', "client_secret": None}
    config = load(tmp_path, **local)
    assert config.oidc is not None
    assert config.oidc.client_secret is None
    assert load(tmp_path, roles='[{ group = "a", role = "member", workspace = "w" }]').oidc is not None
