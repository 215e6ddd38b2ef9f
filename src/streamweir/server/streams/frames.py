"""The frames of resumable streams: what was sent, for a caller that comes back. In memory, bounded, never on disk.

The Nth frame of a stream is its Nth event, so a place in a stream is one number, and no counts are stored. A stream is
opened once, by the process that reads its upstream; each of its events is appended once; then it is finished, and kept
for readers until it is discarded.

Memory has three bounds: the bytes of one stream, the bytes of all, the number of streams of one key. When one of them
is reached, finished streams are discarded first, the oldest before the others; then running streams are given up:
their frames are dropped, nobody can come back to them, and they go on for those who read them now. Frames that a
connected reader has not read yet are kept for it, and count. If its key holds the most and has nothing else to give up,
the reader is cut: one that reads slowly must not take the memory of other keys.

`FrameStore` is the interface, `server.streams.memory` its implementation for one process. One that several nodes share
wraps it, so that readers at the node of a stream are served from memory. Only what asks another node waits.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from streamweir.server.http.message import Headers

FRAME_BYTES = 48
"""Memory that a frame needs besides its bytes."""


class StreamEnd(StrEnum):
    COMPLETE = "complete"
    """It was written to its end: a terminator or an error frame."""
    CUT = "cut"
    """It stopped without an end: a fault, or the process ended."""
    LEFT = "left"
    """No reader came back in time."""
    DELETED = "deleted"
    """Its caller ended it."""


class GivenUp(StrEnum):
    """Why the frames of a stream were dropped while it ran."""

    STREAM_BYTES = "stream_bytes"
    TOTAL_BYTES = "total_bytes"
    PER_KEY = "per_key"


class StreamHead(Struct, frozen=True, kw_only=True):
    """What a stream is served with, at any node."""

    id: str
    request_id: str
    key_id: str
    frontend: str
    """Its name: for errors in its API."""
    status: int = 200
    headers: Headers = ()
    """Of the first answer."""
    is_whole: bool = False
    """It is no stream but an answer in one piece, which only a repeated request gets."""
    has_ids: bool = False
    """Events are sent with `id` lines."""
    keeps_content: bool = False
    """The key stores prompts and answers, so frames may be written to a disk."""
    idempotency: "Idempotency | None" = None
    """Of a caller that has sent an `Idempotency-Key`."""


class Idempotency(Struct, frozen=True):
    """What makes a request the repetition of another one of the same key."""

    key: bytes
    """The digest of its `Idempotency-Key`."""
    fingerprint: bytes
    """The digest of its API and its body."""

    @property
    def digests(self) -> tuple[bytes, bytes]:
        return self.key, self.fingerprint


class StreamSettings(Struct, frozen=True, kw_only=True):
    grace_s: float = 60.0
    """How long the upstream is read on while nobody reads the stream."""
    keep_s: float = 300.0
    """How long a stream is kept after its end."""
    max_bytes: int
    """Of one stream."""
    total_bytes: int
    """Of all streams of this process."""
    max_per_key: int


class Process(Struct, frozen=True, kw_only=True):
    """This one among others."""

    instance: str
    node: str
    """The name that the workers of one supervisor share."""
    lease_s: float
    timeout_s: float
    """For Valkey."""


class Frames(Protocol):
    """Of one stream, in the process that reads its upstream. No method waits."""

    head: StreamHead
    end: StreamEnd | None
    """None: it runs."""
    is_kept: bool
    """False: nobody can come back. What connected readers have not read is still there."""
    given_up: GivenUp | None
    """Why it was not kept any more, if that happened while it ran."""

    @property
    def events(self) -> int:
        """How many were appended."""
        ...

    @property
    def held_bytes(self) -> int: ...

    def append(self, event: bytes, size: int, /) -> None:
        """Exactly one event, without an id line. `size`: its length."""
        ...

    def read(self, after: int, max_bytes: int, /) -> list[bytes]:
        """The events behind the Nth, about so many bytes of them, at least one if there is one."""
        ...

    def trim(self, before: int, /) -> None:
        """Drops the first events, up to this number, of a stream that is not kept any more."""
        ...

    def finish(self, end: StreamEnd, /) -> None: ...

    def delete(self) -> None:
        """Its caller wants nobody to get it any more, at any node. It has ended."""
        ...


class FrameReaders(Protocol):
    """What frames need to know of those who read them."""

    def unread(self) -> int:
        """The number of the last event that every connected reader has."""
        ...

    def given_up(self) -> None:
        """They are not kept any more, although the stream runs. Called while they are changed."""
        ...

    def cut_behind(self) -> None:
        """Those that have not read everything do not get the rest. Called while the frames of any stream are
        changed."""
        ...


class FrameStore(Protocol):
    on_discarded: Callable[[str], None] | None
    """Called with the id of a finished stream that is discarded because memory is short."""

    @property
    def held_bytes(self) -> int: ...

    def use(self, settings: StreamSettings, /) -> None:
        """From now on. What is kept already stays until memory is needed."""
        ...

    def open(self, head: StreamHead, readers: FrameReaders, /) -> Frames | None:
        """None: its key has too many."""
        ...

    def discard(self, frames: Frames, /) -> None:
        """It is not kept any longer. May be called several times."""
        ...

    def unlink(self, frames: Frames, /) -> None:
        """A request with the same `Idempotency-Key` does not get it any more."""
        ...

    def give_up_all(self) -> int:
        """Memory is short: discards and gives up all. Returns how many bytes that freed."""
        ...

    async def is_shared(self, frames: Frames, /) -> bool:
        """Whether other nodes have, within a second, all events that there are now."""
        ...
