"""The one writer of an answer: heads and frames as bytes, each in one write. See `server.http.message.Response`.

It knows how HTTP/1.1 frames a response and nothing of the connection's life: that is its `ResponseTransport`,
which it asks once whether the connection ends with this answer, and tells when the answer is over.
What goes into a header is cleaned here, whoever made it (docs/spec/security.md S21): a character that
has no place there is left out. `write` is the hot path: one format, one call of the transport.
"""

import re
import time
from collections.abc import Callable
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Protocol

from streamweir.core.errors import StreamweirError
from streamweir.server.http.message import Answer, Headers

_BODILESS = frozenset({204, 304})
_OURS = frozenset(
    {"connection", "content-length", "date", "keep-alive", "server", "transfer-encoding", "upgrade", "x-request-id"}
)
"""Said by the writer alone or not at all, so that nobody can say them twice or wrongly."""
_LARGEST_JOINED = 64 * 1024
"""A larger body is not copied only to stand behind its head."""
_NO_TOKEN = re.compile(r"[^!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NO_VALUE = re.compile(r"[^\t -~\x80-\xff]+")
_LINES = {int(status): f"HTTP/1.1 {int(status)} {status.phrase}\r\n" for status in HTTPStatus}


class ResponseTransport(Protocol):
    """The connection, as far as a response knows it."""

    is_full: bool

    def head_goes_out(self) -> bool:
        """Called right before the first byte. True: the connection ends with this answer."""
        ...

    def response_ended(self) -> None: ...

    def response_cut(self, /, *, abruptly: bool) -> None:
        """`abruptly`: by a reset, for a mere close would look like the end of the answer."""
        ...

    def read_body(self, most: int | None, done: Callable[[StreamweirError | None], None], /) -> None:
        """See `server.http.message.Response`."""
        ...


class HttpResponse:
    __slots__ = (
        "_carrier",
        "_id",
        "_is_1_1",
        "_is_chunked",
        "_is_head",
        "_is_plain",
        "_send",
        "bytes_out",
        "gone",
        "on_drained",
        "on_full",
        "on_gone",
        "over",
        "started",
    )

    def __init__(
        self, carrier: ResponseTransport, send: Callable[[bytes], None], request_id: str, *, is_head: bool, is_1_1: bool
    ) -> None:
        self._carrier = carrier
        self._send = send
        self._id = request_id
        self._is_head = is_head
        self._is_1_1 = is_1_1
        self._is_chunked = False
        """A body is under way, in chunks."""
        self._is_plain = False
        """A body is under way, ended by the end of the connection."""
        self.bytes_out = 0
        self.started = False
        self.over = False
        self.gone = False
        self.on_gone: Callable[[], None] | None = None
        self.on_full: Callable[[], None] | None = None
        self.on_drained: Callable[[], None] | None = None

    @property
    def full(self) -> bool:
        return self._carrier.is_full and not self.over

    def send(self, answer: Answer, /) -> None:
        if not self._begins():
            return
        body = answer.body
        has_body = not self._is_head and answer.status not in _BODILESS
        framing = "" if answer.status in _BODILESS else f"content-length: {self._length(answer)}\r\n"
        head = self._head(answer.status, answer.headers, framing)
        if not has_body:
            self._put(head)
        elif len(body) > _LARGEST_JOINED:
            self._put(head)
            self._put(body)
        else:
            self._put(head + body)
        self._finish()

    def start(self, status: int, headers: Headers, first: bytes = b"", /) -> None:
        if not self._begins():
            return
        if self._is_head or status in _BODILESS:
            self._put(self._head(status, headers, ""))
        elif self._is_1_1:
            self._is_chunked = True
            head = self._head(status, headers, "transfer-encoding: chunked\r\n")
            self._put(b"%b%x\r\n%b\r\n" % (head, len(first), first) if first else head)
        else:
            self._is_plain = True
            self._put(self._head(status, headers, "") + first)

    def write(self, data: bytes, /) -> None:
        if self._is_chunked:
            if data:
                frame = b"%x\r\n%b\r\n" % (len(data), data)
                self.bytes_out += len(frame)
                self._send(frame)
        elif self._is_plain:
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
        elif self._is_plain and last:
            self._put(last)
        self._finish()

    def cut(self) -> None:
        if self.over:
            return
        abruptly = self._is_plain
        self._close()
        self._carrier.response_cut(abruptly=abruptly)

    def read_body(self, most: int | None, done: Callable[[StreamweirError | None], None], /) -> None:
        if not self.over:
            self._carrier.read_body(most, done)

    def lose(self) -> None:
        """For the carrier: the caller has gone."""
        if self.over:
            return
        on_gone = self.on_gone
        self.gone = True
        self._close()
        if on_gone is not None:
            on_gone()

    def _begins(self) -> bool:
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
        self._carrier.response_ended()

    def _close(self) -> None:
        self.over = True
        self._is_chunked = self._is_plain = False
        self.on_gone = self.on_full = self.on_drained = None

    def _length(self, answer: Answer) -> int:
        """To HEAD, an application may say how long the body would have been."""
        if self._is_head and not answer.body:
            for name, value in answer.headers:
                if name.lower() == "content-length" and value.isascii() and value.isdigit():
                    return int(value)
        return len(answer.body)

    def _head(self, status: int, headers: Headers, framing: str) -> bytes:
        lines = [_LINES.get(status) or f"HTTP/1.1 {status} \r\n"]
        for name, value in headers:
            if clean_name := _clean_name(name):
                clean_value = value if value.isascii() and value.isprintable() else _NO_VALUE.sub("", value)
                lines.append(f"{clean_name}: {clean_value}\r\n")
        closing = "connection: close\r\n" if self._carrier.head_goes_out() else ""
        lines.append(f"date: {_date(int(time.time()))}\r\nx-request-id: {self._id}\r\n{closing}{framing}\r\n")
        return "".join(lines).encode("latin-1")


@lru_cache(maxsize=256)
def _clean_name(name: str) -> str:
    """Empty: not to be sent."""
    name = _NO_TOKEN.sub("", name).lower()
    return "" if name in _OURS else name


def status_line(status: int) -> str:
    return _LINES.get(status) or f"HTTP/1.1 {status} \r\n"


def http_date() -> bytes:
    """Now, as a `date` header says it."""
    return _date(int(time.time())).encode("latin-1")


@lru_cache(maxsize=1)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)
