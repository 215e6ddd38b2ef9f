"""The report: from a record to tables, plots, and a verdict on each claim, as Markdown, JSON and SVG.

What a system could not do, or was not put through, is left empty. bench/record.py says what a
figure and a ratio are, bench/claims.py what is claimed.
"""

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from bench.claims import judge
from bench.peers import NOTES
from bench.plot import Group, Line, bars, lines
from bench.record import ADDED, DIRECT, PASSED, SHORT, YARDSTICK, Record

NOISY = 0.1
PACED = (100, 500, 1000, 2000)
GROWN = (10, 100, 1000, 5000)
SPREAD = 50.0
"""Where the largest figure is so many times the least, a plot is logarithmic."""


@dataclass(frozen=True)
class Row:
    name: str
    unit: str
    figure: str
    digits: int = 1
    yardstick: str | None = None
    """The yardstick's figure, where it is another than the system's own."""
    has_ratio: bool = True


def chunk(name: str, scenario: str, *, to_passed: bool = False) -> Row:
    yardstick = PASSED if to_passed else None
    return Row(f"CPU per chunk, {name}", "us", f"{scenario}.chunk_cpu_us", 2, yardstick)


CHUNKS = (
    chunk("passed", "passed"),
    chunk("translated", "translated", to_passed=True),
    chunk("to another dialect", "opentoken", to_passed=True),
    chunk("Anthropic to openai", "anthropic", to_passed=True),
    chunk("Gemini to openai", "gemini", to_passed=True),
    chunk("Messages passed", "messages_passed", to_passed=True),
    chunk("openai to Messages", "messages", to_passed=True),
    chunk("Responses to openai", "from_responses", to_passed=True),
    chunk("Responses passed", "responses_passed", to_passed=True),
    chunk("openai to Responses", "responses", to_passed=True),
    chunk("Bedrock's Converse to openai", "converse", to_passed=True),
    chunk("Claude on Bedrock passed", "invoke_passed", to_passed=True),
    chunk("Claude on Bedrock to openai", "invoke", to_passed=True),
    chunk("passed, resumable", "resumable", to_passed=True),
    chunk("TLS to the provider", "tls"),
    chunk("two workers", "workers_2"),
)
STREAM = Row("memory per open stream", "KiB", "memory.stream_kib")
COSTS = (
    *CHUNKS,
    Row("CPU per chunk, resumable to not resumable", "", "resumable.ratio", 2, has_ratio=False),
    Row("CPU per short buffered request", "us", SHORT),
    Row("added time to first token", "us", ADDED, 0, has_ratio=False),
    STREAM,
    Row("memory when idle", "MB", "memory.idle_mb"),
    Row("cancel reaches the provider, median", "ms", "cancel.p50_ms", 2, has_ratio=False),
    Row("cancel reaches the provider, p99", "ms", "cancel.p99_ms", 2, has_ratio=False),
    Row("start to first answer", "s", "start.first_answer_s", 2, has_ratio=False),
    Row("the very first start, to first answer", "s", "start.first_start_s", 2, has_ratio=False),
    *(Row(f"CPU per chunk, {count:,} streams", "us", f"growth.chunk_cpu_us_{count}", 2) for count in GROWN),
    Row("CPU per chunk, 5,000 streams to 100", "", "growth.ratio", 2, has_ratio=False),
    Row("memory over a soak: slope", "KiB/min", "soak.slope_kib_per_min", has_ratio=False),
    Row("memory over a soak: at its start", "MB", "soak.rss_start_mb", has_ratio=False),
    Row("memory over a soak: at its end", "MB", "soak.rss_end_mb", has_ratio=False),
)
PACES = tuple(
    row
    for count in PACED
    for row in (
        Row(f"{count:,} streams: chunks delivered", "1/s", f"paced_{count}.delivered", 0),
        Row(f"{count:,} streams: gap, p99", "ms", f"paced_{count}.gap_p99_ms", 2, has_ratio=False),
        Row(f"{count:,} streams: transit, median", "ms", f"paced_{count}.transit_p50_ms", 2, has_ratio=False),
        Row(f"{count:,} streams: transit, p99", "ms", f"paced_{count}.transit_p99_ms", 2, has_ratio=False),
        Row(f"{count:,} streams: CPU per chunk", "us", f"paced_{count}.chunk_cpu_us", 2),
    )
)


def write(record: Record, folder: Path) -> None:
    """In the place of the report before it: a plot that this one does not have goes."""
    for plot in folder.glob("*.svg"):
        plot.unlink()
    (folder / "report.md").write_text(markdown(record))
    (folder / "report.json").write_text(as_json(record))
    for name, drawing in plots(record).items():
        (folder / name).write_text(drawing)


def markdown(record: Record) -> str:
    parts = [facts(record)]
    parts += [table(record, COSTS, "figure"), table(record, PACES, "paced, a chunk every 20 ms")]
    parts.append("Each figure is the median of its rounds, with the least of them in brackets where there are several.")
    parts.append(ratio_table(record))
    if (added := record.books()) is not None:
        each, ratio = added
        parts.append(f"Limits, ledger and log add {each:.1f} us to a short request: {ratio:.2f} of {YARDSTICK}'s.")
    parts += [note for system, note in NOTES.items() if system in record.values]
    parts += [f"![{name.removesuffix('.svg')}]({name})" for name in plots(record)]
    if record.noise() > NOISY:
        parts.append(f"Other programs took up to {record.noise():.0%} of the measured core: repeat on a quiet machine.")
    parts.append(claim_table(record))
    return "\n\n".join(part for part in parts if part) + "\n"


