"""The metrics of OpenTelemetry's conventions for generative AI, counted from the record of each request.

Those beginning with `gen_ai.server` are the callers' view of the gateway, those with `gen_ai.client` the gateway's view
of its providers. Each series is a `Histogram`, counted since the start. Their number is bounded: names that nobody has
configured count only if a provider has answered for them, and what exceeds the limit is one series, marked with
`otel.metric.overflow`.
"""

import struct
from collections.abc import Callable, Iterable

from streamweir.core.verdict import Verdict
from streamweir.server.telemetry.log_line import FINE
from streamweir.server.telemetry.metric_families import Histogram
from streamweir.server.telemetry.metric_labels import OTHER, LabelNames
from streamweir.server.telemetry.otel.operation import OWN, Destination, Destinations, is_of_model, operation_in
from streamweir.server.telemetry.otel.protobuf import Value, attribute, double, fixed64, message, tag, text
from streamweir.server.telemetry.record import AttemptRecord, RequestRecord

MAX_SERIES = 500
"""Of each metric."""

DURATION_S = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
FIRST_TOKEN_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
OUTPUT_TOKEN_S = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
TOKENS = tuple(4**power for power in range(14))

METRIC = tag(2)
"""The field of a metric in the metrics of a scope."""
_NAME, _ABOUT, _UNIT, _HISTOGRAM = tag(1), tag(2), tag(3), tag(9)
_POINT, _CUMULATIVE = tag(1), b"\x10\x02"
_START, _TIME, _COUNT, _SUM, _BUCKETS, _BOUNDS = b"\x11", b"\x19", b"\x21", b"\x29", tag(6), tag(7)

_ANSWERED = frozenset({Verdict.COMPLETED, Verdict.LENGTH, Verdict.FILTERED})
_Attributes = tuple[tuple[str, Value], ...]
_OVERFLOW: _Attributes = (("otel.metric.overflow", True),)


class Counted(Histogram):
    __slots__ = ()

    @property
    def counts(self) -> list[int]:
        return self._counts


class Instrument:
    """One metric with its series."""

    def __init__(self, name: str, about: str, unit: str, bounds: tuple[float, ...]) -> None:
        self.name = name
        self._head = text(_NAME, name) + text(_ABOUT, about) + text(_UNIT, unit)
        self._bounds = bounds
        self._packed_bounds = message(_BOUNDS, struct.pack(f"<{len(bounds)}d", *bounds))
        self._series: dict[_Attributes, Counted] = {}

    def series(self, attributes: _Attributes) -> Histogram:
        known = self._series.get(attributes)
        if known is None:
            if len(self._series) >= MAX_SERIES:
                attributes = _OVERFLOW
            known = self._series.setdefault(attributes, Counted(self._bounds))
        return known

    def encode(self, start_ns: int, now_ns: int) -> tuple[bytes, int]:
        """With the number of its points."""
        times = _START + fixed64(start_ns) + _TIME + fixed64(now_ns)
        points = [message(_POINT, times + self._point(*each)) for each in self._series.items()]
        if not points:
            return b"", 0
        return message(METRIC, self._head + message(_HISTOGRAM, b"".join(points) + _CUMULATIVE)), len(points)

    def _point(self, attributes: _Attributes, counted: Counted) -> bytes:
        counts = counted.counts
        packed = message(_BUCKETS, struct.pack(f"<{len(counts)}Q", *counts))
        written = b"".join([attribute(name, value) for name, value in attributes])
        return written + _COUNT + fixed64(sum(counts)) + _SUM + double(counted.total) + packed + self._packed_bounds


class _RequestSeries:
    """Where requests of one kind are counted."""

    __slots__ = ("duration", "first_token", "output_token")

    def __init__(self, duration: Histogram, first_token: Histogram | None, output_token: Histogram | None) -> None:
        self.duration = duration
        self.first_token = first_token
        self.output_token = output_token


class _AttemptSeries:
    __slots__ = ("duration", "input", "output")

    def __init__(self, duration: Histogram, input: Histogram, output: Histogram) -> None:
        self.duration = duration
        self.input = input
        self.output = output


