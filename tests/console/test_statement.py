"""The page of a statement in a real browser: it prints on whole pages, and foreign text in it is only text."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from streamweir.cli.view.statement import as_html
from streamweir.policy.billing.statement import Charges, Credit, Line, Statement, span_of_month
from support.untrusted_texts import FOREIGN

DAY = span_of_month("2026-10")[0] // 86_400_000


def statement(names: list[str]) -> Statement:
    charges = Charges(requests=12_345, prompt_tokens=9_876_543_210, completion_tokens=1234, price=1_234_567_891_234)
    lines = [
        Line(day=DAY + at % 31, key_id=f"key_{at}", key=name, model=f"vendor/a-long-model-name-{at}", charges=charges)
        for at, name in enumerate(names)
    ]
    credits = [Credit(at_ms=DAY * 86_400_000, amount=5 * 10**12, note=name) for name in names[:3]]
    return Statement(
        workspace=names[0],
        workspace_id="ws_0123456789",
        month="2026-10",
        is_prepaid=True,
        lines=lines,
        credits=credits,
        balance_before=-1,
        open_requests=2,
        is_over=False,
    )


@pytest.mark.parametrize("width", [420, 794])  # of a phone, and of A4
def test_it_fits_and_prints_with_its_columns_on_every_page(browser: Browser, width: int, tmp_path: Path) -> None:
    page = browser.new_page(viewport={"width": width, "height": 1000}, java_script_enabled=True)
    try:
        page.set_content(as_html(statement([f"key number {at}" for at in range(90)])))
        shown = page.locator("tbody tr").count()
        assert shown == 91 + 32 + 6
        document = page.pdf(prefer_css_page_size=True, path=tmp_path / "statement.pdf")
        assert document.startswith(b"%PDF-")
        assert document.count(b"/Type /Page\n") + document.count(b"/Type /Page ") > 2
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 674, "height": 1000})  # A4 without its margins
        assert page.evaluate("document.documentElement.scrollWidth") <= 674
        assert page.locator("thead").first.evaluate("each => getComputedStyle(each).display") == "table-header-group"
    finally:
        page.close()


def test_foreign_text_is_only_text(browser: Browser) -> None:
    page = browser.new_page()
    try:
        fetched: list[str] = []
        page.on("request", lambda request: fetched.append(request.url))
        page.on("dialog", lambda dialog: fetched.append(dialog.message))
        names = [text for text in FOREIGN if text.strip()]
        page.set_content(as_html(statement(names)))
        assert fetched == []
        assert page.locator("script, img, iframe, a, svg, link, form").count() == 0
        assert page.locator("tbody").first.locator("tr").count() <= len(names) + 1
    finally:
        page.close()
