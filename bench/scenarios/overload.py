"""More requests than can be answered: what is still served, how soon, and how the rest is refused.

A request is a stream of fifty chunks, four milliseconds apart. First the peak: as many callers at once, each of whom
comes again as soon as it is answered, as give the most answers. Of a gateway that refuses nobody it is measured as
well (`unlimited_per_s`): that one answers more, and lets everything wait for it. Then an open loop at one, three and
ten times the peak, in which requests come whether or not the ones before were answered, on the first
connection that is free; one caller in ten hangs up when it is answered, and the next comes on a new connection. What
is counted begins after `SETTLE_S`. Beside all of it, the peak too: a quiet key with a few requests a second, streams
that were open before, and probes of `/health` on the port of the callers. Figures end in the times of the peak; those
of `_0` are without any load, and what is compared is of the same run. `cpu` is the share of its core that the gateway
had.
"""

from contextlib import ExitStack
from dataclasses import replace
from http.client import HTTPConnection, HTTPException
from threading import Event, Thread
from time import monotonic
from typing import Any

from bench.load import Bench, Figures, Load, Meter, pace_of
from bench.system import BEFORE, QUIET_KEY, STREAMWEIR, System

TIMES = (1, 3, 10)
LEVELS = (96, 128, 192)
"""Callers at once, of which one has the most answers. With more of them the rate still rises, and so do gaps and the
times of probes: a read of many chunks costs little more than a read of one."""
UNLIMITED_LEVEL = 384
"""The same for a gateway that refuses no request."""
CALLERS = 3000
"""Connections of the open loop: more than are ever busy, or it would not be open."""
PACE = pace_of(chunks=50, gap_us=4000)
ANEW = ("--anew", 10)
QUIET_PER_S = 10
RUNNING = 40
RUNNING_GAP_US = 20_000
PROBE_S = 0.05
CALLER_TIMEOUT_S = 5.0
SETTLE_S = 2.0


def overload(bench: Bench, system: System) -> Figures:
    if system.name not in (STREAMWEIR, BEFORE):  # the others have no key that could be quiet
        return {}
    seconds = bench.size.overload_s
    with bench.fresh(system, "peak", replace(system.setting, refuses=False)) as other:
        bench.warm(other, routes=[other.routes["passed"]])
        unlimited = peak_at(bench, other, UNLIMITED_LEVEL, seconds / 2)
    with bench.fresh(system, "overload") as other:
        bench.warm(other, routes=[other.routes["passed"]])
        peak = max(peak_at(bench, other, level, seconds / 2) for level in LEVELS)
        figures = {"peak_per_s": peak, "unlimited_per_s": unlimited}
        for times in (0, *TIMES):
            figures |= under(bench, other, times, times * peak, peak, seconds)
    return figures


def peak_at(bench: Bench, system: System, level: int, seconds: float) -> float:
    """Answers a second, of so many callers who come again as soon as they are answered."""
    many = ["--streams", level, "--ramp-ms", 1000, "--may-refuse"]
    report, _ = beside(bench, system, many, seconds)
    return 0.0 if report is None else float(report["completed"]) / seconds


def under(bench: Bench, system: System, times: int, rate: float, peak: float, seconds: float) -> Figures:
    """All that is seen at that rate."""
    many = ["--streams", CALLERS, "--rate", round(rate)] if rate else []
    report, figures = beside(bench, system, many, seconds)
    if report is not None:
        figures |= of_the_many(report, peak, seconds)
    return {f"{name}_{times}": value for name, value in figures.items()}


def beside(bench: Bench, system: System, many: list[object], seconds: float) -> tuple[dict[str, Any] | None, Figures]:
    """What the many saw, if there are any, and what was seen beside them."""
    timing = ["--seconds", seconds + SETTLE_S, "--settle", SETTLE_S]
    chunks = int((seconds + 2 * SETTLE_S) * 1e6 / RUNNING_GAP_US)
    with ExitStack() as stack:
        Event().wait(SETTLE_S)  # what was before is over
        steady = pace_of(chunks=chunks, gap_us=RUNNING_GAP_US)
        running = stack.enter_context(
            bench.spawn_load(system, "--streams", RUNNING, "--requests", RUNNING, "--max-tokens", 20 * chunks, *steady)
        )
        Event().wait(SETTLE_S)
        few = ["--streams", 64, "--rate", QUIET_PER_S, *timing]
        quiet = stack.enter_context(bench.spawn_load(system, *few, *PACE, key=QUIET_KEY))
        busy: Load | None = None
        if many:
            busy = stack.enter_context(bench.spawn_load(system, *many, *timing, *PACE, *ANEW))
        Event().wait(SETTLE_S)
        with Probes(system.port) as health, Meter(system) as meter:
            began = monotonic()
            Event().wait(seconds)
            took_s = monotonic() - began
        report = busy.report() if busy is not None else None
        calm, open_before = quiet.report(), running.report()
    return report, {
        "cpu": meter.cpu_s / took_s,
        "others": meter.others,
        "health_p99_ms": health.p99_ms,
        "health_failed": float(health.failed),
        "quiet_p50_ms": calm["first_text_us"]["p50"] / 1e3,
        "quiet_p99_ms": calm["first_text_us"]["p99"] / 1e3,
        "quiet_refused": float(calm["refusal_us"]["count"]),
        "gap_p50_ms": open_before["gap_us"]["p50"] / 1e3,
        "gap_p99_ms": open_before["gap_us"]["p99"] / 1e3,
    }


def of_the_many(report: dict[str, Any], peak: float, seconds: float) -> Figures:
    return {
        "goodput": report["completed"] / seconds / peak,
        "accepted_p50_ms": report["first_text_us"]["p50"] / 1e3,
        "accepted_p99_ms": report["first_text_us"]["p99"] / 1e3,
        "refused": float(report["refusal_us"]["count"]),
        "refusal_p50_ms": report["refusal_us"]["p50"] / 1e3,
        "refusal_p99_ms": report["refusal_us"]["p99"] / 1e3,
        "missed": float(report["missed"]),
        "new_connections": report["connected"] / report["started"],
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
            connection = HTTPConnection("127.0.0.1", self._port, timeout=CALLER_TIMEOUT_S)
            try:
                connection.request("GET", "/health")
                connection.getresponse().read()
            except (OSError, HTTPException):
                self.failed += 1
            else:
                self._took_s.append(monotonic() - began)
            finally:
                connection.close()
