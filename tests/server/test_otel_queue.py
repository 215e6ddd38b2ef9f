"""What waits for a collector is bounded, sent again only where that is allowed, and dropped with a count."""

import asyncio
import gzip
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from streamweir.background import BackgroundTasks
from streamweir.config.telemetry import Telemetry
from streamweir.server.telemetry.log import close_log, configure_log
from streamweir.server.telemetry.otel.client import OtlpClient
from streamweir.server.telemetry.otel.protobuf import message
from streamweir.server.telemetry.otel.queue import BATCH_BYTES, Export, ExportCounts, MetricTurn, SpanQueue
from streamweir.server.telemetry.otel.span import SPAN
from support.certificate import make_certificate
from support.collector import HANG, Collector, partial_success
from support.deadlines import WAIT_TIMEOUT_S
from support.gateway import until


def span(name: str = "chat", size: int = 0) -> bytes:
    return message(SPAN, Span(name=name, trace_state="x" * size).SerializeToString())


def export_to(url: str, *, delay_s: float = 0.0, retries: int = 3, **settings: Any) -> Export:
    client = OtlpClient(Telemetry(endpoint=url, **settings))
    return Export(
        client=client, counts=ExportCounts(), resource=b"", scope=b"", delay_s=delay_s, pauses_s=(0.0,) * retries
    )


@asynccontextmanager
async def running(export: Export, max_bytes: int = 1 << 20) -> AsyncIterator[SpanQueue]:
    queue, background = SpanQueue(export, max_bytes=max_bytes), BackgroundTasks()
    task = background.start("span export", queue.run)
    try:
        yield queue
    finally:
        queue.close()
        await task.stop(WAIT_TIMEOUT_S)
        queue.drop()
        await export.client.close()
        assert background.ends == {"span export": 0}


async def test_spans_that_come_together_are_one_message() -> None:
    async with Collector() as collector:
        export = export_to(collector.url, delay_s=WAIT_TIMEOUT_S)
        async with running(export) as queue:
            for name in ("a", "b", "c"):
                queue.put(span(name), 1)
        assert [[each.name for each in collector.spans]] == [["a", "b", "c"]]
        assert collector.paths == ["/v1/traces"]
    assert export.counts.exported["traces"] == 3
    assert not +export.counts.dropped


async def test_much_is_sent_without_waiting_in_messages_of_a_bounded_size() -> None:
    async with Collector() as collector:
        export = export_to(collector.url, delay_s=WAIT_TIMEOUT_S)
        async with running(export, max_bytes=4 * BATCH_BYTES) as queue:
            for _ in range(24):
                queue.put(span(size=100_000), 1)
            await collector.received(2)
        assert len(collector.spans) == 24
        assert all(message.ByteSize() <= BATCH_BYTES + 1000 for message in collector.traces)


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_a_message_is_sent_again_where_that_is_allowed(status: int) -> None:
    async with Collector([status, status]) as collector:
        export = export_to(collector.url)
        async with running(export) as queue:
            queue.put(span(), 2)
            await collector.received(3)
        assert [len(collector.spans), len(collector.paths)] == [3, 3]
    assert (export.counts.exported["traces"], +export.counts.dropped) == (2, {})


@pytest.mark.parametrize("status", [400, 401, 404, 413, 500, 501])
async def test_it_is_not_sent_again_where_that_is_not(status: int) -> None:
    async with Collector([status]) as collector:
        export = export_to(collector.url)
        async with running(export) as queue:
            queue.put(span(), 2)
            await collector.received(1)
        assert len(collector.paths) == 1
    assert export.counts.dropped["traces", "rejected"] == 2


async def test_it_is_given_up_in_the_end() -> None:
    async with Collector([503] * 10) as collector:
        export = export_to(collector.url, retries=2)
        async with running(export) as queue:
            queue.put(span(), 2)
            await collector.received(3)
        assert len(collector.paths) == 3
    assert (export.counts.exported["traces"], export.counts.dropped["traces", "failed"]) == (0, 2)


async def test_the_collector_says_how_long_to_wait() -> None:
    answer = b"HTTP/1.1 503 Busy\r\nretry-after: 100000\r\ncontent-length: 0\r\n\r\n"
    async with Collector([answer]) as collector:
        export = export_to(collector.url)
        async with running(export) as queue:
            queue.put(span("first"), 1)
            await collector.received(1)
            await until(lambda: queue._sender._is_failing)
            queue.put(span("second"), 1)
            assert len(collector.paths) == 1
        assert len(collector.paths) == 3, "the end of the process waits for nobody"


async def test_what_the_collector_did_not_take_is_counted() -> None:
    async with Collector([partial_success(2)]) as collector:
        export = export_to(collector.url)
        async with running(export) as queue:
            queue.put(span(), 5)
            await collector.received(1)
        assert len(collector.paths) == 1
    assert (export.counts.exported["traces"], export.counts.dropped["traces", "rejected"]) == (3, 2)


@pytest.mark.parametrize("body", [b"{}", b"\x0a\xff", b"\x0a\x02\x08", b"\x0a\x02\x0a\x00", b"\x80" * 20, b""])
async def test_an_answer_that_cannot_be_read_is_no_refusal(body: bytes) -> None:
    async with Collector([b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)]) as collector:
        export = export_to(collector.url)
        async with running(export) as queue:
            queue.put(span(), 1)
            await collector.received(1)
    assert (export.counts.exported["traces"], +export.counts.dropped) == (1, {})


