"""The head of a request: bytes in, one `Head` or one `CallerError` out. No socket, no clock, no body.

httptools (llhttp) reads the fields, and a new parser for each request sees this one head and not a
byte more: where a head ends and how its body is framed is decided here, once, by the strictest
reading that RFC 9112 allows, so that no two readers of the same bytes can disagree about where the
next request begins (docs/spec/security.md S14). What is doubtful is refused, never repaired.
"""

import re
from typing import NoReturn

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpRequestParser
from msgspec import Struct

from streamweir.core.errors import CallerError

_END = b"\r\n\r\n"
_LINE = re.compile(
    rb"([A-Z-]+) (?:(/[!\"$-~]*)|[Hh][Tt][Tt][Pp][Ss]?://([A-Za-z0-9._:\[\]-]+)([/?][!\"$-~]*)?) HTTP/1\.([01])\r\n"
)
"""Origin-form or absolute-form (RFC 9112 3.2.2) without user information, single spaces, no fragment, visible ASCII.
llhttp would also take HTTP/2.0, RTSP and none."""
_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")
_ENCODED_CONTROL = re.compile(r"%0[0aAdD]")
_ONCE = frozenset({"host", "content-length", "transfer-encoding", "idempotency-key"})
_MOST_DIGITS = 18
_KNOWN = {
    spelling.encode("ascii"): name
    for name in (
        *("accept", "accept-encoding", "api-key", "authorization", "connection", "content-length", "content-type"),
        *("cookie", "host", "transfer-encoding", "user-agent", "x-api-key", "x-forwarded-for", "x-request-id"),
    )
    for spelling in (name, name.title())
}
"""Spelled as most callers do: found faster than made anew."""


class Head(Struct, frozen=True):
    method: str
    path: str
    query: str
    headers: dict[str, str]
    is_1_1: bool
    length: int
    """Of the body, as declared; 0 where it is chunked."""
    is_chunked: bool
    keeps_alive: bool
    expects_continue: bool


class HeadReader:
    """`feed` until `head` is there."""

    __slots__ = ("_fields", "_most_bytes", "_most_fields", "_parser", "_raw", "head")

    def __init__(self, most_bytes: int, most_fields: int) -> None:
        self._most_bytes = most_bytes
        self._most_fields = most_fields
        self._fields = _Fields()
        self._parser = HttpRequestParser(self._fields)
        self._raw = b""
        self.head: Head | None = None

    def feed(self, data: bytes) -> int:
        """How many of these bytes belong to the head. Raises `CallerError` as soon as it cannot become one."""
        raw = self._raw
        if raw:
            at = (raw[-3:] + data).find(_END)
            used = at + 4 - min(3, len(raw)) if at >= 0 else len(data)
        else:
            at = data.find(_END)
            used = at + 4 if at >= 0 else len(data)
        if len(raw) + used > self._most_bytes:
            raise CallerError("headers_too_large", f"The request's headers exceed {self._most_bytes} bytes.")
        piece = data if used == len(data) else data[:used]
        self._raw = raw = raw + piece if raw else piece
        self._parse(piece)
        if len(self._fields.found) > self._most_fields:
            raise CallerError("headers_too_large", f"The request has more than {self._most_fields} header fields.")
        if self._fields.is_whole != (at >= 0):
            _refuse("its header section is malformed")
        if at >= 0:
            self.head = _read(raw, _collect(self._fields.found))
        return used

    def _parse(self, piece: bytes) -> None:
        try:
            self._parser.feed_data(piece)
        except HttpParserUpgrade:
            pass  # we never switch; the head is whole, and its body is framed as if nothing had been offered
        except HttpParserCallbackError:
            raise
        except HttpParserError:
            _refuse("its request line or header section is malformed")


class _Fields:
    """What llhttp tells of one head."""

    __slots__ = ("found", "is_whole")

    def __init__(self) -> None:
        self.found: list[tuple[bytes, bytes]] = []
        self.is_whole = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.found.append((name, value))

    def on_headers_complete(self) -> None:
        self.is_whole = True


def _collect(found: list[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in found:
        key = _KNOWN.get(name) or name.decode("ascii").lower()
        text = value.decode("latin-1").rstrip(" \t")
        if key not in headers:
            headers[key] = text
        elif key in _ONCE:
            _refuse(f"it has more than one {key} field")
        else:
            headers[key] = f"{headers[key]}, {text}"
    return headers


def _read(raw: bytes, headers: dict[str, str]) -> Head:
    line = _LINE.match(raw)
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
        _take_authority(line[3].decode("ascii"), headers)
    is_chunked = _is_chunked(headers, is_1_1)
    return Head(
        method=line[1].decode("ascii"),
        path=path or "/",
        query=query,
        headers=headers,
        is_1_1=is_1_1,
        length=_length(headers),
        is_chunked=is_chunked,
        keeps_alive=is_1_1 and not _asks_to_close(headers.get("connection")),
        expects_continue=is_1_1 and headers.get("expect", "").lower() == "100-continue",
    )


def _take_authority(authority: str, headers: dict[str, str]) -> None:
    """That of an absolute-form stands for the host, whatever the field says. Who may do what never depends on it."""
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
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
        _refuse("its content-length is malformed")
    return int(text)


def _asks_to_close(connection: str | None) -> bool:
    return connection is not None and "close" in [part.strip() for part in connection.lower().split(",")]


def _refuse(reason: str) -> NoReturn:
    raise CallerError("invalid_value", f"The request is not valid HTTP: {reason}.")
