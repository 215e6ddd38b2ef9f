"""AWS's Signature Version 4: the headers that sign a request with a pair of keys.

Pure but for the cache of derived keys: the time is an argument, and so is the digest of the body. What is signed is
what is sent: `host`, `content-type`, and of the request and of the operator every `x-amz-` header, which AWS requires,
and every one of Bedrock, so that nobody on the way can remove a guardrail. Headers that a proxy may change are not
signed. The path is encoded once more than it is sent, as all services but S3 require.
"""

import hashlib
import hmac
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import quote

from msgspec import Struct

from streamweir.upstream.head import Fields

_ALGORITHM = "AWS4-HMAC-SHA256"
_BLANKS = re.compile(r"[ \t]+")
_ALWAYS_SIGNED = ("x-amz-", "x-amzn-bedrock-")
"""How the names of such headers begin."""


class AwsKeys(Struct, frozen=True, kw_only=True):
    access_key_id: str
    secret_access_key: str
    session_token: str | None = None
    """Of temporary keys."""

    def __repr__(self) -> str:
        return "AwsKeys(****)"


class Signer:
    """Signs requests to one host and service."""

    def __init__(self, *, region: str, service: str, host: str, prefix: str = "", headers: Fields = ()) -> None:
        """`host` is the value of the header, `prefix` the path before that of each request; `headers` are the
        operator's, which replace those of the request with the same names."""
        self._region = region
        self._service = service
        self._prefix = prefix
        self._always = _signed_of(headers)
        self._always.setdefault("host", host)
        self._replaced = {name.lower() for name, _ in headers}
        self._key: tuple[str, str, bytes] = ("", "", b"")
        """The day, the secret and the key that is derived from both."""

    def sign(self, keys: AwsKeys, *, method: str, path: str, headers: Fields, body_digest: str, at_s: float) -> Fields:
        """The headers to be added. `body_digest` is the SHA-256 of the body in hexadecimal digits, `at_s` Unix time."""
        now = datetime.fromtimestamp(at_s, UTC)
        moment, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
        signed = _signed_of([field for field in headers if field[0].lower() not in self._replaced])
        signed |= self._always
        signed["x-amz-date"] = moment
        added: Fields = (("x-amz-date", moment),)
        if keys.session_token is not None:
            signed["x-amz-security-token"] = keys.session_token
            added = (*added, ("x-amz-security-token", keys.session_token))
        names = sorted(signed)
        lines = "".join([f"{name}:{signed[name]}\n" for name in names])
        request = f"{method}\n{_canonical(self._prefix + path)}\n{lines}\n{';'.join(names)}\n{body_digest}"
        scope = f"{day}/{self._region}/{self._service}/aws4_request"
        digest = hashlib.sha256(request.encode()).hexdigest()
        text = f"{_ALGORITHM}\n{moment}\n{scope}\n{digest}"
        signature = hmac.digest(self._key_of(keys.secret_access_key, day), text.encode(), "sha256").hex()
        credential = f"{keys.access_key_id}/{scope}"
        value = f"{_ALGORITHM} Credential={credential}, SignedHeaders={';'.join(names)}, Signature={signature}"
        return (*added, ("authorization", value))

    def _key_of(self, secret: str, day: str) -> bytes:
        known_day, known_secret, key = self._key
        if known_day != day or known_secret != secret:
            key = f"AWS4{secret}".encode()
            for part in (day, self._region, self._service, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._key = day, secret, key
        return key


def _signed_of(headers: Sequence[tuple[str, str]]) -> dict[str, str]:
    """By name in lower case: those that are signed, with blanks as the signature has them."""
    signed: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        if key in ("content-type", "host") or key.startswith(_ALWAYS_SIGNED):
            text = _BLANKS.sub(" ", value).strip()
            signed[key] = f"{signed[key]},{text}" if key in signed else text
    return signed


@lru_cache(maxsize=256)
def _canonical(target: str) -> str:
    """Path and query of the target, as two lines."""
    path, _, query = target.partition("?")
    segments: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del segments[-1:]
        elif segment not in ("", "."):
            segments.append(segment)
    end = "/" if path.endswith("/") and segments else ""
    pairs = [pair.partition("=") for pair in query.split("&")] if query else []
    sorted_query = "&".join([f"{name}={value}" for name, _, value in sorted(pairs)])
    return f"{quote('/' + '/'.join(segments) + end, safe='/~')}\n{sorted_query}"
