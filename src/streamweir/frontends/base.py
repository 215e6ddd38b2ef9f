"""What every frontend gives: an API that callers speak, from the request's document to the bytes of the answer.

    document -> parse -> ChatRequest                                        the request
    Event -> StreamEncoder -> frames    Completion -> write_whole -> body   the answer
    StreamweirError -> write_error -> status, headers, body                 an error before the answer has begun

An error inside a stream is an event, so the encoder writes it. The pipeline and the server know this module and the
table (`frontends.table`), and no frontend by name. A frontend knows no provider and no socket; the time and the
entropy of ids are handed in (`Reply`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from streamweir.core.completion import Completion
from streamweir.core.errors import StreamweirError
from streamweir.core.events import Event
from streamweir.core.request import ChatRequest
from streamweir.core.usage import Usage
from streamweir.wire import sse
from streamweir.wire.native import NativeWire

Headers = tuple[tuple[str, str], ...]

JSON: Headers = (("content-type", "application/json"),)
EVENT_STREAM: Headers = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache, no-transform"),
    ("x-accel-buffering", "no"),
)


class Reply(Struct, frozen=True, kw_only=True):
    """What one answer is written with: what its caller asked for, and the id and the time handed in."""

    id: str = ""
    """Ours, of the frontend's form. Empty: one is made of the `entropy`, where the upstream's own cannot stand."""
    entropy: bytes = b""
    now: Callable[[], int]
    model: str | None = None
    """As the caller named it."""
    target_model: str = ""
    choices: int | None = None
    """How many the caller asked for; None: that is not known."""
    include_usage: bool = False
    exclude_reasoning: bool = False
    pinned: bool = False
    """`id` holds even where the upstream's own could stand."""
    created: int | None = None
    """Holds even where the upstream reports a time."""
    count_usage: Callable[[], Usage] = Usage
    """Called at the end where usage is due and the upstream reported none."""


class StreamEncoder(Protocol):
    """Events to frames, one per stream. What it is fed keeps the rules of `core.events`.

    It ends a stream in one of two ways: as complete, after `StreamCompleted`, or so that no client takes it for
    complete, after `StreamFailed`. After either it writes nothing.
    """

    @property
    def completion_id(self) -> str:
        """The id of the answer, as its frames show it."""
        ...

    def feed(self, event: Event, /) -> list[bytes]:
        """Called for every event: nearly all of them are pieces of text."""
        ...


class WholeBody(NamedTuple):
    """An answer that is not streamed."""

    completion_id: str
    body: bytes


class ErrorResponse(NamedTuple):
    """An error of which the caller has seen nothing yet. What it says about a retry is added by the server."""

    status: int
    body: bytes
    headers: Headers = JSON


class Frontend(ABC):
    """One API. A value without state: every request shares it."""

    name: str
    """In the log, the metrics and the database."""
    paths: tuple[str, ...]
    """Where its requests are posted. Where several frontends share a path, the key or the configuration chooses."""
    prefix: str = ""
    """The first part of paths below which everything is answered as this API does, unknown URLs too."""
    native_wire: NativeWire | None = None
    """The wire whose frames are this frontend's own, so that they may be passed on as they came."""
    always_includes_usage: bool = False
    """A stream carries usage whether or not it was asked for."""
    stream_headers: Headers = EVENT_STREAM
    keep_alive: bytes = sse.write_comment(b"keep-alive")
    """Written in the silence of a stream that has begun. Empty: nothing is."""

    @abstractmethod
    def parse(self, document: dict[str, Any], headers: Mapping[str, str], /) -> ChatRequest:
        """The body as JSON, read and checked. Raises `CallerError`. For a thread, where the body is large."""

    @abstractmethod
    def make_id(self, entropy: bytes, /) -> str:
        """An id of this API's form, out of at least 24 bytes."""

    @abstractmethod
    def encoder(self, reply: Reply, /) -> StreamEncoder: ...

    @abstractmethod
    def write_whole(self, completion: Completion, reply: Reply, /) -> WholeBody: ...

    @abstractmethod
    def write_error(self, error: StreamweirError, /) -> ErrorResponse: ...