async def test_a_collector_that_hangs_costs_the_queue_and_no_more() -> None:
    async with Collector([HANG] * 10) as collector:
        export = export_to(collector.url, retries=0, timeout_s=0.1)
        limit = 10 * len(span(size=1000))
        async with running(export, max_bytes=limit) as queue:
            queue.put(span(), 1)
            await collector.received(1)  # it is under way
            for _ in range(30):
                queue.put(span(size=1000), 1)
            assert queue._bytes <= limit
            assert export.counts.dropped["traces", "queue_full"] == 20
    assert sum(export.counts.dropped.values()) == 31


async def test_refused_requests_leave_half_of_the_queue_to_others() -> None:
    export = export_to("http://127.0.0.1:1")
    queue = SpanQueue(export, max_bytes=10 * len(span(size=1000)))
    for _ in range(10):
        queue.put(span(size=1000), 1, is_refusal=True)
    assert export.counts.dropped["traces", "queue_full"] == 5
    for _ in range(5):
        queue.put(span(size=1000), 2)
    assert export.counts.dropped["traces", "queue_full"] == 5
    queue.drop()
    assert export.counts.dropped["traces", "closed"] == 15


async def test_nothing_listens_and_nothing_fails() -> None:
    async with Collector() as collector:
        url = collector.url
    export = export_to(url, retries=1)
    async with running(export) as queue:
        queue.put(span(), 3)
    assert sum(export.counts.dropped.values()) == 3


async def test_what_is_left_at_the_end_is_counted_when_the_time_is_over() -> None:
    async with Collector([HANG]) as collector:
        export = export_to(collector.url)
        queue, background = SpanQueue(export), BackgroundTasks()
        task = background.start("span export", queue.run)
        queue.put(span(), 1)
        await collector.received(1)
        queue.put(span(), 1)
        queue.close()
        await task.stop(0.0)
        queue.drop()
        await export.client.close()
    assert export.counts.dropped["traces", "closed"] == 2


async def test_compression_and_headers_and_the_path() -> None:
    async with Collector() as collector:
        export = export_to(f"{collector.url}/otlp/", compression="gzip", headers={"x-token": "8d1f0a93c57b28e4"})
        async with running(export) as queue:
            queue.put(span("small"), 1)
            await collector.received(1)
            queue.put(span("large", 50_000), 1)
        assert collector.paths == ["/otlp/v1/traces"] * 2
        assert [each.name for each in collector.spans] == ["small", "large"]
        assert {head["content-encoding"] for head in collector.heads} == {"gzip"}
        assert {head["x-token"] for head in collector.heads} == {"8d1f0a93c57b28e4"}
        assert int(collector.heads[1]["content-length"]) < len(gzip.compress(os.urandom(1000)))


async def test_a_collector_with_tls_is_verified(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path, "127.0.0.1")
    async with Collector(tls=certificate.server_context()) as collector:
        for ca_file, count in ((None, 0), (str(certificate.cert_file), 1)):
            export = export_to(collector.url, retries=0, ca_file=ca_file)
            async with running(export) as queue:
                queue.put(span(), 1)
            assert export.counts.exported["traces"] == count


async def test_a_ca_file_without_certificates_is_said_and_counted(tmp_path: Path) -> None:
    wrong = tmp_path / "ca.pem"
    wrong.write_text("nothing")
    export = export_to("https://127.0.0.1:1", ca_file=str(wrong))
    async with running(export) as queue:
        queue.put(span(), 1)
    assert sum(export.counts.dropped.values()) == 1


async def test_the_log_says_once_that_it_fails_and_once_that_it_works_again() -> None:
    lines = StringIO()
    configure_log("json", lines)
    async with (
        Collector([503, 503]) as collector,
        running(export_to(collector.url, headers={"x-token": "8d1f0a93c57b28e4"})) as queue,
    ):
        for count in (3, 4):
            queue.put(span(), 1)
            await collector.received(count)
    assert close_log()
    told = [(line["event"], line.get("reason")) for line in map(json.loads, lines.getvalue().splitlines())]
    assert told == [("telemetry not exported", "answered 503"), ("telemetry exported again", None)]
    assert "8d1f0a93c57b28e4" not in lines.getvalue()


async def test_metrics_are_sent_at_an_interval_and_at_the_end() -> None:
    async with Collector([400]) as collector:
        export = export_to(collector.url)
        counted = 0

        def encode() -> tuple[bytes, int]:
            nonlocal counted
            counted += 1
            return b"", 1

        every = MetricTurn(structs.replace(export, interval_s=0.001), encode)
        task = asyncio.create_task(every.run())
        await collector.received(3)
        every.close()
        await task
        last = MetricTurn(structs.replace(export, interval_s=WAIT_TIMEOUT_S), encode)
        last.close()
        await last.run()
        assert len(collector.metrics) == counted
        await export.client.close()
    assert export.counts.dropped["metrics", "rejected"] == 1
    assert export.counts.exported["metrics"] == counted - 1
