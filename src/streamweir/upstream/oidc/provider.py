"""An identity provider over the network: where a browser is sent, and who comes back (OpenID Connect Core 1.0, section
3.1: the authorization code flow, with PKCE by S256).

Where it connects is said by the operator's issuer and by the documents that the issuer publishes, never by a browser.
Every answer is bounded in size and time, and redirects are not followed (`upstream.fetch`). Documents are read by one
call at a time and kept for an hour; a failure is kept for some seconds, so that a provider that hangs is not asked by
everyone who waits. Its keys are read again when a token names an unknown one, at most once in some seconds. Codes and
tokens are never part of an error.
"""

import asyncio
import re
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any, Generic, TypeVar
from urllib.parse import quote_plus, urlencode

from msgspec import Struct

from streamweir.core.errors import StreamweirError
from streamweir.upstream.cloud.jwt import base64url
from streamweir.upstream.fetch import Fetched, fetch
from streamweir.upstream.head import Fields
from streamweir.upstream.oidc.documents import (
    MAX_DOCUMENT_BYTES,
    Metadata,
    ProviderFault,
    PublicKey,
    document_in,
    keys_in,
    metadata_in,
)
from streamweir.upstream.oidc.id_token import Expected, UnknownKey, verified
from streamweir.wire import jsonio

DISCOVERY = "/.well-known/openid-configuration"
FRESH_S = 3600.0
REFRESH_S = 10.0
"""Between two readings of the keys because of an unknown one."""
RETRY_S = 5.0
"""After a failure."""
_ERRORS = frozenset(
    {"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type"}
)
"""RFC 6749, section 5.2. Others are not repeated."""
_OF_EMAIL = ("email", "email_verified")
_TOKEN = re.compile(r"[\x21-\x7e]{1,65536}")
_JSON = ("accept", "application/json")
T = TypeVar("T")


class ProviderAway(ProviderFault):
    """It does not answer."""


class ProviderSettings(Struct, frozen=True, kw_only=True):
    issuer: str
    client_id: str
    client_secret: str | None
    scopes: tuple[str, ...]
    wanted: tuple[str, ...]
    """Claims. If the ID token lacks one, the user info is read."""
    timeout_s: float
    """Of one call."""
    proxy: str | None = None
    ca_file: str | None = None

    def __repr__(self) -> str:
        return f"ProviderSettings({self.issuer!r})"


class Challenge(Struct, frozen=True, kw_only=True):
    """What binds an answer to the browser and to the sign-in that asked for it."""

    nonce: str
    verifier: str
    redirect_uri: str

    def __repr__(self) -> str:
        return "Challenge('****')"


