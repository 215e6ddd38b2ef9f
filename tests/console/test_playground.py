"""A model is tried by hand: what is seen while it streams, where it is found afterwards, and how it can end."""

import asyncio
import base64
import json
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from playwright.sync_api import Page, expect

from support.accounting_gateway import EACH_DIALECT
from support.answers import TEXTS, error_body, error_frame, openai_frames, token_steps
from support.console_server import Console
from support.page_elements import column, figure, panel, visit
from support.page_monitor import PageWatch
from support.script import End, Hang, Head, Script, Seen, Send, Step, Wait, whole

PROMPT = "What is a weir?"
BEGUN = openai_frames()[:3]
CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}


def halves(go_on: asyncio.Event, frames: Sequence[bytes] = openai_frames(), first: int = 3) -> list[Step]:
    """The first frames, and the rest when the test says so."""
    return [Head(), *map(Send, frames[:first]), Wait(go_on), *map(Send, frames[first:]), End()]


def by_prompt(scripts: dict[str, Sequence[Step]]) -> Script:
    def chosen(request: Seen) -> Sequence[Step]:
        return scripts[request.json["messages"][-1]["content"]]

    return chosen


def chunk(**delta: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return b"data: %b\n\n" % json.dumps({"object": "chat.completion.chunk", "choices": [choice]}).encode()


FOLDED = re.compile(r'^\d\.\d{3}data: {…,"choices":\[{…,"delta":{"content":" from"},…}\],…}$')
IS_AT_END = "box => box.scrollHeight - box.scrollTop - box.clientHeight < 2"
CALLING = [
    chunk(reasoning_content="They want the weather, "),
    chunk(reasoning_content="so I look."),
    chunk(tool_calls=[CALL]),
    chunk(tool_calls=[{"index": 0, "function": {"arguments": '{"city":'}}]),
    chunk(tool_calls=[{"index": 0, "function": {"arguments": ' "Bern"}'}}]),
    *openai_frames((), finish="tool_calls")[1:],
]


def send(page: Page, prompt: str = PROMPT) -> None:
    page.get_by_label("Prompt", exact=True).fill(prompt)
    page.get_by_role("button", name="Send", exact=True).click()


def test_an_answer_streams_and_its_request_is_found_by_the_id_in_a_chunk(page: Page, console: Console) -> None:
    go_on = asyncio.Event()
    console.play(halves(go_on))
    console.sign_in(page)
    visit(page, "Playground")
    page.get_by_label("Model", exact=True).fill("smart")
    send(page)
    key = page.get_by_label("Key", exact=True)
    expect(key).to_be_focused()
    expect(page.get_by_text("Choose a key.")).to_be_visible()
    assert not console.upstream.requests, "no key is used that nobody has chosen"
    key.select_option(label="test (default)")
    send(page)
    answer, frames = panel(page, "Answer"), page.get_by_role("region", name="Raw frames")
    expect(answer.get_by_text("Hello from", exact=True)).to_be_visible()
    expect(answer.get_by_role("status")).to_contain_text("Streaming")
    expect(frames.get_by_role("listitem")).to_have_count(3)
    expect(frames.get_by_role("listitem").last).to_have_text(FOLDED)
    expect(frames.get_by_role("listitem").last).not_to_contain_text("chat.completion.chunk")
    page.get_by_label("Whole frames").check()
    expect(frames.get_by_role("listitem").last).to_contain_text('"object":"chat.completion.chunk"')
    page.get_by_label("Whole frames").uncheck()
    console.soon(go_on.set)
    expect(answer.get_by_text("".join(TEXTS), exact=True)).to_be_visible()
    expect(answer.get_by_role("status")).to_have_text("Donefinish: stop")
    expect(frames).to_contain_text("data: [DONE]")
    expect(figure(answer, "Tokens in")).to_have_text("7")
    expect(figure(answer, "Tokens out")).to_have_text("5")
    expect(figure(answer, "First token")).to_have_text(re.compile(r"\d m?s$"))
    expect(figure(answer, "Price")).to_have_text("$0.00000405")

    request_id = figure(answer, "Request").get_by_role("link").get_attribute("title")
    assert request_id is not None
    found = re.search(r'"id":"(chatcmpl-[^"]+)"', frames.inner_text())
    assert found is not None
    page.get_by_label("Find a request by id").fill(found[1])
    page.get_by_label("Find a request by id").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Completed · smart · test")
    expect(page.get_by_text(request_id, exact=True)).to_be_visible()
    assert page.url == f"{console.base_url}/console/requests/{request_id}"
    expect(panel(page, "Outcome")).to_contain_text("Status 200")

    way = panel(page, "Timeline").get_by_role("listitem")
    names = ["Admission", "Attempt", "First token", "Answer", "Finish", "Settlement"]
    expect(way).to_have_text([re.compile(f"^{name}") for name in names])
    expect(way.nth(1)).to_contain_text("up/gpt-4o-mini")
    expect(way.nth(3)).to_contain_text(re.compile(r"[3-9] chunks, longest gap"))
    strip = page.get_by_role("slider", name="Chunks of the answer over time")
    strip.focus()
    page.keyboard.press("Home")
    expect(strip).to_have_attribute("aria-valuetext", re.compile(r"ms: [1-9] chunks?$"))

    bill = page.get_by_role("region", name="Price calculation")
    expect(bill.get_by_role("row").last).to_have_text("Total$0.00000405")
    lines = column(page, "Price calculation", 3).all_inner_texts()
    assert sum(Decimal(each.removeprefix("$")) for each in lines) == Decimal("0.00000405")
    assert len(lines) == 2
    expect(figure(page.get_by_role("main"), "Price").first).to_have_text("$0.00000405")


def test_reasoning_is_folded_calls_grow_and_stop_reaches_the_upstream(page: Page, console: Console) -> None:
    go_on = asyncio.Event()
    console.play(by_prompt({"call": halves(go_on, CALLING, 4), "hang": [Head(), *map(Send, BEGUN), Hang()]}))
    console.sign_in(page, path="/playground?key=file:test&model=smart")
    send(page, "call")
    answer = panel(page, "Answer")
    expect(answer.get_by_text('{"city":', exact=True)).to_be_visible()
    expect(answer.get_by_text("weather", exact=True)).to_be_visible()
    reasoning = answer.get_by_role("group").filter(has_text="Reasoning 33 characters")
    expect(reasoning.get_by_text("so I look.").last).to_be_hidden()
    reasoning.get_by_text("Reasoning").click()
    expect(reasoning.get_by_text("They want the weather, so I look.").last).to_be_visible()
    console.soon(go_on.set)
    expect(answer.get_by_role("status")).to_have_text("Donefinish: tool calls")
    expect(answer.get_by_text('{ "city": "Bern" }')).to_be_visible()
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_label("Tool result for call_1")).to_be_visible()
    page.get_by_role("button", name="Start over").click()

    send(page, "hang")
    expect(answer.get_by_text("Hello from", exact=True)).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(answer.get_by_role("status")).to_have_text("Stopped")
    console.call(console.upstream.aborted(1))
    expect(answer.get_by_text("Hello from", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()


def test_the_answer_of_each_dialect_is_read(page: Page, console: Console) -> None:
    console.play(lambda seen: token_steps(openai_frames(("In ", seen.json["messages"][-1]["content"]))))
    console.sign_in(page, path="/playground?key=file:test&model=smart")
    answer, frames = panel(page, "Answer"), page.get_by_role("region", name="Raw frames")
    for dialect in EACH_DIALECT:
        page.get_by_label("API", exact=True).select_option(dialect)
        send(page, dialect)
        expect(answer.get_by_text(f"In {dialect}", exact=True)).to_be_visible()
        expect(answer.get_by_role("status")).to_have_text("Donefinish: stop")
        expect(figure(answer, "Tokens out")).to_have_text("2")
        expect(frames).to_contain_text("finish_reason")  # they are shown a moment after the answer
        if dialect != "bitseek":
            expect(frames).to_contain_text("[DONE]")
        else:
            expect(frames).not_to_contain_text("[DONE]")
    assert [each.path for each in console.upstream.requests] == ["/v1/chat/completions"] * len(EACH_DIALECT)


def calling_script(go_on: asyncio.Event) -> Script:
    """Thinks and calls a tool, and speaks when it is answered."""

    def script(seen: Seen) -> Sequence[Step]:
        is_answered = seen.json["messages"][-1]["role"] == "tool"
        return token_steps(openai_frames(("It ", "rains."))) if is_answered else halves(go_on, CALLING, 4)

    return script


def test_the_messages_api_shows_thinking_calls_and_its_own_frames(page: Page, console: Console) -> None:
    go_on = asyncio.Event()
    console.play(calling_script(go_on))
    console.sign_in(page, path="/playground?key=file:test&model=smart")
    page.get_by_label("API", exact=True).select_option("Messages")
    page.get_by_text("Tools", exact=True).click()
    page.get_by_role("button", name="Insert an example").click()
    page.get_by_text("Parameters", exact=True).click()
    page.get_by_label("Reasoning effort").select_option("low")
    expect(page.get_by_label("Seed")).to_have_count(0)
    send(page, "call")
    answer, frames = panel(page, "Answer"), page.get_by_role("region", name="Raw frames")
    expect(answer.get_by_text('{"city":', exact=True)).to_be_visible()
    expect(answer.get_by_role("group").filter(has_text="Reasoning 33 characters")).to_be_visible()
    console.soon(go_on.set)
    expect(answer.get_by_role("status")).to_have_text("Donefinish: tool use")
    expect(answer.get_by_text('{ "city": "Bern" }')).to_be_visible()
    for event in ("message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_stop"):
        expect(frames).to_contain_text(f"event: {event}")
    expect(frames).to_contain_text('"type":"thinking_delta"')
    expect(frames).not_to_contain_text("[DONE]")
    page.get_by_role("button", name="Continue").click()
    page.get_by_label("Tool result for call_1").fill("Rain")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(answer.get_by_text("It rains.", exact=True)).to_be_visible()
    expect(answer.get_by_role("status")).to_have_text("Donefinish: end turn")
    first, second = (request.json for request in console.upstream.requests)
    assert first["tools"][0]["function"]["name"] == "get_weather"
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "tool"]
    assert second["messages"][-1]["content"] == "Rain"
    assert second["max_completion_tokens"] == 4096, "the API demands a limit"

    figure(answer, "Request").get_by_role("link").click()
    expect(panel(page, "Details")).to_contain_text("APIMessages")
    expect(page.get_by_role("region", name="Code")).to_contain_text("/v1/messages")


def test_the_responses_api_in_the_playground_and_as_a_kept_conversation(page: Page, console: Console) -> None:
    go_on = asyncio.Event()
    console.play(calling_script(go_on))
    console.ask("POST", "/api/keys", {"name": "kept", "log_content": True})
    console.sign_in(page, path="/playground?key=file:test&model=smart")
    page.get_by_label("Key", exact=True).select_option(label="kept (default)")
    page.get_by_label("API", exact=True).select_option("Responses")
    page.get_by_text("Tools", exact=True).click()
    page.get_by_role("button", name="Insert an example").click()
    page.get_by_text("Parameters", exact=True).click()
    for absent in ("Seed", "Stop sequences", "Request usage in the stream"):
        expect(page.get_by_label(absent)).to_have_count(0)
    send(page, "call")
    answer, frames = panel(page, "Answer"), page.get_by_role("region", name="Raw frames")
    expect(answer.get_by_text('{"city":', exact=True)).to_be_visible()
    expect(answer.get_by_role("group").filter(has_text="Reasoning 33 characters")).to_be_visible()
    frames.scroll_into_view_if_needed()
    console.soon(go_on.set)
    expect(answer.get_by_role("status")).to_have_text("Donefinish: completed")
    expect(answer.get_by_text('{ "city": "Bern" }')).to_be_visible()
    for event in ("created", "reasoning_text.delta", "function_call_arguments.delta", "output_item.done", "completed"):
        expect(frames).to_contain_text(f"event: response.{event}")
    page.wait_for_function(IS_AT_END, arg=frames.element_handle())  # it follows, however high its frames are
    page.get_by_role("button", name="Continue").click()
    page.get_by_label("Tool result for call_1").fill("Rain")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(answer.get_by_text("It rains.", exact=True)).to_be_visible()
    first, second = (request.json for request in console.upstream.requests)
    assert first["tools"][0]["function"]["name"] == "get_weather"
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "tool"]

    figure(answer, "Request").get_by_role("link").click()
    expect(panel(page, "Details")).to_contain_text("APIResponses")
    page.get_by_role("button", name="Show content").click()
    said = panel(page, "Content")
    for turn in ("user", "assistant", "Answer completed"):
        expect(said.get_by_role("heading", name=turn, exact=True)).to_be_visible()
    expect(said.get_by_text("Reasoning, 33 characters")).to_be_visible()
    for folded in ("Calls weather", "tool call_1"):
        call = said.locator("details").filter(has=page.locator("summary", has_text=folded))
        expect(call.locator("pre, p").last).not_to_be_visible()
        call.locator("summary").click()
        expect(call.locator("pre, p").last).to_be_visible()
    expect(said.get_by_text("It rains.", exact=True)).to_be_visible()
    expect(page.get_by_role("region", name="Code")).to_contain_text("/v1/responses")


