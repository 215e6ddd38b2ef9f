"""Microsoft Entra ID, the metadata services of Azure and a resource of Azure as one scripted server.

It checks what it is sent: the form of a token request, the secret, the signature and the claims of an assertion with
the public key of the certificate (`cryptography` alone, no code of the gateway), and the token of a request for a
model, which it must have given and not revoked. A fault of a request is an assertion, raised when the block of the
scripted upstream is left. What an operator can have configured wrongly is refused, as Entra does.
"""

import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509 import Certificate, CertificateBuilder, Name, NameAttribute, random_serial_number
from cryptography.x509.oid import NameOID

from support.script import Seen, Step, whole

TENANT = "11111111-2222-3333-4444-555555555555"
CLIENT = "66666666-7777-8888-9999-000000000000"
SECRET = "canary~secret+of/the=application"  # noqa: S105
FEDERATED = "canary.federated.token"
IDENTITY_HEADER = "canary-identity-header"
ARC_KEY = "canary-arc-key"
SCOPE = "https://cognitiveservices.azure.com/.default"


@cache
def private_key(number: int) -> RSAPrivateKey:  # noqa: ARG001 (one for each number)
    return generate_private_key(public_exponent=65_537, key_size=2048)


@cache
def certificate(number: int) -> Certificate:
    key, name = private_key(number), Name([NameAttribute(NameOID.COMMON_NAME, f"gateway {number}")])
    now = datetime.now(UTC)
    builder = CertificateBuilder(name, name, key.public_key(), random_serial_number(), now, now + timedelta(days=1))
    return builder.sign(key, SHA256())


def certificate_pem(number: int = 1) -> str:
    return certificate(number).public_bytes(Encoding.PEM).decode()


def key_pem(number: int = 1, form: PrivateFormat = PrivateFormat.PKCS8) -> str:
    return private_key(number).private_bytes(Encoding.PEM, form, NoEncryption()).decode()


@dataclass
class Entra:
    """The server's knowledge. `script` is for a `ScriptedUpstream`."""

    port: int = 0
    life_s: float = 3599
    known: tuple[int, ...] = (1,)
    """The numbers of the certificates that the application has."""
    refuses: tuple[int, bytes] | None = None
    """Instead of a token: a status and a body."""
    steps: Callable[[Seen], Sequence[Step]] = lambda _: []
    """What happens before a token is sent."""
    answer: Callable[[Seen], Sequence[Step]] = lambda _: whole(b"{}")
    """For a request with a valid token."""
    tokens: list[str] = field(default_factory=list)
    revoked: set[str] = field(default_factory=set)
    arc_file: Path | None = None
    _assertions: set[str] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def script(self, request: Seen) -> Sequence[Step]:
        path = urlsplit(request.path).path
        if path.endswith("/oauth2/v2.0/token"):
            return self._exchange(request, path)
        if path in ("/metadata/identity/oauth2/token", "/msi/token", "/arc/token"):
            return self._metadata(request, path)
        return self._model(request)

    def _exchange(self, request: Seen, path: str) -> Sequence[Step]:
        assert request.method == "POST"
        assert request.headers["content-type"] == "application/x-www-form-urlencoded"
        form = {name: values[0] for name, values in parse_qs(request.body.decode(), strict_parsing=True).items()}
        assert form.pop("grant_type") == "client_credentials"
        assert form.pop("scope") == SCOPE
        assert form.pop("client_id") == CLIENT
        if path != f"/{TENANT}/oauth2/v2.0/token":
            return _refusal(90002)
        if "client_secret" in form:
            if form.pop("client_secret") != SECRET:
                return _refusal(7000215)
        else:
            assert form.pop("client_assertion_type") == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
            refusal = self._check(form.pop("client_assertion"), f"{self.url}{path}")
            if refusal is not None:
                return refusal
        assert form == {}, "nothing else is sent"
        return self._token(request, {"token_type": "Bearer", "expires_in": self.life_s, "ext_expires_in": self.life_s})

    def _check(self, assertion: str, audience: str) -> Sequence[Step] | None:
        if assertion == FEDERATED:
            return None
        if assertion.count(".") != 2:
            return _refusal(50027)
        signed, _, signature = assertion.rpartition(".")
        header, claims = (json.loads(_decoded(part)) for part in signed.split("."))
        assert (header.pop("alg"), header.pop("typ")) == ("PS256", "JWT")
        thumbprint = header.pop("x5t#S256")
        assert header == {}
        number = next((each for each in self.known if _thumbprint(each) == thumbprint), None)
        if number is None:
            return _refusal(700027)
        public_key = private_key(number).public_key()
        try:
            public_key.verify(_decoded(signature), signed.encode(), PSS(MGF1(SHA256()), 32), SHA256())
        except InvalidSignature:
            raise AssertionError("the signature is not that of the certificate") from None
        assert (claims["aud"], claims["iss"], claims["sub"]) == (audience, CLIENT, CLIENT)
        assert claims["nbf"] - 60 <= time.time() <= claims["exp"] <= claims["nbf"] + 600
        assert claims["jti"] not in self._assertions, "each assertion is used once"
        self._assertions.add(claims["jti"])
        return None

    def _metadata(self, request: Seen, path: str) -> Sequence[Step]:
        assert request.method == "GET"
        query = {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}
        version, resource = query.pop("api-version"), query.pop("resource")
        assert resource == SCOPE.removesuffix("/.default")
        if query.pop("client_id", CLIENT) != CLIENT:
            return whole(b'{"error": "invalid_request", "error_description": "Identity not found"}', status=400)
        assert query == {}
        if path == "/msi/token":
            assert (version, request.headers["x-identity-header"]) == ("2019-08-01", IDENTITY_HEADER)
            return self._token(request, {"token_type": "Bearer", "expires_on": str(int(time.time() + self.life_s))})
        assert request.headers["metadata"] == "true"
        if path == "/arc/token":
            if "authorization" not in request.headers:
                challenge = [("www-authenticate", f"Basic realm={self.arc_file}")]
                return whole(b"{}", status=401, headers=challenge)
            assert request.headers["authorization"] == f"Basic {ARC_KEY}"
        life = str(int(self.life_s))
        return self._token(request, {"expires_in": life, "expires_on": str(int(time.time() + self.life_s))})

    def _token(self, request: Seen, told: dict[str, object]) -> Sequence[Step]:
        if self.refuses is not None:
            return whole(self.refuses[1], status=self.refuses[0])
        self.tokens.append(f"canary.token.{len(self.tokens) + 1}")
        return [*self.steps(request), *whole(json.dumps({**told, "access_token": self.tokens[-1]}).encode())]

    def _model(self, request: Seen) -> Sequence[Step]:
        assert "api-key" not in request.headers
        token = request.headers["authorization"].removeprefix("Bearer ")
        if token not in self.tokens or token in self.revoked:
            told = {"code": "401", "message": "Unauthorized. Access token is missing, invalid, audience is incorrect"}
            return whole(json.dumps({"error": told}).encode(), status=401)
        return self.answer(request)


def _refusal(number: int) -> Sequence[Step]:
    """As Entra's, which quotes what it was sent."""
    told = {
        "error": "invalid_client",
        "error_description": f"AADSTS{number}: canary {SECRET} {CLIENT} Trace ID: 1 Timestamp: 2",
        "error_codes": [number],
        "trace_id": "1",
    }
    return whole(json.dumps(told).encode(), status=401)


def _decoded(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _thumbprint(number: int) -> str:
    return urlsafe_b64encode(certificate(number).fingerprint(SHA256())).rstrip(b"=").decode()
