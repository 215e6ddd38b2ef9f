"""A page of another site in a real browser: with `[server.cors]` it reads a stream and an error, else nothing."""

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from support.console_server import TOML, Console, served_console
from support.gateway import KEY
from support.script import End, Head, Send, Wait
from support.serve_process import BEGUN, REST

ASK = """async ([url, key]) => {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json", "x-stainless-lang": "js" };
  const body = JSON.stringify({ model: "smart", stream: true, messages: [{ role: "user", content: "Say hello." }] });
  try {
    const answer = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body });
    window.reader = answer.body.getReader();
    const first = new TextDecoder().decode((await window.reader.read()).value);
    return { status: answer.status, id: answer.headers.get("x-request-id"), first };
  } catch (reason) {
    return { refused: reason.name };
  }
}"""
READ_REST = """async () => {
  let text = "";
  for (let part = await window.reader.read(); !part.done; part = await window.reader.read()) {
    text += new TextDecoder().decode(part.value);
  }
  return text;
}"""
READ_API = """async ([url]) => {
  try { return (await fetch(`${url}/api/session`)).status; } catch (reason) { return reason.name; }
}"""


class _Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>another site</title>")

    def log_message(self, *_: object) -> None:
        """Not on the output of the tests."""


@pytest.fixture
def site() -> Iterator[str]:
    """The origin of a page."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Site) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def page(browser: Browser, site: str) -> Iterator[Page]:
    page = browser.new_page()
    page.goto(site)
    yield page
    page.close()


def ask(page: Page, console: Console, key: str) -> Any:
    """The head of the answer and its first piece, or why there is none."""
    return page.evaluate(ASK, [console.base_url, key])


def test_a_page_of_an_allowed_origin_reads_a_stream_and_an_error(page: Page, site: str, tmp_path: Path) -> None:
    with served_console(tmp_path, f'[server.cors]\norigins = ["{site}"]\n{TOML}') as console:
        go_on = asyncio.Event()
        console.play(lambda _: [Head(), Send(BEGUN), Wait(go_on), Send(REST), End()])
        answer = ask(page, console, KEY)
        assert (answer["status"], answer["id"][:4]) == (200, "req_")
        assert "[DONE]" not in answer["first"], "it is read while it arrives"
        console.soon(go_on.set)
        assert page.evaluate(READ_REST).endswith("data: [DONE]\n\n")
        error = ask(page, console, "sk-of-nobody")
        assert error["status"] == 401
        assert "invalid_api_key" in error["first"]
        assert page.evaluate(READ_API, [console.base_url]) == "TypeError", "the console's API is for no other site"


def test_a_page_of_another_origin_reads_nothing(page: Page, tmp_path: Path) -> None:
    with served_console(tmp_path, f'[server.cors]\norigins = ["https://app.example.com"]\n{TOML}') as console:
        assert ask(page, console, KEY) == {"refused": "TypeError"}
        assert console.upstream.requests == [], "the preflight was refused: nothing was sent"
