"""An identity provider (OpenID Connect) as a scripted server, which checks what it is sent.

Tokens are signed with `cryptography` alone, no code of the gateway. `sign_in` is what a person does at the provider: it
takes the address that the browser was sent to, and gives the one that the browser is sent back to. What the provider
gets wrong is a setting, so that each fault is one line of a test.
"""

import json
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from itertools import count
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from support.entra_server import private_key
from support.script import Seen, Step, whole

CLIENT = "streamweir at acme"
SECRET = "canary+secret/of=the:client"  # noqa: S105
GATEWAY = "http://localhost"
ADA: dict[str, Any] = {"sub": "ada-1", "name": "Ada Lovelace", "email": "Ada@Example.com", "email_verified": True}


def b64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def b64_int(number: int, size: int | None = None) -> str:
    return b64(number.to_bytes(size or (number.bit_length() + 7) // 8))


@cache
def ec_key(number: int) -> ec.EllipticCurvePrivateKey:  # noqa: ARG001 (one for each number)
    return ec.generate_private_key(ec.SECP256R1())


def jwk(number: int, kind: str = "RSA", **more: Any) -> dict[str, Any]:
    """The public half of a key."""
    key: dict[str, Any] = {"kid": f"{kind}-{number}", "use": "sig", "kty": kind}
    if kind == "RSA":
        numbers = private_key(number).public_key().public_numbers()
        key |= {"n": b64_int(numbers.n), "e": b64_int(numbers.e)}
    else:
        point = ec_key(number).public_key().public_numbers()
        key |= {"crv": "P-256", "x": b64_int(point.x, 32), "y": b64_int(point.y, 32)}
    return {name: value for name, value in (key | more).items() if value is not None}


def signed(claims: Any, number: int = 1, *, alg: str = "RS256", header: dict[str, Any] | None = None) -> str:
    """`header`: None takes a member out."""
    kind = "EC" if alg == "ES256" else "RSA"
    members = {"alg": alg, "typ": "JWT", "kid": f"{kind}-{number}"} | (header or {})
    shown = {name: value for name, value in members.items() if value is not None}
    parts = [claims if isinstance(claims, bytes) else json.dumps(claims).encode()]
    data = ".".join(b64(part) for part in (json.dumps(shown).encode(), *parts)).encode()
    return f"{data.decode()}.{b64(_signature(data, number, alg))}"


def _signature(data: bytes, number: int, alg: str) -> bytes:
    if alg == "ES256":
        r, s = decode_dss_signature(ec_key(number).sign(data, ec.ECDSA(SHA256())))
        return r.to_bytes(32) + s.to_bytes(32)
    scheme = padding.PKCS1v15() if alg == "RS256" else padding.PSS(padding.MGF1(SHA256()), 32)
    return private_key(number).sign(data, scheme, SHA256())


@dataclass
class OidcServer:
    """Its knowledge. `script` is for a `ScriptedUpstream`."""

    port: int = 0
    person: dict[str, Any] = field(default_factory=lambda: dict(ADA))
    """What the ID token says of who signs in."""
    more: dict[str, Any] | None = None
    """What the user info says; None: there is none."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """Other members of the discovery document; None takes one out."""
    keys: list[dict[str, Any]] = field(default_factory=lambda: [jwk(1)])
    claims: dict[str, Any] = field(default_factory=dict)
    """Other claims; None takes one out."""
    tokens: Callable[[dict[str, Any]], str] = signed
    instead: dict[str, Sequence[Step]] = field(default_factory=dict)
    """By path: what is sent in place of the right answer."""
    secret: str | None = SECRET
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    issued: list[str] = field(default_factory=list)
    """Codes and tokens: secrets."""
    _numbers: "count[int]" = field(default_factory=lambda: count(1))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def sign_in(self, address: str, **changes: str) -> dict[str, str]:
        """The parameters with which the browser comes back."""
        parts = urlsplit(address)
        assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{self.url}/authorize"
        asked = dict(parse_qsl(parts.query, strict_parsing=True))
        assert (asked["response_type"], asked["client_id"]) == ("code", CLIENT)
        assert asked["redirect_uri"] == f"{GATEWAY}/api/oidc/callback"
        assert asked["scope"].split()[0] == "openid"
        assert asked["code_challenge_method"] == "S256"
        assert min(len(asked[name]) for name in ("state", "nonce", "code_challenge")) >= 43
        code = self._new("code")
        self.codes[code] = asked
        return {"code": code, "state": asked["state"], "session_state": "of the provider's own"} | changes

    def script(self, request: Seen) -> Sequence[Step]:
        path = urlsplit(request.path).path
        if path in self.instead:
            return self.instead[path]
        answer = {
            "/.well-known/openid-configuration": self._discovery,
            "/keys": lambda _: {"keys": self.keys},
            "/token": self._token,
            "/userinfo": self._user_info,
        }[path](request)
        status = 400 if "error" in answer else 200
        return whole(json.dumps(answer).encode(), status=status)

    def _discovery(self, _: Seen) -> dict[str, Any]:
        names = ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint")
        paths = ("/authorize?tenant=1", "/token", "/keys", "/userinfo")
        found = {"issuer": self.url} | {name: self.url + path for name, path in zip(names, paths, strict=True)}
        return {name: value for name, value in (found | self.metadata).items() if value is not None}

    def _token(self, request: Seen) -> dict[str, Any]:
        assert request.method == "POST"
        assert request.headers["content-type"] == "application/x-www-form-urlencoded"
        form = dict(parse_qsl(request.body.decode(), strict_parsing=True))
        if "authorization" in request.headers:
            pair = b64decode(request.headers["authorization"].removeprefix("Basic ")).decode()
            id, secret = (unquote_plus(part) for part in pair.split(":"))
            assert not form.keys() & {"client_id", "client_secret"}
        else:
            id, secret = form["client_id"], form.get("client_secret")  # type: ignore[assignment]
        if (id, secret) != (CLIENT, self.secret):
            return {"error": "invalid_client", "error_description": f"canary {secret}"}
        asked = self.codes.pop(form["code"], None)
        if asked is None:
            return {"error": "invalid_grant"}
        assert form["grant_type"] == "authorization_code"
        assert form["redirect_uri"] == asked["redirect_uri"]
        assert b64(sha256(form["code_verifier"].encode()).digest()) == asked["code_challenge"], "PKCE"
        access_token, now = self._new("access"), time.time()
        claims = {
            "iss": self.url,
            "aud": CLIENT,
            "exp": now + 300,
            "iat": now,
            "nonce": asked["nonce"],
            "at_hash": b64(sha256(access_token.encode()).digest()[:16]),
        }
        members = {name: value for name, value in (claims | self.person | self.claims).items() if value is not None}
        id_token = self.tokens(members)
        self.issued.append(id_token)
        return {"token_type": "Bearer", "access_token": access_token, "id_token": id_token, "expires_in": 300}

    def _user_info(self, request: Seen) -> dict[str, Any]:
        assert request.headers["authorization"].removeprefix("Bearer ") in self.issued
        return self.more if self.more is not None else {"sub": self.person["sub"]}

    def _new(self, kind: str) -> str:
        self.issued.append(f"canary.{kind}.{next(self._numbers)}")
        return self.issued[-1]


def toml(server: OidcServer, **more: Any) -> str:
    """The table of the configuration."""
    settings = {"issuer": server.url, "client_id": CLIENT, "client_secret": SECRET, "url": "http://127.0.0.1:1"} | more
    return "[oidc]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())


def returned(parameters: dict[str, str]) -> str:
    return f"/api/oidc/callback?{urlencode(parameters)}"