def test_two_models_answer_side_by_side(page: Page, console: Console) -> None:
    go_on = {"gpt-4o-mini": asyncio.Event(), "second": asyncio.Event()}
    console.play(lambda seen: halves(go_on[seen.json["model"]], openai_frames((seen.json["model"], " says hi.")), 2))
    console.sign_in(page, path="/playground?key=file:test&model=smart&compare=1")
    page.get_by_label("Model 2", exact=True).fill("up/second")
    page.get_by_label("Prompt", exact=True).fill(PROMPT)
    page.get_by_label("Prompt", exact=True).press("Control+Enter")
    first, second = panel(page, "smart"), panel(page, "up/second")
    expect(first.get_by_text("gpt-4o-mini", exact=True)).to_be_visible()
    expect(second.get_by_text("second", exact=True)).to_be_visible()
    console.soon(go_on["second"].set)
    expect(second.get_by_text("second says hi.", exact=True)).to_be_visible()
    expect(second.get_by_role("status")).to_have_text("Donefinish: stop")
    expect(first.get_by_role("status")).to_contain_text("Streaming")
    expect(page.get_by_role("region", name="Raw frames of answer 2")).to_contain_text("[DONE]")
    console.soon(go_on["gpt-4o-mini"].set)
    expect(first.get_by_text("gpt-4o-mini says hi.", exact=True)).to_be_visible()
    expect(first.get_by_role("status")).to_have_text("Donefinish: stop")
    page.get_by_label("API 2", exact=True).select_option("Messages")
    expect(panel(page, "up/second, Messages")).to_be_visible()


