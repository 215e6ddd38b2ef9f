"""What a chunk and a request cost, without a clock: calls of Python and C functions, and bytes.

The gateway runs in this process (`bench.lockstep`), and a profile counts what is called on the event
loop, by function. Not counted: the two ends, the threads (journal, database, log), what they report
back, and what a timer does for the whole process. A figure is of what nearly every run does: of
several runs one with the commonest total is taken. A chunk is the difference between a stream and one
twice as long, so that what begins and ends a stream is not in it; a stream is what remains. What an
open stream holds is the difference between so many of them and twice as many, in objects that were
made in our files: neither those of libraries nor the kernel's buffers.

    python -m bench.count            the figures, beside those that are committed (count.json)
    python -m bench.count --write    commits them: for when they have changed with good reason

tests/test_count.py fails where a figure is worse than the committed one, or so much better that the
committed one says nothing any more.
"""

import argparse
import gc
import json
import platform
import sys
import tracemalloc
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any

import uvloop

import streamweir
from bench.lockstep import Caller, Lockstep, lockstep
from bench.system import BEDROCK_ROUTES, PASSED, RESPONSES_ROUTES, RESUMABLE, TRANSLATED, Route
from streamweir.server.telemetry.otel import exporter

FILE = Path(__file__).with_name("count.json")
PYTHON = ".".join(platform.python_version_tuple()[:2])
"""Another version makes other calls of the same program."""

TEXTS = 40
"""Of the shorter stream."""
WARMING, REPEATS, REQUESTS = 2, 5, 15
OPEN = 64

PLAIN = PASSED["passed"]
ROUTES = {**PASSED, **TRANSLATED, **RESPONSES_ROUTES, **BEDROCK_ROUTES, **RESUMABLE}
CHUNKS = {f"calls, chunk {name}": route for name, route in ROUTES.items()}
STREAM, SHORT, HELD = "calls, stream without chunks", "calls, short request", "bytes, open stream"
TRACED_CHUNK, TRACED_SHORT = "calls, chunk passed, traced", "calls, short request, traced"
TELEMETRY = '[telemetry]\nendpoint = "http://127.0.0.1:9"'
"""A collector that nothing is sent to before the end: spans wait for more of them."""

WORSE, BETTER = 0.02, 0.10
"""By which part a figure may be above the committed one, and below it."""
MAX_NAMED, MIN_NAMED = 12, 0.5

_HERE = str(FILE.parent)
_OURS = str(Path(streamweir.__file__).parent)
_BACKGROUND = tuple(
    f"{_OURS}/{name}"
    for name in (
        "store/",
        "server/http/pressure.py",
        "server/accounting/maintenance.py",
        "server/telemetry/otel/queue.py",
    )
)
_ROOTS = ("/streamweir/", "/site-packages/", f"/python{PYTHON}/")

Parts = Mapping[str, float]
"""By function: how often it was called, and how often it called C. Or by file: the bytes that were allocated in it."""


@dataclass(frozen=True)
class Figure:
    parts: Parts

    @property
    def total(self) -> float:
        return round(sum(self.parts.values()), 2)


