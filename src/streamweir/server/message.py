"""A request as the HTTP layer hands it over, and how it is answered. No socket here: the shapes alone.

`server.http` makes a `Request` when its head is whole, asks the `Application` twice (`begin` with
the head, `serve` with the body) and gives it a `Response`, the one writer of that request's answer.
"""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from streamweir.core.errors import StreamweirError

Headers = tuple[tuple[str, str], ...]

UNREAD = "-"
"""Stands for what a request without a readable head does not say."""


class Request(Struct, kw_only=True):
    id: str
    """Ours, made here, sent back as `x-request-id`."""
    method: str
    path: str
    """As sent, without the query. ASCII."""
    query: str = ""
    headers: dict[str, str]
    """Lower-case names; values as latin-1. A repeated one is joined by a comma."""
    body: bytes = b""
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


class Application(Protocol):
    """What the HTTP layer needs to know of the program."""

    def begin(self, request: Request, response: Response, /) -> None:
        """The head is here. An answer given now means that the body is not read, and no `100 Continue` is sent."""
        ...

    def serve(self, request: Request, response: Response, /) -> None:
        """The whole request is here."""
        ...

    def refuse(self, request: Request, error: StreamweirError, /) -> Answer:
        """The answer to what is not acceptable as HTTP. Where its head could not be read, `path` is `UNREAD`."""
        ...
