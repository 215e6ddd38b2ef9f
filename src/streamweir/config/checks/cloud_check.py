"""Checks of where a provider is in a cloud and how the gateway authorizes itself there, and the names of its files."""

import re
from collections.abc import Callable, Iterator
from json import dumps
from typing import TypeVar
from urllib.parse import urlsplit

from msgspec import Struct, structs

from streamweir.config.address import fault_of_url, is_loopback
from streamweir.config.cloud import AwsAuth, EntraAuth, GoogleAuth
from streamweir.config.error import ConfigProblem
from streamweir.config.model import Provider

Table = TypeVar("Table", bound=Struct)
TABLES = ("aws", "google", "entra")
NAMED_BY_PLACE = ("bedrock", "bedrock-mantle", "vertex")
"""Kinds whose address follows from a setting, which is missing if they have none."""

_REGION = re.compile(r"[a-z]{2,5}(-[a-z]+)+-[0-9]{1,2}")
_SESSION_NAME = re.compile(r"[A-Za-z0-9+=,.@_-]{2,64}")


def with_files(table: Table, resolve: Callable[[str | None], str | None]) -> Table:
    """With the absolute names of its files."""
    files = {name: resolve(getattr(table, name)) for name in table.__struct_fields__ if name.endswith("_file")}
    return structs.replace(table, **files)


def check_cloud(provider: Provider, where: str) -> Iterator[ConfigProblem]:
    has_key = any(each.key or each.file for each in provider.credentials) or provider.api_key_file is not None
    for name in TABLES:
        table = getattr(provider, name)
        if table is None:
            continue
        if has_key:
            yield ConfigProblem(f"{where}.{name}", "has no effect with a key: leave one of them out")
        if isinstance(table, GoogleAuth):
            yield from _google(table, f"{where}.{name}")
        elif isinstance(table, EntraAuth):
            yield from _entra(table, f"{where}.{name}")
        elif isinstance(table, AwsAuth):
            yield from _aws(table, f"{where}.{name}")
    if provider.kind in ("bedrock", "bedrock-mantle"):
        yield from _region(provider, has_key, where)


def _region(provider: Provider, has_key: bool, where: str) -> Iterator[ConfigProblem]:
    is_signed = not has_key and not any(name.lower() == "authorization" for name in provider.headers)
    if provider.region is None:
        if provider.base_url is None or is_signed:
            reason = f"missing: the kind {dumps(provider.kind)} needs the region, such as eu-central-1"
            yield ConfigProblem(f"{where}.region", reason)
    elif not _REGION.fullmatch(provider.region):
        yield ConfigProblem(f"{where}.region", "expected the name of a region such as eu-central-1")


_AWS_SOURCES = {
    "access_key_id": "static",
    "secret_access_key": "static",
    "session_token": "static",
    "profile": "profile",
    "web_identity_token_file": "web_identity",
}
"""Settings that only one source uses, beside the chain of all."""


def _aws(table: AwsAuth, where: str) -> Iterator[ConfigProblem]:
    for name, source in _AWS_SOURCES.items():
        if getattr(table, name) is not None and table.source not in ("chain", source):
            yield ConfigProblem(f"{where}.{name}", f"has no effect with the source {dumps(table.source)}")
    for name in ("access_key_id", "secret_access_key", "session_token"):
        if not re.fullmatch(r"[!-~]*", getattr(table, name) or ""):
            reason = "contains a character that cannot be sent, such as a space or a line break"
            yield ConfigProblem(f"{where}.{name}", reason)
    has_id, has_secret = table.access_key_id is not None, bool(table.secret_access_key)
    if has_id != has_secret:
        missing = "secret_access_key" if has_id else "access_key_id"
        yield ConfigProblem(f"{where}.{missing}", "missing: an access key has an id and a secret")
    elif table.source == "static" and not has_id:
        yield ConfigProblem(f"{where}.access_key_id", 'missing: the source "static" needs the access key')
    if table.role_arn is None:
        for name in ("external_id", "session_name", "web_identity_token_file"):
            if getattr(table, name) is not None and not (name == "session_name" and table.source == "web_identity"):
                yield ConfigProblem(f"{where}.{name}", "has no effect without role_arn")
    elif not re.fullmatch(r"arn:[!-~]+", table.role_arn):
        yield ConfigProblem(f"{where}.role_arn", "expected the ARN of a role: arn:aws:iam::ACCOUNT:role/NAME")
    if table.session_name is not None and not _SESSION_NAME.fullmatch(table.session_name):
        yield ConfigProblem(f"{where}.session_name", "must be 2 to 64 letters, digits and characters of +=,.@_-")
    yield from _secret_url(table.sts_url, f"{where}.sts_url")
    fault = fault_of_url(table.metadata_url, ("http", "https")) if table.metadata_url is not None else None
    if fault is not None:
        yield ConfigProblem(f"{where}.metadata_url", fault)


