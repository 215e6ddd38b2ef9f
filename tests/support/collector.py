"""A collector for OpenTelemetry as the gateway's tests need it: OTLP over HTTP on a real socket.

    async with Collector() as collector:
        ... endpoint = collector.url ...
        await collector.received(2)
        spans = collector.spans

What it is sent is decoded with the messages of the official package, which the program does not use. Its answers are a
list: status codes, or whole answers; when the list is used up, it takes everything.
"""

import asyncio
import gzip
import ssl
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import HistogramDataPoint, Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from support.deadlines import WAIT_TIMEOUT_S

HANG = 0
"""As an answer: none, until the other side leaves."""


def partial_success(rejected: int) -> bytes:
    """A whole answer that takes a message, but for so many of its spans."""
    body = ExportTraceServiceResponse(
        partial_success=ExportTracePartialSuccess(rejected_spans=rejected, error_message="too old")
    ).SerializeToString()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )


class Collector:
    def __init__(self, answers: Sequence[int | bytes] = (), tls: ssl.SSLContext | None = None) -> None:
        self._answers = list(answers)
        self._tls = tls
        self.paths: list[str] = []
        self.heads: list[dict[str, str]] = []
        self.traces: list[ExportTraceServiceRequest] = []
        """All that came, also what was not taken."""
        self.metrics: list[ExportMetricsServiceRequest] = []
        self._changed = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def received(self, count: int) -> None:
        """Until so many messages have come."""
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            while len(self.paths) < count:
                self._changed.clear()
                await self._changed.wait()

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for message in self.traces
            for resource in message.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def points(self) -> dict[str, list[HistogramDataPoint]]:
        """Of the last message, by metric."""
        return {metric.name: list(metric.histogram.data_points) for metric in metrics_in(self.metrics[-1])}

    @property
    def resource(self) -> dict[str, Any]:
        """Of the last message with spans."""
        return attributes_of(self.traces[-1].resource_spans[0].resource.attributes)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:-2])}
                body = await reader.readexactly(int(fields["content-length"]))
                self._take(head[0].split(" ")[1], fields, body)
                answer = self._answers.pop(0) if self._answers else 200
                if answer == HANG:
                    await reader.read()
                    return
                if isinstance(answer, int):
                    answer = b"HTTP/1.1 %d Status\r\ncontent-length: 0\r\n\r\n" % answer
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            self._writers.discard(writer)
            writer.close()

    def _take(self, path: str, fields: dict[str, str], body: bytes) -> None:
        assert fields["content-type"] == "application/x-protobuf"
        self.paths.append(path)
        self.heads.append(fields)
        if fields.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        if path.endswith("/v1/traces"):
            self.traces.append(ExportTraceServiceRequest.FromString(body))
        else:
            assert path.endswith("/v1/metrics")
            self.metrics.append(ExportMetricsServiceRequest.FromString(body))
        self._changed.set()


def metrics_in(message: ExportMetricsServiceRequest) -> Iterator[Metric]:
    for resource in message.resource_metrics:
        for scope in resource.scope_metrics:
            yield from scope.metrics


def attributes_of(attributes: Sequence[KeyValue]) -> dict[str, Any]:
    """Each name once."""
    values = {each.key: value_of(each.value) for each in attributes}
    assert len(values) == len(attributes), [each.key for each in attributes]
    return values


def value_of(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    assert kind is not None
    return [value_of(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)
