"""The example of a page that resumes (examples/browser/resume.js): another site, a way that loses connections."""

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from streamweir.core.verdict import Verdict
from support.answers import openai_frames, token_steps
from support.console_server import TOML, Console, served_console
from support.cutting_proxy import CuttingProxy
from support.gateway import KEY
from support.script import Head, Send, Wait
from support.web import ROOT

CUTS = (700, 0, 500)
ASK = """async ([url, key]) => {
  const { stream } = await import("/resume.js");
  const texts = [];
  for await (const data of stream(url, key, { model: "smart", messages: [{ role: "user", content: "Hello" }] })) {
    texts.push(data === "[DONE]" ? data : JSON.parse(data).choices[0]?.delta.content ?? "");
  }
  return texts.join("");
}"""
LEAVE = """async ([url, key]) => {
  const { stream } = await import("/resume.js");
  const leave = new AbortController();
  try {
    const body = { model: "smart", messages: [{ role: "user", content: "Hello" }] };
    for await (const data of stream(url, key, body, { signal: leave.signal })) {
      if (data.includes("content")) leave.abort();
    }
  } catch (reason) { return reason.name; }
}"""
REFUSED = """async ([url]) => {
  const { stream } = await import("/resume.js");
  try { for await (const _ of stream(url, "sk-of-nobody", { messages: [] })); } catch (reason) { return reason.status; }
}"""


class _Site(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Not on the output of the tests."""


@pytest.fixture
def site() -> Iterator[str]:
    """The origin of a page that has the example."""
    handler = partial(_Site, directory=str(ROOT / "examples" / "browser"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def page(browser: Browser, site: str) -> Iterator[Page]:
    page = browser.new_page()
    page.goto(f"{site}/")
    yield page
    page.close()


@pytest.fixture
def console(site: str, tmp_path: Path) -> Iterator[Console]:
    with served_console(tmp_path, f'[server.cors]\norigins = ["{site}"]\n{TOML}') as console:
        yield console


def settled(console: Console) -> Verdict | None:
    """Of the one request."""
    (record,) = console.call(console.gate.settled())
    return record.verdict


def test_a_page_shows_one_uninterrupted_answer(page: Page, console: Console) -> None:
    words = [f"word{number} " for number in range(30)]
    console.play(token_steps(openai_frames(words)))
    proxy = CuttingProxy(console.gate.address, CUTS)
    console.call(proxy.__aenter__())
    try:
        assert page.evaluate(ASK, [proxy.base_url, KEY]) == "".join(words) + "[DONE]"
        assert proxy.done == len(CUTS)
        assert settled(console) is Verdict.COMPLETED
        assert len(console.upstream.requests) == 1
    finally:
        console.call(proxy.__aexit__(None, None, None))


def test_a_page_that_leaves_says_so(page: Page, console: Console) -> None:
    never = asyncio.Event()
    console.play([Head(), Send(b"".join(openai_frames()[:3])), Wait(never)])
    assert page.evaluate(LEAVE, [console.base_url, KEY]) == "AbortError"
    assert settled(console) is Verdict.CLIENT_GONE
    console.soon(never.set)


def test_a_refusal_is_not_tried_again(page: Page, console: Console) -> None:
    assert page.evaluate(REFUSED, [console.base_url]) == 401
