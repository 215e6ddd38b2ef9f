"""What was recorded of an answer: its bytes, and whatever else is known about it.

Only the bytes have to be there. What is None was not recorded, and no rule may guess it. A `Recording`
is what one request got; an `Exchange` is that together with what was sent.
"""

from enum import StrEnum

from msgspec import Struct

from streamweir.wire import jsonio


class Kind(StrEnum):
    STREAM = "stream"
    WHOLE = "whole"
    """A completion in one JSON body."""
    FAILURE = "failure"
    """An error before anything else: a status and a JSON body."""


class Asked(Struct, frozen=True, kw_only=True):
    """What the request asked for. None: not known."""

    stream: bool | None = None
    include_usage: bool | None = None
    model: str | None = None
    choices: int | None = None
    """`n`."""
    tools: bool | None = None
    logprobs: bool | None = None


class Piece(Struct, frozen=True):
    """One read: where it begins in the body, and when it came (seconds since the request was sent)."""

    offset: int
    at_s: float


class Recording(Struct, frozen=True, kw_only=True):
    body: bytes
    name: str = ""
    asked: Asked = Asked()
    status: int | None = None
    headers: tuple[tuple[str, str], ...] | None = None
    pieces: tuple[Piece, ...] = ()
    """Empty: the times were not recorded."""
    ended_s: float | None = None
    was_cut: bool = False
    """Whoever recorded it stopped before the answer's end: what is missing there is nobody's fault."""

    def header(self, name: str) -> str | None:
        """The first of this name, in whatever case."""
        wanted = name.lower()
        return next((value for key, value in self.headers or () if key.lower() == wanted), None)

    @property
    def kind(self) -> Kind:
        """By the bytes first: an answer of the wrong sort is still an answer of its sort."""
        if not self.body.lstrip().startswith((b"{", b"[")):
            return Kind.FAILURE if self.status is not None and self.status >= 400 else Kind.STREAM
        if self.status is not None and self.status >= 400:
            return Kind.FAILURE
        try:
            document = jsonio.decode(self.body)
        except jsonio.InvalidJson:
            return Kind.STREAM if self.asked.stream else Kind.WHOLE
        return Kind.FAILURE if isinstance(document, dict) and document.get("error") else Kind.WHOLE


class Exchange(Struct, frozen=True, kw_only=True):
    """One request and what came of it."""

    name: str
    """Which question it was: `hello`, `bad-model` ..."""
    request: bytes = b""
    recording: Recording | None
    """None: no answer came."""
    failure: str | None = None
    """Why none came, or why it stopped: a sentence without secrets."""
