"""`make screenshots`: every page of the console as a picture, at three widths, and on the laptop in both colours.

    python -m scripts.screenshots [--out FOLDER] [--rows N] [--only PART_OF_A_NAME]

A gateway with a month of traffic in its books (`bench.console_data`) stands before an upstream that does as it is
told; a few requests go through it while the pictures are taken, so that something streams. A second one has never
seen a request. What is on the pictures is the same each time, but for the moments and the figures of those requests.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from bench.console_data import make_books
from playwright.async_api import Browser, Page, ViewportSize, async_playwright, expect
from scripts.screenshot_setup import QUESTION, DemoGateway, furnish, opened, reload

from support.chromium import find_chromium
from support.web import NODE

OUT = Path(__file__).parents[1] / "build" / "screenshots"
ROWS = 20_000
LAPTOP: ViewportSize = {"width": 1440, "height": 900}
WIDTHS: dict[str, ViewportSize] = {
    "phone": {"width": 390, "height": 844},
    "laptop": LAPTOP,
    "wide": {"width": 1920, "height": 1080},
}
HIGHEST = 6000
Scheme = Literal["light", "dark"]
PATIENCE_MS = 20_000
PAINTED_MS = 400
"""Until charts are redrawn, in other colours or another size. There is no event for it."""


@dataclass(frozen=True)
class Shot:
    name: str
    path: str
    do: Callable[[Page], Awaitable[None]] | None = None
    """What is done on the page before."""
    is_cut: bool = False
    """Only what is seen of it without scrolling."""


async def send_prompt(page: Page) -> None:
    if not await page.get_by_label("Key", exact=True).input_value():
        await page.get_by_role("button", name="Create a key for the playground").click()
    await page.get_by_label("Prompt", exact=True).fill(QUESTION)
    await page.get_by_role("button", name="Send", exact=True).click()
    done = page.get_by_role("status").filter(has_text="Done")
    await expect(done).to_have_count(2 if "compare" in page.url else 1)
    await expect(page.get_by_role("definition").filter(has_text="$").first).to_be_visible()


async def show_said(page: Page) -> None:
    await page.get_by_role("button", name="Show content").click()
    await expect(page.get_by_role("button", name="Replay", exact=True)).to_be_visible()


async def show_frames(page: Page) -> None:
    await show_said(page)
    await page.get_by_role("button", name="Frames", exact=True).click()


async def open_new_key(page: Page) -> None:
    await page.get_by_role("button", name="Create a key").click()


async def open_secret(page: Page) -> None:
    await open_new_key(page)
    width = (page.viewport_size or LAPTOP)["width"]  # there is one at each
    await page.get_by_label("Name", exact=True).fill(f"nightly-report-{width}")
    await page.get_by_role("button", name="Create key").click()
    await expect(page.get_by_role("button", name="Copy").first).to_be_visible()


async def open_key(page: Page) -> None:
    await page.get_by_role("link", name="helpdesk", exact=True).first.click()
    await expect(page.get_by_role("button", name="Rotate")).to_be_visible()


async def open_own_key(page: Page) -> None:
    await page.get_by_role("link", name="helpdesk", exact=True).first.click()
    await expect(page.get_by_role("dialog").get_by_role("button", name="Revoke")).to_be_visible()


async def see_streams(page: Page) -> None:
    await expect(page.get_by_text("streaming", exact=True).first).to_be_visible()


async def open_person(page: Page) -> None:
    await page.get_by_role("link", name="Ada Lovelace", exact=True).first.click()
    await expect(page.get_by_role("dialog").get_by_role("button", name="Disable")).to_be_visible()


async def open_invitation_form(page: Page) -> None:
    await page.get_by_role("button", name="Invite somebody").click()
    await page.get_by_label("Role", exact=True).select_option("Workspace admin")
    await expect(page.get_by_label("E-mail address", exact=True)).to_be_visible()


async def see_provider(page: Page) -> None:
    await expect(page.get_by_role("button", name="Sign in with Acme")).to_be_visible()


async def open_menu(page: Page) -> None:
    menu = page.get_by_role("button", name="Menu")
    if await menu.is_visible():
        await menu.click()


async def open_columns(page: Page) -> None:
    await page.get_by_role("button", name="Columns").click()


async def unfold(page: Page) -> None:
    await show_said(page)
    for fold in await page.locator(".said details").all():
        await fold.locator("summary").click()


def shots(told: str, refused: str, called: str) -> list[Shot]:
    """`told`: a request that failed over and of which all is kept. `refused`: one that came to nothing. `called`: one
    with tools, in a language that is written from the right."""
    return [
        Shot("cover-overview", "", is_cut=True),
        Shot("cover-request", f"/requests/{told}", is_cut=True),
        Shot("overview", ""),
        Shot("overview-week", "?period=week&by=key"),
        Shot("requests", "/requests"),
        Shot("requests-filtered", "/requests?verdict=upstream_error&provider=openai"),
        Shot("request", f"/requests/{told}", show_said),
        Shot("request-frames", f"/requests/{told}", show_frames),
        Shot("request-refused", f"/requests/{refused}"),
        Shot("request-tools", f"/requests/{called}?failed=false", unfold),
        Shot("requests-columns", "/requests", open_columns),
        Shot("requests-none", "/requests?verdict=shutdown&model=*gpt*&last=day"),
        Shot("playground", "/playground?model=assistant", send_prompt),
        Shot("playground-messages", "/playground?model=assistant&dialect=messages", send_prompt),
        Shot("playground-compare", "/playground?model=assistant&compare=1&model2=claude-sonnet-4-5", send_prompt),
        Shot("keys", "/keys"),
        Shot("key", "/keys", open_key),
        Shot("key-new", "/keys", open_new_key),
        Shot("key-secret", "/keys", open_secret),
        Shot("workspaces", "/workspaces"),
        Shot("workspaces-all", "/workspaces?kind=all"),
        Shot("models", "/models"),
        Shot("models-providers", "/models?tab=providers"),
        Shot("models-prices", "/models?tab=prices"),
        Shot("menu", "", open_menu, is_cut=True),
        Shot("nowhere", "/nowhere"),
        Shot("audit", "/audit"),
        Shot("settings", "/settings"),
        Shot("settings-defaults", "/settings?show=all&find=server"),
        Shot("live", "/live", see_streams),
    ]


def member_shots(told: str) -> list[Shot]:
    return [
        Shot("member-overview", ""),
        Shot("member-requests", "/requests"),
        Shot("member-request", f"/requests/{told}"),
        Shot("member-keys", "/keys"),
        Shot("member-key", "/keys", open_own_key),
        Shot("member-key-new", "/keys", open_new_key),
    ]


def people_shots() -> list[Shot]:
    """As an owner sees them who has signed in by name."""
    return [
        Shot("people", "/people"),
        Shot("person", "/people", open_person),
        Shot("person-new", "/people", open_invitation_form),
        Shot("account", "/account"),
    ]


def gate_shots(invitation: str) -> list[Shot]:
    """Before anybody has signed in."""
    return [
        Shot("signin-provider", "", see_provider),
        Shot("invitation", f"/invitation#{invitation}", see_provider),
        Shot("invitation-used", "/invitation#sw-invite-used"),
    ]


EMPTY = [
    Shot("first-overview", ""),
    Shot("first-live", "/live"),
    Shot("first-requests", "/requests"),
    Shot("first-playground", "/playground"),
    Shot("first-keys", "/keys"),
    Shot("first-workspaces", "/workspaces"),
    Shot("first-models", "/models"),
    Shot("first-audit", "/audit"),
    Shot("first-settings", "/settings"),
    Shot("first-people", "/people"),
]


async def sign_in(page: Page, demo: DemoGateway) -> None:
    await page.goto(f"{demo.program.base_url}/console")
    await page.get_by_role("button", name="Secret or key").click()
    await page.get_by_label("Admin secret or admin key").fill(demo.secret)
    await page.get_by_role("button", name="Sign in", exact=True).click()
    await expect(page.get_by_role("navigation", name="Pages")).to_be_visible()


async def take(page: Page, out: Path, name: str, width: str, is_cut: bool = False) -> None:
    """The window is made as high as the page, for what is beside or behind it must fit."""
    size = WIDTHS[width]
    schemes: tuple[Scheme, ...] = ("light", "dark") if width == "laptop" else ("light",)
    if not is_cut and not await page.get_by_role("dialog").count():
        height: int = await page.evaluate("document.documentElement.scrollHeight")
        await page.set_viewport_size({"width": size["width"], "height": min(max(height, size["height"]), HIGHEST)})
        await page.evaluate("scrollTo(0, 0)")
    for scheme in schemes:
        await page.emulate_media(color_scheme=scheme)
        await page.wait_for_timeout(PAINTED_MS)
        await page.screenshot(path=out / f"{name}-{width}-{scheme}.png", animations="disabled")
    await page.emulate_media(color_scheme="light")
    await page.set_viewport_size(size)


async def take_all(
    browser: Browser, demo: DemoGateway, wanted: Sequence[Shot], out: Path, session: str | None = None
) -> None:
    """`session`: of a person; empty: nobody is signed in. None: signed in with the admin secret."""
    for width, size in WIDTHS.items():
        context = await browser.new_context(
            viewport=size, locale="en-GB", timezone_id="UTC", reduced_motion="reduce", base_url=demo.program.base_url
        )
        context.set_default_timeout(PATIENCE_MS)
        page = await context.new_page()
        if session is None:
            await sign_in(page, demo)
        elif session:
            cookie = {"name": "streamweir", "value": session, "url": demo.program.base_url}
            await context.add_cookies([cookie])  # type: ignore[list-item]
        for shot in wanted:
            await page.goto(f"/console{shot.path}")
            await expect(page.get_by_role("heading", level=1)).to_be_visible()
            await expect(page.get_by_text("Loading …")).to_have_count(0)
            if shot.do is not None:
                await shot.do(page)
            await take(page, out, shot.name, width, shot.is_cut)
        await context.close()


async def picture_month(browser: Browser, folder: Path, rows: int, out: Path, only: str) -> None:
    (folder / "data").mkdir(parents=True)
    filled = await make_books(folder / "data", rows, time.time_ns() // 1_000_000)
    async with opened(folder, filled.secret) as demo, AsyncExitStack() as stack:
        furnished = await furnish(demo)
        await reload(demo, folder / "streamweir.toml")
        for stream in furnished.streams:
            await stack.enter_async_context(stream)
        wanted = [shot for shot in shots(furnished.told, furnished.refused, furnished.called) if only in shot.name]
        await take_all(browser, demo, wanted, out)
        own = [shot for shot in member_shots(furnished.told) if only in shot.name]
        await take_all(browser, demo, own, out, furnished.member)
        named = [shot for shot in people_shots() if only in shot.name]
        await take_all(browser, demo, named, out, furnished.owner)
        outside = [shot for shot in gate_shots(furnished.invitation) if only in shot.name]
        await take_all(browser, demo, outside, out, "")


async def picture_first(browser: Browser, folder: Path, out: Path, only: str) -> None:
    folder.mkdir()
    async with opened(folder, None) as demo:
        for width, size in WIDTHS.items():
            page = await browser.new_page(viewport=size)
            await page.goto(f"{demo.program.base_url}/console")
            await expect(page.get_by_role("button", name="Sign in", exact=True)).to_be_visible()
            await take(page, out, "signin", width)
            await page.close()
        await take_all(browser, demo, [shot for shot in EMPTY if only in shot.name], out)


async def run(out: Path, rows: int, only: str) -> None:
    found = find_chromium()
    if found is None:
        sys.exit("There is no Chromium: STREAMWEIR_CHROMIUM can name one.")
    if NODE.exists():
        os.environ["PLAYWRIGHT_NODEJS_PATH"] = str(NODE)
    expect.set_options(timeout=PATIENCE_MS)
    out.mkdir(parents=True, exist_ok=True)
    environ: dict[str, str | float | bool] = {**os.environ, **found.environ}
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=found.program, args=["--no-sandbox", "--no-proxy-server"], env=environ
        )
        with TemporaryDirectory() as folder:
            await picture_first(browser, Path(folder) / "first", out, only)
            await picture_month(browser, Path(folder) / "month", rows, out, only)
        await browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Pictures of every page of the console.")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--only", default="", help="the pages whose names contain this")
    options = parser.parse_args()
    asyncio.run(run(options.out, options.rows, options.only))
    sys.stdout.write(f"The pictures are in {options.out}\n")


if __name__ == "__main__":
    main()
