"""Access tokens of Microsoft Entra ID, for Azure OpenAI and Microsoft Foundry.

    secret, or an assertion (signed with the key of a certificate, or by another identity provider)
        -> token service of the tenant -> access token
    managed identity (`upstream.cloud.managed_identity`) -> access token

A token is fetched by one refresh at a time and kept by `upstream.credential`. Files are read again for each token: they
are rotated, and Kubernetes replaces the token of a workload every hour. Of the service's answers only their numbers
(AADSTS...) are shown.
"""

import asyncio
import os
import re
import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Literal
from urllib.parse import quote, urlencode

from msgspec import Struct

from streamweir.upstream.authorized import BearerAuthorizer
from streamweir.upstream.cloud.file import FileFault, FileReads, read_file
from streamweir.upstream.cloud.jwt import NO_LIBRARY, KeyFault, base64url, can_sign, rsa_key, signed_token
from streamweir.upstream.cloud.managed_identity import METADATA_SERVICE, ManagedIdentity
from streamweir.upstream.cloud.token_answer import token_in
from streamweir.upstream.credential import Lease, RefreshedCredential, RefreshFailure, refused_by
from streamweir.upstream.fetch import Fetched, fetch
from streamweir.wire import jsonio

SCOPE = "https://cognitiveservices.azure.com/.default"
AUTHORITY_URL = "https://login.microsoftonline.com"
_SERVICE = "Microsoft's token service"
_TIMEOUT_S = 8.0
"""For the one call; a refresh has ten seconds in all."""
_ASSERTION_S = 300
_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_FORM = (("content-type", "application/x-www-form-urlencoded"), ("accept", "application/json"))
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----")
_KEY = re.compile(r"-----BEGIN (?P<kind>[A-Z ]*PRIVATE KEY)-----[^-]*-----END (?P=kind)-----")

_ADVICE = {
    7000215: "The client secret is wrong: client_secret must be the value of the secret, and not its ID.",
    7000222: "The client secret has expired: create another one, and set client_secret to it.",
    700016: "The tenant has no application with this client_id: check client_id and tenant_id.",
    90002: "There is no tenant with this tenant_id: check it, and authority_url if it is in a national cloud.",
    700027: "The application does not know the certificate: upload it to the application.",
    700024: "The assertion is not valid at this time: check the clock of this machine.",
    700211: "The application trusts no federated credential of this issuer: check those of the application.",
    700213: "The application trusts no federated credential of this subject: check those of the application.",
    70021: "The application trusts no federated credential that fits: check the issuer and the subject of those of the "
    "application.",
    700212: "The audience of the federated token is another than that of the application's federated credential.",
    500011: "The tenant does not know the resource of the scope: check scope, or leave it out.",
    70011: "The scope is not valid: it must end in /.default.",
    1002012: "The scope is not valid: it must end in /.default.",
    7000112: "The application is disabled: enable it in the tenant.",
    53003: "A conditional access policy of the tenant blocks the application.",
}
"""What to do, by the number of the error."""
_OTHERWISE = "Check tenant_id, client_id and the credentials of the application."


class EntraSettings(Struct, frozen=True, kw_only=True):
    source: Literal["secret", "certificate", "managed_identity", "workload_identity"] = "secret"
    tenant_id: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    certificate_file: str | None = None
    certificate_key_file: str | None = None
    """None: the key is in the file of the certificate."""
    federated_token_file: str | None = None
    scope: str | None = None
    authority_url: str | None = None
    metadata_url: str | None = None
    proxy: str | None = None
    """Not for metadata services, which are in the machine's own network."""
    ca_file: str | None = None

    def __repr__(self) -> str:
        return f"EntraSettings({self.source})"


