"""The JSON files that hold Google's credentials, and where they are found.

A file is one of four kinds: the key of a service account, a login of `gcloud`, an identity of another cloud or of an
OpenID provider (workload and workforce identity federation), and a service account that one of them acts as. Files are
read again for every token, because keys are rotated and tokens in them are replaced.

An address in a file must be https: what is sent there gives access. Only this machine, and the metadata servers of
clouds, are asked without it. Programs that a file names are not run. A reason why a file cannot be used contains
nothing of the file.
"""

import os
import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from streamweir.upstream.cloud.file import FileFault, read_file

TOKEN_URL = "https://oauth2.googleapis.com/token"  # noqa: S105 (an address)
_ENVIRONMENT = "GOOGLE_APPLICATION_CREDENTIALS"
_WELL_KNOWN = "application_default_credentials.json"
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[ -~]*")
_METADATA_HOSTS = ("metadata.google.internal", "169.254.169.254", "fd00:ec2::254")


class _Secret(Struct, frozen=True):
    def __repr__(self) -> str:
        return type(self).__name__


class ServiceAccount(_Secret, frozen=True, tag="service_account"):
    client_email: str
    private_key: str
    private_key_id: str | None = None
    token_uri: str = TOKEN_URL
    quota_project_id: str | None = None

    urls: ClassVar[tuple[str, ...]] = ("token_uri",)


class AuthorizedUser(_Secret, frozen=True, tag="authorized_user"):
    client_id: str
    client_secret: str
    refresh_token: str
    token_uri: str = TOKEN_URL
    quota_project_id: str | None = None

    urls: ClassVar[tuple[str, ...]] = ("token_uri",)


class WorkforceUser(_Secret, frozen=True, tag="external_account_authorized_user"):
    client_id: str
    client_secret: str
    refresh_token: str
    token_url: str
    quota_project_id: str | None = None

    urls: ClassVar[tuple[str, ...]] = ("token_url",)


class TokenFormat(Struct, frozen=True):
    type: str = "text"
    subject_token_field_name: str | None = None


class SubjectSource(_Secret, frozen=True):
    """Where the token of the other identity is. One of `file`, `url` and `environment_id`."""

    file: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = {}
    format: TokenFormat = TokenFormat()
    environment_id: str | None = None
    region_url: str | None = None
    regional_cred_verification_url: str | None = None
    imdsv2_session_token_url: str | None = None
    executable: Any = None
    certificate: Any = None


class Impersonation(Struct, frozen=True):
    token_lifetime_seconds: int = 3600


class ExternalAccount(_Secret, frozen=True, tag="external_account"):
    audience: str
    subject_token_type: str
    token_url: str
    credential_source: SubjectSource
    service_account_impersonation_url: str | None = None
    service_account_impersonation: Impersonation = Impersonation()
    client_id: str | None = None
    client_secret: str | None = None
    workforce_pool_user_project: str | None = None
    quota_project_id: str | None = None

    urls: ClassVar[tuple[str, ...]] = ("token_url", "service_account_impersonation_url")


class ImpersonatedAccount(_Secret, frozen=True, tag="impersonated_service_account"):
    service_account_impersonation_url: str
    source_credentials: ServiceAccount | AuthorizedUser | WorkforceUser | ExternalAccount
    delegates: tuple[str, ...] = ()
    quota_project_id: str | None = None

    urls: ClassVar[tuple[str, ...]] = ("service_account_impersonation_url",)


Credentials = ServiceAccount | AuthorizedUser | WorkforceUser | ExternalAccount | ImpersonatedAccount
_read = msgspec.json.Decoder(Credentials).decode
_KINDS = tuple(str(kind.__struct_config__.tag) for kind in (
    ServiceAccount, AuthorizedUser, WorkforceUser, ExternalAccount, ImpersonatedAccount
))  # fmt: skip


def default_file() -> str | None:
    """Where application default credentials are. None: there is no file, and the metadata server is asked."""
    named = os.environ.get(_ENVIRONMENT)
    if named:
        return named
    folder = os.environ.get("CLOUDSDK_CONFIG")
    path = Path(folder) if folder else Path(os.path.expanduser("~")) / ".config" / "gcloud"
    return str(path / _WELL_KNOWN) if (path / _WELL_KNOWN).is_file() else None


def read_credentials(path: str) -> Credentials:
    """Raises `FileFault`."""
    data = read_file(path)
    try:
        credentials: Credentials = _read(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise FileFault(
            f"it is not a JSON file of Google's credentials of a known kind ({', '.join(_KINDS)})"
        ) from None
    _check(credentials)
    return credentials


def is_allowed(url: str, *, is_metadata: bool = False) -> bool:
    """Whether a secret may be sent there, or fetched from there (`is_metadata`)."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme == "https":
        return bool(host)
    if parts.scheme != "http":
        return False
    return _is_loopback(host) or (is_metadata and host in _METADATA_HOSTS)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _check(credentials: Credentials) -> None:
    for name in credentials.urls:
        url = getattr(credentials, name)
        if url is not None and not is_allowed(url):
            raise FileFault(f"{name} must begin with https://")
    if isinstance(credentials, ImpersonatedAccount):
        _check(credentials.source_credentials)
    if isinstance(credentials, ExternalAccount):
        _check_source(credentials.credential_source)


def _check_source(source: SubjectSource) -> None:
    if source.executable is not None:
        raise FileFault("it names a program that gives tokens, and the gateway runs no programs for them")
    if source.certificate is not None:
        raise FileFault("it names a certificate, which is not supported")
    if source.environment_id is not None:
        if not source.environment_id.startswith("aws"):
            raise FileFault("its credential_source has an environment_id that is not supported")
        if source.regional_cred_verification_url is None:
            raise FileFault("its credential_source has no regional_cred_verification_url")
        if not is_allowed(source.regional_cred_verification_url.replace("{region}", "region")):
            raise FileFault("regional_cred_verification_url must begin with https://")
    elif (source.file is None) == (source.url is None):
        raise FileFault("its credential_source needs either file or url")
    for url in (source.url, source.region_url, source.imdsv2_session_token_url):
        if url is not None and not is_allowed(url, is_metadata=True):
            raise FileFault("an address of its credential_source must begin with https://")
    for name, value in source.headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise FileFault("a header of its credential_source contains a character that cannot be sent")
    if source.format.type not in ("text", "json"):
        raise FileFault("its credential_source has an unknown format")
    if source.format.type == "json" and not source.format.subject_token_field_name:
        raise FileFault("its credential_source has no subject_token_field_name")
