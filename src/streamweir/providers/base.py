"""The interface of a provider, and functions that request builders and decoders share.

A provider turns a `ChatRequest` into the request of its service, and the service's answer, streamed or whole, into
events. Everything here is pure: sockets are in `upstream`. Decoders do not raise exceptions for invalid data from an
upstream: they end the stream with `StreamFailed`.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct

from streamweir.core.errors import CallerError, StreamweirError, UpstreamError
from streamweir.core.events import Event, StreamFailed
from streamweir.core.request import ChatRequest
from streamweir.wire import jsonio
from streamweir.wire.body import Framing
from streamweir.wire.sse import DEFAULT_LIMIT, Frame

PART = b"streamweir.part"
"""The name of the event between the answers of two calls: see `UpstreamRequest.is_streamed`."""

_DEFAULTS: dict[str, tuple[Any, ...]] = {
    # Values that mean the same as an absent member.
    "n": (1,),
    "temperature": (1,),
    "top_p": (1,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "parallel_tool_calls": (True,),
    "tools": ([],),
    "tool_choice": ("auto",),
    "store": (False,),
    "metadata": ({},),
    "modalities": ([], ["text"]),
    "service_tier": ("auto", "default"),
    "verbosity": ("medium",),
    "user": ("",),
    "prompt_cache_key": ("",),
    "safety_identifier": ("",),
}


class Wire(StrEnum):
    """Which of its APIs a provider is asked through."""

    CHAT = "chat"
    """Its own: chat completions, where it has those."""
    RESPONSES = "responses"
    MESSAGES = "messages"
    """Anthropic's, at a cloud."""
    CONVERSE = "converse"
    """Amazon Bedrock's own."""
    GEMINI = "gemini"
    """Vertex AI's own."""


class Target(Struct, frozen=True, kw_only=True):
    """The target of one attempt, from the configuration."""

    model: str
    """The upstream's own name of the model (Azure: the deployment)."""
    api_key: str = ""
    api_version: str | None = None
    project: str | None = None
    location: str | None = None
    region: str | None = None
    requests_usage: bool = True
    """False once this upstream has refused `stream_options`."""
    max_output_tokens: int | None = None
    """The longest answer, if it is configured: for APIs that require a limit, where the caller has set none."""


class UpstreamRequest(Struct, frozen=True, kw_only=True):
    """A request to `base_url + path`."""

    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    dropped: tuple[str, ...] = ()
    """JSON paths of members that this provider does not support; they are not in the body."""
    wire: Wire = Wire.CHAT
    """In whose format the answer comes."""
    more: tuple[bytes, ...] = ()
    """The bodies of further calls to the same path, whose answers make up one (`upstream.batch`)."""
    parallel: int = 1
    """How many of these calls may run at a time."""
    is_folded: bool = False
    """The answer is asked for as a stream, although the caller gets a whole one."""
    count_header: str | None = None
    """A header of each call's answer with the tokens of its prompt. The answers then make up one document, with these
    numbers in it, also if there is one call."""
    is_streamed: bool = False
    """Their answers are event streams, with an event `PART` between two of them."""
    framing: Framing = Framing.TEXT
    """What these streams are made of."""
    method: str = "POST"
    trace_headers: bytes = b""
    """Header lines that say which trace the request belongs to (`policy.trace_context`)."""


class Decoder(Protocol):
    """Frames to events; see `core.events` for the rules. After the terminal event it returns nothing."""

    @property
    def may_end_when_idle(self) -> bool:
        """Only usage and the end can follow: if nothing more arrives, the answer counts as complete.

        False for a protocol whose terminator is required.
        """
        ...

    @property
    def lacks_terminator(self) -> bool:
        """The answer is complete, but the terminator of this protocol is missing."""
        ...

    def feed(self, frame: Frame, /) -> Sequence[Event]: ...

    def finish(self) -> Sequence[Event]:
        """The body ended cleanly."""
        ...

    def fail(self, error: StreamweirError, /) -> Sequence[Event]:
        """The body will not continue: a reset, a timeout, an invalid frame."""
        ...


class Provider(Protocol):
    @property
    def name(self) -> str:
        """A name in `registry` whose provider decodes answers in the same way."""
        ...

    def refusal_of(self, request: ChatRequest, model: str, /) -> CallerError | None:
        """Why this model cannot serve the request: it does not support something that must not be left out."""
        ...

    def build_request(self, request: ChatRequest, target: Target, /) -> UpstreamRequest: ...

    def decoder(self, choices: int | None = None, /) -> Decoder:
        """`choices`: the requested number; an answer must have exactly as many. None: unknown."""
        ...

    def decode_whole(self, body: bytes, choices: int | None = None, /) -> Sequence[Event]:
        """The same events from an answer that was not streamed."""
        ...

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes, /) -> StreamweirError:
        """A response with a failure status. `headers` have lower-case names."""
        ...


