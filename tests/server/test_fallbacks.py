"""Groups and fallbacks: which targets answer for a model, and which models answer for another one.

Stages of one model, a chain of models, and models that answer where the prompt is too long or filtered. Everything
happens before the first byte is sent; from then on a refusal is final, as any failure is.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from support.accounting_gateway import MILLI, answers, keeping, max_prompt
from support.answers import (
    anthropic_error_body,
    anthropic_frames,
    error_body,
    error_frame,
    openai_frames,
    openai_stream,
    openai_whole,
)
from support.gateway import Gate, providers, routed
from support.outcome import (
    CANARY,
    ask_and_signal,
    assert_broken,
    assert_completed,
    assert_record,
    assert_refused,
    assert_whole,
    path_of,
)
from support.responses_body import ResponsesAnswer
from support.script import Hang, Head, Script, Seen, Send, Step, Wait, stream, whole
from support.scripted_upstream import ForbiddenServer, ScriptedUpstream
from support.wire_samples import ANTHROPIC, BEGUN, OPENAI

pytestmark = pytest.mark.usefixtures("no_jitter")

DOWN = whole(error_body(CANARY), 500)
FAILED = "upstream_server_error"
ANSWER = stream(openai_stream())
TOO_LONG = "context_length_exceeded"
FILTERED = "content_filter"
REFUSALS = {
    TOO_LONG: error_body("The maximum context length is 128 tokens.", "invalid_request_error", TOO_LONG, "messages"),
    FILTERED: error_body("The prompt was filtered.", "invalid_request_error", FILTERED, "prompt"),
}
LISTS = {TOO_LONG: "context_fallbacks", FILTERED: "content_filter_fallbacks"}
APIS = ("openai", "messages", "responses")

each_refusal = pytest.mark.parametrize("code", REFUSALS)
each_api = pytest.mark.parametrize("api", APIS)
each_form = pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "whole"])


def model(id: str, *targets: str, **settings: str | int | list[str]) -> str:
    """TOML: a model over providers of these names; `b@2` is in stage 2."""
    entries = []
    for target in targets:
        name, _, stage = target.partition("@")
        entries.append(f'{{ provider = "{name}", model = "m"{f", stage = {stage}" if stage else ""} }}')
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
    return f'[[models]]\nid = "{id}"\ntargets = [{", ".join(entries)}]\n{lines}'


def says(word: str) -> Script:
    """An answer with this text, streamed or whole, as it is asked for."""

    def script(request: Seen) -> Sequence[Step]:
        return stream(openai_stream([word])) if request.json.get("stream") else whole(openai_whole(word))

    return script


def refusing(code: str) -> Sequence[Step]:
    return whole(REFUSALS[code], 400)


def refusing_inside(code: str) -> Sequence[Step]:
    """The stream has begun, and nothing of it was sent yet."""
    return [Head(), Send(openai_frames()[0]), Send(error_frame(REFUSALS[code])), Hang()]


async def ask(gate: Gate, api: str = "openai", is_streamed: bool = True, **members: Any) -> Any:
    return await gate.ask(path=path_of(api), stream=is_streamed, **{"model": "m", **members})


def assert_said(reply: Any, text: str, api: str, is_streamed: bool) -> None:
    if is_streamed:
        assert_completed(reply, api, text=text)
    else:
        assert_whole(reply, text=text)


# Stages.


async def test_of_a_group_of_three_with_one_dead_all_callers_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = cycle([0.5, 0.1, 0.9])
    monkeypatch.setattr("streamweir.server.request.request.random", lambda: next(numbers))
    toml = model("m", "a", "b", "c", "d@2", strategy="weighted", affinity=False)
    async with routed(toml, a=ANSWER, b=DOWN, c=ANSWER, d=ANSWER) as (gate, ups):
        for _ in range(20):
            assert_completed(await ask(gate))
        records = await gate.settled(20)
        answered = Counter(str(record.target)[0] for record in records)
        assert set(answered) == {"a", "c"}
        assert len(ups["b"].requests) == 5, "then it is ejected"
        assert not ups["d"].requests, "the second stage waits for all of the first"
        assert {record.flags for record in records} == {()}


async def test_the_second_stage_answers_when_the_first_is_down() -> None:
    async with routed(model("m", "c@2", "a", "b"), a=DOWN, b=DOWN, c=ANSWER) as (gate, _):
        assert_completed(await ask(gate))
        record = await assert_record(gate, "completed", attempts=[FAILED, FAILED, None])
        assert [each.target[0] for each in record.attempts] == ["a", "b", "c"]
        assert record.flags == (), "it is a target of the model"


async def test_an_attempt_is_kept_for_the_second_stage() -> None:
    toml = model("m", "a", "b", "c", "d@2", "e@3")
    async with routed(toml, **dict.fromkeys("abc", DOWN), d=ANSWER, e=ANSWER) as (gate, _):
        for _ in range(6):
            assert_completed(await ask(gate))
        records = await gate.settled(6)
        assert [each.target[0] for each in records[0].attempts] == ["a", "b", "d"]


async def test_one_target_of_a_stage_that_is_down_is_no_reason_for_the_second_stage() -> None:
    async with routed(model("m", "a", "b", "c@2", max_attempts=2), a=DOWN, b=ANSWER, c=ANSWER) as (gate, _):
        assert_completed(await ask(gate))
        record = await assert_record(gate, "completed", attempts=[FAILED, None])
        assert record.target == "b/m"


async def test_least_busy_takes_the_target_with_the_fewest_running_requests() -> None:
    late = asyncio.Event()
    slow = [Wait(late), *ANSWER]
    toml = model("m", "a", "b", strategy="least_busy")
    async with routed(toml, a=slow, b=slow) as (gate, ups):
        asking = [asyncio.ensure_future(ask(gate)) for _ in range(6)]
        await ups["a"].seen(3)
        await ups["b"].seen(3)
        late.set()
        for each in asking:
            assert_completed(await each)
        await gate.settled(6)
        assert [len(up.requests) for up in ups.values()] == [3, 3]


async def test_cheapest_takes_the_target_with_the_lowest_price() -> None:
    names = ("none-has-priced-this", "gpt-4o", "gpt-4o-mini")
    targets = ", ".join(f'{{ provider = "up", model = "{name}" }}' for name in names)
    toml = f'[[models]]\nid = "m"\nstrategy = "cheapest"\ntargets = [{targets}]\n'
    scripts = [DOWN, DOWN, ANSWER]
    async with routed(toml, up=lambda request: scripts[request.number]) as (gate, ups):
        assert_completed(await ask(gate))
        await gate.settled()
        assert [request.json["model"] for request in ups["up"].requests] == [names[2], names[1], names[0]]


# Fallbacks of a model.


@each_api
@each_form
async def test_a_chain_of_three_models_ends_with_the_one_that_answers(api: str, is_streamed: bool) -> None:
    toml = model("m", "a", fallbacks=["n"]) + model("n", "b", fallbacks=["o"]) + model("o", "c")
    async with routed(toml, a=DOWN, b=DOWN, c=says("third")) as (gate, _):
        reply = await ask(gate, api, is_streamed)
        assert_said(reply, "third", api, is_streamed)
        record = await assert_record(gate, "completed", attempts=[FAILED, FAILED, None])
        assert (record.model, record.target, record.flags) == ("m", "c/m", ("fallback",))


async def test_an_attempt_is_kept_for_each_fallback() -> None:
    toml = model("m", "a", "b", "c", "d", fallbacks=["n"]) + model("n", "e", "f")
    scripts = dict.fromkeys("abcd", DOWN)
    async with routed(toml, **scripts, e=ANSWER, f=ANSWER) as (gate, _):
        assert_completed(await ask(gate))
        record = await assert_record(gate, "completed", attempts=[FAILED, FAILED, None])
        assert [each.target[0] for each in record.attempts] == ["a", "b", "e"]


async def test_a_fallback_without_an_available_target_takes_no_attempt_away() -> None:
    toml = model("m", "a", "b", "c", fallbacks=["n"]) + model("n", "d")
    scripts: dict[str, Script] = {"a": DOWN, "b": DOWN, "c": ANSWER, "d": DOWN}
    async with routed(toml, **scripts) as (gate, ups):
        for _ in range(3):  # five failures eject it
            await ask(gate, model="n")
        assert len(ups["d"].requests) == 5
        assert_completed(await ask(gate))
        record = (await gate.settled(4))[-1]
        assert [each.target[0] for each in record.attempts] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("settings", "own", "attempts"),
    [
        ("", {}, 3),
        ("[routing]\nmax_attempts = 2\n", {}, 2),
        ("", {"max_attempts": 5}, 5),
        ("", {"max_attempts": 1}, 1),
    ],
)
async def test_how_many_attempts_are_made_is_a_setting(settings: str, own: dict[str, int], attempts: int) -> None:
    names = "abcdef"
    async with routed(settings + model("m", *names, **own), **dict.fromkeys(names, DOWN)) as (gate, _):
        assert_refused(await ask(gate), FAILED)
        await assert_record(gate, "upstream_error", error=FAILED, status=502, attempts=[FAILED] * attempts)


async def test_models_that_name_each_other_are_each_tried_once() -> None:
    toml = (
        "[routing]\nmax_attempts = 20\n"
        + model("m", "a", fallbacks=["n"])
        + model("n", "b", "a", fallbacks=["m", "o"])
        + model("o", "a", fallbacks=["n"])
    )
    refused = whole(error_body(CANARY), 401)
    async with routed(toml, a=refused, b=refused) as (gate, ups):
        assert_refused(await ask(gate), "upstream_auth_failed")
        codes = ["upstream_auth_failed"] * 2
        await assert_record(gate, "upstream_error", error=codes[0], status=502, attempts=codes)
        assert [len(up.requests) for up in ups.values()] == [1, 1]


async def test_an_ejected_model_is_answered_by_its_fallback_at_once() -> None:
    toml = model("m", "a", fallbacks=["n"]) + model("n", "b")
    async with routed(toml, a=DOWN, b=ANSWER) as (gate, ups):
        for _ in range(7):
            assert_completed(await ask(gate))
        records = await gate.settled(7)
        assert [len(record.attempts) for record in records] == [2, 2, 2, 2, 2, 1, 1]
        assert {record.flags for record in records} == {("fallback",)}
        assert len(ups["a"].requests) == 5


async def test_a_mistake_of_the_caller_goes_to_no_fallback() -> None:
    async with ForbiddenServer() as other:
        spare = providers(n=other.base_url) + model("m", "a", fallbacks=["n/m"], context_fallbacks=["n/m"])
        async with routed(spare, a=whole(error_body("Too hot.", param="temperature"), 400)) as (gate, _):
            assert_refused(await ask(gate), "invalid_value", param="temperature")
            await assert_record(gate, "rejected", error="invalid_value", status=400)


async def test_a_key_may_be_answered_by_fallbacks_that_it_may_not_name() -> None:
    key = "sk-sw-4f9a0c7be2d85163"
    toml = f'[[keys]]\nname = "narrow"\nkey = "{key}"\nmodels = ["m"]\n'
    toml += model("m", "a", fallbacks=["n"]) + model("n", "b")
    async with routed(toml, a=DOWN, b=ANSWER) as (gate, _):
        assert (await ask(gate, model="n", key=key)).status == 404
        assert_completed(await ask(gate, key=key))
        await gate.settled(2)


async def test_targets_that_cannot_serve_the_request_are_left_out_also_of_fallbacks() -> None:
    """Anthropic's API has no `n`, and no other one is asked."""
    toml = (
        '[[providers]]\nname = "x"\nkind = "anthropic"\nbase_url = "http://127.0.0.1:1"\n'
        + model("m", "x", fallbacks=["n", "o"])
        + model("n", "x")
        + model("o", "x", "a")
    )
    two = json.loads(openai_whole())
    two["choices"] += [{**two["choices"][0], "index": 1}]
    async with routed(toml, a=whole(json.dumps(two).encode())) as (gate, ups):
        reply = await ask(gate, is_streamed=False, n=2)
        assert reply.status == 200
        record = (await gate.settled())[0]
        assert ([each.target for each in record.attempts], record.flags) == (["a/m"], ("fallback",))
        assert ups["a"].requests[0].json["n"] == 2
        assert (await ask(gate, is_streamed=False, n=2, model="n")).status == 400


