"""What comes from outside is text wherever it is shown: two hundred texts that would be more, if anybody let them.

They are what a model says, what providers complain of, what callers name: models, keys, themselves. Every page that
shows them is visited. Nothing may happen (`support.page_monitor`), nothing may be made of them, and they are read as
they stand. All two hundred go through each table, list and answer; of the pages about one of them a few are opened,
and in `make soak` all.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import httpx2
from playwright.sync_api import Locator, Page, expect
from sqlalchemy import Connection

from conftest import SOAKS
from console.payloads import PAYLOADS
from streamweir.console.assets import STATIC
from streamweir.policy.permission import Role
from streamweir.store.db.clock import now_ms
from streamweir.store.keys.people import PersonSpec, create_person
from support.answers import error_body, error_frame, openai_frames
from support.console_server import Console
from support.console_session import storage_of
from support.deadlines import WAIT_TIMEOUT_S
from support.gateway import KEY, chat_request, text_of
from support.page_elements import panel
from support.page_monitor import PageWatch
from support.raw_client import RawClient
from support.script import End, Head, Seen, Send, Step, Wait, whole

ALL = "\n".join(PAYLOADS)
OPENED_EVERY = 1 if SOAKS else 40
LONGEST_KEY_NAME = 64
CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ALL}}

OWN = """
html head meta title link script body noscript div span a nav ul ol li form input select option button p main header
h1 h2 h3 section dl dt dd table thead tbody tfoot tr th td pre code time bdi details summary textarea label canvas
dialog datalist fieldset legend strong b figure figcaption
"""
"""What the page is made of. None of it has a handler in its markup, or an address that is not ours."""

FIND_INTRUDERS = """(own) => {
  const found = [];
  for (const each of document.querySelectorAll("*")) {
    if (!own.includes(each.localName)) found.push(each.localName);
    for (const { name, value } of each.attributes) {
      if (name.startsWith("on") || name === "srcdoc") found.push(`${each.localName} ${name}`);
      if (!["href", "src", "action", "formaction", "ping", "data"].includes(name)) continue;
      const url = new URL(value, location.href);
      if (url.origin !== location.origin || !/^\\/(console|api\\/requests\\/export)/.test(url.pathname)) {
        found.push(`${each.localName} ${name}=${value}`);
      }
    }
  }
  return [found, document.querySelectorAll("script, style, link, meta, noscript").length];
}"""


def own_heads() -> int:
    """What the built page has of what only it may have."""
    return len(re.findall("<(?:script|style|link|meta|noscript)\\b", (STATIC / "index.html").read_text()))


def check_is_text(page: Page) -> None:
    found, heads = page.evaluate(FIND_INTRUDERS, OWN.split())
    assert (found, heads) == ([], own_heads())


def missing_of(page: Page, texts: list[str]) -> list[str]:
    check_is_text(page)
    shown: str = page.locator("main").evaluate("(main) => main.textContent")
    return [text for text in texts if text not in shown]


def check_shown(page: Page, texts: list[str]) -> None:
    assert missing_of(page, texts) == []


def move(page: Page, path: str) -> None:
    """As a link does, and faster than to load the page anew."""
    page.evaluate("(to) => { history.pushState(null, '', to); dispatchEvent(new PopStateEvent('popstate')); }", path)


def texts_of(found: Locator) -> list[str]:
    texts: list[str] = found.evaluate_all("(all) => all.map((each) => each.textContent)")
    return texts


def said(**delta: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return b"data: %b\n\n" % json.dumps({"object": "chat.completion.chunk", "choices": [choice]}).encode()


def make_keys(console: Console) -> dict[str, str]:
    """The secrets of those whose name was taken."""
    made = {}
    headers = {"authorization": f"Bearer {console.secret}"}
    with httpx2.Client(base_url=console.base_url, headers=headers, timeout=WAIT_TIMEOUT_S, trust_env=False) as client:
        for payload in PAYLOADS:
            reply = client.post("/api/keys", json={"name": payload})
            assert reply.status_code == (201 if is_key_name(payload) else 400), payload
            if is_key_name(payload):
                made[payload] = reply.json()["secret"]
    return made


def is_key_name(payload: str) -> bool:
    return len(payload) <= LONGEST_KEY_NAME and payload.isprintable() and payload == payload.strip()


def is_model(payload: str) -> bool:
    return payload.isprintable() and {".", ".."}.isdisjoint(payload.split("/"))


def request_of(payload: str, keys: dict[str, str], *, stream: bool) -> bytes:
    agent = (("user-agent", payload),) if payload.isascii() and payload.isprintable() else ()
    return chat_request(model=f"up/{payload}", key=keys.get(payload, KEY), headers=agent, stream=stream)


async def begin(console: Console, request: bytes) -> RawClient:
    """A stream whose first piece has come; or the end of a request that was refused."""
    client = await console.gate.connect()
    await client.send(request)
    if (await client.head()).status == 200:
        await client.chunk()
    return client


@contextmanager
def all_streaming(console: Console, keys: dict[str, str]) -> Iterator[None]:
    go_on, frames = asyncio.Event(), openai_frames()
    console.play([Head(), *map(Send, frames[:3]), Wait(go_on), *map(Send, frames[3:]), End()])

    async def begin_all() -> list[RawClient]:
        return await asyncio.gather(*(begin(console, request_of(each, keys, stream=True)) for each in PAYLOADS))

    async def end_all(clients: list[RawClient]) -> None:
        go_on.set()
        for client in clients:
            client.close()

    clients = console.call(begin_all())
    try:
        yield
    finally:
        console.call(end_all(clients))


def fail_all(console: Console, keys: dict[str, str]) -> None:
    """Each target once, so that it is listed as one that has failed."""

    def failing(seen: Seen) -> list[Step]:
        return whole(error_body(seen.json["model"]), 500)

    few = asyncio.Semaphore(16)

    async def ask(payload: str) -> int:
        async with few, await console.gate.connect() as client:
            await client.send(request_of(payload, keys, stream=False))
            return (await client.response()).status

    async def ask_all() -> list[int]:
        return await asyncio.gather(*map(ask, PAYLOADS))

    console.play(failing)
    statuses = console.call(ask_all())
    assert statuses == [502 if is_model(each) else 404 for each in PAYLOADS]


def test_names_are_text_on_every_page(page: Page, console: Console) -> None:
    keys = make_keys(console)
    models = [each for each in PAYLOADS if is_model(each)]
    assert len(keys) > 130
    assert len(models) > 180
    console.sign_in(page, path="/live")
    with all_streaming(console, keys):
        rows = page.get_by_role("region", name="Running requests").locator("tbody").get_by_role("row")
        expect(rows).to_have_count(len(models))
        check_shown(page, [*(f"up/{each}" for each in models), *keys])
    expect(page.get_by_text("No running requests")).to_be_visible()
    fail_all(console, keys)
    check_lists(page, keys, models)
    check_narrowed(page, console, models)


def check_lists(page: Page, keys: dict[str, str], models: list[str]) -> None:
    """Those with a name in each row, page after page until all have been seen."""
    for path, table, older, names in (
        ("/keys", "Keys", "Newer keys", list(keys)),
        ("/requests?failed=true", "Requests", "Older", [*(f"up/{each}" for each in models), *keys]),
        ("/audit", "Audit log", "Older", list(keys)),
        ("/models?tab=providers", "Targets", None, models),
    ):
        move(page, f"/console{path}")
        rows = page.get_by_role("region", name=table, exact=True).locator("tbody").get_by_role("row")
        expect(rows.first).to_be_visible()
        missing = missing_of(page, names)
        while missing and older is not None:
            before = rows.first.text_content() or ""
            page.get_by_role("button", name=older, exact=True).click()
            expect(rows.first).not_to_have_text(before)
            missing = missing_of(page, missing)
        assert missing == []
    move(page, "/console/playground")
    expect(page.get_by_label("Key", exact=True)).to_be_visible()
    check_shown(page, list(keys))


def check_narrowed(page: Page, console: Console, models: list[str]) -> None:
    """Pages about one name: the overview by each grouping and narrowed to it, its requests, and one of them."""
    for by in ("model", "key", "provider"):
        move(page, f"/console?by={by}")
        expect(page.get_by_role("region", name=f"Usage by {by}")).to_be_visible()
        check_is_text(page)
    ids = {row["model"]: row["request_id"] for row in console.ask("GET", "/api/requests?limit=1000")["data"]}
    for model in models[::OPENED_EVERY]:
        name = f"up/{model}"
        move(page, f"/console?{urlencode({'model': name})}")
        narrowed = page.get_by_role("group", name="Filters")
        expect(narrowed.get_by_role("button", name=f"model {name}: remove this filter", exact=True)).to_be_visible()
        check_shown(page, [name])
        move(page, f"/console/requests?{urlencode({'model': name})}")
        expect(
            page.get_by_role("region", name="Requests", exact=True).locator("tbody").get_by_role("row")
        ).to_have_count(2)
        check_shown(page, [name])
        move(page, f"/console/requests/{ids[name]}")
        expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
        check_shown(page, [name])


def test_content_is_text_while_it_streams_and_when_it_is_stored(page: Page, console: Console) -> None:
    frames = openai_frames([f"{each}\n" for each in PAYLOADS], finish="tool_calls")
    console.play([Head(), *map(Send, [said(reasoning_content=ALL), said(tool_calls=[CALL]), *frames]), End()])
    key = console.ask("POST", "/api/keys", {"name": "kept", "log_content": True})
    console.sign_in(page, path=f"/playground?model=smart&key={key['id']}")
    page.get_by_label("Prompt", exact=True).fill(ALL)
    page.get_by_role("button", name="Send", exact=True).click()
    answer = panel(page, "Answer")
    expect(answer.get_by_role("status")).to_contain_text("Done")
    check_shown(page, [ALL, *PAYLOADS])
    page.get_by_label("Whole frames").check()
    check_shown(page, [ALL, *PAYLOADS])
    raw = texts_of(page.get_by_role("region", name="Raw frames").locator("pre"))
    uncut = [each for each in raw if not each.endswith("characters more")]
    assert text_of("".join(f"{each}\n\n" for each in uncut).encode()) == f"{ALL}\n"

    answer.locator("a[href*='/requests/']").click()
    page.get_by_role("button", name="Show content").click()
    shown = panel(page, "Content")
    expect(shown.get_by_role("heading", name="Answer")).to_be_visible()
    prompt = texts_of(shown.locator(".said-turn:not(.is-answer) .said-text"))
    assert prompt == [ALL.replace("\r\n", "\n")]
    check_shown(page, [ALL, *PAYLOADS])
    for language in ("Python", "JavaScript", "fetch", "curl"):
        page.get_by_role("button", name=language, exact=True).click()
        check_is_text(page)
    shown.get_by_role("button", name="Frames", exact=True).click()
    expect(shown.get_by_role("heading", name="To the caller")).to_be_visible()
    while shown.get_by_role("button", name="Show more").count():
        shown.get_by_role("button", name="Show more").click()
    check_is_text(page)
    shown.get_by_role("button", name="Replay", exact=True).click()
    page.get_by_label("Moment", exact=True).press("End")
    expect(shown.locator(".said-text").last).to_have_text(f"{ALL}\n")
    check_shown(page, [ALL])


def test_what_providers_complain_of_is_text(page: Page, console: Console, watch: PageWatch) -> None:
    """Of a refusal the caller is told the beginning, of a failure nothing: the frames have it all."""
    key = console.ask("POST", "/api/keys", {"name": "kept", "log_content": True})
    watch.expect("status of 400 .*/api/playground/chat")
    console.sign_in(page, path=f"/playground?model=smart&key={key['id']}")
    answer = panel(page, "Answer")
    refusal = whole(error_body(ALL, "invalid_request_error"), 400)
    failure: list[Step] = [Head(), *map(Send, openai_frames()[:3]), Send(error_frame(error_body(ALL))), End()]
    for script, state, told in ((refusal, "Refused", PAYLOADS[0]), (failure, "Failed", "The provider failed")):
        console.play(script)
        page.get_by_label("Prompt", exact=True).fill("Say it.")
        page.get_by_role("button", name="Send", exact=True).click()
        expect(answer.get_by_role("status")).to_contain_text(state)
        expect(answer.get_by_role("alert")).to_contain_text(told)
        check_is_text(page)
    answer.locator("a[href*='/requests/']").click()
    page.get_by_role("button", name="Show content").click()
    shown = panel(page, "Content")
    shown.get_by_role("button", name="Frames", exact=True).click()
    page.get_by_role("button", name="more characters").first.click()
    check_shown(page, [json.dumps(each, ensure_ascii=False)[1:-1] for each in PAYLOADS])


def test_what_a_member_calls_its_keys_is_text(page: Page, console: Console) -> None:
    """It has those pages that others have, with rows of its own. Its models are named by whoever asks."""
    console.join(page, "Eve", "member", "default")
    (eve,) = (each["id"] for each in console.ask("GET", "/api/people")["data"] if each["name"] == "Eve")
    names = [each for each in PAYLOADS if is_key_name(each)][::OPENED_EVERY]
    for name in names:
        made = console.ask("POST", "/api/keys", {"name": name, "person": eve})
        console.call(console.gate.ask(model="smart", key=made["secret"]))
    console.flush()
    for path, table in (("/keys", "Keys"), ("/requests", "Requests"), ("", "Usage by model")):
        page.goto(f"/console{path}")
        expect(page.get_by_role("region", name=table, exact=True)).to_be_visible()
        check_shown(page, names)
    console.ask("PATCH", "/api/workspaces/default/member-keys", {"models": PAYLOADS[:1]})
    page.goto("/console/keys?new=1")
    expect(page.get_by_role("dialog", name="New key")).to_be_visible()
    check_is_text(page)


def test_what_people_and_callers_call_themselves_is_text(page: Page, console: Console) -> None:
    """People's names may be the claims of an identity provider."""
    names = [each for each in PAYLOADS if is_key_name(each)]
    specs = [PersonSpec(name=each, role=Role.OWNER) for each in names]

    def invite(conn: Connection) -> None:
        for spec in specs:
            create_person(conn, spec, actor=f"person:{spec.name}", at_ms=now_ms())

    console.call(storage_of(console.gate).store.write(invite))
    some = names[::OPENED_EVERY]
    for name in some:
        attributes: dict[str, Any] = {"user": name, "metadata": {"team": name, "session_id": name}}
        assert console.call(console.gate.ask(model="smart", stream=True, **attributes)).status == 200
    console.flush()
    console.sign_in(page, path="/people")
    for path, table, older in (("/people", "People", "Next page"), ("/audit", "Audit log", "Older")):
        move(page, f"/console{path}")
        rows = page.get_by_role("region", name=table, exact=True).locator("tbody").get_by_role("row")
        expect(rows.first).to_be_visible()
        missing = missing_of(page, names)
        while missing:
            before = rows.first.text_content() or ""
            page.get_by_role("button", name=older, exact=True).click()
            expect(rows.first).not_to_have_text(before)
            missing = missing_of(page, missing)
    move(page, "/console/people")
    page.get_by_role("region", name="People", exact=True).locator("tbody").get_by_role("link").first.click()
    expect(page.get_by_role("dialog", name=names[0], exact=True)).to_be_visible()
    check_is_text(page)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page).not_to_have_url(re.compile("show="))  # the page is told a moment after the dialog has gone
    move(page, "/console")
    for kind in ("End users", "Tags", "Sessions"):
        page.get_by_role("group", name="Said by callers").get_by_role("button", name=kind).click()
        expect(page.get_by_role("region", name=kind, exact=True)).to_be_visible()
        check_shown(page, some)
    token = console.invite(some[1] + "!", "viewer")
    page.goto(f"/console/invitation#{token}")
    expect(page.get_by_text("Welcome, ")).to_be_visible()
    check_shown(page, [some[1] + "!"])
