"""What waits to be sent to a collector: a bounded queue for the spans, and a turn at an interval for the metrics.

`put` never waits: what does not fit is dropped and counted. One message is on its way at a time, so a slow or absent
collector costs nothing but the queue's memory. A message is sent again if the collector says that it may be, after a
pause that grows, and is given up in the end. Metrics are sums since the start:
nothing is lost with a message of theirs.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from random import random
from typing import Final

from msgspec import Struct
from prometheus_client.metrics_core import Metric

from streamweir.server.telemetry.log import logger
from streamweir.server.telemetry.metric_families import counter
from streamweir.server.telemetry.otel.client import OtlpClient, Outcome
from streamweir.server.telemetry.otel.protobuf import message, tag, varint

MAX_BYTES = 16 << 20
BATCH_BYTES = 1 << 20
"""The size of a message, unless one request's spans are larger."""
_WORTH_SENDING = 256 << 10
"""So much is sent at once, without waiting for more."""
_PAUSES_S: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0)
"""Before each further attempt, at most."""
_MAX_RETRY_AFTER_S = 300.0

TRACES, METRICS = "traces", "metrics"
_FULL, _REJECTED, _FAILED, _CLOSED = "queue_full", "rejected", "failed", "closed"


class ExportCounts:
    """What became of spans and points, by signal. They outlive a reload."""

    def __init__(self) -> None:
        self.exported: Counter[str] = Counter({TRACES: 0, METRICS: 0})
        self.dropped: Counter[tuple[str, ...]] = Counter({(TRACES, _FULL): 0})

    def families(self) -> Iterator[Metric]:
        about = "Spans (traces) and points of metrics that a collector has taken."
        exported: dict[tuple[str, ...], float] = {(signal,): count for signal, count in self.exported.items()}
        yield counter("telemetry_exported", about, ("signal",), exported)
        about = "Spans (traces) and points of metrics that no collector has, by reason."
        yield counter("telemetry_dropped", about, ("signal", "reason"), self.dropped)


class Export(Struct, frozen=True, kw_only=True):
    """What both signals need."""

    client: OtlpClient
    counts: ExportCounts
    resource: bytes
    """The message that says who sends it."""
    scope: bytes
    delay_s: float = 5.0
    """How long spans wait for others."""
    interval_s: float = 60.0
    """Between two messages with metrics."""
    pauses_s: tuple[float, ...] = _PAUSES_S


class _Sender:
    """Sends messages of one signal, one after the other."""

    def __init__(self, signal: str, export: Export) -> None:
        self._signal = signal
        self._export = export
        self._head = message(tag(1), export.resource)
        self._scope = message(tag(1), export.scope)
        self.closing = asyncio.Event()
        """No further attempts are made."""
        self._is_failing = False

    async def send(self, items: Sequence[bytes], count: int) -> None:
        """`items`: the fields of a scope. They are copied once: a message may be large."""
        size = sum(map(len, items))
        scope = tag(2) + varint(len(self._scope) + size) + self._scope
        body = b"".join((tag(1), varint(len(self._head) + len(scope) + size), self._head, scope, *items))
        counts, signal = self._export.counts, self._signal
        try:
            outcome = await self._try(body)
        except BaseException:  # the process ends, or a bug: they are gone
            counts.dropped[signal, _CLOSED if self.closing.is_set() else _FAILED] += count
            raise
        self._note(outcome)
        if outcome.error:
            counts.dropped[signal, _FAILED if outcome.may_retry else _REJECTED] += count
            return
        rejected = min(outcome.rejected, count)
        counts.exported[signal] += count - rejected
        if rejected:
            counts.dropped[signal, _REJECTED] += rejected

    async def _try(self, body: bytes) -> Outcome:
        path = f"/v1/{self._signal}"
        outcome = await self._export.client.send(path, body)
        for pause_s in self._export.pauses_s:
            if not outcome.may_retry or self.closing.is_set():
                break
            self._note(outcome)
            asked_s = min(outcome.retry_after_s or 0.0, _MAX_RETRY_AFTER_S)
            try:
                async with asyncio.timeout(asked_s + pause_s * (0.5 + random() / 2)):  # noqa: S311 (no secret)
                    await self.closing.wait()
            except TimeoutError:
                pass
            outcome = await self._export.client.send(path, body)
        return outcome

    def _note(self, outcome: Outcome) -> None:
        """Says once that it fails, and once that it works again."""
        if bool(outcome.error) == self._is_failing:
            return
        self._is_failing = bool(outcome.error)
        if self._is_failing:
            logger.warning("telemetry not exported", signal=self._signal, reason=outcome.error)
        else:
            logger.info("telemetry exported again", signal=self._signal)