@pytest.mark.parametrize("lists", [["n"], ["n", "o"]], ids=["one", "two"])
async def test_a_model_at_its_limits_is_answered_by_its_fallback(lists: list[str]) -> None:
    """What has no room is not asked, and takes no attempt away."""
    limited = '[[models]]\nid = "{}"\ntargets = [{{ provider = "{}", model = "m", rpm = 1 }}]\n'
    toml = limited.format("m", "a") + f"fallbacks = {json.dumps(lists)}\nmax_attempts = 1\n"
    toml += (limited.format("n", "b") + model("o", "c")) if len(lists) == 2 else model("n", "c")
    others = {"b": ANSWER} if len(lists) == 2 else {}
    async with routed(toml, a=ANSWER, c=ANSWER, **others) as (gate, ups):
        for count in range(1, 5):
            assert_completed(await ask(gate))
            await gate.settled(count)
        targets = [str(record.target)[0] for record in gate.records]
        assert targets == ["a", *"b" * len(others), *"c" * (3 - len(others))]
        assert [len(record.attempts) for record in gate.records] == [1] * 4
        assert len(ups["a"].requests) == 1


# After a refusal of the prompt.


@each_refusal
@each_api
@each_form
async def test_a_refused_prompt_goes_to_the_model_that_is_named_for_it(code: str, api: str, is_streamed: bool) -> None:
    toml = model("m", "a", "b", fallbacks=["o"], **{LISTS[code]: ["n"]}) + model("n", "c") + model("o", "b")
    async with routed(toml, a=refusing(code), b=says("wrong"), c=says("larger")) as (gate, _):
        reply = await ask(gate, api, is_streamed)
        assert_said(reply, "larger", api, is_streamed)
        record = await assert_record(gate, "completed", attempts=[code, None])
        assert (record.model, record.target, record.flags) == ("m", "c/m", ("fallback",))


