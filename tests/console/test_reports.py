"""What is spent and given, what answers, what is set, and who did what: the pages that are read more than used."""

import re

from playwright.sync_api import Page, expect
from sqlalchemy import Connection

from streamweir.policy.alert import Alert
from streamweir.policy.limits.budget import NANO
from streamweir.server.nodes.report import Report, TargetReport, encode_report
from streamweir.store.alerts.outbox import Subscription, append
from streamweir.store.db.clock import now_ms
from streamweir.store.keys.payments import create_payment
from streamweir.store.requests.health_reports import write_report
from streamweir.store.requests.instances import write_heartbeat
from support.answers import error_body
from support.axe import obstacles
from support.console_server import Console
from support.console_session import storage_of
from support.page_elements import column, row, sign_out, visit
from support.script import whole

ACTIONS = ["session.create", "key.create", "key.create", "secret.create", "workspace.create"]
"""From the newest on: what the test did, and what the first start had done."""


def test_a_workspace_is_made_topped_up_and_its_ledger_says_so(page: Page, console: Console) -> None:
    console.sign_in(page, path="/workspaces")
    page.get_by_role("button", name="Create a workspace").click()
    dialog = page.get_by_role("dialog", name="New workspace")
    dialog.get_by_label("Name").fill("annex")
    dialog.get_by_label("Prepaid").check()
    dialog.get_by_role("button", name="Create workspace").click()
    expect(row(page, "Balances", "annex")).to_contain_text("no credit left")
    page.get_by_role("button", name="Top up annex").click()
    dialog = page.get_by_role("dialog", name="Credit for annex")
    dialog.get_by_label("Amount in dollars").fill("12.5x")
    expect(dialog.get_by_text("Dollars, such as 100 or 12.50.")).to_be_visible()
    dialog.get_by_label("Amount in dollars").fill("12.5")
    dialog.get_by_label("Note").fill("first payment")
    dialog.get_by_role("button", name="Grant $12.50").click()
    expect(dialog).to_have_count(0)
    expect(row(page, "Balances", "annex").get_by_role("cell").nth(5)).to_have_text("$12.50")
    expect(column(page, "Ledger", 4)).to_have_text(["+$12.50"])
    expect(row(page, "Ledger", "first payment")).to_contain_text("credit")

    (workspace,) = (each["id"] for each in console.ask("GET", "/api/workspaces")["data"] if each["name"] == "annex")
    console.chat(console.ask("POST", "/api/keys", {"name": "ci", "workspace": workspace})["secret"])
    page.reload()
    meter = row(page, "Balances", "annex").get_by_role("meter")
    expect(meter).to_have_accessible_name("$0.00000405 spent and $0 reserved of $12.50 granted")
    expect(column(page, "Ledger", 4)).to_have_text(["−$0.00000405", "+$12.50000000"])
    page.get_by_label("Ledger rows").select_option("All rows")
    expect(column(page, "Ledger", 2)).to_have_text(["charge", "reservation", "credit"])
    page.get_by_label("Ledger rows").select_option("Reservations")
    expect(column(page, "Ledger", 2)).to_have_text(["reservation"])
    page.get_by_label("Ledger rows").select_option("Charges and credits")
    row(page, "Ledger", "charge").get_by_role("link").first.click()
    expect(page.get_by_role("heading", name="Outcome")).to_be_visible()


