"""An incremental parser of one HTTP response: head, pieces of the body, and whether it is complete.

It has no socket: `connection` feeds it. It is strict wherever two parsers could disagree about the end of a body
(llhttp's lenient modes are off; every transfer coding but `chunked` is refused), and its memory is limited whatever is
sent. It does not interpret the body, and does not decode content or follow redirects.

Bytes are processed in order: an error after pieces of the body does not remove them, and bytes after the end of the
response are not part of it.
"""

from collections.abc import Callable

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpResponseParser

from streamweir.core.errors import UpstreamError

MAX_HEAD_BYTES = 32 * 1024
MAX_HEAD_FIELDS = 100
_WITHOUT_BODY = frozenset({204, 304})
_TAKEN: dict[str, str] = {}
"""Replaces the headers after they were taken. It stays empty, because a head is parsed only once."""


class Reply:
    __slots__ = (
        "_end",
        "_field_bytes",
        "_field_count",
        "_headers",
        "_parser",
        "ends_by_close",
        "fault",
        "flows",
        "has_head",
        "is_whole",
        "may_keep",
        "on_body",
        "pieces",
        "status",
    )

    def __init__(self) -> None:
        self.status = 0
        self.has_head = False
        """The final head was parsed; interim ones are skipped."""
        self.pieces: list[bytes] = []
        # Called by the parser for each piece: the list's own method costs a third of a Python method.
        self.on_body: Callable[[bytes], None] = self.pieces.append
        self.flows = False
        """Only body data is being read. Set by the connection, unset here."""
        self.is_whole = False
        self.may_keep = False
        """The connection may be reused after this response is complete."""
        self.ends_by_close = False
        self.fault: UpstreamError | None = None
        self._headers: dict[str, str] = {}
        self._end = 0
        self._field_bytes = 0
        self._field_count = 0
        self._parser: HttpResponseParser | None = HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:
            return
        try:
            parser.feed_data(data)
        except HttpParserCallbackError:
            raise  # a bug of this module, not an error of the peer
        except (HttpParserError, HttpParserUpgrade):
            if self.is_whole:
                self.may_keep = False
            elif self.fault is None:
                self._refuse("The provider's answer is not HTTP.")

    def take_head(self) -> dict[str, str] | None:
        """The headers of the final head, once. Values of a repeated header are joined by commas."""
        if not self.has_head or self._headers is _TAKEN:
            return None
        headers, self._headers = self._headers, _TAKEN
        return headers

    def take(self) -> bytes:
        """The body that was read since the last call."""
        pieces = self.pieces
        if self.is_whole:
            del pieces[self._end :]
            self._end = 0
        if not pieces or not self.has_head:
            return b""
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        return body

    def close(self) -> None:
        """Breaks the reference cycle with the parser, so that both are freed without the garbage collector."""
        self._parser = None

    def on_message_begin(self) -> None:
        if self.is_whole:
            self.may_keep = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._field_count += 1
        self._field_bytes += len(name) + len(value) + len(": \r\n")
        if self._field_count > MAX_HEAD_FIELDS or self._field_bytes > MAX_HEAD_BYTES:
            self.refuse_size()
        elif not self.has_head:  # otherwise a trailer, or data after the end
            key = name.lower().decode("latin-1")
            text = value.strip(b" \t").decode("latin-1")
            self._headers[key] = f"{self._headers[key]}, {text}" if key in self._headers else text

    def on_headers_complete(self) -> None:
        parser = self._parser
        if self.has_head or parser is None:
            return
        status = parser.get_status_code()
        if 100 <= status < 200:
            self._headers.clear()
            self._field_count += 1  # limits interim heads without fields, too
            if self._field_count > MAX_HEAD_FIELDS:
                self.refuse_size()
            return
        coding = self._headers.get("transfer-encoding")
        if parser.get_http_version() not in ("1.1", "1.0") or not 200 <= status < 600:
            self._refuse("The provider's answer is not HTTP.")
        elif coding is not None and coding.lower() != "chunked":
            self._refuse("The provider's answer is sent in a way that was not asked for.")
        if self.fault is None:
            self.status = status
            self.has_head = True
            self.may_keep = parser.should_keep_alive()
            self.ends_by_close = (
                coding is None and "content-length" not in self._headers and status not in _WITHOUT_BODY
            )

    def on_message_complete(self) -> None:
        if self.has_head and not self.is_whole and self.fault is None:
            self.is_whole = True
            self.flows = False
            self._end = len(self.pieces)

    def refuse_size(self) -> None:
        """The head, or the data between two pieces of the body, is too large."""
        if self.is_whole:
            self.may_keep = False
        else:
            self._refuse("The head of the provider's answer is too large.")

    def _refuse(self, message: str) -> None:
        self.flows = False
        self.fault = UpstreamError("upstream_bad_response", message)
