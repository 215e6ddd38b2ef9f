"""Content is stored for keys with `log_content`, and for no others: prompt, answer, and the bytes in both directions.

It is stored apart from the ledger, redacted and bounded. The cost and the end of a request are the same with and
without it.
"""

import asyncio
import json
from pathlib import Path

import pytest
from sqlalchemy import select

from streamweir.store.db.tables import contents
from streamweir.store.requests.content import MAX_BYTES, Content, find_content
from support.accounting_gateway import MILLI, MODEL, AccountingSetup, keeping
from support.answers import TEXTS, anthropic_frames, error_body, openai_frames, openai_stream, openai_whole
from support.contents import dump
from support.gateway import KEY, chat_request, frames_of, text_of, until
from support.raw_client import Reply
from support.script import End, Hang, Head, Send, Step, Wait, in_turn, stream, whole

CANARY = "xylophone-quartet"
QUESTION = [{"role": "user", "content": f"What is a {CANARY}?"}]


async def kept(setup: AccountingSetup, request_id: str | None) -> Content | None:
    """What is kept of a request, when nothing waits to be written any more."""
    await setup.gate.gateway._settlements.wait_settled()
    queue = setup.storage.contents
    await until(lambda: not queue._waiting)
    assert queue.dropped == 0
    found = await setup.read(lambda conn: find_content(conn, request_id or ""))
    return found.unpack() if found is not None else None


async def content_of(setup: AccountingSetup, reply: Reply) -> Content:
    content = await kept(setup, reply.header("x-request-id"))
    assert content is not None
    return content


def joined(frames: object) -> bytes:
    assert isinstance(frames, list)
    times = [at_ms for at_ms, _ in frames]
    assert times == sorted(times)
    assert all(0 <= at_ms < 60_000 for at_ms in times)
    return "".join(text for _, text in frames).encode()


async def test_nothing_is_kept_unless_it_was_asked_for(tmp_path: Path) -> None:
    async with keeping(stream(openai_stream([CANARY])), tmp_path) as setup:
        for secret in (KEY, await setup.new_key("plain")):
            reply = await setup.gate.ask(key=secret, model="m", stream=True, messages=QUESTION)
            assert text_of(reply.body) == CANARY
            assert await kept(setup, reply.header("x-request-id")) is None
        await setup.gate.settled(2)
        assert [row.has_content for row in await setup.rows()] == [False, False]
        assert await setup.read(lambda conn: conn.execute(select(contents)).all()) == []
        assert CANARY not in await setup.read(dump)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_stream_is_kept_with_its_times(kind: str, tmp_path: Path) -> None:
    frames, go_on = openai_frames() if kind == "openai" else anthropic_frames(), asyncio.Event()
    script: list[Step] = [Head(), Send(b"".join(frames[:4])), Wait(go_on), Send(b"".join(frames[4:])), End()]
    model = MODEL if kind == "openai" else MODEL.replace("gpt-4o", "claude")
    async with keeping(script, tmp_path, model, kind=kind) as setup, await setup.gate.connect() as client:
        secret = await setup.new_key("told", log_content=True)
        request = chat_request(key=secret, model="m", stream=True, messages=QUESTION, temperature=0.5)
        await client.send(request)
        head = await client.head()
        body = await client.chunk()
        go_on.set()
        while chunk := await client.chunk():
            body += chunk
        content = await content_of(setup, head)
        assert json.loads(content.prompt) == json.loads(request.partition(b"\r\n\r\n")[2])
        assert content.answer == "".join(TEXTS)
        assert joined(content.upstream_frames) == b"".join(frames)
        assert joined(content.caller_frames) == body
        assert len(content.upstream_frames) >= 2
        assert not content.is_cut
        row = await setup.row()
        assert (row.has_content, row.price, row.verdict) == (True, 12 * MILLI, "completed")
        assert (content.workspace_id, content.key_id, content.at_ms) == ("default", row.key_id, row.at_ms)


async def test_a_whole_answer_is_kept_too(tmp_path: Path) -> None:
    async with keeping(whole(openai_whole()), tmp_path) as setup:
        secret = await setup.new_key(log_content=True)
        reply = await setup.gate.ask(key=secret, model="m", messages=QUESTION)
        content = await content_of(setup, reply)
        assert (content.answer, joined(content.caller_frames)) == ("".join(TEXTS), reply.body)
        assert joined(content.upstream_frames) == openai_whole()
        assert (await setup.row()).has_content