@each_refusal
@each_api
async def test_a_refusal_inside_of_a_stream_that_has_said_nothing_counts_too(code: str, api: str) -> None:
    toml = model("m", "a", **{LISTS[code]: ["b/m"]})
    async with routed(toml, a=refusing_inside(code), b=says("larger")) as (gate, _):
        assert_completed(await ask(gate, api), api, text="larger")
        await assert_record(gate, "completed", attempts=[code, None])


TOO_LONG_FOR: dict[str, list[Sequence[Step]]] = {
    "anthropic": [
        whole(anthropic_error_body("prompt is too long: 9 tokens > 8 maximum", "invalid_request_error"), 400),
        [
            Head(),
            Send(anthropic_frames()[0]),
            Send(ANTHROPIC.error_frame("prompt is too long: 9 tokens > 8 maximum", "invalid_request_error")),
            Hang(),
        ],
    ],
    "responses": [
        refusing(TOO_LONG),
        stream(ResponsesAnswer().stream(error={"type": "invalid_request_error", "code": TOO_LONG, "message": "m"})),
    ],
}


@pytest.mark.parametrize("place", [0, 1], ids=["status", "inside"])
@pytest.mark.parametrize(("wire", "api"), [("anthropic", "messages"), ("responses", "responses")])
async def test_a_refusal_where_frames_are_passed_on_as_they_came_counts_too(wire: str, api: str, place: int) -> None:
    """The fallback answers by another API: nothing of the first one may be in the answer."""
    async with ScriptedUpstream(TOO_LONG_FOR[wire][place]) as up:
        own = providers("anthropic" if wire == "anthropic" else "openai", x=up.base_url)
        own += 'wire = "responses"\n' if wire == "responses" else ""
        toml = own + model("m", "x", context_fallbacks=["a/m"])
        async with routed(toml, a=says("larger")) as (gate, _):
            assert_completed(await ask(gate, api), api, text="larger")
            await assert_record(gate, "completed", attempts=[TOO_LONG, None])
        await up.vacated()


