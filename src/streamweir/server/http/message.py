"""A request and its response: the interface between the HTTP layer and the rest. No socket here.

`server.http.listener` makes a `Request` when its head is whole, asks the `Application` twice (`begin` with
the head, `serve` with the body) and gives it a `Response`, the one writer of that request's answer.
A body is read for two reasons alone: `begin` let the request in, or somebody asked the response for it.
"""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from streamweir.core.errors import StreamweirError

Headers = tuple[tuple[str, str], ...]

UNREAD = "-"
"""Stands for what a request without a readable head does not say."""


class BodyHold(Protocol):
    """What a request's body takes of the memory for bodies."""

    def grow(self, to_bytes: int, /) -> StreamweirError | None:
        """It has so many bytes now, or will have. The error: there is no room for them."""
        ...

    def release(self) -> None:
        """Nobody has it any more. Once, or more often."""
        ...


class Request(Struct, kw_only=True):
    id: str
    """Ours, made here, sent back as `x-request-id`."""
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
    """Set before the body is read. The connection lets go of it when the answer is over."""
    peer: str = ""
    """The address of the other end of the connection."""
    arrived_s: float
    """`loop.time()` when the head was whole."""
    admitted: object = None
    """What `Application.begin` found out, for its `serve`."""


class Answer(Struct, frozen=True, kw_only=True):
    """A whole response. `content-length`, `date`, `connection` and `x-request-id` are added by the writer."""

    status: int
    headers: Headers = ()
    body: bytes = b""


class Response(Protocol):
    """The one writer of an answer: exactly one of `send` or `start ... end`. Who has gone is written to in silence.

    The three callbacks are set by whoever serves the request. They are called from the event loop,
    never from inside a method of this object.
    """

    on_gone: Callable[[], None] | None
    """The caller closed, reset, or read nothing for too long. Called at most once, and not after the end."""
    on_full: Callable[[], None] | None
    """More than the high mark is waiting to be read: stop giving."""
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
        """More than the high mark is waiting: true at once, while `on_full` comes after the callback that wrote."""
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
        """Close without an end, so that the caller cannot take what it has for the whole."""
        ...

    def read_body(self, most: int | None, done: Callable[[StreamweirError | None], None], /) -> None:
        """Read what `begin` left unread, of at most so many bytes. Once.

        `done` is told when it is in the request, or why it will not be; the connection ends with the answer then. It is
        not told of a caller that has gone: `on_gone` is.
        """
        ...


class Application(Protocol):
    """What the HTTP layer needs to know of the program."""

    def begin(self, request: Request, response: Response, /) -> bool | None:
        """The head is here. An answer given now means that the body is not read, and no `100 Continue` is sent.

        True: the answer will come without `serve`. The body is not read either, unless the response is asked for it.
        """
        ...

    def serve(self, request: Request, response: Response, /) -> None:
        """The whole request is here."""
        ...

    def refuse(self, request: Request, error: StreamweirError, /) -> Answer:
        """The answer to what is not acceptable as HTTP. Where its head could not be read, `path` is `UNREAD`."""
        ...
