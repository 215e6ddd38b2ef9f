"""The identity provider of the configuration that is in use, and what an account there means here.

A reload with other settings makes another one, whose documents are read anew. How many answers are exchanged for tokens
at a time is bounded, whoever comes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from streamweir.config.oidc import Oidc
from streamweir.policy.permission import Role
from streamweir.server.control.identity_failure import SignInFailure
from streamweir.store.keys.federated_people import Account
from streamweir.store.keys.people import email_of
from streamweir.upstream.oidc.provider import IdentityProvider, ProviderSettings

RETURN_PATH = "/api/oidc/callback"
MAX_EXCHANGES = 16


class Identity:
    def __init__(self) -> None:
        self._oidc: Oidc | None = None
        self._provider: IdentityProvider | None = None
        self._exchanges = 0

    def provider(self, oidc: Oidc) -> IdentityProvider:
        if self._provider is None or self._oidc != oidc:
            self._oidc, self._provider = oidc, IdentityProvider(provider_settings(oidc))
        return self._provider

    @contextmanager
    def exchange(self) -> Iterator[bool]:
        """False: there are too many at the moment."""
        is_free = self._exchanges < MAX_EXCHANGES
        self._exchanges += is_free
        try:
            yield is_free
        finally:
            self._exchanges -= is_free


def provider_settings(oidc: Oidc) -> ProviderSettings:
    wanted = (oidc.name_claim, "email", *((oidc.groups_claim,) if oidc.roles else ()))
    return ProviderSettings(
        issuer=oidc.issuer,
        client_id=oidc.client_id,
        client_secret=oidc.client_secret,
        scopes=oidc.scopes,
        wanted=wanted,
        timeout_s=oidc.timeout_s,
        proxy=oidc.proxy,
        ca_file=oidc.ca_file,
    )


def redirect_uri(oidc: Oidc) -> str:
    """Never from a request's `Host`."""
    return oidc.url.rstrip("/") + RETURN_PATH


def account_of(oidc: Oidc, claims: dict[str, Any]) -> Account | SignInFailure:
    """What the claims mean by the operator's rules. An address counts only if the provider has verified it."""
    email = _verified_email(claims)
    if oidc.domains:
        if email is None:
            return SignInFailure.UNVERIFIED
        if email.rpartition("@")[2] not in oidc.domains:
            return SignInFailure.DOMAIN
    groups = _texts(claims.get(oidc.groups_claim))
    rule = next((each for each in oidc.roles if each.group in groups), None)
    names = (claims.get(name) for name in (oidc.name_claim, "preferred_username", "email"))
    return Account(
        issuer=oidc.issuer,
        subject=claims["sub"],
        name=next((each for each in names if isinstance(each, str) and each.strip()), ""),
        email=email,
        role=Role(rule.role) if rule is not None else None,
        workspace=rule.workspace if rule is not None else None,
    )


def _verified_email(claims: dict[str, Any]) -> str | None:
    """Some providers send the boolean as text."""
    email, is_verified = claims.get("email"), claims.get("email_verified")
    return email_of(email) if isinstance(email, str) and (is_verified is True or is_verified == "true") else None


def _texts(value: object) -> frozenset[str]:
    """Of a list, or of one."""
    values = value if isinstance(value, list) else [value]
    return frozenset(each for each in values if isinstance(each, str))