@each_refusal
@pytest.mark.parametrize("setting", ["", "fallbacks", "the other"])
async def test_without_the_setting_a_refused_prompt_is_an_error_of_the_caller(code: str, setting: str) -> None:
    lists = {"fallbacks": ["n/m"], "the other": ["n/m"]} if setting else {}
    named = {"the other": LISTS[FILTERED if code == TOO_LONG else TOO_LONG]}.get(setting, setting)
    chosen = {named: lists[setting]} if setting else {}
    async with ForbiddenServer() as other:
        toml = providers(n=other.base_url, o=other.base_url) + model("m", "a", "o", **chosen)
        async with routed(toml, a=refusing(code)) as (gate, _):
            reply = await ask(gate)
            assert (reply.status, code.encode() in reply.body) == (400, True)
            await assert_record(gate, "rejected", error=code, status=400)


@each_refusal
async def test_after_the_first_token_a_refusal_is_final(code: str) -> None:
    seen = asyncio.Event()
    script: list[Step] = [Head(), Send(OPENAI.begun), Wait(seen), Send(error_frame(REFUSALS[code])), Hang()]
    async with ForbiddenServer() as other:
        toml = providers(n=other.base_url) + model("m", "a", **{LISTS[code]: ["n/m"]})
        async with routed(toml, a=script) as (gate, _):
            reply = await ask_and_signal(gate, b'" from"', seen, model="m")
            assert_broken(reply, FAILED, text=BEGUN)
            await assert_record(gate, "rejected", error=code, source="estimate")


