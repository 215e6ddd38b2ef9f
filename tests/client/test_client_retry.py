"""What is tried again, counted at the server: before the first event, a bounded number of times, and never after it."""

from email.utils import formatdate
from typing import Any

import pytest

from streamweir.client import (
    ClientError,
    RateLimited,
    RequestRefused,
    Retries,
    ServerFailed,
    StreamError,
    StreamTruncated,
    Unreachable,
)
from support.answers import TEXTS, error_body, error_frame, openai_frames, openai_stream, openai_whole
from support.client_calls import AT_ONCE, KINDS, caller
from support.script import Fin, Head, Rst, Script, Send, Step, in_turn, stream, whole
from support.scripted_upstream import ScriptedUpstream

TEXT = "".join(TEXTS)
ROLE = openai_frames()[0]
GOOD = stream(openai_stream())
ASK: dict[str, Any] = {"model": "m", "messages": "Hi"}
BUSY = whole(error_body("Busy."), 503)

each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
@pytest.mark.parametrize(
    "first",
    [
        BUSY,
        whole(error_body("Slow down."), 429, [("retry-after", "0")]),
        whole(error_body("Slow down."), 429, [("retry-after", formatdate(0, usegmt=True))]),
        whole(error_body("Timeout."), 408),
        whole(error_body("In progress."), 409, [("retry-after", "0")]),
        whole(error_body("Odd."), 400, [("x-should-retry", "true")]),
        [Fin()],
        [Rst()],
        [Head(), Fin()],
        [Head(), Rst()],
        [Head(), Send(ROLE), Fin()],
        stream(b""),
    ],
    ids=["503", "429", "429 by date", "408", "409", "it says so", "no status", "reset", "no body", "body reset",
         "the role alone", "empty"],
)  # fmt: skip
async def test_what_may_pass_is_tried_again(kind: str, first: list[Step]) -> None:
    async with (
        ScriptedUpstream(in_turn(first, GOOD)) as up,
        caller(kind, up.base_url, retries=AT_ONCE) as ask,
    ):
        assert await ask.attempts(**ASK) == 2
        assert len(up.requests) == 2
        assert up.requests[0].body == up.requests[1].body


@each_kind
async def test_a_whole_answer_is_tried_again_too(kind: str) -> None:
    cut: list[Step] = [Head(content_type="application/json", framing=500), Send(openai_whole()[:100]), Fin()]
    async with (
        ScriptedUpstream(in_turn(BUSY, cut, whole(openai_whole()))) as up,
        caller(kind, up.base_url, retries=AT_ONCE) as ask,
    ):
        assert (await ask.create(**ASK)).text == TEXT
        assert len(up.requests) == 3


@each_kind
async def test_it_is_tried_a_bounded_number_of_times(kind: str) -> None:
    async with ScriptedUpstream(BUSY) as up, caller(kind, up.base_url, retries=AT_ONCE) as ask:
        with pytest.raises(ServerFailed, match="Busy"):
            await ask.final(**ASK)
        assert len(up.requests) == 3
    async with ScriptedUpstream([Fin()]) as up, caller(kind, up.base_url, retries=0) as ask:
        with pytest.raises(Unreachable):
            await ask.final(**ASK)
        assert len(up.requests) == 1
    async with ScriptedUpstream(BUSY) as up, caller(kind, up.base_url, retries=Retries(most=5, base_s=0)) as ask:
        with pytest.raises(ServerFailed):
            await ask.create(**ASK)
        assert len(up.requests) == 6


@each_kind
@pytest.mark.parametrize(
    ("script", "kind_of_error"),
    [
        (whole(error_body("Bad."), 400), RequestRefused),
        (whole(error_body("No credit.", "insufficient_quota"), 429), RateLimited),
        (whole(error_body("No."), 503, [("x-should-retry", "false")]), ServerFailed),
        (whole(error_body("Later."), 429, [("retry-after", "3600")]), RateLimited),
        (stream(error_frame(error_body("It broke."))), StreamError),
        ([Head(), Send(b"".join(openai_frames()[:2])), Fin()], StreamTruncated),
        (stream(b"".join(openai_frames()[:2])), StreamTruncated),
    ],
    ids=["400", "no credit", "it says so", "too long a wait", "an error frame", "cut after a text", "ended after it"],
)
async def test_what_may_not(kind: str, script: Script, kind_of_error: type[ClientError]) -> None:
    async with ScriptedUpstream(script) as up, caller(kind, up.base_url, retries=AT_ONCE) as ask:
        with pytest.raises(kind_of_error) as raised:
            await ask.final(**ASK)
        assert len(up.requests) == 1
        if isinstance(raised.value, StreamTruncated):
            assert raised.value.completion.text == TEXTS[0]
        if isinstance(raised.value, RateLimited) and raised.value.retry_after_s is not None:
            assert raised.value.retry_after_s == 3600
