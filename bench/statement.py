"""How fast the statements of a month are summed, over the books of `console_data.py`.

Part of `bench.console`. Reads the statement of every workspace for every month that the books have, so that every
request is in one of them, by the same function as `streamweir invoice`; and runs that program for the largest
workspace. A sum that is not the ledger's ends it. The claim: all statements together take less than a second.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

from sqlalchemy import Connection, func, select

from bench.console_data import Filled
from bench.process import BenchError
from streamweir.policy.billing.statement import Statement, span_of_month
from streamweir.policy.limits.budget import period_of
from streamweir.store.db.engine import open_store
from streamweir.store.db.tables import ledger
from streamweir.store.keys.statement import price_by_ledger, read_statement
from streamweir.store.keys.workspaces import list_workspaces

LIMIT_MS = 1000.0
_READ_S = 300.0
_PROGRAM_S = 60.0


@dataclass(frozen=True)
class StatementFigure:
    requests: int
    """In all statements together."""
    statements: int
    lines: int
    median_ms: float
    """To read all of them."""
    checked_ms: float
    """To sum the single rows of the ledger instead, once."""
    program_ms: float
    """The whole program, for the largest workspace and month, as a page."""

    @property
    def is_kept(self) -> bool:
        return self.median_ms < LIMIT_MS


async def measure_statements(folder: Path, filled: Filled, times: int) -> StatementFigure:
    months = sorted({period_of("month", at_ms / 1000) for at_ms in (filled.since_ms, filled.until_ms - 1)})
    store = await open_store("sqlite:///streamweir.db", folder)
    try:
        names = [each.name for each in await store.read(list_workspaces)]
        taken: list[float] = []

        def read(conn: Connection) -> list[Statement]:
            start = perf_counter()
            found = [read_statement(conn, name, month, filled.until_ms) for name in names for month in months]
            taken.append((perf_counter() - start) * 1000)
            return found

        for _ in range(times):
            statements = await store.read(read, timeout_s=_READ_S)
        start = perf_counter()
        sums = [
            await store.read(partial(_sum_of_rows, statement=statement), timeout_s=_READ_S) for statement in statements
        ]
        checked_ms = (perf_counter() - start) * 1000
        settled = await store.read(_count_settled, timeout_s=_READ_S)
    finally:
        await store.close()
    if sums != [each.total.price for each in statements]:
        raise BenchError("the sums of the statements are not those of the ledger")
    requests = sum(each.total.requests for each in statements)
    if requests != settled:
        raise BenchError(f"the statements have {requests:,} of {settled:,} requests")
    largest = max(statements, key=lambda each: each.total.requests)
    lines = sum(len(each.lines) for each in statements)
    program_ms = _run(folder, largest)
    return StatementFigure(requests, len(statements), lines, median(taken), checked_ms, program_ms)


def _sum_of_rows(conn: Connection, statement: Statement) -> int:
    return price_by_ledger(conn, statement.workspace_id, *span_of_month(statement.month))


def _count_settled(conn: Connection) -> int:
    return int(conn.execute(select(func.count()).where(ledger.c.kind == "settle")).scalar_one())


def _run(folder: Path, statement: Statement) -> float:
    beside = Path(sys.executable).with_name("streamweir")
    program = os.environ.get("STREAMWEIR") or str(beside)
    words = ["invoice", statement.workspace_id, "--month", statement.month, "--format", "html"]
    start = perf_counter()
    done = subprocess.run(  # noqa: S603 (the program that is measured)
        [program, *words, "--data-dir", str(folder)], capture_output=True, check=False, timeout=_PROGRAM_S
    )
    taken = (perf_counter() - start) * 1000
    if done.returncode or b"</html>" not in done.stdout:
        raise BenchError(f"streamweir invoice failed: {done.stderr[:300].decode(errors='replace')}")
    return taken


def statement_lines(figure: StatementFigure) -> list[str]:
    """For the report."""
    kept = "kept" if figure.is_kept else "not kept"
    return [
        f"All statements of {figure.requests:,} requests ({figure.statements} with {figure.lines:,} lines) below "
        f"{LIMIT_MS:.0f} ms: **{kept}**, {figure.median_ms:.1f} ms. From the single rows of the ledger (`--check`): "
        f"{figure.checked_ms:.0f} ms. `streamweir invoice`, the whole program: {figure.program_ms:.0f} ms.",
        "",
    ]
