"""The log lines of outages: that one began and ended, and what follows from it."""

import io
import json
from typing import Any

import pytest

from streamweir.server.process.accounting_log import AccountingLog
from streamweir.server.telemetry.log import close_log, configure_log


def logged(report: AccountingLog, *events: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    text = io.StringIO()
    configure_log("json", text)
    for what, details in events:
        report(what, details)
    close_log()
    return [json.loads(line) for line in text.getvalue().splitlines()]


def test_losing_the_database_and_its_return_are_warnings_with_what_follows() -> None:
    report = AccountingLog(decides_alone=True, has_valkey=False)
    away, back = logged(report, ("database_away", {"reason": "refused"}), ("database_back", {"waiting": 3}))
    assert (away["level"], away["event"], away["reason"]) == ("warning", "accounting: database away", "refused")
    assert "requests continue while the journal has space" in away["effect"]
    assert "away_s" not in away
    assert (back["level"], back["event"], back["waiting"]) == ("warning", "accounting: database back", 3)
    assert back["away_s"] >= 0
    assert "nothing needs to be done" in back["effect"]


def test_losing_valkey_and_its_return_are_warnings_with_what_follows() -> None:
    report = AccountingLog(decides_alone=False, has_valkey=True)
    away, back = logged(report, ("valkey_away", {"reason": "no answer"}), ("valkey_back", {}))
    assert (away["level"], away["event"], away["reason"]) == ("warning", "accounting: valkey away", "no answer")
    assert "divided by the number of processes" in away["effect"]
    assert (back["level"], back["event"]) == ("warning", "accounting: valkey back")
    assert back["away_s"] >= 0


@pytest.mark.parametrize(
    ("decides_alone", "has_valkey", "refused"),
    [
        (True, False, "not used since the start"),
        (False, True, "whose total Valkey does not have"),
        (False, False, "those on a budget or credit, and"),
    ],
)
def test_which_budgets_are_refused_depends_on_who_decides(decides_alone: bool, has_valkey: bool, refused: str) -> None:
    (away,) = logged(AccountingLog(decides_alone=decides_alone, has_valkey=has_valkey), ("database_away", {}))
    assert refused in away["effect"]
    assert away["effect"].endswith("a key of the database"), "it is said to its end"


def test_other_events_are_errors_unless_they_are_harmless() -> None:
    report = AccountingLog(decides_alone=True, has_valkey=False)
    lines = logged(
        report,
        ("journal_failing", {"what": "write"}),
        ("journal_recovered", {}),
        ("writer_fault", {"fault": OSError()}),
    )
    assert [line["level"] for line in lines] == ["error", "info", "error"]
