"""Either client with the Responses API: against a real gateway on the simulator, and against scripted servers.

What could still be answered with a status is a `RequestFailed`, what broke later a `StreamError` with all that came
before it. What is tried again is what is tried again for chat completions.
"""

import json
from typing import Any

import pytest

from streamweir.client import (
    AsyncClient,
    AuthenticationFailed,
    Client,
    ClientError,
    NotFound,
    RateLimited,
    RequestRefused,
    StreamError,
    StreamTimeout,
    StreamTruncated,
    TextDelta,
    Timeouts,
)
from support.answers import TEXTS, error_body, responses_frames, responses_stream, responses_whole
from support.client_calls import AT_ONCE, KINDS, Caller, caller
from support.gateway import KEY, gateway
from support.script import Fin, Hang, Head, Rst, Send, Step, in_turn, stream, whole
from support.scripted_upstream import ScriptedUpstream

CONFIG = f"""
[[providers]]
name = "sim"
kind = "sim"

[[keys]]
name = "tests"
key = "{KEY}"
"""
TEXT = "".join(TEXTS)
ASK: dict[str, Any] = {"model": "m", "messages": "Hi", "max_output_tokens": 100}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"type": "function", "name": "get_weather", "parameters": PARAMETERS}
GOOD = stream(responses_stream())
FRAMES = responses_frames()
KEEPALIVE = b'event: keepalive\ndata: {"type":"keepalive","sequence_number":2}\n\n'
ERROR = (
    b'event: error\ndata: {"type":"error","error":{"type":"server_error","code":"server_error","message":"No."}}\n\n'
)
MIDWAY = next(place for place, frame in enumerate(FRAMES) if b"output_text.delta" in frame) + 1

each_kind = pytest.mark.parametrize("kind", KINDS)


async def raised(ask: Caller, **request: Any) -> ClientError:
    with pytest.raises(ClientError) as found:
        await ask.final(**{**ASK, **request})
    return found.value


@each_kind
@pytest.mark.parametrize("prefix", ["", "/v1/responses"])
async def test_the_gateway_streamed_and_whole(kind: str, prefix: str) -> None:
    async with (
        gateway(CONFIG) as gate,
        caller(kind, gate.base_url + prefix, api_key=KEY, api="responses", retries=0) as ask,
    ):
        for script in ("hello", "reasoning", "tools?calls=2", "refusal", "hello?finish=length"):
            request = {"model": f"sim/{script}", "messages": "Say it.", "max_output_tokens": 400, "tools": [TOOL]}
            streamed, answer = await ask.final(**request), await ask.create(**request)
            assert streamed.is_whole
            assert (streamed.finish_reason, streamed.text) == (answer.finish_reason, answer.text), script
            assert [call.parsed() for call in streamed.tool_calls] == [call.parsed() for call in answer.tool_calls]
            kinds = [item["type"] for item in streamed.output]
            assert kinds == [item["type"] for item in answer.output]
            assert streamed.usage is not None
            assert answer.usage is not None
            assert streamed.usage.total_tokens == answer.usage.total_tokens > 0
            assert streamed.request_id
            if script == "reasoning":
                assert kinds == ["reasoning", "message"]
                assert streamed.output[0]["encrypted_content"]
            if script.startswith("tools"):
                assert kinds[-2:] == ["function_call", "function_call"]
            if script.endswith("length"):
                assert streamed.finish_reason == "max_output_tokens"


@each_kind
async def test_a_turn_of_tools(kind: str) -> None:
    """What came is sent back as it came, with the result behind it."""
    async with gateway(CONFIG) as gate, caller(kind, gate.base_url, api_key=KEY, api="responses") as ask:
        asked = [{"role": "user", "content": "Weather?"}]
        answer = await ask.final(model="sim/tools?calls=1", messages=asked, tools=[TOOL])
        result = {"type": "function_call_output", "call_id": answer.tool_calls[0].id, "output": "Rain."}
        again = await ask.final(model="sim/echo", messages=[*asked, *answer.output, result], tools=[TOOL])
    assert again.is_whole
    assert again.text


@each_kind
async def test_the_gateways_errors(kind: str) -> None:
    async with (
        gateway(CONFIG) as gate,
        caller(kind, gate.base_url, api_key=KEY, api="responses", retries=0) as ask,
        caller(kind, gate.base_url, api_key="sk-nobody-has-this-key", api="responses", retries=0) as stranger,
    ):
        error = await raised(ask, model="sim/error?status=429&retry_after=7")
        assert isinstance(error, RateLimited)
        assert (error.status, error.retry_after_s) == (429, 7.0)
        assert error.request_id
        error = await raised(ask, model="nobody/knows")
        assert isinstance(error, NotFound)
        assert error.code == "model_not_found"
        error = await raised(ask, previous_response_id="resp_1")
        assert isinstance(error, RequestRefused)
        assert (error.code, error.param) == ("previous_response_not_found", "previous_response_id")
        assert isinstance(await raised(stranger, model="sim/hello"), AuthenticationFailed)
        error = await raised(ask, model="sim/cut?at=5&how=rst")
        assert isinstance(error, StreamError)
        assert (error.code, error.completion.is_whole) == ("server_error", False)
        assert error.completion.text
        assert error.completion.finish_reason is None


