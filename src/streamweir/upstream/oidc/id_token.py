"""Verifies ID tokens (OpenID Connect Core 1.0, section 3.1.3.7; RFC 7519, RFC 8725). Pure: the time is an argument.

The algorithm comes from the gateway's own table and must be one of the key that the token names: a token that says
`none`, or an HMAC, is refused before any key is looked at. Signature first, claims then: nothing of a token counts, and
nothing of it is shown, until its signature is verified. `cryptography` (extra `oidc`) is imported with the first
signature, which takes long: call `verified` in a thread.
"""

import hmac
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct

from streamweir.core.errors import CallerError
from streamweir.upstream.cloud.jwt import base64url
from streamweir.upstream.oidc.documents import ProviderFault, PublicKey, decoded
from streamweir.wire import jsonio

MAX_TOKEN_LENGTH = 128 * 1024
LEEWAY_S = 60.0
"""Between two clocks."""
MAX_SUBJECT_LENGTH = 255
_ALGORITHMS = ("RS256", "PS256", "ES256")
_P256_BYTES = 32


class UnknownKey(ProviderFault):
    """The token is of a key that is not among those that are known, or may be."""


class Expected(Struct, frozen=True, kw_only=True):
    """What the claims must say."""

    issuer: str
    client_id: str
    nonce: str
    access_token: str | None
    now_s: float


def verified(token: str, keys: Sequence[PublicKey], expected: Expected) -> dict[str, Any]:
    """The claims. Raises `ProviderFault`."""
    parts = token.split(".") if len(token) <= MAX_TOKEN_LENGTH else []
    if len(parts) != 3:
        raise ProviderFault("the ID token is not a signed token")
    header, signature = _object(parts[0]), decoded(parts[2])
    if header is None or not signature:
        raise ProviderFault("the ID token is not a signed token")
    algorithm = header.get("alg")
    if algorithm not in _ALGORITHMS:
        raise ProviderFault(f"the ID token is signed in a way that is not accepted: it must be {_OR}")
    if "crit" in header or "b64" in header:  # extensions that must be understood: none is
        raise ProviderFault("the ID token has extensions that are not supported")
    key = _key_for(header.get("kid"), str(algorithm), keys)
    if not _is_signed(f"{parts[0]}.{parts[1]}".encode(), signature, str(algorithm), key):
        # Without a name it may be of a newer key than the one that is known.
        kind = ProviderFault if "kid" in header else UnknownKey
        raise kind("the signature of the ID token is not valid")
    claims = _object(parts[1])
    if claims is None:
        raise ProviderFault("the claims of the ID token are not a JSON object")
    fault = fault_of_claims(claims, expected)
    if fault is not None:
        raise ProviderFault(f"the ID token is not valid here: {fault}")
    return claims


def fault_of_claims(claims: dict[str, Any], expected: Expected) -> str | None:
    now_s, subject = expected.now_s, claims.get("sub")
    if claims.get("iss") != expected.issuer:
        return "it is of another issuer"
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if expected.client_id not in audiences:
        return "it is for another client than oidc.client_id"
    if ("azp" in claims or len(audiences) > 1) and claims.get("azp") != expected.client_id:
        return "it was issued to another client than oidc.client_id"
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT_LENGTH or not subject.isprintable():
        return "it does not say who it is about"
    times = {name: _time(claims.get(name)) for name in ("exp", "iat")}
    if times["exp"] is None or times["iat"] is None:
        return "it does not say when it was issued and when it expires"
    if times["exp"] <= now_s - LEEWAY_S:
        return "it has expired: check the clock of this machine"
    not_before = _time(claims.get("nbf", times["iat"]))
    if not_before is None or max(not_before, times["iat"]) > now_s + LEEWAY_S:
        return "it is of the future: check the clock of this machine"
    if not _equal(claims.get("nonce"), expected.nonce):
        return "it is of another sign-in"
    if "at_hash" in claims and not _equal(claims["at_hash"], _hash_of(expected.access_token or "")):
        return "it belongs to another access token"
    return None


_OR = " or ".join((", ".join(_ALGORITHMS[:-1]), _ALGORITHMS[-1]))


def _key_for(id: object, algorithm: str, keys: Sequence[PublicKey]) -> PublicKey:
    """The one that it names. Without a name there must be one alone that fits."""
    if id is not None and all(key.id != id for key in keys):
        raise UnknownKey("the identity provider does not publish the key that the ID token is signed with")
    fitting = [key for key in keys if (id is None or key.id == id) and algorithm in key.algorithms]
    if not fitting:
        raise ProviderFault("the ID token is signed in a way that is not the one of its key")
    if len(fitting) > 1:
        raise ProviderFault("the ID token does not say which of several keys it is signed with")
    return fitting[0]


def _is_signed(data: bytes, signature: bytes, algorithm: str, key: PublicKey) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
    from cryptography.hazmat.primitives.hashes import SHA256

    try:
        if algorithm == "ES256":
            if len(signature) != 2 * _P256_BYTES:
                return False
            r, s = (int.from_bytes(part) for part in (signature[:_P256_BYTES], signature[_P256_BYTES:]))
            point = ec.EllipticCurvePublicNumbers(key.x, key.y, ec.SECP256R1()).public_key()
            point.verify(encode_dss_signature(r, s), data, ec.ECDSA(SHA256()))
        else:
            scheme = padding.PKCS1v15() if algorithm == "RS256" else padding.PSS(padding.MGF1(SHA256()), 32)
            rsa.RSAPublicNumbers(key.e, key.n).public_key().verify(signature, data, scheme, SHA256())
    except (InvalidSignature, ValueError):  # ValueError: the numbers are no key
        return False
    return True


def _object(part: str) -> dict[str, Any] | None:
    """One with no member twice."""
    data = decoded(part)
    if not data:
        return None
    try:
        return jsonio.decode_body(data)
    except CallerError:  # what it says is for callers of the gateway
        return None


def _time(value: object) -> float | None:
    """Seconds since 1970."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e11:
        return None
    return float(value)


def _hash_of(access_token: str) -> str:
    return base64url(sha256(access_token.encode()).digest()[:16]).decode()


def _equal(value: object, expected: str) -> bool:
    return isinstance(value, str) and hmac.compare_digest(value.encode("utf-8", "replace"), expected.encode())
