"""The request log: each filter restricts it, pages follow each other, and matches can be exported."""

import csv
import json
import re
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from streamweir.store.db.clock import now_ms
from support.console_server import Console
from support.console_session import storage_of
from support.page_elements import column
from support.page_monitor import PageWatch
from support.request_rows import insert_rows, request_row

MINUTE_MS = 60_000
DAY_MS = 1440 * MINUTE_MS
MILLI = 1_000_000
"""Of a dollar."""
PAGE_ROWS = 50
FOLLOW_MS = 2000
"""How often the page asks, without a filter."""

ODD: dict[str, dict[str, Any]] = {
    "quick": {"age_ms": MINUTE_MS, "cost": MILLI, "price": MILLI},
    "dear": {
        "age_ms": 120 * MINUTE_MS,
        "cost": 2000 * MILLI,
        "price": 3000 * MILLI,
        "end_user": "ada",
        "session": "s-1",
        "tags": '["team=legal"]',
        "key_id": "key_2",
        "key_name": "batch",
        "model": "sonnet",
        "target": "anthropic/claude",
        "dialect": "opentoken",
    },
    "broken": {"age_ms": 3 * DAY_MS, "status": 502, "verdict": "upstream_error", "error": "upstream_unreachable"},
    "whole": {"age_ms": 10 * DAY_MS, "stream": False, "workspace_id": "default", "dialect": "aivene"},
}
NAMES = list(ODD)
"""By number, and from the newest on."""
FEW, MANY = 3, 2 * PAGE_ROWS + 20

CHOSEN = frozenset({"Time", "Result", "API", "Status", "Streamed"})
"""The others are typed."""
NARROWED = [
    ("Time", "Last hour", ["quick"]),
    ("Time", "Last day", ["quick", "dear"]),
    ("Time", "Last week", ["quick", "dear", "broken"]),
    ("Model", "sonnet", ["dear"]),
    ("Result", "Failed", ["broken"]),
    ("Key", "key_2", ["dear"]),
    ("Result", "upstream error", ["broken"]),
    ("Provider", "anthropic", ["dear"]),
    ("Workspace", "default", ["whole"]),
    ("API", "Chat completions (opentoken)", ["dear"]),
    ("Status", "5xx", ["broken"]),
    ("Target", "anthropic/claude", ["dear"]),
    ("Streamed", "No", ["whole"]),
    ("Error code", "upstream_unreachable", ["broken"]),
    ("Price from, $", "0.5", ["dear"]),
    ("Price to, $", "0.5", ["quick"]),
    ("End user", "ada", ["dear"]),
    ("Status", "5xx", ["broken"]),
    ("Session", "s-1", ["dear"]),
    ("Streamed", "No", ["whole"]),
    ("Tag", "team=legal", ["dear"]),
    ("Price to, $", "0.6", ["quick"]),
    ("Cost from, $", "0.5", ["dear"]),
    ("Cost to, $", "0.5", ["quick"]),
]
"""No two that follow each other find the same: what is still to be seen of one is not taken for the next."""


def fill(console: Console, alike: int) -> int:
    """The odd ones, and so many that are all alike, older than those. Gives the moment."""
    now = now_ms()
    rows = [
        request_row(number, at_ms=now - age_ms, **more)
        for number, (age_ms, more) in enumerate((each.pop("age_ms"), each) for each in map(dict, ODD.values()))
    ]
    rows += [request_row(100 + number, at_ms=now - 20 * DAY_MS - number, model="many") for number in range(alike)]
    console.call(storage_of(console.gate).store.write(lambda conn: insert_rows(conn, rows)))
    return now


def local_time(at_ms: int) -> str:
    """As a browser in the same zone has it in a box."""
    return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%dT%H:%M")


def expect_rows(page: Page, numbers: list[int]) -> None:
    links = page.get_by_role("region", name="Requests", exact=True).locator("tbody").get_by_role("link", name="…")
    expect(links).to_have_text([f"…{number:08x}" for number in numbers])


