"""The figures of the overview are those of what was asked, and each leads to the requests behind it."""

import re
from contextlib import suppress

from openai import APIError
from playwright.sync_api import Page, expect

from support.answers import error_body, openai_frames, token_steps
from support.console_server import Console
from support.page_elements import column, row, visit
from support.script import Seen, Step, whole


def fill(console: Console) -> None:
    """Three answers, two of them of one model; and one that failed."""

    def answered(seen: Seen) -> list[Step]:
        return whole(error_body("No."), 400) if seen.json["model"] == "bad" else token_steps(openai_frames())

    console.play(answered)
    for model in ("smart", "smart", "up/other", "up/bad"):
        with suppress(APIError):
            console.chat(model=model)


def test_each_figure_leads_to_the_requests_behind_it(page: Page, console: Console) -> None:
    fill(console)
    console.sign_in(page)
    expect(page.get_by_role("link", name=re.compile("^Requests 4"))).to_be_visible()
    expect(page.get_by_role("link", name=re.compile("^Price "))).to_contain_text("$0.0000081")
    expect(column(page, "Usage by model", 1)).to_have_text(["2", "1", "1"])
    page.get_by_role("link", name=re.compile("^Error rate 25 %")).click()
    expect(column(page, "Requests", 3)).to_have_text(["up/bad"])
    page.go_back()
    row(page, "Usage by model", "smart").get_by_role("link", name="smart").click()
    expect(column(page, "Requests", 3)).to_have_text([re.compile("^smart")] * 2)
    visit(page, "Overview")
    page.get_by_role("group", name="Grouped by").get_by_role("button", name="Provider").click()
    expect(column(page, "Usage by provider", 0)).to_have_text(["up"])
    page.get_by_role("group", name="Period").get_by_role("button", name=re.compile("month", re.IGNORECASE)).click()
    expect(page).to_have_url(re.compile("period=month"))
    expect(column(page, "Usage by provider", 1)).to_have_text(["4"])
    page.reload()
    expect(column(page, "Usage by provider", 1)).to_have_text(["4"])


def test_the_share_of_cache_reads_is_shown_for_each_model_and_key(page: Page, console: Console) -> None:
    warm = [
        frame.replace(b'"total_tokens"', b'"prompt_tokens_details":{"cached_tokens":5},"total_tokens"')
        for frame in openai_frames()
    ]
    console.play(lambda seen: token_steps(warm if seen.json["model"] == "gpt-4o-mini" else openai_frames()))
    for model in ("smart", "up/other"):
        console.chat(model=model)
    console.sign_in(page)
    expect(row(page, "Usage by model", "smart").get_by_text("71 %")).to_be_visible()
    expect(
        row(page, "Usage by model", "up/other").get_by_title("0 of 7 prompt tokens were read from a cache.")
    ).to_have_text("0 %")
    page.get_by_role("group", name="Grouped by").get_by_role("button", name="Key").click()
    expect(
        row(page, "Usage by key", "test").get_by_title("5 of 14 prompt tokens were read from a cache.")
    ).to_have_text("36 %")
    expect(page.get_by_role("link", name=re.compile("^Tokens "))).to_contain_text("14 in (36 % from caches)")