class SpanQueue:
    def __init__(self, export: Export, fill: Callable[[], None] = lambda: None, *, max_bytes: int = MAX_BYTES) -> None:
        """`fill` puts what was announced by `expect`."""
        self._sender = _Sender(TRACES, export)
        self._fill = fill
        self._dropped = export.counts.dropped
        self._delay_s = export.delay_s
        self._max_bytes = max_bytes
        self._waiting: deque[tuple[bytes, int]] = deque()
        self._bytes = 0
        self._has_some, self._is_due = asyncio.Event(), asyncio.Event()

    def put(self, spans: bytes, count: int, *, is_refusal: bool = False) -> None:
        """`is_refusal`: of a request that was refused. There may be many: they get half of the queue."""
        size = self._bytes + len(spans)
        if self._sender.closing.is_set():
            self._dropped[TRACES, _CLOSED] += count
            return
        if size > self._max_bytes or (is_refusal and 2 * size > self._max_bytes):
            self._dropped[TRACES, _FULL] += count
            return
        if not self._waiting:
            self._has_some.set()
        self._waiting.append((spans, count))
        self._bytes = size
        if size >= _WORTH_SENDING:
            self._is_due.set()

    def expect(self) -> None:
        """Something will be put."""
        self._has_some.set()

    async def run(self) -> None:
        """Runs as a task, until `close` was called and nothing is left."""
        while self._waiting or not self._sender.closing.is_set():
            await self._has_some.wait()
            try:
                async with asyncio.timeout(self._delay_s):
                    await self._is_due.wait()
            except TimeoutError:
                pass
            self._fill()
            items, count = self._take()
            if count:
                await self._sender.send(items, count)

    def close(self) -> None:
        """What is left is sent, without further attempts."""
        self._sender.closing.set()
        self._has_some.set()
        self._is_due.set()

    def drop(self) -> None:
        """What could not be sent in time."""
        count = sum(count for _, count in self._waiting)
        if count:
            self._dropped[TRACES, _CLOSED] += count
        self._waiting.clear()
        self._bytes = 0

    def _take(self) -> tuple[list[bytes], int]:
        """The first that make up a message."""
        taken: list[bytes] = []
        size = total = 0
        while self._waiting and (not taken or size + len(self._waiting[0][0]) <= BATCH_BYTES):
            spans, count = self._waiting.popleft()
            taken.append(spans)
            size += len(spans)
            total += count
        self._bytes -= size
        if not self._sender.closing.is_set():
            if not self._waiting:
                self._has_some.clear()
            if self._bytes < _WORTH_SENDING:
                self._is_due.clear()
        return taken, total


class MetricTurn:
    """`encode` returns the fields of a scope and the number of their points."""

    def __init__(self, export: Export, encode: Callable[[], tuple[bytes, int]]) -> None:
        self._sender = _Sender(METRICS, export)
        self._interval_s = export.interval_s
        self._encode = encode

    async def run(self) -> None:
        """Runs as a task, until `close` was called and the last message was sent."""
        closing = self._sender.closing
        is_last = False
        while not is_last:
            try:
                async with asyncio.timeout(self._interval_s):
                    await closing.wait()
            except TimeoutError:
                pass
            is_last = closing.is_set()
            points, count = self._encode()
            if count:
                await self._sender.send((points,), count)

    def close(self) -> None:
        self._sender.closing.set()
