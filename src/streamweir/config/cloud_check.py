"""Checks of the tables that say how the gateway authorizes itself at a cloud, and of the names of their files."""

from collections.abc import Callable, Iterator
from typing import TypeVar
from urllib.parse import urlsplit

from msgspec import Struct, structs

from streamweir.config.address import fault_of_url, is_loopback
from streamweir.config.cloud import GoogleAuth
from streamweir.config.error import ConfigProblem
from streamweir.config.model import Provider

Table = TypeVar("Table", bound=Struct)
TABLES = ("aws", "google", "entra")


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


def _google(table: GoogleAuth, where: str) -> Iterator[ConfigProblem]:
    if table.source == "file" and table.credentials_file is None:
        yield ConfigProblem(f"{where}.credentials_file", 'missing: the source "file" needs it')
    if table.source == "metadata" and table.credentials_file is not None:
        yield ConfigProblem(f"{where}.credentials_file", 'has no effect with the source "metadata"')
    yield from _secret_url(table.token_url, f"{where}.token_url")
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
