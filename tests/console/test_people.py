"""People in a real browser: invited, signed in, changed, and gone; and what each of them can do for itself."""

import re

from playwright.sync_api import Browser, Locator, Page, expect
from sqlalchemy import update

from console.test_accessibility import LAPTOP
from console.test_accessibility import check as check_accessible
from console.test_phone import PHONE
from console.test_phone import check as check_reach
from streamweir.store.db.tables import people
from support.axe import obstacles
from support.console_server import PASSWORD, Console
from support.console_session import storage_of
from support.console_traffic import open_page
from support.page_elements import column, figure, log_in, panel, row, sign_out, visit
from support.page_monitor import PageWatch
from support.web import needs_web

pytestmark = needs_web

NEW = "another way round"


def choose(page: Page, password: str, again: str | None = None) -> None:
    page.get_by_label("New password", exact=True).fill(password)
    page.get_by_label("New password again", exact=True).fill(password if again is None else again)
    page.get_by_role("button", name=re.compile("^(Choose and sign in|Change password)$")).click()


def take_link(page: Page, name: str) -> str:
    """It is shown this once."""
    dialog = page.get_by_role("dialog", name=f"The invitation of {name}")
    link = dialog.get_by_label("Link", exact=True).input_value()
    dialog.get_by_role("button", name="I have it").click()
    expect(dialog).to_have_count(0)
    token = link.partition("#")[2]
    assert token.startswith("sw-invite-")
    assert token not in page.content()
    return link


def open_person(page: Page, name: str) -> Locator:
    page.get_by_role("region", name="People").get_by_role("link", name=name, exact=True).click()
    dialog = page.get_by_role("dialog", name=name, exact=True)
    expect(dialog.get_by_role("heading", name="Open sessions")).to_be_visible()
    return dialog


def press(page: Page, name: str) -> None:
    page.get_by_role("dialog").last.get_by_role("button", name=name, exact=True).click()


def test_from_the_invitation_to_the_end_of_a_session(
    page: Page, console: Console, browser: Browser, watch: PageWatch
) -> None:
    watch.expect(r"status of 40[01] .*/api/me/password$")
    console.sign_in(page, path="/people")
    expect(page.get_by_text("Nobody is invited yet")).to_be_visible()
    page.get_by_role("button", name="Invite somebody").click()
    page.get_by_label("Name", exact=True).fill("Ada Lovelace")
    page.get_by_label("Role", exact=True).select_option("Operator")
    press(page, "Invite")
    link = take_link(page, "Ada Lovelace")
    expect(row(page, "People", "Ada Lovelace")).to_contain_text("Operator")
    expect(row(page, "People", "Ada Lovelace")).to_contain_text("Invited")
    sign_out(page)

    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(link)
    expect(page.get_by_text("Welcome, Ada Lovelace. You are invited with the role Operator.")).to_be_visible()
    assert obstacles(page) == []
    choose(page, PASSWORD, NEW)
    expect(page.get_by_text("The two are not the same.")).to_be_visible()
    choose(page, PASSWORD)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    assert page.url == f"{console.base_url}/console"
    assert not [url for url in asked if "sw-invite" in url.partition("#")[0]], "the token is in no address"

    sign_out(page)
    log_in(page, "Ada Lovelace", PASSWORD)
    visit(page, "Account")
    expect(figure(panel(page, "You"), "Role")).to_have_text("Operator")
    with browser.new_context(base_url=console.base_url, locale="en-GB") as elsewhere:
        other = elsewhere.new_page()
        other.goto("/console/live")
        log_in(other, "Ada Lovelace", PASSWORD)
        expect(other.get_by_text("No running requests")).to_be_visible()
        page.reload()
        expect(column(page, "Sessions", 0)).to_have_count(2)
        page.get_by_role("button", name="End the session from").click()
        expect(column(page, "Sessions", 0)).to_have_count(1)
        expect(other.get_by_text("The session has ended.")).to_be_visible()

    page.get_by_label("Current password").fill(NEW)
    choose(page, NEW)
    expect(page.get_by_role("alert")).to_have_text("The name or the password is not valid.")
    page.get_by_label("Current password").fill(PASSWORD)
    choose(page, "short")
    expect(page.get_by_text("A password has at least 12 characters.")).to_be_visible()
    choose(page, NEW)
    expect(page.get_by_text("The password is changed.")).to_be_visible()
    visit(page, "Keys")
    expect(page.get_by_role("heading", name="Keys", level=1)).to_be_visible()
    visit(page, "Account")
    page.get_by_role("button", name="Sign out everywhere").click()
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    assert page.context.cookies() == []
    log_in(page, "Ada Lovelace", NEW)
    expect(page.get_by_role("heading", name="Account", level=1)).to_be_visible()


