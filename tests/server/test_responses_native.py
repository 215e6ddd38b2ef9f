"""`POST /v1/responses` on an upstream that speaks it: the request and the answer as they came, and its failures."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from support.answers import error_body, responses_stream, responses_whole
from support.gateway import gateway_to
from support.responses import ask, documents_of
from support.responses_body import ResponsesAnswer
from support.script import Seen, Step, stream, whole

OURS = 'wire = "responses"'


async def test_request_and_stream_go_as_they_came() -> None:
    answer = ResponsesAnswer(usage=(40, 60, 16, 32)).reasoning(["Hm"], encrypted="ZW5j").search().text("a", "b")
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}], "phase": "x"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ZW5j"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "1"}]},
    ]
    members: dict[str, Any] = {
        "input": items,
        "tools": [{"type": "web_search"}],
        "text": {"verbosity": "low"},
        "zeta": {"new": 1},
    }
    async with gateway_to(stream(answer.stream()), provider=OURS) as (gate, up):
        reply = await ask(gate, **members)
        assert reply.body == answer.stream()
        (seen,) = up.requests
        sent = seen.json
        assert {name: sent[name] for name in members} == members
        assert (sent["model"], sent["store"], sent["include"]) == ("m", False, ["reasoning.encrypted_content"])
        (record,) = await gate.settled()
        assert (record.verdict, record.completion_id) == ("completed", answer.id)
        assert record.usage is not None
        assert (record.usage.prompt_tokens, record.usage.completion_tokens, record.usage.reasoning) == (40, 60, 32)


async def test_a_large_answer_passes_byte_for_byte_too() -> None:
    body = b'{"object": "response",  "new": 1,' + responses_whole("many words " * 110_000)[1:]
    async with gateway_to(whole(body), provider=OURS) as (gate, _):
        reply = await ask(gate, stream=False)
        assert len(reply.body) == len(body)
        assert reply.body == body
        (record,) = await gate.settled()
        assert (record.verdict, record.finish, record.completion_id) == ("completed", "stop", json.loads(body)["id"])
        assert record.usage is not None
        assert (record.usage.prompt_tokens, record.usage.completion_tokens) == (7, 5)


@pytest.mark.usefixtures("no_jitter")
@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, "invalid_request_error", "unsupported_value"),
        (404, "invalid_request_error", "model_not_found"),
        (413, "invalid_request_error", None),
        (429, "tokens", "rate_limit_exceeded"),
        (500, "server_error", None),
        (503, "service_unavailable_error", "server_is_overloaded"),
    ],
)
async def test_a_failure_keeps_its_status_and_its_text(status: int, kind: str, code: str | None) -> None:
    script = whole(error_body("Try something else.", kind, code, "input[0]"), status)
    for streams in (True, False):
        async with gateway_to(script, provider=OURS) as (gate, _):
            reply = await ask(gate, stream=streams)
            error = {"message": "Try something else.", "type": kind, "param": "input[0]", "code": code}
            assert (reply.status, json.loads(reply.body)["error"]) == (status, error)
            await gate.settled()


@pytest.mark.parametrize("status", [401, 403])
async def test_a_failure_of_the_account_is_not_shown(status: int) -> None:
    async with gateway_to(whole(error_body("Bad key of org-77", "x"), status), provider=OURS) as (gate, _):
        reply = await ask(gate)
        assert reply.status == 502
        assert b"org-77" not in reply.body
        await gate.settled()


async def test_an_error_before_the_first_token_is_a_status_and_after_it_a_frame() -> None:
    error = {"type": "tokens", "code": "rate_limit_exceeded", "message": "Try again in 7s.", "param": None}
    async with gateway_to(stream(ResponsesAnswer().stream(error=error)), provider=OURS) as (gate, _):
        reply = await ask(gate)
        assert reply.status == 429
        assert json.loads(reply.body)["error"]["message"] == "Try again in 7s."
        await gate.settled()
    begun = ResponsesAnswer().text("a")
    async with gateway_to(stream(begun.stream(error=error)), provider=OURS) as (gate, _):
        documents = documents_of((await ask(gate)).body)
        assert [document["type"] for document in documents[-2:]] == ["error", "response.failed"]
        assert documents[-2]["error"] == error
        (record,) = await gate.settled()
        assert record.verdict == "upstream_error"


def refuses_reasoning(seen: Seen) -> Sequence[Step]:
    if any(item["type"] == "reasoning" for item in seen.json["input"]):
        message = "The encrypted content could not be verified."
        return whole(error_body(message, "invalid_request_error", "invalid_encrypted_content"), 400)
    return stream(responses_stream())


async def test_reasoning_that_the_account_cannot_read_is_left_out_once_and_named() -> None:
    reasoning: dict[str, Any] = {"type": "reasoning", "summary": [], "encrypted_content": "ZW5j"}
    items = [{"type": "message", "role": "user", "content": "Hi"}, reasoning, {**reasoning, "encrypted_content": "x"}]
    async with gateway_to(refuses_reasoning, provider=OURS) as (gate, up):
        reply = await ask(gate, input=items)
        assert (reply.status, reply.body) == (200, responses_stream())
        assert [[item["type"] for item in seen.json["input"]] for seen in up.requests] == [
            ["message", "reasoning", "reasoning"],
            ["message"],
        ]
        (record,) = await gate.settled()
        assert record.dropped == ("input[1]", "input[2]")
    always = whole(error_body("x", "invalid_request_error", "invalid_encrypted_content"), 400)
    for each, requests in ((items, 2), (items[:1], 1)):
        async with gateway_to(always, provider=OURS) as (gate, up):
            assert (await ask(gate, input=each)).status == 400
            assert len(up.requests) == requests
            await gate.settled()


@pytest.mark.parametrize(
    ("model", "tier", "is_sent"),
    [
        ("gpt-5.1", "flex", True),
        ("gpt-5.1", "priority", True),
        ("gpt-5.1", "auto", True),
        ("gpt-5.1", "turbo", False),
        ("gpt-3.5-turbo", "priority", False),
        ("nobody-knows-it", "flex", False),
    ],
)
async def test_a_tier_without_a_price_is_left_out_and_named(model: str, tier: str, is_sent: bool) -> None:
    async with gateway_to(stream(responses_stream()), provider=OURS) as (gate, up):
        await ask(gate, model=f"up/{model}", service_tier=tier)
        assert up.requests[0].json.get("service_tier") == (tier if is_sent else None)
        (record,) = await gate.settled()
        assert record.dropped == (() if is_sent else ("service_tier",))


@pytest.mark.parametrize(
    "members",
    [
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"prompt": {"id": "pmpt_1"}},
        {"background": True},
        {"tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}]},
        {"tools": [{"type": "code_interpreter", "container": "cntr_1"}]},
        {"input": [{"type": "item_reference", "id": "rs_1"}]},
        {"input": [{"type": "message", "role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}]},
        {"input": [{"type": "message", "role": "user", "content": [{"type": "input_image", "file_id": "file-1"}]}]},
    ],
    ids=str,
)
async def test_things_of_the_account_are_refused(members: dict[str, Any]) -> None:
    async with gateway_to(stream(responses_stream()), provider=OURS) as (gate, up):
        reply = await ask(gate, **members)
        assert reply.status == 400
        assert not up.requests
