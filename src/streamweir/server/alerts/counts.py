"""The metrics of alerts: what was found here, what became of deliveries, and what waits. Labels are kinds and names of
the operator's file."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from streamweir.server.telemetry.metric_families import counter, gauge
from streamweir.server.telemetry.sanitize import clean
from streamweir.store.alerts.outbox import Backlog


class AlertCounts:
    def __init__(self) -> None:
        self.found: Counter[str] = Counter()
        """By kind."""
        self.attempts: Counter[tuple[str, str]] = Counter()
        """By webhook, and outcome: `delivered`, `failed`, `given_up`."""
        self.backlogs: list[Backlog] = []
        """Of the process that sends; others have none."""
        self.read_ms = 0
        """When they were read."""

    def families(self) -> Iterator[Metric]:
        found: dict[tuple[str, ...], float] = {(kind,): count for kind, count in self.found.items()}
        yield counter("alerts", "Alerts that this process found, by kind.", ("kind",), found)
        about = "Attempts to deliver an alert, by webhook and outcome."
        attempts: dict[tuple[str, ...], float] = {
            (clean(webhook), outcome): count for (webhook, outcome), count in self.attempts.items()
        }
        yield counter("alert_deliveries", about, ("webhook", "outcome"), attempts)
        about = "Alerts that wait to be delivered, by webhook."
        waiting = [((clean(each.webhook),), each.waiting) for each in self.backlogs]
        yield gauge("alerts_waiting", about, ("webhook",), waiting)
        about = "Age in seconds of the oldest alert that waits to be delivered, by webhook."
        ages = [((clean(each.webhook),), max(0, self.read_ms - each.oldest_ms) / 1000) for each in self.backlogs]
        yield gauge("alert_oldest_seconds", about, ("webhook",), ages)
