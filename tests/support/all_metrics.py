"""Every metric that the program can have, made by its own code: name, type, labels.

Pages, rules for alerts and dashboards are held to this list.
"""

from collections.abc import Iterator
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from streamweir.background import BackgroundTasks
from streamweir.config.display.difference import Difference
from streamweir.config.model import Config
from streamweir.config.source import ConfigSource
from streamweir.core.usage import Usage
from streamweir.core.verdict import Verdict
from streamweir.pipeline.settlement import UsageSource
from streamweir.policy.routing.credentials import WeightedName
from streamweir.policy.routing.health import TargetId
from streamweir.policy.routing.route import Route, RouteTable, RouteTarget
from streamweir.policy.routing.router import Router
from streamweir.server.accounting.budget_use import budget_families
from streamweir.server.alerts.counts import AlertCounts
from streamweir.server.control.api.login_counts import LoginCounts
from streamweir.server.process.reload import Reloads
from streamweir.server.request.overload import Reading
from streamweir.server.streams.setup import Streams
from streamweir.server.telemetry.metric_families import Histogram
from streamweir.server.telemetry.metrics import Metrics
from streamweir.server.telemetry.otel.queue import ExportCounts
from streamweir.server.telemetry.process_metrics import AccountingReading
from streamweir.server.telemetry.record import AttemptRecord, RequestRecord
from streamweir.store.alerts.outbox import Backlog

OF_THE_SUPERVISOR: dict[str, tuple[str, set[str]]] = {
    "streamweir_workers": ("gauge", set()),
    "streamweir_worker_restarts": ("counter", set()),
}


@cache
def every_metric() -> dict[str, tuple[str, frozenset[str]]]:
    """By the name of the family, without `_total`: its type and its labels. Those of the process itself, too."""
    families = text_string_to_metric_families(full_metrics().text().decode())
    shown = {
        family.name: (family.type, frozenset(label for sample in family.samples for label in sample.labels) - {"le"})
        for family in families
    }
    return shown | {name: (kind, frozenset(labels)) for name, (kind, labels) in OF_THE_SUPERVISOR.items()}


def accounting_of(number: int) -> AccountingReading:
    return AccountingReading(
        waiting=number,
        lag_s=number / 2,
        journal_bytes=100 * number,
        refused=number,
        content_dropped=2 * number,
        is_degraded=number > 1,
    )


def router_of(*targets: TargetId) -> Router:
    """Of an alias with these; the provider `openai` has two credentials."""
    route = Route("fast", tuple(RouteTarget(target) for target in targets))
    providers = {target.provider for target in targets}
    credentials = {"openai": [WeightedName("eu", 1), WeightedName("us", 1)]}
    return Router(RouteTable([route], providers), providers, credentials=credentials)


def full_metrics() -> Metrics:
    """With something in every metric."""
    router = router_of(TargetId("openai", "gpt-4o"))
    metrics = Metrics(
        connections=lambda: [("openai", 0, 0)],
        router=lambda: router,
        accounting=lambda: accounting_of(1),
        task_ends={"writer": 0},
    )
    reading = Reading(opening=0, limit=inf, in_flight=0, refusals={"files": 1}, turns=Histogram((1.0,)))
    metrics.overload, metrics.queued = lambda: reading, lambda: [("127.0.0.1:8080", 0, 2048)]
    several: tuple[dict[str, Any], ...] = (
        {"ttft_s": 0.1, "usage": Usage(output=1), "usage_source": UsageSource.PROVIDER},
        {"price_version": "v", "price": 1},
        {"price_version": "v", "cost": 1},
        {"attempts": [], "error": "invalid_json", "verdict": Verdict.REJECTED},
    )
    for members in several:
        basis: dict[str, Any] = {
            "id": "req_1",
            "method": "POST",
            "path": "/v1/chat/completions",
            "dialect": "openai",
            "key": "ci",
            "key_id": "file:ci",
            "workspace_id": "default",
            "model": "fast",
            "attempts": [AttemptRecord(target="openai/gpt-4o")],
            "status": 200,
            "verdict": Verdict.COMPLETED,
        }
        metrics.request_ended(RequestRecord(**{**basis, **members}))
    metrics.attempt_ended("openai/gpt-4o", None)
    metrics.ejected("openai/gpt-4o")
    metrics.skipped("openai/gpt-4o", "rpm")
    metrics.credential_ejected("openai", "eu")
    metrics.fault("UnexpectedInput")
    metrics.others += [_alert_families, _reload_families, _budget_families]
    metrics.others += [ExportCounts().families, LoginCounts().families]
    Streams(Config(), 1, metrics, None, BackgroundTasks())
    return metrics


def _alert_families() -> Iterator[Metric]:
    counts = AlertCounts()
    counts.found["provider.down"] = counts.attempts["ops", "delivered"] = 1
    counts.backlogs = [Backlog(webhook="ops", waiting=1, oldest_ms=1, next_ms=1)]
    return counts.families()


def _reload_families() -> Iterator[Metric]:
    source = ConfigSource(Path("streamweir.toml"), {})
    return Reloads(
        source, lambda _: Difference(changes=[], more=0, for_restart=[]), background=BackgroundTasks()
    ).families()


def _budget_families() -> Iterator[Metric]:
    return budget_families({("default", "ci", "month"): 0.5}, {("default",): 0.5})
