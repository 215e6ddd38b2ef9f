"""Every page on a phone: nothing is cut off at the side, and everything that can be pressed is reached by a thumb."""

from typing import Any

from playwright.sync_api import Page, ViewportSize, expect

from support.axe import obstacles
from support.console_server import Console
from support.console_traffic import KEPT, LONG_NAME, fill, open_page, streaming
from support.page_elements import row
from support.web import needs_web

pytestmark = needs_web

PHONE: ViewportSize = {"width": 390, "height": 844}
PAGES = (
    ("", "Overview"),
    ("/live", "Live"),
    ("/requests", "Requests"),
    ("/playground?model=smart", "Playground"),
    ("/keys", "Keys"),
    ("/workspaces?kind=all", "Workspaces and credit"),
    ("/models", "Models and providers"),
    ("/models?tab=providers", "Models and providers"),
    ("/models?tab=prices", "Models and providers"),
    ("/audit", "Audit"),
    ("/settings", "Settings"),
)
MEASURE = """() => {
  const found = [];
  const root = document.querySelector("dialog[open]") ?? document.body;
  const name = (each) => each.getAttribute("aria-label") || each.textContent.trim().slice(0, 40) || each.type;
  const isShown = (each) => each.checkVisibility({ visibilityProperty: true }) && !each.closest(".skip");
  if (document.documentElement.scrollWidth > innerWidth) found.push("the page scrolls sideways");
  for (const box of root.querySelectorAll(".cards")) {
    if (box.scrollWidth > box.clientWidth) found.push(`${name(box)} scrolls sideways`);
  }
  for (const each of root.querySelectorAll("a[href], button, input, select, textarea, summary")) {
    if (!isShown(each) || each.disabled) continue;
    each.scrollIntoView({ block: "center", inline: "nearest", behavior: "instant" });
    const say = (problem) => found.push(`${each.localName} ${name(each)} ${problem}`);
    // A link of two lines has two boxes; a box for a tick is pressed by its label, too.
    const label = ["checkbox", "radio"].includes(each.type) && each.closest("label");
    const { left, right, top, width, height } = (label || each).getClientRects()[0];
    const hit = document.elementFromPoint(left + width / 2, top + height / 2);
    if (!each.contains(hit) && !(label && label.contains(hit))) say(`is covered by ${hit?.outerHTML.slice(0, 80)}`);
    if (left < 0 || right > innerWidth + 0.5) say(`reaches from ${left} to ${right}`);
    const least = each.matches("a:not(.button, .stat, nav a)") ? 24 : 44;
    if (height < least - 0.5 || width < 24) say(`is ${width.toFixed(1)} x ${height.toFixed(1)}, not ${least} high`);
  }
  scrollTo(0, 0);
  return found;
}"""
"""What a thumb cannot reach. A link within text is as high as WCAG 2.5.8 asks, all else as WCAG 2.5.5 does."""


def check(page: Page) -> None:
    found: Any = page.evaluate(MEASURE)
    assert found == [], page.url


def test_every_action_of_every_page_is_reached(page: Page, console: Console) -> None:
    request_id = fill(console)
    page.set_viewport_size(PHONE)
    console.sign_in(page)
    for path, heading in PAGES:
        open_page(page, path, heading)
        check(page)
    open_page(page, f"/requests/{request_id}", KEPT)
    page.get_by_role("button", name="Show content").click()
    check(page)
    with streaming(console):
        open_page(page, "/live", "Live")
        expect(page.get_by_role("button", name="Stop").first).to_be_visible()
        check(page)
        assert obstacles(page) == []


def test_dialogs_fit(page: Page, console: Console) -> None:
    fill(console)
    page.set_viewport_size(PHONE)
    console.sign_in(page)
    open_page(page, "/keys", "Keys")
    page.get_by_role("button", name="Create a key").click()
    check(page)
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    page.get_by_role("link", name=LONG_NAME, exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Rotate")).to_be_visible()
    check(page)


def test_a_row_is_a_card_that_names_its_columns(page: Page, console: Console) -> None:
    fill(console)
    page.set_viewport_size(PHONE)
    console.sign_in(page)
    open_page(page, "/keys", "Keys")
    card = row(page, "Keys", LONG_NAME)
    boxes = [card.get_by_role("cell").nth(place).bounding_box() for place in range(3)]
    tops = [box["y"] for box in boxes if box is not None]
    assert len(tops) == 3
    assert tops[0] < tops[1], "the first cell is the heading of the card"
    shown = card.get_by_role("cell").evaluate_all(
        "cells => cells.map(each => getComputedStyle(each, '::before').content)"
    )
    assert '"Models"' in shown
    assert shown[0] in ("none", '"Name"')
    expect(page.get_by_role("table").get_by_role("columnheader", name="Models")).to_have_count(1)


def test_the_header_is_one_row_with_a_menu(page: Page, console: Console) -> None:
    page.set_viewport_size(PHONE)
    console.sign_in(page)
    pages = page.get_by_role("navigation", name="Pages", exact=True)
    box = pages.bounding_box()
    assert box is not None
    assert box["height"] <= 64
    menu = pages.get_by_role("button", name="Menu")
    expect(pages.get_by_role("link", name="Keys", exact=True)).to_have_count(0)
    menu.click()
    expect(menu).to_have_attribute("aria-expanded", "true")
    check(page)
    assert obstacles(page) == []
    page.keyboard.press("Escape")
    expect(menu).to_have_attribute("aria-expanded", "false")
    menu.click()
    pages.get_by_role("link", name="Keys", exact=True).click()
    expect(page.get_by_role("heading", name="Keys", level=1)).to_be_visible()
    expect(menu).to_have_attribute("aria-expanded", "false")
    menu.click()
    pages.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Admin secret or admin key")).to_be_visible()
