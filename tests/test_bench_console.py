"""The tool that measures the console's questions: its books agree with themselves, and every answer is right.

How fast they come is never asserted here.
"""

import sqlite3
from functools import partial
from pathlib import Path
from statistics import median

import pytest
from bench.console import LIMIT_MS, Client, Figure, Record, gateway_on, markdown, measure
from bench.console_data import DAYS, KEYS, MODELS, make_books
from bench.statement import StatementFigure, measure_statements

from streamweir.store.db.clock import now_ms
from streamweir.store.db.engine import open_store
from streamweir.store.ledger.check import check_sums

ROWS, FEW_ROWS = 20_000, 1_000


async def test_the_books_of_a_month_agree_with_themselves(tmp_path: Path) -> None:
    filled = await make_books(tmp_path, FEW_ROWS, now_ms())
    store = await open_store("sqlite:///streamweir.db", tmp_path)
    report = await store.read(check_sums, timeout_s=60)
    await store.close()
    assert report.faults == []
    statements = await measure_statements(tmp_path, filled, 1)  # it compares them with the ledger
    assert FEW_ROWS * 0.97 < statements.requests < FEW_ROWS
    assert min(statements.median_ms, statements.checked_ms, statements.program_ms) > 0


@pytest.mark.soak
async def test_every_question_about_a_month_is_answered_right(tmp_path: Path) -> None:
    """It takes as many rows as fill every page."""
    filled = await make_books(tmp_path, ROWS, now_ms())
    record = measure(tmp_path, filled, 1)
    figures = record.figures
    assert 0 <= record.others <= 1
    names = [figure.question for figure in figures]
    assert len(names) == len(set(names))
    assert len(names) > 100
    assert all(figure.max_ms > 0 for figure in figures)
    with gateway_on(tmp_path) as (port, _):
        client = Client(port, filled.secret)
        month = client.ask("/api/overview?period=month&by=key")
        week = client.ask("/api/overview?period=week&by=model")
        client.close()
    books = sqlite3.connect(tmp_path / "streamweir.db")
    count = books.execute("SELECT count(*) FROM requests").fetchone()[0]
    held, cost = books.execute("SELECT count(*), sum(cost) FROM requests WHERE target IS NOT NULL").fetchone()
    since = (month["since_ms"],)
    lately = books.execute("SELECT count(*) FROM requests WHERE target IS NOT NULL AND at_ms >= ?", since).fetchone()[0]
    times = books.execute(
        "SELECT ttft_ms FROM requests WHERE stream AND ttft_ms IS NOT NULL AND at_ms >= ?", (week["since_ms"],)
    ).fetchall()
    books.close()
    assert (count, KEYS, len(MODELS), DAYS) == (ROWS, 25, 12, 30)
    assert 0.98 < held / count < 1
    assert cost > 0
    assert month["total"]["requests"] == lately
    true = median(time for (time,) in times)
    assert true / 1.5 < week["total"]["ttft_p50_ms"] < true * 1.5


async def test_the_same_seed_makes_the_same_month(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        await make_books(folder, 300, 1_794_700_000_000)
        books = sqlite3.connect(folder / "streamweir.db")
        made.append(books.execute("SELECT request_id, model, target, verdict, cost, strip FROM requests").fetchall())
        books.close()
    assert made[0] == made[1]


def test_the_report_lists_what_was_not_converted() -> None:
    figure = partial(Figure, p95_ms=300.0, max_ms=400.0, cpu_ms=20.0, kib=1.5)
    kept = markdown(Record([figure("a", LIMIT_MS - 1)], 0.25), 10, 1.0)
    assert "**kept**" in kept
    assert "used 25% of the cores" in kept
    assert "| a | 199.0 | 300.0 | 400.0 | 20.0 | 1.5 |" in kept
    slow = markdown(Record([figure("a", 1.0)], 0.0), 10, 1.0, StatementFigure(990, 6, 40, 1000.0, 1500.0, 600.0))
    assert "All statements of 990 requests (6 with 40 lines) below 1000 ms: **not kept**, 1000.0 ms." in slow
    missed = markdown(Record([figure("a", 1.0), figure("b", LIMIT_MS)], 0.0), 10, 1.0)
    assert "**not kept**" in missed
    assert "| **b** | 200.0 |" in missed