def _google(table: GoogleAuth, where: str) -> Iterator[ConfigProblem]:
    if table.source == "file" and table.credentials_file is None:
        yield ConfigProblem(f"{where}.credentials_file", 'missing: the source "file" needs it')
    if table.source == "metadata" and table.credentials_file is not None:
        yield ConfigProblem(f"{where}.credentials_file", 'has no effect with the source "metadata"')
    yield from _secret_url(table.token_url, f"{where}.token_url")
    fault = fault_of_url(table.metadata_url, ("http", "https")) if table.metadata_url is not None else None
    if fault is not None:
        yield ConfigProblem(f"{where}.metadata_url", fault)


_ENTRA_NEEDS = {
    "secret": ("tenant_id", "client_id", "client_secret"),
    "certificate": ("tenant_id", "client_id", "certificate_file"),
}
_ENTRA_TAKES = {
    "secret": ("tenant_id", "client_id", "client_secret", "authority_url"),
    "certificate": ("tenant_id", "client_id", "certificate_file", "certificate_key_file", "authority_url"),
    "managed_identity": ("client_id", "metadata_url"),
    "workload_identity": ("tenant_id", "client_id", "federated_token_file", "authority_url"),
}
"""Settings of each source, beside `scope`."""


def _entra(table: EntraAuth, where: str) -> Iterator[ConfigProblem]:
    source = table.source
    for name in _ENTRA_NEEDS.get(source, ()):
        if not getattr(table, name):
            yield ConfigProblem(f"{where}.{name}", f"missing: the source {dumps(source)} needs it")
    for name in table.__struct_fields__:
        if getattr(table, name) is not None and name not in (*_ENTRA_TAKES[source], "source", "scope"):
            yield ConfigProblem(f"{where}.{name}", f"has no effect with the source {dumps(source)}")
    for name in ("tenant_id", "client_id"):
        value = getattr(table, name)
        if value is not None and not re.fullmatch(r"[A-Za-z0-9._-]*", value):
            yield ConfigProblem(f"{where}.{name}", "must be letters, digits, dots, hyphens and underscores")
    if table.scope is not None and not re.fullmatch(r"[!-~]+/\.default", table.scope):
        yield ConfigProblem(f"{where}.scope", "expected a scope such as https://cognitiveservices.azure.com/.default")
    yield from _secret_url(table.authority_url, f"{where}.authority_url")
    fault = fault_of_url(table.metadata_url, ("http", "https")) if table.metadata_url is not None else None
    if fault is not None:
        yield ConfigProblem(f"{where}.metadata_url", fault)


def _secret_url(url: str | None, where: str) -> Iterator[ConfigProblem]:
    """An address to which a secret is sent: plain http is for this machine alone."""
    if url is None:
        return
    fault = fault_of_url(url, ("https", "http"))
    if fault is None and url.startswith("http:") and not is_loopback(urlsplit(url).hostname or ""):
        fault = "must begin with https://"
    if fault is not None:
        yield ConfigProblem(where, fault)
