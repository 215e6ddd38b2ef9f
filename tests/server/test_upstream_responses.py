"""An upstream of the Responses wire that goes wrong: cut, silent, failing, or not of this wire at all.

Each row is tried in the three ways in which such an answer reaches a caller: as chat completions, as Messages, and
passed on as Responses. Whatever had come, the caller gets it and then an error, or a status where nothing had come; no
stream that was cut looks complete. Rows by docs/spec/failures.md. `make test` takes a part of the places, `make soak`
all edges in all ways.
"""

import json
import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import pytest

from support.answers import error_body
from support.gateway import Gate, chat_request, gateway_to, nothing_left
from support.messages import messages_request
from support.outcome import serving
from support.raw_client import Reply
from support.responses import responses_request
from support.responses_body import ResponsesAnswer, frame_of
from support.script import End, Fin, Flood, Hang, Head, Rst, Seen, Send, Step, stream, whole
from support.soak import part_of

pytestmark = pytest.mark.usefixtures("no_jitter")

OURS = 'wire = "responses"'
ANSWER = (
    ResponsesAnswer(usage=(7, 40, 0, 8), tools=[{"type": "function", "name": "look"}])
    .reasoning(["Let me ", "think."], encrypted="ZW5j")
    .text("I will ", "look ", "at both.")
    .calls(("look", ['{"path":', '"a"}'], "call_1"), ("look", ["{}"], "call_2"))
)
FRAMES = ANSWER.frames()
BODY = b"".join(FRAMES)
BEGUN = next(i for i, frame in enumerate(FRAMES) if b"output_text.delta" in frame) + 2
"""How many frames bring the reasoning and two texts."""
WAYS = ("chat", "messages", "responses")
each_way = pytest.mark.parametrize("way", WAYS)
ENDS: dict[str, Step] = {"end": End(), "fin": Fin(), "rst": Rst()}
COMPLETE = {"chat": b'"finish_reason":"', "messages": b"message_stop", "responses": b"event: response.completed"}
ERROR = {"chat": b'data: {"error":', "messages": b"event: error", "responses": b"event: response.failed"}


async def ask(gate: Gate, way: str, model: str = "up/m", streamed: bool = True) -> Reply:
    write: Any = {"chat": chat_request, "messages": messages_request, "responses": responses_request}[way]
    async with await gate.connect() as client:
        await client.send(write(model=model, stream=streamed))
        return await client.response()


def assert_failed(reply: Reply, way: str, code: str) -> None:
    """It ends with an error, or is one."""
    if reply.status == 200:
        assert ERROR[way] in reply.body
        assert COMPLETE[way] not in reply.body
    else:
        assert reply.status >= 400
        assert json.loads(reply.body)["error"]["message"]
        if way != "messages":
            assert json.loads(reply.body)["error"]["code"] == code


def cut(seen: Seen) -> Sequence[Step]:
    """Each request says by its model where it is to be cut."""
    found = re.search(rb"cut-(\d+)-(\w+)", seen.body)
    assert found is not None
    return [Head(), Send(BODY[: int(found[1])]), ENDS[found[2].decode()]]


