"""A client that resumes: it shows one uninterrupted answer, asks only for what it lacks, and ends what it leaves."""

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from streamweir.client import (
    ClientError,
    Completion,
    Limits,
    Resume,
    StreamError,
    StreamTimeout,
    StreamTooLarge,
    StreamTruncated,
    TextDelta,
    Timeouts,
)
from streamweir.client.api import Api
from support.answers import TEXTS, anthropic_frames, error_body, error_frame, openai_frames, responses_frames
from support.client_calls import AT_ONCE, KINDS, Leaves, caller
from support.resumable_upstream import NAMED, STREAM_ID, ResumableAnswer
from support.script import End, Fin, Hang, Head, Rst, Script, Seen, Send, Step, in_turn, stream, whole
from support.scripted_upstream import ScriptedUpstream
from support.soak import SOAKS

KEY = "sk-Qx7vLmZ2pKd9RtYw4HbNc8Jf"
TEXT = "".join(TEXTS)
FRAMES: dict[str, Callable[[], list[bytes]]] = {
    "chat": openai_frames,
    "messages": anthropic_frames,
    "responses": responses_frames,
}
AGAIN = Resume(base_s=0, cap_s=0)
"""Comes back without a pause."""
ASK: dict[str, Any] = {"model": "m", "messages": "Hi", "max_tokens": 100}

each_kind = pytest.mark.parametrize("kind", KINDS)


async def answered(
    kind: str, script: Script, *, api: Api = "chat", resume: Resume | bool = AGAIN, **settings: Any
) -> tuple[Completion, bytes, ScriptedUpstream]:
    taped: list[bytes] = []
    async with ScriptedUpstream(script) as up:
        async with caller(kind, up.base_url, api_key=KEY, retries=AT_ONCE, api=api, resume=resume, **settings) as ask:
            answer = await ask.final(**ASK, tap=taped.append)
        await up.vacated()
    return answer, b"".join(taped), up


