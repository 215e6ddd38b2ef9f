"""Running requests as a table: states, rates and orders."""

from io import StringIO

import pytest
from msgspec import structs
from rich.console import Console

from streamweir.cli.commands.top import Snapshot, screen
from streamweir.cli.view.live import COLUMNS, cells, columns_that_fit, in_order, state
from streamweir.server.control.api.view import LiveView

ROW = LiveView(
    request_id="req_1",
    at_ms=1_000_000,
    workspace="default",
    key_id="key_1",
    key_name="ci",
    dialect="openai",
    end_user=None,
    session=None,
    model="fast",
    target=None,
    stream=True,
    held_usd="0",
    prompt_tokens=1200,
    output_tokens=0,
    price_usd=None,
    progress_ms=None,
    first_ms=None,
    last_ms=None,
    is_being_stopped=False,
    readers=None,
    reader_gap_count=None,
    away_since_ms=None,
    node=None,
)


def shown(at_ms: int, **members: object) -> dict[str, str]:
    return dict(zip(COLUMNS, cells(structs.replace(ROW, **members), at_ms), strict=True))


def test_a_request_from_its_beginning_to_its_end() -> None:
    waiting = shown(1_002_500)
    assert (waiting["state"], waiting["age"], waiting["ttft"], waiting["tok/s"]) == ("waiting", "2s", "-", "-")
    streaming = shown(
        1_065_000, first_ms=1_000_400, last_ms=1_064_400, output_tokens=640, price_usd="0.001", target="up/m"
    )
    assert streaming == {
        "id": "req_1",
        "age": "1m05s",
        "state": "streaming",
        "model": "fast",
        "target": "up/m",
        "key": "ci",
        "ttft": "400ms",
        "in": "1,200",
        "out": "640",
        "tok/s": "10",
        "price": "$0.001",
        "node": "-",
    }
    assert shown(8_200_000, first_ms=1_000_400, last_ms=8_188_000)["state"] == "silent 12s"
    assert shown(8_200_000, first_ms=1_000_400, last_ms=8_188_000)["age"] == "2h00m"
    away = {
        "first_ms": 1_000_400,
        "last_ms": 1_009_000,
        "readers": 0,
        "reader_gap_count": 1,
        "away_since_ms": 1_004_000,
    }
    assert shown(1_009_500, **away)["state"] == "away 5s"
    assert state(structs.replace(ROW, is_being_stopped=True, first_ms=1), 2) == "stopping"


def test_orders() -> None:
    rows = [
        structs.replace(ROW, request_id=name, at_ms=at_ms, output_tokens=tokens, model=model)
        for name, at_ms, tokens, model in (("a", 3, 10, "y"), ("b", 1, 30, "z"), ("c", 2, 20, "x"))
    ]
    assert ["".join(each.request_id for each in in_order(rows, sort)) for sort in ("age", "tokens", "model")] == [
        "bca",
        "bca",
        "cab",
    ]


@pytest.mark.parametrize(
    ("width", "missing"),
    [
        (240, set[str]()),
        (100, {"node", "target"}),
        (80, {"node", "target", "id"}),
        (50, {"node", "target", "id", "in", "price", "ttft"}),
    ],
)
def test_a_narrow_terminal_shows_whole_numbers_in_fewer_columns(width: int, missing: set[str]) -> None:
    model = "sim/lorem?words=150&pace_ms=200"
    row = structs.replace(
        ROW,
        request_id="req_01a1f2a40ea3fdf9cf77c0a2",
        model=model,
        target=model,
        first_ms=1_000_400,
        last_ms=1_064_400,
        output_tokens=64_000,
        price_usd="0.064",
        node="gw1",
    )
    found = Snapshot(1, [row])
    shown = columns_that_fit([cells(row, 1_065_000)], width)
    assert {*COLUMNS} - {COLUMNS[at] for at in shown} == missing
    console = Console(width=width, file=StringIO())
    console.print(screen(found, "age", width, 1_065_000))
    assert isinstance(console.file, StringIO)
    title, head, line = console.file.getvalue().splitlines()
    assert title.strip() == "1 running requests, by age; q quits"
    assert head.split() == [COLUMNS[at].upper() for at in shown]
    assert {"1m05s", "streaming", "64,000"} <= {*line.split()}
    assert "tok/s" in missing or "1000" in line.split()
