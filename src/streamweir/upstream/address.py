"""Parses the base URL of an upstream and the URL of its proxy, once, when the upstream is created.

Pure: no name is resolved. Only a few URL components are allowed; anything else raises `ValueError` at the start, not
during a request. The messages do not contain the URL, because it may contain a password.
"""

import re
from base64 import b64encode
from ipaddress import AddressValueError, IPv6Address
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct

_DEFAULT_PORTS = {"http": 80, "https": 443}
_NOT_IN_A_URL = re.compile(r"[^\x21-\x7e]|[\"<>\\^`{|}]")
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_HOST_AND_PORT = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]+))(?::([0-9]{1,5}))?")
_MAX_NAME_LENGTH = 253


class Address(Struct, frozen=True, kw_only=True):
    host: str
    """A name or an address, without the brackets of IPv6."""
    port: int
    is_tls: bool = False
    prefix: str = ""
    """The path before the path of each request, without a trailing slash."""

    @property
    def full_authority(self) -> str:
        """With the port, as required by CONNECT."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def authority(self) -> str:
        """For the `host` header: without the port if it is the default of the scheme."""
        own = _DEFAULT_PORTS["https" if self.is_tls else "http"]
        return self.full_authority.removesuffix(f":{own}") if self.port == own else self.full_authority


class Proxy(Struct, frozen=True, kw_only=True):
    host: str
    port: int
    authorization: str | None = None
    """The value of `proxy-authorization`."""


def read_base_url(text: str) -> Address:
    parts = _split(text, "the base URL")
    if parts.scheme not in _DEFAULT_PORTS:
        raise ValueError("the base URL must begin with http:// or https://")
    if "@" in parts.netloc:
        raise ValueError("the base URL must not contain a user name or password")
    if "?" in text or "#" in text:
        raise ValueError("the base URL must not have a query or a fragment")
    host, port = _host_and_port(parts, "the base URL")
    return Address(host=host, port=port, is_tls=parts.scheme == "https", prefix=parts.path.rstrip("/"))


def read_proxy(text: str) -> Proxy:
    parts = _split(text, "the proxy's URL")
    if parts.scheme != "http":
        raise ValueError("the proxy's URL must begin with http://")
    if parts.path not in ("", "/") or "?" in text or "#" in text:
        raise ValueError("the proxy's URL must not have a path, a query or a fragment")
    host, port = _host_and_port(parts, "the proxy's URL")
    authorization = None
    if "@" in parts.netloc:
        secret = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        authorization = "Basic " + b64encode(secret.encode()).decode()
    return Proxy(host=host, port=port, authorization=authorization)


def _split(text: str, what: str) -> SplitResult:
    if _NOT_IN_A_URL.search(text):  # before urlsplit, which drops line ends and tabs silently
        raise ValueError(f"{what} contains a character that is not allowed in a URL")
    try:
        return urlsplit(text)
    except ValueError:
        raise ValueError(f"{what} cannot be read") from None


def _host_and_port(parts: SplitResult, what: str) -> tuple[str, int]:
    # Not by the members of `parts`, which ignore characters around the brackets of an IPv6 address.
    found = _HOST_AND_PORT.fullmatch(parts.netloc.rpartition("@")[2])
    if found is None:
        raise ValueError(f"{what} has no readable host and port")
    in_brackets, name, digits = found.groups()
    port = _DEFAULT_PORTS[parts.scheme] if digits is None else int(digits)
    if not 0 < port < 65536:
        raise ValueError(f"{what} has an invalid port")
    if in_brackets is not None:
        try:
            return str(IPv6Address(in_brackets)), port
        except AddressValueError:
            raise ValueError(f"{what} has an IPv6 address that cannot be read") from None
    if not _is_name(name):
        raise ValueError(f"{what} has no valid host (a name outside ASCII is written as xn--...)")
    return name.lower(), port


def _is_name(host: str) -> bool:
    name = host.removesuffix(".")
    return 0 < len(name) <= _MAX_NAME_LENGTH and all(_LABEL.fullmatch(label) for label in name.split("."))
