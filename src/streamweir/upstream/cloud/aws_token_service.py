"""The services that give out temporary keys of AWS: STS, and the metadata of containers and instances.

One function for each; all answers are bounded, and none is quoted: they contain keys. A refusal is `refused_by` with
the service's own code, everything else what `upstream.fetch` raises. Redirects are not followed.
"""

import hashlib
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from html import unescape
from urllib.parse import urlencode

from msgspec import Struct

from streamweir.core.errors import UpstreamError
from streamweir.upstream.address import read_base_url
from streamweir.upstream.cloud.sigv4 import AwsKeys, Signer
from streamweir.upstream.credential import Lease, refused_by
from streamweir.upstream.fetch import Fetched, fetch
from streamweir.upstream.head import Fields
from streamweir.wire import jsonio

_STS_S = 8.0
_METADATA_S = 2.0
"""A machine's own address answers at once, or never: where it is not one of AWS's, or is too many hops away."""
_SESSION_TOKEN_S = 21_600
_STATIC_S = 300.0
"""AWS asks to use the keys of an instance on if its metadata service gives none that are valid."""
_SESSION_NAME = "streamweir"
_ELEMENT = re.compile(r"<(AccessKeyId|SecretAccessKey|SessionToken|Expiration|Code|Message)>([^<]*)</\1>")
_ROLE = re.compile(r"[\w+=,.@-]{1,128}", re.ASCII)
_CODE = re.compile(r"[A-Za-z]{1,64}")
_TOKEN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,65535})")
_BUSY = ("Throttling", "ThrottlingException", "RequestLimitExceeded", "IDPCommunicationError")
_ADVICE = {
    "AccessDenied": "Check the role's trust policy.",
    "ExpiredTokenException": "Check the token file, or the keys that the role is assumed with.",
    "InvalidIdentityToken": "Check the token file and the role's identity provider.",
    "IDPRejectedClaim": "Check the token file and the role's identity provider.",
    "InvalidClientTokenId": "Check the access key id.",
    "SignatureDoesNotMatch": "Check the secret access key and the clock.",
    "RequestExpired": "Check the clock.",
    "RegionDisabledException": "Check the region.",
}


class RoleRequest(Struct, frozen=True, kw_only=True):
    role_arn: str
    session_name: str | None = None
    external_id: str | None = None
    duration_s: int | None = None


class TokenServices(Struct, frozen=True, kw_only=True):
    """STS, at an address."""

    sts_url: str
    region: str
    proxy: str | None = None
    ca_file: str | None = None

    async def assume_role(self, role: RoleRequest, keys: AwsKeys) -> Lease[AwsKeys]:
        form = _form("AssumeRole", role)
        if role.external_id is not None:
            form["ExternalId"] = role.external_id
        return await self._ask(form, keys)

    async def assume_role_with_token(self, role: RoleRequest, token: str) -> Lease[AwsKeys]:
        return await self._ask({**_form("AssumeRoleWithWebIdentity", role), "WebIdentityToken": token}, None)

    async def _ask(self, form: Mapping[str, str], keys: AwsKeys | None) -> Lease[AwsKeys]:
        body = urlencode(form).encode()
        headers: Fields = (("content-type", "application/x-www-form-urlencoded; charset=utf-8"),)
        if keys is not None:
            headers = (*headers, *self._signed(keys, headers, body))
        answer = await fetch(
            self.sts_url.rstrip("/") + "/",
            method="POST",
            headers=headers,
            body=body,
            timeout_s=_STS_S,
            proxy=self.proxy,
            ca_file=self.ca_file,
        )
        # Simple elements without attributes: no parser of XML is needed, with all that it would accept.
        found = {name: unescape(text) for name, text in _ELEMENT.findall(answer.body.decode("utf-8", "replace"))}
        if not answer.is_success:
            raise _refusal("AWS STS", answer, found.get("Code", ""), found.get("Message", ""))
        return _lease("AWS STS", found, "SessionToken")

    def _signed(self, keys: AwsKeys, headers: Fields, body: bytes) -> Fields:
        try:
            address = read_base_url(self.sts_url)
        except ValueError as reason:
            raise UpstreamError(
                "upstream_connect_failed", f"The address of AWS STS cannot be used: {reason}."
            ) from None
        signer = Signer(region=self.region, service="sts", host=address.authority, prefix=address.prefix)
        digest = hashlib.sha256(body).hexdigest()
        return signer.sign(keys, method="POST", path="/", headers=headers, body_digest=digest, at_s=time.time())


