"""The resumable streams of a process, from its configuration, and their metrics."""

from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client.metrics_core import Metric

from streamweir.background import BackgroundTasks
from streamweir.config.model import Config
from streamweir.server.http.message import Response
from streamweir.server.streams.endpoint import Start, StreamEndpoint
from streamweir.server.streams.frames import FrameStore, GivenUp, Idempotency, Process, StreamSettings
from streamweir.server.streams.memory import MemoryFrameStore
from streamweir.server.streams.replay import Replay
from streamweir.server.streams.stream import ResumableStream
from streamweir.server.streams.table import StreamTable
from streamweir.server.telemetry.metric_families import counter, gauge
from streamweir.server.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from streamweir.server.streams.shared import SharedStreams


MIN_SHARED_KEEP_S = 10.0
"""Readers at other nodes need a moment for the end of a stream."""


def stream_settings(config: Config, workers: int) -> StreamSettings:
    """Workers share the memory."""
    streams = config.streams
    return StreamSettings(
        grace_s=streams.grace_s,
        keep_s=streams.keep_s if config.shared is None else max(streams.keep_s, MIN_SHARED_KEEP_S),
        max_bytes=streams.max_bytes,
        total_bytes=streams.total_bytes // workers,
        max_per_key=streams.max_per_key,
    )


class Streams:
    """The table of a process, with what is counted of it."""

    def __init__(
        self, config: Config, workers: int, metrics: Metrics, process: Process | None, background: BackgroundTasks
    ) -> None:
        """`process`: this one among others; None: it is alone, because there is no database."""
        self._workers = workers
        self._keepalive_s = config.server.timeouts.keepalive_s
        self._given_up: Counter[GivenUp] = Counter(dict.fromkeys(GivenUp, 0))  # so that the first one is an increase
        self._resumes = 0
        settings = stream_settings(config, workers)
        self.shared: SharedStreams | None = None
        make_store: Callable[[StreamSettings, Callable[[GivenUp], None]], FrameStore] = MemoryFrameStore
        if config.shared is not None and process is not None:
            from streamweir.server.streams import shared  # it needs the extra `shared`

            self.shared = shared.SharedStreams(config.shared.url, process, settings, background)
            make_store = self.shared.make_store
        self.table = StreamTable(make_store(settings, self._count_given_up), settings, self._count_resume)
        self._replays = self.shared.replays(self.table, lambda: self._keepalive_s) if self.shared is not None else None
        metrics.others.append(self._families)

    def endpoint(self, start: Start) -> StreamEndpoint:
        """Answers for callers who come back."""
        remote = self.shared.reads(self.table, lambda: self._keepalive_s) if self.shared is not None else None
        return StreamEndpoint(self.table, remote, start)

    def replay(
        self,
        idempotency: Idempotency,
        stream: ResumableStream | None,
        start: Callable[[Response, Coroutine[Any, Any, None]], None],
        longest_s: float,
    ) -> Replay:
        """For a request with an `Idempotency-Key`."""
        return Replay(self.table, idempotency, stream, self._replays, start, longest_s)

    async def start(self) -> None:
        if self.shared is not None:
            await self.shared.start(self.table)

    def hand_over(self) -> None:
        """The process takes no more requests."""
        if self.shared is not None:
            self.shared.hand_over()

    async def close(self) -> None:
        """When no request is running."""
        if self.shared is not None:
            await self.shared.close()
        self.table.close()

    def reload(self, config: Config) -> None:
        self._keepalive_s = config.server.timeouts.keepalive_s
        self.table.use(stream_settings(config, self._workers))

    def _families(self) -> Iterator[Metric]:
        counts = self.table.counts()
        states = [(("read",), counts.read), (("away",), counts.away), (("finished",), counts.finished)]
        yield gauge("resumable_streams", "Resumable streams: read, without a reader, finished.", ("state",), states)
        held = self.table.store.held_bytes
        yield gauge("resumable_bytes", "Bytes of resumable streams held in memory.", (), [((), held)])
        yield counter(
            "stream_resumes", "Readers that came back to a stream, or came in addition.", (), {(): self._resumes}
        )
        about = "Running streams that were not kept any more: the stream, all of them, or the key was at its limit."
        yield counter(
            "streams_given_up", about, ("reason",), {(reason.value,): count for reason, count in self._given_up.items()}
        )

    def _count_given_up(self, reason: GivenUp) -> None:
        self._given_up[reason] += 1

    def _count_resume(self) -> None:
        self._resumes += 1
