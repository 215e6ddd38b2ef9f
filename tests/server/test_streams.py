"""Streams that a caller comes back to, on real sockets: what each request for one is answered, and what is recorded.

Cuts at every place, in every API, are in `test_stream_cuts`; hostile callers in `test_streams_attacked`.
"""

import asyncio
from pathlib import Path

import pytest

from streamweir.core.verdict import Verdict
from streamweir.pipeline.settlement import UsageSource
from support.accounting_gateway import MILLI, keeping
from support.answers import TEXTS, openai_frames, openai_stream
from support.gateway import KEY, Gate, chat_request, gateway_to, text_of, until
from support.raw_client import RawClient, Reply
from support.script import End, Head, Send, Step, Wait, stream

OTHER_KEY = "sk-Zx7vLmZ2pKd9RtYw4HbNc8Jf"
KEYS = f'\n[[keys]]\nname = "test"\nkey = "{KEY}"\n[[keys]]\nname = "other"\nkey = "{OTHER_KEY}"\n'
ASKS = (("x-streamweir-resumable", "true"),)
SHORT_GRACE = "\n[streams]\ngrace_s = 0\n"
FRAMES = openai_frames()


class Pause:
    """An upstream that sends so many frames, then waits."""

    def __init__(self, frames: int = 3) -> None:
        self.goes_on = asyncio.Event()
        self.script: list[Step] = [
            Head(),
            Send(b"".join(FRAMES[:frames])),
            Wait(self.goes_on),
            Send(b"".join(FRAMES[frames:])),
            End(),
        ]


def read_request(
    id: str, query: str = "", *, method: str = "GET", key: str | None = KEY, headers: tuple[tuple[str, str], ...] = ()
) -> bytes:
    lines = [f"{method} /v1/streams/{id}{query} HTTP/1.1", "host: gateway"]
    if key is not None:
        lines.append(f"authorization: Bearer {key}")
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join([*lines, "", ""]).encode()


async def read(gate: Gate, id: str, query: str = "", **more: object) -> Reply:
    async with await gate.connect() as client:
        await client.send(read_request(id, query, **more))  # type: ignore[arg-type]
        return await client.response()


async def begin(client: RawClient, *, headers: tuple[tuple[str, str], ...] = ASKS) -> str:
    """Asks for a stream, and reads its head. Its id."""
    await client.send(chat_request(model="up/m", stream=True, headers=headers))
    head = await client.head()
    assert head.status == 200
    id = head.header("x-streamweir-stream")
    assert id is not None
    assert id.startswith("strm_")
    return id


async def read_events(client: RawClient, count: int) -> bytes:
    received = b""
    while received.count(b"\n\n") < count:
        received += await client.chunk()
    return received


async def test_an_ordinary_stream_has_no_name_and_cannot_be_found() -> None:
    async with gateway_to(stream(openai_stream())) as (gate, _):
        reply = await gate.ask(model="up/m", stream=True)
        assert reply.header("x-streamweir-stream") is None
        (record,) = await gate.settled()
        assert record.resumed is None
        assert record.flags == ()


async def test_a_caller_that_lost_its_connection_gets_the_rest_and_pays_once() -> None:
    pause = Pause()
    async with gateway_to(pause.script, KEYS) as (gate, up):
        async with await gate.connect() as client:
            id = await begin(client)
            first = await read_events(client, 3)
            client.reset()
        table = gate.gateway._streams.table
        await until(lambda: table.counts().away == 1)
        async with await gate.connect() as client:
            await client.send(read_request(id, "?after=3"))
            head = await client.head()
            assert head.status == 200
            assert head.header("content-type") == "text/event-stream; charset=utf-8"
            assert head.header("x-streamweir-stream") == id
            pause.goes_on.set()
            rest = await client.rest()
        assert text_of(first + rest) == "".join(TEXTS)
        (record,) = await gate.settled()
        assert record.verdict is Verdict.COMPLETED
        assert record.resumed == 1
        ((since, until_s),) = record.reader_gaps
        assert record.reader_gap_count == 1
        assert until_s is not None
        assert 0 <= since <= until_s
        assert len(up.requests) == 1
        assert (await read(gate, id, "?after=3")).body == rest, "kept after its end"
        assert (await read(gate, id, headers=(("last-event-id", "3"),))).body == rest
        assert (await read(gate, id)).body == first + rest