def test_an_invitation_that_is_not_valid_says_what_to_do(page: Page, console: Console, watch: PageWatch) -> None:
    watch.expect(r"status of 401 .*/api/invitation/show$")
    watch.expect(r"status of 429 .*/api/invitation/show$")
    watch.expect(r"status of 40[01] .*/api/invitation$")
    token = console.invite("Ada", "viewer")
    console.join(page, "Bob", "viewer")
    page.goto(f"/console/invitation#{token}")
    expect(page.get_by_text("You are signed in here as Bob. That session ends.")).to_be_visible()
    choose(page, "Ada 12345678")
    expect(page.get_by_text("A password is not made of the name.")).to_be_visible()
    choose(page, PASSWORD)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    (used, other) = (f"#{token}", f"#{console.invite('Eve', 'viewer')}")
    page.goto(f"/console/invitation{used}")
    expect(page.get_by_role("alert")).to_have_text("The invitation is not valid: it was used, or has expired.")
    expect(page.get_by_text("ask whoever has invited you for a new link")).to_be_visible()
    assert obstacles(page) == []
    page.goto(f"/console/invitation{other}")  # in the same tab: nothing but the fragment changes
    expect(page.get_by_text("Welcome, Eve.")).to_be_visible()
    age(console, "Eve")
    choose(page, PASSWORD)
    expect(page.get_by_role("alert")).to_contain_text("it was used, or has expired")
    page.goto("/console/invitation")
    expect(page.get_by_text("This link is not complete.")).to_be_visible()
    for guess in range(5):
        with page.expect_response("**/api/invitation/show"):  # the page loads anew for another fragment
            page.goto(f"/console/invitation#sw-invite-{guess}")
        page.wait_for_load_state()
        expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("Too many wrong secrets from this address.")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()


def age(console: Console, name: str) -> None:
    """Its invitation has expired."""
    expired = update(people).where(people.c.name == name).values(invited_until_ms=1)
    console.call(storage_of(console.gate).store.write(lambda conn: conn.execute(expired).rowcount))


def test_an_owner_changes_resets_disables_and_removes(page: Page, console: Console) -> None:
    console.join(page, "Eve", "viewer")
    console.join(page, "Ada", "owner")
    console.ask("POST", "/api/workspaces", {"name": "annex"})
    page.goto("/console/people")
    expect(column(page, "People", 0)).to_have_text(["Eve", "Ada you"])
    dialog = open_person(page, "Eve")
    expect(column(page, "Sessions", 0)).to_have_count(1)
    dialog.get_by_role("button", name="Change", exact=True).click()
    page.get_by_label("Role", exact=True).select_option("Workspace admin")
    page.get_by_label("Workspace", exact=True).last.select_option("annex")
    expect(page.get_by_text("they are revoked")).to_have_count(0)
    press(page, "Save")
    expect(figure(dialog, "Workspace")).to_have_text("annex")
    expect(row(page, "People", "Eve")).to_contain_text("Workspace admin")
    dialog.get_by_role("button", name="Change", exact=True).click()
    page.get_by_label("Role", exact=True).select_option("Viewer")
    expect(page.get_by_text("Whoever leaves a workspace loses the keys there: they are revoked.")).to_be_visible()
    press(page, "Save and revoke keys")
    expect(figure(dialog, "Workspace")).to_have_text("all")
    dialog.get_by_role("button", name="End the session from 127.0.0.1").click()
    expect(dialog.get_by_text("No open sessions")).to_be_visible()

    press(page, "Reset password")
    expect(page.get_by_role("dialog", name="Reset the password of Eve?")).to_be_visible()
    press(page, "Reset password")
    take_link(page, "Eve")
    expect(figure(dialog, "State")).to_have_text("Invited")
    press(page, "Disable")
    press(page, "Disable")
    expect(figure(dialog, "State")).to_have_text("Disabled")
    press(page, "Enable")
    expect(figure(dialog, "State")).to_have_text("Invited")
    press(page, "Remove")
    expect(page.get_by_label("Revoke its keys")).to_be_checked()
    press(page, "Remove permanently")
    expect(column(page, "People", 0)).to_have_text(["Ada you"])

    dialog = open_person(page, "Ada")
    expect(dialog.get_by_text("This is you.")).to_be_visible()
    expect(dialog.get_by_role("button", name="Remove")).to_have_count(0)


def test_the_last_owner_stays(page: Page, console: Console, watch: PageWatch) -> None:
    watch.expect(r"status of 409 .*/api/people/psn_")
    console.join(page, "Ada", "owner")
    page.context.clear_cookies()
    console.sign_in(page, path="/people")
    for deed, sure in (("Disable", "Disable"), ("Remove", "Remove permanently")):
        open_person(page, "Ada")
        press(page, deed)
        press(page, sure)
        expect(page.get_by_role("alert")).to_contain_text(
            "is the last owner who can log in: make somebody else an owner"
        )
        press(page, "Cancel")
        dialog = page.get_by_role("dialog", name="Ada", exact=True)
        dialog.get_by_role("button", name="Close").click()
        expect(dialog).to_have_count(0)
    expect(row(page, "People", "Ada")).to_contain_text("Active")