def test_errors_are_the_same_as_for_callers(page: Page, console: Console, watch: PageWatch) -> None:
    failing = whole(error_body("The engine is on fire."), 500)
    failing_late: list[Step] = [Head(), *map(Send, BEGUN), Send(error_frame(error_body("It went out."))), End()]
    console.play(by_prompt({"early": failing, "late": failing_late}))
    console.ask("POST", "/api/keys", {"name": "zero", "budget_usd": "0.000000001", "budget_period": "total"})
    watch.expect("status of 502 .*/api/playground/chat")
    watch.expect("status of 429 .*/api/playground/chat")
    console.sign_in(page, path="/playground?key=file:test&model=smart")
    answer = panel(page, "Answer")
    page.get_by_label("Key", exact=True).select_option(label="test (default)")
    send(page, "early")
    expect(answer.get_by_role("status")).to_have_text("Refused")
    expect(answer.get_by_role("alert")).to_contain_text("502")
    send(page, "late")
    expect(answer.get_by_role("status")).to_have_text("Failed")
    expect(answer.get_by_text("Hello from", exact=True)).to_be_visible()
    expect(answer.get_by_role("alert")).to_be_visible()
    asked = len(console.upstream.requests)
    page.get_by_label("Key", exact=True).select_option(label="zero (default)")
    send(page, "early")
    expect(answer.get_by_role("status")).to_have_text("Refused")
    expect(answer.get_by_role("alert")).to_contain_text("429 · insufficient_quota · budget_exceeded")
    assert len(console.upstream.requests) == asked


