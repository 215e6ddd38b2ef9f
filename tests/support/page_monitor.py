"""What a page does behind a test's back, written down: nothing of it may happen unless the test expects it.

Dialogs, requests to other hosts, errors on the console, errors that nobody catches, and whatever the content
security policy forbids. Each is one line of text; `expect` excuses the lines that a pattern is found in, and
`check` fails where a line is left, or where a pattern has found none.
"""

import re
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Request, WebError

from support.deadlines import WAIT_TIMEOUT_S

TELL_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy violated: ${event.effectiveDirective} ${event.blockedURI} ${event.sample}`));
"""
ASKS_WHO_IT_IS = re.compile(r"console: .* status of 401 .*/api/session$")
"""The page's first request: the browser logs the answer to an unauthenticated one as an error."""
_HOSTLESS = frozenset({"data", "blob", "about"})


class PageWatch:
    def __init__(self, context: BrowserContext, base_url: str) -> None:
        self._context = context
        self._lines: list[str] = []
        self._host = urlsplit(base_url).netloc
        self._expected: list[re.Pattern[str]] = []
        context.set_default_timeout(WAIT_TIMEOUT_S * 1000)
        context.add_init_script(TELL_VIOLATIONS)
        context.on("dialog", self._dialog)
        context.on("request", self._request)
        context.on("console", self._console)
        context.on("weberror", self._error)

    def expect(self, pattern: str) -> None:
        """Once or more often."""
        self._expected.append(re.compile(pattern))

    def seen(self) -> list[str]:
        """All of it, so far: what a page has begun to tell is waited for."""
        for page in self._context.pages:
            page.evaluate("() => new Promise((done) => setTimeout(done))")
        return self._lines

    def check(self) -> None:
        lines = self.seen()
        left = [line for line in lines if not any(each.search(line) for each in (*self._expected, ASKS_WHO_IT_IS))]
        missing = [each.pattern for each in self._expected if not any(each.search(line) for line in lines)]
        assert not left, f"nobody expected of the page: {left}"
        assert not missing, f"it was expected of the page, and did not happen: {missing}, only {lines}"

    def _dialog(self, dialog: Dialog) -> None:
        self._lines.append(f"dialog: {dialog.type} {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Request) -> None:
        url = urlsplit(request.url)
        if url.scheme not in _HOSTLESS and url.netloc != self._host:
            self._lines.append(f"foreign: {request.method} {request.url}")

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._lines.append(f"console: {message.text} {message.location['url']}")

    def _error(self, error: WebError) -> None:
        self._lines.append(f"error: {error.error}")
