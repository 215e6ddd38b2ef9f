"""What a relay reports while it runs, and asks: the shape alone. `server.app` gives it."""

from typing import Protocol

from streamweir.server.alarm import Clock


class Watch(Protocol):
    @property
    def clock(self) -> Clock: ...

    def chunk_gap(self, gap_s: float, /) -> None:
        """Called for every chunk."""
        ...

    def fault(self, reason: BaseException, request_id: str, /) -> None:
        """A bug came to light; it is written to the log with its traceback."""
        ...

    def may_abandon(self) -> bool:
        """Takes one of the places for upstreams that are read on without a caller."""
        ...

    def abandoned_ended(self) -> None: ...

    def attempt_ended(self, target: str, code: str | None, /) -> None:
        """`code`: what it failed with."""
        ...

    def ejected(self, target: str, /) -> None:
        """The target has failed so often that it is left alone for a while."""
        ...
