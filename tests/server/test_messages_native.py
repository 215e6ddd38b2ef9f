"""`POST /v1/messages` on an upstream of the same API: large answers, and the upstream's own errors."""

import json

import pytest

from support.answers import anthropic_error_body, anthropic_whole
from support.gateway import gateway_to
from support.messages import ask
from support.script import whole


async def test_a_large_answer_passes_byte_for_byte_too() -> None:
    body = b'{"type": "message",  "new": 1,' + anthropic_whole("many words " * 110_000)[1:]
    async with gateway_to(whole(body), kind="anthropic") as (gate, _):
        reply = await ask(gate, stream=False)
        assert len(reply.body) == len(body)
        assert reply.body == body
        (record,) = await gate.settled()
        assert (record.verdict, record.finish, record.completion_id) == ("completed", "stop", json.loads(body)["id"])
        assert record.usage is not None
        assert (record.usage.prompt_tokens, record.usage.completion_tokens) == (7, 5)


async def test_an_error_in_the_place_of_an_answer_is_quoted() -> None:
    body = anthropic_error_body("Overloaded, try later", "overloaded_error")
    async with gateway_to(whole(body), kind="anthropic") as (gate, _):
        reply = await ask(gate, stream=False)
        error = {"type": "overloaded_error", "message": "Overloaded, try later"}
        assert (reply.status, json.loads(reply.body)["error"]) == (529, error)
        await gate.settled()


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        (400, "invalid_request_error", 'messages: Unexpected role "system".'),
        (400, "invalid_request_error", "adaptive thinking is not supported on this model"),
        (404, "not_found_error", "model: claude-none"),
        (413, "request_too_large", "Request exceeds the maximum size"),
        (422, "invalid_request_error", "max_tokens: must be positive"),
        (429, "rate_limit_error", "This request would exceed the rate limit of 50 requests per minute"),
        (500, "api_error", "Internal server error"),
        (502, "api_error", "Bad gateway"),
        (503, "overloaded_error", "Try later"),
        (504, "timeout_error", "Timed out"),
        (529, "overloaded_error", "Overloaded"),
    ],
)
async def test_a_failure_keeps_its_status_its_type_and_its_text(status: int, kind: str, message: str) -> None:
    script = whole(anthropic_error_body(message, kind), status)
    for stream in (True, False):
        async with gateway_to(script, kind="anthropic") as (gate, _):
            reply = await ask(gate, stream=stream)
            assert (reply.status, json.loads(reply.body)["error"]) == (status, {"type": kind, "message": message})
            await gate.settled()