class IdentityProvider:
    def __init__(self, settings: ProviderSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self.skew_s: float | None = None
        """How far the provider's clock was ahead of ours, when its discovery document was read."""
        self._metadata = _Kept(self._read_metadata, clock)
        self._keys = _Kept(self._read_keys, clock)

    async def metadata(self) -> Metadata:
        """Raises `ProviderFault`."""
        return await self._metadata.get()

    async def keys(self) -> tuple[PublicKey, ...]:
        """Raises `ProviderFault`."""
        return await self._keys.get()

    async def address(self, challenge: Challenge, state: str) -> str:
        """Where the browser is sent. Raises `ProviderFault`."""
        endpoint = (await self.metadata()).authorization_endpoint
        query = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": challenge.redirect_uri,
            "scope": " ".join(self.settings.scopes),
            "state": state,
            "nonce": challenge.nonce,
            "code_challenge": base64url(sha256(challenge.verifier.encode()).digest()).decode(),
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    async def claims(self, code: str, challenge: Challenge, now_s: float) -> dict[str, Any]:
        """Who has come back with this code. Raises `ProviderFault`."""
        id_token, access_token = await self._tokens(code, challenge)
        expected = Expected(
            issuer=self.settings.issuer,
            client_id=self.settings.client_id,
            nonce=challenge.nonce,
            access_token=access_token,
            now_s=now_s,
        )
        try:
            claims = await asyncio.to_thread(verified, id_token, await self._keys.get(), expected)
        except UnknownKey:
            claims = await asyncio.to_thread(verified, id_token, await self._keys.renew(), expected)
        if access_token is None or all(name in claims for name in self.settings.wanted):
            return claims
        return merged(claims, await self._user_info(access_token, claims["sub"]))

    async def _tokens(self, code: str, challenge: Challenge) -> tuple[str, str | None]:
        metadata, settings = await self.metadata(), self.settings
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": challenge.redirect_uri,
            "code_verifier": challenge.verifier,
        }
        headers: Fields = (("content-type", "application/x-www-form-urlencoded"), _JSON)
        if settings.client_secret is not None and metadata.takes_basic:
            # RFC 6749, section 2.3.1: both are encoded as in a form
            pair = f"{quote_plus(settings.client_id)}:{quote_plus(settings.client_secret)}"
            headers = (*headers, ("authorization", f"Basic {b64encode(pair.encode()).decode()}"))
        else:
            form["client_id"] = settings.client_id
            form |= {"client_secret": settings.client_secret} if settings.client_secret is not None else {}
        answer = await self._fetch(metadata.token_endpoint, "POST", headers, urlencode(form).encode())
        if answer.status != 200:
            raise ProviderFault(f"the identity provider gave no token{_code_in(answer)}: {_ADVICE}")
        document = document_in(answer, "token")
        id_token, access_token = document.get("id_token"), document.get("access_token")
        if not isinstance(id_token, str):
            raise ProviderFault("the identity provider sent no ID token: oidc.scopes must have openid")
        is_usable = isinstance(access_token, str) and _TOKEN.fullmatch(access_token)
        return id_token, str(access_token) if is_usable else None

    async def _user_info(self, access_token: str, subject: str) -> dict[str, Any]:
        """What the provider says about the person beside the ID token; empty if it says nothing."""
        endpoint = (await self.metadata()).userinfo_endpoint
        if endpoint is None:
            return {}
        answer = await self._fetch(endpoint, "GET", (_JSON, ("authorization", f"Bearer {access_token}")))
        document = document_in(answer, "user info")
        if document.get("sub") != subject:
            raise ProviderFault("the user info of the identity provider is about somebody else")
        return document

    async def _read_metadata(self) -> Metadata:
        issuer, sent_at = self.settings.issuer, time.time()
        answer = await self._fetch(f"{issuer.rstrip('/')}{DISCOVERY}", "GET", (_JSON,))
        self.skew_s = answer.skew_s((sent_at + time.time()) / 2)
        return metadata_in(document_in(answer, "discovery"), issuer)

    async def _read_keys(self) -> tuple[PublicKey, ...]:
        metadata = await self.metadata()
        return keys_in(document_in(await self._fetch(metadata.jwks_uri, "GET", (_JSON,)), "keys"))

    async def _fetch(self, url: str, method: str, headers: Fields, body: bytes = b"") -> Fetched:
        settings = self.settings
        try:
            return await fetch(
                url,
                method=method,
                headers=headers,
                body=body,
                timeout_s=settings.timeout_s,
                max_bytes=MAX_DOCUMENT_BYTES,
                proxy=settings.proxy,
                ca_file=settings.ca_file,
            )
        except StreamweirError as error:
            reason = error.message
        raise ProviderAway(f"the identity provider cannot be reached: {reason}")


def merged(claims: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Those of the ID token count first. An address and whether it is verified are of one document."""
    of_email = more if "email" in more and "email_verified" not in claims else claims
    other = {name: value for name, value in {**more, **claims}.items() if name not in _OF_EMAIL}
    return other | {name: of_email[name] for name in _OF_EMAIL if name in of_email}


_ADVICE = "check oidc.client_id, oidc.client_secret and oidc.url, and what is registered there"


def _code_in(answer: Fetched) -> str:
    try:
        document = jsonio.decode(answer.body)
    except jsonio.InvalidJson:
        return ""
    code = document.get("error") if isinstance(document, dict) else None
    return f" ({code})" if isinstance(code, str) and code in _ERRORS else ""


class _Kept(Generic[T]):
    """A document that is read by one call at a time."""

    def __init__(self, read: Callable[[], Awaitable[T]], clock: Callable[[], float]) -> None:
        self._read = read
        self._clock = clock
        self._turn = asyncio.Lock()
        self._value: T | None = None
        self._read_s = 0.0
        self._fault: ProviderFault | None = None
        self._failed_s = 0.0

    async def get(self) -> T:
        async with self._turn:
            return await self._newer_than(FRESH_S)

    async def renew(self) -> T:
        async with self._turn:
            return await self._newer_than(REFRESH_S)

    async def _newer_than(self, age_s: float) -> T:
        if self._value is not None and self._clock() - self._read_s < age_s:
            return self._value
        if self._fault is not None and self._clock() - self._failed_s < RETRY_S:
            raise type(self._fault)(*self._fault.args)
        try:
            self._value = await self._read()
        except ProviderFault as fault:
            self._fault, self._failed_s = fault.with_traceback(None), self._clock()
            raise
        self._read_s, self._fault = self._clock(), None
        return self._value
