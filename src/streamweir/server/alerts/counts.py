"""The metrics of alerts: what was found here, what became of deliveries, and what waits. Labels are kinds and names of
the operator's file."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

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
        found = CounterMetricFamily("streamweir_alerts", "Alerts that this process found, by kind.", labels=("kind",))
        for kind, count in self.found.items():
            found.add_metric((kind,), count)
        yield found
        about = "Attempts to deliver an alert, by webhook and outcome."
        attempts = CounterMetricFamily("streamweir_alert_deliveries", about, labels=("webhook", "outcome"))
        for (webhook, outcome), count in self.attempts.items():
            attempts.add_metric((clean(webhook), outcome), count)
        yield attempts
        about = "Alerts that wait to be delivered, by webhook."
        waiting = GaugeMetricFamily("streamweir_alerts_waiting", about, labels=("webhook",))
        about = "Age in seconds of the oldest alert that waits to be delivered, by webhook."
        oldest = GaugeMetricFamily("streamweir_alert_oldest_seconds", about, labels=("webhook",))
        for each in self.backlogs:
            waiting.add_metric((clean(each.webhook),), each.waiting)
            oldest.add_metric((clean(each.webhook),), max(0, self.read_ms - each.oldest_ms) / 1000)
        yield waiting
        yield oldest