def test_cost_and_margin_are_the_operators(page: Page, console: Console) -> None:
    """By what a page shows; what is sent to it is tested where it is sent."""
    warden = console.ask("POST", "/api/keys", {"name": "warden", "scopes": ["admin"]})["secret"]
    console.chat()
    (request,) = (each["request_id"] for each in console.ask("GET", "/api/requests")["data"])
    for secret, count in ((None, 1), (warden, 0)):
        console.sign_in(page, secret, path="/")
        heads = page.get_by_role("columnheader")
        figure_of_price = page.get_by_role("link", name=re.compile("^Price "))
        expect(figure_of_price).to_be_visible()
        expect(page.get_by_role("link", name=re.compile("^(Cost|Margin) "))).to_have_count(2 * count)
        expect(page.get_by_role("region", name="Top keys")).to_be_visible()
        expect(heads.get_by_text(re.compile("^(Cost|Margin)$"))).to_have_count(3 * count)
        visit(page, "Requests")
        expect(heads.get_by_text("Price", exact=True)).to_be_visible()
        expect(heads.get_by_text("Margin", exact=True)).to_have_count(count)
        page.get_by_role("button", name="More filters").click()
        expect(page.get_by_label("Price from, $")).to_be_visible()
        expect(page.get_by_label("Cost from, $")).to_have_count(count)
        visit(page, "Workspaces")
        expect(row(page, "Ledger", "charge")).to_be_visible()
        expect(heads.get_by_text(re.compile("^(Cost|Margin)$"))).to_have_count(2 * count)
        page.goto(f"/console/requests/{request}")
        expect(page.get_by_role("heading", name="Price", exact=True)).to_be_visible()
        expect(page.get_by_role("heading", name="Cost and margin")).to_have_count(count)
        sign_out(page)


def test_models_show_what_is_configured(page: Page, console: Console) -> None:
    console.chat()
    console.sign_in(page, path="/models")
    model = row(page, "Models", "smart")
    expect(model).to_contain_text("up/gpt-4o-mini")
    expect(model).to_contain_text("healthy")
    expect(model).to_contain_text("$0.15")
    expect(model).to_contain_text("its own")
    tabs = page.get_by_role("group", name="What is shown")
    tabs.get_by_role("button", name="Providers").click()
    expect(row(page, "Targets", "up/gpt-4o-mini")).to_contain_text("alias")
    expect(row(page, "Providers", "up").get_by_role("cell").nth(3)).to_have_text("1")
    tabs.get_by_role("button", name="Price list").click()
    page.get_by_label("Part of the model name").fill("claude-sonnet-4")
    page.get_by_role("button", name="Find").click()
    expect(row(page, "Prices", "claude-sonnet-4").first).to_be_visible()
    expect(row(page, "Prices", "smart")).to_have_count(0)


def test_the_health_of_targets_in_every_process(page: Page, console: Console) -> None:
    away = TargetReport("up", "gpt-4o-mini", "", True, "away", False, 230_000, None, 2, 0, "upstream_timeout", 9_000)
    found = Report(version="0.2.0", requests=7, targets=[away], credentials=[])
    at_ms = now_ms()

    def write(conn: Connection) -> None:
        for name, text in (("of node b", encode_report(found)), ("of an older version", None)):
            write_heartbeat(conn, name, "node b", at_ms + 600_000)
            if text is not None:
                write_report(conn, name, text, at_ms)

    console.call(storage_of(console.gate).store.write(write))
    warden = console.ask("POST", "/api/keys", {"name": "warden", "scopes": ["admin"]})["secret"]
    console.sign_in(page, path="/models")
    expect(row(page, "Models", "smart")).to_contain_text(re.compile("ejected in 1 of 2 for 3 min"))
    page.get_by_role("button", name="Providers").click()
    target = row(page, "Targets", "up/gpt-4o-mini")
    expect(target).to_contain_text("upstream timeout")
    expect(row(page, "Processes", "node b")).to_have_count(2)
    target.get_by_role("button").click()
    dialog = page.get_by_role("dialog", name="up/gpt-4o-mini")
    rows = dialog.get_by_role("row")
    expect(rows.filter(has_text="ejected for")).to_have_count(1)
    expect(rows.filter(has_text="healthy")).to_have_count(1)
    expect(dialog).to_contain_text("no report, because it has just started or is of an older version")
    assert not obstacles(page)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    sign_out(page)

    console.sign_in(page, warden, path="/models?tab=providers")
    expect(row(page, "Targets", "up/gpt-4o-mini")).to_contain_text("ejected in 1 of 2")
    expect(row(page, "Targets", "up/gpt-4o-mini").get_by_role("button")).to_have_count(0)
    expect(page.get_by_role("heading", name="Processes")).to_have_count(0)
    assert "node b" not in page.get_by_role("main").inner_text()


