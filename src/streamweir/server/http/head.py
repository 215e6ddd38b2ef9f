"""The head of a request: bytes in, one `Head` or one `CallerError` out. No socket, no clock, no body.

httptools (llhttp) parses the fields. Each request has a new parser, which gets exactly the bytes of one head. Where a
head ends and how its body is framed is decided here, once, by the strictest reading of RFC 9112. So no two readers of
the same bytes can disagree about where the next request begins (docs/spec/security.md S14). An ambiguous head is
refused, never repaired.
"""

import re
from typing import NoReturn

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpRequestParser
from msgspec import Struct

from streamweir.core.errors import CallerError

_HEAD_END = b"\r\n\r\n"
_REQUEST_LINE = re.compile(
    rb"([A-Z-]+) (?:(/[!\"$-~]*)|[Hh][Tt][Tt][Pp][Ss]?://([A-Za-z0-9._:\[\]-]+)([/?][!\"$-~]*)?) HTTP/1\.([01])\r\n"
)
"""Origin-form or absolute-form (RFC 9112 3.2.2) without user information, single spaces, no fragment, visible ASCII.
llhttp would also take HTTP/2.0, RTSP and none."""
_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")
_ENCODED_CONTROL = re.compile(r"%0[0aAdD]")
_SINGLE_FIELDS = frozenset({"host", "content-length", "transfer-encoding", "idempotency-key"})
_MAX_LENGTH_DIGITS = 18
_COMMON_NAMES = {
    spelling.encode("ascii"): name
    for name in (
        *("accept", "accept-encoding", "api-key", "authorization", "connection", "content-length", "content-type"),
        *("cookie", "host", "transfer-encoding", "user-agent", "x-api-key", "x-forwarded-for", "x-request-id"),
    )
    for spelling in (name, name.title())
}
"""Common names in their common spellings: a look-up is faster than decoding."""


class Head(Struct, frozen=True):
    method: str
    path: str
    query: str
    headers: dict[str, str]
    is_1_1: bool
    length: int
    """Declared length of the body; 0 if it is chunked."""
    is_chunked: bool
    keeps_alive: bool
    expects_continue: bool


class HeadReader:
    """Call `feed` until `head` is set."""

    __slots__ = ("_fields", "_max_bytes", "_max_fields", "_parser", "_raw", "head")

    def __init__(self, max_bytes: int, max_fields: int) -> None:
        self._max_bytes = max_bytes
        self._max_fields = max_fields
        self._fields = _Fields()
        self._parser = HttpRequestParser(self._fields)
        self._raw = b""
        self.head: Head | None = None

    def feed(self, data: bytes) -> int:
        """How many of these bytes belong to the head. Raises `CallerError` as soon as the head is invalid."""
        raw = self._raw
        if raw:
            at = (raw[-3:] + data).find(_HEAD_END)
            used = at + 4 - min(3, len(raw)) if at >= 0 else len(data)
        else:
            at = data.find(_HEAD_END)
            used = at + 4 if at >= 0 else len(data)
        if len(raw) + used > self._max_bytes:
            raise CallerError("headers_too_large", f"The request's headers exceed {self._max_bytes} bytes.")
        piece = data if used == len(data) else data[:used]
        self._raw = raw = raw + piece if raw else piece
        self._parse(piece)
        if len(self._fields.fields) > self._max_fields:
            raise CallerError("headers_too_large", f"The request has more than {self._max_fields} header fields.")
        if self._fields.is_complete != (at >= 0):
            _refuse("its header section is malformed")
        if at >= 0:
            self.head = _read(raw, _collect(self._fields.fields))
        return used

    def _parse(self, piece: bytes) -> None:
        try:
            self._parser.feed_data(piece)
        except HttpParserUpgrade:
            pass  # upgrades are ignored: the head is complete, and its body is framed as usual
        except HttpParserCallbackError:
            raise
        except HttpParserError:
            _refuse("its request line or header section is malformed")


class _Fields:
    """Callbacks of llhttp for one head."""

    __slots__ = ("fields", "is_complete")

    def __init__(self) -> None:
        self.fields: list[tuple[bytes, bytes]] = []
        self.is_complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name, value))

    def on_headers_complete(self) -> None:
        self.is_complete = True


def _collect(fields: list[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in fields:
        key = _COMMON_NAMES.get(name) or name.decode("ascii").lower()
        text = value.decode("latin-1").rstrip(" \t")
        if key not in headers:
            headers[key] = text
        elif key in _SINGLE_FIELDS:
            _refuse(f"it has more than one {key} field")
        else:
            headers[key] = f"{headers[key]}, {text}"
    return headers


def _read(raw: bytes, headers: dict[str, str]) -> Head:
    line = _REQUEST_LINE.match(raw)
    if line is None:
        _refuse("its request line is malformed, or not of the form this server takes")
    path, _, query = (line[2] or line[4] or b"").decode("ascii").partition("?")
    if "%0" in path and _ENCODED_CONTROL.search(path):
        _refuse("its path contains an encoded control character")
    is_1_1 = line[5] == b"1"
    host = headers.get("host")
    if host is None:
        if is_1_1:
            _refuse("it has no host field")
    elif not _HOST.fullmatch(host):
        _refuse("its host field is malformed")
    if line[3] is not None:
        _use_authority(line[3].decode("ascii"), headers)
    is_chunked = _is_chunked(headers, is_1_1)
    return Head(
        method=line[1].decode("ascii"),
        path=path or "/",
        query=query,
        headers=headers,
        is_1_1=is_1_1,
        length=_length(headers),
        is_chunked=is_chunked,
        keeps_alive=is_1_1 and not _wants_close(headers.get("connection")) and not _wants_websocket(headers),
        expects_continue=is_1_1 and headers.get("expect", "").lower() == "100-continue",
    )


def _use_authority(authority: str, headers: dict[str, str]) -> None:
    """The authority of an absolute-form target replaces the host field. No permission depends on it."""
    if not _HOST.fullmatch(authority):
        _refuse("the authority of its target is malformed")
    headers["host"] = authority


def _is_chunked(headers: dict[str, str], is_1_1: bool) -> bool:
    coding = headers.get("transfer-encoding")
    if coding is None:
        return False
    if not is_1_1 or coding.lower() != "chunked" or "content-length" in headers:
        _refuse("its transfer-encoding is not one this server takes")
    return True


def _length(headers: dict[str, str]) -> int:
    text = headers.get("content-length")
    if text is None:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > _MAX_LENGTH_DIGITS:
        _refuse("its content-length is malformed")
    return int(text)


def _wants_close(connection: str | None) -> bool:
    return connection is not None and "close" in [part.strip() for part in connection.lower().split(",")]


def _wants_websocket(headers: dict[str, str]) -> bool:
    """Its sender expects another protocol after the answer, or the end of the connection."""
    return "upgrade" in headers and headers["upgrade"].lower() == "websocket"


def _refuse(reason: str) -> NoReturn:
    raise CallerError("invalid_value", f"The request is not valid HTTP: {reason}.")
