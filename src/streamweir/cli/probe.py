"""One request to a gateway of this machine, over plain sockets: for commands that must start fast.

It sends no secret unless it is given one. The address comes from a run file of this user, so TLS is used without
checking the certificate, which is for the name that callers use, and only where no secret is sent.
"""

import http.client
import json
import ssl
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

TIMEOUT_S = 3.0
_MAX_BYTES = 4 * 1024 * 1024


class Unreachable(Exception):
    """The text is the reason."""


class Reply(Struct, frozen=True):
    status: int
    body: bytes
    date: str | None

    def document(self) -> Any:
        """None: it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


def local_url(url: str) -> str:
    """The address under which this machine reaches what listens there."""
    for wildcard, loopback in (("//0.0.0.0:", "//127.0.0.1:"), ("//[::]:", "//[::1]:")):
        url = url.replace(wildcard, loopback, 1)
    return url


def get(url: str, path: str, *, secret: str | None = None, timeout_s: float = TIMEOUT_S) -> Reply:
    """With a secret the certificate is checked. Raises `Unreachable`."""
    try:
        parts = urlsplit(local_url(url))
        host = parts.hostname or ""
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            connection = http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=_context(secret))
        else:
            connection = http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
    except ValueError:
        raise Unreachable("not a URL such as http://127.0.0.1:8080") from None
    headers = {"accept": "application/json", "connection": "close"}
    if secret is not None:
        headers["authorization"] = f"Bearer {secret}"
    try:
        connection.request("GET", (parts.path.rstrip("/") + path), headers=headers)
        answer = connection.getresponse()
        return Reply(answer.status, answer.read(_MAX_BYTES), answer.headers.get("date"))
    except (OSError, http.client.HTTPException, ValueError) as reason:
        raise Unreachable(_reason(reason)) from None
    finally:
        connection.close()


def _context(secret: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if secret is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _reason(fault: Exception) -> str:
    if isinstance(fault, TimeoutError):
        return "no answer in time"
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {fault.verify_message}"
    if isinstance(fault, OSError) and fault.strerror:
        return fault.strerror
    return "the answer is not HTTP"
