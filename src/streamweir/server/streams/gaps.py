"""When nobody read a stream, for its record: the first gaps and the one that is open, and how many there were."""

MAX_GAPS = 20
"""Of a stream that are recorded. A caller may come and go as often as it likes: all are counted."""

Gap = tuple[float, float | None]
"""From when to when. None: it is open."""


class ReaderGaps:
    __slots__ = ("_closed", "_since", "count")

    def __init__(self) -> None:
        self.count = 0
        self._closed: list[tuple[float, float]] = []
        self._since: float | None = None

    @property
    def is_open(self) -> bool:
        """Nobody reads it now."""
        return self._since is not None

    @property
    def open_since(self) -> float | None:
        """Since when nobody reads it. None: somebody does."""
        return self._since

    def begin(self, now: float) -> None:
        if self._since is None:
            self._since = now
            self.count += 1

    def end(self, now: float) -> None:
        if self._since is not None and len(self._closed) < MAX_GAPS - 1:
            self._closed.append((self._since, now))
        self._since = None

    def since(self, start: float) -> tuple[Gap, ...]:
        """Those that are recorded, in seconds from `start`."""
        closed: list[Gap] = [(begun - start, ended - start) for begun, ended in self._closed]
        return tuple(closed if self._since is None else [*closed, (self._since - start, None)])
