"""Some of everything for the pages of the console to show, and the way to a page by its address."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page, expect

from support.answers import error_body, openai_frames
from support.console_server import Console
from support.gateway import chat_request
from support.raw_client import RawClient
from support.script import End, Head, Seen, Send, Step, Wait, whole

LONG_NAME = "the-very-long-name-of-a-service-that-nobody-wanted-to-shorten-00"


KEPT = f"Completed · smart · {LONG_NAME}"
"""The title of the page of the request that `fill` gives."""


def open_page(page: Page, path: str, heading: str) -> None:
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
