"""A real browser before a real gateway, for tests that are plain functions.

The browser is that of the package: while it is open an event loop of Playwright's runs in this thread, so that no
asynchronous test could. It is closed before the next test of another folder, and there is none in this one.
What a page looked like when its test failed is kept in `build/console-failures`.
"""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from streamweir.console.assets import Assets
from support.chromium import find_chromium
from support.console_server import Console, served_console
from support.deadlines import WAIT_TIMEOUT_S
from support.page_monitor import PageWatch
from support.web import NODE, ROOT

WAIT_TIMEOUT_MS = WAIT_TIMEOUT_S * 1000
FAILURES = ROOT / "build" / "console-failures"
HAS_FAILED = pytest.StashKey[bool]()
FLAGS = (
    "--no-sandbox",  # refused to root, and in containers
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # nothing leaves the machine, whatever a page does
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[HAS_FAILED] = report.failed
    return report


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    found = find_chromium()
    if found is None:
        pytest.skip("there is no Chromium: neither STREAMWEIR_CHROMIUM nor PATH leads to one, nor could make get one")
    with pytest.MonkeyPatch.context() as patch:
        if NODE.exists():  # Playwright brings one, which wants a library that a bare Debian lacks
            patch.setenv("PLAYWRIGHT_NODEJS_PATH", str(NODE))
        expect.set_options(timeout=WAIT_TIMEOUT_MS)
        with sync_playwright() as playwright:
            environ: dict[str, str | float | bool] = {**os.environ, **found.environ}
            browser = playwright.chromium.launch(
                executable_path=found.program, args=list(FLAGS), env=environ, timeout=WAIT_TIMEOUT_MS
            )
            yield browser
            browser.close()


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    if not Assets().has_page:
        pytest.skip("the console is not built: `make install` says why")
    with served_console(tmp_path) as served:
        yield served


@pytest.fixture
def context(browser: Browser, console: Console) -> Iterator[BrowserContext]:
    context = browser.new_context(base_url=console.base_url, reduced_motion="reduce", locale="en-GB")
    context.set_default_timeout(WAIT_TIMEOUT_MS)
    yield context
    context.close()


@pytest.fixture
def watch(context: BrowserContext, console: Console) -> Iterator[PageWatch]:
    watch = PageWatch(context, console.base_url)
    yield watch
    watch.check()


@pytest.fixture
def page(context: BrowserContext, watch: PageWatch, request: pytest.FixtureRequest) -> Iterator[Page]:  # noqa: ARG001
    """Watched from its first byte on."""
    page = context.new_page()
    yield page
    if request.node.stash.get(HAS_FAILED, False):
        page.screenshot(path=FAILURES / f"{request.node.name}.png")
