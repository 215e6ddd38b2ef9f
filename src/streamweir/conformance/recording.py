"""A recorded answer: its bytes, and what else is known about it.

Only the bytes are required. None means: not recorded; no rule may guess such a value. A `Recording` is the answer to
one request; an `Exchange` is a request with its recording.
"""

from enum import StrEnum

from msgspec import Struct

from streamweir.wire import jsonio


class Kind(StrEnum):
    STREAM = "stream"
    WHOLE = "whole"
    """A completion in one JSON body."""
    FAILURE = "failure"
    """An error response: a status and a JSON body."""


class RequestInfo(Struct, frozen=True, kw_only=True):
    """What is known about the request. None: not known."""

    stream: bool | None = None
    include_usage: bool | None = None
    model: str | None = None
    choices: int | None = None
    """`n`."""
    tools: bool | None = None
    logprobs: bool | None = None


class Piece(Struct, frozen=True):
    """One read from the socket: its offset in the body, and its time in seconds since the request was sent."""

    offset: int
    at_s: float


class Recording(Struct, frozen=True, kw_only=True):
    body: bytes
    name: str = ""
    request: RequestInfo = RequestInfo()
    status: int | None = None
    headers: tuple[tuple[str, str], ...] | None = None
    pieces: tuple[Piece, ...] = ()
    """Empty if times were not recorded."""
    ended_s: float | None = None
    was_cut: bool = False
    """The recording was stopped before the end of the answer. A missing end is then no violation."""

    def header(self, name: str) -> str | None:
        """The first header of this name. Names are case-insensitive."""
        wanted = name.lower()
        return next((value for key, value in self.headers or () if key.lower() == wanted), None)

    @property
    def kind(self) -> Kind:
        """Decided by the bytes first, not by what was requested."""
        if not self.body.lstrip().startswith((b"{", b"[")):
            return Kind.FAILURE if self.status is not None and self.status >= 400 else Kind.STREAM
        if self.status is not None and self.status >= 400:
            return Kind.FAILURE
        try:
            document = jsonio.decode(self.body)
        except jsonio.InvalidJson:
            return Kind.STREAM if self.request.stream else Kind.WHOLE
        return Kind.FAILURE if isinstance(document, dict) and document.get("error") else Kind.WHOLE


class Exchange(Struct, frozen=True, kw_only=True):
    """One request and its result."""

    name: str
    """The name of the request: `streamed`, `unknown-model` ..."""
    request: bytes = b""
    recording: Recording | None
    """None if there was no answer."""
    failure: str | None = None
    """Why there is no answer, or why it is incomplete. Contains no secrets."""