@each_kind
@pytest.mark.parametrize("api", FRAMES)
@pytest.mark.parametrize("seed", range(40 if SOAKS else 4))
async def test_any_cuts_give_the_answer_of_an_uninterrupted_stream(kind: str, api: Api, seed: int) -> None:
    frames, random = FRAMES[api](), Random(f"{api} {seed}")
    size = len(b"".join(frames))
    cuts = [random.randrange(size // 2) for _ in range(random.randrange(1, 6))]
    server = ResumableAnswer(frames, cuts, resets=bool(seed % 2))
    answer, taped, _ = await answered(kind, server.script, api=api)
    assert (answer.text, answer.is_whole) == (TEXT, True)
    assert b"".join(line for line in taped.splitlines(keepends=True) if line[:1] != b":") == b"".join(frames)
    assert server.asked == sorted(server.asked), "nothing is asked for twice"
    assert server.deleted == 0


@each_kind
async def test_the_key_and_the_headers_of_the_request_are_sent_again(kind: str) -> None:
    server = ResumableAnswer(openai_frames(), [300])
    _, _, up = await answered(kind, server.script, headers={"x-team": "a"})
    first, second = up.requests
    assert (first.method, first.headers["x-streamweir-resumable"]) == ("POST", "true")
    assert first.headers["idempotency-key"]
    assert (second.method, second.path) == ("GET", f"/v1/streams/{STREAM_ID}?after={server.asked[1]}")
    assert (second.headers["authorization"], second.headers["x-team"]) == (f"Bearer {KEY}", "a")
    assert not {"idempotency-key", "x-streamweir-resumable", "content-type"} & second.headers.keys()
    assert second.body == b""


@each_kind
async def test_a_request_that_is_repeated_has_the_same_idempotency_key(kind: str) -> None:
    server = ResumableAnswer(openai_frames())

    def script(request: Seen) -> list[Step]:
        return [Rst()] if request.number == 0 else server.script(request)

    _, _, up = await answered(kind, script)
    assert len({request.headers["idempotency-key"] for request in up.requests}) == 1
    _, _, again = await answered(kind, server.script)
    assert again.requests[0].headers["idempotency-key"] != up.requests[0].headers["idempotency-key"]


@each_kind
async def test_nothing_is_asked_for_unless_the_client_wants_it(kind: str) -> None:
    async with ScriptedUpstream([Head(headers=NAMED), Send(b"".join(openai_frames()[:3])), Fin()]) as up:
        async with caller(kind, up.base_url, retries=AT_ONCE) as ask:
            with pytest.raises(StreamTruncated):
                await ask.final(**ASK)
        assert len(up.requests) == 1
        assert not {"idempotency-key", "x-streamweir-resumable"} & up.requests[0].headers.keys()


@each_kind
async def test_a_server_that_names_no_stream_is_not_asked_again(kind: str) -> None:
    async with ScriptedUpstream([Head(), Send(b"".join(openai_frames()[:3])), Fin()]) as up:
        async with caller(kind, up.base_url, retries=AT_ONCE, resume=AGAIN) as ask:
            with pytest.raises(StreamTruncated):
                await ask.final(**ASK)
        assert len(up.requests) == 1


@each_kind
@pytest.mark.parametrize(
    ("refusal", "words"),
    [(whole(error_body("It is gone."), 410), "cannot be resumed.*It is gone"), (whole(b"<p>", 404), "resumed.*404")],
)
async def test_a_refusal_ends_the_answer_and_says_why(kind: str, refusal: list[Step], words: str) -> None:
    begun: list[Step] = [Head(headers=NAMED, framing="close"), Send(b"".join(openai_frames()[:3])), Fin()]
    deleted: list[Step] = [Head(204, None, framing=0), End()]
    async with ScriptedUpstream(in_turn(begun, refusal, deleted)) as up:
        async with caller(kind, up.base_url, retries=AT_ONCE, resume=AGAIN) as ask:
            with pytest.raises(StreamTruncated, match=words) as raised:
                await ask.final(**ASK)
        assert raised.value.completion.text == "".join(TEXTS[:2])


@each_kind
async def test_a_server_that_is_busy_or_away_is_asked_again_so_many_times(kind: str) -> None:
    frames = openai_frames()
    begun: list[Step] = [Head(headers=NAMED, framing="close"), Send(b"".join(frames[:3])), Fin()]
    busy = whole(error_body("It stops."), 503)
    rest: list[Step] = [Head(headers=NAMED), Send(b"".join(frames[3:])), End()]
    answer, _, up = await answered(kind, in_turn(begun, busy, [Rst()], [Fin()], rest))
    assert answer.text == TEXT
    assert len(up.requests) == 5
    async with ScriptedUpstream(lambda request: begun if request.method == "POST" else busy) as up:
        async with caller(kind, up.base_url, resume=Resume(most=3, base_s=0, cap_s=0)) as ask:
            with pytest.raises(StreamTruncated, match="It stops"):
                await ask.final(**ASK)
        assert [request.method for request in up.requests] == ["POST", "GET", "GET", "GET", "DELETE"]


@each_kind
async def test_a_stream_without_content_is_resumed_and_not_asked_for_anew(kind: str) -> None:
    begun: list[Step] = [Head(headers=NAMED, framing="close"), Fin()]
    empty: list[Step] = [Head(headers=NAMED, framing="close"), Fin()]
    async with ScriptedUpstream(lambda request: begun if request.method == "POST" else empty) as up:
        async with caller(kind, up.base_url, retries=AT_ONCE, resume=Resume(most=2, base_s=0, cap_s=0)) as ask:
            with pytest.raises(StreamTruncated):
                await ask.final(**ASK)
        assert [request.method for request in up.requests] == ["POST", "GET", "GET", "DELETE"]


@each_kind
async def test_an_error_frame_is_the_end(kind: str) -> None:
    failed = [*openai_frames()[:3], error_frame(error_body("The node died."))]
    server = ResumableAnswer(failed)
    async with ScriptedUpstream(server.script) as up:
        async with caller(kind, up.base_url, resume=AGAIN) as ask:
            with pytest.raises(StreamError, match="The node died"):
                await ask.final(**ASK)
        assert len(up.requests) == 1


@each_kind
async def test_a_connection_that_is_silent_is_given_up_and_the_answer_goes_on(kind: str) -> None:
    frames = openai_frames()
    begun: list[Step] = [Head(headers=NAMED), Send(b"".join(frames[:3])), Hang()]
    rest: list[Step] = [Head(headers=NAMED), Send(b"".join(frames[3:])), End()]
    answer, _, up = await answered(kind, in_turn(begun, rest), resume=Resume(base_s=0, cap_s=0, silence_s=0.1))
    assert answer.text == TEXT
    assert up.requests[1].path.endswith("after=3")


@each_kind
async def test_the_time_for_an_event_is_that_of_all_connections(kind: str) -> None:
    begun: list[Step] = [Head(headers=NAMED), Send(b"".join(openai_frames()[:3])), Hang()]
    timeouts = Timeouts(first_event_s=30, between_events_s=0.2)
    silent = Resume(most=1_000_000, base_s=0, cap_s=0, silence_s=0.05)

    def script(request: Seen) -> list[Step]:
        if request.method == "DELETE":
            return [Head(204, None, framing=0), End()]
        return [Head(headers=NAMED), Hang()] if request.path.endswith("after=3") else begun

    async with ScriptedUpstream(script) as up:
        async with caller(kind, up.base_url, resume=silent, timeouts=timeouts) as ask:
            with pytest.raises(StreamTimeout) as raised:
                await ask.final(**ASK)
        assert raised.value.phase == "between_events"
        assert up.requests[-1].method == "DELETE"


@each_kind
async def test_what_is_too_large_ends_the_answer(kind: str) -> None:
    server = ResumableAnswer([*openai_frames()[:3], b"data: " + b"a" * 2000 + b"\n\n"])
    async with (
        ScriptedUpstream(server.script) as up,
        caller(kind, up.base_url, resume=AGAIN, limits=Limits(event_bytes=1000)) as ask,
    ):
        with pytest.raises(StreamTooLarge):
            await ask.final(**ASK)


@each_kind
@pytest.mark.parametrize("raising", [False, True])
async def test_a_stream_that_is_left_is_ended(kind: str, raising: bool) -> None:
    begun: list[Step] = [Head(headers=NAMED), Send(b"".join(openai_frames()[:3])), Hang()]

    def script(request: Seen) -> list[Step]:
        return [Head(204, None, framing=0), End()] if request.method == "DELETE" else begun

    async with ScriptedUpstream(script) as up, caller(kind, up.base_url, api_key=KEY, resume=True) as ask:
        with suppress(Leaves):
            await ask.leave(lambda event: isinstance(event, TextDelta), raising=raising, **ASK)
        deleted = await up.seen(2)
        assert (deleted.method, deleted.path) == ("DELETE", f"/v1/streams/{STREAM_ID}")
        assert deleted.headers["authorization"] == f"Bearer {KEY}"


@each_kind
async def test_a_dialect_without_a_terminator_ends_by_its_finish(kind: str) -> None:
    frames = openai_frames(usage=False, done=False)
    server = ResumableAnswer(frames, [200, 0])
    answer, _, _ = await answered(kind, server.script, dialect="bitseek")
    assert (answer.text, answer.is_whole) == (TEXT, True)


@each_kind
async def test_whole_answers_are_asked_for_as_before(kind: str) -> None:
    async with ScriptedUpstream(stream(b"")) as up:
        async with caller(kind, up.base_url, retries=0, resume=True) as ask:
            with pytest.raises(ClientError):
                await ask.create(**ASK)
        assert "x-streamweir-resumable" not in up.requests[0].headers
