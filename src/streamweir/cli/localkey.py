"""The key of the gateway on this machine, for the commands that ask one: after `make run` nothing has to be typed.

It is read only for an address of this machine, and goes nowhere else. It must not know what is asked.
"""

from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

_KEY_FILE = Path("var") / "development.key"
"""Where `make run` lets the gateway keep its own."""


def development_key(url: str) -> str:
    """Of the gateway on this machine, and for no other. Empty: there is none."""
    if not _is_loopback(_host_of(url)):
        return ""
    try:
        return _KEY_FILE.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