def test_the_playground_makes_a_key_of_its_own_and_uses_it_from_then_on(page: Page, console: Console) -> None:
    console.sign_in(page, path="/playground?model=smart")
    page.get_by_role("button", name="Create a key for the playground").click()
    key = page.get_by_label("Key", exact=True)
    expect(key.locator("option:checked")).to_have_text("playground (default)")
    send(page)
    expect(panel(page, "Answer").get_by_role("status")).to_have_text("Donefinish: stop")
    (made,) = (each for each in console.ask("GET", "/api/keys")["data"] if each["name"] == "playground")
    assert (made["scopes"], made["budget_usd"], made["budget_period"]) == (["chat"], "5", "day")
    assert console.ask("GET", f"/api/requests?key={made['id']}")["data"]
    page.reload()
    expect(key.locator("option:checked")).to_have_text("playground (default)")


PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_an_image_is_sent_as_each_api_has_it(page: Page, console: Console) -> None:
    console.sign_in(page, path="/playground?key=file:test&model=smart")
    files, images = page.locator("input[type=file]"), page.get_by_role("list", name="Images")
    files.set_input_files({"name": "notes.txt", "mimeType": "text/plain", "buffer": b"no image"})
    expect(page.get_by_role("alert")).to_have_text("notes.txt is not a PNG, JPEG, WebP or GIF image.")
    expect(images).to_have_count(0)
    page.get_by_label("Prompt", exact=True).fill(PROMPT)
    for api in ("Chat completions", "Messages", "Responses"):
        page.get_by_label("API", exact=True).select_option(label=api)
        files.set_input_files({"name": "weir.png", "mimeType": "image/png", "buffer": PNG})
        expect(images.get_by_role("listitem")).to_contain_text("weir.png70 B")
        page.get_by_role("button", name="Send", exact=True).click()
        expect(panel(page, "Answer").get_by_role("status")).to_have_text(re.compile("^Donefinish"))
        image, text = console.upstream.requests[-1].json["messages"][-1]["content"]
        assert image["image_url"]["url"] == f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
        assert (text["type"], text["text"]) == ("text", PROMPT)
        page.get_by_role("button", name="Remove weir.png").click()
        expect(images).to_have_count(0)
    paths = [each["dialect"] for each in console.ask("GET", "/api/requests")["data"]]
    assert paths == ["responses", "messages", "openai"]