async def test_an_answer_that_a_filter_ends_stays_as_it_is() -> None:
    async with ForbiddenServer() as other:
        toml = providers(n=other.base_url) + model("m", "a", content_filter_fallbacks=["n/m"])
        async with routed(toml, a=stream(openai_stream(["No"], finish="content_filter"))) as (gate, _):
            reply = await ask(gate)
            assert reply.status == 200
            assert b'"finish_reason":"content_filter"' in reply.body
            await gate.settled()


@each_refusal
async def test_larger_and_larger_models_are_asked_until_one_accepts_the_prompt(code: str) -> None:
    """Their own lists follow, and two models that name each other are asked once."""
    setting = LISTS[code]
    toml = (
        model("m", "a", **{setting: ["n"]})
        + model("n", "b", "c", **{setting: ["m", "o"]})
        + model("o", "d", **{setting: ["n"]})
    )
    scripts: dict[str, Script] = {"a": refusing(code), "b": refusing(code), "c": ANSWER}
    async with routed(toml, **scripts, d=says("largest")) as (gate, ups):
        assert_completed(await ask(gate), text="largest")
        await assert_record(gate, "completed", attempts=[code, code, None])
        assert not ups["c"].requests, "it has the same window as the one that refused"
    async with routed(toml, **scripts, d=refusing(code)) as (gate, ups):
        assert (await ask(gate)).status == 400
        await assert_record(gate, "rejected", error=code, status=400, attempts=[code] * 3)


async def test_a_larger_model_that_is_down_is_followed_by_its_fallbacks_and_the_next_in_the_list() -> None:
    toml = (
        model("m", "a", context_fallbacks=["n", "o"], max_attempts=4)
        + model("n", "b", fallbacks=["m", "q"])
        + model("o", "d")
        + model("q", "c")
    )
    async with routed(toml, a=refusing(TOO_LONG), b=DOWN, c=DOWN, d=says("fourth")) as (gate, _):
        assert_completed(await ask(gate), text="fourth")
        await assert_record(gate, "completed", attempts=[TOO_LONG, FAILED, FAILED, None])


async def test_the_list_of_the_requested_model_counts_also_for_its_fallbacks_and_then_their_own() -> None:
    toml = model("m", "a", fallbacks=["n"], max_attempts=4, context_fallbacks=["o"])
    toml += model("n", "b", context_fallbacks=["q"]) + model("o", "c") + model("q", "d")
    too_long = refusing(TOO_LONG)
    async with routed(toml, a=DOWN, b=too_long, c=too_long, d=says("last")) as (gate, _):
        assert_completed(await ask(gate), text="last")
        record = await assert_record(gate, "completed", attempts=[FAILED, TOO_LONG, TOO_LONG, None])
        assert [each.target[0] for each in record.attempts] == ["a", "b", "c", "d"]


