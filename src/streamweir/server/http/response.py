"""The only writer of an answer: heads and frames as bytes, each in one write. See `server.http.message.Response`.

It frames a response in HTTP/1.1. The connection is its `ResponseTransport`: `before_head` returns whether the
connection ends with this answer, `response_ended` follows the last byte. All header names and values are cleaned here
(docs/spec/security.md S21): an invalid character is left out. `write` is the hot path: one format, one call of the
transport.
"""

import re
import time
from collections.abc import Callable
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from operator import itemgetter
from typing import Protocol

from streamweir.core.errors import StreamweirError
from streamweir.server.http.message import Answer, Headers

_STATUSES_WITHOUT_BODY = frozenset({204, 304})
_RESERVED_HEADERS = frozenset(
    {"connection", "content-length", "date", "keep-alive", "server", "transfer-encoding", "upgrade", "x-request-id"}
)
"""Only the writer sets these headers, so that none is repeated or wrong."""
_MAX_JOINED_BYTES = 64 * 1024
"""A larger body is written separately, to avoid a copy."""
_NOT_TOKEN = re.compile(r"[^!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_VALUE = re.compile(r"[^\t -~\x80-\xff]+")
_value_of: Callable[[tuple[str, str]], str] = itemgetter(1)
_STATUS_LINES = {int(status): f"HTTP/1.1 {int(status)} {status.phrase}\r\n" for status in HTTPStatus}
_STATUS_LINES[426] += "upgrade: HTTP/1.1\r\n"
"""Such an answer must name the protocol to use (RFC 9110, 15.5.22)."""


class ResponseTransport(Protocol):
    """What a response needs from its connection."""

    is_full: bool

    def before_head(self) -> bool:
        """Called right before the first byte. True: the connection ends with this answer."""
        ...

    def response_ended(self) -> None: ...

    def response_cut(self, /, *, with_reset: bool) -> None:
        """`with_reset`: a plain close would look like the end of the answer."""
        ...

    def read_body(self, max_bytes: int | None, done: Callable[[StreamweirError | None], None], /) -> None:
        """See `server.http.message.Response`."""
        ...

    def arrived_body(self) -> bytes: ...


class HttpResponse:
    __slots__ = (
        "_id",
        "_is_1_1",
        "_is_chunked",
        "_is_head",
        "_is_unframed",
        "_send",
        "_transport",
        "bytes_out",
        "gone",
        "more_headers",
        "on_drained",
        "on_full",
        "on_gone",
        "over",
        "started",
    )

    def __init__(
        self,
        transport: ResponseTransport,
        send: Callable[[bytes], None],
        request_id: str,
        *,
        is_head: bool,
        is_1_1: bool,
    ) -> None:
        self._transport = transport
        self._send = send
        self._id = request_id
        self._is_head = is_head
        self._is_1_1 = is_1_1
        self._is_chunked = False
        """A chunked body was started."""
        self._is_unframed = False
        """A body was started that ends with the connection."""
        self.bytes_out = 0
        self.more_headers: Headers = ()
        self.started = False
        self.over = False
        self.gone = False
        self.on_gone: Callable[[], None] | None = None
        self.on_full: Callable[[], None] | None = None
        self.on_drained: Callable[[], None] | None = None

    @property
    def full(self) -> bool:
        return self._transport.is_full and not self.over

    def send(self, answer: Answer, /) -> None:
        if not self._begin():
            return
        body = answer.body
        has_body = not self._is_head and answer.status not in _STATUSES_WITHOUT_BODY
        framing = "" if answer.status in _STATUSES_WITHOUT_BODY else f"content-length: {self._length(answer)}\r\n"
        head = self._head(answer.status, answer.headers, framing)
        if not has_body:
            self._put(head)
        elif len(body) > _MAX_JOINED_BYTES:
            self._put(head)
            self._put(body)
        else:
            self._put(head + body)
        self._finish()

    def start(self, status: int, headers: Headers, first: bytes = b"", /) -> None:
        if not self._begin():
            return
        if self._is_head or status in _STATUSES_WITHOUT_BODY:
            self._put(self._head(status, headers, ""))
        elif self._is_1_1:
            self._is_chunked = True
            head = self._head(status, headers, "transfer-encoding: chunked\r\n")
            self._put(b"%b%x\r\n%b\r\n" % (head, len(first), first) if first else head)
        else:
            self._is_unframed = True
            self._put(self._head(status, headers, "") + first)

    def write(self, data: bytes, /) -> None:
        if self._is_chunked:
            if data:
                frame = b"%x\r\n%b\r\n" % (len(data), data)
                self.bytes_out += len(frame)
                self._send(frame)
        elif self._is_unframed:
            self._put(data)
        elif not self.started and not self.over:
            raise RuntimeError("a body before its head")

    def end(self, last: bytes = b"", /) -> None:
        if self.over:
            return
        if not self.started:
            raise RuntimeError("an end before a head")
        if self._is_chunked:
            self._put(b"%x\r\n%b\r\n0\r\n\r\n" % (len(last), last) if last else b"0\r\n\r\n")
        elif self._is_unframed and last:
            self._put(last)
        self._finish()

    def cut(self) -> None:
        if self.over:
            return
        with_reset = self._is_unframed
        self._close()
        self._transport.response_cut(with_reset=with_reset)

    def read_body(self, max_bytes: int | None, done: Callable[[StreamweirError | None], None], /) -> None:
        if not self.over:
            self._transport.read_body(max_bytes, done)

    def arrived_body(self) -> bytes:
        return self._transport.arrived_body()

    def disconnect(self) -> None:
        """For the transport: the caller has gone."""
        if self.over:
            return
        on_gone = self.on_gone
        self.gone = True
        self._close()
        if on_gone is not None:
            on_gone()

    def _begin(self) -> bool:
        if self.over:
            return False
        if self.started:
            raise RuntimeError("an answer within an answer")
        self.started = True
        return True

    def _put(self, data: bytes) -> None:
        if data:
            self.bytes_out += len(data)
            self._send(data)

    def _finish(self) -> None:
        self._close()
        self._transport.response_ended()

    def _close(self) -> None:
        self.over = True
        self._is_chunked = self._is_unframed = False
        self.on_gone = self.on_full = self.on_drained = None

    def _length(self, answer: Answer) -> int:
        """In the answer to HEAD, an application may declare the length that the body would have."""
        if self._is_head and not answer.body:
            for name, value in answer.headers:
                if name.lower() == "content-length" and value.isascii() and value.isdigit():
                    return int(value)
        return len(answer.body)

    def _head(self, status: int, headers: Headers, framing: str) -> bytes:
        if self.more_headers:
            headers += self.more_headers
        values = "".join(map(_value_of, headers))
        is_clean = values.isascii() and values.isprintable()  # nearly always, so not each by itself
        head = _STATUS_LINES.get(status) or f"HTTP/1.1 {status} \r\n"
        for name, value in headers:
            if clean_name := _clean_name(name):
                head += f"{clean_name}: {value if is_clean else _NOT_VALUE.sub('', value)}\r\n"
        closing = "connection: close\r\n" if self._transport.before_head() else ""
        head += f"date: {_date(int(time.time()))}\r\nx-request-id: {self._id}\r\n{closing}{framing}\r\n"
        return head.encode("latin-1")


@lru_cache(maxsize=256)
def _clean_name(name: str) -> str:
    """Empty: the header is not sent."""
    name = _NOT_TOKEN.sub("", name).lower()
    return "" if name in _RESERVED_HEADERS else name


def status_line(status: int) -> str:
    return _STATUS_LINES.get(status) or f"HTTP/1.1 {status} \r\n"


def http_date() -> bytes:
    """The current time in the format of a `date` header."""
    return _date(int(time.time())).encode("latin-1")


@lru_cache(maxsize=1)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)
