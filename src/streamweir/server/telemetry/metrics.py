"""The metrics, in Prometheus' format.

Each is a number in a plain list or dict; the text is written only when it is requested. So counting costs well below a
microsecond on the hot path (`chunk_gap.observe`, once per chunk). Labels come from a bounded set: names from the
configuration, and names for which a provider has answered; all other names that callers send are `other`. Nothing is
decided here, and there is no global registry. Those about money are declared in
`server.telemetry.money_metrics`: not everyone who reads the others may read them.
"""

import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from streamweir import __version__
from streamweir.core.verdict import Verdict
from streamweir.policy.routing.router import Router
from streamweir.server.telemetry.key_metrics import KeyMetrics
from streamweir.server.telemetry.log import dropped_lines
from streamweir.server.telemetry.metric_families import Histogram, counter, gauge, histogram
from streamweir.server.telemetry.metric_labels import OTHER, LabelNames
from streamweir.server.telemetry.money_metrics import MONEY, MoneyMetric
from streamweir.server.telemetry.process_metrics import (
    AccountingReading,
    OverloadReading,
    accounting_families,
    overload_families,
)
from streamweir.server.telemetry.record import RequestRecord
from streamweir.server.telemetry.sanitize import clean
from streamweir.server.telemetry.target_metrics import target_families

MAX_HISTOGRAMS = 100
"""Each has about twenty lines in the text."""

FIRST_TOKEN_S = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0)
DURATION_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)
CHUNK_GAP_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
LOOP_LAG_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

TOKEN_KINDS = (
    "input_uncached",
    "cache_read",
    "cache_write",
    "output",
    "reasoning",
    "audio_input",
    "audio_output",
    "image_input",
    "image_output",
)
"""They do not overlap: see `core.usage`."""
_ANSWERED = frozenset({Verdict.COMPLETED, Verdict.LENGTH, Verdict.FILTERED})

_Kind = tuple[str | None, str, str | None, str | None, str | None, bool]
"""Model, target, dialect, verdict and usage source of a request, and whether a provider answered."""


