"""The address and the key of the gateway on this machine, for the commands that ask one: nothing has to be typed.

The gateway is the one of this user that runs (`cli.find`). Its key is read only for its own address, or for one of this
machine, and goes nowhere else. It must not know what is asked.
"""

from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from streamweir.cli.find import NotFound, command_environment, nearest
from streamweir.cli.probe import local_url
from streamweir.server.process.run_file import Running

DEFAULT_URL = "http://127.0.0.1:8080"
_KEY_FILE = "development.key"
_VAR = Path("var")
"""Where `make run` lets the gateway keep its own."""


def gateway_url() -> str:
    """Of the gateway of this user, if one runs; else where one listens by default. Raises `NotFound` if several run and
    the working folder does not tell which one is meant."""
    running = nearest(command_environment(), _running())
    if len(running) > 1:
        several = "; ".join(f"--base-url {local_url(each.file.urls[0])} (pid {each.file.pid})" for each in running)
        raise NotFound(f"{len(running)} gateways are running: choose one with {several}")
    return local_url(running[0].file.urls[0]) if running else DEFAULT_URL


def development_key(url: str) -> str:
    """Of the gateway on this machine, and for no other. Empty: there is none."""
    host, port = _origin_of(url)
    if not _is_loopback(host):
        return ""
    at_port = [each for each in _running() if port in [_origin_of(own)[1] for own in each.file.urls]]
    for folder in (*(each.data_dir for each in at_port), *([] if at_port else [_VAR])):
        try:
            return (folder / _KEY_FILE).read_text().strip()
        except (OSError, UnicodeDecodeError):
            continue
    return ""


def _running() -> list[Running]:
    """Root does not give the key of another user to what may listen there."""
    around = command_environment()
    return [each for each in around.running() if each.owner == around.uid]


def _origin_of(url: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit(url)
        return parts.hostname or "", parts.port
    except ValueError:
        return "", None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
