"""Either client with the Messages API: against a real gateway on the simulator, and against scripted servers.

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
from support.answers import TEXTS, anthropic_error_body, anthropic_frames, anthropic_stream, anthropic_whole
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
ASK: dict[str, Any] = {"model": "m", "messages": "Hi", "max_tokens": 100}
TOOL = {"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
GOOD = stream(anthropic_stream())
START = anthropic_frames()[0]
PING = b'event: ping\ndata: {"type":"ping"}\n\n'
ERROR = b"event: error\ndata: %b\n\n" % anthropic_error_body("Busy.", "overloaded_error")

each_kind = pytest.mark.parametrize("kind", KINDS)


async def raised(ask: Caller, **request: Any) -> ClientError:
    with pytest.raises(ClientError) as found:
        await ask.final(**{**ASK, **request})
    return found.value


@each_kind
@pytest.mark.parametrize("prefix", ["", "/v1", "/anthropic/v1", "/v1/messages"])
async def test_the_gateway_streamed_and_whole(kind: str, prefix: str) -> None:
    async with (
        gateway(CONFIG) as gate,
        caller(kind, gate.base_url + prefix, api_key=KEY, api="messages", retries=0) as ask,
    ):
        for script in ("hello", "reasoning", "tools?calls=2", "refusal", "hello?finish=length"):
            request = {"model": f"sim/{script}", "messages": "Say it.", "max_tokens": 400, "tools": [TOOL]}
            streamed, answer = await ask.final(**request), await ask.create(**request)
            assert streamed.is_whole
            assert (streamed.finish_reason, streamed.text) == (answer.finish_reason, answer.text), script
            assert [call.parsed() for call in streamed.tool_calls] == [call.parsed() for call in answer.tool_calls]
            kinds = [block["type"] for block in streamed.content]
            assert kinds == [block["type"] for block in answer.content]
            assert streamed.usage is not None
            assert answer.usage is not None
            assert streamed.usage.total_tokens == answer.usage.total_tokens > 0
            assert streamed.request_id
            if script == "reasoning":
                assert kinds == ["thinking", "text"]
                assert streamed.content[0]["signature"]
            if script.startswith("tools"):
                assert (streamed.finish_reason, kinds[-2:]) == ("tool_use", ["tool_use", "tool_use"])


@each_kind
async def test_the_gateways_errors(kind: str) -> None:
    async with (
        gateway(CONFIG) as gate,
        caller(kind, gate.base_url, api_key=KEY, api="messages", retries=0) as ask,
        caller(kind, gate.base_url, api_key="sk-nobody-has-this-key", api="messages", retries=0) as stranger,
    ):
        error = await raised(ask, model="sim/error?status=429&retry_after=7")
        assert isinstance(error, RateLimited)
        assert (error.status, error.type, error.retry_after_s) == (429, "rate_limit_error", 7.0)
        assert error.request_id
        error = await raised(ask, model="nobody/knows")
        assert isinstance(error, NotFound)
        assert error.type == "not_found_error"
        error = await raised(ask, max_tokens=None)
        assert isinstance(error, RequestRefused)
        assert error.type == "invalid_request_error"
        assert isinstance(await raised(stranger, model="sim/hello"), AuthenticationFailed)
        error = await raised(ask, model="sim/cut?at=5&how=rst")
        assert isinstance(error, StreamError)
        assert (error.type, error.completion.is_whole) == ("api_error", False)
        assert error.completion.text
        assert error.completion.finish_reason is None


@each_kind
async def test_what_is_sent(kind: str) -> None:
    async with (
        ScriptedUpstream(GOOD) as up,
        caller(kind, up.base_url, api_key="sk-of-this-caller", api="messages", headers={"anthropic-beta": "b"}) as ask,
    ):
        answer = await ask.final(**ASK)
    assert (answer.text, answer.finish_reason) == (TEXT, "end_turn")
    (request,) = up.requests
    assert request.path.endswith("/messages")
    headers = request.headers
    assert (headers["authorization"], headers["x-api-key"]) == ("Bearer sk-of-this-caller", "sk-of-this-caller")
    assert (headers["anthropic-version"], headers["anthropic-beta"]) == ("2023-06-01", "b")
    assert request.json == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 100,
        "stream": True,
    }


@each_kind
@pytest.mark.parametrize(
    "first",
    [
        whole(anthropic_error_body("Busy.", "overloaded_error"), 529),
        whole(anthropic_error_body("Slow.", "rate_limit_error"), 429, [("retry-after", "0")]),
        [Rst()],
        [Head(), Send(START), Send(PING), Fin()],
    ],
    ids=["529", "429", "reset", "the start alone"],
)
async def test_what_may_pass_is_tried_again(kind: str, first: list[Step]) -> None:
    async with (
        ScriptedUpstream(in_turn(first, GOOD)) as up,
        caller(kind, up.base_url, api="messages", retries=AT_ONCE) as ask,
    ):
        assert await ask.attempts(**ASK) == 2
        assert len(up.requests) == 2


@each_kind
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (whole(anthropic_error_body("No.", "invalid_request_error"), 400), RequestRefused),
        (whole(anthropic_error_body("Pay.", "billing_error"), 402), RequestRefused),
        (whole(anthropic_error_body("Pay."), 503, [("x-should-retry", "false")]), ClientError),
        (stream(START + ERROR), StreamError),
        (stream(b"".join(anthropic_frames()[:4]) + ERROR), StreamError),
        ([Head(), Send(b"".join(anthropic_frames()[:4])), Rst()], StreamTruncated),
        ([Head(), Send(b"".join(anthropic_frames()[:-1])), Fin()], StreamTruncated),
    ],
    ids=["400", "402", "it says no", "error first", "error in the midst", "reset in the midst", "no message_stop"],
)
async def test_what_may_not_is_raised_at_once(kind: str, script: list[Step], expected: type[ClientError]) -> None:
    async with ScriptedUpstream(script) as up, caller(kind, up.base_url, api="messages", retries=AT_ONCE) as ask:
        assert isinstance(await raised(ask), expected)
        assert len(up.requests) == 1


@each_kind
async def test_a_whole_answer_that_is_cut_is_tried_again(kind: str) -> None:
    cut: list[Step] = [Head(content_type="application/json", framing=500), Send(anthropic_whole()[:100]), Fin()]
    async with (
        ScriptedUpstream(in_turn(cut, whole(anthropic_whole()))) as up,
        caller(kind, up.base_url, api="messages", retries=AT_ONCE) as ask,
    ):
        answer = await ask.create(**ASK)
        assert (answer.text, len(up.requests)) == (TEXT, 2)
        assert json.loads(up.requests[0].body)["stream"] is False


@each_kind
async def test_pings_are_no_events(kind: str) -> None:
    pings = [Send(PING) for _ in range(5)]
    script: list[Step] = [Head(), Send(START), *pings, Hang()]
    async with (
        ScriptedUpstream(script) as up,
        caller(kind, up.base_url, api="messages", retries=0, timeouts=Timeouts(first_event_s=0.3)) as ask,
    ):
        error = await raised(ask)
    assert isinstance(error, StreamTimeout)
    assert error.phase == "first_event"


@each_kind
async def test_leaving_it_midway(kind: str) -> None:
    script: list[Step] = [Head(), Send(b"".join(anthropic_frames()[:4])), Hang()]
    async with ScriptedUpstream(script) as up, caller(kind, up.base_url, api="messages") as ask:
        part = await ask.leave(lambda event: isinstance(event, TextDelta), **ASK)
    assert part.text
    assert not part.is_whole


def test_a_client_shows_which_api_it_speaks_and_no_key() -> None:
    for client in (Client, AsyncClient):
        shown = repr(client("http://127.0.0.1:1", api_key="sk-secret-of-mine", api="messages"))
        assert shown == f"{client.__name__}('http://127.0.0.1:1/v1/messages', api='messages')"
    with pytest.raises(ValueError, match="no dialects"):
        Client("http://127.0.0.1:1", api="messages", dialect="openai")