def test_each_filter_narrows_as_it_says(page: Page, console: Console) -> None:
    now = fill(console, FEW)
    console.sign_in(page, path="/requests")
    bar = page.get_by_role("search", name="Filters")
    bar.get_by_role("button", name="More filters").click()
    force = page.get_by_role("list", name="Active filters")
    everything = [*range(len(NAMES)), *range(100, 100 + FEW)]
    since = ("From", local_time(now - 4 * DAY_MS), ["quick", "dear", "broken"])
    for label, value, names in [*NARROWED, since]:
        box = bar.get_by_label(label, exact=True)
        if label in CHOSEN:
            box.select_option(label=value)
        else:
            box.fill(value)
            box.press("Enter")
        expect_rows(page, [NAMES.index(name) for name in names])
        force.get_by_role("button").click()
    expect_rows(page, everything)
    bar.get_by_label("Before").fill(local_time(now - 4 * DAY_MS))
    bar.get_by_label("Before").press("Enter")
    expect_rows(page, [*range(NAMES.index("whole"), len(NAMES)), *range(100, 100 + FEW)])
    page.go_back()
    expect_rows(page, everything)
    bar.get_by_label("Id", exact=True).fill(f'"chatcmpl-{NAMES.index("dear"):029}",')
    bar.get_by_label("Id", exact=True).press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Completed · sonnet · batch")
    expect(page.get_by_text(re.compile(f"^req_.*{NAMES.index('dear'):08x}$"))).to_be_visible()
    page.go_back()
    expect_rows(page, everything)

    bar.get_by_label("Model", exact=True).fill("gpt-4o")
    bar.get_by_label("Model", exact=True).press("Enter")
    bar.get_by_label("Result", exact=True).select_option(label="Not failed")
    expect_rows(page, [NAMES.index("quick"), NAMES.index("whole")])
    page.reload()
    expect_rows(page, [NAMES.index("quick"), NAMES.index("whole")])
    expect(force.get_by_role("listitem")).to_have_text(
        [re.compile("model: gpt-4o"), re.compile("not failed"), "Clear all"]
    )
    bar.get_by_label("Model", exact=True).fill("nobody's")
    bar.get_by_label("Model", exact=True).press("Enter")
    expect(page.get_by_text("No request matches.")).to_be_visible()
    page.get_by_role("link", name="Show all requests").click()
    expect_rows(page, everything)


def test_a_part_is_enough_and_what_leaves_nothing_is_named(page: Page, console: Console) -> None:
    fill(console, FEW)
    key = console.ask("POST", "/api/keys", {"name": "nightly report"})
    console.chat(key["secret"])
    console.sign_in(page, path="/requests")
    bar = page.get_by_role("search", name="Filters")
    force = page.get_by_role("list", name="Active filters")
    links = page.get_by_role("region", name="Requests", exact=True).locator("tbody").get_by_role("link", name="…")
    for label, typed, said in (("Model", "ONNE", "model contains ONNE"), ("Key", "REPORT", "key contains REPORT")):
        bar.get_by_label(label, exact=True).fill(typed)
        bar.get_by_label(label, exact=True).press("Enter")
        expect(force.get_by_role("button")).to_contain_text(said)
        expect(links).to_have_count(1)
        force.get_by_role("button").click()
        expect(links).to_have_count(len(NAMES) + FEW + 1)
    bar.get_by_label("Model", exact=True).fill("onne")
    bar.get_by_label("Model", exact=True).press("Enter")
    bar.get_by_label("Result", exact=True).select_option(label="Failed")
    nothing = page.locator(".empty")
    expect(nothing.get_by_text("No request matches.")).to_be_visible()
    expect(nothing.get_by_role("button")).to_have_text([re.compile("^model contains onne"), re.compile("^failed")])
    nothing.get_by_role("button", name="failed").click()
    expect_rows(page, [NAMES.index("dear")])
    expect(page).to_have_url(re.compile(r"\?model=\*onne\*$"))

    force.get_by_role("button").click()
    bar.get_by_label("Id", exact=True).fill(f"…{NAMES.index('broken'):08x}")
    bar.get_by_label("Id", exact=True).press("Enter")
    expect(page).to_have_url(re.compile(rf"/requests/req_\w+{NAMES.index('broken'):08x}"))


def test_a_result_that_does_not_exist_is_named(page: Page, console: Console, watch: PageWatch) -> None:
    watch.expect("status of 400 .*verdict=foo")
    console.sign_in(page, path="/requests?verdict=foo")
    expect(page.get_by_role("alert")).to_contain_text("There is no verdict 'foo': it is one of completed, length")
    page.get_by_role("list", name="Active filters").get_by_role("button").click()
    expect(page.get_by_text("No requests yet.")).to_be_visible()


def test_new_requests_are_shown_as_they_end_until_it_is_paused(page: Page, console: Console) -> None:
    console.chat()
    page.clock.install()
    console.sign_in(page, path="/requests")
    links = page.get_by_role("region", name="Requests", exact=True).locator("tbody").get_by_role("link", name="…")
    expect(links).to_have_count(1)
    console.chat()
    page.clock.run_for(FOLLOW_MS)
    expect(links).to_have_count(2)
    page.get_by_role("button", name="Pause").click()
    console.chat()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.run_for(30 * FOLLOW_MS)
    assert asked == []
    expect(links).to_have_count(2)
    page.get_by_role("button", name="Follow", exact=True).click()
    page.clock.run_for(FOLLOW_MS)
    expect(links).to_have_count(3)


