"""Encodes the head of a request. The part that is the same for every request is encoded once.

Pure. A name, a value or a path with CR, LF or NUL is refused, so that no line can end early. The operator's headers
override those of the request. Neither can set the headers that determine framing and encoding.
"""

import re

from streamweir import __version__
from streamweir.core.errors import GatewayFault
from streamweir.providers.base import UpstreamRequest
from streamweir.upstream.address import Address, Proxy

Fields = tuple[tuple[str, str], ...]

# The gateway itself determines framing, encoding and connection handling.
_OURS = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_TRACE = frozenset({"traceparent", "tracestate"})
"""An operator who sets one of these replaces the gateway's."""
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_METHOD = re.compile(r"[A-Z]{1,16}")
_PATH = re.compile(r"/[\x21\x24-\x7e]*")  # no spaces, quotes or fragment


class RequestHead:
    def __init__(self, address: Address, headers: Fields = (), proxy: Proxy | None = None) -> None:
        """`proxy`: only if the request itself is sent to the proxy, not through a tunnel."""
        for name, value in headers:
            if (reason := _fault(name, value)) is not None:
                raise ValueError(reason)
        operators = {name.lower(): value for name, value in headers}
        fixed = {"host": address.authority, "user-agent": f"streamweir/{__version__}", **operators}
        fixed |= {"accept-encoding": "identity", "connection": "keep-alive"}
        if proxy is not None and proxy.authorization is not None:
            fixed["proxy-authorization"] = proxy.authorization
        origin = f"http://{address.authority}" if proxy is not None else ""
        self._target = f" {origin}{address.prefix}".encode("ascii")
        self._start = b"POST" + self._target
        self._fixed = b" HTTP/1.1\r\n" + _encode_fields(tuple(fixed.items()))
        self._fixed_names = frozenset(fixed)
        self._known: tuple[Fields, bytes] = ((), b"")

    def encode(self, request: UpstreamRequest) -> bytes:
        """Raises `GatewayFault` for an invalid path or header: the gateway itself wrote them."""
        if _PATH.fullmatch(request.path) is None:
            raise GatewayFault("internal_error", "The path of a request to the provider cannot be sent.")
        known, fields = self._known
        if request.headers != known:
            # The headers for a target rarely change between requests.
            fields = self._encode_own(request.headers)
            self._known = request.headers, fields
        if request.trace_headers and not self._fixed_names & _TRACE:
            fields += request.trace_headers
        start, fixed, path = self._start, self._fixed, request.path.encode("ascii")
        if request.method != "POST":
            start = self._other_start(request.method)
            if not request.body and request.method == "GET":
                return b"%b%b%b%b\r\n" % (start, path, fixed, fields)
        return b"%b%b%b%bcontent-length: %d\r\n\r\n" % (start, path, fixed, fields, len(request.body))

    def _other_start(self, method: str) -> bytes:
        if _METHOD.fullmatch(method) is None:
            raise GatewayFault("internal_error", "The method of a request to the provider cannot be sent.")
        return method.encode("ascii") + self._target

    def _encode_own(self, headers: Fields) -> bytes:
        for name, value in headers:
            if _fault(name, value) is not None:
                raise GatewayFault("internal_error", "A header of a request to the provider cannot be sent.")
        return _encode_fields(tuple(field for field in headers if field[0].lower() not in self._fixed_names))


def _fault(name: str, value: str) -> str | None:
    if _NAME.fullmatch(name) is None:
        return "a header has a name that cannot be sent"
    if name.lower() in _OURS:
        return f"the header {name.lower()} is set by the gateway itself"
    if _VALUE.fullmatch(value) is None:
        return f"the header {name.lower()} has a value that cannot be sent"
    return None


def _encode_fields(fields: Fields) -> bytes:
    return "".join([f"{name}: {value}\r\n" for name, value in fields]).encode("latin-1")