async def test_all_attempts_are_kept(tmp_path: Path) -> None:
    alias = MODEL.replace("targets = [", 'targets = [{ provider = "first", model = "gpt-4o" }, ')
    down = {"first": whole(error_body("down for repairs"), 500)}
    async with keeping(stream(openai_stream()), tmp_path, alias, others=down) as setup:
        secret = await setup.new_key(log_content=True)
        reply = await setup.gate.ask(key=secret, model="m", stream=True)
        content = await content_of(setup, reply)
        assert joined(content.upstream_frames).endswith(openai_stream())
        assert content.answer == "".join(TEXTS)


async def test_of_a_stream_that_was_left_what_was_delivered_is_kept(tmp_path: Path) -> None:
    begun = b"".join(openai_frames()[:3])
    async with keeping([Head(), Send(begun), Hang()], tmp_path) as setup, await setup.gate.connect() as client:
        secret = await setup.new_key(log_content=True)
        await client.send(chat_request(key=secret, model="m", stream=True))
        head = await client.head()
        await client.read_until(TEXTS[1].encode())
        client.reset()
        await setup.gate.settled()
        content = await content_of(setup, head)
        assert (content.answer, joined(content.upstream_frames)) == ("".join(TEXTS[:2]), begun)


async def test_secrets_are_taken_out_however_they_were_cut(tmp_path: Path) -> None:
    """Those with a known shape, and what the operator names; the caller has them as they were."""
    told = "The key is sk-live-8f3a9b2c7d1e4f60, and the code is tango-7781."
    pieces = [told[at : at + 5] for at in range(0, len(told), 5)]
    async with keeping(stream(openai_stream(pieces)), tmp_path, store='redact = ["tango-\\\\d+"]') as setup:
        secret = await setup.new_key(log_content=True)
        question = [{"role": "user", "content": f"{told} My password: hunter2-hunter2"}]
        reply = await setup.gate.ask(key=secret, model="m", stream=True, messages=question)
        assert text_of(reply.body) == told
        content = await content_of(setup, reply)
        assert content.answer == "The key is ***, and the code is ***."
        everything = await setup.read(dump)
        for canary in ("8f3a9b2c", "tango-7781", "hunter2"):
            assert canary not in everything
            assert canary not in content.prompt
        texts = [
            document["choices"][0]["delta"].get("content") or ""
            for document in frames_of(joined(content.caller_frames))
            if document != "[DONE]" and document["choices"]
        ]
        assert "8f3a9b2c" not in "".join(texts)
        assert "tango-7781" not in "".join(texts)


async def test_a_key_that_does_not_want_it_any_more_has_nothing_kept(tmp_path: Path) -> None:
    """Whatever is under way in some process: it is asked when it is written."""
    go_on = asyncio.Event()
    script: list[Step] = [
        Head(),
        Send(b"".join(openai_frames()[:3])),
        Wait(go_on),
        Send(openai_stream(TEXTS[2:])),
        End(),
    ]
    async with keeping(script, tmp_path) as setup, await setup.gate.connect() as client:
        secret = await setup.new_key(log_content=True)
        await client.send(chat_request(key=secret, model="m", stream=True))
        head = await client.head()
        await setup.change(secret, log_content=False)
        go_on.set()
        await client.read_until(b"[DONE]")
        await setup.gate.settled()
        assert await kept(setup, head.header("x-request-id")) is None


async def test_a_key_of_the_file_may_ask_for_it(tmp_path: Path) -> None:
    keys = f'[[keys]]\nname = "told"\nkey = "{KEY}"\nlog_content = true\n'
    async with keeping(whole(openai_whole()), tmp_path, MODEL + keys) as setup:
        reply = await setup.gate.ask(model="m", messages=QUESTION)
        assert CANARY in (await content_of(setup, reply)).prompt


async def test_what_was_refused_has_no_content(tmp_path: Path) -> None:
    async with keeping(in_turn(), tmp_path) as setup:
        secret = await setup.new_key(log_content=True, budget_nano=0)
        reply = await setup.gate.ask(key=secret, model="m", messages=QUESTION)
        assert reply.status == 429
        assert await kept(setup, reply.header("x-request-id")) is None
        assert not (await setup.row()).has_content
        assert CANARY not in await setup.read(dump)


async def test_what_is_kept_is_bounded(tmp_path: Path) -> None:
    piece = "x" * 65_536
    async with keeping(stream(openai_stream([piece] * 24, usage=(7, 5))), tmp_path) as setup:
        secret = await setup.new_key(log_content=True)
        reply = await setup.gate.ask(key=secret, model="m", stream=True)
        assert text_of(reply.body) == piece * 24
        content = await content_of(setup, reply)
        assert content.is_cut
        for part in (content.answer.encode(), joined(content.upstream_frames), joined(content.caller_frames)):
            assert len(part) <= MAX_BYTES
        assert len(content.answer) == MAX_BYTES
        assert (await setup.row()).price == 12 * MILLI