def max_event_bytes(provider: Provider) -> int:
    """The size of the largest event in its streams. Only a provider of larger ones than usual has the attribute."""
    size: int = getattr(provider, "max_event_bytes", DEFAULT_LIMIT)
    return size


def count_request(provider: Provider, request: UpstreamRequest, target: Target) -> UpstreamRequest | None:
    """The call that returns the number of prompt tokens of `request`, which it would get for a completion.

    None: the service has no such call, or not for this model. Only a provider whose service has one has the method.
    """
    make: Callable[[UpstreamRequest, Target], UpstreamRequest | None] | None
    make = getattr(provider, "count_request", None)
    return None if make is None else make(request, target)


def can_count(provider: Provider) -> bool:
    """Whether its service has such a call for some models."""
    return hasattr(provider, "count_request")


def framing_of(provider: Provider) -> Framing:
    """What its event streams are made of. Only a provider of binary ones has the attribute."""
    framing: Framing = getattr(provider, "framing", Framing.TEXT)
    return framing


def is_default(name: str, value: object) -> bool:
    """The member is absent, or has its default value: leaving it out need not be reported."""
    return value is None or value in _DEFAULTS.get(name, ())


def json_headers(request: ChatRequest) -> tuple[tuple[str, str], ...]:
    accept = "text/event-stream" if request.stream else "application/json"
    return (("content-type", "application/json"), ("accept", accept))


def object_in(text: str) -> dict[str, Any] | None:
    """The text as a JSON object; None if it is not one."""
    try:
        value = jsonio.decode(text.encode("utf-8", "surrogatepass"))
    except jsonio.InvalidJson:
        return None
    return value if isinstance(value, dict) else None


def read_arguments(text: str) -> dict[str, Any]:
    """The arguments of a call as an object. Invalid ones (cut by a length limit) are kept as text."""
    if not text.strip():
        return {}
    arguments = object_in(text)
    return {"INVALID_JSON": text} if arguments is None else arguments


def documents_in(frame: Frame) -> list[Frame]:
    """The frames of a block whose `data` lines are separate documents; empty if they are not.

    quirk: by the rules several `data` lines are one document, and are read as one. If that is invalid and every line
    is valid, the blank lines between them were lost (fixture gemini/blank_lines_lost).
    """
    lines = frame.data.split(b"\n") if frame.data is not None else []
    if len(lines) < 2:
        return []
    for line in lines:
        try:
            jsonio.decode(line)
        except jsonio.InvalidJson:
            if line != b"[DONE]":
                return []
    return [Frame(line, line, frame.event, frame.terminated) for line in lines]


def no_server_tool(request: ChatRequest) -> CallerError | None:
    """The refusal of a provider without such tools, where the request has no others: its answer would be taken for
    what the tool has found."""
    native = request.native
    if native is None or not native.requires_server_tools or request.tools:
        return None
    kind, path = request.server_tools[0]
    return CallerError("invalid_value", f"This model has no tool of the kind {kind[:64]}.", param=path)


def one_choice_only(request: ChatRequest) -> CallerError | None:
    """The refusal of a provider that supports one choice per request."""
    if request.n == 1:
        return None
    message = (
        f"n is {request.n}, and this model gives one choice per request. Leave n out, or send {request.n} requests."
    )
    return CallerError("invalid_value", message, param="n")


def too_many_choices(choices: int) -> StreamFailed:
    message = f"The upstream sent more choices than the {choices} that were asked for."
    return StreamFailed(UpstreamError("upstream_bad_response", message))


def missing_choices(sent: int, choices: int) -> StreamFailed:
    """For a whole answer. It is not retried at the same target: the result would be the same."""
    message = f"The upstream sent {sent} of the {choices} choices that were asked for."
    return StreamFailed(UpstreamError("upstream_bad_response", message))


def call_in_text() -> StreamFailed:
    message = "The model called a tool, which a text completion cannot show."
    return StreamFailed(UpstreamError("upstream_bad_response", message))


def truncated() -> StreamFailed:
    return StreamFailed(
        UpstreamError("upstream_stream_truncated", "The upstream's answer ended before it was complete.")
    )


def invalid_frame() -> StreamFailed:
    return StreamFailed(UpstreamError("upstream_invalid_frame", "The upstream sent a frame that cannot be read."))
