"""The types of the tables that say how the gateway authorizes itself at a cloud: `aws`, `google` and `entra`.

A provider has at most one of them. Without one, and without a key, a cloud's kind uses the default credentials of its
cloud. Files are absolute after loading; their content is read when it is needed, because it changes.
"""

from typing import Literal

from streamweir.config.secret_text import SecretText, WithSecrets


class AwsAuth(WithSecrets, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Signature version 4, with credentials of `source`. `chain`: the first that has some, in AWS's own order."""

    secrets = ("secret_access_key", "session_token", "external_id")

    source: Literal["chain", "static", "environment", "web_identity", "profile", "container", "instance"] = "chain"
    access_key_id: str | None = None
    secret_access_key: SecretText | None = None
    session_token: SecretText | None = None
    profile: str | None = None
    role_arn: str | None = None
    external_id: SecretText | None = None
    session_name: str | None = None
    web_identity_token_file: str | None = None
    sts_url: str | None = None
    metadata_url: str | None = None


class GoogleAuth(WithSecrets, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Access tokens of Google. `adc`: application default credentials."""

    secrets = ()

    source: Literal["adc", "file", "metadata"] = "adc"
    credentials_file: str | None = None
    token_url: str | None = None
    metadata_url: str | None = None


class EntraAuth(WithSecrets, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Access tokens of Microsoft Entra ID."""

    secrets = ("client_secret",)

    source: Literal["secret", "certificate", "managed_identity", "workload_identity"] = "secret"
    tenant_id: str | None = None
    client_id: str | None = None
    client_secret: SecretText | None = None
    certificate_file: str | None = None
    certificate_key_file: str | None = None
    federated_token_file: str | None = None
    scope: str | None = None
    authority_url: str | None = None
    metadata_url: str | None = None
