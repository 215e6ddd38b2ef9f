"""What all scenarios share: the mock provider, the load generator, and a meter on the system between them.

A run in which a single answer was not whole gives no figures but an error.
"""

import json
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from bench.process import BenchError, busy_s, spawn
from bench.system import Route, Setting, System

Figures = dict[str, float]


@dataclass(frozen=True)
class Size:
    """How much of everything; the defaults keep a whole benchmark within about six minutes."""

    lockstep_streams: int = 64
    lockstep_s: float = 2.0
    short_s: float = 2.0
    open_streams: int = 2000
    first_texts: int = 40
    cancel_streams: int = 500
    cancels: int = 400
    paced_s: float = 3.0
    growth_s: float = 2.0
    soak_s: float = 600.0
    soak_warm_s: float = 60.0
    overload_s: float = 6.0


@dataclass(frozen=True)
class Bench:
    """The tools of a benchmark, and where they are."""

    folder: Path
    mock_port: int
    load_core: int
    worker_cores: frozenset[int]
    files: int
    size: Size
    tls: Setting | None
    """The setting of a system whose provider has TLS. None: there is no such provider."""
    say: Callable[[str], None]

    @property
    def acks(self) -> Path:
        """The FIFO through which the load generator reports to the mock what has arrived."""
        return self.folder / "acks"

    @property
    def closes(self) -> Path:
        """The file in which the mock writes down who left before the end."""
        return self.folder / "closes"

    def spawn_load(self, system: System | None, *options: object, route: Route | None = None, key: str = "") -> "Load":
        """Without a system the mock itself is asked: the floor of what can be measured. `key`: not the route's."""
        route = route or (Route() if system is None else system.routes["passed"])
        port = self.mock_port if system is None else system.port
        command = ["--port", port, "--key", key or route.key, "--path", route.path, "--model", route.model]
        return Load([str(word) for word in (self.folder / "load", *command, *options)], self.load_core)

    def load(self, system: System | None, *options: object, route: Route | None = None) -> dict[str, Any]:
        with self.spawn_load(system, *options, route=route) as load:
            return load.report()

    def in_window(self, system: System | None, *options: object) -> "Window":
        """Only while all streams are open, and none begins or ends."""
        with self.spawn_load(system, *options) as load, ExitStack() as stack:
            if not load.has_said("open"):
                load.report()
                raise BenchError("the streams were never open at the same time")
            meter = None if system is None else stack.enter_context(Meter(system))
            load.has_said("shut")
            stack.close()
            return Window(load.report(), meter)

    def warm(self, system: System, requests: int = 200, routes: Iterable[Route] | None = None) -> None:
        """Code is loaded, and connections are kept, before anything is measured."""
        streams = min(requests, 16)
        paced = pace_of(chunks=5, gap_us=200)
        for route in system.routes.values() if routes is None else routes:
            self.load(system, "--streams", streams, "--requests", requests, *paced, route=route)
        self.load(system, "--buffered", "--streams", streams, "--requests", requests)

    @contextmanager
    def fresh(self, system: System, label: str = "fresh", setting: Setting | None = None) -> Iterator[System]:
        """Another one, started for the second time in its life: what happens once is not measured."""
        with system.beside(label, setting) as other:
            other.start()
            other.restart()
            yield other


class Load:
    """One run of the load generator."""

    def __init__(self, command: Sequence[str], core: int) -> None:
        self.process = spawn(command, {core}, subprocess.PIPE)
        self._line = b""

    def __enter__(self) -> "Load":
        return self

    def __exit__(self, *_: object) -> None:
        with self.process:  # closes the pipe, and waits
            self.process.kill()

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def has_said(self, word: str) -> bool:
        """Waits for its next line. False: it is its report, because something failed."""
        assert self.process.stdout is not None
        self._line = self.process.stdout.readline()
        return self._line.strip() == word.encode()

    def report(self) -> dict[str, Any]:
        output, _ = self.process.communicate()
        text = output or self._line
        try:
            report: dict[str, Any] = json.loads(text)
        except ValueError:
            raise BenchError(f"the load generator failed: {text.decode(errors='replace')[-300:]}") from None
        if report["failures"]:
            raise BenchError(f"{report['failures']} of {report['requests']} answers failed: {report['failure']}")
        if not report["in_time"]:
            raise BenchError(f"answers did not come: {report['requests']} requests in {report['elapsed_s']:.0f} s")
        return report


class Meter:
    """The CPU of a system over a block, and how much of its cores others took: their noise is in our figure."""

    cpu_s: float
    others: float

    def __init__(self, system: System) -> None:
        self._process = system.running
        self._cores = system.setting.cores

    def __enter__(self) -> "Meter":
        self._began, self._busy_s, self._cpu_s = monotonic(), busy_s(self._cores), self._process.cpu_s
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu_s = self._process.cpu_s - self._cpu_s
        busy = busy_s(self._cores) - self._busy_s
        self.others = max(busy - self.cpu_s, 0) / (monotonic() - self._began) / len(self._cores)


class Window(NamedTuple):
    report: dict[str, Any]
    meter: Meter | None
    """None: there was no system between."""

    @property
    def costs(self) -> Figures:
        if self.meter is None:
            return {}
        return {"chunk_cpu_us": self.meter.cpu_s / self.report["texts"] * 1e6, "others": self.meter.others}


def pace_of(*, chunks: int, first_us: int = 0, gap_us: int = 0, lockstep: int = 0) -> Sequence[str]:
    """How the mock is to answer: `upstream.c` reads it from the prompt."""
    return ["--pace", f"chunks={chunks},first={first_us},gap={gap_us},lockstep={lockstep}"]