async def test_a_larger_model_at_its_limits_is_followed_by_the_next_in_the_list() -> None:
    toml = model("m", "a", context_fallbacks=["n", "o"]) + model("o", "c")
    toml += '[[models]]\nid = "n"\ntargets = [{ provider = "b", model = "m", rpm = 1 }]\n'
    async with routed(toml, a=refusing(TOO_LONG), b=says("second"), c=says("third")) as (gate, _):
        for count, text in enumerate(("second", "third", "third"), start=1):
            assert_completed(await ask(gate), text=text)
            await assert_record(gate, "completed", attempts=[TOO_LONG, None], count=count)


async def test_if_no_larger_model_is_available_the_caller_learns_that_the_prompt_is_too_long() -> None:
    toml = model("m", "a", context_fallbacks=["n"]) + model("n", "b")
    async with routed(toml, a=refusing(TOO_LONG), b=DOWN) as (gate, ups):
        for _ in range(3):
            await ask(gate, model="n")
        assert len(ups["b"].requests) == 5
        assert_refused(await ask(gate), TOO_LONG, param="messages")
        await assert_record(gate, "rejected", error=TOO_LONG, status=400, count=4)


# What it costs.

PRICES = """
[[models]]
id = "m"
targets = [{ provider = "up", model = "gpt-4o" }]
price = { input = 1000.0, output = 1000.0 }
fallbacks = ["n"]
context_fallbacks = ["o"]

[[models]]
id = "n"
targets = [{ provider = "spare", model = "cheap" }, { provider = "up", model = "gpt-4o" }]
price = { input = 500.0, output = 500.0 }

[[models]]
id = "o"
targets = [{ provider = "large", model = "dear", max_output_tokens = 30_000 }]
price = { input = 3000.0, output = 3000.0 }
"""


@pytest.mark.parametrize(
    ("script", "target", "tokens", "price"),
    [
        (answers(is_streamed=False), "up/gpt-4o", 12, 1000),
        (DOWN, "spare/cheap", 12, 500),
        (refusing(TOO_LONG), "large/dear", 12, 3000),
    ],
    ids=["own", "fallback", "larger"],
)
async def test_the_target_that_answers_is_billed_by_the_price_of_its_model_and_the_dearest_is_held(
    script: Script, target: str, tokens: int, price: int, tmp_path: Path
) -> None:
    others = {"spare": answers(is_streamed=False), "large": answers(is_streamed=False)}
    async with keeping(script, tmp_path, PRICES, others=others) as setup:
        held = 3 * (max_prompt(model="m", max_tokens=20) + 20) * MILLI
        secret = await setup.new_key(budget_nano=held)
        assert (await setup.gate.ask(key=secret, model="m", max_tokens=20)).status == 200
        row = await setup.row()
        assert (row.model, row.target, row.held) == ("m", target, held)
        assert row.price == tokens * price * MILLI // 1000
        assert row.flags == ([] if target == "up/gpt-4o" else ["fallback"])


@pytest.mark.parametrize(
    ("script", "where", "limit"),
    [(answers(is_streamed=False), "up", 16_384), (DOWN, "spare", 4096), (refusing(TOO_LONG), "large", 30_000)],
    ids=["own", "fallback", "larger"],
)
async def test_each_model_gets_the_longest_answer_that_it_can_give_where_the_caller_sets_none(
    script: Script, where: str, limit: int, tmp_path: Path
) -> None:
    """With a budget every answer has a limit: a fallback neither shortens it for the others, nor gets one too high."""
    others = {"spare": answers(is_streamed=False), "large": answers(is_streamed=False)}
    async with keeping(script, tmp_path, PRICES, others=others) as setup:
        secret = await setup.new_key(budget_nano=10**9 * MILLI)
        assert (await setup.gate.ask(key=secret, model="m")).status == 200
        assert setup.ups[where].requests[-1].json["max_completion_tokens"] == limit
        await setup.row()


async def test_a_fallback_without_a_price_is_refused_where_money_is_limited(tmp_path: Path) -> None:
    toml = PRICES.replace("price = { input = 500.0, output = 500.0 }\n", "")
    async with keeping(answers(is_streamed=False), tmp_path, toml, others={"spare": ANSWER, "large": ANSWER}) as setup:
        secret = await setup.new_key(budget_nano=10**6 * MILLI)
        reply = await setup.gate.ask(key=secret, model="m", max_tokens=20)
        assert (reply.status, b"model_unpriced" in reply.body) == (403, True)
        await setup.gate.settled()
