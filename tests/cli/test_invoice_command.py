"""`streamweir invoice`: the statement of a real ledger, in every form."""

import csv
import json
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, update

from streamweir.policy.billing.statement import span_of_month
from streamweir.store.db.tables import ledger
from streamweir.store.keys.credit import add_credit
from streamweir.store.keys.keys import create_key
from streamweir.store.keys.spec import KeySpec
from streamweir.store.keys.workspaces import WorkspaceSpec, create_workspace
from streamweir.store.ledger.posting import apply
from support.command import Commands
from support.entries import hold, settle

OCTOBER = span_of_month("2026-10")[0]
DAY_MS = 86_400_000
COST = 987_654_321
"""What the provider asks for each: it must not be on a statement."""
WORDS = ("invoice", "team", "--month", "2026-10")


def furnish(conn: Connection) -> str:
    team = create_workspace(conn, WorkspaceSpec(name="team", prepaid=True), actor="cli", at_ms=1).id
    add_credit(conn, team, 2000 * 10**9, note="invoice 7", actor="cli", at_ms=OCTOBER + 5)
    ci, chat = (create_key(conn, team, KeySpec(name=name), actor="cli", at_ms=1).key.id for name in ("ci", "=chat"))
    prices = ((ci, "gpt-4o", 1_234_567_891_000, 0), (ci, "o4-mini", None, 0), (chat, "gpt-4o", 125_000_000, 1))
    for number, (key, model, price, day) in enumerate((*prices, (chat, "gpt-4o", 125_000_000, 30))):
        common: dict[str, Any] = {"workspace_id": team, "key_id": key, "at_ms": OCTOBER + day * DAY_MS, "model": model}
        tokens = {"prompt_tokens": 1000, "cached_tokens": 100, "completion_tokens": 30}
        id = f"r{number}"
        apply(conn, [hold(id, 10**6, **common), settle(id, COST, price=price, **common, **tokens)])
    apply(conn, [hold("open", 10**6, workspace_id=team, key_id=ci, at_ms=OCTOBER)])
    return team


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path)


def test_as_text(commands: Commands) -> None:
    id = commands.write(furnish)
    shown = commands(*WORDS).stdout
    lines = [line.split() for line in shown.splitlines()]
    assert shown.startswith(f"Statement of team, 2026-10\nWorkspace {id}, 2026-10-01 to 2026-10-31 (UTC)")
    assert ["KEY", "MODEL", "REQUESTS", "INPUT", "CACHED", "OUTPUT", "USD"] in lines
    assert ["=chat", "gpt-4o", "2", "2,000", "200", "60", "0.250000"] in lines
    assert ["ci", "gpt-4o", "1", "1,000", "100", "30", "1,234.567891"] in lines
    assert ["Total", "4", "4,000", "400", "120", "1,234.817891"] in lines
    assert ["2026-10-31", "1", "1,000", "100", "30", "0.125000"] in lines
    assert ["2026-10-01", "invoice", "7", "2,000.000000"] in lines
    assert ["Charges", "of", "2026-10", "-1,234.817891"] in lines
    assert ["Balance", "765.182109"] in lines
    assert "Total: $1,234.817891\nTotal, rounded: $1,234.82\n" in shown
    assert "Requests without a price, which are not charged: 1." in shown
    assert "Requests that are not finished, and not on this statement yet: 1." in shown
    ends = {len(line) for line in shown.splitlines() if line.endswith(("0.250000", "1,234.567891", "0.000000"))}
    assert len(ends) == 3, "amounts are aligned, in each of the three tables"


def test_as_csv(commands: Commands, tmp_path: Path) -> None:
    commands.write(furnish)
    file = tmp_path / "statement.csv"
    assert commands(*WORDS, "--format", "csv", "--output", str(file)).stdout == ""
    text = file.read_bytes().decode()
    assert text.replace("\r\n", "\n") == commands(*WORDS, "--format", "csv").stdout.replace("\r\n", "\n")
    rows = list(csv.DictReader(StringIO(text)))
    assert [(row["day"], row["key"], row["model"], row["price_usd"]) for row in rows] == [
        ("2026-10-01", "ci", "gpt-4o", "1234.567891000"),
        ("2026-10-01", "ci", "o4-mini", "0.000000000"),
        ("2026-10-02", "'=chat", "gpt-4o", "0.125000000"),
        ("2026-10-31", "'=chat", "gpt-4o", "0.125000000"),
    ]
    assert sum(Decimal(row["price_usd"]) for row in rows) == Decimal("1234.817891")
    assert [row["unpriced"] for row in rows] == ["0", "1", "0", "0"]


def test_what_the_providers_ask_is_in_no_form(commands: Commands) -> None:
    commands.write(furnish)
    for form in ("text", "csv", "html", "json"):
        shown = commands(*WORDS, "--format", form).stdout
        assert str(COST)[:5] not in shown.replace(".", "").replace(",", "")
        assert "cost" not in shown.lower()
        assert "margin:" not in shown.lower() or form == "html", "only the margins of a page"


def test_as_json(commands: Commands) -> None:
    commands.write(furnish)
    found = json.loads(commands(*WORDS, "--format", "json").stdout)
    assert found["total"]["price"] == sum(line["price"] for line in found["lines"]) == 1_234_817_891_000
    assert found["balance"] == 765_182_109_000


def test_the_check_refuses_a_statement_that_is_not_the_ledger(commands: Commands) -> None:
    commands.write(furnish)
    assert commands(*WORDS, "--check").stdout == commands(*WORDS).stdout
    commands.write(lambda conn: conn.execute(update(ledger).where(ledger.c.request_id == "r2").values(price=1)))
    refused = commands(*WORDS, "--check", status=3)
    assert refused.stdout == ""
    assert "$1,234.817891 by usage, $1,234.692891001 by the rows of the ledger" in refused.stderr


def test_a_month_without_anything(commands: Commands) -> None:
    commands.write(furnish)
    shown = commands("invoice", "default", "--month", "2026-10").stdout
    assert shown.endswith("Total: $0.00\n")
    assert "Credit" not in shown


def test_what_is_refused(commands: Commands, tmp_path: Path) -> None:
    assert "there is no workspace 'nobody'" in commands.fails("invoice", "nobody", "--month", "2026-10")
    assert "expected a month such as 2026-11" in commands.fails("invoice", "default", "--month", "2026-13")
    assert "Missing option '--month'" in commands.misused("invoice", "default")
    into = str(tmp_path / "no" / "such.csv")
    assert "No such file" in commands.fails("invoice", "default", "--month", "2026-10", "--output", into)
    assert "--output is for" in commands.misused(*WORDS[:1], "default", *WORDS[2:], "--format", "json", "--output", "x")