def table(record: Record, rows: Sequence[Row], head: str) -> str:
    """Only the rows and the systems that have a figure."""
    systems = [system for system in record.systems() if any(record.of(system, row.figure) for row in rows)]
    body = [
        [row.name, row.unit, *(cell(record.of(system, row.figure), row.digits) for system in systems)]
        for row in rows
        if any(record.of(system, row.figure) for system in systems)
    ]
    return lined([head, "unit", *systems], body)


def ratio_table(record: Record) -> str:
    """In the yardstick's figures; a chunk that it cannot translate is compared with one that it passes."""
    ratios = ratios_of(record)
    names = [row.name for row in (*COSTS, *PACES) if any(row.name in each for each in ratios.values())]
    systems = [system for system, each in ratios.items() if each]
    body = [[name, *(f"{ratios[s][name]:.2f}" if name in ratios[s] else "" for s in systems)] for name in names]
    return lined([f"times {YARDSTICK}'s", *systems], body)


def ratios_of(record: Record) -> dict[str, dict[str, float]]:
    return {
        system: {
            row.name: ratio
            for row in (*COSTS, *PACES)
            if row.has_ratio
            if (ratio := record.ratio((system, row.figure), (YARDSTICK, row.yardstick or row.figure))) is not None
        }
        for system in record.systems()
        if system not in (YARDSTICK, DIRECT)
    }


def claim_table(record: Record) -> str:
    body = [[each.claim.what, each.limit, each.figure, each.verdict] for each in judge(record)]
    return lined(["claim", "limit", "measured", "verdict"], body)


def lined(heads: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    if not body:
        return ""
    rows = [heads, ["---", *["---:"] * (len(heads) - 1)], *body]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in rows)


def facts(record: Record) -> str:
    versions = "; ".join(version for version in record.versions.values() if version)
    machine = f"{cpu_model()}, {platform.system()} {platform.release()}"
    return f"{machine}. {versions}. Rounds: {record.count()}. {datetime.now(UTC):%Y-%m-%d}."


def cell(values: Sequence[float], digits: int) -> str:
    if len(values) < 2:
        return "".join(f"{value:,.{digits}f}" for value in values)
    return f"{median(values):,.{digits}f} ({min(values):,.{digits}f})"


def as_json(record: Record) -> str:
    report = {
        "facts": facts(record),
        "versions": dict(record.versions),
        "same_core": record.cores[0] == record.cores[1],
        "noise": record.noise(),
        "claims": [
            {
                "claim": each.claim.what,
                "limit": each.claim.limit,
                "is_floor": each.claim.is_floor,
                "unit": each.claim.unit,
                "measured": each.measured,
                "verdict": each.verdict,
            }
            for each in judge(record)
        ],
        "ratios": ratios_of(record),
        "rounds": record.values,
    }
    return json.dumps(report, indent=1) + "\n"


def plots(record: Record) -> dict[str, str]:
    """By file name; a plot without a figure is left out."""
    names = list(record.versions)
    drawn = {
        "chunk.svg": chunk_plot(record),
        "memory.svg": memory_plot(record),
        "growth.svg": line_plot(
            "CPU per chunk as streams grow", "CPU per chunk, us", grown(record, "growth.chunk_cpu_us_{}", GROWN), names
        ),
        "transit.svg": line_plot(
            "From the provider's write to the caller's read: median, and p99 dashed",
            "transit of a chunk, ms",
            [
                *grown(record, "paced_{}.transit_p50_ms", PACED),
                *grown(record, "paced_{}.transit_p99_ms", PACED, is_dashed=True),
            ],
            names,
        ),
    }
    return {name: plot for name, plot in drawn.items() if plot}


def chunk_plot(record: Record) -> str:
    groups = [
        Group(row.name.removeprefix("CPU per chunk, "), values) for row in CHUNKS if (values := middles_of(record, row))
    ]
    return bar_plot(record, "CPU per chunk, one chunk in flight on each stream", "CPU per chunk, us", groups)


def memory_plot(record: Record) -> str:
    groups = [Group(system, {system: value}) for system, value in middles_of(record, STREAM).items()]
    return bar_plot(record, "Memory per open stream", "resident memory per stream, KiB", groups)


def bar_plot(record: Record, title: str, axis: str, groups: Sequence[Group]) -> str:
    every = [value for group in groups for value in group.values.values()]
    return bars(title, axis, groups, list(record.versions), is_log=is_wide(every)) if groups else ""


def middles_of(record: Record, row: Row) -> dict[str, float]:
    middles = {system: record.middle(system, row.figure) for system in record.versions}
    return {system: middle for system, middle in middles.items() if middle is not None}


def grown(record: Record, figure: str, counts: Sequence[int], *, is_dashed: bool = False) -> list[Line]:
    """One line for each system that has two places at least."""
    found: list[Line] = []
    for system in record.versions:
        middles: Mapping[int, float | None] = {count: record.middle(system, figure.format(count)) for count in counts}
        points = [(float(count), middle) for count, middle in middles.items() if middle is not None]
        if len(points) > 1:
            found.append(Line(f"{system}{', p99' if is_dashed else ''}", points, system, is_dashed))
    return found


def line_plot(title: str, up: str, drawn: Sequence[Line], names: Sequence[str]) -> str:
    if not drawn:
        return ""
    every = [y for line in drawn for _, y in line.points]
    return lines(title, "open streams", up, drawn, names, is_log=is_wide(every))


def is_wide(values: Sequence[float]) -> bool:
    positive = [value for value in values if value > 0]
    return bool(positive) and max(positive) / min(positive) > SPREAD


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return " ".join(line.partition(":")[2].split())
    return platform.machine()
