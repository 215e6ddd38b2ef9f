"""The interface of a frontend: an API that callers use, from the request's document to the bytes of the answer.

    document -> parse -> ChatRequest                                        the request
    Event -> StreamEncoder -> frames    Completion -> write_whole -> body   the answer
    StreamweirError -> write_error -> status, headers, body                 an error before the answer has begun

An error inside a stream is an event, so the encoder writes it. The pipeline and the server import this module and
the table (`frontends.table`), and no concrete frontend. A frontend knows no provider and no socket; the time and the
entropy of ids are arguments (`Reply`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from streamweir.core.completion import Completion
from streamweir.core.embedding import Encoding
from streamweir.core.errors import CallerError, StreamweirError
from streamweir.core.events import Event
from streamweir.core.request import ChatRequest, ToolShape
from streamweir.core.usage import Usage
from streamweir.frontends.model_list import ListedModel, openai_list, openai_model
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
    """The parameters with which one answer is written: the caller's options, the id and the clock."""

    id: str = ""
    """The gateway's id, in the frontend's format. Empty: made from `entropy`, unless the upstream's id is used."""
    entropy: bytes = b""
    now: Callable[[], int]
    request_id: str = ""
    model: str | None = None
    """The model name in the caller's request."""
    prompt_tokens: int = 0
    """An estimate, for APIs that report the prompt's tokens before the answer."""
    target_model: str = ""
    choices: int | None = None
    """The number of choices that the caller requested; None: unknown."""
    include_usage: bool = False
    exclude_reasoning: bool = False
    tool_names: Mapping[str, str] | None = None
    """Tool names as sent to the upstream, and the caller's names, where they differ."""
    hides_reasoning: bool = False
    """Reasoning text is not written, only the data with which it can be sent back."""
    tools: Mapping[str, ToolShape] | None = None
    """Tools as the upstream knows them, and what they are for the caller, where that is something else."""
    summarizes_reasoning: bool = False
    """Reasoning text is written as a summary."""
    shows_logprobs: bool = False
    echoed: Mapping[str, Any] | None = None
    """Members of the request that the answer repeats."""
    pinned: bool = False
    """`id` is used even if the upstream's id has the right format."""
    created: int | None = None
    """Used even if the upstream reports a time."""
    first_number: int = 0
    """Of the frames, for an API that numbers them: above 0 if frames of the upstream were sent before."""
    count_usage: Callable[[], Usage] = Usage
    """Called at the end if usage must be sent and the upstream reported none."""
    encoding: Encoding = "float"
    """Of vectors."""
    price_of: Callable[[Usage], float | None] | None = None
    """What the caller pays for a usage, in dollars, if it is shown that."""


def with_cost(shown: dict[str, Any], usage: Usage, reply: Reply) -> dict[str, Any]:
    """The usage object `shown` of a complete answer, with what the caller pays for it, if that is shown and known."""
    cost = reply.price_of(usage) if reply.price_of is not None else None
    return shown if cost is None else {**shown, "cost": cost}


class StreamEncoder(Protocol):
    """Events to frames, one encoder per stream. Its events follow the rules of `core.events`.

    After `StreamCompleted` it ends the stream as complete, after `StreamFailed` in a way that no client takes for
    complete. After either it writes nothing.
    """

    @property
    def completion_id(self) -> str:
        """The id of the answer in its frames."""
        ...

    def begin(self) -> list[bytes]:
        """The frames that must come first, even before a keep-alive, if a stream has to begin without an event."""
        ...

    def feed(self, event: Event, /) -> list[bytes]:
        """Called for every event; nearly all events are `TextDelta`.

        Raises `UpstreamError` for an answer that is too large for this API. A `StreamFailed` after `StreamCompleted`
        says that the end was not sent: an encoder that numbers its frames writes the failure in its place.
        """
        ...


class WholeBody(NamedTuple):
    """An answer that is not streamed."""

    completion_id: str
    body: bytes


class ErrorResponse(NamedTuple):
    """An error before anything was sent to the caller. The server adds the headers about retries."""

    status: int
    body: bytes
    headers: Headers = JSON