async def test_the_upstream_is_read_on_while_nobody_reads() -> None:
    pause = Pause()
    async with gateway_to(pause.script) as (gate, _):
        async with await gate.connect() as client:
            id = await begin(client)
            first = await read_events(client, 3)
            client.close()
        await until(lambda: gate.gateway._streams.table.counts().away == 1)
        pause.goes_on.set()
        (record,) = await gate.settled()
        assert record.verdict is Verdict.COMPLETED
        assert record.resumed == 0
        assert record.reader_gaps[0][1] is None
        rest = await read(gate, id, "?after=3")
        assert text_of(first + rest.body) == "".join(TEXTS)


async def test_a_caller_that_does_not_come_back_in_time_has_left() -> None:
    pause = Pause()
    async with gateway_to(pause.script, SHORT_GRACE + KEYS) as (gate, up):
        async with await gate.connect() as client:
            id = await begin(client)
            await read_events(client, 3)
            client.close()
        (record,) = await gate.settled()
        assert record.verdict is Verdict.CLIENT_GONE
        assert record.resumed == 0
        assert len(record.reader_gaps) == 1
        await up.idle()
        reply = await read(gate, id, "?after=3")
        assert reply.status == 410
        assert b"stream_not_resumable" in reply.body


async def test_a_provider_that_bills_on_is_read_to_its_end_after_the_time_to_come_back() -> None:
    pause = Pause()
    bills_on = "cancel_stops_billing = false"
    async with gateway_to(pause.script, SHORT_GRACE + KEYS, provider=bills_on) as (gate, up):
        async with await gate.connect() as client:
            id = await begin(client)
            await read_events(client, 3)
            client.close()
        await until(lambda: gate.gateway.abandoned == 1)
        assert (await read(gate, id)).status == 410, "its events are not kept for anybody"
        pause.goes_on.set()
        (record,) = await gate.settled()
        assert (record.verdict, record.usage_source) == (Verdict.CLIENT_GONE, UsageSource.PROVIDER)
        assert up.aborts == []


