"""The periodic work of a process with a database: that of accounting, alerts, and reports of the health of targets.

`Maintenance` does the first as before; the others are added here, because they know the configuration and the providers
as well as the database.
"""

import time
from collections.abc import Callable

from streamweir.policy.access import Key
from streamweir.policy.alert import ProviderSigns
from streamweir.server.accounting.maintenance import Maintenance
from streamweir.server.alerts.alerts import Alerts
from streamweir.server.nodes.reporter import HealthReporter
from streamweir.server.process.bootstrap import AccountingRuntime
from streamweir.server.request.runtime.config import RuntimeConfig
from streamweir.server.request.runtime.file_keys import limit_rules_of
from streamweir.server.telemetry.metrics import Metrics
from streamweir.store.db.clock import now_ms


class PeriodicWork(Maintenance):
    def __init__(
        self,
        storage: AccountingRuntime,
        runtime: Callable[[], RuntimeConfig],
        metrics: Metrics,
        *,
        stop_key: Callable[[Key], None],
        stop_request: Callable[[str], None],
        retention_days: float,
    ) -> None:
        super().__init__(
            storage.store,
            storage.accounting,
            storage.node,
            stop_key=stop_key,
            stop_request=stop_request,
            retention_days=retention_days,
            intervals=storage.intervals,
            background=storage.background,
        )
        self.alerts = Alerts(
            storage.store,
            storage.node,
            config=lambda: runtime().config,
            rules=lambda: limit_rules_of(runtime().config),
            signs=lambda: _signs(runtime()),
            lag=lambda: _lag(storage),
            intervals=storage.intervals,
            background=storage.background,
        )
        self.reporter = HealthReporter(
            storage.store,
            storage.node.instance,
            router=lambda: runtime().router,
            requests=lambda: storage.accounting.open_count,
            intervals=storage.intervals,
            background=storage.background,
        )
        metrics.keys.workspace_name = storage.accounting.directory.workspace_name
        metrics.others += [self.alerts.counts.families, storage.accounting.budget_use.families]

    def start(self) -> None:
        super().start()
        self.alerts.start()
        self.reporter.start()

    async def stop(self) -> None:
        await self.reporter.stop()
        await self.alerts.stop()
        await super().stop()


def _lag(storage: AccountingRuntime) -> tuple[float, int]:
    reading = storage.reading()
    return reading.lag_s, reading.waiting


def _signs(runtime: RuntimeConfig) -> dict[str, ProviderSigns]:
    """Of every provider of the configuration, by the wall clock, which processes share."""
    now, now_by_wall = time.monotonic(), now_ms()
    failed, answered = runtime.router.failed_at(), runtime.router.answered_at

    def moment(at: float | None) -> int | None:
        return None if at is None else now_by_wall - int((now - at) * 1000)

    return {name: ProviderSigns(moment(failed.get(name)), moment(answered.get(name))) for name in runtime.providers}
