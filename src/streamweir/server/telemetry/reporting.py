"""What is done with the record of a request that is over: log line, metrics, and the export for OpenTelemetry.

The modules of the export are imported when a configuration has a collector: without one, nothing of it is there.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from streamweir.background import BackgroundTasks
from streamweir.config.model import Config
from streamweir.policy.redact import Redactor
from streamweir.server.telemetry.metrics import Metrics
from streamweir.server.telemetry.record import RequestRecord
from streamweir.store.requests.content import Content

if TYPE_CHECKING:
    from streamweir.server.telemetry.otel.exporter import Exporter
    from streamweir.server.telemetry.otel.queue import ExportCounts


class Reporting:
    def __init__(
        self,
        report: Callable[[RequestRecord], None],
        metrics: Metrics,
        background: BackgroundTasks,
        executor: Executor,
        redactor: Callable[[], Redactor] | None,
    ) -> None:
        """`report` writes the log line. `redactor`: the present one, if content is stored; `executor` reads it."""
        self._report = report
        self._metrics = metrics
        self._background = background
        self._executor = executor
        self._redactor = redactor
        self._exporter: Exporter | None = None
        self._counts: ExportCounts | None = None
        self._used: Config | None = None
        self._is_started = False
        self._closing: set[asyncio.Task[None]] = set()
        self._awaited: dict[str, Exporter] = {}
        """By request: who has its record, and waits for its content. A reload in between changes nothing about that."""

    def use(self, config: Config, targets: Sequence[str], keys: Sequence[str]) -> None:
        """A new configuration, with the names of its targets and the ids of its keys."""
        models = [model.id for model in config.models]
        self._metrics.set_names(models, targets, keys)
        old, self._exporter = self._exporter, self._exporter_for(config, models, targets)
        self._used = config
        if old is not None and old is not self._exporter and self._is_started:
            task = asyncio.get_running_loop().create_task(old.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def start(self) -> None:
        self._is_started = True
        if self._exporter is not None:
            self._exporter.start()

    async def close(self) -> None:
        """When no request is left."""
        if self._exporter is not None and self._is_started:
            await self._exporter.close()
        await asyncio.gather(*self._closing)
        self._exporter = None

    def request_ended(self, record: RequestRecord) -> None:
        self._report(record)
        self._metrics.request_ended(record)
        if self._exporter is not None:
            self._exporter.request_ended(record)
            if self._exporter.awaits_content(record):
                self._awaited[record.id] = self._exporter

    async def content_ready(self, record: RequestRecord, content: Content | None) -> None:
        exporter = self._awaited.pop(record.id, None)
        if exporter is not None and self._redactor is not None:
            await exporter.content_ready(record, content, self._redactor(), self._executor)

    def _exporter_for(self, config: Config, models: Iterable[str], targets: Iterable[str]) -> "Exporter | None":
        if config.telemetry.endpoint is None:
            return None
        before, known = self._used, self._exporter
        if known is None or before is None or _sends_otherwise(before, config):
            known = self._new_exporter(config)
        known.use(config, models, targets)
        return known

    def _new_exporter(self, config: Config) -> "Exporter":
        from streamweir.server.telemetry.otel.exporter import Exporter
        from streamweir.server.telemetry.otel.queue import ExportCounts

        if self._counts is None:
            self._counts = ExportCounts()
            self._metrics.others.append(self._counts.families)
        exporter = Exporter(config, self._counts, self._background)
        if self._is_started:
            exporter.start()
        return exporter


def _sends_otherwise(before: Config, now: Config) -> bool:
    return before.telemetry != now.telemetry or before.server.node != now.server.node
