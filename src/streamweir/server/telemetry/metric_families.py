"""What metrics are made of: a histogram that is cheap to count in, and families in the form of the client library.

Every name gets the prefix `streamweir_` here. The functions are called when the metrics are read; they count nothing.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from math import inf

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric


class Histogram:
    """Counts by upper bounds, as cheap as possible in Python. For one thread only."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    @property
    def total(self) -> float:
        return self._sum

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative, as in the text format."""
        buckets, below = [], 0
        for bound, count in zip((*self._bounds, inf), self._counts, strict=True):
            below += count
            buckets.append(("+Inf" if bound == inf else str(bound), float(below)))
        return buckets


def counter(name: str, about: str, labels: tuple[str, ...], counts: Mapping[tuple[str, ...], float]) -> Metric:
    family = CounterMetricFamily(f"streamweir_{name}", about, labels=labels)
    for values, count in counts.items():
        family.add_metric(values, count)
    return family


def gauge(name: str, about: str, labels: tuple[str, ...], rows: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    family = GaugeMetricFamily(f"streamweir_{name}", about, labels=labels)
    for values, reading in rows:
        family.add_metric(values, reading)
    return family


def histogram(name: str, about: str, label: str | None, histograms: dict[str, Histogram]) -> Metric:
    family = HistogramMetricFamily(f"streamweir_{name}", about, labels=(label,) if label is not None else ())
    for value, each in histograms.items():
        family.add_metric((value,) if label is not None else (), each.buckets(), each.total)
    return family
