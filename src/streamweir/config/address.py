"""Parses and checks addresses in the configuration: listening addresses and base URLs of providers.

Pure: names are not resolved. Error messages do not contain the address, because a wrong one may contain a secret.
"""

import ipaddress
import re
from urllib.parse import urlsplit

from streamweir.config.model import Provider
from streamweir.providers.registry import default_base_url, path_endings

BUILT_IN = ("local", "sim")
"""The built-in kinds, which have no address."""

_LISTEN = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]+)):(?P<port>[0-9]{1,5})")
_PLACEHOLDER = re.compile(r"//(?:[a-z-]+\.)?(?P<word>[A-Z]+)\b")
_MULTI_REGIONS = {
    "global": "https://aiplatform.googleapis.com/v1",
    "us": "https://aiplatform.us.rep.googleapis.com/v1",
    "eu": "https://aiplatform.eu.rep.googleapis.com/v1",
}
_PARTITIONS = {
    # The domains of AWS's other partitions, by the first part of their regions.
    "cn": ("amazonaws.com.cn", "api.amazonwebservices.com.cn"),
    "eusc": ("amazonaws.eu", "api.amazonwebservices.eu"),
}


def split_listen(listen: str) -> tuple[str, int] | None:
    """Host and port; None if it is not HOST:PORT. An IPv6 address is in brackets."""
    match = _LISTEN.fullmatch(listen)
    if match is None or int(match["port"]) > 65_535:
        return None
    if match["ipv6"] is not None and not _is_ip(match["ipv6"]):
        return None
    return match["ipv6"] or match["host"], int(match["port"])


def is_loopback(host: str) -> bool:
    """Reachable from this machine only."""
    return host.lower() == "localhost" or (_is_ip(host) and ipaddress.ip_address(host).is_loopback)


def base_url_of(provider: Provider) -> str | None:
    """The configured base URL, else the public address of the kind. None if there is none."""
    if provider.kind in BUILT_IN:
        return None
    if provider.base_url is not None:
        return provider.base_url.rstrip("/")
    if provider.project is not None:  # only Vertex has a project
        location = provider.location or "global"
        return _MULTI_REGIONS.get(location) or f"https://{location}-aiplatform.googleapis.com/v1"
    address = default_base_url(provider.kind)
    if provider.region is not None:  # only Bedrock has a region
        domain, dual_stack = _PARTITIONS.get(provider.region.partition("-")[0], ("amazonaws.com", "api.aws"))
        address = address.replace("amazonaws.com", domain).replace("api.aws", dual_stack)
        return address.replace("REGION", provider.region)
    return None if provider.kind == "openai-compatible" or _PLACEHOLDER.search(address) else address


def fault_of_plain_url(url: str, instead: str = "") -> str | None:
    """Of a URL to which paths are added. `instead`: where its user name and password belong."""
    fault = fault_of_url(url, ("https", "http"))
    if fault is not None:
        return fault
    parts = urlsplit(url)
    if "@" in parts.netloc:
        return f"must not contain a user name or password{instead}"
    if parts.query or parts.fragment or url.endswith(("?", "#")):
        return "must not have a query or a fragment"
    return None


def fault_of_base_url(base_url: str, kind: str) -> str | None:
    fault = fault_of_plain_url(base_url, ": use api_key")
    if fault is not None:
        return fault
    parts = urlsplit(base_url)
    placeholder = _PLACEHOLDER.search(default_base_url(kind))
    if placeholder is not None and placeholder["word"] in re.split(r"[.-]", parts.netloc):
        return f"{placeholder['word']} is a placeholder: replace it by your own name"
    ending = next((ending for ending in path_endings(kind) if parts.path.rstrip("/").endswith(ending)), "")
    return f"must not end in {ending}, which the gateway adds" if ending else None


def fault_of_webhook(url: str) -> str | None:
    fault = fault_of_url(url, ("https", "http"))
    if fault is not None:
        return fault
    parts = urlsplit(url)
    if "@" in parts.netloc:
        return "must not contain a user name or password"
    if '"' in url:
        return "contains a character that is not allowed in a URL"
    return "must not have a fragment" if parts.fragment or url.endswith("#") else None


def fault_of_proxy(proxy: str) -> str | None:
    fault = fault_of_url(proxy, ("http",))
    if fault is not None:
        return fault
    parts = urlsplit(proxy)
    if parts.path.strip("/") or parts.query or parts.fragment:
        return "must be http://HOST:PORT, with nothing after it"
    return None if parts.port else "must name the port: http://HOST:PORT"


def fault_of_url(url: str, schemes: tuple[str, ...]) -> str | None:
    if not url.isascii() or not url.isprintable() or " " in url:
        return "must be plain ASCII without spaces"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is not a valid URL: the host or the port cannot be read"
    if parts.scheme not in schemes:
        return f"must begin with {' or '.join(f'{scheme}://' for scheme in schemes)}"
    return None if host else "has no host"


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
