"""The first visit after the first start, with nothing configured: one button leads to a streamed answer."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen

from playwright.sync_api import Browser, expect

from streamweir.upstream.local import why_unavailable
from support.page_elements import figure, panel, visit
from support.page_monitor import PageWatch
from support.serve_process import PROGRAM, command_of
from support.web import needs_page

ANSWERED_MS = 120_000
"""The embedded model may have to share its processors with other tests."""


@contextmanager
def started(folder: Path) -> Iterator[dict[str, str]]:
    """What it says to whoever started it, by the first word of a line."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [*PROGRAM, *command_of(folder, None)]
    with Popen(command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, env=environ, text=True) as process:  # noqa: S603
        try:
            assert process.stdout is not None
            said: dict[str, str] = {}
            while "admin" not in said:
                line = process.stdout.readline()
                assert line, f"it ended: {said}"
                said.update(re.findall(r"^  (\w+) +(\S+)", line))
            yield said
        finally:
            process.terminate()


@needs_page
def test_the_first_steps_lead_to_an_answer(browser: Browser, tmp_path: Path) -> None:
    with started(tmp_path) as said:
        base_url = said["console"].removesuffix("/console")
        with browser.new_context(base_url=base_url, reduced_motion="reduce") as context:
            watch, page = PageWatch(context, base_url), context.new_page()
            page.goto("/")
            page.get_by_label("Admin secret or admin key").fill(said["admin"])
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("heading", name="No requests yet")).to_be_visible()
            model = "local/smollm2" if why_unavailable() is None else "sim/hello"
            page.get_by_role("link", name=f"Send a request to {model}").click()
            answer = panel(page, "Answer")
            expect(answer.get_by_role("status")).to_have_text(re.compile("Streaming|Done"), timeout=ANSWERED_MS)
            expect(answer.get_by_role("status")).to_have_text(re.compile("^Done"), timeout=ANSWERED_MS)
            expect(figure(answer, "Tokens out")).to_have_text(re.compile("[1-9]"))
            expect(figure(answer, "Price")).not_to_have_text("–")
            visit(page, "Overview")
            expect(page.get_by_role("link", name=re.compile("^Requests 1"))).to_be_visible()
            watch.check()
