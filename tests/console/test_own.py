"""What a member of a workspace does with the console: makes a key, uses it, sees what it has asked, and revokes it.

It sees nothing of others, who use the same gateway and the same workspace.
"""

from playwright.sync_api import Page, expect

from console.test_accessibility import LAPTOP
from console.test_accessibility import check as check_accessible
from console.test_keys import make_key
from console.test_phone import PHONE
from console.test_phone import check as check_reach
from support.answers import TEXTS
from support.console_server import Console
from support.console_traffic import LONG_NAME, fill, open_page
from support.page_elements import figure, panel, row, visit
from support.page_monitor import PageWatch
from support.web import needs_web

pytestmark = needs_web

OWN_PAGES = (("", "Overview"), ("/requests", "Requests"), ("/keys", "Keys"), ("/keys?state=all", "Keys"))


def allow(console: Console, **rules: object) -> None:
    console.ask("PATCH", "/api/workspaces/default/member-keys", rules)


def test_a_member_from_its_first_key_to_the_last(page: Page, console: Console) -> None:
    fill(console)
    allow(console, max_keys=1, budget_usd="5", budget_period="month", models=["smart"])
    console.join(page, "Eve", "member", "default")
    page.goto("/console")
    menu = page.get_by_role("navigation", name="Pages", exact=True)
    expect(menu.get_by_role("listitem")).to_have_text(["Overview", "Requests", "Keys", "Account"])
    expect(page.get_by_role("heading", name="No requests yet")).to_be_visible()
    expect(figure(page.locator("main"), "Left for budgets of further keys")).to_have_text("$5.00 of $5.00 per month")
    page.get_by_role("main").get_by_role("link", name="Create a key").click()
    expect(page.get_by_text("No keys yet")).to_be_visible()
    dialog = page.get_by_role("dialog", name="New key")
    page.get_by_role("button", name="Create a key").click()
    expect(dialog).to_be_visible()
    for label in ("Scopes", "Dialect", "Requests per minute", "Budget period", "Workspace"):
        expect(dialog.get_by_text(label, exact=True)).to_have_count(0)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    secret = make_key(page, "laptop", **{"Budget in dollars": "2"})
    expect(row(page, "Keys", "laptop")).to_contain_text("of $2.00 this month")
    assert console.chat(secret) == "".join(TEXTS)

    visit(page, "Overview")
    expect(page.get_by_role("link", name="Requests 1")).to_be_visible()
    expect(figure(page.locator("main"), "Keys")).to_have_text("1 of 1")
    visit(page, "Requests")
    expect(page.get_by_role("region", name="Requests").locator("tbody").get_by_role("row")).to_have_count(1)
    expect(page.get_by_role("columnheader", name="Margin")).to_have_count(0)
    row(page, "Requests", "laptop").get_by_role("link").first.click()
    expect(page.get_by_role("heading", name="Completed · smart · laptop")).to_be_visible()
    expect(panel(page, "Content")).to_contain_text("Not stored.")
    expect(page.get_by_role("button", name="Older", exact=True)).to_be_disabled()
    check_nothing_of_others(page)

    visit(page, "Keys")
    row(page, "Keys", "laptop").get_by_role("button", name="Revoke laptop").click()
    page.get_by_role("dialog", name="Revoke laptop?").get_by_role("button", name="Revoke permanently").click()
    expect(page.get_by_text("No keys yet")).to_be_visible()
    page.get_by_role("button", name="Revoked", exact=True).click()
    expect(row(page, "Keys", "laptop")).to_contain_text("Revoked")


def check_nothing_of_others(page: Page) -> None:
    visit(page, "Requests")
    expect(page.get_by_role("region", name="Requests").locator("tbody").get_by_role("row")).to_have_count(1)
    assert LONG_NAME not in page.content()


def test_an_id_of_others_is_not_found(page: Page, console: Console, watch: PageWatch) -> None:
    others = fill(console)
    console.join(page, "Eve", "member", "default")
    watch.expect("status of 404 .*/api/me/requests/")
    watch.expect("status of 404 .*/api/me/keys/")
    page.goto(f"/console/requests/{others}")
    expect(page.get_by_text("Request not found.")).to_be_visible()
    id = console.ask("GET", "/api/keys")["data"][0]["id"]
    page.goto(f"/console/keys?show={id}")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("There is no key")


def test_what_the_workspace_does_not_allow_is_said_at_the_field(page: Page, console: Console, watch: PageWatch) -> None:
    watch.expect("status of 409 .*/api/me/keys")
    watch.expect("status of 400 .*/api/me/keys")
    allow(console, max_keys=1, budget_usd="5", models=["smart"])
    console.join(page, "Eve", "member", "default")
    page.goto("/console/keys?new=1")
    dialog = page.get_by_role("dialog", name="New key")
    expect(dialog.get_by_text("Empty: all that is left, $5.00 of $5.00 in total.")).to_be_visible()
    dialog.get_by_label("Name", exact=True).fill("laptop")
    dialog.get_by_label("Budget in dollars", exact=True).fill("6")
    dialog.get_by_role("button", name="Create key").click()
    expect(dialog.get_by_label("Budget in dollars", exact=True)).to_have_attribute("aria-invalid", "true")
    dialog.get_by_label("Budget in dollars", exact=True).fill("")
    dialog.get_by_label("Models", exact=True).fill("up/*")
    dialog.get_by_role("button", name="Create key").click()
    expect(dialog.get_by_text("may not use")).to_be_visible()


def member_with_traffic(page: Page, console: Console) -> str:
    """The id of one of its requests, which others have beside it."""
    fill(console)
    console.join(page, "Eve", "member", "default")
    (eve,) = (each["id"] for each in console.ask("GET", "/api/people")["data"] if each["name"] == "Eve")
    for key in console.ask("GET", "/api/keys")["data"]:
        if key["name"] == LONG_NAME:
            console.ask("PATCH", f"/api/keys/{key['id']}", {"person": eve})
    made = console.ask("POST", "/api/keys", {"name": "mine", "person": eve, "budget_usd": "1", "budget_period": "day"})
    console.chat(made["secret"])
    (request,) = console.ask("GET", f"/api/requests?key={made['id']}")["data"]
    return str(request["request_id"])


def test_pages_of_a_member_are_in_nobodys_way(page: Page, console: Console) -> None:
    request_id = member_with_traffic(page, console)
    page.set_viewport_size(LAPTOP)
    for path, heading in OWN_PAGES:
        open_page(page, path, heading)
        check_accessible(page)
    open_page(page, f"/requests/{request_id}", "Completed · smart · mine")
    check_accessible(page)
    open_page(page, "/keys?new=1", "Keys")
    expect(page.get_by_role("dialog", name="New key")).to_be_visible()
    check_accessible(page)


def test_pages_of_a_member_on_a_phone(page: Page, console: Console) -> None:
    request_id = member_with_traffic(page, console)
    page.set_viewport_size(PHONE)
    for path, heading in OWN_PAGES:
        open_page(page, path, heading)
        check_reach(page)
    open_page(page, f"/requests/{request_id}", "Completed · smart · mine")
    check_reach(page)
    open_page(page, "/keys?new=1", "Keys")
    expect(page.get_by_role("dialog", name="New key")).to_be_visible()
    check_reach(page)