async def test_a_budget_that_is_used_up_while_nobody_reads_ends_the_stream_with_its_error(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    frames = openai_frames(["word "] * 400, usage=(7, 400))
    script: list[Step] = [Head(), Send(b"".join(frames[:3])), Wait(go_on), *map(Send, frames[3:]), End()]
    async with keeping(script, tmp_path) as setup:
        gate, secret = setup.gate, await setup.new_key(budget_nano=400 * MILLI)
        async with await gate.connect() as client:
            await client.send(chat_request(model="m", key=secret, stream=True, headers=ASKS))
            id = (await client.head()).header("x-streamweir-stream") or ""
            await read_events(client, 2)
            client.close()
        await until(lambda: gate.gateway._streams.table.counts().away == 1)
        go_on.set()
        row = await setup.row()
        assert (row.error, row.resumed, row.reader_gap_count) == ("budget_exceeded", 0, 1)
        reply = await read(gate, id, key=secret)
        assert b"budget_exceeded" in reply.body
        assert reply.body.endswith(b"data: [DONE]\n\n")
        spent, held = await setup.spent_and_held()
        assert (spent, held) == (row.price, 0)


async def test_two_readers_follow_one_stream() -> None:
    pause = Pause()
    async with gateway_to(pause.script) as (gate, _):
        async with await gate.connect() as client, await gate.connect() as other:
            id = await begin(client)
            await other.send(read_request(id))
            await other.head()
            before = await read_events(other, 3)
            pause.goes_on.set()
            first, second = await client.rest(), before + await other.rest()
        assert first == second
        (record,) = await gate.settled()
        assert record.resumed == 1
        assert record.reader_gaps == ()


async def test_events_are_numbered_if_that_is_asked_for() -> None:
    async with gateway_to(stream(openai_stream())) as (gate, _):
        numbered = (*ASKS, ("x-streamweir-event-ids", "include"))
        reply = await gate.ask(model="up/m", stream=True, headers=numbered)
        id = reply.header("x-streamweir-stream")
        assert id is not None
        blocks = reply.body.split(b"\n\n")[:-1]
        assert [block.split(b"\n")[-1] for block in blocks] == [b"id: %d" % n for n in range(1, len(blocks) + 1)]
        plain = b"".join(block.rpartition(b"\n")[0] + b"\n\n" for block in blocks)
        assert text_of(plain) == "".join(TEXTS)
        assert (await read(gate, id, "?after=2")).body == b"".join(block + b"\n\n" for block in blocks[2:])


async def test_a_key_can_make_all_its_streams_resumable() -> None:
    toml = f'\n[[keys]]\nname = "test"\nkey = "{KEY}"\nresumable = true\n'
    async with gateway_to(stream(openai_stream()), toml) as (gate, _):
        assert (await gate.ask(model="up/m", stream=True)).header("x-streamweir-stream") is not None
        refused = (("x-streamweir-resumable", "false"),)
        assert (await gate.ask(model="up/m", stream=True, headers=refused)).header("x-streamweir-stream") is None


@pytest.mark.parametrize("value", ["yes", "1", ""])
async def test_another_word_than_true_and_false_is_an_error(value: str) -> None:
    async with gateway_to(stream(openai_stream())) as (gate, up):
        reply = await gate.ask(model="up/m", stream=True, headers=(("x-streamweir-resumable", value),))
        assert reply.status == 400
        assert b"x-streamweir-resumable" in reply.body
        assert up.requests == []


@pytest.mark.parametrize(
    ("query", "headers", "status", "code"),
    [
        ("?after=x", (), 400, b"invalid_after"),
        ("?after=", (), 400, b"invalid_after"),
        ("?after=-1", (), 400, b"invalid_after"),
        ("?after=1.0", (), 400, b"invalid_after"),
        ("?after=99999999999999999999", (), 400, b"invalid_after"),
        ("?after=1000", (), 400, b"invalid_after"),
        ("?" + "&".join(["a=b"] * 200), (), 400, b"invalid_after"),
        ("", (("last-event-id", "x"),), 400, b"invalid_after"),
    ],
)
async def test_a_place_that_is_none_is_refused(
    query: str, headers: tuple[tuple[str, str], ...], status: int, code: bytes
) -> None:
    async with gateway_to(stream(openai_stream())) as (gate, _):
        id = (await gate.ask(model="up/m", stream=True, headers=ASKS)).header("x-streamweir-stream")
        assert id is not None
        reply = await read(gate, id, query, headers=headers)
        assert reply.status == status
        assert code in reply.body


async def test_the_stream_of_another_key_is_not_found_like_one_that_never_was() -> None:
    async with gateway_to(stream(openai_stream()), KEYS) as (gate, _):
        id = (await gate.ask(model="up/m", stream=True, headers=ASKS)).header("x-streamweir-stream")
        assert id is not None
        foreign = await read(gate, id, key=OTHER_KEY)
        unknown = await read(gate, "strm_" + "x" * 32, key=OTHER_KEY)
        assert (foreign.status, foreign.body) == (unknown.status, unknown.body)
        assert foreign.status == 404
        assert b"stream_not_found" in foreign.body
        assert (await read(gate, id, method="DELETE", key=OTHER_KEY)).status == 404
        assert (await read(gate, id, key=None)).status == 401
        assert (await read(gate, id, key="sk-wrong")).status == 401
        assert (await read(gate, id, method="POST")).status == 405
        assert (await read(gate, id)).status == 200, "it was not touched"


async def test_delete_ends_a_running_stream_and_its_upstream() -> None:
    pause = Pause()
    async with gateway_to(pause.script) as (gate, up):
        async with await gate.connect() as client:
            id = await begin(client)
            await read_events(client, 3)
            reply = await read(gate, id, method="DELETE")
            assert (reply.status, reply.body) == (204, b"")
            assert not (await client.read_to_end()).endswith(b"0\r\n\r\n"), "it does not look complete"
        (record,) = await gate.settled()
        assert record.verdict is Verdict.CLIENT_GONE
        await up.idle()
        assert (await read(gate, id)).status == 410
        assert (await read(gate, id, method="DELETE")).status == 410


async def test_delete_drops_a_finished_stream() -> None:
    async with gateway_to(stream(openai_stream())) as (gate, _):
        id = (await gate.ask(model="up/m", stream=True, headers=ASKS)).header("x-streamweir-stream")
        assert id is not None
        assert (await read(gate, id, method="DELETE")).status == 204
        assert (await read(gate, id)).status == 410
        assert gate.gateway._streams.table.store.held_bytes == 0


async def test_a_stream_is_kept_for_a_while_and_then_gone() -> None:
    async with gateway_to(stream(openai_stream()), "\n[streams]\nkeep_s = 0\n") as (gate, _):
        id = (await gate.ask(model="up/m", stream=True, headers=ASKS)).header("x-streamweir-stream")
        assert id is not None
        await until(lambda: gate.gateway._streams.table.store.held_bytes == 0)
        assert (await read(gate, id)).status == 410


async def test_a_stream_that_is_too_large_goes_on_and_cannot_be_resumed() -> None:
    texts = ["x" * 9000] * 10
    toml = "\n[streams]\nmax_bytes = 65536\n"
    async with gateway_to(stream(b"".join(openai_frames(texts))), toml) as (gate, _):
        reply = await gate.ask(model="up/m", stream=True, headers=ASKS)
        assert text_of(reply.body) == "".join(texts)
        (record,) = await gate.settled()
        assert record.flags == ("resume_given_up",)
        assert record.verdict is Verdict.COMPLETED
        id = reply.header("x-streamweir-stream")
        assert id is not None
        assert (await read(gate, id)).status == 410


async def test_a_key_with_too_many_streams_gets_ordinary_ones() -> None:
    pause = Pause()
    async with gateway_to(pause.script, "\n[streams]\nmax_per_key = 1\n") as (gate, _):
        async with await gate.connect() as client, await gate.connect() as other:
            await begin(client)
            await other.send(chat_request(model="up/m", stream=True, headers=ASKS))
            head = await other.head()
            assert head.header("x-streamweir-stream") is None
            pause.goes_on.set()
            assert text_of(await other.rest()) == text_of(await client.rest()) == "".join(TEXTS)
        records = await gate.settled(2)
        assert sorted(record.flags for record in records) == [(), ("resume_given_up",)]


async def test_a_caller_that_leaves_before_the_head_is_not_waited_for() -> None:
    go_on = asyncio.Event()
    async with gateway_to([Wait(go_on), *stream(openai_stream())]) as (gate, up):
        async with await gate.connect() as client:
            await client.send(chat_request(model="up/m", stream=True, headers=ASKS))
            await up.seen(1)
            client.close()
            (record,) = await gate.settled()
        go_on.set()
        assert record.verdict is Verdict.CLIENT_GONE


async def test_an_error_status_names_no_stream() -> None:
    async with gateway_to(stream(openai_stream())) as (gate, _):
        reply = await gate.ask(model="nobody/m", stream=True, headers=ASKS)
        assert reply.status == 404
        assert reply.header("x-streamweir-stream") is None
        (record,) = await gate.settled()
        assert (record.resumed, record.flags) == (None, ())


async def test_pages_of_allowed_sites_may_come_back_and_end_streams() -> None:
    async with gateway_to(stream(openai_stream()), '\n[server.cors]\norigins = ["https://a.example"]\n') as (gate, _):
        origin = (("origin", "https://a.example"),)
        preflight = (
            *origin,
            ("access-control-request-method", "DELETE"),
            ("access-control-request-headers", "authorization, last-event-id, x-streamweir-resumable"),
        )
        reply = await read(gate, "strm_x", method="OPTIONS", key=None, headers=preflight)
        assert reply.header("access-control-allow-methods") == "GET, POST, DELETE"
        allowed = reply.header("access-control-allow-headers")
        assert allowed == "authorization, last-event-id, x-streamweir-resumable"
        reply = await gate.ask(model="up/m", stream=True, headers=(*ASKS, *origin))
        assert reply.header("access-control-expose-headers") == "*"
        id = reply.header("x-streamweir-stream")
        assert id is not None
        again = await read(gate, id, headers=origin)
        assert again.header("access-control-allow-origin") == "https://a.example"
        assert again.body == reply.body
