"""Ten minutes of mixed load, of which memory is all that is measured: does it grow?

Streams that run to their end, short requests and callers that reset, at a moderate rate, at the same
time. After a warm-up the resident memory is read once a second; its slope is that of the line with the
least squares.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from statistics import linear_regression
from time import monotonic, sleep

from bench.load import Bench, Figures, Load, pace_of
from bench.process import BenchError
from bench.system import System

EVERY_S = 1.0
CANCEL_US = 100_000


def soak(bench: Bench, system: System) -> Figures:
    samples: list[tuple[float, int]] = []
    with bench.fresh(system, "soaked") as fresh, ExitStack() as stack:
        bench.warm(fresh)
        loads = [stack.enter_context(load) for load in mixed_load(bench, fresh)]
        began = monotonic()
        for second in range(int(bench.size.soak_s / EVERY_S)):
            sleep(max(began + second * EVERY_S - monotonic(), 0))
            samples.append((monotonic() - began, fresh.running.rss))
            if any(not load.is_running for load in loads) and monotonic() - began < bench.size.soak_s - 2 * EVERY_S:
                break
        for load in sorted(loads, key=lambda load: load.is_running):  # who has ended too early says why
            load.report()
    return figures_of(samples, bench.size.soak_warm_s)


def mixed_load(bench: Bench, system: System) -> Sequence[Load]:
    soak_s = bench.size.soak_s
    streams = ["--streams", 50, "--seconds", soak_s, *pace_of(chunks=150, first_us=50_000, gap_us=20_000)]
    short = ["--buffered", "--streams", 8, "--seconds", soak_s, "--pause-us", 50_000]
    cancels = ["--streams", 20, "--cancels", int(soak_s * 1e6 / CANCEL_US), "--every-us", CANCEL_US]
    left = pace_of(chunks=100_000, first_us=50_000, gap_us=100_000)
    timeout = ["--timeout-s", int(soak_s) + 60]
    return [bench.spawn_load(system, *each, *timeout) for each in (streams, short, [*cancels, *left])]


def figures_of(samples: Sequence[tuple[float, int]], warm_s: float) -> Figures:
    """`samples`: seconds since the start, and bytes."""
    warm = [(at_s / 60, size / 1024) for at_s, size in samples if at_s >= warm_s]
    if len(warm) < 2:
        raise BenchError("the soak is too short for a slope")
    slope, _ = linear_regression(*zip(*warm, strict=True))
    return {
        "slope_kib_per_min": slope,
        "rss_start_mb": warm[0][1] * 1024 / 1e6,
        "rss_end_mb": warm[-1][1] * 1024 / 1e6,
    }