class Measurement:
    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self._start_ns = clock_ns()
        self._models, self._targets = LabelNames(), LabelNames()
        self._destinations: Destinations | None = None
        self._requests: dict[tuple[object, ...], _RequestSeries] = {}
        self._attempts: dict[tuple[object, ...], _AttemptSeries] = {}
        self._request_duration = Instrument(
            "gen_ai.server.request.duration", "Duration of a caller's request, to its end.", "s", DURATION_S
        )
        self._first_token = Instrument(
            "gen_ai.server.time_to_first_token", "From a caller's request to the first token sent.", "s", FIRST_TOKEN_S
        )
        self._output_token = Instrument(
            "gen_ai.server.time_per_output_token",
            "Time for each token after the first one, of complete streams.",
            "s",
            OUTPUT_TOKEN_S,
        )
        self._operation_duration = Instrument(
            "gen_ai.client.operation.duration", "Duration of an attempt at a provider.", "s", DURATION_S
        )
        self._tokens = Instrument("gen_ai.client.token.usage", "Tokens of an answer and its prompt.", "{token}", TOKENS)

    @property
    def instruments(self) -> tuple[Instrument, ...]:
        return (
            self._request_duration,
            self._first_token,
            self._output_token,
            self._operation_duration,
            self._tokens,
        )

    def use(self, destinations: Destinations, models: Iterable[str], targets: Iterable[str]) -> None:
        """The names of the configuration: aliases, and `{provider}/{model}`."""
        self._destinations = destinations
        self._models.configured, self._targets.configured = frozenset(models), frozenset(targets)
        self._requests.clear()
        self._attempts.clear()

    def count(self, record: RequestRecord) -> None:
        attempts, usage = record.attempts, record.usage
        target, verdict = attempts[-1].target if attempts else "", record.verdict
        error = record.error or (None if verdict in FINE else verdict)
        has_answered = record.ttft_s is not None or (bool(attempts) and verdict in _ANSWERED)
        ttft_s = record.ttft_s
        kind = (record.path, record.dialect, record.model, target, error, has_answered, ttft_s is None)
        request = self._requests.get(kind) or self._find_request(kind, record, error, has_answered)
        if request is None:  # of no model
            return
        request.duration.observe(record.duration_s)
        if ttft_s is not None and request.first_token is not None:
            request.first_token.observe(ttft_s)
            if usage is not None and request.output_token is not None and (tokens := usage.completion_tokens) > 1:
                request.output_token.observe((record.duration_s - ttft_s) / (tokens - 1))
        for attempt in attempts:
            key = (record.dialect, attempt.target, attempt.error, has_answered)
            series = self._attempts.get(key) or self._find_attempt(key, record, attempt, has_answered)
            series.duration.observe(attempt.duration_s)
        if usage is not None and attempts:
            series.input.observe(usage.prompt_tokens)
            series.output.observe(usage.completion_tokens)

    def encode(self) -> tuple[bytes, int]:
        """The metrics of a scope, and the number of their points."""
        now_ns = self._clock_ns()
        written = [each.encode(self._start_ns, now_ns) for each in self.instruments]
        return b"".join([data for data, _ in written]), sum(count for _, count in written)

    def _find_request(
        self, kind: tuple[object, ...], record: RequestRecord, error: str | None, has_answered: bool
    ) -> _RequestSeries | None:
        if not record.attempts and not is_of_model(record.path):
            return None
        operation = operation_in(record.dialect)
        name = record.model
        label = (self._models.label(name, has_answered) or OTHER) if name else ""
        attributes = _attributes(operation, Destination(OWN), label, error)
        streams = self._first_token.series(attributes) if record.ttft_s is not None else None
        whole = self._output_token.series(attributes) if streams is not None and error is None else None
        series = _RequestSeries(self._request_duration.series(attributes), streams, whole)
        if label == (name or ""):
            self._requests[kind] = series
        return series

    def _find_attempt(
        self, kind: tuple[object, ...], record: RequestRecord, attempt: AttemptRecord, has_answered: bool
    ) -> _AttemptSeries:
        """That of a name which is its own label is cached, because that does not change."""
        assert self._destinations is not None  # noqa: S101 (`use` is called first)
        answered = has_answered and attempt is record.attempts[-1]
        label = self._targets.label(attempt.target, answered)
        model = label.partition("/")[2] if label is not None else OTHER
        operation = operation_in(record.dialect)
        destination = self._destinations.of(attempt.target)
        tokens = [
            self._tokens.series((*_attributes(operation, destination, model), ("gen_ai.token.type", each)))
            for each in ("input", "output")
        ]
        duration = self._operation_duration.series(_attributes(operation, destination, model, attempt.error))
        series = _AttemptSeries(duration, *tokens)
        if label == attempt.target:
            self._attempts[kind] = series
        return series


def _attributes(operation: str, destination: Destination, model: str, error: str | None = None) -> _Attributes:
    known: list[tuple[str, Value]] = [
        ("gen_ai.operation.name", operation),
        ("gen_ai.provider.name", destination.provider),
    ]
    if model:
        known.append(("gen_ai.request.model", model))
    if destination.host:
        known += [("server.address", destination.host), ("server.port", destination.port)]
    if error is not None:
        known.append(("error.type", str(error)))
    return tuple(known)