class Metrics:
    """`connections`: for each provider, the connections in use and the idle ones; it can be set later. `router`: the
    present one.

    `accounting`: its state, if there is a database. `task_ends`: how often each background task has ended unexpectedly.
    `body_bytes`: the memory of request bodies.
    """

    def __init__(
        self,
        *,
        connections: Callable[[], Iterable[tuple[str, int, int]]] | None = None,
        router: Callable[[], Router] | None = None,
        accounting: Callable[[], AccountingReading] | None = None,
        lines_dropped: Callable[[], int] = dropped_lines,
        task_ends: Mapping[str, int] = {},
        body_bytes: Callable[[], int] = lambda: 0,
    ) -> None:
        self.connections = connections
        self._router = router
        self._accounting = accounting
        self._lines_dropped = lines_dropped
        self._task_ends = task_ends
        self._body_bytes = body_bytes
        self.overload: Callable[[], OverloadReading] | None = None
        self.queued: Callable[[], Iterable[tuple[str, int, int]]] | None = None
        """For each listener: the connections that wait in the kernel, and their maximum."""
        self.others: list[Callable[[], Iterator[Metric]]] = []
        """Of parts of the program that count by themselves."""
        self.chunk_gap = Histogram(CHUNK_GAP_S)
        self.loop_lag = Histogram(LOOP_LAG_S)
        self.keys = KeyMetrics()
        self._models = LabelNames()
        self._targets = LabelNames()
        self._open_streams = 0
        self._admitted = 0
        self._rejected: dict[tuple[str, ...], float] = {}
        self._tallies: dict[tuple[str, ...], _Tally] = {}
        self._tally_of: dict[_Kind, _Tally] = {}
        self._attempts: dict[tuple[str, ...], float] = {}
        self._ejections: dict[tuple[str, ...], float] = {}
        self._skips: dict[tuple[str, ...], float] = {}
        self._credential_ejections: dict[tuple[str, ...], float] = {}
        self._faults: dict[tuple[str, ...], float] = {}
        self._first_tokens: dict[str, Histogram] = {}
        self._durations: dict[str, Histogram] = {}
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Readings(self._families))
        ProcessCollector(registry=self._registry)

    def set_names(self, models: Iterable[str], targets: Iterable[str], keys: Iterable[str] = ()) -> None:
        """The names of the configuration: aliases, `{provider}/{model}`, and the ids of keys."""
        self._models.configured = frozenset(models)
        self._targets.configured = frozenset(targets)
        self.keys.configured = frozenset(keys)
        self._tally_of.clear()

    def stream_opened(self) -> None:
        self._open_streams += 1

    def stream_closed(self) -> None:
        self._open_streams -= 1

    def attempt_ended(self, target: str, code: str | None) -> None:
        """`code`: of the error; None: the provider answered."""
        _add(self._attempts, self._target_label(target, has_answered=code is None), code or "ok")

    def ejected(self, target: str) -> None:
        _add(self._ejections, self._target_label(target, has_answered=False))

    def skipped(self, target: str, reason: str) -> None:
        _add(self._skips, self._target_label(target, has_answered=False), reason)

    def credential_ejected(self, provider: str, credential: str) -> None:
        _add(self._credential_ejections, provider, clean(credential))

    def fault(self, kind: str) -> None:
        """`kind`: the class of an exception; a program has a bounded number of them."""
        _add(self._faults, kind)

    def request_ended(self, record: RequestRecord) -> None:
        attempts, usage = record.attempts, record.usage
        target = attempts[-1].target if attempts else ""
        has_answered = record.ttft_s is not None or (bool(attempts) and record.verdict in _ANSWERED)
        kind = (record.model, target, record.dialect, record.verdict, record.usage_source, has_answered)
        tally = self._tally_of.get(kind) or self._find_tally(kind)
        tally.requests += 1
        if attempts or record.error is None:
            self._admitted += 1
        else:
            _add(self._rejected, record.error)
        if record.ttft_s is not None:
            _histogram_of(self._first_tokens, tally.target, FIRST_TOKEN_S).observe(record.ttft_s)
        if attempts:
            _histogram_of(self._durations, tally.target, DURATION_S).observe(record.duration_s)
        if usage is not None:
            tally.input_uncached += usage.input_uncached
            tally.output += usage.output
            if usage.cache_read:
                tally.cache_read += usage.cache_read
            if usage.cache_write_5m:
                tally.cache_write += usage.cache_write_5m
            if usage.cache_write_1h:
                tally.cache_write += usage.cache_write_1h
            if usage.reasoning:
                tally.reasoning += usage.reasoning
            if usage.audio_input:
                tally.audio_input += usage.audio_input
            if usage.audio_output:
                tally.audio_output += usage.audio_output
            if usage.image_input:
                tally.image_input += usage.image_input
            if usage.image_output:
                tally.image_output += usage.image_output
        if record.price_version is not None:  # it was settled
            tally.add_money(record.price, record.cost)
        if record.key_id is not None:
            self.keys.count(record.key_id, record)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def _find_tally(self, kind: _Kind) -> "_Tally":
        """By its labels. The tally of a name that is its own label is cached, because that does not change."""
        name, target, dialect, verdict, source, has_answered = kind
        model = (self._models.label(name, has_answered) or OTHER) if name else ""
        label = self._target_label(target, has_answered) if target else ""
        labels = (model, label, dialect or "", verdict or "", source or "")
        tally = self._tallies.get(labels)
        if tally is None:
            tally = self._tallies[labels] = _Tally(*labels)
        if (model, label) == (name or "", target):
            self._tally_of[kind] = tally
        return tally

    def _target_label(self, target: str, has_answered: bool) -> str:
        # The provider is shown even if the model has no label of its own.
        return self._targets.label(target, has_answered) or f"{clean(target.partition('/')[0])}/{OTHER}"

    def _families(self) -> Iterator[Metric]:
        yield counter(
            "requests",
            "Finished requests by model, target, dialect and verdict.",
            ("model", "target", "dialect", "verdict"),
            self._requests(),
        )
        yield counter("requests_admitted", "Requests admitted.", (), {(): self._admitted})
        yield counter(
            "requests_rejected", "Requests refused before any upstream was called.", ("code",), self._rejected
        )
        yield gauge("open_streams", "Chat requests in progress.", (), [((), self._open_streams)])
        yield gauge("request_body_bytes", "Bytes of request bodies held in memory.", (), [((), self._body_bytes())])
        yield histogram(
            "time_to_first_token_seconds",
            "Seconds from a request's arrival to its first token sent.",
            "target",
            self._first_tokens,
        )
        yield histogram(
            "request_duration_seconds",
            "Seconds from a request's arrival to its end, if an upstream was called.",
            "target",
            self._durations,
        )
        yield histogram(
            "time_between_chunks_seconds", "Seconds between two chunks of one answer.", None, {"": self.chunk_gap}
        )
        yield counter(
            "tokens",
            "Tokens by kind; each token is counted in one kind only.",
            ("model", "kind", "source"),
            self._tokens(),
        )
        for each in MONEY:
            yield counter(each.name, each.about, ("model", "target"), self._money(each))
        yield from self.keys.families()
        yield counter("upstream_attempts", "Attempts by target and outcome.", ("target", "outcome"), self._attempts)
        yield counter("ejections", "Times a failing target was ejected.", ("target",), self._ejections)
        yield counter(
            "target_skips", "Times a target at its configured limit was left out.", ("target", "reason"), self._skips
        )
        if self._router is not None:
            yield from target_families(self._router(), time.monotonic())
        about = "Times the provider refused a credential, which was ejected."
        yield counter("credential_ejections", about, ("provider", "credential"), self._credential_ejections)
        yield from self._process_families()

    def _requests(self) -> dict[tuple[str, ...], float]:
        counts: dict[tuple[str, ...], float] = {}
        for tally in self._tallies.values():
            _add(counts, tally.model, tally.target, tally.dialect, tally.verdict, by=tally.requests)
        return counts

    def _tokens(self) -> dict[tuple[str, ...], float]:
        counts: dict[tuple[str, ...], float] = {}
        for tally in self._tallies.values():
            for kind in TOKEN_KINDS:
                _add(counts, tally.model, kind, tally.source, by=getattr(tally, kind))
        return counts

    def _money(self, wanted: MoneyMetric) -> dict[tuple[str, ...], float]:
        sums: dict[tuple[str, ...], float] = {}
        for tally in self._tallies.values():
            _add(sums, tally.model, tally.target, by=getattr(tally, wanted.tally))
        return {labels: each / wanted.unit for labels, each in sums.items()}

    def _process_families(self) -> Iterator[Metric]:
        yield histogram(
            "loop_lag_seconds", "Seconds by which the event loop ran a timer late.", None, {"": self.loop_lag}
        )
        if self.overload is not None:
            yield from overload_families(self.overload())
        if self.queued is not None:
            queued = list(self.queued())
            waiting = [((name,), count) for name, count, _ in queued]
            yield gauge("listen_queue", "Connections waiting in the kernel to be accepted.", ("listener",), waiting)
            limits = [((name,), count) for name, _, count in queued]
            yield gauge(
                "listen_queue_limit",
                "Maximum of connections waiting in the kernel to be accepted.",
                ("listener",),
                limits,
            )
        if self.connections is not None:
            readings = list(self.connections())
            rows = [((name, "in_use"), used) for name, used, _ in readings]
            rows += [((name, "idle"), idle) for name, _, idle in readings]
            yield gauge("upstream_connections", "Open connections to providers.", ("provider", "state"), rows)
        if self._accounting is not None:
            yield from accounting_families(self._accounting())
        for families in self.others:
            yield from families()
        ends: dict[tuple[str, ...], float] = {(name,): float(count) for name, count in self._task_ends.items()}
        yield counter("background_task_ends", "Background tasks that ended unexpectedly.", ("task",), ends)
        yield counter("faults", "Bugs that ended an attempt or a request, by kind.", ("fault",), self._faults)
        yield counter(
            "log_lines_dropped",
            "Log lines dropped because the log reader is too slow.",
            (),
            {(): self._lines_dropped()},
        )
        labels = (__version__, platform.python_version())
        yield gauge(
            "build_info", "Version of the program and of Python; always 1.", ("version", "python"), [(labels, 1)]
        )


class _Tally(Struct):
    """The requests with these labels."""

    model: str
    target: str
    dialect: str
    verdict: str
    source: str
    """The source of the token counts."""
    requests: int = 0
    input_uncached: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0
    audio_input: int = 0
    audio_output: int = 0
    image_input: int = 0
    image_output: int = 0
    price: int = 0
    cost: int = 0
    unpriced: int = 0
    uncosted: int = 0

    def add_money(self, price: int | None, cost: int | None) -> None:
        if price is None:
            self.unpriced += 1
        else:
            self.price += price
        if cost is None:
            self.uncosted += 1
        else:
            self.cost += cost


class _Readings(Collector):
    def __init__(self, families: Callable[[], Iterator[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return self._families()


def _add(counts: dict[tuple[str, ...], float], *labels: str, by: float = 1) -> None:
    if by:
        counts[labels] = counts.get(labels, 0) + by


def _histogram_of(histograms: dict[str, Histogram], label: str, bounds: tuple[float, ...]) -> Histogram:
    if label not in histograms and len(histograms) >= MAX_HISTOGRAMS:
        label = OTHER
    histogram = histograms.get(label)
    if histogram is None:
        histogram = histograms[label] = Histogram(bounds)
    return histogram
