"""One request of either client to a scripted server: what is sent, kept and waited for."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from streamweir.client import (
    AsyncClient,
    Client,
    Event,
    Limits,
    RequestFailed,
    StreamInvalid,
    StreamTimeout,
    StreamTooLarge,
    StreamTruncated,
    TextDelta,
    Timeouts,
    Unreachable,
)
from streamweir.client.watchdog import Watchdog
from support.answers import TEXTS, error_body, openai_frames, openai_stream, openai_whole
from support.certificate import make_certificate
from support.client_calls import KINDS, Caller, Leaves, caller
from support.gateway import nothing_left
from support.script import End, Fin, Flood, Hang, Head, Line, Rst, Script, Send, Step, stream, whole
from support.scripted_upstream import ScriptedUpstream

KEY = "sk-Qx7vLmZ2pKd9RtYw4HbNc8Jf"
TEXT = "".join(TEXTS)
FRAMES = openai_frames()
BEGUN = b"".join(FRAMES[:2])
SHORT = {
    "first_event": Timeouts(first_event_s=0.1, between_events_s=30),
    "between_events": Timeouts(first_event_s=30, between_events_s=0.1),
}
"""By what is waited for; the machine may be slow, so the other time is long."""
ASK: dict[str, Any] = {"model": "m", "messages": "Hi"}

each_kind = pytest.mark.parametrize("kind", KINDS)


@asynccontextmanager
async def asked(kind: str, script: Script, **settings: Any) -> AsyncIterator[tuple[Caller, ScriptedUpstream]]:
    """In the end no connection is left open, by either side."""
    settings = {"retries": 0, "api_key": KEY, **settings}
    async with ScriptedUpstream(script) as up:
        async with caller(kind, up.base_url, **settings) as ask:
            yield ask, up
        await up.vacated()


def says(event: Event) -> bool:
    return isinstance(event, TextDelta)


@each_kind
async def test_a_choice_that_was_asked_for_and_is_missing_is_noticed(kind: str) -> None:
    async with asked(kind, stream(openai_stream())) as (ask, _):
        with pytest.raises(StreamTruncated):
            await ask.final(**ASK, n=2)


@each_kind
async def test_what_is_sent(kind: str) -> None:
    async with asked(kind, stream(openai_stream()), headers={"X-Team": "a"}) as (ask, up):
        answer = await ask.final(**ASK, temperature=0, headers={"X-Trace": "b"})
        seen = await up.seen(1)
    assert answer.text == TEXT
    assert (seen.method, seen.path) == ("POST", "/v1/chat/completions")
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert (seen.headers["x-team"], seen.headers["x-trace"], seen.headers["accept"]) == ("a", "b", "text/event-stream")
    assert seen.json == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@each_kind
async def test_a_whole_answer(kind: str) -> None:
    async with asked(kind, whole(openai_whole(), headers=[("x-request-id", "req_1")])) as (ask, up):
        answer = await ask.create(**ASK)
        seen = await up.seen(1)
    assert (answer.text, answer.request_id, answer.is_whole) == (TEXT, "req_1", True)
    assert seen.json["stream"] is False
    assert "stream_options" not in seen.json
    assert seen.headers["accept"] == "application/json"


@each_kind
async def test_a_dialect_that_always_streams_is_collected(kind: str) -> None:
    async with asked(kind, stream(b"".join(FRAMES[:-2])), dialect="bitseek") as (ask, up):
        assert (await ask.create(**ASK)).text == TEXT
        assert (await up.seen(1)).json["stream"] is True


@each_kind
@pytest.mark.parametrize("pieces_of", [None, 7])
async def test_a_connection_whose_answers_were_read_to_the_end_is_used_again(kind: str, pieces_of: int | None) -> None:
    async with asked(kind, stream(openai_stream(), pieces_of)) as (ask, up):
        for _ in range(3):
            await ask.final(**ASK)
        assert (up.accepted, up.aborts) == (1, [])


@each_kind
async def test_a_connection_is_used_again_after_a_status_that_is_no_success(kind: str) -> None:
    async with asked(kind, whole(error_body("No."), 404)) as (ask, up):
        for _ in range(2):
            with pytest.raises(RequestFailed):
                await ask.final(**ASK)
        await up.played(2)
        assert up.aborts == []


@each_kind
@pytest.mark.parametrize("raising", [False, True])
async def test_leaving_the_block_closes_the_connection(kind: str, raising: bool) -> None:
    async with asked(kind, [Head(), Send(BEGUN), Hang()]) as (ask, up):
        if raising:
            with pytest.raises(Leaves):
                await ask.leave(says, raising=True, **ASK)
        else:
            left = await ask.leave(says, **ASK)
            assert (left.text, left.is_whole) == (TEXTS[0], False)
        await up.aborted(1)


async def test_a_task_that_is_cancelled_closes_the_connection() -> None:
    async with ScriptedUpstream([Head(), Send(BEGUN), Hang()]) as up, AsyncClient(up.base_url) as client:
        said = asyncio.Event()

        async def run() -> None:
            async with client.stream(**ASK) as answer:
                async for event in answer:
                    if says(event):
                        said.set()

        async with nothing_left():
            task = asyncio.create_task(run())
            await said.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await up.aborted(1)
            await up.vacated()


async def test_a_task_that_is_cancelled_before_the_status_closes_the_connection() -> None:
    async with ScriptedUpstream([Hang()]) as up, AsyncClient(up.base_url) as client:
        task = asyncio.create_task(client.create(**ASK))
        await up.seen(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await up.aborted(1)


@each_kind
async def test_a_server_that_continues_after_the_end_is_disconnected(kind: str) -> None:
    async with asked(kind, [Head(), Send(openai_stream()), Hang()]) as (ask, up):
        assert (await ask.final(**ASK)).text == TEXT
        await up.aborted(1)


@each_kind
@pytest.mark.parametrize(
    ("script", "phase", "text"),
    [
        ([Hang()], "first_event", ""),
        ([Head(), Hang()], "first_event", ""),
        ([Head(), Send(FRAMES[0]), Hang()], "first_event", ""),
        ([Head(), Flood(b": still there\n\n")], "first_event", ""),
        ([Head(), Send(BEGUN), Hang()], "between_events", TEXTS[0]),
        ([Head(), Send(BEGUN), Flood(b": still there\n\n")], "between_events", TEXTS[0]),
        ([Head(framing="close"), Send(BEGUN), Hang()], "between_events", TEXTS[0]),
    ],
    ids=["no status", "no body", "the role alone", "comments alone", "silence", "comments", "unframed"],
)
async def test_silence_ends_it(kind: str, script: Script, phase: str, text: str) -> None:
    async with asked(kind, script, timeouts=SHORT[phase]) as (ask, up):
        with pytest.raises(StreamTimeout, match=r"no event came for 0\.1 seconds") as raised:
            await ask.final(**ASK)
        assert (raised.value.phase, raised.value.completion.text) == (phase, text)
        await up.aborted(1)
        assert len(up.requests) == 1, "it is not asked for again"


async def test_a_head_that_never_ends_runs_out_of_time() -> None:
    times = Timeouts(connect_s=1, first_event_s=0.2)  # its limit is their sum

    async def say_nothing(line: Line) -> None:
        while True:
            await line.raw(b"HTTP/1.1 103 Early Hints\r\n\r\n")

    async with ScriptedUpstream([say_nothing]) as up, AsyncClient(up.base_url, timeouts=times, retries=0) as client:
        with pytest.raises(StreamTimeout) as raised:
            await client.create(**ASK)
        assert raised.value.phase == "first_event"
        await up.aborted(1)


async def test_silence_ends_it_over_tls(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    async with ScriptedUpstream([Head(), Send(BEGUN), Hang()], tls=certificate.server_context()) as up:
        http = httpx2.Client(verify=ssl.create_default_context(cafile=certificate.cert_file))
        with http, Client(up.base_url, timeouts=SHORT["between_events"], http=http) as client:

            def run() -> None:
                with client.stream(**ASK) as answer:
                    answer.final()

            with pytest.raises(StreamTimeout):
                await asyncio.to_thread(run)
            assert not http.is_closed, "it was not ours"
        await up.vacated()


@each_kind
async def test_no_limit_waits(kind: str) -> None:
    async with asked(
        kind, stream(openai_stream(), 11), timeouts=Timeouts(connect_s=None, first_event_s=None, between_events_s=None)
    ) as (ask, _):
        assert (await ask.final(**ASK)).text == TEXT


@each_kind
@pytest.mark.parametrize("end", [Fin(), Rst()], ids=["fin", "rst"])
async def test_a_connection_that_breaks_is_a_truncated_answer(kind: str, end: Any) -> None:
    async with asked(kind, [Head(), Send(BEGUN), end]) as (ask, _):
        with pytest.raises(StreamTruncated, match="the stream ended before its end: ") as raised:
            await ask.final(**ASK)
        assert raised.value.completion.text in ("", TEXTS[0]), "a reset may overtake what was sent"


@each_kind
async def test_a_body_that_cannot_be_unpacked_is_one_that_broke(kind: str) -> None:
    head = Head(headers=[("content-encoding", "gzip")])
    async with asked(kind, [head, Send(openai_stream()), End()]) as (ask, _):
        with pytest.raises(StreamTruncated):
            await ask.final(**ASK)


@each_kind
async def test_redirects_are_not_followed(kind: str) -> None:
    async with ScriptedUpstream(stream(openai_stream())) as other:
        moved = whole(b"", 307, headers=[("location", f"{other.base_url}/chat/completions")])
        async with asked(kind, moved) as (ask, _):
            with pytest.raises(RequestFailed) as raised:
                await ask.final(**ASK)
            assert raised.value.status == 307
        assert other.accepted == 0, "the key stays where it was sent"


@each_kind
async def test_a_long_error_is_cut_and_a_broken_one_is_read_as_far_as_it_came(kind: str) -> None:
    async with asked(kind, whole(b"x" * 200_000, 500)) as (ask, _):
        with pytest.raises(RequestFailed, match="500: the server answered with status 500"):
            await ask.final(**ASK)
    cut: list[Step] = [Head(500, framing=1000), Send(b'{"error":'), Hang()]
    async with asked(kind, cut, timeouts=Timeouts(first_event_s=1)) as (ask, _):
        with pytest.raises(RequestFailed, match="500"):
            await ask.final(**ASK)


@each_kind
async def test_bounds(kind: str) -> None:
    async with asked(kind, stream(openai_stream()), limits=Limits(answer_bytes=500)) as (ask, _):
        with pytest.raises(StreamTooLarge):
            await ask.final(**ASK)
    async with asked(kind, whole(b'{"choices":[]}')) as (ask, _):
        with pytest.raises(StreamInvalid):
            await ask.create(**ASK)


@each_kind
async def test_a_tap_is_shown_the_bytes(kind: str) -> None:
    seen: list[bytes] = []
    async with asked(kind, stream(openai_stream(), 100)) as (ask, _):
        await ask.final(**ASK, tap=seen.append)
    assert b"".join(seen) == openai_stream()
    assert len(seen) > 1


@each_kind
async def test_nothing_listens(kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    async with caller(kind, f"http://user:password@127.0.0.1:{port}", api_key=KEY, retries=0) as ask:
        with pytest.raises(Unreachable) as raised:
            await ask.final(**ASK)
    assert f"http://127.0.0.1:{port}/v1/chat/completions cannot be reached: " in str(raised.value)
    assert "password" not in str(raised.value)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_nothing_secret_is_shown(kind: Callable[..., object]) -> None:
    client = kind("https://user:password@example.com/v1?sig=hidden", api_key=KEY, headers={"x-api-key": KEY})
    shown = repr(client)
    assert shown == f"{kind.__name__}('https://example.com/v1/chat/completions', dialect='openai')"


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("key", ["sk-secret\n", "sk-\u00e9", "sk-\x00"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(kind: Callable[..., object], key: str) -> None:
    with pytest.raises(ValueError, match=r"^api_key holds signs that no header can carry$"):
        kind("https://example.com/v1", api_key=key)


async def test_a_stream_is_not_read_outside_of_its_block() -> None:
    async with ScriptedUpstream([Head(), Send(BEGUN), Hang()]) as up:
        async with AsyncClient(up.base_url) as client:
            async with client.stream(**ASK) as answer:
                pass
            with pytest.raises(StreamTruncated, match="it was left"):
                await answer.final()

        def run() -> None:
            with Client(up.base_url) as client:
                with client.stream(**ASK) as answer:
                    pass
                with pytest.raises(StreamTruncated, match="it was left"):
                    answer.final()
                assert answer.so_far.text == TEXTS[0]

        await asyncio.to_thread(run)


async def test_a_block_that_is_left_while_another_task_reads_closes_the_connection() -> None:
    async with ScriptedUpstream([Head(), Send(BEGUN), Hang()]) as up, AsyncClient(up.base_url) as client:
        async with client.stream(**ASK) as answer:
            task = asyncio.create_task(answer.final())
            while answer._pending:
                await asyncio.sleep(0)
        with pytest.raises(StreamTruncated, match="it was left"):
            await task
        await up.aborted(1)
        await up.vacated()


@each_kind
async def test_a_key_that_the_server_repeats_is_hidden(kind: str) -> None:
    body = error_body(f"Incorrect API key provided: {KEY}.")
    async with asked(kind, whole(body, 401, [("x-request-id", f"for-{KEY}")])) as (ask, _):
        with pytest.raises(RequestFailed) as raised:
            await ask.final(**ASK)
    assert str(raised.value) == "401 (server_error): Incorrect API key provided: ***."
    assert KEY not in repr(raised.value) + repr(vars(raised.value))


def test_a_watchdog_fires_once() -> None:
    bites: list[int] = []
    dog = Watchdog(lambda: bites.append(1))
    dog.close()
    dog = Watchdog(lambda: bites.append(1))
    dog.set_timeout(None)
    dog.set_timeout(60)
    dog.set_timeout(30)
    dog.set_timeout(None)
    dog.close()
    assert (bites, dog.has_fired) == ([], False)
    dog = Watchdog(lambda: bites.append(1))
    dog.set_timeout(60)
    dog.set_timeout(0)
    assert dog._thread is not None
    dog._thread.join(10)
    assert (bites, dog.has_fired) == ([1], True)
    dog.set_timeout(0)
    dog.close()
    assert bites == [1]
