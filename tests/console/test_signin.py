"""Who may come in, in a real browser."""

import re

from playwright.sync_api import Page, expect
from sqlalchemy import update

from streamweir.store.db.clock import now_ms
from streamweir.store.db.tables import sessions
from streamweir.store.keys.sessions import IDLE_MS
from support.answers import TEXTS
from support.axe import obstacles
from support.console_server import PASSWORD, Console
from support.console_session import storage_of
from support.gateway import KEY
from support.page_elements import column, log_in, sign_out, visit
from support.page_monitor import PageWatch
from support.web import needs_web

BOX = "Admin secret or admin key"


def enter(page: Page, secret: str) -> None:
    page.get_by_label(BOX).fill(secret)
    page.get_by_role("button", name="Sign in").click()


def expire(console: Console) -> None:
    """Every session, as if nobody had used it for its time."""
    unused = update(sessions).values(used_ms=now_ms() - IDLE_MS)
    console.call(storage_of(console.gate).store.write(lambda conn: conn.execute(unused).rowcount))


@needs_web
def test_the_first_page_requests_the_identity(page: Page) -> None:
    page.goto("/")
    expect(page).to_have_title("Sign in · Streamweir")
    expect(page.get_by_label(BOX)).to_be_focused()
    assert obstacles(page) == []


def test_a_wrong_secret_is_refused_the_sixth_must_wait_and_the_right_one_passes(
    page: Page, console: Console, watch: PageWatch
) -> None:
    watch.expect(r"status of 429 .*/api/session$")
    page.goto("/console/keys")
    alert = page.get_by_role("alert")
    for secret in ("sw-admin-wrong", "sk-sw-wrong", "wrong", console.secret[:-1], console.secret + "x"):
        with page.expect_response("**/api/session"):
            enter(page, secret)
        expect(alert).to_have_text("The secret or the API key is not valid.")
        expect(page.get_by_label(BOX)).to_be_focused()
        expect(page.get_by_role("navigation")).to_have_count(0)
    enter(page, "wrong again")
    expect(alert).to_have_text("Too many wrong secrets from this address. Try again later.")
    expect(page.get_by_role("navigation")).to_have_count(0)
    enter(page, console.secret)
    expect(page.get_by_role("navigation")).to_have_count(1)


def test_a_session_lasts_until_it_ends_and_leads_back_to_where_one_was(
    page: Page, console: Console, watch: PageWatch
) -> None:
    watch.expect(r"status of 401 .*/api/(requests|workspaces)")  # whichever is asked first
    console.sign_in(page)
    (cookie,) = page.context.cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == ("streamweir", True, "Strict")
    assert page.evaluate("document.cookie") == ""
    page.reload()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    visit(page, "Settings")
    expect(page.get_by_role("heading", name="This gateway")).to_be_visible()  # and there is nothing more to ask for
    expire(console)
    visit(page, "Requests")
    expect(page.get_by_role("status")).to_contain_text("The session has ended.")
    expect(page.get_by_role("navigation")).to_have_count(0)
    enter(page, console.secret)
    expect(page.get_by_role("heading", name="Requests", level=1)).to_be_visible()
    assert page.url == f"{console.base_url}/console/requests"
    visit(page, "Live")
    expect(page.get_by_text("No running requests")).to_be_visible()
    expire(console)
    expect(page.get_by_role("status")).to_contain_text("The session has ended.")
    enter(page, console.secret)
    expect(page.get_by_text("No running requests")).to_be_visible()

    sign_out(page)
    expect(page.get_by_label(BOX)).to_be_focused()
    expect(page.get_by_text("The session has ended.")).to_have_count(0)
    assert page.context.cookies() == []
    page.reload()
    expect(page.get_by_label(BOX)).to_be_focused()


def test_an_admin_key_sees_its_workspace_alone(page: Page, console: Console) -> None:
    workspace = console.ask("POST", "/api/workspaces", {"name": "annex"})["id"]
    made = {"name": "warden", "workspace": workspace, "scopes": ["admin"]}
    warden = console.ask("POST", "/api/keys", made)["secret"]
    caller = console.ask("POST", "/api/keys", {"name": "caller", "workspace": workspace})["secret"]
    for secret in (caller, KEY):
        assert console.chat(secret) == "".join(TEXTS)
    console.sign_in(page, warden, path="/requests")
    expect(column(page, "Requests", 5)).to_have_text(["caller"])
    expect(page.get_by_text("Workspace admin")).to_be_visible()
    expect(page.get_by_role("link", name="Settings")).to_have_count(0)
    visit(page, "Keys")
    expect(column(page, "Keys", 0)).to_have_text([re.compile("^warden"), re.compile("^caller")])
    visit(page, "Workspaces")
    expect(column(page, "Balances", 0)).to_have_text([re.compile("^annex")])
    page.goto("/console/settings")
    expect(page.get_by_text("You may not see this page.")).to_be_visible()


def test_a_person_signs_in_by_name_and_the_browser_offers_that_first_from_then_on(
    page: Page, console: Console, watch: PageWatch
) -> None:
    watch.expect(r"status of 401 .*/api/login$")
    console.join(page, "Ada Lovelace", "viewer")
    page.context.clear_cookies()
    page.goto("/console/keys")
    log_in(page, "Ada Lovelace", "a wrong password")
    alert = page.get_by_role("alert")
    expect(alert).to_have_text("The name or the password is not valid.")
    expect(page.get_by_label("Password", exact=True)).to_be_focused()
    log_in(page, "Nobody", PASSWORD)
    expect(alert).to_have_text("The name or the password is not valid.")
    log_in(page, "ada lovelace ", PASSWORD)
    expect(page.get_by_role("heading", name="Keys", level=1)).to_be_visible()
    expect(page.get_by_text("Ada Lovelace", exact=True)).to_be_visible()
    sign_out(page)
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    assert page.evaluate("localStorage.length") == 1
    assert obstacles(page) == []


def test_too_many_attempts_are_told_with_the_time_to_wait(page: Page, console: Console, watch: PageWatch) -> None:
    watch.expect(r"status of 401 .*/api/login$")
    watch.expect(r"status of 429 .*/api/login$")
    console.invite("Ada", "viewer")
    page.goto("/console")
    alert = page.get_by_role("alert")
    for _ in range(10):
        with page.expect_response("**/api/login"):
            log_in(page, "Ada", "a wrong password")
    expect(alert).to_have_text("The name or the password is not valid.")
    log_in(page, "Ada", "a wrong password")
    expect(alert).to_have_text(re.compile(r"^Too many attempts to log in\. Try again in 1[45] minutes\.$"))
    console.sign_in(page)  # the secret is not bounded by this