def test_the_audit_log_says_who_did_what_and_is_verified(page: Page, console: Console) -> None:
    made = console.ask("POST", "/api/keys", {"name": "ci"})
    console.chat(made["secret"])
    console.sign_in(page, path="/audit")
    expect(column(page, "Audit log", 3)).to_have_text(ACTIONS)
    expect(row(page, "Audit log", "key.create").first).to_contain_text("ci")
    page.get_by_role("button", name="Verify the log").click()
    expect(page.get_by_text("The log is intact")).to_be_visible()
    page.get_by_role("button", name="Check the ledger").click()
    expect(page.get_by_text("The ledger is consistent")).to_be_visible()
    page.get_by_label("Filter the rows on this page").fill("session")
    expect(row(page, "Audit log", "session.create")).to_have_count(1)
    expect(row(page, "Audit log", "key.create")).to_have_count(0)


def test_alerts_and_payments_are_listed_with_what_became_of_them(page: Page, console: Console) -> None:
    budget = {"key": {"id": "key_1", "name": "ci"}, "percent": 80, "spent_usd": "20.4", "resets_at": None}
    found = [
        Alert(id="a1", kind="budget.threshold", at_ms=now_ms(), workspace_id="default", data=budget),
        Alert(id="a2", kind="provider.back", at_ms=now_ms(), workspace_id=None, data={"provider": "up"}),
    ]

    def make(conn: Connection) -> None:
        append(conn, found, [Subscription(name="ops"), Subscription(name="pager")], delivered=["pager"])
        create_payment(conn, "default", 25 * NANO, actor="test", at_ms=now_ms())

    console.sign_in(page, path="/workspaces")
    expect(page.get_by_role("heading", name="Balances")).to_be_visible()
    expect(page.get_by_role("heading", name="Payments")).to_have_count(0)
    console.call(storage_of(console.gate).store.write(make))
    page.reload()
    expect(row(page, "Payments", "open")).to_contain_text("$25.00")
    assert not obstacles(page)
    visit(page, "Audit")
    expect(column(page, "Alerts", 1)).to_have_text(["provider.back", "budget.threshold"])
    expect(row(page, "Alerts", "budget.threshold")).to_contain_text("key cipercent 80spent $20.40")
    expect(row(page, "Alerts", "budget.threshold")).to_contain_text("default")
    expect(row(page, "Alerts", "provider.back").get_by_role("list").last).to_have_text("ops waitspager delivered")
    assert not obstacles(page)


def test_a_provider_is_tested_and_its_error_is_shown(page: Page, console: Console) -> None:
    refused = error_body("Incorrect API key provided.")
    console.play(lambda seen: whole(b'{"data":[]}') if seen.path.endswith("/models") else whole(refused, 401))
    console.sign_in(page, path="/models?tab=providers")
    page.get_by_role("button", name="Test up").click()
    dialog = page.get_by_role("dialog", name="Test of up")
    results = dialog.get_by_role("list", name="Results")
    expect(results).to_contain_text("works")
    expect(results).to_contain_text("reached, the key is accepted")
    console.play(whole(refused, 401))
    dialog.get_by_role("button", name="Test again").click()
    expect(results).to_contain_text("fails")
    expect(results).to_contain_text("status 401")
    expect(results).to_contain_text("check the key, and where it comes from")
    assert not obstacles(page)
    dialog.get_by_role("button", name="Close").last.click()
    expect(dialog).to_have_count(0)
    assert [each["action"] for each in console.ask("GET", "/api/audit?limit=2")["data"]] == ["provider.test"] * 2