def test_columns_are_chosen_and_remembered(page: Page, console: Console) -> None:
    fill(console, FEW)
    console.sign_in(page, path="/requests")
    heads = page.get_by_role("region", name="Requests", exact=True).get_by_role("columnheader")
    usual: list[str | re.Pattern[str]] = [
        re.compile("^Time UTC"),
        "Request",
        "Result",
        "Status",
        "Model",
        "Key",
        "API",
        "In",
        "Out",
    ]
    expect(heads).to_have_text([*usual, "Price", "Margin", "First token", "Duration"])
    assert column(page, "Requests", 3).all_text_contents()[:3] == ["200", "200", "502"]
    page.get_by_role("button", name="Columns").click()
    dialog = page.get_by_role("dialog", name="Columns")
    for name in ("Price", "Margin", "First token", "Duration", "Session"):
        dialog.get_by_label(name, exact=True).click()
    dialog.get_by_role("button", name="Close").click()
    expect(heads).to_have_text([*usual[:7], "Session", *usual[7:]])
    page.reload()
    expect(heads).to_have_text([*usual[:7], "Session", *usual[7:]])
    page.get_by_role("button", name="Columns").click()
    dialog.get_by_role("button", name="Usual columns").click()
    expect(heads).to_have_count(13)


def test_pages_follow_each_other_and_what_matches_can_be_taken(page: Page, console: Console, tmp_path: Path) -> None:
    fill(console, MANY)
    console.sign_in(page, path="/requests?model=many")
    older, newer = (page.get_by_role("button", name=name, exact=True) for name in ("Older", "Newer"))
    pages = [list(range(100 + at, 100 + min(at + PAGE_ROWS, MANY))) for at in range(0, MANY, PAGE_ROWS)]
    expect_rows(page, pages[0])
    expect(newer).to_be_disabled()
    for numbers in pages[1:]:
        older.click()
        expect_rows(page, numbers)
    expect(older).to_be_disabled()
    page.reload()
    expect_rows(page, pages[2])
    newer.click()
    expect_rows(page, pages[1])
    page.go_back()
    expect_rows(page, pages[2])
    page.get_by_role("button", name="Newest").click()
    expect_rows(page, pages[0])

    taken = {}
    for name in ("CSV", "JSON lines"):
        with page.expect_download() as download:
            page.get_by_role("link", name=name).click()
        download.value.save_as(tmp_path / name)
        taken[name] = (tmp_path / name).read_text()
    by_csv = list(csv.DictReader(StringIO(taken["CSV"])))
    by_json = [json.loads(line) for line in taken["JSON lines"].splitlines()]
    numbers = [int(each["request_id"][-8:], 16) for each in by_csv]
    assert numbers == [number for each in pages for number in each]
    assert [each["request_id"] for each in by_json] == [each["request_id"] for each in by_csv]
    assert {each["model"] for each in by_csv} == {each["model"] for each in by_json} == {"many"}


def test_the_requests_beside_one_are_those_of_the_list_it_was_opened_from(page: Page, console: Console) -> None:
    fill(console, FEW)
    console.sign_in(page, path="/requests?key=key_1&failed=false")
    among = [NAMES.index("quick"), NAMES.index("whole"), 100, 101, 102]
    expect_rows(page, among)
    page.get_by_role("link", name=f"…{among[1]:08x}").click()
    beside = page.get_by_role("navigation", name="Requests beside this one")

    def expect_request(place: int) -> None:
        expect(page.get_by_text(re.compile(f"^req_.*{among[place]:08x}$"))).to_be_visible()

    expect_request(1)
    beside.get_by_role("link", name="Older").click()
    expect_request(2)
    expect(beside.get_by_role("link", name="Older")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect_request(3)
    for place in (2, 1, 0):
        expect(beside.get_by_role("link", name="Newer")).to_be_visible()
        page.keyboard.press("ArrowLeft")
        expect_request(place)
    expect(beside.get_by_role("button", name="Newer")).to_be_disabled()
    page.get_by_label("Find a request by id").press("ArrowRight")
    expect_request(0)
    beside.get_by_role("link", name="All matches").click()
    expect_rows(page, among)


def test_a_key_is_found_by_its_name_whether_its_requests_were_seen_or_not(page: Page, console: Console) -> None:
    fill(console, FEW)
    key = console.ask("POST", "/api/keys", {"name": "idle"})
    console.sign_in(page, path="/requests")
    box = page.get_by_role("search", name="Filters").get_by_label("Key", exact=True)
    box.focus()
    expect(page.locator(f"datalist option[value='{key['id']}']")).to_have_text("idle")
    box.fill("idle")
    box.press("Enter")
    expect(page).to_have_url(re.compile(f"key={key['id']}$"))
    expect(page.get_by_role("list", name="Active filters")).to_contain_text("key: idle")
    expect(page.get_by_text("No request matches.")).to_be_visible()
