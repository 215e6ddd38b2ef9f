"""Signing in at a real identity provider, in a real browser: the way there and back, and what a failure says."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from streamweir.server.control.identity_failure import SENTENCES, SignInFailure
from support.axe import obstacles
from support.console_server import PASSWORD, Console
from support.oidc_provider import identity_provider
from support.page_elements import figure, panel, row, sign_out, visit
from support.page_monitor import PageWatch
from support.web import needs_web

pytestmark = needs_web

ACME = '<b>Acme</b> & "Söhne"'
ADDRESS = "ada@example.com"


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    with identity_provider() as url:
        yield url


def connect(console: Console, provider: str, watch: PageWatch, more: str = "") -> None:
    """The provider is another host, and its page wants a style from elsewhere, which it does not get."""
    watch.expect(f"^foreign: GET {provider}/oauth2/authorize")
    settings = {"issuer": provider, "client_id": "streamweir", "client_secret": "any will do", "url": console.base_url}
    lines = "".join(f'{name} = "{value}"\n' for name, value in settings.items())
    console.reload(lambda text: f"{text}\n[oidc]\n{lines}name = '{ACME}'\n{more}")


def go_there(page: Page) -> None:
    page.route("https://cdn.jsdelivr.net/**", lambda route: route.fulfill(body="", content_type="text/css"))
    page.get_by_role("button", name=f"Sign in with {ACME}", exact=True).click()
    expect(page.get_by_role("heading", name="Authorize Client")).to_be_visible()


def choose_account(page: Page, button: str, watch: PageWatch) -> None:
    watch.expect("^foreign: GET https://cdn.jsdelivr.net/")
    watch.expect("^foreign: POST ")
    page.get_by_role("button", name=button, exact=True).click()


def test_an_invited_person_signs_in_and_comes_back_to_where_it_was(
    page: Page, console: Console, provider: str, watch: PageWatch
) -> None:
    connect(console, provider, watch)
    console.sign_in(page, path="/people")
    page.get_by_role("button", name="Invite somebody").click()
    page.get_by_label("Name", exact=True).fill("Ada Lovelace")
    page.get_by_label("E-mail address", exact=True).fill(ADDRESS)
    page.get_by_role("dialog").get_by_role("button", name="Invite", exact=True).click()
    link = page.get_by_label("Link", exact=True).input_value()
    page.get_by_role("button", name="I have it").click()
    sign_out(page)

    page.goto(link)
    expect(
        page.get_by_text(f"You need no password if your account at {ACME} has the address {ADDRESS}")
    ).to_be_visible()
    assert obstacles(page) == []
    page.goto("/console/keys?state=all")
    assert obstacles(page) == []
    go_there(page)
    choose_account(page, "ada-1", watch)
    expect(page.get_by_role("heading", name="Keys", level=1)).to_be_visible()
    assert page.url == f"{console.base_url}/console/keys?state=all"
    expect(page.get_by_text("Ada Lovelace", exact=True)).to_be_visible()
    visit(page, "Account")
    expect(figure(panel(page, "You"), "E-mail")).to_have_text(ADDRESS)
    expect(panel(page, "Password")).to_contain_text("There is no password here.")
    assert [each["name"] for each in page.context.cookies(console.base_url)] == ["streamweir"]
    assert page.evaluate("sessionStorage.length") == 0

    page.context.clear_cookies()
    console.sign_in(page, path="/people")
    row(page, "People", "Ada Lovelace").get_by_role("link", name="Ada Lovelace").click()
    dialog = page.get_by_role("dialog", name="Ada Lovelace", exact=True)
    expect(figure(dialog, "Signs in")).to_have_text("at the identity provider")
    expect(figure(dialog, "E-mail")).to_have_text(ADDRESS)
    dialog.get_by_role("button", name="Change", exact=True).click()
    page.get_by_label("Role", exact=True).select_option("Operator")
    page.get_by_label("E-mail address", exact=True).fill("")
    page.get_by_role("button", name="Save").click()
    expect(figure(dialog, "Role")).to_have_text("Operator")
    expect(figure(dialog, "E-mail")).to_have_count(0)
    dialog.get_by_role("button", name="Reset sign-in").click()
    expect(page.get_by_text("The account at the identity provider is forgotten")).to_be_visible()


def test_a_role_of_the_groups_cannot_be_changed_here(
    page: Page, console: Console, provider: str, watch: PageWatch
) -> None:
    connect(console, provider, watch, '[[oidc.roles]]\ngroup = "platform"\nrole = "viewer"\n')
    page.goto("/console")
    go_there(page)
    choose_account(page, "ada-1", watch)
    expect(page.get_by_text("Viewer", exact=False).first).to_be_visible()
    page.context.clear_cookies()
    console.sign_in(page, path="/people")
    row(page, "People", "Ada").get_by_role("link", name="Ada").click()
    dialog = page.get_by_role("dialog", name="Ada", exact=True)
    expect(figure(dialog, "Signs in")).to_have_text("at the identity provider, which says the role")
    expect(dialog.get_by_role("button", name="Disable")).to_be_visible()
    for name in ("Change", "Reset sign-in"):
        expect(dialog.get_by_role("button", name=name, exact=True)).to_have_count(0)


def test_who_may_not_come_in_is_told_why_and_can_try_another_way(
    page: Page, console: Console, provider: str, watch: PageWatch
) -> None:
    connect(console, provider, watch)
    console.join(page, "Bob", "viewer")
    page.context.clear_cookies()
    page.goto("/console/live")
    alert = page.get_by_role("alert")
    go_there(page)
    choose_account(page, "eve-1", watch)
    expect(alert).to_have_text(SENTENCES[SignInFailure.UNINVITED])
    assert page.url == f"{console.base_url}/console", "a reload does not say it again"
    assert obstacles(page) == []
    page.reload()
    expect(page.get_by_role("button", name=f"Sign in with {ACME}", exact=True)).to_be_visible()
    expect(alert).to_have_count(0)
    page.goto("/console#sign-in=<script>alert(1)</script>")
    expect(page.get_by_role("button", name=f"Sign in with {ACME}", exact=True)).to_be_visible()
    expect(alert).to_have_count(0)
    page.goto("/console#sign-in=denied")
    page.reload()
    expect(alert).to_have_text(SENTENCES[SignInFailure.DENIED])
    page.get_by_role("button", name="Name and password").click()
    page.get_by_label("Name", exact=True).fill("Bob")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", name="Live", level=1)).to_be_visible()  # where it wanted to go
    sign_out(page)
    expect(page.get_by_label("Name", exact=True)).to_be_visible()
    expect(alert).to_have_count(0)


def test_a_provider_that_is_away_is_told_on_the_page(page: Page, console: Console, watch: PageWatch) -> None:
    watch.expect(r"status of 502 .*/api/oidc$")
    away = 'issuer = "http://127.0.0.1:9"\nclient_id = "x"\nurl = "http://127.0.0.1"\n'
    console.reload(lambda text: f"{text}\n[oidc]\n{away}")
    page.goto("/console")
    page.get_by_role("button", name="Sign in with single sign-on").click()
    expect(page.get_by_role("alert")).to_have_text(SENTENCES[SignInFailure.AWAY])
    expect(page.get_by_role("button", name="Sign in with single sign-on")).to_be_enabled()
