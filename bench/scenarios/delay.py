"""What a system adds to the time that things take: to a first token, to every chunk, to a cancel.

Moments of the mock and of the load generator are of one clock (CLOCK_MONOTONIC), so that they can be
compared: every chunk carries the moment at which it was sent.
"""

from statistics import median, quantiles
from time import monotonic, sleep

from bench.load import Bench, Figures, pace_of
from bench.process import BenchError
from bench.system import System

PACED_COUNTS = (100, 500, 1000, 2000)
SAFE_COUNT = 1000
GAP_US = 20_000
ENDLESS = 1_000_000
CLOSE_S = 5.0


def first_text(bench: Bench, system: System | None) -> Figures:
    """One stream at a time. The mock takes 50 ms to its first token, as a fast provider does."""
    pace = pace_of(chunks=3, first_us=50_000, gap_us=1000)
    report = bench.load(system, "--streams", 1, "--requests", bench.size.first_texts, *pace)
    return {"first_text_us": report["first_text_us"]["p50"]}


def paced(bench: Bench, system: System | None, count: int) -> Figures:
    """So many streams with a chunk every 20 ms on each: what arrives of it, how evenly, and how late."""
    # The first chunk waits until about all are open: else those that are would keep the others from it.
    ramp_ms = 200 + count
    pace = pace_of(chunks=ENDLESS, first_us=ramp_ms * 1000, gap_us=GAP_US)
    limit = 4096 + int(bench.size.paced_s * 1e6 / GAP_US) * 16
    options = ["--streams", count, "--ramp-ms", ramp_ms, "--max-tokens", limit, *pace]
    window = bench.in_window(system, "--window", bench.size.paced_s, *options)
    report = window.report
    return {
        "delivered": report["texts"] / report["elapsed_s"],
        "gap_p99_ms": report["gap_us"]["p99"] / 1000,
        "transit_p50_ms": report["transit_us"]["p50"] / 1000,
        "transit_p99_ms": report["transit_us"]["p99"] / 1000,
        **window.costs,
    }


def cancel(bench: Bench, system: System | None) -> Figures:
    """Callers that reset, one by one, among many open streams: how long until the mock sees the close."""
    size = bench.size
    pace = pace_of(chunks=ENDLESS, first_us=50_000, gap_us=100_000)
    options = ["--streams", size.cancel_streams, "--ramp-ms", 500, "--cancels", size.cancels, "--every-us", 4000]
    closed = dict(bench.load(system, *options, *pace)["cancelled"])
    seen = closes_of(bench, set(closed))
    delays_ms = [(seen[stream] - at) / 1000 for stream, at in closed.items()]
    return {"p50_ms": median(delays_ms), "p99_ms": quantiles(delays_ms, n=100)[98]}


def closes_of(bench: Bench, streams: set[int]) -> dict[int, int]:
    """When the mock saw the close of each of these streams."""
    end = monotonic() + CLOSE_S
    while True:
        lines = (line.split() for line in bench.closes.read_text().splitlines())
        seen = {int(stream): int(at) for stream, at in lines}
        if streams <= seen.keys():
            return seen
        if monotonic() > end:
            raise BenchError(f"{len(streams - seen.keys())} of {len(streams)} cancelled streams stayed open upstream")
        sleep(0.05)
