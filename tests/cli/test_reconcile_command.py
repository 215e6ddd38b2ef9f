"""`streamweir reconcile`: a provider's export beside a real ledger."""

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from streamweir.policy.billing.exports.base import HOUR_MS, moment_of
from streamweir.store.journal.entries import Settle
from streamweir.store.ledger.posting import apply
from support.command import Commands
from support.entries import hold, settle

DATA = Path(__file__).parents[1] / "policy" / "exportdata"
FIRST = moment_of("2026-10-01", "")


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path)


def settled(number: int, cost: int | None, at_ms: int, **more: Any) -> list[Any]:
    id = f"req_{number}"
    entry: Settle = settle(id, cost, at_ms=at_ms, model="alias", duration_ms=5, **more)
    return [hold(id, at_ms=at_ms), entry]


def write(commands: Commands, *requests: dict[str, Any]) -> None:
    entries = [entry for number, each in enumerate(requests) for entry in settled(number, **each)]

    def work(conn: Connection) -> None:
        apply(conn, entries)

    commands.write(work)


def gpt(output: int = 10_646, **more: Any) -> list[dict[str, Any]]:
    """What OpenAI's fixture has of one day: ten requests and two."""
    each: dict[str, Any] = {
        "at_ms": FIRST + 23 * HOUR_MS,
        "target": "openai/gpt-4o",
        "cost": 25_446_000,
        "credential": "main",
    }
    tokens = {"prompt_tokens": 5920, "cached_tokens": 576}
    large = [each | tokens | {"completion_tokens": 1064 + 6 * (number == 0)} for number in range(10)]
    large[1]["completion_tokens"] += output - 10_646
    small = {"target": "openai/gpt-4o-mini", "credential": "spare", "prompt_tokens": 500, "completion_tokens": 100}
    return [request | more for request in (*large, each | small, each | small)]


def test_they_agree(commands: Commands) -> None:
    write(commands, *gpt())
    words = ("reconcile", str(DATA / "openai-usage.json"), "--key", "key_main=main", "--key", "key_spare=spare")
    lines = commands(*words).stdout.splitlines()
    assert lines[0] == "openai, usage, 2026-10-01 to 2026-10-01 (UTC), beside openai in the ledger"
    assert lines[-1] == "They agree: none of 8 amounts differs by more than 1 %."
    assert "has_more" in lines[-2]
    assert [line.split()[3] for line in lines[3:7]] == ["requests", "input", "cached", "output"]
    assert all(line.startswith("total ") for line in lines[3:7]), "what agrees is not shown"
    shown = commands(*words, "--all").stdout
    assert "2026-10-01  gpt-4o       main   output" in shown


def test_what_differs_is_shown_with_its_amount(commands: Commands) -> None:
    write(commands, *gpt(output=10_446))
    file = str(DATA / "openai-usage.json")
    keys = ("--key", "key_main=main", "--key", "key_spare=spare")
    result = commands("reconcile", file, *keys, status=3)
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["2026-10-01", "gpt-4o", "main", "output", "10,646", "10,446", "+200", "+1.91"] in rows
    assert rows[-1] == ["1", "of", "8", "amounts", "differ", "by", "more", "than", "1", "%."]
    assert commands("reconcile", file, *keys, "--tolerance", "2").stdout
    found = json.loads(commands("reconcile", file, *keys, "--json", status=3).stdout)
    assert (found["differs"], found["provider"], found["ledger_providers"]) == (True, "openai", ["openai"])
    (line,) = found["lines"]
    assert (line["day"], line["model"], line["key"], line["what"]) == ("2026-10-01", "gpt-4o", "main", "output_tokens")
    assert (line["provider"], line["ledger"], line["difference"]) == (10_646, 10_446, 200)


def test_the_cost_is_compared_and_not_the_price(commands: Commands) -> None:
    write(commands, *gpt(price=77, credential="")[:10])
    found = commands("reconcile", str(DATA / "openai-costs.csv"))
    assert "$0.25446" in found.stdout
    parts = commands("reconcile", str(DATA / "openai-costs.json"), status=3).stdout
    assert "web search tool calls" in parts
    assert "+$0.03" in parts


def test_days_of_google_and_a_name_of_a_provider(commands: Commands) -> None:
    flash = {"target": "my-google/gemini-2.5-flash", "cost": 849_210_000, "prompt_tokens": 992_483}
    flash |= {"completion_tokens": 230_640, "cached_tokens": 500}
    hours = (7, 30)  # the first and the last of 2026-10-01 in Pacific time
    write(commands, *(flash | {"at_ms": FIRST + hour * HOUR_MS} for hour in hours))
    file = str(DATA / "google-report.csv")
    refused = commands.fails("reconcile", file)
    assert refused.endswith("it has my-google. Name them with --provider")
    result = commands("reconcile", file, "--provider", "my-google", status=3)
    assert "(Pacific time), beside my-google" in result.stdout
    differing = [line for line in result.stdout.splitlines() if line.startswith("2026-")]
    assert [line.split("  ")[:2] for line in differing] == [["2026-10-02", "grounding with google search"]]


def test_a_file_of_a_day_that_is_not_over(commands: Commands, tmp_path: Path) -> None:
    write(commands, *gpt())
    file = tmp_path / "export.csv"
    file.write_text("start_time,amount_value,amount_currency\n4000000000,1.00,usd\n")
    assert "The last day of the file is not over." in commands("reconcile", str(file), status=3).stdout


def test_what_is_refused(commands: Commands, tmp_path: Path) -> None:
    file = tmp_path / "other.csv"
    file.write_text("a,b\n\x1b[31m,2\n")
    assert "expected a usage or cost export of OpenAI, Anthropic or Google" in commands.fails("reconcile", str(file))
    usage = str(DATA / "openai-usage.csv")
    assert "the ledger does not have a provider with the name openai: it is empty" in commands.fails("reconcile", usage)
    write(commands, *gpt())
    assert "does not have nobody: it has openai" in commands.fails("reconcile", usage, "--provider", "nobody")
    assert "does not exist" in commands.misused("reconcile", str(tmp_path / "none"))
    assert "expected THEIRS=OURS" in commands.misused("reconcile", usage, "--key", "main")
    foreign = tmp_path / "foreign.csv"
    foreign.write_text("start_time,amount_value,amount_currency,line_item\n1790812800,1.00,usd,\x1b[31m\u202e\n")
    assert "\x1b" not in commands("reconcile", str(foreign), status=3).stdout
