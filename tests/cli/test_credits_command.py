"""`streamweir credits` and `streamweir workspaces`, on a real store."""

from pathlib import Path

import pytest
from sqlalchemy import Connection, update

from streamweir.store.db.tables import accounts
from streamweir.store.journal.entries import Entry
from streamweir.store.ledger.posting import apply
from support.command import Commands
from support.common_entries import hold, settle
from support.untrusted_texts import FOREIGN

DOLLAR = 10**9


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path)


def test_credit_is_added_and_shown_exactly(commands: Commands) -> None:
    commands("workspaces", "create", "team", "--prepaid")
    added = commands("credits", "add", "team", "25.000000001", "--note", "invoice 7")
    assert added.stderr == ""
    assert "granted    $25.000000001\n" in added.stdout
    for amount in ("-5", "+0.25", "$0.25"):
        commands("credits", "add", "team", amount)
    balance = commands.json("credits", "show", "team")["balance"]
    assert balance["balance_nano"] == balance["granted_nano"] == 20_500_000_001
    shown = commands("credits", "show", "team").stdout.splitlines()
    assert "balance    $20.500000001" in shown
    head, *rows = [line.split() for line in shown[shown.index("") + 1 :]]
    assert head == ["SEQ", "AT", "KIND", "AMOUNT", "RELEASED", "COST", "MARGIN", "KEY", "REQUEST", "NOTE"]
    assert [(row[0], row[3], row[4]) for row in rows] == [
        ("4", "credit", "$0.250000000"),
        ("3", "credit", "$0.250000000"),
        ("2", "credit", "-$5.000000000"),
        ("1", "credit", "$25.000000001"),
    ]
    assert rows[3][-2:] == ["invoice", "7"]
    page = commands.json("credits", "show", "team", "--limit", "1", "--before", "3")["ledger"]
    assert [row["seq"] for row in page] == [2]


def test_every_workspace_is_listed(commands: Commands) -> None:
    note = commands("credits", "add", "default", "3")
    assert note.stderr.startswith("It is not prepaid"), "credit bounds nothing there"
    commands("workspaces", "create", "team")
    commands.write(lambda conn: apply(conn, [hold("req_1", DOLLAR), hold("req_2", DOLLAR), settle("req_1", 5)]))
    head, default, team = commands.table("credits", "show")
    assert head == ["WORKSPACE", "ID", "PREPAID", "GRANTED", "SPENT", "HELD", "BALANCE"]
    assert default == ["default", "default", "no", "$3.00", "$0.000000005", "$1.00", "$1.999999995"]
    assert team[0] == "team"
    assert [each["balance_nano"] for each in commands.json("credits", "show")] == [1_999_999_995, 0]
    rows = commands.json("credits", "show", "default")["ledger"]
    assert [(row["kind"], row["request_id"]) for row in rows][-1] == ("credit", None)
    assert sorted(row["kind"] for row in rows) == ["charge", "credit"]
    every = commands.json("credits", "show", "default", "--kind", "all")["ledger"]
    assert sorted(row["kind"] for row in every) == ["charge", "credit", "reservation", "reservation"]


def test_charges_and_credits_by_default_with_the_same_decimals(commands: Commands) -> None:
    commands("credits", "add", "default", "3")
    entries: list[Entry] = [hold("req_1", DOLLAR), settle("req_1", 1_250_000, price=2_000_000), hold("req_2", 7)]
    commands.write(lambda conn: apply(conn, entries))
    lines = commands("credits", "show", "default").stdout.splitlines()
    rows = [line.split() for line in lines[lines.index("") + 2 :]]
    assert [row[3:8] for row in rows] == [
        ["charge", "-$0.00200", "$1.00000", "$0.00125", "$0.00075"],
        ["credit", "$3.00000", "-", "-", "-"],
    ]
    _, held = commands("credits", "show", "default", "--kind", "reservation", "--limit", "1").stdout.splitlines()[-2:]
    assert held.split()[3:6] == ["reservation", "-$0.000000007", "-"]
    assert (
        "It has no such ledger rows."
        in commands("credits", "show", "default", "--kind", "charge", "--before", "1").stderr
    )


def test_the_ledger_is_checked(commands: Commands) -> None:
    assert commands("credits", "check").stdout == "The ledger is consistent (0 ledger rows, 0 workspaces).\n"
    commands("credits", "add", "default", "3")
    commands.write(lambda conn: apply(conn, [hold("req_1", DOLLAR), settle("req_1", 5)]))
    assert commands("credits", "check").stdout == "The ledger is consistent (3 ledger rows, 1 workspaces).\n"

    def tamper(conn: Connection) -> None:
        conn.execute(update(accounts).values(granted=4 * DOLLAR))

    commands.write(tamper)
    found = commands("credits", "check", status=3)
    assert "The ledger is not consistent." in found.stderr
    assert [line.split() for line in found.stdout.splitlines()[1:]] == [
        ["default", "granted", "$4.00", "$3.00"],
        ["default", "balance", "$3.999999995", "$2.999999995"],
    ]
    assert '"what": "granted"' in commands("credits", "check", "--json", status=3).stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["add", "nowhere", "5"], "there is no workspace 'nowhere'"),
        (["add", "default", "0"], "the amount of a credit must not be 0"),
        (["add", "default", "-5"], "cannot take back more than the remaining credit"),
        (["add", "default", "5", "--note", "x" * 501], "a note can have at most 500 characters"),
        (["show", "nowhere"], "there is no workspace 'nowhere'"),
    ],
)
def test_what_is_refused(commands: Commands, words: list[str], told: str) -> None:
    assert told in commands.fails("credits", *words)


@pytest.mark.parametrize(
    "amount", ["", "1,50", "five", "1e3", "NaN", "inf", "1.0000000001", "0x10", "٣", "1_000", "12345678901"]
)
def test_invalid_amounts(commands: Commands, amount: str) -> None:
    assert "expected dollars" in commands.misused("credits", "add", "default", amount)


def test_a_note_is_shown_and_not_interpreted(commands: Commands) -> None:
    for text in FOREIGN:
        if 0 < len(text) < 100:
            commands("credits", "add", "default", "1", f"--note={text}")
    for words in (("credits", "show", "default", "--limit", "100"), ("admin", "audit", "--limit", "100")):
        shown = commands(*words).stdout
        assert "[bold red]markup[/]" in shown
        assert shown.replace("\n", "").isprintable()
    assert commands("admin", "audit", "--verify").stdout == "The audit log is intact.\n"


def test_workspaces(commands: Commands) -> None:
    made = commands.json("workspaces", "create", "team", "--prepaid", "--price-group", "resale")
    assert (made["name"], made["prepaid"], made["price_group"]) == ("team", True, "resale")
    assert commands.json("workspaces", "change", "team", "--no-prepaid", "--name", "crew")["prepaid"] is False
    assert "prepaid      yes" in commands("workspaces", "change", made["id"], "--prepaid").stdout
    head, crew, default = commands.table("workspaces", "list")
    assert head == ["NAME", "ID", "PREPAID", "PRICE GROUP", "CREATED"]
    assert crew[:4] == ["crew", made["id"], "yes", "resale"]
    assert default[:4] == ["default", "default", "no", "-"]
    changed = commands.json("workspaces", "change", "crew", "--price-group", "none")
    assert (changed["prepaid"], changed["price_group"]) == (True, None)
    assert commands.fails("workspaces", "create", "crew") == "a workspace named 'crew' already exists"
    assert commands.fails("workspaces", "change", "team", "--prepaid") == "there is no workspace 'team'"
    assert "nothing to change" in commands.misused("workspaces", "change", "crew")
