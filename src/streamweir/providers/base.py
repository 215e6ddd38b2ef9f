"""What every provider gives, and what their request builders and their decoders share.

A provider turns a `ChatRequest` into the request that its service understands, and the
service's answer, streamed or whole, into events. Everything here is pure: the bytes are
carried by someone else. Decoders do not raise for an upstream's misconduct: they end the
stream with `StreamFailed`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from streamweir.core.errors import CallerError, StreamweirError, UpstreamError
from streamweir.core.events import Event, StreamFailed
from streamweir.core.request import ChatRequest
from streamweir.wire import jsonio
from streamweir.wire.sse import Frame

_DEFAULTS: dict[str, tuple[Any, ...]] = {
    # Values that ask for nothing: leaving them out changes nothing.
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


class Target(Struct, frozen=True, kw_only=True):
    """Where one attempt goes: what the operator's configuration says of it."""

    model: str
    """The upstream's own name of the model (Azure: the deployment)."""
    api_key: str = ""
    api_version: str | None = None
    project: str | None = None
    location: str | None = None
    requests_usage: bool = True
    """False once this upstream has refused `stream_options`."""


class UpstreamRequest(Struct, frozen=True, kw_only=True):
    """A POST to `base_url + path`."""

    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    dropped: tuple[str, ...] = ()
    """JSON paths of what this provider cannot take, left out of the body."""


class Decoder(Protocol):
    """Frames to events; see `core.events` for the rules. After the terminal event it gives nothing."""

    @property
    def may_end_when_idle(self) -> bool:
        """Nothing but usage and the end itself can come: silence from here on is as good as a clean end.

        False for a wire whose own end is demanded.
        """
        ...

    @property
    def lacks_terminator(self) -> bool:
        """The answer is whole, but the word by which this wire ends an answer never came."""
        ...

    def feed(self, frame: Frame, /) -> Sequence[Event]: ...

    def finish(self) -> Sequence[Event]:
        """The body ended cleanly."""
        ...

    def fail(self, error: StreamweirError, /) -> Sequence[Event]:
        """The body will not go on: a reset, a timeout, a broken frame."""
        ...


class Provider(Protocol):
    @property
    def name(self) -> str:
        """The `registry` has one under this name that reads answers in the same way."""
        ...

    def refusal_of(self, request: ChatRequest, model: str, /) -> CallerError | None:
        """Why this model cannot serve the request at all: what cannot be left out of it without a word."""
        ...

    def build_request(self, request: ChatRequest, target: Target, /) -> UpstreamRequest: ...

    def decoder(self, choices: int | None = None, /) -> Decoder:
        """`choices`: how many were asked for. An answer has neither fewer nor more. None: that is not known."""
        ...

    def decode_whole(self, body: bytes, choices: int | None = None, /) -> Sequence[Event]:
        """The same events from an answer that was not streamed."""
        ...

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes, /) -> StreamweirError:
        """A response with a failure status. `headers` have lower-case names."""
        ...


def is_default(name: str, value: object) -> bool:
    """A member of the body whose loss is not worth naming: it is absent, or has the value that absence means."""
    return value is None or value in _DEFAULTS.get(name, ())


def json_headers(request: ChatRequest) -> tuple[tuple[str, str], ...]:
    accept = "text/event-stream" if request.stream else "application/json"
    return (("content-type", "application/json"), ("accept", accept))


def object_in(text: str) -> dict[str, Any] | None:
    """The JSON object that a text is; None where it is none."""
    try:
        value = jsonio.decode(text.encode("utf-8", "surrogatepass"))
    except jsonio.InvalidJson:
        return None
    return value if isinstance(value, dict) else None


def read_arguments(text: str) -> dict[str, Any]:
    """A call's arguments as the object they are. Those that are none (cut off by a length) are shown as they came."""
    if not text.strip():
        return {}
    arguments = object_in(text)
    return {"INVALID_JSON": text} if arguments is None else arguments


def documents_in(frame: Frame) -> list[Frame]:
    """The frames of a block whose `data` lines are each a document of their own; empty where they are not.

    quirk: by the rules several `data` lines are one document, and are read so. Where that cannot be
    read and every line can, the blank lines between them were lost (fixture gemini/blank_lines_lost).
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
    if not request.server_tools or request.tools:
        return None
    kind, path = request.server_tools[0]
    return CallerError("invalid_value", f"This model has no tool of the kind {kind}.", param=path)


def one_choice_only(request: ChatRequest) -> CallerError | None:
    """The refusal of a provider that gives one choice per request."""
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
    """Of an answer that is not streamed. It is not asked for again at the same place: it would be as short."""
    message = f"The upstream sent {sent} of the {choices} choices that were asked for."
    return StreamFailed(UpstreamError("upstream_bad_response", message))


def truncated() -> StreamFailed:
    return StreamFailed(
        UpstreamError("upstream_stream_truncated", "The upstream's answer ended before it was complete.")
    )


def invalid_frame() -> StreamFailed:
    return StreamFailed(UpstreamError("upstream_invalid_frame", "The upstream sent a frame that cannot be read."))
