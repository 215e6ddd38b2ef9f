"""JSON Web Tokens that the gateway signs itself, to get an access token for them.

RS256 and PS256, with `cryptography` (extra `clouds`), which is imported when a token is signed first. A private key is
never part of an error. Signing takes half a millisecond, and the import much longer: call it in a thread.
"""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from streamweir.wire import jsonio

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

NO_LIBRARY = "signing needs a library: install streamweir[clouds]"


class KeyFault(Exception):
    """The key cannot be used. The text is the reason, without the key."""


def can_sign() -> bool:
    """The library is there."""
    return find_spec("cryptography") is not None


def signed_token(
    header: Mapping[str, Any],
    claims: Mapping[str, Any],
    key: bytes,
    *,
    algorithm: Literal["RS256", "PS256"] = "RS256",
) -> str:
    """`key`: an RSA private key as PEM. `header`: what it has beside `alg` and `typ`. Raises `KeyFault`."""
    private_key = rsa_key(key)
    from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS, PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    parts = {"alg": algorithm, "typ": "JWT", **header}, claims
    signed = b".".join(base64url(jsonio.encode(part)) for part in parts)
    padding = PKCS1v15() if algorithm == "RS256" else PSS(MGF1(SHA256()), SHA256.digest_size)
    signature = private_key.sign(signed, padding, SHA256())
    return f"{signed.decode()}.{base64url(signature).decode()}"


def rsa_key(key: bytes, *, is_checked: bool = True) -> "RSAPrivateKey":
    """Raises `KeyFault`. `is_checked`: its numbers are, which takes fifty milliseconds."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:
        raise KeyFault(NO_LIBRARY) from None
    try:
        private_key = load_pem_private_key(key, password=None, unsafe_skip_rsa_key_validation=not is_checked)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it is encrypted
        raise KeyFault("the private key cannot be read: it must be an RSA key as PEM, without a password") from None
    if not isinstance(private_key, RSAPrivateKey):
        raise KeyFault("the private key is not an RSA key")
    if private_key.key_size < 2048:
        raise KeyFault("the private key is too short: it must have at least 2048 bits")
    return private_key


def base64url(data: bytes) -> bytes:
    """Without padding, as tokens have it."""
    return urlsafe_b64encode(data).rstrip(b"=")
