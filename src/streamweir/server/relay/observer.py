"""The interface through which a relay reports what happens, and the gateway's implementation."""

from collections.abc import Callable
from typing import Protocol

from streamweir.policy.routing.credentials import CredentialChange
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
        """Counts a bug, and logs it with its traceback."""
        ...

    def start_drain(self) -> bool:
        """Whether one more answer may be drained. True: it is counted until `drain_ended`."""
        ...

    def drain_ended(self) -> None: ...

    def attempt_ended(self, target: str, code: str | None, /) -> None:
        """`code`: of the error; None: it did not fail."""
        ...

    def skipped(self, target: str, reason: str, /) -> None:
        """The target was not asked: it is at its configured limit. `reason`: the name of the limit."""
        ...

    def ejected(self, target: str, /) -> None:
        """The target has failed so often that it gets no requests for a while."""
        ...

    def credentials_changed(self, changes: list[CredentialChange], /) -> None:
        """Reports the changes, and removes them from the list."""
        ...


class GatewayObserver:
    """For all relays of a process. `timers` is set before the first one runs."""

    timers: TimerQueue

    def __init__(self, metrics: Metrics, max_draining: Callable[[], int]) -> None:
        self._metrics = metrics
        self._max_draining = max_draining
        self.draining = 0
        self.chunk_gap = metrics.chunk_gap.observe

    def fault(self, reason: BaseException, request_id: str, /) -> None:
        self._metrics.fault(type(reason).__name__)
        log_fault(reason, request_id)

    def start_drain(self) -> bool:
        if self.draining >= self._max_draining():
            return False
        self.draining += 1
        return True

    def drain_ended(self) -> None:
        self.draining -= 1

    def attempt_ended(self, target: str, code: str | None, /) -> None:
        self._metrics.attempt_ended(target, code)

    def skipped(self, target: str, reason: str, /) -> None:
        self._metrics.skipped(target, reason)

    def ejected(self, target: str, /) -> None:
        self._metrics.ejected(target)
        logger.warning("target ejected", target=target)

    def credentials_changed(self, changes: list[CredentialChange], /) -> None:
        while changes:
            provider, credential, reason, ejected_s = changes.pop(0)
            if reason is None:
                logger.warning("credential available again", provider=provider, credential=credential)
                continue
            self._metrics.credential_ejected(provider, credential)
            logger.warning(
                "credential ejected", provider=provider, credential=credential, reason=reason, for_s=ejected_s
            )
