"""The frame around the pages, by keyboard alone."""

from playwright.sync_api import Page, expect

from support.console_server import Console

FIRST_LINKS = ("Streamweir", "Overview", "Live", "Requests", "Playground", "Keys")


def test_all_of_it_is_reached_by_keyboard(page: Page, console: Console) -> None:
    console.sign_in(page)
    page.reload()
    pages = page.get_by_role("navigation", name="Pages", exact=True)
    expect(pages).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    for name in FIRST_LINKS:
        page.keyboard.press("Tab")
        expect(pages.get_by_role("link", name=name, exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Keys", level=1)).to_be_visible()
    expect(page.get_by_role("main")).to_be_focused()
    page.keyboard.press("/")
    search = page.get_by_label("Find a request by id")
    expect(search).to_be_focused()
    expect(search).to_have_value("")
    page.keyboard.type("req_/")
    expect(search).to_have_value("req_/")

    page.get_by_role("button", name="Create a key").press("Enter")
    dialog = page.get_by_role("dialog", name="New key")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.get_by_label("Theme").select_option("dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
