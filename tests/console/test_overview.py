"""The figures of the overview are those of what was asked, and each leads to the requests behind it."""

import re
from contextlib import suppress

import pytest
from openai import APIError
from playwright.sync_api import Page, ViewportSize, expect

from support.answers import error_body, openai_frames, token_steps
from support.console_server import Console
from support.page_elements import column, row, visit
from support.script import Seen, Step, whole


def fill(console: Console) -> None:
    """Three answers, two of them of one model; and one that failed."""

    def answered(seen: Seen) -> list[Step]:
        return whole(error_body("No."), 400) if seen.json["model"] == "bad" else token_steps(openai_frames())

    console.play(answered)
    for model in ("smart", "smart", "up/other", "up/bad"):
        with suppress(APIError):
            console.chat(model=model)


WIDTHS = (390, 700, 900, 1100, 1440, 1920, 2400)
ROWS_OF = """(selector) => {
  const [grid] = document.querySelectorAll(selector);
  const { left, right } = grid.getBoundingClientRect();
  const rows = new Map();
  for (const each of grid.children) {
    const box = each.getBoundingClientRect();
    const top = Math.round(box.top);
    rows.set(top, [...(rows.get(top) ?? []), box]);
  }
  return [...rows.values()].map((boxes) => ({
    hole: Math.round(Math.abs(boxes[0].left - left) + Math.abs(right - boxes.at(-1).right)),
    heights: new Set(boxes.map((box) => Math.round(box.height))).size,
  }));
}"""
"""What is free at the sides of each row of a grid, and how many heights its cards have."""


def settle(page: Page) -> None:
    """Until charts are drawn anew in another size."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_cards_and_charts_fill_their_rows_at_every_width(page: Page, console: Console) -> None:
    fill(console)
    console.sign_in(page)
    expect(page.get_by_role("region", name="Usage by model")).to_be_visible()
    for width in WIDTHS:
        size: ViewportSize = {"width": width, "height": 900}
        page.set_viewport_size(size)
        settle(page)
        for grid in (".tiles", ".charts"):
            for line in page.evaluate(ROWS_OF, grid):
                assert line == {"hole": 0, "heights": 1}, (width, grid)
    page.set_viewport_size({"width": 1440, "height": 900})
    settle(page)
    heights = page.locator(".chart-box").evaluate_all(
        "boxes => boxes.map(box => [box.clientHeight, box.querySelector('canvas').clientHeight])"
    )
    assert [box == drawn for box, drawn in heights] == [True] * 4, heights


@pytest.mark.parametrize("width", [390, 1440])
def test_a_tooltip_follows_the_pointer_with_all_series(page: Page, console: Console, width: int) -> None:
    fill(console)
    page.set_viewport_size({"width": width, "height": 900})
    console.sign_in(page)
    chart = page.get_by_role("figure", name=re.compile("^Price by model"))
    area = chart.locator(".u-over")
    tip = page.locator(".tip")
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box is not None
    expect(tip).to_have_count(0)
    lefts = []
    for share in (0.1, 0.3):
        page.mouse.move(box["x"] + share * box["width"], box["y"] + 20)
        expect(tip).to_have_count(1)
        settle(page)
        found = tip.bounding_box()
        assert found is not None
        lefts.append(found["x"])
        assert 0 <= found["x"] <= width - found["width"]
    assert lefts[0] < lefts[1] or width == 390  # there it is as wide as the chart allows
    for name in ("smart", "up/other", "up/bad", "All", "UTC"):
        expect(tip).to_contain_text(name)
    page.mouse.move(1, 1)
    expect(tip).to_have_count(0)
    chart.press("End")
    expect(tip).to_contain_text("$0.0000081")


def test_each_figure_leads_to_the_requests_behind_it(page: Page, console: Console) -> None:
    fill(console)
    console.sign_in(page)
    expect(page.get_by_role("link", name=re.compile("^Requests 4"))).to_be_visible()
    expect(page.get_by_role("link", name=re.compile("^Price "))).to_contain_text("$0.0000081")
    expect(column(page, "Usage by model", 1)).to_have_text(["2", "1", "1"])
    page.get_by_role("link", name=re.compile("^Error rate 25 %")).click()
    expect(column(page, "Requests", 4)).to_have_text(["up/bad"])
    page.go_back()
    row(page, "Usage by model", "smart").get_by_role("link", name="smart").click()
    expect(column(page, "Requests", 4)).to_have_text([re.compile("^smart")] * 2)
    visit(page, "Overview")
    page.get_by_role("group", name="Grouped by").get_by_role("button", name="Provider").click()
    expect(column(page, "Usage by provider", 0)).to_have_text(["up"])
    page.get_by_role("group", name="Period").get_by_role("button", name=re.compile("month", re.IGNORECASE)).click()
    expect(page).to_have_url(re.compile("period=month"))
    expect(column(page, "Usage by provider", 1)).to_have_text(["4"])
    page.reload()
    expect(column(page, "Usage by provider", 1)).to_have_text(["4"])


def test_the_share_of_cache_reads_is_shown_for_each_model_and_key(page: Page, console: Console) -> None:
    warm = [
        frame.replace(b'"total_tokens"', b'"prompt_tokens_details":{"cached_tokens":5},"total_tokens"')
        for frame in openai_frames()
    ]
    console.play(lambda seen: token_steps(warm if seen.json["model"] == "gpt-4o-mini" else openai_frames()))
    for model in ("smart", "up/other"):
        console.chat(model=model)
    console.sign_in(page)
    expect(row(page, "Usage by model", "smart").get_by_text("71 %")).to_be_visible()
    expect(
        row(page, "Usage by model", "up/other").get_by_title("0 of 7 prompt tokens were read from a cache.")
    ).to_have_text("0 %")
    page.get_by_role("group", name="Grouped by").get_by_role("button", name="Key").click()
    expect(
        row(page, "Usage by key", "test").get_by_title("5 of 14 prompt tokens were read from a cache.")
    ).to_have_text("36 %")
    expect(page.get_by_role("link", name=re.compile("^Cache reads 36 %"))).to_be_visible()


def test_the_first_visit_shows_the_period_of_the_requests_and_refused_ones_too(page: Page, console: Console) -> None:
    fill(console)
    assert console.call(console.gate.ask(model="nosuch")).status == 404
    console.sign_in(page)
    period = page.get_by_role("group", name="Period")
    expect(period.get_by_role("button", name="Hour")).to_have_attribute("aria-pressed", "true")
    expect(page).to_have_url(re.compile("/console$"))
    expect(page.get_by_role("figure", name=re.compile("^Requests"))).to_contain_text("Refused1Requests4Errors1")
    expect(row(page, "Top keys", "test").get_by_role("cell").nth(1)).to_have_text("4")
    period.get_by_role("button", name="Week").click()
    expect(page.get_by_role("figure", name=re.compile("^Requests"))).to_contain_text("Refused1Requests4Errors1")
    page.get_by_role("link", name=re.compile("^Refused 1 ")).click()
    expect(column(page, "Requests", 4)).to_have_text(["nosuch"])
    visit(page, "Overview")  # what was chosen is remembered
    expect(period.get_by_role("button", name="Week")).to_have_attribute("aria-pressed", "true")
