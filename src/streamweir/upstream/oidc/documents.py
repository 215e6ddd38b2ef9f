"""The documents of an identity provider: what it says about itself (OpenID Connect Discovery 1.0), and its keys (RFC
7517). Pure.

A document that says the wrong issuer is refused as a whole. Its endpoints use TLS, unless the issuer is on this machine
and has none itself. Keys that cannot verify a token of ours are left out: other algorithms, keys for encryption, and
RSA keys of a size that is too short to be safe, or so long that a verification takes long.
"""

from base64 import urlsafe_b64decode
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from streamweir.core.errors import CallerError
from streamweir.upstream.cloud.jwt import base64url
from streamweir.upstream.fetch import Fetched
from streamweir.wire import jsonio

MAX_DOCUMENT_BYTES = 256 * 1024
MAX_KEYS = 100
MAX_URL_LENGTH = 2048
MIN_RSA_BITS, MAX_RSA_BITS = 2048, 8192
_MAX_EXPONENT = 2**32
_P256_BYTES = 32
_MAX_NUMBER_LENGTH = MAX_RSA_BITS // 6 + 8
_RSA_ALGORITHMS = ("RS256", "PS256")


class ProviderFault(Exception):
    """The provider cannot be used, or its answer is not valid. The text is the reason, without anything that is secret
    or that the provider chose."""


class Metadata(Struct, frozen=True, kw_only=True):
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    takes_basic: bool
    """Of the client's secret: in a header, else in the body."""
    sends_issuer: bool
    """With every answer to a browser (RFC 9207)."""


class PublicKey(Struct, frozen=True, kw_only=True):
    """Of one algorithm at least. Either the numbers of RSA, or the point of P-256."""

    id: str | None
    algorithms: tuple[str, ...]
    n: int = 0
    e: int = 0
    x: int = 0
    y: int = 0


def document_in(answer: Fetched, what: str) -> dict[str, Any]:
    """Raises `ProviderFault`."""
    if answer.status != 200:
        raise ProviderFault(f"{what}: the identity provider answered with status {answer.status}")
    try:
        document = jsonio.decode_body(answer.body)
    except CallerError:  # what it says is for callers of the gateway
        document = None
    if document is None:  # outside of the handler, whose exception may quote the answer
        raise ProviderFault(f"{what}: the answer of the identity provider is not a JSON object")
    return document


def metadata_in(document: dict[str, Any], issuer: str) -> Metadata:
    """Raises `ProviderFault`."""
    if document.get("issuer") != issuer:
        raise ProviderFault(
            "the discovery document is of another issuer: set oidc.issuer to exactly what its member `issuer` says"
        )
    has_tls = urlsplit(issuer).scheme == "https"
    methods = document.get("token_endpoint_auth_methods_supported")
    return Metadata(
        authorization_endpoint=_endpoint(document, "authorization_endpoint", has_tls),
        token_endpoint=_endpoint(document, "token_endpoint", has_tls),
        jwks_uri=_endpoint(document, "jwks_uri", has_tls),
        userinfo_endpoint=_endpoint(document, "userinfo_endpoint", has_tls)
        if document.get("userinfo_endpoint") is not None
        else None,
        takes_basic=not isinstance(methods, list) or "client_secret_basic" in methods,
        sends_issuer=document.get("authorization_response_iss_parameter_supported") is True,
    )


def keys_in(document: dict[str, Any]) -> tuple[PublicKey, ...]:
    """Raises `ProviderFault`."""
    keys = document.get("keys")
    if not isinstance(keys, list) or len(keys) > MAX_KEYS:
        raise ProviderFault(f"the keys of the identity provider are not a list of at most {MAX_KEYS}")
    return tuple(key for each in keys if isinstance(each, dict) and (key := _key_in(each)) is not None)


def decoded(text: str) -> bytes | None:
    """base64url without padding, in its only form. None: it is not."""
    if not text.isascii():
        return None
    try:
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return None
    return data if base64url(data) == text.encode() else None


def _key_in(key: dict[str, Any]) -> PublicKey | None:
    id, algorithm = key.get("kid"), key.get("alg")
    operations = key.get("key_ops")
    if key.get("use", "sig") != "sig" or (isinstance(operations, list) and "verify" not in operations):
        return None
    if not isinstance(id, str | None):
        return None
    if key.get("kty") == "RSA":
        n, e = _number(key.get("n")), _number(key.get("e"))
        allowed = tuple(each for each in _RSA_ALGORITHMS if algorithm in (None, each))
        is_safe = MIN_RSA_BITS <= n.bit_length() <= MAX_RSA_BITS and 3 <= e < _MAX_EXPONENT and e % 2 == 1
        return PublicKey(id=id, algorithms=allowed, n=n, e=e) if allowed and is_safe else None
    if key.get("kty") == "EC" and key.get("crv") == "P-256" and algorithm in (None, "ES256"):
        x, y = _number(key.get("x"), _P256_BYTES), _number(key.get("y"), _P256_BYTES)
        return PublicKey(id=id, algorithms=("ES256",), x=x, y=y) if x and y else None
    return None


def _number(text: object, size: int | None = None) -> int:
    """0: it is none."""
    data = decoded(text) if isinstance(text, str) and len(text) <= _MAX_NUMBER_LENGTH else None
    return int.from_bytes(data) if data and size in (None, len(data)) else 0


def _endpoint(document: dict[str, Any], name: str, has_tls: bool) -> str:
    url = document.get(name)
    if not isinstance(url, str) or len(url) > MAX_URL_LENGTH or not url.isascii() or not url.isprintable():
        raise ProviderFault(f"the discovery document has no usable {name}")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or " " in url or "@" in parts.netloc or parts.fragment:
        raise ProviderFault(f"the discovery document has no usable {name}")
    if parts.scheme != "https" and (has_tls or parts.scheme != "http"):
        raise ProviderFault(f"the {name} of the discovery document does not begin with https://")
    return url