@each_kind
async def test_what_is_sent(kind: str) -> None:
    async with (
        ScriptedUpstream(GOOD) as up,
        caller(kind, up.base_url, api_key="sk-of-this-caller", api="responses") as ask,
    ):
        answer = await ask.final(**ASK, store=False)
        with pytest.raises(ValueError, match="'input' is given as messages"):
            await ask.final(**ASK, input="Hi")
    assert (answer.text, answer.finish_reason) == (TEXT, "completed")
    (request,) = up.requests
    assert request.path.endswith("/responses")
    assert request.headers["authorization"] == "Bearer sk-of-this-caller"
    assert request.json == {
        "model": "m",
        "input": [{"role": "user", "content": "Hi"}],
        "max_output_tokens": 100,
        "store": False,
        "stream": True,
    }


@each_kind
@pytest.mark.parametrize(
    "first",
    [
        whole(error_body("Busy."), 503),
        whole(error_body("Slow.", "rate_limit_error"), 429, [("retry-after", "0")]),
        [Rst()],
        [Head(), Send(FRAMES[0]), Send(KEEPALIVE), Fin()],
    ],
    ids=["503", "429", "reset", "the start alone"],
)
async def test_what_may_pass_is_tried_again(kind: str, first: list[Step]) -> None:
    async with (
        ScriptedUpstream(in_turn(first, GOOD)) as up,
        caller(kind, up.base_url, api="responses", retries=AT_ONCE) as ask,
    ):
        assert await ask.attempts(**ASK) == 2
        assert len(up.requests) == 2


@each_kind
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (whole(error_body("No.", "invalid_request_error"), 400), RequestRefused),
        (whole(error_body("Pay.", "insufficient_quota", "insufficient_quota"), 429), RateLimited),
        (stream(FRAMES[0] + ERROR), StreamError),
        (stream(b"".join(FRAMES[:MIDWAY]) + ERROR), StreamError),
        ([Head(), Send(FRAMES[0] + ERROR), Hang()], StreamError),
        ([Head(), Send(b"".join(FRAMES[:MIDWAY])), Rst()], StreamTruncated),
        ([Head(), Send(b"".join(FRAMES[:-1])), Fin()], StreamTruncated),
        (stream(b"".join(FRAMES[:-1]) + b"data: [DONE]\n\n"), StreamTruncated),
    ],
    ids=["400", "no credit", "error first", "error midway", "error and no end", "reset", "no end", "[DONE] for an end"],
)
async def test_what_may_not_is_raised_at_once(kind: str, script: list[Step], expected: type[ClientError]) -> None:
    async with ScriptedUpstream(script) as up, caller(kind, up.base_url, api="responses", retries=AT_ONCE) as ask:
        assert isinstance(await raised(ask), expected)
        assert len(up.requests) == 1


@each_kind
async def test_a_whole_answer_that_is_cut_is_tried_again(kind: str) -> None:
    cut: list[Step] = [Head(content_type="application/json", framing=5000), Send(responses_whole()[:100]), Fin()]
    async with (
        ScriptedUpstream(in_turn(cut, whole(responses_whole()))) as up,
        caller(kind, up.base_url, api="responses", retries=AT_ONCE) as ask,
    ):
        answer = await ask.create(**ASK)
        assert (answer.text, len(up.requests)) == (TEXT, 2)
        assert json.loads(up.requests[0].body)["stream"] is False


@each_kind
async def test_keepalives_are_no_events(kind: str) -> None:
    script: list[Step] = [Head(), Send(FRAMES[0]), *[Send(KEEPALIVE) for _ in range(5)], Hang()]
    async with (
        ScriptedUpstream(script) as up,
        caller(kind, up.base_url, api="responses", retries=0, timeouts=Timeouts(first_event_s=0.3)) as ask,
    ):
        error = await raised(ask)
    assert isinstance(error, StreamTimeout)
    assert error.phase == "first_event"


@each_kind
async def test_leaving_it_midway(kind: str) -> None:
    script: list[Step] = [Head(), Send(b"".join(FRAMES[:MIDWAY])), Hang()]
    async with ScriptedUpstream(script) as up, caller(kind, up.base_url, api="responses") as ask:
        part = await ask.leave(lambda event: isinstance(event, TextDelta), **ASK)
    assert part.text
    assert not part.is_whole


def test_a_client_shows_which_api_it_speaks_and_no_key() -> None:
    for client in (Client, AsyncClient):
        shown = repr(client("http://127.0.0.1:1", api_key="sk-secret-of-mine", api="responses"))
        assert shown == f"{client.__name__}('http://127.0.0.1:1/v1/responses', api='responses')"
    with pytest.raises(ValueError, match="no dialects"):
        Client("http://127.0.0.1:1", api="responses", dialect="openai")
