"""The metrics of several workers as if they were one process.

Counters, histograms and gauges are summed; the earliest start time, the oldest reload and the greatest age are used;
the build is the same everywhere. When a worker has ended, its gauges are left out but its counts stay: Prometheus
treats a falling counter as a restart, and would count its next rise twice.
"""

from collections.abc import Iterable, Iterator

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

_LEAST = frozenset(
    {
        "process_start_time_seconds",
        "streamweir_config_last_reload_success_timestamp_seconds",
        "streamweir_config_last_reload_successful",
    }
)
_GREATEST = frozenset(
    {
        "streamweir_build_info",
        "streamweir_key_budget_used_ratio",
        "streamweir_workspace_credit_used_ratio",
        "streamweir_alert_oldest_seconds",
        "streamweir_journal_oldest_seconds",
        "streamweir_listen_queue",
        "streamweir_listen_queue_limit",
    }
)
"""Workers share their listening sockets, and each knows the same sums of money."""
_CUMULATIVE = frozenset({"counter", "histogram"})

_Key = tuple[str, tuple[tuple[str, str], ...]]


def merge(texts: Iterable[bytes], gone: Iterable[bytes] = ()) -> bytes:
    """`gone`: the last metrics of workers that have ended or do not answer."""
    families: dict[str, _Family] = {}
    for text in texts:
        _take(families, text, is_gone=False)
    for text in gone:
        _take(families, text, is_gone=True)
    return generate_latest(_Sums(families))


def merge_gone(texts: Iterable[bytes]) -> bytes:
    """The counts of workers that have ended, in one text."""
    return merge((), texts)


class _Family:
    def __init__(self, metric: Metric) -> None:
        self.name = metric.name
        self.about = metric.documentation
        self.type = metric.type
        self.readings: dict[_Key, Sample] = {}

    def add(self, sample: Sample) -> None:
        key = (sample.name, tuple(sorted(sample.labels.items())))
        before = self.readings.get(key)
        if before is not None:
            sample = sample._replace(value=self._combined(before.value, sample.value))
        self.readings[key] = sample

    def _combined(self, one: float, other: float) -> float:
        if self.name in _LEAST:
            return min(one, other)
        return max(one, other) if self.name in _GREATEST else one + other

    def metric(self) -> Metric:
        metric = Metric(self.name, self.about, self.type)
        metric.samples = list(self.readings.values())
        return metric


class _Sums(Collector):
    def __init__(self, families: dict[str, _Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return (family.metric() for family in self._families.values())


def _take(families: dict[str, _Family], text: bytes, *, is_gone: bool) -> None:
    for metric in text_string_to_metric_families(text.decode()):
        if is_gone and metric.type not in _CUMULATIVE:
            continue
        family = families.get(metric.name)
        if family is None:
            family = families[metric.name] = _Family(metric)
        for sample in metric.samples:
            family.add(sample)
