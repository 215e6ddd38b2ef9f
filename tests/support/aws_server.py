"""AWS as the gateway meets it: an account whose keys sign requests, and the services that give keys out.

It checks every signature itself, with botocore: an independent implementation, by the same vendor as the service.

    account = AwsAccount()
    keys = account.issue()                                     # temporary keys, valid for an hour
    async with ScriptedUpstream(account.signed(script)) as up: # plays the script for requests that are signed
        ...
    async with ScriptedUpstream(account.services) as tokens:   # STS, container and instance metadata
        ...                                                    # at origin_of(tokens)

What is refused is refused as AWS does, and named in `account.refusals`, so that a test can say there were none.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from time import time
from urllib.parse import parse_qs

from botocore.auth import SIGV4_TIMESTAMP, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from support.script import Script, Seen, Step, whole
from support.scripted_upstream import ScriptedUpstream

MAX_SKEW_S = 300
IMDS_TOKEN = "imds-session-token"  # noqa: S105
ROLE = "gateway-role"
CONTAINER_PATH = "/v2/credentials/task"


@dataclass(frozen=True)
class IssuedKeys:
    access_key_id: str
    secret_access_key: str
    session_token: str | None
    expires_at: float
    """Unix time."""


@dataclass(eq=False)
class AwsAccount:
    region: str = "eu-central-1"
    service: str = "bedrock"
    keys: dict[str, IssuedKeys] = field(default_factory=dict)
    revoked: set[str] = field(default_factory=set)
    """Keys that the service says have expired, whatever they say themselves."""
    refusals: list[str] = field(default_factory=list)
    lives_s: float = 3600.0
    """Of the keys that the services give out."""
    web_identity_token: str = "web-identity-token"  # noqa: S105
    container_token: str | None = None
    external_id: str | None = None
    asked: list[str] = field(default_factory=list)
    """What the services were asked for, in turn."""
    role: str | None = ROLE
    """Of the instance."""

    def issue(self, lives_s: float | None = None, *, temporary: bool = True) -> IssuedKeys:
        number = len(self.keys) + 1
        issued = IssuedKeys(
            access_key_id=f"{'ASIA' if temporary else 'AKIA'}EXAMPLE{number:09}",
            secret_access_key=f"secret/{number}+" + sha256(str(number).encode()).hexdigest()[:30],
            session_token=f"session/{number}+token==" if temporary else None,
            expires_at=time() + (self.lives_s if lives_s is None else lives_s),
        )
        self.keys[issued.access_key_id] = issued
        return issued

    def revoke(self) -> None:
        """All keys that were given out so far."""
        self.revoked |= set(self.keys)

    def signed(self, script: Script) -> Callable[[Seen], Sequence[Step]]:
        """The script, for requests with a valid signature."""

        def chosen(request: Seen) -> Sequence[Step]:
            refusal = self.refusal_of(request, self.service)
            if refusal is None:
                return script(request) if callable(script) else script
            self.refusals.append(refusal)
            body = json.dumps({"message": f"The request was refused: {refusal}."}).encode()
            return whole(body, 403, [("x-amzn-errortype", f"{refusal}:http://internal.amazon.com/")])

        return chosen

    def refusal_of(self, request: Seen, service: str) -> str | None:
        """The name of the exception, if the request is not signed by a valid key."""
        headers = request.headers
        scheme, _, rest = headers.get("authorization", "").partition(" ")
        if scheme != "AWS4-HMAC-SHA256":
            return "MissingAuthenticationTokenException"
        parts = dict(part.strip().partition("=")[::2] for part in rest.split(","))
        access_key_id, _, scope = parts["Credential"].partition("/")
        issued = self.keys.get(access_key_id)
        if issued is None or headers.get("x-amz-security-token") != issued.session_token:
            return "UnrecognizedClientException"
        if access_key_id in self.revoked or (issued.session_token is not None and issued.expires_at <= time()):
            return "ExpiredTokenException"
        moment = headers.get("x-amz-date", "")
        if scope != f"{moment[:8]}/{self.region}/{service}/aws4_request":
            return "InvalidSignatureException"
        at = datetime.strptime(moment, SIGV4_TIMESTAMP).replace(tzinfo=UTC).timestamp()
        names = parts["SignedHeaders"].split(";")
        must = {"host", *(name for name in headers if name.startswith("x-amz-"))}
        if abs(at - time()) > MAX_SKEW_S or not must <= set(names) or names != sorted(names):
            return "InvalidSignatureException"
        is_right = parts["Signature"] == expected_signature(request, issued, names, self.region, service)
        return None if is_right else "InvalidSignatureException"

    # The services that give keys out.

    def services(self, request: Seen) -> Sequence[Step]:
        path = request.path.partition("?")[0]
        if path == "/":
            return self._sts(request)
        if path.startswith("/latest/"):
            return self._instance(request, path)
        if path == CONTAINER_PATH:
            self.asked.append("container")
            if self.container_token is not None and request.headers.get("authorization") != self.container_token:
                return _json(401, {"code": "Unauthorized", "message": "no"})
            return _json(200, self._document(self.issue()))
        return whole(b"", 404)

    def _instance(self, request: Seen, path: str) -> Sequence[Step]:
        if path == "/latest/api/token":
            self.asked.append("session")
            is_right = request.method == "PUT" and "x-aws-ec2-metadata-token-ttl-seconds" in request.headers
            return whole(IMDS_TOKEN.encode(), 200) if is_right else whole(b"", 400)
        if request.method != "GET" or request.headers.get("x-aws-ec2-metadata-token") != IMDS_TOKEN:
            return whole(b"", 401)
        if self.role is None:
            return whole(b"", 404)
        if path == "/latest/meta-data/iam/security-credentials/":
            return whole(self.role.encode(), 200)
        if path == f"/latest/meta-data/iam/security-credentials/{self.role}":
            self.asked.append("instance")
            return _json(200, {"Code": "Success", "Type": "AWS-HMAC", **self._document(self.issue())})
        return whole(b"", 404)

    def _sts(self, request: Seen) -> Sequence[Step]:
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        action = form.get("Action", "")
        self.asked.append(f"{action} {form.get('RoleArn')} {form.get('RoleSessionName')}")
        if action == "AssumeRoleWithWebIdentity":
            if "authorization" in request.headers or form.get("WebIdentityToken") != self.web_identity_token:
                return _sts_error("InvalidIdentityToken", "No provider found in your account 123456789012")
        elif action == "AssumeRole":
            if (refusal := self.refusal_of(request, "sts")) is not None:
                return _sts_error({"UnrecognizedClientException": "InvalidClientTokenId"}.get(refusal, refusal), "no")
            if form.get("ExternalId") != self.external_id:
                return _sts_error("AccessDenied", "User: arn:aws:iam::123456789012:user/x is not authorized")
        else:
            return _sts_error("InvalidAction", "no")
        document = self._document(self.issue())
        document["SessionToken"] = document.pop("Token")
        members = "".join(f"<{name}>{text}</{name}>" for name, text in document.items())
        body = f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result>'
        body += f"<Credentials>{members}</Credentials></{action}Result></{action}Response>"
        return whole(body.encode())

    def _document(self, issued: IssuedKeys) -> dict[str, str]:
        until = datetime.now(UTC) + timedelta(seconds=issued.expires_at - time())
        return {
            "AccessKeyId": issued.access_key_id,
            "SecretAccessKey": issued.secret_access_key,
            "Token": issued.session_token or "",
            "Expiration": until.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }


def origin_of(server: ScriptedUpstream) -> str:
    return server.base_url.removesuffix("/v1")


def expected_signature(request: Seen, keys: IssuedKeys, names: Sequence[str], region: str, service: str) -> str:
    """By botocore, for the request as it was received."""
    headers = {name: value for name, value in request.headers.items() if name in names}
    url = f"http://{request.headers['host']}{request.path}"
    known = AWSRequest(method=request.method, url=url, data=request.body, headers=headers)
    known.context["timestamp"] = request.headers["x-amz-date"]
    signer = SigV4Auth(Credentials(keys.access_key_id, keys.secret_access_key), service, region)
    text = signer.string_to_sign(known, signer.canonical_request(known))
    return str(signer.signature(text, known))


def _json(status: int, document: dict[str, str]) -> Sequence[Step]:
    return whole(json.dumps(document).encode(), status)


def _sts_error(code: str, message: str, status: int = 403) -> Sequence[Step]:
    error = f"<Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>"
    return whole(f"<ErrorResponse>{error}</ErrorResponse>".encode(), status)
