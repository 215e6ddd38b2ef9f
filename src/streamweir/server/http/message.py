"""A request and its response: the interface between the HTTP layer and the rest. No socket here.

`server.http.connection` makes a `Request` when its head is complete. It calls the `Application` twice, `begin` with the
head and `serve` with the body, and gives it a `Response`, the only writer of that request's answer. A body is read in
two cases only: `begin` admitted the request, or `Response.read_body` was called.
"""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from streamweir.core.errors import StreamweirError

Headers = tuple[tuple[str, str], ...]

UNREADABLE = "-"
"""Method and path of a request whose head could not be read."""


class BodyHold(Protocol):
    """The share of a request's body in the memory for bodies."""

    def grow(self, to_bytes: int, /) -> StreamweirError | None:
        """Reserves memory for a body of so many bytes. Returns an error if there is not enough."""
        ...

    def release(self) -> None:
        """The body is no longer in memory. May be called several times."""
        ...


class Request(Struct, kw_only=True):
    id: str
    """Made by the gateway and sent back as `x-request-id`."""
    method: str
    path: str
    """As sent, without the query. ASCII."""
    query: str = ""
    headers: dict[str, str]
    """Lower-case names; values as latin-1. A repeated one is joined by a comma."""
    length: int | None = 0
    """Of the body, as the head declares it. None: it is chunked."""
    body: bytes = b""
    """Empty until it is read."""
    hold: BodyHold | None = None
    """Set before the body is read. The connection releases it when the answer is over."""
    peer: str = ""
    """The address of the other end of the connection."""
    arrived_s: float
    """`loop.time()` when the head was complete."""
    admitted: object = None
    """The result of `Application.begin`, for `serve`."""


class Answer(Struct, frozen=True, kw_only=True):
    """A whole response. `content-length`, `date`, `connection` and `x-request-id` are added by the writer."""

    status: int
    headers: Headers = ()
    body: bytes = b""


class Response(Protocol):
    """The only writer of an answer: either `send` or `start ... end`. After a disconnect, writes have no effect.

    The application sets the headers and the three callbacks. The callbacks are called from the event loop, never from
    inside a method of this object.
    """

    more_headers: Headers
    """In the head of the answer, whoever writes it. Set before it is written."""
    on_gone: Callable[[], None] | None
    """The caller closed, reset, or read nothing for too long. Called at most once, and not after the end."""
    on_full: Callable[[], None] | None
    """More than the high-water mark is buffered: stop writing."""
    on_drained: Callable[[], None] | None

    @property
    def started(self) -> bool: ...

    @property
    def over(self) -> bool:
        """Ended, or the caller has gone."""
        ...

    @property
    def gone(self) -> bool: ...

    @property
    def full(self) -> bool:
        """More than the high-water mark is buffered. True at once; `on_full` is called later, from the event loop."""
        ...

    def send(self, answer: Answer, /) -> None: ...

    def start(self, status: int, headers: Headers, first: bytes = b"", /) -> None:
        """The head of a streamed answer and, in the same write, its first bytes."""
        ...

    def write(self, data: bytes, /) -> None: ...

    def end(self, last: bytes = b"", /) -> None:
        """The end of a streamed answer, in the same write as its last bytes."""
        ...

    def cut(self) -> None:
        """Closes the connection without an end, so that the answer does not look complete."""
        ...

    def read_body(self, max_bytes: int | None, done: Callable[[StreamweirError | None], None], /) -> None:
        """Reads a body that `begin` left unread, of at most so many bytes. Once.

        `done` is called when the body is in the request, or with the error. After an error the connection ends with the
        answer. If the caller disconnects, `on_gone` is called instead.
        """
        ...

    def arrived_body(self) -> bytes:
        """A body that `begin` left unread, if all of it arrived with the head; else nothing. It is not waited for."""
        ...


class Application(Protocol):
    """What the HTTP layer needs from the program."""

    def begin(self, request: Request, response: Response, /) -> bool | None:
        """The head is complete. If it is answered now, the body is not read, and no `100 Continue` is sent.

        True: the answer will be sent without `serve`. The body is read only by `Response.read_body`.
        """
        ...

    def serve(self, request: Request, response: Response, /) -> None:
        """The request is complete."""
        ...

    def refuse(self, request: Request, error: StreamweirError, /) -> Answer:
        """The answer to invalid HTTP. If the head could not be read, `path` is `UNREADABLE`."""
        ...