def authorizer_of(
    settings: EntraSettings,
    *,
    on_failure: Callable[[RefreshFailure], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> BearerAuthorizer:
    """Raises `ValueError` if the certificate cannot be used."""
    scope = settings.scope or SCOPE
    if settings.source == "managed_identity":
        identity = ManagedIdentity(
            resource=scope.removesuffix("/.default"), client_id=settings.client_id, metadata_url=settings.metadata_url
        )
        return BearerAuthorizer(
            RefreshedCredential(METADATA_SERVICE, identity.fetch, on_failure=on_failure, clock=clock)
        )
    if settings.source == "certificate":
        try:
            Certificate.read(settings)
        except (FileFault, KeyFault) as reason:
            raise ValueError(f"the certificate cannot be used: {reason}") from None
    tokens = EntraTokens(settings, scope)
    return BearerAuthorizer(RefreshedCredential(_SERVICE, tokens.fetch, on_failure=on_failure, clock=clock))


class Certificate(Struct, frozen=True):
    thumbprint: str
    """SHA-256 of the certificate."""
    key: bytes
    """PEM."""

    def __repr__(self) -> str:
        return "Certificate()"

    @classmethod
    def read(cls, settings: EntraSettings) -> "Certificate":
        """Raises `FileFault` and `KeyFault`."""
        if not can_sign():
            raise FileFault(NO_LIBRARY)
        text = _text(settings.certificate_file or "", "certificate_file")
        certificate = _CERTIFICATE.search(text)
        if certificate is None:
            raise FileFault("certificate_file has no certificate as PEM")
        where = "certificate_file" if settings.certificate_key_file is None else "certificate_key_file"
        key = _KEY.search(
            text if settings.certificate_key_file is None else _text(settings.certificate_key_file, where)
        )
        if key is None:
            raise FileFault(f"{where} has no private key as PEM")
        return cls(_thumbprint(certificate[0].encode(), key[0].encode()), key[0].encode())

    def sign(self, url: str, client_id: str) -> str:
        """Raises `KeyFault`."""
        now = int(time.time())
        claims = {
            "aud": url,
            "iss": client_id,
            "sub": client_id,
            "jti": str(uuid.uuid4()),
            "nbf": now,
            "iat": now,
            "exp": now + _ASSERTION_S,
        }
        return signed_token({"x5t#S256": self.thumbprint}, claims, self.key, algorithm="PS256")


class EntraTokens:
    """Where tokens of applications come from. What was fetched is kept by the caller."""

    def __init__(self, settings: EntraSettings, scope: str) -> None:
        self._settings = settings
        self._files = FileReads()
        self._scope = scope

    async def fetch(self) -> Lease[str]:
        """Raises `StreamweirError`."""
        settings, variables = self._settings, self._variables()
        tenant, client_id = settings.tenant_id or variables.get("AZURE_TENANT_ID"), settings.client_id
        client_id = client_id or variables.get("AZURE_CLIENT_ID")
        if not tenant or not client_id:
            raise refused_by("Workload identity is not set up: AZURE_TENANT_ID or AZURE_CLIENT_ID is missing.")
        authority = settings.authority_url or variables.get("AZURE_AUTHORITY_HOST") or AUTHORITY_URL
        url = f"{authority.rstrip('/')}/{quote(tenant, safe='')}/oauth2/v2.0/token"
        form = {"grant_type": "client_credentials", "client_id": client_id, "scope": self._scope}
        form |= await self._proof(url, client_id)
        answer = await fetch(
            url,
            method="POST",
            headers=_FORM,
            body=urlencode(form).encode(),
            timeout_s=_TIMEOUT_S,
            proxy=settings.proxy,
            ca_file=settings.ca_file,
        )
        return token_in(answer, _SERVICE, _advice(answer))

    def _variables(self) -> dict[str, str]:
        """Those of the environment that workload identity sets."""
        return dict(os.environ) if self._settings.source == "workload_identity" else {}

    async def _proof(self, url: str, client_id: str) -> dict[str, str]:
        """What shows that the gateway is the application."""
        settings = self._settings
        if settings.source == "secret":
            return {"client_secret": settings.client_secret or ""}
        try:
            if settings.source == "certificate":
                certificate = await self._files.run(partial(Certificate.read, settings))
                assertion = await asyncio.to_thread(certificate.sign, url, client_id)
            else:
                assertion = await self._files.run(self._federated_token)
        except (FileFault, KeyFault) as reason:
            raise refused_by(f"The credential for {_SERVICE} cannot be used: {reason}.") from None
        return {"client_assertion_type": _ASSERTION_TYPE, "client_assertion": assertion}

    def _federated_token(self) -> str:
        path = self._settings.federated_token_file or os.environ.get("AZURE_FEDERATED_TOKEN_FILE")
        if not path:
            raise FileFault("workload identity is not set up: AZURE_FEDERATED_TOKEN_FILE is missing")
        token = _text(path, "federated_token_file").strip()
        if not token:
            raise FileFault("federated_token_file is empty")
        return token


def _thumbprint(certificate: bytes, key: bytes) -> str:
    """Of the certificate, which must be that of the key. Raises `FileFault`, and `KeyFault` for the key."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509 import load_pem_x509_certificate

    try:
        loaded = load_pem_x509_certificate(certificate)
        public_key = loaded.public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise FileFault("the certificate in certificate_file is damaged") from None
    if public_key != rsa_key(key, is_checked=False).public_key():
        raise FileFault("the private key is not that of the certificate")
    return base64url(loaded.fingerprint(SHA256())).decode()


def _text(path: str, where: str) -> str:
    try:
        return read_file(path).decode()
    except FileFault as reason:
        raise FileFault(f"{where}: {reason}") from None
    except UnicodeDecodeError:
        pass
    raise FileFault(f"{where}: it is not text")  # outside of the handler, whose exception contains the file


def _advice(answer: Fetched) -> str:
    """`{"error": "invalid_client", "error_codes": [7000215], ...}`: the description may quote what was sent."""
    if answer.is_success:
        return ""
    try:
        document = jsonio.decode(answer.body)
    except jsonio.InvalidJson:
        return _OTHERWISE
    codes = document.get("error_codes") if isinstance(document, dict) else None
    numbers = [each for each in codes if type(each) is int and each >= 0] if isinstance(codes, list) else []
    known = next((each for each in numbers if each in _ADVICE), None)
    if known is not None:
        return f"{_ADVICE[known]} (AADSTS{known})"
    return f"{_OTHERWISE} (AADSTS{numbers[0]})" if numbers and numbers[0] < 10**9 else _OTHERWISE
