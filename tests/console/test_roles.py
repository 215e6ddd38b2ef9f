"""What each role is shown of the console: no page and no button that its session may not use, and nothing is asked for
that the server refuses (`page_monitor` fails on every answer of 403)."""

from typing import NamedTuple

import pytest
from playwright.sync_api import Page, expect

from support.console_server import Console
from support.console_traffic import KEPT, fill, open_page, streaming
from support.page_elements import panel, visit
from support.page_monitor import PageWatch
from support.web import needs_web

pytestmark = needs_web

HEADINGS = {"Workspaces": "Workspaces and credit", "Models": "Models and providers"}
PATHS = (
    "/live",
    "/requests",
    "/playground",
    "/keys",
    "/workspaces",
    "/models",
    "/audit",
    "/settings",
    "/people",
    "/account",
)
SEEN = ["Overview", "Live", "Requests", "Keys", "Workspaces", "Models"]
WORKSPACE = ["Overview", "Live", "Requests", "Playground", "Keys", "Workspaces", "Models", "Audit"]
BUTTONS = (
    ("/keys", "Create a key"),
    ("/workspaces", "Create a workspace"),
    ("/workspaces", "Top up default"),
    ("/workspaces", "Change default"),
    ("/models?tab=providers", "Test up"),
    ("/people", "Invite somebody"),
)


class Sight(NamedTuple):
    pages: list[str]
    buttons: set[str]
    reads_content: bool
    stops: bool
    exports: bool = True
    sees_cost: bool = True


ROLES = {
    "operator": Sight(
        [*WORKSPACE, "Settings", "People", "Account"],
        {"Create a key", "Create a workspace", "Change default", "Test up"},
        reads_content=True,
        stops=True,
    ),
    "billing": Sight([*SEEN, "Audit", "Account"], {"Top up default"}, reads_content=False, stops=False),
    "viewer": Sight([*SEEN, "Account"], set(), reads_content=False, stops=False, exports=False, sees_cost=False),
    "admin": Sight(
        [*WORKSPACE, "People", "Account"],
        {"Create a key", "Invite somebody"},
        reads_content=True,
        stops=True,
        sees_cost=False,
    ),
}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_shown_what_it_may_use(page: Page, console: Console, role: str) -> None:
    sight = ROLES[role]
    request_id = fill(console)
    console.join(page, "Ada", role, "default" if role == "admin" else None)
    page.goto("/console")
    menu = page.get_by_role("navigation", name="Pages", exact=True)
    expect(menu.get_by_role("listitem")).to_have_text(sight.pages)
    for name in sight.pages:
        visit(page, name)
        expect(page.get_by_role("heading", name=HEADINGS.get(name, name), level=1)).to_be_visible()
        expect(page.get_by_text("Loading …")).to_have_count(0)
    for path in PATHS:
        page.goto(f"/console{path}")
        name = path[1:].capitalize()
        expect(page.get_by_role("heading", name=HEADINGS.get(name, name), level=1)).to_be_visible()
        expect(page.get_by_text("You may not see this page.")).to_have_count(0 if name in sight.pages else 1)
    check_buttons(page, sight)
    check_request(page, console, request_id, sight)


def check_buttons(page: Page, sight: Sight) -> None:
    for path, name in BUTTONS:
        if path == "/people" and "People" not in sight.pages:
            continue
        page.goto(f"/console{path}")
        expect(page.get_by_role("table").first).to_be_visible()
        expect(page.get_by_text("Loading …")).to_have_count(0)
        expect(page.get_by_role("button", name=name, exact=True)).to_have_count(1 if name in sight.buttons else 0)
    page.goto("/console/requests")
    expect(page.get_by_role("button", name="Columns")).to_be_visible()
    expect(page.get_by_role("link", name="CSV")).to_have_count(1 if sight.exports else 0)
    expect(page.get_by_role("columnheader", name="Margin")).to_have_count(1 if sight.sees_cost else 0)


def check_request(page: Page, console: Console, request_id: str, sight: Sight) -> None:
    open_page(page, f"/requests/{request_id}", KEPT)
    content = panel(page, "Content")
    if sight.reads_content:
        content.get_by_role("button", name="Show content").click()
        expect(content.get_by_role("heading", name="Answer")).to_be_visible()
        expect(content.get_by_role("button", name="Delete")).to_be_visible()
    else:
        expect(content.get_by_text("Your role may not read it.")).to_be_visible()
    expect(page.get_by_role("button", name="Repeat in the playground")).to_have_count(1 if sight.reads_content else 0)
    with streaming(console):
        open_page(page, "/live", "Live")
        running = page.get_by_role("region", name="Running requests")
        expect(running.get_by_role("link").first).to_be_visible()
        expect(running.get_by_role("button", name="Stop").first).to_be_visible(visible=sight.stops)
        running.get_by_role("link").first.click()
        expect(page.get_by_role("heading", name="So far")).to_be_visible()
        expect(page.get_by_role("button", name="Stop")).to_have_count(1 if sight.stops else 0)


def test_a_member_sees_pages_of_its_own_and_no_others(page: Page, console: Console) -> None:
    """What is on them: tests/console/test_own.py."""
    console.join(page, "Eve", "member", "default")
    page.goto("/console")
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    own = ["Overview", "Requests", "Keys", "Account"]
    expect(page.get_by_role("navigation", name="Pages", exact=True).get_by_role("listitem")).to_have_text(own)
    for path in ("/live", "/playground", "/workspaces", "/models", "/audit", "/settings"):
        page.goto(f"/console{path}")
        expect(page.get_by_text("You may not see this page.")).to_be_visible()
        expect(page.get_by_text("You are signed in as Eve, with the role Member.")).to_be_visible()
    page.get_by_role("main").get_by_role("link", name="Go to the first page").click()
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()


def test_a_change_of_the_role_is_seen_with_the_next_request(page: Page, console: Console, watch: PageWatch) -> None:
    watch.expect(r"status of 403 .*/api/settings$")
    console.join(page, "Ada", "operator")
    page.goto("/console/account")  # a page that asks for nothing by itself
    menu = page.get_by_role("navigation", name="Pages", exact=True)
    expect(menu.get_by_role("link", name="Playground")).to_be_visible()
    (ada,) = console.ask("GET", "/api/people")["data"]
    console.ask("PATCH", f"/api/people/{ada['id']}", {"role": "viewer"})
    visit(page, "Settings")
    expect(page.get_by_text("You may not see this page.")).to_be_visible()
    expect(page.get_by_text("with the role Viewer")).to_be_visible()
    expect(menu.get_by_role("link", name="Playground")).to_have_count(0)


def test_a_viewer_of_an_empty_gateway_is_asked_for_nothing(page: Page, console: Console) -> None:
    """What comes before the first request names no playground and no key to create."""
    console.join(page, "Ada", "viewer")
    page.goto("/console")
    expect(page.get_by_role("heading", name="No requests yet")).to_be_visible()
    expect(page.get_by_role("main").get_by_role("link", name="Create a key")).to_have_count(0)
    expect(page.get_by_role("main").get_by_role("link", name="Send a request")).to_have_count(0)
    page.goto("/console/live")
    expect(page.get_by_text("No running requests")).to_be_visible()
    expect(page.get_by_role("link", name="Send a request from the playground")).to_have_count(0)
    page.goto("/console/keys?new=1")
    expect(page.get_by_role("heading", name="Keys", level=1)).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