async def container_keys(url: str, token: str | None) -> Lease[AwsKeys]:
    """Of a task of ECS, or a pod of EKS."""
    name = "AWS's container credentials"
    headers: Fields = ()
    if token:
        if _TOKEN.fullmatch(token) is None:
            raise refused_by("The token for the container's AWS credentials cannot be sent.")
        headers = (("authorization", token),)
    answer = await fetch(url, headers=(("accept", "application/json"), *headers), timeout_s=_METADATA_S)
    found = _document(answer)
    if not answer.is_success:
        raise _refusal(name, answer, found.get("code", ""), found.get("message", ""))
    return _lease(name, found, "Token")


async def instance_keys(url: str) -> Lease[AwsKeys]:
    """Of an EC2 instance, by the second version of its metadata service."""
    name = "AWS's instance metadata"
    lives = ("x-aws-ec2-metadata-token-ttl-seconds", str(_SESSION_TOKEN_S))
    answer = await fetch(f"{url}/latest/api/token", method="PUT", headers=(lives,), timeout_s=_METADATA_S)
    token = answer.body.decode("latin-1").strip()
    if not answer.is_success or _TOKEN.fullmatch(token) is None:
        raise _refusal(name, answer, "", "")
    headers: Fields = (("x-aws-ec2-metadata-token", token),)
    path = f"{url}/latest/meta-data/iam/security-credentials/"
    answer = await fetch(path, headers=headers, timeout_s=_METADATA_S)
    if answer.status == 404:
        raise refused_by("The machine that the gateway runs on has no role of AWS.")
    role = answer.body.decode("latin-1").partition("\n")[0].strip()
    if not answer.is_success or _ROLE.fullmatch(role) is None:
        raise _refusal(name, answer, "", "")
    answer = await fetch(path + role, headers=headers, timeout_s=_METADATA_S)
    found = _document(answer)
    code = found.get("Code", "Success")
    if not answer.is_success or code != "Success":
        raise _refusal(name, answer, code, found.get("Message", ""))
    lease = _lease(name, found, "Token")
    if lease.lives_s is not None and lease.lives_s <= 0:
        return Lease(value=lease.value, lives_s=_STATIC_S)
    return lease


def _form(action: str, role: RoleRequest) -> dict[str, str]:
    form = {
        "Action": action,
        "Version": "2011-06-15",
        "RoleArn": role.role_arn,
        "RoleSessionName": role.session_name or _SESSION_NAME,
    }
    if role.duration_s is not None:
        form["DurationSeconds"] = str(role.duration_s)
    return form


def _document(answer: Fetched) -> dict[str, str]:
    """The members of a JSON object that are text."""
    try:
        document = jsonio.decode(answer.body)
    except jsonio.InvalidJson:
        return {}
    if not isinstance(document, dict):
        return {}
    return {name: value for name, value in document.items() if isinstance(value, str)}


def _lease(service: str, found: Mapping[str, str], token: str) -> Lease[AwsKeys]:
    try:
        until = datetime.fromisoformat(found["Expiration"])
        id, secret, session = found["AccessKeyId"], found["SecretAccessKey"], found[token]
    except (KeyError, ValueError):
        raise UpstreamError("upstream_bad_response", f"{service} gave no keys.") from None
    if not all(map(_TOKEN.fullmatch, (id, secret, session))):  # they become headers, and a key
        raise UpstreamError("upstream_bad_response", f"{service} gave keys that cannot be used.")
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    keys = AwsKeys(access_key_id=id, secret_access_key=secret, session_token=session)
    return Lease(value=keys, lives_s=until.timestamp() - time.time())


def _refusal(service: str, answer: Fetched, code: str, text: str) -> UpstreamError:
    """The code is shown, the text is for the operator alone: it names accounts and roles."""
    known = code if _CODE.fullmatch(code) is not None else ""
    if answer.is_success or 300 <= answer.status < 400:
        return UpstreamError("upstream_bad_response", f"{service} gave no keys.")
    if answer.status >= 500 or answer.status == 429 or known in _BUSY:
        return UpstreamError("upstream_server_error", f"{service} failed ({answer.status}).")
    reason = f"{answer.status} {known}".strip()
    advice = f" {_ADVICE[known]}" if known in _ADVICE else ""
    return refused_by(f"{service} refused the gateway ({reason}).{advice}", text)