class Frontend(ABC):
    """One API. A value without state: every request shares it."""

    name: str
    """Its name in the log, the metrics and the database."""
    paths: tuple[str, ...]
    """The paths of its requests. If several frontends share a path, the key or the configuration chooses."""
    count_paths: tuple[str, ...] = ()
    """The paths of requests that ask only for the number of tokens of a prompt."""
    prefix: str = ""
    """The first segment of paths whose errors have this API's format, including unknown URLs."""
    client_header: str = ""
    """A header that only clients of this API send. It selects this API on paths that do not (`/v1/models`)."""
    logged_headers: tuple[str, ...] = ()
    """Headers in which its clients name a session or an agent: they are logged, and not sent on."""
    session_headers: tuple[str, ...] = ("x-session-affinity", "x-session-id")
    """Headers in which clients name the conversation that a request belongs to. The first one that was sent counts."""
    native_wire: NativeWire | None = None
    """The wire format whose frames can be passed on unchanged, because they are this frontend's own."""
    always_includes_usage: bool = False
    """A stream contains usage even if the caller did not request it."""
    stream_headers: Headers = EVENT_STREAM
    keep_alive: bytes = sse.write_comment(b"keep-alive")
    """Written while a stream that has begun is idle. Empty: nothing is written."""
    max_quiet_s: float = inf
    """`keep_alive` is written after so many seconds without data, unless the configured time is shorter."""
    early_keep_alive: bytes = sse.write_comment(b"keep-alive")
    """The same before the first frame of a stream that is passed on unchanged."""
    has_own_headers: bool = False
    """`own_headers` must be called for every answer."""
    shows_cost: bool = True
    """Its usage may have a member `cost`."""
    in_playground: bool = True
    """Its requests are conversations, which the console's playground can have."""
    body_factor: int = 1
    """Its request bodies may be so many times as large as the configured limit."""

    @abstractmethod
    def parse(self, document: dict[str, Any], headers: Mapping[str, str], /) -> ChatRequest:
        """Validates the body, given as JSON. Raises `CallerError`. Called in a thread if the body is large."""

    def session_in(self, _request: ChatRequest, /) -> str | None:
        """The conversation as clients of this API name it in the body, apart from `prompt_cache_key`."""
        return None

    def end_user_in(self, request: ChatRequest, /) -> str | None:
        """The user of the caller's that the body names: `user` is the older name of `safety_identifier`."""
        return request.safety_identifier or request.user

    def parse_count(self, document: dict[str, Any], headers: Mapping[str, str], /) -> ChatRequest:
        """As `parse`, for a request to one of `count_paths`."""
        return self.parse(document, headers)

    def write_count(self, tokens: int, _request: ChatRequest, /) -> dict[str, Any]:
        """The document of the answer to such a request."""
        return {"input_tokens": tokens}

    @abstractmethod
    def make_id(self, entropy: bytes, /) -> str:
        """An id in this API's format, made from at least 24 random bytes."""

    def write_models(self, models: Sequence[ListedModel], _query: str, /) -> dict[str, Any]:
        """The document of `GET /v1/models`. `query`: of the URL. Raises `CallerError`."""
        return openai_list(models)

    def write_model(self, model: ListedModel, /) -> dict[str, Any]:
        """The document of `GET /v1/models/{id}`."""
        return openai_model(model)

    @abstractmethod
    def encoder(self, reply: Reply, /) -> StreamEncoder: ...

    def keep_alive_in(self, _encoder: StreamEncoder, /) -> bytes:
        """The keep-alive of a stream that is written by this encoder, for an API in which no two are equal."""
        return self.keep_alive

    def next_number_in(self, _encoder: StreamEncoder, /) -> int:
        """The number of the next frame of such a stream."""
        return 0

    def return_to(self, _encoder: StreamEncoder, _number: int, /) -> None:  # noqa: B027 (most number nothing)
        """The frames from this number on were not sent. Called before a stream fails, and only then."""

    @abstractmethod
    def write_whole(self, completion: Completion, reply: Reply, /) -> WholeBody: ...

    @abstractmethod
    def write_error(self, error: StreamweirError, request_id: str = "", /) -> ErrorResponse:
        """`request_id` is empty if one prepared refusal answers many requests."""

    def write_streamed_error(self, _error: StreamweirError, _reply: Reply, /) -> bytes | None:
        """The same as a stream with status 200, for a streamed request whose clients look for this error there.

        None: `write_error` is used.
        """
        return None

    def unknown_path(self, _method: str, _path: str, /) -> CallerError | None:
        """The error for a path below one of its own that is not served. None: the usual one."""
        return None

    def own_headers(self, headers: Headers, _request_id: str, _dropped: Sequence[str], _now: float, /) -> Headers:
        """The headers of an answer or an error: `headers` under this API's own names, and further ones of this API.

        `headers`: the caller's limits (`x-ratelimit-*`), and others. `dropped`: the JSON paths of what was left out of
        the request. `now`: in Unix seconds.
        """
        return headers
