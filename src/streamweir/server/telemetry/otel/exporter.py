"""The export of one configuration: spans and metrics of requests that are over, to one collector.

    record -> spans, encoded -> SpanQueue ----> OtlpClient -> collector
          `-> Measurement ----> MetricTurn --/

Called once for each request (`request_ended`), and once more if its content is sent too (`awaits_content`): then its
spans are made with the content, or without it if that cannot be read. Everything else happens in two background tasks.
A reload makes another exporter, and closes this one when it has got the content of its requests.
"""

import asyncio
import os
import socket
import time
from collections.abc import Iterable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Final
from uuid import uuid4

from streamweir import __version__
from streamweir.background import BackgroundTask, BackgroundTasks
from streamweir.config.model import Config
from streamweir.policy.redact import Redactor
from streamweir.server.telemetry.otel.client import OtlpClient
from streamweir.server.telemetry.otel.content import content_attributes
from streamweir.server.telemetry.otel.measurement import Measurement
from streamweir.server.telemetry.otel.operation import Destinations
from streamweir.server.telemetry.otel.protobuf import Value, attribute, tag, text
from streamweir.server.telemetry.otel.queue import Export, ExportCounts, MetricTurn, SpanQueue
from streamweir.server.telemetry.otel.span import SpanWriter
from streamweir.server.telemetry.record import RequestRecord
from streamweir.store.requests.content import Content

MAX_ENDED = 64
"""So many records are read at once: a third of a millisecond."""
FLUSH_S = 3.0
"""What is left at the end must be sent within this time."""
_INSTANCE: Final = str(uuid4())
"""Of this process: each worker has its own."""


class Exporter:
    def __init__(self, config: Config, counts: ExportCounts, background: BackgroundTasks) -> None:
        settings = self._settings = config.telemetry
        self._background = background
        self._client = OtlpClient(settings)
        export = Export(
            client=self._client,
            counts=counts,
            resource=resource_of(config),
            scope=text(tag(1), "streamweir") + text(tag(2), __version__),
            interval_s=settings.metrics_interval_s,
        )
        self._writer = SpanWriter(Destinations(config), shows_costs=settings.costs)
        self.spans = SpanQueue(export, self.read_ended) if settings.traces else None
        self._measurement = Measurement(time.time_ns) if settings.metrics else None
        self._turn = MetricTurn(export, self._encode_metrics) if self._measurement is not None else None
        self._ended: list[RequestRecord] = []
        self._awaited: dict[str, RequestRecord] = {}
        """Those whose content is being read."""
        self._has_all = asyncio.Event()
        self._tasks: list[BackgroundTask] = []

    def use(self, config: Config, models: Iterable[str], targets: Iterable[str]) -> None:
        """A configuration with the same settings for the collector. Names as in `Metrics.set_names`."""
        self.read_ended()
        destinations = Destinations(config)
        self._writer = SpanWriter(destinations, shows_costs=self._settings.costs)
        if self._measurement is not None:
            self._measurement.use(destinations, models, targets)

    def start(self) -> None:
        if self.spans is not None:
            self._tasks.append(self._background.start("span export", self.spans.run))
        if self._turn is not None:
            self._tasks.append(self._background.start("metric export", self._turn.run))

    async def close(self) -> None:
        """Sends what is left, for at most `FLUSH_S`."""
        self._has_all.clear()
        if self._awaited:
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_S):
                    await self._has_all.wait()
        for record in [*self._awaited.values()]:
            self._put_awaited(record, b"")
        self.read_ended()
        if self.spans is not None:
            self.spans.close()
        if self._turn is not None:
            self._turn.close()
        await asyncio.gather(*(task.stop(FLUSH_S) for task in self._tasks))
        if self.spans is not None:
            self.spans.drop()
        await self._client.close()

    def request_ended(self, record: RequestRecord) -> None:
        """Records are read some at a time: one after the other they take less than each between two requests."""
        self._ended.append(record)
        if self.awaits_content(record):
            self._awaited[record.id] = record
        if len(self._ended) >= MAX_ENDED:
            self.read_ended()
        elif self.spans is not None and len(self._ended) == 1:
            self.spans.expect()

    def read_ended(self) -> None:
        ended, self._ended = self._ended, []
        for record in ended:
            if self._measurement is not None and record.key_id is not None:
                self._measurement.count(record)
            if not self.awaits_content(record):
                self._put(record)

    def awaits_content(self, record: RequestRecord) -> bool:
        """Whether the spans are made when its content is ready. It stays so: a reload with other settings makes another
        exporter."""
        return self._settings.content and record.has_content and self._is_exported(record)

    async def content_ready(
        self, record: RequestRecord, content: Content | None, redactor: Redactor, executor: Executor
    ) -> None:
        """Once for each that is awaited. None: it could not be read."""
        attributes = b""
        try:
            if content is not None:
                encode = asyncio.get_running_loop().run_in_executor
                attributes = await encode(executor, content_attributes, content, record, redactor)
        finally:
            self._put_awaited(record, attributes)

    def _put_awaited(self, record: RequestRecord, content: bytes) -> None:
        if self._awaited.pop(record.id, None) is not None:
            self._put(record, content)
        if not self._awaited:
            self._has_all.set()

    def _encode_metrics(self) -> tuple[bytes, int]:
        self.read_ended()
        return self._measurement.encode() if self._measurement is not None else (b"", 0)

    def _put(self, record: RequestRecord, content: bytes = b"") -> None:
        trace = record.trace
        if trace is not None and trace.is_sampled and self.spans is not None:
            spans, count = self._writer.write(record, trace, content)
            self.spans.put(spans, count, is_refusal=not record.attempts)

    def _is_exported(self, record: RequestRecord) -> bool:
        return self.spans is not None and record.trace is not None and record.trace.is_sampled


def resource_of(config: Config) -> bytes:
    """Who sends it."""
    settings = config.telemetry
    host = socket.gethostname()
    known: dict[str, Value] = {
        "service.name": settings.service_name,
        "service.version": __version__,
        "service.instance.id": _INSTANCE,
        "host.name": host,
        "process.pid": os.getpid(),
        "streamweir.node": config.server.node or host,
        "telemetry.sdk.name": "streamweir",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.version": __version__,
        **settings.resource,
    }
    return b"".join([attribute(name, value, tag(1)) for name, value in known.items()])
