"""One request: the failed and the successful attempt, and the content, if its key stores it."""

import re

from playwright.sync_api import Page, expect

from support.answers import TEXTS, error_body, openai_frames, token_steps
from support.console_server import Console
from support.page_elements import column, figure, panel, visit
from support.script import in_turn, whole

ANSWER = "".join(TEXTS)
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}


def test_content_is_shown_on_request_replayed_and_deleted(page: Page, console: Console) -> None:
    key = console.ask("POST", "/api/keys", {"name": "kept", "log_content": True})
    console.play(in_turn(whole(error_body("Busy."), 500), token_steps(openai_frames())))
    assert console.chat(key["secret"]) == ANSWER
    console.sign_in(page, path="/requests")
    page.get_by_role("region", name="Requests").get_by_role("link", name="…").click()
    way = panel(page, "Timeline").get_by_role("listitem")
    expect(way.nth(1)).to_have_text(re.compile("^Attempt 1 .*failed: upstream_server_error"))
    expect(way.nth(2)).to_have_text(re.compile("^Attempt 2 "))
    expect(way.nth(2)).not_to_contain_text("failed")

    said = panel(page, "Content")
    expect(said).to_be_visible()
    assert ANSWER not in page.content()
    code = page.get_by_role("region", name="Code")
    expect(code).to_contain_text(re.compile('"model": ?"smart"'))
    said.get_by_role("button", name="Show content").click()
    expect(said.get_by_text("Say hello.", exact=True)).to_be_visible()
    expect(said.get_by_text(ANSWER, exact=True)).to_be_visible()
    page.get_by_role("group", name="Language").get_by_role("button", name="Python").click()
    expect(code).to_contain_text("Say hello.")
    expect(code).to_contain_text('api_key=os.environ["STREAMWEIR_API_KEY"]')
    view = said.get_by_role("group", name="View")
    view.get_by_role("button", name="Frames").click()
    for side in ("From the provider", "To the caller"):
        expect(said.get_by_role("heading", name=side)).to_be_visible()
    expect(said.get_by_text('"content":" weir"')).to_have_count(2)
    view.get_by_role("button", name="Replay").click()
    expect(said.get_by_text(ANSWER, exact=True)).to_have_count(0)
    said.get_by_role("button", name="Play", exact=True).click()
    expect(said.get_by_text(ANSWER, exact=True)).to_be_visible()
    said.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog", name="Delete the content?").get_by_role("button", name="Delete").click()
    expect(said).to_contain_text("Not stored.")
    visit(page, "Audit")
    expect(column(page, "Audit log", 3).first).to_have_text("content.delete")
    expect(column(page, "Audit log", 3).nth(1)).to_have_text("content.read")


def test_what_the_provider_answered_is_shown_for_each_attempt(page: Page, console: Console) -> None:
    failure = error_body("The engine is gone.", "server_error", code="engine_gone")
    refusal = whole(failure, 500, (("x-request-id", "req_of_the_provider"),))
    console.play(in_turn(refusal, token_steps(openai_frames())))
    assert console.chat() == ANSWER
    console.sign_in(page, path="/requests")
    page.get_by_role("region", name="Requests").get_by_role("link", name="…").click()
    attempts = panel(page, "Attempts").get_by_role("listitem")
    expect(attempts).to_have_count(2)
    first, second = attempts.nth(0), attempts.nth(1)
    expect(first).to_contain_text("upstream_server_error")
    expect(first).to_contain_text("The engine is gone.")
    expect(first).to_contain_text("500 engine_gone")
    expect(first).to_contain_text("req_of_the_provider")
    expect(first.get_by_role("button", name="Copy")).to_be_visible()
    expect(first).to_contain_text(re.compile(r"127\.0\.0\.1:\d+.*new: DNS .*connect .*after "))
    expect(second).to_contain_text("answered")
    expect(second).to_contain_text("reused")


def test_a_refused_request_says_what_was_refused_and_why(page: Page, console: Console) -> None:
    reply = console.call(console.gate.ask(model="nosuch", temperature=0.25, tools=[TOOL]))
    assert reply.status == 404
    console.sign_in(page)
    page.get_by_role("link", name=re.compile("^Refused 1")).click()
    page.get_by_role("region", name="Requests").get_by_role("link", name="…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Refused · nosuch · test")
    why = panel(page, "Why it was refused")
    expect(why).to_contain_text("nosuch")
    expect(why).to_contain_text("model_not_found")
    expect(why).to_contain_text("Cause: the caller.")
    expect(figure(why, "Member of the request")).to_have_text("model")
    expect(page.locator(".stat")).to_have_count(0)
    expect(figure(panel(page, "Parameters"), "Temperature")).to_have_text("0.25")
    expect(figure(panel(page, "Parameters"), "Tools")).to_have_text("weather")
    page.get_by_role("button", name="Repeat in the playground").click()
    expect(page.get_by_label("Model", exact=True)).to_have_value("nosuch")
    expect(page.get_by_label("Temperature")).to_have_value("0.25")
    expect(page.get_by_label("Key", exact=True)).to_have_value("")


def test_a_request_is_repeated_in_the_playground_with_its_prompt(page: Page, console: Console) -> None:
    key = console.ask("POST", "/api/keys", {"name": "kept", "log_content": True})
    console.chat(key["secret"])
    console.sign_in(page, path="/requests")
    page.get_by_role("region", name="Requests").get_by_role("link", name="…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Completed · smart · kept")
    page.get_by_role("button", name="Repeat in the playground").click()
    expect(page.get_by_label("Prompt", exact=True)).to_have_value("Say hello.")
    expect(page.get_by_label("Key", exact=True)).to_have_value("")  # that of a caller is never chosen by itself
    visit(page, "Audit")
    expect(column(page, "Audit log", 3).first).to_have_text("content.read")
