"""More requests than can be answered: what is still served, how soon, and how the rest is told.

First the peak: as many streams at once as give the most answers. Then an open loop at one, three and ten times
that rate, in which requests come whether or not the ones before were answered; it is counted when it has gone on
for `SETTLE_S`, in which callers connect. Beside it, each on its own: a quiet
key with a few requests a second, streams that were open before, and probes of `/health`. Figures end in the times of
the peak; those of `_0` are without any load, and what is compared is of the same run.
"""

from contextlib import ExitStack
from http.client import HTTPConnection, HTTPException
from threading import Event, Thread
from time import monotonic
from typing import Any

from bench.load import Bench, Figures, Load, pace_of
from bench.system import BEFORE, QUIET_KEY, STREAMWEIR, System

TIMES = (1, 3, 10)
LEVELS = (64, 128, 256)
"""Streams at once, of which one has the most answers."""
CALLERS = 3000
"""Connections of the open loop: more than are ever busy, or it would not be open."""
PACE = pace_of(chunks=50, gap_us=4000)
QUIET_PER_S = 10
RUNNING = 40
RUNNING_GAP_US = 20_000
PROBE_S = 0.05
PATIENCE_S = 5.0
SETTLE_S = 3.0


def overload(bench: Bench, system: System) -> Figures:
    if system.name not in (STREAMWEIR, BEFORE):  # the others have no key that could be quiet
        return {}
    seconds = bench.size.overload_s
    with bench.fresh(system, "overload") as other:
        bench.warm(other, routes=[other.routes["passed"]])
        peak = max(peak_at(bench, other, level, seconds / 2) for level in LEVELS)
        figures = {"peak_per_s": peak}
        figures |= under(bench, other, 0, 0.0, peak, seconds)
        for times in TIMES:
            figures |= under(bench, other, times, times * peak, peak, seconds)
    return figures


def peak_at(bench: Bench, system: System, level: int, seconds: float) -> float:
    """Answers a second, of so many callers who come again as soon as they are answered."""
    options = [
        "--streams",
        level,
        "--ramp-ms",
        1000,
        "--may-refuse",
        "--seconds",
        seconds + SETTLE_S,
        "--settle",
        SETTLE_S,
    ]
    report = bench.load(system, *options, *PACE)
    return float(report["completed"]) / seconds


def under(bench: Bench, system: System, times: int, rate: float, peak: float, seconds: float) -> Figures:
    """All that is seen at that rate."""
    running_s = seconds + 2 * SETTLE_S
    chunks = int(running_s * 1e6 / RUNNING_GAP_US)
    with ExitStack() as stack:
        Event().wait(SETTLE_S)  # what was before is over
        steady = pace_of(chunks=chunks, gap_us=RUNNING_GAP_US)
        running = stack.enter_context(
            bench.spawn_load(system, "--streams", RUNNING, "--requests", RUNNING, "--max-tokens", 20 * chunks, *steady)
        )
        Event().wait(SETTLE_S)
        timing = ["--seconds", seconds + SETTLE_S, "--settle", SETTLE_S]
        quiet = stack.enter_context(
            bench.spawn_load(
                system,
                "--streams",
                64,
                "--rate",
                QUIET_PER_S,
                "--seconds",
                seconds + SETTLE_S,
                "--settle",
                SETTLE_S,
                *PACE,
                key=QUIET_KEY,
            )
        )
        busy: Load | None = None
        if rate:
            options = ["--streams", CALLERS, "--rate", round(rate), *timing]
            busy = stack.enter_context(bench.spawn_load(system, *options, *PACE))
            Event().wait(SETTLE_S)
        health = stack.enter_context(Probes(system.port))
        main = busy.report() if busy is not None else None
        if busy is None:
            Event().wait(seconds)
        few, many = quiet.report(), running.report()
    figures = {
        "health_p99_ms": health.p99_ms,
        "health_failed": float(health.failed),
        "quiet_p50_ms": few["first_text_us"]["p50"] / 1e3,
        "quiet_p99_ms": few["first_text_us"]["p99"] / 1e3,
        "quiet_refused": float(few["refusal_us"]["count"]),
        "gap_p50_ms": many["gap_us"]["p50"] / 1e3,
        "gap_p99_ms": many["gap_us"]["p99"] / 1e3,
    }
    if main is not None:
        figures |= of_the_many(main, peak, seconds)
    return {f"{name}_{times}": value for name, value in figures.items()}


def of_the_many(report: dict[str, Any], peak: float, seconds: float) -> Figures:
    return {
        "goodput": report["completed"] / seconds / peak,
        "accepted_p50_ms": report["first_text_us"]["p50"] / 1e3,
        "accepted_p99_ms": report["first_text_us"]["p99"] / 1e3,
        "refused": float(report["refusal_us"]["count"]),
        "refusal_p50_ms": report["refusal_us"]["p50"] / 1e3,
        "refusal_p99_ms": report["refusal_us"]["p99"] / 1e3,
        "missed": float(report["missed"]),
    }


class Probes:
    """Asks for `/health` again and again, each time on a new connection, as load balancers do."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._ended = Event()
        self._thread = Thread(target=self._run)
        self._took_s: list[float] = []
        self.failed = 0

    def __enter__(self) -> "Probes":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def p99_ms(self) -> float:
        took_s = sorted(self._took_s)
        return took_s[int(len(took_s) * 0.99)] * 1e3 if took_s else 0.0

    def _run(self) -> None:
        while not self._ended.wait(PROBE_S):
            began = monotonic()
            connection = HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
            try:
                connection.request("GET", "/health")
                connection.getresponse().read()
            except (OSError, HTTPException):
                self.failed += 1
            else:
                self._took_s.append(monotonic() - began)
            finally:
                connection.close()