@each_way
async def test_u17_u18_u20_a_stream_cut(way: str) -> None:
    edges = list(accumulate(map(len, FRAMES), initial=0))[:-1]
    inside = [edge + len(frame) // 2 for edge, frame in zip(edges, FRAMES, strict=True)]
    places = part_of([(at, how) for at in edges for how in ENDS] + [(at, "fin") for at in inside], 12)
    async with nothing_left(), serving(cut, "openai", own=OURS) as (gate, up):
        for at, how in places:
            reply = await ask(gate, way, f"up/cut-{at}-{how}")
            code = "upstream_stream_reset" if how == "rst" else "upstream_stream_truncated"
            if at == 0 and how == "end":
                code = "upstream_empty_response"
            assert_failed(reply, way, code)
            if way == "responses" and reply.status == 200:
                passed = reply.body[: reply.body.rindex(b"event: error")]
                assert BODY.startswith(passed)
        records = await gate.settled(len(places))
        assert {record.verdict for record in records} == {"truncated"}
        await up.vacated()


@each_way
async def test_u14_an_upstream_that_falls_silent(way: str) -> None:
    steps: list[Step] = [Head(), Send(b"".join(FRAMES[:BEGUN])), Hang()]
    async with gateway_to(steps, "[server.timeouts]\nidle_s = 0.05\n", provider=OURS) as (gate, _):
        assert_failed(await ask(gate, way), way, "stream_idle_timeout")
        (record,) = await gate.settled()
        assert (record.verdict, record.error) == ("idle_timeout", "stream_idle_timeout")


@each_way
async def test_u23_an_error_in_the_middle(way: str) -> None:
    error = {"type": "server_error", "code": "server_is_overloaded", "message": "Busy.", "param": None}
    failed = ResponsesAnswer().text("So far").frames(error=error)
    for frames in (failed, failed[:-1]):  # with the frame behind it that has the usage, and without
        async with gateway_to(stream(b"".join(frames)), provider=OURS) as (gate, _):
            reply = await ask(gate, way)
            assert b"So far" in reply.body
            assert_failed(reply, way, "upstream_overloaded")
            (record,) = await gate.settled()
            assert (record.verdict, record.error) == ("upstream_error", "upstream_overloaded")


@each_way
async def test_u23_an_error_that_nothing_follows_is_not_waited_for(way: str) -> None:
    body = b"".join(FRAMES[:BEGUN]) + frame_of({"type": "error", "code": "server_error", "message": "It stopped."})
    toml = "[server.timeouts]\nsilence_s = 0.05\n"
    async with gateway_to([Head(), Send(body), Hang()], toml, provider=OURS) as (gate, _):
        assert_failed(await ask(gate, way), way, "upstream_server_error")
        (record,) = await gate.settled()
        assert record.error == "upstream_server_error"


@each_way
@pytest.mark.parametrize(
    "broken",
    [b"data: {broken\n\n", b"\xff\xfe\n\n", b'data: {"type":"response.created","response":{"id":"resp_2"}}\n\n'],
    ids=["no json", "no text", "another answer"],
)
async def test_u22_a_frame_that_cannot_be_read(way: str, broken: bytes) -> None:
    body = b"".join([*FRAMES[:BEGUN], broken, *FRAMES[BEGUN:]])
    async with gateway_to(stream(body), provider=OURS) as (gate, _):
        reply = await ask(gate, way)
        if broken.startswith(b"\xff") and way != "responses":
            assert COMPLETE[way] in reply.body, "a line that is no field is passed over"
        else:
            assert_failed(reply, way, "upstream_invalid_frame")
        await gate.settled()


@each_way
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_u11_an_answer_of_another_kind(way: str, streamed: bool) -> None:
    script: list[Step] = [Head(200, "text/html"), Send(b"<html>Hello</html>"), End()]
    async with gateway_to(script, provider=OURS) as (gate, _):
        assert_failed(await ask(gate, way, streamed=streamed), way, "upstream_bad_response")
        await gate.settled()
    async with gateway_to(whole(b'{"object":"chat.completion","choices":[]}'), provider=OURS) as (gate, _):
        assert_failed(await ask(gate, way, streamed=streamed), way, "upstream_bad_response")
        await gate.settled()


@each_way
@pytest.mark.parametrize(
    ("status", "code", "attempts"),
    [
        (401, "upstream_auth_failed", 1),
        (429, "upstream_rate_limited", 1),
        (500, "upstream_server_error", 3),
        (503, "upstream_overloaded", 3),
    ],
)
async def test_u5_u7_u10_a_status_before_the_answer(way: str, status: int, code: str, attempts: int) -> None:
    async with gateway_to(whole(error_body("No.", "x"), status, [("retry-after", "60")]), provider=OURS) as (gate, up):
        reply = await ask(gate, way)
        assert reply.status >= 400
        (record,) = await gate.settled()
        assert record.error == code
        assert len(up.requests) == len(record.attempts) <= attempts


@each_way
async def test_u25_an_endless_frame_and_endless_keep_alives_are_bounded(way: str) -> None:
    begun = b"".join(FRAMES[:BEGUN])
    async with gateway_to([Head(), Send(begun + b"data: "), Flood(b"x" * 65536)], provider=OURS) as (gate, _):
        assert_failed(await ask(gate, way), way, "upstream_frame_too_large")
        await gate.settled()
    alive = frame_of({"type": "keepalive", "sequence_number": 9})
    toml = "[server.timeouts]\ntotal_s = 0.3\n"
    async with gateway_to([Head(), Send(begun), Flood(alive)], toml, provider=OURS) as (gate, _):
        assert_failed(await ask(gate, way), way, "stream_deadline_exceeded")
        (record,) = await gate.settled()
        assert record.verdict == "deadline"


@pytest.mark.parametrize("way", ["chat", "messages"])
async def test_usage_is_the_providers_report_or_counted_without_one(way: str) -> None:
    async with gateway_to(stream(BODY), provider=OURS) as (gate, _):
        reply = await ask(gate, way)
        assert COMPLETE[way] in reply.body
        (record,) = await gate.settled()
        assert record.usage is not None
        assert (record.usage.prompt_tokens, record.usage.completion_tokens, record.usage_source) == (7, 40, "provider")
    silent = ResponsesAnswer(usage=None).text("a few words")
    async with gateway_to(stream(silent.stream()), provider=OURS) as (gate, _):
        await ask(gate, way)
        (record,) = await gate.settled()
        assert record.usage is not None
        assert record.usage.completion_tokens > 0
        assert record.usage_source != "provider"
