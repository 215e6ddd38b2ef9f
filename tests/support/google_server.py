"""Google as a scripted server: it checks what it is sent, and gives tokens that it knows again.

It verifies the signature of every JWT with the public key and checks its claims, knows refresh tokens, subject tokens
and secrets, and answers a request for a model only with a token that it has given and not revoked. A fault of a request
is an assertion, raised when the block of the scripted upstream is left.
"""

import json
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from support.script import Seen, Step, whole

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
EMAIL = "gateway@acme.iam.gserviceaccount.com"
REFRESH = "1//refresh"
SUBJECT = "subject"
SUBJECT_TYPE = "urn:ietf:params:oauth:token-type:jwt"
AUDIENCE = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q"
_ACCESS = "urn:ietf:params:oauth:token-type:access_token"


@cache
def private_key() -> RSAPrivateKey:
    return generate_private_key(public_exponent=65_537, key_size=2048)


def pem(key: RSAPrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@dataclass
class Google:
    """The server's knowledge. `script` is for a `ScriptedUpstream`."""

    base_url: str = ""
    """Of the server itself, which is the audience of assertions."""
    life_s: float = 3599
    refuses: tuple[int, str] | None = None
    """Instead of a token: a status and Google's code."""
    steps: Callable[[Seen], Sequence[Step]] = lambda _: []
    """What happens before a token is sent."""
    instead: Sequence[Step] = ()
    """Instead of any answer of a token service."""
    answer: Callable[[Seen], Sequence[Step]] = lambda _: whole(b"{}")
    """For a request with a valid token."""
    check_subject: Callable[[str, str], None] = lambda kind, token: _check_subject(kind, token)
    """Of the type and the token of another identity."""
    tokens: list[str] = field(default_factory=list)
    revoked: set[str] = field(default_factory=set)

    def script(self, request: Seen) -> Sequence[Step]:
        path = urlsplit(request.path).path
        if path in ("/token", "/sts"):
            return self._exchange(request)
        if path.startswith("/iam/"):
            return self._impersonate(request)
        if path.startswith("/computeMetadata/"):
            return self._metadata(request)
        return self._model(request)

    def _exchange(self, request: Seen) -> Sequence[Step]:
        assert request.method == "POST"
        assert request.headers["content-type"] == "application/x-www-form-urlencoded"
        form = {name: values[0] for name, values in parse_qs(request.body.decode(), strict_parsing=True).items()}
        kind = form["grant_type"]
        if kind == "urn:ietf:params:oauth:grant-type:jwt-bearer":
            self._check_assertion(form["assertion"])
        elif kind == "refresh_token":
            assert form["refresh_token"] == REFRESH
            if "client_id" in form:
                assert (form["client_id"], form["client_secret"]) == ("client", "client-secret")
            else:
                assert request.headers["authorization"] == "Basic Y2xpZW50OmNsaWVudC1zZWNyZXQ="
        else:
            assert kind == "urn:ietf:params:oauth:grant-type:token-exchange"
            assert (form["audience"], form["scope"], form["requested_token_type"]) == (AUDIENCE, SCOPE, _ACCESS)
            self.check_subject(form["subject_token_type"], form["subject_token"])
        return self._give(request, lambda token: {"access_token": token, "expires_in": self.life_s})

    def _check_assertion(self, assertion: str) -> None:
        head, claims, signature = assertion.split(".")
        private_key().public_key().verify(_bytes(signature), f"{head}.{claims}".encode(), PKCS1v15(), SHA256())
        assert json.loads(_bytes(head)) == {"alg": "RS256", "typ": "JWT", "kid": "key-1"}
        told = json.loads(_bytes(claims))
        assert (told["iss"], told["scope"], told["aud"]) == (EMAIL, SCOPE, f"{self.base_url}/token")
        assert abs(told["iat"] - time.time()) < 600
        assert told["exp"] == told["iat"] + 3600

    def _impersonate(self, request: Seen) -> Sequence[Step]:
        assert request.json == {"scope": [SCOPE], "lifetime": "3600s", "delegates": request.json["delegates"]}
        assert self._is_valid(request)
        ends_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + self.life_s))
        return self._give(request, lambda token: {"accessToken": token, "expireTime": ends_at})

    def _metadata(self, request: Seen) -> Sequence[Step]:
        assert (request.method, request.headers["metadata-flavor"]) == ("GET", "Google")
        assert parse_qs(urlsplit(request.path).query) == {"scopes": [SCOPE]}
        return self._give(
            request,
            lambda token: {"access_token": token, "expires_in": int(self.life_s), "token_type": "Bearer"},
            (("metadata-flavor", "Google"),),
        )

    def _model(self, request: Seen) -> Sequence[Step]:
        if not self._is_valid(request):
            error = {"code": 401, "status": "UNAUTHENTICATED", "message": "Request had invalid credentials."}
            return whole(json.dumps({"error": error}).encode(), 401)
        return self.answer(request)

    def _is_valid(self, request: Seen) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return scheme == "Bearer" and token in self.tokens and token not in self.revoked

    def _give(
        self, request: Seen, write: Callable[[str], dict[str, Any]], fields: Sequence[tuple[str, str]] = ()
    ) -> Sequence[Step]:
        if self.instead:
            return self.instead
        if self.refuses is not None:
            status, code = self.refuses
            return [*self.steps(request), *whole(json.dumps({"error": code}).encode(), status, fields)]
        token = f"ya29.a0-token-{len(self.tokens)}"
        self.tokens.append(token)
        return [*self.steps(request), *whole(json.dumps(write(token)).encode(), 200, fields)]


def _check_subject(kind: str, token: str) -> None:
    assert (kind, token) == (SUBJECT_TYPE, SUBJECT)


def service_account(base_url: str, **members: Any) -> dict[str, Any]:
    return {
        "type": "service_account",
        "project_id": "acme",
        "private_key_id": "key-1",
        "private_key": pem(private_key()),
        "client_email": EMAIL,
        "token_uri": f"{base_url}/token",
        **members,
    }


def write_file(folder: Path, document: dict[str, Any], name: str = "credentials.json") -> str:
    path = folder / name
    path.write_text(json.dumps(document))
    return str(path)


def _bytes(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))
