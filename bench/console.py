"""How fast the questions of the console are answered over a log of a million requests in SQLite.

    python -m bench.console [--rows N] [--times N] [--only TEXT] [--strict]

Makes a month of books (`console_data.py`), starts the real gateway on them, signs in as the console
does, and asks each question (`console_queries.py`) over a socket, one after the other. An answer that
is not right ends it. The claim: the median of every question stays below 200 ms on two cores. Then it
reads the statements of all these requests (`statement.py`), in less than a second. The report goes to
`build/bench`; docs/console.md says by what the answers are that fast.
"""

import argparse
import asyncio
import http.client
import json
import os
import platform
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, process_time, time
from typing import Any

from bench.console_data import Filled, make_books
from bench.console_queries import Question, questions
from bench.process import BenchError, Process, busy_s, free_port
from bench.statement import StatementFigure, measure_statements, statement_lines

FOLDER = Path(__file__).parent.parent / "build" / "bench"
ROWS = 1_000_000
LIMIT_MS = 200.0
CORES = 2
_ANSWER_S = 60.0
_CONFIG = """\
[store]
url = "sqlite:///streamweir.db"
retention_days = 400  # so that nothing is purged meanwhile

[[providers]]
name = "sim"
kind = "sim"
"""


@dataclass(frozen=True)
class Figure:
    question: str
    median_ms: float
    p95_ms: float
    max_ms: float
    cpu_ms: float
    """That the gateway used for an answer, of all its threads."""
    kib: float
    """Of the answer."""

    @property
    def is_kept(self) -> bool:
        return self.median_ms < LIMIT_MS


@dataclass(frozen=True)
class Record:
    figures: list[Figure]
    others: float
    """The share of the cores that neither the gateway nor this program used: where it is much, the times say little."""

    @property
    def is_kept(self) -> bool:
        return all(figure.is_kept for figure in self.figures)


class Client:
    """A page of the console, as far as the gateway sees it: one connection, and the cookie of a session."""

    def __init__(self, port: int, secret: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_S)
        self._headers: dict[str, str] = {}
        body = json.dumps({"secret": secret}).encode()
        self._connection.request("POST", "/api/session", body, {"content-type": "application/json"})
        response = self._connection.getresponse()
        response.read()
        cookie = response.getheader("set-cookie")
        if response.status != 200 or cookie is None:
            raise BenchError(f"no session: status {response.status}")
        self._headers["cookie"] = cookie.partition(";")[0]

    def get(self, target: str) -> tuple[int, bytes]:
        self._connection.request("GET", target, headers=self._headers)
        response = self._connection.getresponse()
        return response.status, response.read()

    def ask(self, target: str) -> Mapping[str, Any]:
        status, body = self.get(target)
        if status != 200:
            raise BenchError(f"{target}: status {status}: {body[:200].decode(errors='replace')}")
        answer: Mapping[str, Any] = json.loads(body)
        return answer

    def close(self) -> None:
        self._connection.close()


@contextmanager
def gateway_on(folder: Path) -> Iterator[tuple[int, Process]]:
    """The port of the real program, on the database in this folder and on two cores."""
    beside = Path(sys.executable).with_name("streamweir")
    program, port = os.environ.get("STREAMWEIR") or str(beside), free_port()
    config = folder / "streamweir.toml"
    config.write_text(_CONFIG)
    command = [program, "serve", "--config", str(config), "--listen", f"127.0.0.1:{port}", "--data-dir", str(folder)]
    process = Process(command, cores(), folder / "gateway.log")
    try:
        process.wait_for_port(port)
        yield port, process
    finally:
        process.stop()


def cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))[:CORES]


def measure(folder: Path, filled: Filled, times: int, only: str = "") -> Record:
    with gateway_on(folder) as (port, process):
        operator, admin = Client(port, filled.secret), Client(port, filled.admin_key)
        start, busy, own = perf_counter(), busy_s(cores()), process.cpu_s + process_time()
        try:
            figures = [
                _time(process, admin if question.by_admin_key else operator, question, times)
                for question in questions(filled, operator.ask)
                if only in question.name
            ]
        finally:
            operator.close()
            admin.close()
        used = busy_s(cores()) - busy - (process.cpu_s + process_time() - own)
        return Record(figures, max(0.0, used / (perf_counter() - start) / len(cores())))


def _time(process: Process, client: Client, question: Question, times: int) -> Figure:
    taken, size, cpu_s = [], 0, process.cpu_s
    for _ in range(times):
        start = perf_counter()
        status, body = client.get(question.target)
        taken.append((perf_counter() - start) * 1000)
        size = len(body)
        if status != question.status or (status == 200 and not question.is_right(json.loads(body))):
            said = body[:300].decode(errors="replace")
            raise BenchError(f"{question.name}: {question.target} has status {status} and is not right: {said}")
    p95 = quantiles(taken, n=20, method="inclusive")[-1] if times > 1 else taken[0]
    cpu_ms = (process.cpu_s - cpu_s) / times * 1000
    return Figure(question.name, median(taken), p95, max(taken), cpu_ms, size / 1024)


def markdown(record: Record, rows: int, made_s: float, statements: StatementFigure | None = None) -> str:
    worst = max(record.figures, key=lambda figure: figure.median_ms)
    lines = [
        f"{rows:,} requests in SQLite, made in {made_s:.0f} s; Python {platform.python_version()}, {CORES} cores.",
        "",
        f"Every median below {LIMIT_MS:.0f} ms: **{'kept' if record.is_kept else 'not kept'}**. "
        f"The slowest: {worst.question}, {worst.median_ms:.1f} ms. "
        f"Other programs used {record.others:.0%} of the cores meanwhile.",
        "",
        "| question | median ms | p95 ms | max ms | CPU ms | answer KiB |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for each in record.figures:
        name = each.question if each.is_kept else f"**{each.question}**"
        numbers = (each.median_ms, each.p95_ms, each.max_ms, each.cpu_ms, each.kib)
        lines.append(f"| {name} | {' | '.join(f'{number:.1f}' for number in numbers)} |")
    return "\n".join([*lines, "", *(statement_lines(statements) if statements is not None else [])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--times", type=int, default=11, help="that each question is asked")
    parser.add_argument("--only", default="", metavar="TEXT", help="the questions with this in their names")
    parser.add_argument("--strict", action="store_true", help="status 1 where a median is above the limit")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # an orderly end: what was started is stopped
    options = parser.parse_args()
    folder = FOLDER / "console"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        start = perf_counter()
        filled = asyncio.run(make_books(folder, options.rows, int(time() * 1000)))
        made_s = perf_counter() - start
        statements = asyncio.run(measure_statements(folder, filled, options.times))
        record = measure(folder, filled, options.times, options.only)
    except BenchError as error:
        raise SystemExit(f"bench: {error}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # it takes 2 GB
    report = markdown(record, options.rows, made_s, statements)
    (FOLDER / "console.md").write_text(report)
    document = {
        "rows": options.rows,
        "made_s": made_s,
        "limit_ms": LIMIT_MS,
        **asdict(record),
        "statements": asdict(statements),
    }
    (FOLDER / "console.json").write_text(json.dumps(document, indent=2) + "\n")
    print(report)
    if options.strict and not (record.is_kept and statements.is_kept):
        sys.exit(1)


if __name__ == "__main__":
    main()
