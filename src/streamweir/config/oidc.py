"""The settings for an identity provider (OpenID Connect): types of `config.model`, which explains the rules of such
types."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from streamweir.config.secret_text import SecretText, SecretUrl, WithSecrets

_Text = Annotated[str, Meta(min_length=1, max_length=64)]
_Claim = Annotated[str, Meta(min_length=1, max_length=128)]


class OidcRole(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The role of those who have a group. The first rule that fits counts."""

    group: Annotated[str, Meta(min_length=1, max_length=256)]
    role: Literal["owner", "operator", "billing", "viewer", "admin", "member"]
    workspace: _Text | None = None


class Oidc(WithSecrets, frozen=True, kw_only=True, forbid_unknown_fields=True):
    secrets = ("client_secret", "proxy")

    issuer: str
    client_id: Annotated[str, Meta(min_length=1, max_length=256)]
    client_secret: SecretText | None = None
    url: str
    name: _Text = "single sign-on"
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    name_claim: _Claim = "name"
    domains: tuple[str, ...] = ()
    groups_claim: _Claim = "groups"
    roles: tuple[OidcRole, ...] = ()
    timeout_s: Annotated[float, Meta(gt=0, le=60)] = 10.0
    proxy: SecretUrl | None = None
    ca_file: str | None = None
