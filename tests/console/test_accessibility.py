"""Nothing on the pages is in anybody's way: not with a reader, not without a mouse, not in the dark, not on a phone.

What axe calls serious fails, on every page, in every dialog, with data and without; in both colours. And no page is
wider than a phone.
"""

from playwright.sync_api import Page, ViewportSize, expect

from support.answers import error_body
from support.axe import COLOURS, obstacles
from support.console_server import Console
from support.console_traffic import KEPT, LONG_NAME, fill, open_page, streaming
from support.page_elements import panel
from support.page_monitor import PageWatch
from support.script import whole
from support.web import needs_web

pytestmark = needs_web

LAPTOP: ViewportSize = {"width": 1366, "height": 768}
PHONE: ViewportSize = {"width": 390, "height": 844}


def check(page: Page) -> None:
    """As it stands, in both colours and widths."""
    found = obstacles(page)
    page.emulate_media(color_scheme="dark")
    found += [f"dark: {each}" for each in obstacles(page, COLOURS)]
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(PHONE)
    # Charts are drawn anew when they have been told of it.
    wide = page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame("
        "() => done(document.documentElement.scrollWidth))))"
    )
    page.set_viewport_size(LAPTOP)
    assert (found, wide) == ([], PHONE["width"]), page.url


def test_before_there_is_anything(page: Page, console: Console) -> None:
    page.set_viewport_size(LAPTOP)
    page.goto("/console")
    expect(page.get_by_label("Admin secret or admin key")).to_be_visible()
    check(page)
    console.sign_in(page)
    for path, heading in (
        ("", "Overview"),
        ("/live", "Live"),
        ("/requests", "Requests"),
        ("/requests?model=none", "Requests"),
        ("/playground", "Playground"),
        ("/keys?state=revoked", "Keys"),
        ("/workspaces", "Workspaces and credit"),
        ("/nowhere", "Page not found"),
    ):
        open_page(page, path, heading)
        check(page)


def test_pages_with_something_on_them(page: Page, console: Console) -> None:
    fill(console)
    page.set_viewport_size(LAPTOP)
    console.sign_in(page)
    for path, heading in (
        ("?period=hour&by=key", "Overview"),
        ("/requests", "Requests"),
        ("/requests?model=smart&verdict=completed&min_cost_usd=0.000001", "Requests"),
        ("/workspaces", "Workspaces and credit"),
        ("/models", "Models and providers"),
        ("/models?tab=providers", "Models and providers"),
        ("/models?tab=prices", "Models and providers"),
        ("/audit", "Audit"),
        ("/settings", "Settings"),
    ):
        open_page(page, path, heading)
        check(page)


def test_one_request_while_it_runs_and_afterwards(page: Page, console: Console) -> None:
    request_id = fill(console)
    page.set_viewport_size(LAPTOP)
    console.sign_in(page)
    open_page(page, f"/requests/{request_id}", KEPT)
    page.get_by_role("button", name="Show content").click()
    for view in ("Conversation", "Frames", "Replay"):
        panel(page, "Content").get_by_role("button", name=view, exact=True).click()
        check(page)
    with streaming(console):
        open_page(page, "/live", "Live")
        expect(page.get_by_role("region", name="Running requests")).to_be_visible()
        check(page)
        page.get_by_role("region", name="Running requests").get_by_role("link").first.click()
        expect(page.get_by_role("button", name="Stop")).to_be_visible()
        check(page)


def test_the_playground_with_answers(page: Page, console: Console, watch: PageWatch) -> None:
    page.set_viewport_size(LAPTOP)
    console.sign_in(page, path="/playground?key=file:test&model=smart&compare=1")
    page.get_by_label("Model 2", exact=True).fill("up/other")
    page.get_by_label("Prompt", exact=True).fill("What is a weir?")
    page.get_by_role("button", name="Send", exact=True).click()
    for name in ("smart", "up/other"):
        expect(panel(page, name).get_by_role("status")).to_contain_text("Done")
    for fold in page.locator("form details").all():
        fold.locator("summary").click()
    check(page)
    watch.expect("status of 502 .*/api/playground/chat")
    console.play(whole(error_body("No."), 500))
    open_page(page, "/playground?key=file:test&model=smart", "Playground")
    page.get_by_label("Prompt", exact=True).fill("What is a weir?")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(panel(page, "Answer").get_by_role("alert")).to_be_visible()
    check(page)


def test_dialogs(page: Page, console: Console) -> None:
    fill(console)
    page.set_viewport_size(LAPTOP)
    console.sign_in(page)
    open_page(page, "/keys", "Keys")
    page.get_by_role("button", name="Create a key").click()
    page.get_by_role("button", name="Create key").click()  # and it has no name
    check(page)
    page.get_by_label("Name", exact=True).fill("new")
    page.get_by_role("button", name="Create key").click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Copy").first).to_be_visible()
    check(page)
    open_page(page, "/keys", "Keys")
    page.get_by_role("link", name=LONG_NAME, exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Rotate")).to_be_visible()
    check(page)
    for deed in ("Change", "Rotate", "Revoke", "Erase content"):
        dialog.get_by_role("button", name=deed, exact=True).click()
        expect(dialog.get_by_role("heading", name=LONG_NAME, exact=True)).to_have_count(0)
        check(page)
        page.keyboard.press("Escape")
        expect(dialog.get_by_role("heading", name=LONG_NAME, exact=True)).to_be_visible()
    open_page(page, "/workspaces", "Workspaces and credit")
    for deed in ("Create a workspace", f"Top up {LONG_NAME}", f"Change {LONG_NAME}"):
        page.get_by_role("button", name=deed, exact=True).click()
        check(page)
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
