"""Nothing on the pages is in anybody's way: not with a reader, not without a mouse, not in the dark, not on a phone.

What axe calls serious fails, on every page, in every dialog, with data and without; in both colours. And no page is
wider than a phone.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page, ViewportSize, expect

from support.answers import error_body, openai_frames
from support.axe import COLOURS, obstacles
from support.console_server import Console
from support.gateway import chat_request
from support.page_elements import panel
from support.page_monitor import PageWatch
from support.raw_client import RawClient
from support.script import End, Head, Seen, Send, Step, Wait, whole
from support.web import needs_web

pytestmark = needs_web

LAPTOP: ViewportSize = {"width": 1366, "height": 768}
PHONE: ViewportSize = {"width": 390, "height": 844}
LONG_NAME = "the-very-long-name-of-a-service-that-nobody-wanted-to-shorten-00"


def check(page: Page) -> None:
    """As it stands, in both colours and widths."""
    found = obstacles(page)
    page.emulate_media(color_scheme="dark")
    found += [f"dark: {each}" for each in obstacles(page, COLOURS)]
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(PHONE)
    # Charts are drawn anew when they have been told of it.
    wide = page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame("
        "() => done(document.documentElement.scrollWidth))))"
    )
    page.set_viewport_size(LAPTOP)
    assert (found, wide) == ([], PHONE["width"]), page.url


def visit(page: Page, path: str, heading: str) -> None:
    page.goto(f"/console{path}")
    expect(page.get_by_role("heading", name=heading, exact=True, level=1)).to_be_visible()
    expect(page.get_by_text("Loading …")).to_have_count(0)


@contextmanager
def streaming(console: Console) -> Iterator[None]:
    """One stream that has begun."""
    go_on, frames = asyncio.Event(), openai_frames()
    console.play([Head(), *map(Send, frames[:3]), Wait(go_on), *map(Send, frames[3:]), End()])

    async def begin() -> RawClient:
        client = await console.gate.connect()
        await client.send(chat_request(model="smart", stream=True))
        await client.head()
        await client.chunk()
        return client

    async def end(client: RawClient) -> None:
        go_on.set()
        async with client:
            while await client.chunk():
                pass

    client = console.call(begin())
    yield
    console.call(end(client))


def test_before_there_is_anything(page: Page, console: Console) -> None:
    page.set_viewport_size(LAPTOP)
    page.goto("/console")
    expect(page.get_by_label("Admin secret or admin key")).to_be_visible()
    check(page)
    console.sign_in(page)
    for path, heading in (
        ("", "Overview"),
        ("/live", "Live"),
        ("/requests", "Requests"),
        ("/requests?model=none", "Requests"),
        ("/playground", "Playground"),
        ("/keys?state=revoked", "Keys"),
        ("/workspaces", "Workspaces and credit"),
        ("/nowhere", "Page not found"),
    ):
        visit(page, path, heading)
        check(page)


def fill(console: Console) -> str:
    """Some of everything. The id of a request of which all is known."""

    def answered(seen: Seen) -> list[Step]:
        is_bad = seen.json["model"] == "bad"
        return whole(error_body("No."), 500) if is_bad else [Head(), *map(Send, openai_frames()), End()]

    console.play(answered)
    limits = {"rpm": 60, "tpm": 100_000, "max_streams": 5, "budget_usd": "0.05", "budget_period": "month"}
    key = console.ask("POST", "/api/keys", {"name": LONG_NAME, "log_content": True, "models": ["smart"], **limits})
    console.ask("POST", f"/api/keys/{console.ask('POST', '/api/keys', {'name': 'gone'})['id']}/revoke", {})
    space = console.ask("POST", "/api/workspaces", {"name": LONG_NAME, "prepaid": True})
    console.ask("POST", "/api/credits", {"workspace": space["id"], "amount_usd": "5", "note": "for a start"})
    for model, secret in (("bad", None), ("none", None), ("smart", None), ("smart", key["secret"])):
        name = model if model == "smart" else f"up/{model}"
        more = {} if secret is None else {"key": secret}
        reply = console.call(console.gate.ask(model=name, stream=True, **more))
    request_id = reply.header("x-request-id")
    assert request_id is not None
    return request_id


def test_pages_with_something_on_them(page: Page, console: Console) -> None:
    fill(console)
    page.set_viewport_size(LAPTOP)
    console.sign_in(page)
    for path, heading in (
        ("?period=hour&by=key", "Overview"),
        ("/requests", "Requests"),
        ("/requests?model=smart&verdict=completed&min_cost_usd=0.000001", "Requests"),
        ("/workspaces", "Workspaces and credit"),
        ("/models", "Models and providers"),
        ("/audit", "Audit"),
        ("/settings", "Settings"),
    ):
        visit(page, path, heading)
        check(page)


def test_one_request_while_it_runs_and_afterwards(page: Page, console: Console) -> None:
    request_id = fill(console)
    page.set_viewport_size(LAPTOP)
    console.sign_in(page)
    visit(page, f"/requests/{request_id}", request_id)
    page.get_by_role("button", name="Show content").click()
    for view in ("Conversation", "Frames", "Replay"):
        panel(page, "Content").get_by_role("button", name=view, exact=True).click()
        check(page)
    with streaming(console):
        visit(page, "/live", "Live")
        expect(page.get_by_role("region", name="Running requests")).to_be_visible()
        check(page)
        page.get_by_role("region", name="Running requests").get_by_role("link").first.click()
        expect(page.get_by_role("button", name="Stop")).to_be_visible()
        check(page)


def test_the_playground_with_answers(page: Page, console: Console, watch: PageWatch) -> None:
    page.set_viewport_size(LAPTOP)
    console.sign_in(page, path="/playground?model=smart&compare=1")
    page.get_by_label("Model 2", exact=True).fill("up/other")
    page.get_by_label("Prompt", exact=True).fill("What is a weir?")
    page.get_by_role("button", name="Send", exact=True).click()
    for name in ("smart", "up/other"):
        expect(panel(page, name).get_by_role("status")).to_contain_text("Done")
    for fold in page.locator("form details").all():
        fold.locator("summary").click()
    check(page)
    watch.expect("status of 502 .*/api/playground/chat")
    console.play(whole(error_body("No."), 500))
    visit(page, "/playground?model=smart", "Playground")
    page.get_by_label("Prompt", exact=True).fill("What is a weir?")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(panel(page, "Answer").get_by_role("alert")).to_be_visible()
    check(page)


def test_dialogs(page: Page, console: Console) -> None:
    fill(console)
    page.set_viewport_size(LAPTOP)
    console.sign_in(page)
    visit(page, "/keys", "Keys")
    page.get_by_role("button", name="Create a key").click()
    page.get_by_role("button", name="Create key").click()  # and it has no name
    check(page)
    page.get_by_label("Name", exact=True).fill("new")
    page.get_by_role("button", name="Create key").click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Copy").first).to_be_visible()
    check(page)
    visit(page, "/keys", "Keys")
    page.get_by_role("link", name=LONG_NAME, exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Rotate")).to_be_visible()
    check(page)
    for deed in ("Change", "Rotate", "Revoke", "Erase content"):
        dialog.get_by_role("button", name=deed, exact=True).click()
        expect(dialog.get_by_role("heading", name=LONG_NAME, exact=True)).to_have_count(0)
        check(page)
        page.keyboard.press("Escape")
        expect(dialog.get_by_role("heading", name=LONG_NAME, exact=True)).to_be_visible()
    visit(page, "/workspaces", "Workspaces and credit")
    for deed in ("Create a workspace", f"Top up {LONG_NAME}", f"Change {LONG_NAME}"):
        page.get_by_role("button", name=deed, exact=True).click()
        check(page)
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
