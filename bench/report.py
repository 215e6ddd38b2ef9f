"""The report: from the figures of all rounds to one table, as Markdown and as JSON.

A figure is the median of its rounds, with the least beside it. A ratio is the median of the
ratios within a round, because what disturbs a round disturbs all systems in it.
"""

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from bench.system import WITH_BOOKS, WITHOUT_BOOKS

YARDSTICK = "nginx"
DIRECT = "direct"
NOISY = 0.1


@dataclass(frozen=True)
class Row:
    name: str
    unit: str
    figure: str
    digits: int = 1
    yardstick: str | None = None
    """The yardstick's figure, where it is another than the system's own."""
    has_ratio: bool = True


ROWS = (
    Row("CPU per chunk, passed", "us", "passed.chunk_cpu_us", 2),
    Row("CPU per chunk, translated", "us", "translated.chunk_cpu_us", 2, yardstick="passed.chunk_cpu_us"),
    Row("CPU per short buffered request", "us", "short.request_cpu_us"),
    Row("added time to first token", "us", "first_text.added_us", 0, has_ratio=False),
    Row("memory per open stream", "KiB", "memory.stream_kib"),
    Row("memory when idle", "MB", "memory.idle_mb"),
    Row("cancel reaches the provider, median", "ms", "cancel.p50_ms", 2, has_ratio=False),
    Row("cancel reaches the provider, p99", "ms", "cancel.p99_ms", 2, has_ratio=False),
)


@dataclass
class Record:
    """Every figure of every round: `values[system][figure]` is a list with one number per round."""

    versions: Mapping[str, str]
    cores: tuple[int, int]
    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, system: str, scenario: str, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self.values.setdefault(system, {}).setdefault(f"{scenario}.{name}", []).append(value)

    def of(self, system: str, figure: str) -> list[float]:
        return self.values.get(system, {}).get(figure, [])

    def add_differences(self) -> None:
        """What a system adds to the time that the provider alone takes, round by round."""
        for system in self.versions:
            through, alone = self.of(system, "first_text.first_text_us"), self.of(DIRECT, "first_text.first_text_us")
            for ours, direct in zip(through, alone, strict=True):
                self.add(system, "first_text", {"added_us": ours - direct})

    def ratio(self, system: str, row: Row) -> float | None:
        """Against the yardstick."""
        ours, theirs = self.of(system, row.figure), self.of(YARDSTICK, row.yardstick or row.figure)
        if system == YARDSTICK or not row.has_ratio or not ours or not theirs:
            return None
        return median(our / their for our, their in zip(ours, theirs, strict=True))

    def books(self) -> tuple[float, float] | None:
        """What the books add to a short request, and how many of the yardstick's whole requests that is."""
        figure = "short.request_cpu_us"
        rounds = [self.of(system, figure) for system in (WITH_BOOKS, WITHOUT_BOOKS, YARDSTICK)]
        if not all(rounds):
            return None
        added = [(booked - plain, (booked - plain) / theirs) for booked, plain, theirs in zip(*rounds, strict=True)]
        return median(each for each, _ in added), median(ratio for _, ratio in added)

    def noise(self) -> float:
        """The share of its core that the system under test did not get, at worst."""
        shares = [
            self.of(system, f"{name}.others") for system in self.values for name in ("passed", "translated", "short")
        ]
        return max((share for each in shares for share in each), default=0.0)


def markdown(record: Record) -> str:
    systems = [system for system in (DIRECT, *record.versions) if system in record.values]
    compared = [system for system in record.versions if system != YARDSTICK and YARDSTICK in record.versions]
    heads = ["", "unit", *systems, *(f"{system} / {YARDSTICK}" for system in compared)]
    lines = [facts(record), "", table_line(heads), table_line(["---", *["---:"] * (len(heads) - 1)])]
    for row in ROWS:
        if not any(record.of(system, row.figure) for system in systems):
            continue
        cells = [cell(record.of(system, row.figure), row.digits) for system in systems]
        ratios = [record.ratio(system, row) for system in compared]
        lines.append(table_line([row.name, row.unit, *cells, *("" if r is None else f"{r:.2f}" for r in ratios)]))
    added = record.books()
    if added is not None:
        each, ratio = added
        lines += [
            "",
            f"Keys, limits, ledger and log add {each:.1f} us to a short request: {ratio:.2f} of {YARDSTICK}'s.",
        ]
    lines += ["", "Each figure is the median of the rounds, with the least of them in brackets."]
    if record.noise() > NOISY:
        lines.append(f"Other programs took up to {record.noise():.0%} of the measured core: repeat on a quiet machine.")
    return "\n".join(lines) + "\n"


def facts(record: Record) -> str:
    versions = "; ".join(version for version in record.versions.values() if version)
    rounds = max((len(values) for figures in record.values.values() for values in figures.values()), default=0)
    machine = f"{cpu_model()}, {platform.system()} {platform.release()}"
    return f"{machine}. {versions}. Rounds: {rounds}. {datetime.now(UTC):%Y-%m-%d}."


def cell(values: Sequence[float], digits: int) -> str:
    return f"{median(values):.{digits}f} ({min(values):.{digits}f})" if values else ""


def table_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def as_json(record: Record) -> str:
    ratios = {
        system: {row.name: ratio for row in ROWS if (ratio := record.ratio(system, row)) is not None}
        for system in record.versions
    }
    report = {
        "facts": facts(record),
        "versions": dict(record.versions),
        "same_core": record.cores[0] == record.cores[1],
        "noise": record.noise(),
        "ratios": ratios,
        "rounds": record.values,
    }
    return json.dumps(report, indent=1) + "\n"


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return " ".join(line.partition(":")[2].split())
    return platform.machine()
