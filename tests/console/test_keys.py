"""A key is created, used, shown, changed and revoked in the console; its secret is shown once."""

import re

import pytest
from openai import AuthenticationError
from playwright.sync_api import Page, expect

from support.answers import TEXTS
from support.console_server import Console
from support.page_elements import column, figure, row, visit


def make_key(page: Page, name: str, **fields: str) -> str:
    """Its secret. Fields by their labels."""
    page.get_by_role("button", name="Create a key").click()
    dialog = page.get_by_role("dialog", name="New key")
    for label, text in {"Name": name, **fields}.items():
        dialog.get_by_label(label, exact=True).fill(text)
    dialog.get_by_role("button", name="Create key").click()
    return take_secret(page, name)


def take_secret(page: Page, name: str) -> str:
    dialog = page.get_by_role("dialog", name=f"The secret of {name}")
    secret = dialog.get_by_label("Secret", exact=True).input_value()
    dialog.get_by_role("button", name="Claude Code").click()
    expect(dialog).to_contain_text(f"ANTHROPIC_AUTH_TOKEN='{secret}'")
    dialog.get_by_role("button", name="Codex").click()
    expect(dialog).to_contain_text('wire_api="responses"')
    dialog.get_by_role("button", name="I have it").click()
    expect(dialog).to_have_count(0)
    assert secret not in page.content()
    return secret


def open_key(page: Page, name: str) -> None:
    page.get_by_role("region", name="Keys").get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("dialog", name=name)).to_be_visible()


def test_a_key_is_made_used_seen_and_revoked(page: Page, console: Console) -> None:
    console.sign_in(page, path="/keys")
    secret = make_key(page, "ci")
    page.reload()
    expect(row(page, "Keys", "ci")).to_contain_text(f"…{secret[-4:]}")
    assert secret not in page.content()
    assert console.chat(secret) == "".join(TEXTS)

    visit(page, "Overview")
    page.get_by_role("group", name="Grouped by").get_by_role("button", name="Key").click()
    mine = row(page, "Usage by key", "ci").get_by_role("cell")
    expect(mine.nth(1)).to_have_text("1")
    expect(mine.nth(3)).to_have_text("7")
    expect(mine.nth(5)).to_have_text("5")
    expect(mine.nth(6)).to_have_text("$0.00000405")
    expect(page.get_by_role("link", name="Requests 1")).to_be_visible()
    expect(page.get_by_role("link", name="Tokens 12")).to_contain_text("7 in, 5 out")
    mine.nth(0).get_by_role("link", name="ci").click()
    expect(page.get_by_role("heading", name="Requests", level=1)).to_be_visible()
    expect(page.get_by_role("list", name="Active filters")).to_contain_text("key: ci")
    expect(row(page, "Requests", "ci")).to_have_count(1)
    expect(column(page, "Requests", 2)).to_have_text(["completed"])

    visit(page, "Keys")
    cells = row(page, "Keys", "ci").get_by_role("cell")
    expect(cells.nth(5)).to_have_text("$0.00000405")
    expect(cells.nth(6)).to_have_text("1")
    expect(cells.nth(7)).to_have_text(re.compile("now|ago"))
    expect(cells.nth(8)).to_have_text("Active")
    expect(row(page, "Keys", "test").get_by_role("cell").nth(7)).to_have_text("never")
    visit(page, "Workspaces")
    charge = row(page, "Ledger", "charge").get_by_role("cell")
    expect(charge.nth(8)).to_have_text("ci")
    visit(page, "Audit")
    expect(row(page, "Audit log", "key.create").get_by_role("cell").nth(4)).to_have_text("ci")
    visit(page, "Keys")
    open_key(page, "ci")
    expect(figure(page.get_by_role("dialog", name="ci", exact=True), "Requests in 30 days")).to_have_text("1")
    page.get_by_role("button", name="Revoke", exact=True).click()
    page.get_by_role("dialog", name="Revoke ci?").get_by_role("button", name="Revoke permanently").click()
    expect(figure(page.get_by_role("dialog", name="ci", exact=True), "State")).to_have_text("Revoked")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(row(page, "Keys", "ci")).to_have_count(0)
    page.get_by_role("button", name="Revoked", exact=True).click()
    expect(row(page, "Keys", "ci")).to_contain_text("Revoked")
    with pytest.raises(AuthenticationError) as refused:
        console.chat(secret)
    assert (refused.value.status_code, refused.value.code) == (401, "key_revoked")