def test_the_admin_of_a_workspace_sees_and_invites_its_members_alone(page: Page, console: Console) -> None:
    annex = console.ask("POST", "/api/workspaces", {"name": "annex"})["id"]
    console.invite("Olga", "owner")
    console.invite("Stranger", "member", "default")
    console.invite("Other", "admin", annex)
    console.join(page, "Ada", "admin", annex)
    page.goto("/console/people")
    expect(column(page, "People", 0)).to_have_text(["Other", "Ada you"])
    expect(page.get_by_label("Workspace", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Invite somebody").click()
    expect(page.get_by_label("Role", exact=True)).to_have_count(0)
    page.get_by_label("Name", exact=True).fill("Eve")
    press(page, "Invite")
    take_link(page, "Eve")
    expect(row(page, "People", "Eve")).to_contain_text("annex")
    dialog = open_person(page, "Eve")
    expect(dialog.get_by_role("button", name="Change", exact=True)).to_have_count(0)
    expect(dialog.get_by_role("button", name="New invitation")).to_be_visible()
    page.keyboard.press("Escape")
    dialog = open_person(page, "Other")
    expect(dialog.get_by_text("Only owners can change people with another role than member.")).to_be_visible()
    expect(dialog.get_by_role("button", name="Disable")).to_have_count(0)


def test_a_name_that_was_taken_is_told_at_its_field(page: Page, console: Console, watch: PageWatch) -> None:
    watch.expect(r"status of 409 .*/api/people$")
    console.invite("Ada", "viewer")
    console.sign_in(page, path="/people")
    page.get_by_role("button", name="Invite somebody").click()
    page.get_by_label("Name", exact=True).fill("ADA")
    press(page, "Invite")
    expect(page.get_by_role("dialog").get_by_text("already exists: choose another name")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_an_owner_sees_and_ends_the_sessions_of_the_secret_and_of_keys_too(
    page: Page, console: Console, browser: Browser
) -> None:
    warden = console.ask("POST", "/api/keys", {"name": "warden", "scopes": ["admin"]})["secret"]
    console.join(page, "Ada", "owner")
    with browser.new_context(base_url=console.base_url) as elsewhere:
        other = elsewhere.new_page()
        console.sign_in(other, warden, path="/live")
        page.goto("/console/people")
        expect(column(page, "Open sessions", 0)).to_have_text(["Key warden", "Ada"])
        expect(row(page, "Open sessions", "Ada").get_by_role("button")).to_have_count(0)  # this one
        row(page, "Open sessions", "warden").get_by_role("button", name="End the session from").click()
        expect(column(page, "Open sessions", 0)).to_have_text(["Ada"])
        expect(other.get_by_text("The session has ended.")).to_be_visible()
    page.context.clear_cookies()
    console.sign_in(page, path="/people")
    expect(column(page, "Open sessions", 0)).to_have_text(["Admin secret", "Ada"])
    menu = page.get_by_role("navigation", name="Pages", exact=True)
    expect(menu.get_by_role("link", name="Account")).to_have_count(0)
    page.goto("/console/account")
    expect(page.get_by_text("Only people who sign in by name have an account.")).to_be_visible()


def test_pages_about_people_are_in_nobodys_way(page: Page, console: Console) -> None:
    token = console.invite("Eve", "viewer")
    console.invite("Bob", "member", "default")
    console.join(page, "Ada", "owner")
    for size, check in ((LAPTOP, check_accessible), (PHONE, check_reach)):
        page.set_viewport_size(size)
        for path, heading in (("/people", "People"), ("/account", "Account")):
            open_page(page, path, heading)
            check(page)
        open_page(page, "/people", "People")
        page.get_by_role("button", name="Invite somebody").click()
        expect(page.get_by_role("dialog", name="Invite somebody")).to_be_visible()
        check(page)
        page.keyboard.press("Escape")
        dialog = open_person(page, "Bob")
        check(page)
        for deed in ("Change", "New invitation", "Disable", "Remove"):
            dialog.get_by_role("button", name=deed, exact=True).click()
            expect(page.get_by_role("dialog").get_by_role("button", name="Cancel")).to_be_visible()
            check(page)
            page.keyboard.press("Escape")
            expect(dialog.get_by_role("button", name=deed, exact=True)).to_be_visible()
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
    page.context.clear_cookies()
    page.goto("/console")
    expect(page.get_by_role("button", name="Sign in", exact=True)).to_be_visible()
    check_reach(page)
    page.goto(f"/console/invitation#{token}")
    expect(page.get_by_text("Welcome, Eve.")).to_be_visible()
    check_reach(page)