class Profile:
    """Counts from `start` to `stop`. All that a callback of the loop does counts, where it begins in a file of ours."""

    def __init__(self) -> None:
        self._counts: Counter[CodeType] = Counter()
        self._depth = 0
        self._is_counted = False

    def start(self) -> None:
        sys.setprofile(self._see)

    def stop(self) -> Counter[str]:
        sys.setprofile(None)
        named: Counter[str] = Counter()
        for code, count in self._counts.items():
            if not code.co_filename.startswith(_HERE):  # it is called for each request, from within the gateway
                named[f"{below_root(code.co_filename)} {code.co_qualname}"] += count
        return named

    def _see(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            if not self._depth:
                self._is_counted = is_counted(frame.f_code.co_filename)
            self._depth += 1
            self._counts[frame.f_code] += self._is_counted
        elif event == "c_call":
            self._counts[frame.f_code] += self._is_counted and self._depth > 0
        elif event == "return" and self._depth:  # the callers of `start` return too
            self._depth -= 1


def measure() -> dict[str, Figure]:
    gc.collect()
    gc.disable()  # what it calls comes at any time
    try:
        with TemporaryDirectory() as folder, TemporaryDirectory() as other:
            return uvloop.run(_measure(Path(folder))) | uvloop.run(_measure_traced(Path(other)))
    finally:
        gc.enable()


async def _measure(folder: Path) -> dict[str, Figure]:
    figures: dict[str, Figure] = {}
    async with lockstep(folder) as steps:
        caller = await steps.connect()
        for name, route in CHUNKS.items():
            one = await _typical(steps, caller, route, TEXTS, REPEATS)
            two = await _typical(steps, caller, route, 2 * TEXTS, REPEATS)
            chunk = {part: (two[part] - one[part]) / TEXTS for part in {*one, *two}}
            figures[name] = _figure(chunk)
            if route == PLAIN:
                figures[STREAM] = _figure({part: one[part] - TEXTS * chunk[part] for part in chunk})
        figures[SHORT] = _figure(await _typical(steps, caller, PLAIN, 0, REQUESTS))
        caller.close()
        figures[HELD] = _figure(await _held(steps, PLAIN))
    return figures


async def _measure_traced(folder: Path) -> dict[str, Figure]:
    exporter.MAX_ENDED = 1  # each request is read at once, and not one of 64 for all
    async with lockstep(folder, TELEMETRY) as steps:
        caller = await steps.connect()
        one = await _typical(steps, caller, PLAIN, TEXTS, REPEATS)
        two = await _typical(steps, caller, PLAIN, 2 * TEXTS, REPEATS)
        short = await _typical(steps, caller, PLAIN, 0, REQUESTS)
        caller.close()
    chunk = {part: (two[part] - one[part]) / TEXTS for part in {*one, *two}}
    return {TRACED_CHUNK: _figure(chunk), TRACED_SHORT: _figure(short)}


async def _typical(steps: Lockstep, caller: Caller, route: Route, texts: int, repeats: int) -> Counter[str]:
    for _ in range(WARMING):
        await steps.ask(caller, route, texts)
    runs = []
    for _ in range(repeats):
        profile = Profile()
        profile.start()
        await steps.ask(caller, route, texts)
        runs.append(profile.stop())
    return typical(runs)


async def _held(steps: Lockstep, route: Route) -> Parts:
    tracemalloc.start()
    try:
        callers = await steps.open(route, OPEN)
        gc.collect()
        before = tracemalloc.take_snapshot()
        callers += await steps.open(route, OPEN)
        gc.collect()
        growth = tracemalloc.take_snapshot().compare_to(before, "filename")
    finally:
        tracemalloc.stop()
    for caller in callers:
        caller.close()
    files = {each.traceback[0].filename: each.size_diff / OPEN for each in growth}
    return {below_root(file): size for file, size in files.items() if is_counted(file)}


def typical(runs: Sequence[Counter[str]]) -> Counter[str]:
    """One with the commonest total; of totals that are equally common the least."""
    totals = Counter(run.total() for run in runs)
    chosen = min(totals, key=lambda total: (-totals[total], total))
    return next(run for run in runs if run.total() == chosen)


def is_counted(file: str) -> bool:
    return file.startswith(_OURS) and not file.startswith(_BACKGROUND)


def below_root(file: str) -> str:
    for root in _ROOTS:
        _, found, below = file.rpartition(root)
        if found:
            return below
    return Path(file).name


def _figure(parts: Parts) -> Figure:
    """In the order of their names, without those that do not count."""
    return Figure({name: round(count, 2) for name, count in sorted(parts.items()) if round(count, 2)})


def committed() -> tuple[str, dict[str, Figure]]:
    """With the version of Python that they were counted with."""
    document = json.loads(FILE.read_text())
    return document["python"], {name: Figure(parts) for name, parts in document["figures"].items()}


def write(figures: Mapping[str, Figure]) -> None:
    document = {"python": PYTHON, "figures": {name: figure.parts for name, figure in figures.items()}}
    FILE.write_text(json.dumps(document, indent=1) + "\n")


def problem_with(name: str, measured: Figure, before: Figure) -> str | None:
    """What is wrong with a figure, beside the committed one, and which functions it comes from. None: nothing."""
    limit = before.total + max(1, ceil(before.total * WORSE))
    if measured.total > limit:
        what = f"{measured.total:g}, where {before.total:g} is committed and {limit:g} allowed"
    elif measured.total < before.total * (1 - BETTER):
        what = f"{measured.total:g}, so far below the committed {before.total:g} that this one is stale: write it anew"
    else:
        return None
    return "\n".join([f"{name}: {what}", *changes(measured, before)])


def changes(measured: Figure, before: Figure) -> list[str]:
    """The parts that changed most."""
    now, then = measured.parts, before.parts
    by = {name: now.get(name, 0) - then.get(name, 0) for name in {*now, *then}}
    changed = sorted((-abs(change), name) for name, change in by.items() if abs(change) >= MIN_NAMED)
    return [
        f"{by[name]:+12.2f}  {name} ({then.get(name, 0):g}, now {now.get(name, 0):g})"
        for _, name in changed[:MAX_NAMED]
    ]


def table(measured: Mapping[str, Figure], before: Mapping[str, Figure]) -> str:
    lines = [f"{'':30}{'measured':>10}{'committed':>12}"]
    for name, figure in measured.items():
        known = before.get(name)
        lines.append(f"{name:30}{figure.total:>10.2f}" + (f"{known.total:>12.2f}" if known is not None else ""))
        lines += changes(figure, known) if known is not None else []
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", action="store_true", help="commit what is measured")
    chosen = options.parse_args()
    python, before = committed() if FILE.exists() else (PYTHON, {})
    if python != PYTHON:
        print(f"What is committed was counted with Python {python}, which makes other calls than {PYTHON}.")
        before = {}
    measured = measure()
    print(table(measured, before))
    if chosen.write:
        write(measured)


if __name__ == "__main__":
    main()
