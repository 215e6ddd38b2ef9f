"""What a relay reports and asks while it runs: the interface, and the gateway's implementation."""

from collections.abc import Callable
from typing import Protocol

from streamweir.server.http.timers import TimerQueue
from streamweir.server.telemetry.log import log_fault, logger
from streamweir.server.telemetry.metrics import Metrics


class AttemptObserver(Protocol):
    @property
    def timers(self) -> TimerQueue: ...

    def chunk_gap(self, gap_s: float, /) -> None:
        """Called for every chunk."""
        ...

    def fault(self, reason: BaseException, request_id: str, /) -> None:
        """A bug came to light: it is counted, and written to the log with its traceback."""
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


class GatewayObserver:
    """For all relays of a process. `timers` is set before the first one runs."""

    timers: TimerQueue

    def __init__(self, metrics: Metrics, most_abandoned: Callable[[], int]) -> None:
        self._metrics = metrics
        self._most_abandoned = most_abandoned
        self.abandoned = 0
        self.chunk_gap = metrics.chunk_gap.observe

    def fault(self, reason: BaseException, request_id: str, /) -> None:
        self._metrics.fault(type(reason).__name__)
        log_fault(reason, request_id)

    def may_abandon(self) -> bool:
        if self.abandoned >= self._most_abandoned():
            return False
        self.abandoned += 1
        return True

    def abandoned_ended(self) -> None:
        self.abandoned -= 1

    def attempt_ended(self, target: str, code: str | None, /) -> None:
        self._metrics.attempt_ended(target, code)

    def ejected(self, target: str, /) -> None:
        self._metrics.ejected(target)
        logger.warning("target ejected", target=target)
