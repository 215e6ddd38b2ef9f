"""One document from an address of the web, for a command: https alone, bounded in size and time.

The other end is not trusted: no redirect away from https, no body that is larger than was allowed,
packed or cut short, and nothing of what it sent is shown. Proxies are taken from the environment.
Not for an event loop: it blocks.
"""

import ssl
import time
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urljoin, urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

MOST_REDIRECTS = 5
_CHUNK = 65_536
_MOVED = (301, 302, 303, 307, 308)


class DownloadFailed(Exception):
    """One line for whoever asked for it."""


def download(url: str, most_bytes: int, *, silence_s: float = 10.0, total_s: float = 60.0) -> bytes:
    """`silence_s`: the longest that nothing comes. Raises `DownloadFailed`."""
    deadline = time.monotonic() + total_s
    opener = _opener()
    for _ in range(MOST_REDIRECTS + 1):
        check_address(url)
        request = Request(url, headers={"accept-encoding": "identity", "user-agent": "streamweir"})  # noqa: S310
        try:
            with opener.open(request, timeout=silence_s) as response:
                return _body(response, most_bytes, deadline)
        except HTTPError as error:
            with error:
                place = error.headers.get("location")
            if error.code not in _MOVED or not place:
                raise DownloadFailed(f"{_host(url)} answered with status {error.code}") from None
            url = urljoin(url, place)
        except URLError as error:
            raise DownloadFailed(f"{_host(url)} cannot be reached: {_reason(error.reason)}") from None
        except (OSError, HTTPException, ValueError) as error:
            raise DownloadFailed(f"{_host(url)} sent an invalid answer: {_reason(error)}") from None
    raise DownloadFailed("too many redirects")


def check_address(url: str) -> None:
    """Raises `DownloadFailed`."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        host = None
    if host is None or not url.isprintable() or " " in url:
        raise DownloadFailed("not an address")
    if parts.scheme != "https":
        raise DownloadFailed(f"only https is supported, not {parts.scheme}")
    if parts.username is not None or parts.password is not None:
        raise DownloadFailed("an address with a name or a password in it is not taken")


def _opener() -> OpenerDirector:
    """Without those that urllib adds by itself: for files, for ftp, for http, and the one that follows redirects."""
    opener = OpenerDirector()
    handlers: tuple[Any, ...] = (
        ProxyHandler(),
        HTTPSHandler(context=ssl.create_default_context()),
        HTTPDefaultErrorHandler(),
        HTTPErrorProcessor(),
    )
    for handler in handlers:
        opener.add_handler(handler)
    return opener


def _body(response: HTTPResponse, most_bytes: int, deadline: float) -> bytes:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise DownloadFailed("the answer is packed, which was not asked for")
    parts, size = [], 0
    while chunk := response.read1(_CHUNK):
        parts.append(chunk)
        size += len(chunk)
        if size > most_bytes:
            raise DownloadFailed(f"the answer is larger than {most_bytes} bytes")
        if time.monotonic() > deadline:
            raise DownloadFailed("the answer takes too long")
    declared = response.headers.get("content-length")
    if declared is not None and declared != str(size):
        raise DownloadFailed("the answer was cut short")
    return b"".join(parts)


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _reason(error: object) -> str:
    """Words of this machine alone: what the other end wrote is in none of them."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return type(error).__name__
