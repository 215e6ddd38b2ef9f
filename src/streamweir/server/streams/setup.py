"""The resumable streams of a process, from its configuration, and their metrics."""

from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client.metrics_core import Metric

from streamweir.config.model import Config
from streamweir.server.streams.frames import FrameStore, GivenUp, StreamSettings
from streamweir.server.streams.memory import MemoryFrameStore
from streamweir.server.streams.reading import StreamReading
from streamweir.server.streams.table import StreamTable
from streamweir.server.telemetry.metric_families import counter, gauge
from streamweir.server.telemetry.metrics import Metrics


def stream_settings(config: Config, workers: int) -> StreamSettings:
    """Workers share the memory."""
    streams = config.streams
    return StreamSettings(
        grace_s=streams.grace_s,
        keep_s=streams.keep_s,
        max_bytes=streams.max_bytes,
        total_bytes=streams.total_bytes // workers,
        max_per_key=streams.max_per_key,
    )


class Streams:
    """The table of a process, with what is counted of it."""

    def __init__(
        self,
        config: Config,
        workers: int,
        metrics: Metrics,
        store_of: Callable[[MemoryFrameStore], FrameStore] = lambda memory: memory,
    ) -> None:
        """`store_of`: the store to use, around the one in memory."""
        self._workers = workers
        self._given_up: Counter[GivenUp] = Counter()
        self._resumes = 0
        settings = stream_settings(config, workers)
        store = store_of(MemoryFrameStore(settings, self._count_given_up))
        self.table = StreamTable(store, settings, self._count_resume)
        self.reading = StreamReading(self.table)
        metrics.others.append(self._families)

    def reload(self, config: Config) -> None:
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
