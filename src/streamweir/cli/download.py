"""Downloads one document: https only, limited in size and time.

The server is not trusted: no redirect to another scheme, no body that is too large, compressed or incomplete, and
nothing that it sent is shown. Proxies are taken from the environment. It blocks, so it must not run on an event loop.
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

MAX_REDIRECTS = 5
_CHUNK = 65_536
_REDIRECT_STATUSES = (301, 302, 303, 307, 308)


class DownloadFailed(Exception):
    """The text is one line for the user."""


def download(url: str, max_bytes: int, *, idle_s: float = 10.0, total_s: float = 60.0) -> bytes:
    """`idle_s`: the maximum time without data. Raises `DownloadFailed`."""
    deadline = time.monotonic() + total_s
    opener = _opener()
    for _ in range(MAX_REDIRECTS + 1):
        check_address(url)
        request = Request(url, headers={"accept-encoding": "identity", "user-agent": "streamweir"})  # noqa: S310
        try:
            with opener.open(request, timeout=idle_s) as response:
                return _body(response, max_bytes, deadline)
        except HTTPError as error:
            with error:
                location = error.headers.get("location")
            if error.code not in _REDIRECT_STATUSES or not location:
                raise DownloadFailed(f"{_host(url)} answered with status {error.code}") from None
            url = urljoin(url, location)
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
    """Without urllib's default handlers for files, ftp, http and redirects."""
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


def _body(response: HTTPResponse, max_bytes: int, deadline: float) -> bytes:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise DownloadFailed("the answer is packed, which was not asked for")
    parts, size = [], 0
    while chunk := response.read1(_CHUNK):
        parts.append(chunk)
        size += len(chunk)
        if size > max_bytes:
            raise DownloadFailed(f"the answer is larger than {max_bytes} bytes")
        if time.monotonic() > deadline:
            raise DownloadFailed("the answer takes too long")
    declared = response.headers.get("content-length")
    if declared is not None and declared != str(size):
        raise DownloadFailed("the answer was cut short")
    return b"".join(parts)


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _reason(error: object) -> str:
    """Contains nothing that the server sent."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return type(error).__name__
