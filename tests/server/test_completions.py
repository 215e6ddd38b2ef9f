"""`POST /v1/completions` over real sockets: on the provider's own path, and by way of chat."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from streamweir.wire.amazon_messages import write_chunk
from support.accounting_gateway import MILLI, error_of, keeping
from support.amazon_body import answer
from support.answers import anthropic_stream, anthropic_whole, openai_stream, openai_whole
from support.completions import MODEL, PATH, TEXTS, choices_of, complete, text_frames, text_stream, text_whole
from support.fleet import fleet
from support.gateway import chat_request, frames_of, gateway, gateway_to, nothing_left, providers
from support.script import End, Fin, Hang, Head, Script, Seen, Send, Step, in_turn, stream, whole
from support.scripted_upstream import ScriptedUpstream
from support.stores import one_database

TEXT = "".join(TEXTS)
each_form = pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "whole"])
BOTH = """
[[models]]
id = "either"
targets = [{ provider = "first", model = "instruct" }, { provider = "second", model = "instruct" }]
"""
PRICED = """
[[models]]
id = "t"
targets = [{ provider = "up", model = "gpt-4o" }]
price = { input = 1000.0, output = 1000.0 }
"""

AT_BEDROCK = """
[[providers]]
name = "up"
kind = "bedrock"
region = "eu-central-1"
base_url = "{}"
api_key = "key"
"""


def texts(is_streamed: bool, choices: int = 1) -> list[Step]:
    return stream(text_stream(choices=choices)) if is_streamed else whole(text_whole(choices=choices))


def echoing(is_streamed: bool) -> Script:
    """Chat completions that say the prompt back."""

    def chosen(request: Seen) -> list[Step]:
        said = request.json["messages"][0]["content"]
        return stream(openai_stream([said, "!"])) if is_streamed else whole(openai_whole(said + "!", usage=(7, 2)))

    return chosen


@each_form
@pytest.mark.parametrize("choices", [1, 2])
async def test_a_vendor_that_has_the_path_is_asked_there(is_streamed: bool, choices: int) -> None:
    async with gateway_to(texts(is_streamed, choices)) as (gate, up):
        members: dict[str, Any] = {"stream_options": {"include_usage": True}} if is_streamed else {}
        reply = await complete(gate, stream=is_streamed, n=choices, echo=False, suffix="end", **members)
        assert choices_of(reply, is_streamed) == [(TEXT, "length")] * choices
        (record,) = await gate.settled()
        assert (record.dialect, record.verdict, record.flags, record.dropped) == ("completions", "length", (), ())
        assert record.usage is not None
        assert (record.usage.prompt_tokens, record.usage.completion_tokens) == (3, 3 * choices)
        assert (record.usage_source, record.completion_id) == ("provider", "cmpl-upstream00000001")
        (request,) = up.requests
        assert request.path == "/v1/completions"
        assert (request.json["suffix"], request.json["max_tokens"]) == ("end", 16)
        shown = frames_of(reply.body)[-2] if is_streamed else json.loads(reply.body)
        assert shown["usage"]["completion_tokens"] == 3 * choices


@each_form
async def test_prompts_as_a_list_are_one_request_there(is_streamed: bool) -> None:
    async with gateway_to(texts(is_streamed, 2), kind="vllm") as (gate, up):
        for prompt in (["a", "b"], [[1, 2], [3]]):
            reply = await complete(gate, "up/base", prompt=prompt, stream=is_streamed)
            assert len(choices_of(reply, is_streamed)) == 2
        assert [request.json["prompt"] for request in up.requests] == [["a", "b"], [[1, 2], [3]]]


@each_form
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_others_are_asked_by_way_of_chat(is_streamed: bool, kind: str) -> None:
    answers = {
        "openai": stream(openai_stream()) if is_streamed else whole(openai_whole()),
        "anthropic": stream(anthropic_stream()) if is_streamed else whole(anthropic_whole()),
    }
    async with gateway_to(answers[kind], kind=kind) as (gate, up):
        reply = await complete(gate, "up/gpt-4o", stream=is_streamed, echo=True, logprobs=1, suffix="x", best_of=2)
        assert choices_of(reply, is_streamed) == [("Hello from the weir.", "stop")]
        (record,) = await gate.settled()
        assert record.flags == ("by_chat",), "the record says so"
        assert set(record.dropped) == {"echo", "logprobs", "suffix", "best_of"}
        (request,) = up.requests
        assert request.path.endswith("/chat/completions" if kind == "openai" else "/messages")
        assert request.json["messages"][-1]["role"] == "user"


@each_form
async def test_a_list_of_prompts_by_way_of_chat(is_streamed: bool) -> None:
    """One call each, one choice block each, one row."""
    async with gateway_to(echoing(is_streamed)) as (gate, up):
        members: dict[str, Any] = {"stream_options": {"include_usage": True}} if is_streamed else {}
        reply = await complete(gate, "up/gpt-4o", prompt=["one", "two", "three"], stream=is_streamed, **members)
        assert choices_of(reply, is_streamed) == [("one!", "stop"), ("two!", "stop"), ("three!", "stop")]
        (record,) = await gate.settled()
        assert record.usage is not None
        assert (record.usage.prompt_tokens, record.usage.completion_tokens) == (21, 6)
        assert (len(up.requests), len(record.attempts), up.accepted) == (3, 1, 1)


@pytest.mark.parametrize("model", ["amazon.nova-pro-v1:0", "anthropic.claude-sonnet-4-5-20250929-v1:0"])
async def test_answers_in_binary_frames_are_joined_too(model: str) -> None:
    def chosen(request: Seen) -> list[Step]:
        content = request.json["messages"][0]["content"]
        said = content if isinstance(content, str) else content[0]["text"]
        if request.path.endswith("/converse-stream"):
            return stream(answer(said, "!"), 50)
        frames = [frame.partition(b"data: ")[2] for frame in anthropic_stream([said, "!"]).split(b"\n\n") if frame]
        return stream(b"".join([write_chunk(document) for document in frames]), 50)

    async with (
        nothing_left(),
        ScriptedUpstream(chosen) as up,
        gateway(AT_BEDROCK.format(up.base_url.removesuffix("/v1"))) as gate,
    ):
        reply = await complete(gate, f"up/{model}", prompt=["one", "two", "three"], stream=True)
        assert choices_of(reply, True) == [("one!", "stop"), ("two!", "stop"), ("three!", "stop")]
        (record,) = await gate.settled()
        assert record.usage is not None
        assert (record.verdict, record.flags, record.usage.completion_tokens) == ("completed", ("by_chat",), 6)
        assert len(up.requests) == 3


async def test_a_path_that_takes_one_prompt() -> None:
    """A single prompt goes there, a list by way of chat."""

    def chosen(request: Seen) -> list[Step]:
        return whole(openai_whole("chat") if request.path.endswith("/chat/completions") else text_whole("text"))

    async with gateway_to(chosen, kind="ollama") as (gate, _):
        assert choices_of(await complete(gate, "up/m"), is_streamed=False) == [("text", "length")]
        reply = await complete(gate, "up/m", prompt=["a", "b"])
        assert choices_of(reply, is_streamed=False) == [("chat", "stop")] * 2
        records = await gate.settled(2)
        assert [record.flags for record in records] == [(), ("by_chat",)]


@each_form
async def test_tokens_are_for_the_path_alone(is_streamed: bool) -> None:
    async with gateway_to([Hang()]) as (gate, up):
        reply = await complete(gate, "up/gpt-4o", prompt=[1, 2], stream=is_streamed)
        assert (reply.status, error_of(reply)["param"]) == (400, "prompt")
        assert up.requests == []


@each_form
async def test_a_tool_call_cannot_be_shown(is_streamed: bool) -> None:
    call = {"index": 0, "id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    place = "delta" if is_streamed else "message"
    document = {"id": "c", "model": "m", "choices": [{"index": 0, place: message, "finish_reason": "tool_calls"}]}
    body = json.dumps(document).encode()
    script = stream(b"data: " + body + b"\n\ndata: [DONE]\n\n") if is_streamed else whole(body)
    async with gateway_to(script) as (gate, _):
        reply = await complete(gate, "up/gpt-4o", stream=is_streamed)
        assert (reply.status, error_of(reply)["code"]) == (502, "upstream_bad_response")


@each_form
@pytest.mark.parametrize(("status", "code"), [(400, 400), (401, 502), (429, 429), (500, 502)])
async def test_an_error_before_the_first_token(is_streamed: bool, status: int, code: int) -> None:
    async with gateway_to(whole(b'{"error":{"message":"no"}}', status)) as (gate, _):
        reply = await complete(gate, stream=is_streamed)
        assert reply.status == code
        assert list(error_of(reply)) == ["message", "type", "param", "code"]
        (record,) = await gate.settled()
        assert record.usage is None


async def test_a_cut_stream_never_looks_complete() -> None:
    frames = text_frames()
    for end in range(1, len(frames) - 1):
        script: list[Step] = [Head(), Send(b"".join(frames[:end])), Fin()]
        async with gateway_to(script) as (gate, _):
            reply = await complete(gate, stream=True)
            assert reply.status == 200
            *_, failed, done = frames_of(reply.body)
            assert (failed["error"]["code"], done) == ("upstream_stream_truncated", "[DONE]")
            (record,) = await gate.settled()
            assert (record.verdict, record.error) == ("truncated", "upstream_stream_truncated")


async def test_a_later_prompt_that_fails_ends_the_stream_with_an_error() -> None:
    script = in_turn(stream(openai_stream(["one"])), whole(b"{}", 429))
    async with gateway_to(script) as (gate, _):
        reply = await complete(gate, "up/gpt-4o", prompt=["a", "b"], stream=True)
        assert reply.status == 200
        *_, failed, done = frames_of(reply.body)
        assert (failed["error"]["type"], done) == ("stream_error", "[DONE]")
        (record,) = await gate.settled()
        assert (record.error, record.verdict) == ("upstream_rate_limited", "upstream_error")
        assert record.usage is not None
        assert record.usage.completion_tokens >= 1, "what was sent is billed"


@each_form
async def test_another_target_answers_instead(is_streamed: bool) -> None:
    async with ScriptedUpstream(whole(b"{}", 500)) as sick, ScriptedUpstream(texts(is_streamed)) as well:
        toml = providers(first=sick.base_url, second=well.base_url) + BOTH
        async with gateway(toml) as gate:
            reply = await complete(gate, "either", stream=is_streamed)
            assert choices_of(reply, is_streamed) == [(TEXT, "length")]
            (record,) = await gate.settled()
            assert [attempt.error for attempt in record.attempts] == ["upstream_server_error", None]


async def test_a_caller_that_leaves_ends_the_calls() -> None:
    script = in_turn(stream(openai_stream(["one"])), [Head(), Send(openai_stream(["two"])[:300]), Hang()])
    async with gateway_to(script) as (gate, up):
        client = await gate.connect()
        body = json.dumps({"model": "up/gpt-4o", "prompt": ["a", "b", "c"], "stream": True}).encode()
        await client.send(chat_request(path=PATH, body=body))
        await up.seen(2)
        client.close()
        await up.aborted(1)
        (record,) = await gate.settled()
        assert record.verdict == "client_gone"
        assert len(up.requests) == 2


async def test_a_model_that_only_the_responses_api_serves() -> None:
    """By way of chat means: by whichever wire the model is asked through."""
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    content = [{"type": "output_text", "text": "Hi", "annotations": []}]
    document = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "o3-pro",
        "output": [{**message, "content": content}],
        "usage": {"input_tokens": 4, "output_tokens": 2, "total_tokens": 6},
    }
    async with gateway_to(whole(json.dumps(document).encode())) as (gate, up):
        assert choices_of(await complete(gate, "up/o3-pro"), is_streamed=False) == [("Hi", "stop")]
        assert up.requests[0].path.endswith("/responses")


@each_form
async def test_the_limit_is_reserved_for_every_choice(tmp_path: Path, is_streamed: bool) -> None:
    async with keeping(echoing(is_streamed), tmp_path, PRICED) as setup:
        secret = await setup.new_key(budget_nano=10_000 * MILLI)
        reply = await complete(setup.gate, "t", key=secret, prompt=["one", "two"], max_tokens=50, stream=is_streamed)
        assert len(choices_of(reply, is_streamed)) == 2
        row = await setup.row()
        assert (row.dialect, row.price, row.flags) == ("completions", 18 * MILLI, ["by_chat"])
        (_, held, _), _ = await setup.ledger(row.request_id)
        assert -held >= 2 * 50 * MILLI
        assert [request.json["max_completion_tokens"] for request in setup.up.requests] == [50, 50]


@one_database
async def test_no_race_spends_more_than_the_budget(database: str, tmp_path: Path) -> None:
    async with fleet(whole(openai_whole(usage=(10, 16))), tmp_path, database=database, toml=PRICED) as nodes:
        (setup,) = nodes.setups
        secret = await nodes.new_key(budget_nano=1000 * MILLI)
        replies = await asyncio.gather(*[complete(setup.gate, "t", key=secret, prompt=["a", "b"]) for _ in range(12)])
        done = [reply for reply in replies if reply.status == 200]
        assert {reply.status for reply in replies} <= {200, 429}
        await setup.gate.vacated()
        spent, held = await nodes.spent_and_held()
        assert (spent, held) == (len(done) * 2 * 26 * MILLI, 0)
        assert 0 < spent <= 1000 * MILLI


async def test_the_simulator_completes() -> None:
    async with gateway('[[providers]]\nname = "sim"\nkind = "sim"\n') as gate:
        assert choices_of(await complete(gate, "sim/echo", prompt=["a", "b"]), is_streamed=False)[1] == ("b", "stop")
        assert (await complete(gate, "sim/error?status=503", stream=True)).status == 503


async def test_best_of_is_reserved_where_it_is_sent_on(tmp_path: Path) -> None:
    toml = PRICED.replace("gpt-4o", "gpt-3.5-turbo-instruct")
    async with keeping(whole(text_whole()), tmp_path, toml) as setup:
        secret = await setup.new_key(budget_nano=10_000 * MILLI)
        assert (await complete(setup.gate, "t", key=secret, best_of=5, max_tokens=100)).status == 200
        row = await setup.row()
        (_, held, _), _ = await setup.ledger(row.request_id)
        assert -held >= 500 * MILLI
        assert setup.up.requests[0].json["best_of"] == 5


async def test_a_stream_that_ends_without_done_is_complete_after_its_finish() -> None:
    script: list[Step] = [Head(), Send(b"".join(text_frames()[:-1])), End()]
    async with gateway_to(script) as (gate, _):
        assert choices_of(await complete(gate, stream=True), is_streamed=True) == [(TEXT, "length")]
        (record,) = await gate.settled()
        assert record.flags == ("missing_done",)
        assert record.model == MODEL


async def test_large_answers_by_way_of_chat_are_read_elsewhere() -> None:
    async with gateway_to(whole(openai_whole("x" * 700_000))) as (gate, _):
        reply = await complete(gate, "up/gpt-4o", prompt=["a", "b"], max_tokens=400_000)
        assert [len(text) for text, _ in choices_of(reply, is_streamed=False)] == [700_000, 700_000]
        (record,) = await gate.settled()
        assert record.usage is not None
        assert (record.usage.prompt_tokens, record.usage.completion_tokens) == (14, 10)
