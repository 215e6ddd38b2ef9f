"""The scenarios: what each puts a system through, and the figures that it gives.

Each is one run of the load generator against one system (or against the mock itself: `direct`),
a few seconds long. A run in which a single answer was not whole gives no figures but an error.
"""

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from time import monotonic, sleep
from typing import Any

from bench.process import BenchError, Process, busy_s, spawn
from bench.system import CHAT, KEY, System

Figures = dict[str, float]


@dataclass(frozen=True)
class Size:
    """How much of everything; the defaults keep three rounds within about two minutes."""

    lockstep_streams: int = 64
    lockstep_s: float = 2.5
    short_s: float = 2.0
    open_streams: int = 2000
    first_texts: int = 40
    cancel_streams: int = 500
    cancels: int = 400


@dataclass(frozen=True)
class Bench:
    """What all runs share: the mock provider, the load generator and the cores they are on."""

    folder: Path
    mock: Process
    mock_port: int
    system_core: int
    load_core: int
    size: Size

    @property
    def acks(self) -> Path:
        return self.folder / "acks"

    @property
    def closes(self) -> Path:
        return self.folder / "closes"

    @contextmanager
    def loading(self, system: System | None, *options: object, path: str) -> Iterator[subprocess.Popen[bytes]]:
        port = self.mock_port if system is None else system.port
        command = [self.folder / "load", "--port", port, "--path", path, "--key", KEY, *options]
        with spawn([str(word) for word in command], self.load_core, subprocess.PIPE) as load:
            try:
                yield load
            finally:
                load.kill()

    def load(self, system: System | None, *options: object, path: str = CHAT) -> dict[str, Any]:
        with self.loading(system, *options, path=path) as load:
            return read_report(load)

    def passed(self, system: System) -> Figures:
        return self.lockstep(system, CHAT)

    def translated(self, system: System) -> Figures:
        return {} if system.translated_path is None else self.lockstep(system, system.translated_path)

    def lockstep(self, system: System, path: str) -> Figures:
        """So many streams, one chunk in flight on each: what a chunk costs when nothing can be put together."""
        size = self.size
        pace = pace_of(chunks=200, lockstep=1)
        options = ["--acks", self.acks, "--streams", size.lockstep_streams, "--seconds", size.lockstep_s, *pace]
        with Meter(system, self.system_core) as meter:
            report = self.load(system, *options, path=path)
        return {
            "chunk_cpu_us": meter.cpu_s / report["texts"] * 1e6,
            "chunks_per_s": report["texts"] / report["elapsed_s"],
            "others": meter.others,
        }

    def short(self, system: System) -> Figures:
        """Buffered requests, one after the other on kept connections: what a request costs."""
        with Meter(system, self.system_core) as meter:
            report = self.load(system, "--buffered", "--streams", 64, "--seconds", self.size.short_s)
        return {
            "request_cpu_us": meter.cpu_s / report["requests"] * 1e6,
            "requests_per_s": report["requests"] / report["elapsed_s"],
            "others": meter.others,
        }

    def memory(self, system: System) -> Figures:
        """Many slow streams on a fresh process: what an open stream holds. Memory of the kernel is not in it."""
        system.restart()
        self.warm(system, 8)
        count = self.size.open_streams
        before = most = system.running.rss
        pace = pace_of(chunks=5, first_us=1_000_000, gap_us=1_000_000)
        options = ["--streams", count, "--requests", count, "--ramp-ms", 2000, *pace]
        with self.loading(system, *options, path=CHAT) as load:
            while load.poll() is None:
                most = max(most, system.running.rss)
                sleep(0.1)
            read_report(load)
        system.restart()  # the next round finds it as this one did
        self.warm(system)
        return {"idle_mb": before / 1e6, "stream_kib": (most - before) / count / 1024}

    def first_text(self, system: System | None) -> Figures:
        """One stream at a time. The mock takes 50 ms to its first token, as a fast provider does."""
        pace = pace_of(chunks=3, first_us=50_000, gap_us=1000)
        report = self.load(system, "--streams", 1, "--requests", self.size.first_texts, *pace)
        return {"first_text_us": report["first_text_us"]["p50"]}

    def cancel(self, system: System | None) -> Figures:
        """Callers that reset, one by one, among many open streams: how long until the mock sees the close."""
        size = self.size
        pace = pace_of(chunks=6000, first_us=50_000, gap_us=100_000)
        options = ["--streams", size.cancel_streams, "--ramp-ms", 500, "--cancels", size.cancels, "--every-us", 4000]
        closed = dict(self.load(system, *options, *pace)["cancelled"])
        seen = self.closes_of(set(closed))
        delays_ms = [(seen[stream] - at) / 1000 for stream, at in closed.items()]
        return {"p50_ms": median(delays_ms), "p99_ms": quantiles(delays_ms, n=100)[98]}

    def warm(self, system: System, requests: int = 500) -> None:
        """Code is loaded, and connections are kept, before anything is measured."""
        streams = min(requests, 16)
        self.load(system, "--streams", streams, "--requests", requests, *pace_of(chunks=5, gap_us=200))
        self.load(system, "--buffered", "--streams", streams, "--requests", requests)

    def closes_of(self, streams: set[int]) -> dict[int, int]:
        """When the mock saw the close of each of these streams."""
        end = monotonic() + 5
        while True:
            lines = (line.split() for line in self.closes.read_text().splitlines())
            seen = {int(stream): int(at) for stream, at in lines}
            if streams <= seen.keys():
                return seen
            if monotonic() > end:
                raise BenchError(
                    f"{len(streams - seen.keys())} of {len(streams)} cancelled streams stayed open upstream"
                )
            sleep(0.05)


class Meter:
    """The CPU of a system over a block, and how much of its core others took: their noise is in our figure."""

    cpu_s: float
    others: float

    def __init__(self, system: System, core: int) -> None:
        self._process = system.running
        self._core = core

    def __enter__(self) -> "Meter":
        self._began, self._busy_s, self._cpu_s = monotonic(), busy_s(self._core), self._process.cpu_s
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu_s = self._process.cpu_s - self._cpu_s
        busy = busy_s(self._core) - self._busy_s
        self.others = max(busy - self.cpu_s, 0) / (monotonic() - self._began)


def pace_of(*, chunks: int, first_us: int = 0, gap_us: int = 0, lockstep: int = 0) -> Sequence[str]:
    """How the mock is to answer: `upstream.c` reads it from the prompt."""
    return ["--pace", f"chunks={chunks},first={first_us},gap={gap_us},lockstep={lockstep}"]


def read_report(load: subprocess.Popen[bytes]) -> dict[str, Any]:
    output, _ = load.communicate()
    try:
        report: dict[str, Any] = json.loads(output)
    except ValueError:
        raise BenchError(f"the load generator failed: {output.decode(errors='replace')[-300:]}") from None
    if report["failures"]:
        raise BenchError(f"{report['failures']} of {report['requests']} answers failed: {report['failure']}")
    if not report["in_time"]:
        raise BenchError(f"answers did not come: {report['requests']} requests in {report['elapsed_s']:.0f} s")
    return report


SCENARIOS: dict[str, Callable[[Bench, System], Figures]] = {
    "passed": Bench.passed,
    "translated": Bench.translated,
    "short": Bench.short,
    "first_text": Bench.first_text,
    "cancel": Bench.cancel,
    "memory": Bench.memory,
}
DIRECT_TOO: dict[str, Callable[[Bench, None], Figures]] = {"first_text": Bench.first_text, "cancel": Bench.cancel}
"""Those that make sense without a gateway between: the floor of what can be measured."""
