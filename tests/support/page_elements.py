"""Finds elements on a page of the console by what a reader sees or a screen reader reads."""

from playwright.sync_api import Locator, Page, expect


def visit(page: Page, name: str) -> None:
    """Goes to one of the pages by its link."""
    page.get_by_role("navigation", name="Pages", exact=True).get_by_role("link", name=name, exact=True).click()


def log_in(page: Page, name: str, password: str) -> None:
    page.get_by_role("button", name="Name and password").click()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Password", exact=True).fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()


def sign_out(page: Page) -> None:
    """The session has ended when it returns: whoever goes elsewhere at once would leave the request behind."""
    button = page.get_by_role("button", name="Sign out", exact=True)
    button.click()
    expect(button).to_have_count(0)


def panel(page: Page, title: str) -> Locator:
    return page.locator("section").filter(has=page.get_by_role("heading", name=title, exact=True, level=2))


def figure(within: Locator, name: str) -> Locator:
    """The value beside a name."""
    named = within.page.get_by_role("term").get_by_text(name, exact=True)
    return within.locator("dl > div").filter(has=named).get_by_role("definition")


def row(page: Page, table: str, text: str) -> Locator:
    """Those of a table in which the text is."""
    return page.get_by_role("region", name=table, exact=True).get_by_role("row").filter(has_text=text)


def column(page: Page, table: str, place: int) -> Locator:
    """Its cells, from the top down, without its head."""
    body = page.get_by_role("region", name=table, exact=True).locator("tbody")
    return body.locator(f"tr > :nth-child({place + 1})")
