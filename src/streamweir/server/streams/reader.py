"""One connection that reads a stream, and the headers that it is answered with.

A caller that comes back gets the headers that say what the body is. One that has repeated its request gets all headers
of the first answer, and one that says that it is repeated.
"""

from collections.abc import Callable

from streamweir.server.http.message import Headers, Response
from streamweir.server.streams.frames import StreamHead

NAME_HEADER = "x-streamweir-stream"
REPLAYED: Headers = (("idempotent-replayed", "true"),)
_BODY_HEADERS = frozenset({"content-type", "cache-control", "x-accel-buffering"})


class Reader:
    """One connection that reads a stream."""

    __slots__ = ("has_ids", "is_behind", "is_elsewhere", "is_replay", "on_over", "position", "response")

    def __init__(
        self, response: Response, *, has_ids: bool, is_replay: bool = False, is_elsewhere: bool = False
    ) -> None:
        """`is_replay`: it has sent the request again, with the same `Idempotency-Key`. `is_elsewhere`: it reads at
        another node, and `response` writes nothing."""
        self.response = response
        self.is_replay = is_replay
        self.is_elsewhere = is_elsewhere
        self.has_ids = has_ids
        self.is_behind = False
        """It gets what it has not read from the frames, when it has read what it was sent."""
        self.position = 0
        """The last event that it was sent, while it is behind."""
        self.on_over: Callable[[], None] | None = None
        """Called when it is not a reader any more."""


def headers_for(head: StreamHead, *, is_replay: bool) -> Headers:
    """Of a further answer."""
    name: Headers = () if head.is_whole else ((NAME_HEADER, head.id),)
    if is_replay:
        return (*head.headers, *name, *REPLAYED)
    return (*[header for header in head.headers if header[0].lower() in _BODY_HEADERS], *name)