def test_a_key_is_changed_rotated_and_shows_what_it_has_spent(page: Page, console: Console) -> None:
    console.sign_in(page, path="/keys")
    secret = make_key(page, "ci", **{"Budget in dollars": "1", "Requests per minute": "600"})
    expect(row(page, "Keys", "ci")).to_contain_text("600 requests/min")
    console.chat(secret)
    page.reload()
    meter = row(page, "Keys", "ci").get_by_role("meter")
    expect(meter).to_have_accessible_name("$0.00000405 spent, $0 reserved by open requests, of $1.00")
    page.get_by_role("button", name="Change ci").click()
    dialog = page.get_by_role("dialog", name="Change ci")
    dialog.get_by_label("Budget in dollars").fill("0.0000081")
    dialog.get_by_label("Requests per minute").fill("none")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_label("Requests per minute")).to_be_focused()
    dialog.get_by_label("Requests per minute").fill("")
    dialog.get_by_label("Concurrent requests").fill("2")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    expect(row(page, "Keys", "ci").get_by_role("cell").nth(3)).to_have_text("2 concurrent")
    expect(meter).to_have_attribute("aria-valuenow", "0.00000405")
    expect(meter).to_have_attribute("aria-valuemax", "0.0000081")

    open_key(page, "ci")
    page.get_by_role("button", name="Rotate").click()
    dialog = page.get_by_role("dialog", name="A new secret for ci?")
    dialog.get_by_label("The current secret ends").select_option("immediately")
    dialog.get_by_role("button", name="Rotate").click()
    new = take_secret(page, "ci")
    assert new != secret
    with pytest.raises(AuthenticationError):
        console.chat(secret)
    expect(figure(page.get_by_role("dialog", name="ci", exact=True), "Secret")).to_have_text(f"…{new[-4:]}")


def test_a_key_that_shows_routing(page: Page, console: Console) -> None:
    console.sign_in(page, path="/keys")
    page.get_by_role("button", name="Create a key").click()
    dialog = page.get_by_role("dialog", name="New key")
    dialog.get_by_label("Name", exact=True).fill("told")
    dialog.get_by_label("Show routing in answers").check()
    dialog.get_by_role("button", name="Create key").click()
    take_secret(page, "told")
    open_key(page, "told")
    expect(page.get_by_role("dialog", name="told")).to_contain_text("shown in headers of answers")


def test_keys_by_their_state(page: Page, console: Console) -> None:
    console.ask("POST", "/api/keys", {"name": "current"})
    old = console.ask("POST", "/api/keys", {"name": "old", "expires_ms": 4_000_000_000_000})
    gone = console.ask("POST", "/api/keys", {"name": "gone"})
    console.ask("POST", f"/api/keys/{gone['id']}/revoke", {})
    page.clock.set_fixed_time(4_000_000_000_001)  # what is named by the browser's clock, is found by the gateway's
    console.sign_in(page, path="/keys")
    table = page.get_by_role("region", name="Keys", exact=True)
    expect(table.locator("tbody").get_by_role("row")).to_have_count(3)
    expect(row(page, "Keys", "old")).to_contain_text("Expired")
    page.get_by_role("group", name="Which keys").get_by_role("button", name="Expired").click()
    expect(page.get_by_text("No key matches")).to_be_visible()
    page.get_by_role("group", name="Which keys").get_by_role("button", name="All").click()
    expect(table.locator("tbody").get_by_role("row")).to_have_count(4)
    assert [each["id"] for each in console.ask("GET", "/api/keys?state=revoked")["data"]] == [gone["id"]]
    assert old["id"] in [each["id"] for each in console.ask("GET", "/api/keys?state=active")["data"]]
