"""Checks the settings for an identity provider. Pure. A reason never contains a URL or a secret."""

import re
from collections.abc import Iterator
from importlib.util import find_spec
from urllib.parse import urlsplit

from streamweir.config.address import fault_of_plain_url, fault_of_proxy, is_loopback
from streamweir.config.error import ConfigProblem, entry
from streamweir.config.model import Config
from streamweir.config.oidc import Oidc, OidcRole
from streamweir.policy.permission import WORKSPACE_ROLES, Role

_DOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")
"""RFC 6749, section 3.3."""


def check_oidc(config: Config) -> Iterator[ConfigProblem]:
    oidc = config.oidc
    if oidc is None:
        return
    if config.store.is_none:
        yield ConfigProblem("oidc", 'needs a database: set store.url to something other than "none"')
    if find_spec("cryptography") is None:
        yield ConfigProblem("oidc", "needs a library: install streamweir[oidc]")
    faults = {
        "issuer": _fault_of_address(oidc.issuer),
        "url": _fault_of_address(oidc.url) or _fault_of_origin(oidc.url),
        "client_id": None if oidc.client_id.isascii() and oidc.client_id.isprintable() else "must be printable ASCII",
        "client_secret": "is empty: leave it out for a client without a secret" if oidc.client_secret == "" else None,
        "name": None if _is_plain(oidc.name) else "must be plain text without spaces at the start or end",
        "scopes": _fault_of_scopes(oidc),
        "proxy": fault_of_proxy(oidc.proxy) if oidc.proxy is not None else None,
    }
    for name, fault in faults.items():
        if fault is not None:
            yield ConfigProblem(f"oidc.{name}", fault)
    for index, domain in enumerate(oidc.domains):
        if _DOMAIN.fullmatch(domain) is None:
            reason = "must be a domain in small letters, without @ (one outside ASCII is written as xn--...)"
            yield ConfigProblem(entry("oidc.domains", index), reason)
    for index, rule in enumerate(oidc.roles):
        yield from _check_role(rule, entry("oidc.roles", index))


def _check_role(rule: OidcRole, where: str) -> Iterator[ConfigProblem]:
    if rule.role in WORKSPACE_ROLES and rule.workspace is None:
        yield ConfigProblem(f"{where}.workspace", f'is needed: the role "{rule.role}" has a workspace')
    elif Role(rule.role) not in WORKSPACE_ROLES and rule.workspace is not None:
        yield ConfigProblem(f"{where}.workspace", f'must be left out: the role "{rule.role}" is for all workspaces')


def _fault_of_address(url: str) -> str | None:
    fault = fault_of_plain_url(url)
    if fault is not None:
        return fault
    parts = urlsplit(url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        return "must begin with https://: plain HTTP is for addresses of this machine only"
    return None


def _fault_of_origin(url: str) -> str | None:
    """The page and the API are at fixed paths."""
    return "must be https://HOST, with nothing after it" if urlsplit(url).path not in ("", "/") else None


def _fault_of_scopes(oidc: Oidc) -> str | None:
    if "openid" not in oidc.scopes:
        return 'must contain "openid"'
    return None if all(_SCOPE.fullmatch(each) for each in oidc.scopes) else "must be words without spaces and quotes"


def _is_plain(text: str) -> bool:
    return text.isprintable() and text == text.strip()
