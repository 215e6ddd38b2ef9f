"""`Idempotency-Key`: the same request sent twice is answered once and charged once (C28).

A repetition gets the answer of the first request: while that runs, and for a while after it. With another body it is
an error; after that while it is a permanent conflict. A request that cost nothing may be repeated. An idempotency key
belongs to the API key that sent it, and is known for a day, whatever happens to the process.
"""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from streamweir.server.streams.table import MAX_READERS
from support.accounting_gateway import (
    EACH_DIALECT,
    MILLI,
    MODEL,
    AccountingSetup,
    error_of,
    keeping,
    path_of,
    set_clock,
)
from support.answers import TEXTS, error_body, openai_frames, openai_stream, openai_whole
from support.gateway import chat_request, gateway_to, text_of, until
from support.raw_client import Reply
from support.script import End, Fin, Hang, Head, Script, Send, Step, Wait, in_turn, stream, whole

ONCE = "order-4711"
DAY_MS = 86_400_000


def request(
    secret: str,
    once: str | None = ONCE,
    dialect: str = "openai",
    headers: tuple[tuple[str, str], ...] = (),
    **members: Any,
) -> bytes:
    headers += (("idempotency-key", once),) if once is not None else ()
    return chat_request(path=path_of(dialect), key=secret, headers=headers, **{"model": "m", **members})


async def ask(
    setup: AccountingSetup, secret: str, once: str | None = ONCE, dialect: str = "openai", **members: Any
) -> Reply:
    async with await setup.gate.connect() as client:
        await client.send(request(secret, once, dialect, **members))
        return await client.response()


def assert_conflict(reply: Reply, dialect: str, code: str, message: str) -> None:
    """Whether to come back is what tells the two conflicts apart, for clients that know no codes."""
    kind = "conflict_error"
    members: dict[str, dict[str, Any]] = {
        "openai": {"message": message, "type": kind, "param": None, "code": code},
        "opentoken": {"message": message, "type": kind, "code": code},
        "aivene": {"message": message, "type": kind},
        "bitseek": {"message": message, "type": kind, "code": code},
    }
    assert (reply.status, error_of(reply)) == (409, members[dialect])
    passes = code == "idempotency_in_progress"
    assert (reply.header("retry-after"), reply.header("x-should-retry")) == (("1", None) if passes else (None, "false"))


IN_PROGRESS = "idempotency_in_progress", "A request with this Idempotency-Key is being answered."
COMPLETED = (
    "idempotency_completed",
    "The request with this Idempotency-Key is complete, and its answer is not kept any more.",
)
REUSED = "This Idempotency-Key was used for another request."
NOT_KEPT = (("x-streamweir-resumable", "false"),)


@pytest.mark.parametrize("dialect", EACH_DIALECT)
async def test_a_stream_that_is_asked_for_again_is_that_stream(dialect: str, tmp_path: Path) -> None:
    go_on = asyncio.Event()
    frames = openai_frames(usage=(7, 5))
    script: list[Step] = [Head(), Send(b"".join(frames[:3])), Wait(go_on), Send(b"".join(frames[3:])), End()]
    async with keeping(script, tmp_path) as setup:
        gate, secret = setup.gate, await setup.new_key(budget_nano=1000 * MILLI, rpm=1)
        async with await gate.connect() as client, await gate.connect() as second:
            await client.send(request(secret, dialect=dialect, stream=True, max_tokens=9))
            head = await client.head()
            assert head.header("idempotent-replayed") is None
            await second.send(request(secret, dialect=dialect, stream=True, max_tokens=9))
            again = await second.head()
            assert (again.status, again.header("idempotent-replayed")) == (200, "true")
            assert again.header("x-streamweir-stream") == head.header("x-streamweir-stream")
            go_on.set()
            body = await client.rest()
            assert await second.rest() == body
        later = await ask(setup, secret, dialect=dialect, stream=True, max_tokens=9)
        assert (later.status, later.body, later.header("idempotent-replayed")) == (200, body, "true")
        other = await ask(setup, secret, dialect=dialect, stream=True, max_tokens=8)
        assert other.status in (409, 429)
        row = next(row for row in await setup.rows() if row.error is None)
        assert row.resumed == 1
        assert len([row for row in await setup.rows() if row.error is None]) == 1
        assert await setup.spent_and_held() == (12 * MILLI, 0)
        assert len(setup.up.requests) == 1


async def test_a_whole_answer_is_waited_for_and_given_again(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    async with keeping([Wait(go_on), *whole(openai_whole(usage=(7, 5)))], tmp_path) as setup:
        secret = await setup.new_key(budget_nano=1000 * MILLI, max_streams=1)
        async with await setup.gate.connect() as leaves:
            asking = [asyncio.ensure_future(ask(setup, secret, max_tokens=9)) for _ in range(5)]
            await setup.up.seen(1)
            await leaves.send(request(secret, max_tokens=9))
            await until(lambda: readers(setup) == 6)
            leaves.reset()
            await until(lambda: readers(setup) == 5)
        go_on.set()
        replies = [*await asyncio.gather(*asking), await ask(setup, secret, max_tokens=9)]
        assert [reply.status for reply in replies] == [200] * 6
        assert len({reply.body for reply in replies}) == 1
        assert sorted(reply.header("idempotent-replayed") or "" for reply in replies) == ["", *["true"] * 5]
        changing = {"x-request-id", "date", "idempotent-replayed"}
        kept = [sorted(line for line in reply.headers if line[0] not in changing) for reply in replies]
        assert all(each == kept[0] for each in kept)
        row = await setup.row()
        assert (row.resumed, row.reader_gaps) == (5, [])
        assert await setup.spent_and_held() == (12 * MILLI, 0)
        assert len(setup.up.requests) == 1


def readers(setup: AccountingSetup) -> int:
    return sum(len(stream.readers) for stream in setup.gate.gateway._streams.table._of_request.values())


async def test_a_caller_that_lost_its_whole_answer_asks_again_and_gets_it(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    async with keeping([Wait(go_on), *whole(openai_whole())], tmp_path) as setup:
        secret = await setup.new_key()
        async with await setup.gate.connect() as client:
            await client.send(request(secret))
            await setup.up.seen(1)
        await until(lambda: not readers(setup))
        go_on.set()
        row = await setup.row()
        assert (row.verdict, row.resumed, len(row.reader_gaps), row.reader_gap_count) == ("completed", 0, 1, 1)
        assert (await ask(setup, secret)).status == 200
        assert len(setup.up.requests) == 1


async def test_an_answer_that_is_not_kept_any_more_says_why(tmp_path: Path) -> None:
    text = "x" * 70_000
    small = "\n[streams]\nmax_bytes = 65536\nkeep_s = 0\n"
    answers = in_turn(whole(openai_whole()), whole(openai_whole(text)))
    async with keeping(answers, tmp_path, toml=MODEL + small) as setup:
        secret = await setup.new_key()
        for once, reason in (("a", "The time that answers are kept is over."), ("b", "not enough memory to keep it.")):
            assert (await ask(setup, secret, once)).status == 200
            await setup.gate.settled(len(setup.gate.records))
            await until(lambda: not setup.gate.gateway._streams.table._replayed)
            message = error_of(await ask(setup, secret, once))["message"]
            assert message.startswith(COMPLETED[1])
            assert message.endswith(reason)
        assert setup.gate.gateway._streams.table.store.held_bytes == 0


async def test_the_same_body_in_another_api_is_another_request(tmp_path: Path) -> None:
    async with keeping(whole(openai_whole()), tmp_path) as setup:
        secret = await setup.new_key()
        assert (await ask(setup, secret, dialect="openai")).status == 200
        other = await ask(setup, secret, dialect="opentoken")
        assert (other.status, error_of(other)["message"]) == (409, REUSED)


@pytest.mark.parametrize("dialect", ["openai", "opentoken"])
async def test_without_a_database_another_request_is_refused_while_the_first_one_is_known(dialect: str) -> None:
    go_on = asyncio.Event()
    body = b'{"model": "up/m", "messages": [{"role": "user", "content": "Hello"}]}'
    async with gateway_to([Wait(go_on), *whole(openai_whole())]) as (gate, up):

        async def ask_with(body: bytes, dialect: str = "openai") -> Reply:
            async with await gate.connect() as client:
                await client.send(chat_request(path=path_of(dialect), body=body, headers=(("idempotency-key", ONCE),)))
                return await client.response()

        first = asyncio.ensure_future(ask_with(body))
        await up.seen(1)
        other = body.replace(b" ", b"") if dialect == "openai" else body
        for _ in range(2):
            reply = await ask_with(other, dialect)
            assert (reply.status, error_of(reply)["message"]) == (409, REUSED)
            go_on.set()
            assert (await first).status == 200
        assert (await ask_with(body)).header("idempotent-replayed") == "true"
        assert len(up.requests) == 1


@pytest.mark.parametrize("is_stream", [False, True])
async def test_more_callers_than_a_stream_may_have_are_refused(is_stream: bool, tmp_path: Path) -> None:
    go_on = asyncio.Event()
    script = stream(openai_stream()) if is_stream else whole(openai_whole())
    async with keeping([Wait(go_on), *script], tmp_path) as setup:
        secret = await setup.new_key()
        asking = [asyncio.ensure_future(ask(setup, secret, stream=is_stream)) for _ in range(MAX_READERS)]
        await until(lambda: readers(setup) == MAX_READERS)
        assert (await ask(setup, secret, stream=is_stream)).status == 429
        go_on.set()
        assert {reply.status for reply in await asyncio.gather(*asking)} == {200}


@pytest.mark.parametrize("dialect", EACH_DIALECT)
async def test_a_request_that_is_sent_again_and_was_not_to_be_kept(dialect: str, tmp_path: Path) -> None:
    go_on = asyncio.Event()
    frames = openai_frames(usage=(7, 5))
    script: list[Step] = [Head(), Send(b"".join(frames[:3])), Wait(go_on), Send(b"".join(frames[3:])), End()]
    async with keeping(script, tmp_path) as setup, await setup.gate.connect() as client:
        secret = await setup.new_key(budget_nano=1000 * MILLI, rpm=10)
        again: dict[str, Any] = {"stream": True, "max_tokens": 9, "headers": NOT_KEPT}
        await client.send(request(secret, dialect=dialect, **again))
        await client.head()
        assert_conflict(await ask(setup, secret, dialect=dialect, **again), dialect, *IN_PROGRESS)
        other = await ask(setup, secret, dialect=dialect, **again, temperature=0.5)
        assert (other.status, error_of(other)["message"]) == (409, REUSED)
        assert error_of(other).get("code") == (None if dialect == "aivene" else "idempotency_key_reused")
        assert other.header("x-should-retry") == "false"
        go_on.set()
        while await client.chunk():
            pass
        await setup.gate.settled(3)
        assert_conflict(await ask(setup, secret, dialect=dialect, **again), dialect, *COMPLETED)
        other = await ask(setup, secret, dialect=dialect, **again, temperature=0.5)
        assert other.status == 409
        await setup.gate.settled(5)
        rows = await setup.rows()
        codes = [row.error for row in rows]
        assert sorted(codes, key=str) == sorted(
            [None, IN_PROGRESS[0], "idempotency_key_reused", COMPLETED[0], "idempotency_key_reused"], key=str
        )
        for row in rows:
            if row.error is not None:
                assert (row.verdict, row.price, row.attempts) == ("rejected", None, [])
        assert await setup.spent_and_held() == (12 * MILLI, 0)
        assert len(setup.up.requests) == 1
        second = await ask(setup, secret, None, dialect, **again)
        assert second.header("x-ratelimit-remaining-requests") == "8", "what was refused does not count"


async def test_a_key_is_known_to_the_api_key_that_sent_it_alone(tmp_path: Path) -> None:
    async with keeping(whole(openai_whole()), tmp_path) as setup:
        secrets = [await setup.new_key("one"), await setup.new_key("two")]
        assert [(await ask(setup, secret)).status for secret in secrets] == [200, 200]
        rotated = await setup.rotate(secrets[0], grace_ms=60_000)
        replies = [await ask(setup, secret) for secret in (*secrets, rotated)]
        assert [reply.header("idempotent-replayed") for reply in replies] == ["true"] * 3
        assert len(setup.up.requests) == 2
        assert (await ask(setup, secrets[0], "another")).status == 200
        assert (await ask(setup, secrets[0], None)).status == 200


FREE: dict[str, tuple[Script, int]] = {
    "refused by the upstream": (whole(error_body("no"), 400), 400),
    "not reached": ([Fin()], 502),
    "not understood": (whole(b"<html>"), 502),
}


@pytest.mark.parametrize("case", FREE)
async def test_what_cost_nothing_may_be_tried_again(case: str, no_jitter: None, tmp_path: Path) -> None:  # noqa: ARG001
    script, status = FREE[case]
    answers = {"fails": True}

    def chosen(_: object) -> Any:
        return script if answers["fails"] else whole(openai_whole())

    async with keeping(chosen, tmp_path) as setup:
        secret = await setup.new_key(budget_nano=1000 * MILLI)
        assert (await ask(setup, secret, max_tokens=9)).status == status
        await setup.gate.settled(1)
        answers["fails"] = False
        assert (await ask(setup, secret, max_tokens=9)).status == 200
        await setup.gate.settled(2)
        assert (await ask(setup, secret, max_tokens=9)).header("idempotent-replayed") == "true"
        assert await setup.spent_and_held() == (12 * MILLI, 0)


async def test_a_stream_that_failed_and_cost_nothing_is_tried_again(tmp_path: Path) -> None:
    """Its head was sent before the provider refused it."""
    fails = asyncio.Event()
    script = in_turn([Wait(fails), *whole(error_body("no"), 400)], stream(openai_stream()))
    async with keeping(script, tmp_path, toml=MODEL + "\n[server.timeouts]\ncommit_s = 0.001\n") as setup:
        secret = await setup.new_key()
        async with await setup.gate.connect() as client:
            await client.send(request(secret, stream=True))
            assert (await client.head()).status == 200
            fails.set()
            failed = await client.rest()
        await setup.row()
        again = await ask(setup, secret, stream=True)
        assert again.header("idempotent-replayed") is None
        assert text_of(again.body) == "".join(TEXTS) not in text_of(failed)


async def test_a_refusal_by_the_gateway_does_not_use_the_idempotency_key(tmp_path: Path) -> None:
    async with keeping(whole(openai_whole()), tmp_path) as setup:
        secret = await setup.new_key(budget_nano=0)
        assert (await ask(setup, secret, max_tokens=9)).status == 429
        await setup.change(secret, budget_nano=1000 * MILLI)
        assert (await ask(setup, secret, max_tokens=9)).status == 200


async def test_what_cost_something_is_over_though_it_failed(tmp_path: Path) -> None:
    broken: list[Step] = [Head(), Send(b"".join(openai_frames()[:3])), Fin()]
    async with keeping(in_turn(broken), tmp_path) as setup:
        secret = await setup.new_key()
        reply = await ask(setup, secret, stream=True)
        assert text_of(reply.body) == "".join(TEXTS[:2])
        assert (await setup.row()).price
        assert (await ask(setup, secret, stream=True)).body == reply.body


async def test_a_request_whose_caller_did_not_come_back_in_time_cannot_be_replayed(tmp_path: Path) -> None:
    """He has been charged for his question."""
    async with keeping([Hang()], tmp_path, toml=MODEL + "\n[streams]\ngrace_s = 0\n") as setup:
        secret = await setup.new_key()
        async with await setup.gate.connect() as client:
            await client.send(request(secret))
            await setup.up.seen(1)
        assert (await setup.row()).verdict == "client_gone"
        error = error_of(await ask(setup, secret))
        assert error["code"] == "idempotency_completed"
        assert error["message"].endswith("Nobody had read it to its end.")


async def test_it_survives_the_process(tmp_path: Path) -> None:
    async with keeping(whole(openai_whole()), tmp_path) as setup:
        secret = await setup.new_key()
        assert (await ask(setup, secret)).status == 200
    async with keeping(in_turn(), tmp_path) as setup:
        assert error_of(await ask(setup, secret))["code"] == "idempotency_completed"
        assert (await ask(setup, secret, temperature=1)).status == 409
        assert setup.up.accepted == 0


async def test_it_is_forgotten_after_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with keeping(stream(openai_stream()), tmp_path) as setup:
        secret = await setup.new_key()
        assert (await ask(setup, secret, stream=True, headers=NOT_KEPT)).status == 200
        began_ms = (await setup.row()).at_ms
        for later_ms, status in [(DAY_MS - 60_000, 409), (DAY_MS + 60_000, 200), (DAY_MS + 120_000, 409)]:
            set_clock(monkeypatch, began_ms + later_ms)
            assert (await ask(setup, secret, stream=True, headers=NOT_KEPT)).status == status
            await setup.gate.settled(len(setup.gate.records))


async def test_what_may_be_a_key(tmp_path: Path) -> None:
    async with keeping(whole(openai_whole()), tmp_path) as setup:
        secret = await setup.new_key()
        for sent, status in [("x" * 255, 200), ("x" * 256, 400), ("", 400), ("'; DROP TABLE\tkeys", 200)]:
            reply = await ask(setup, secret, sent)
            assert reply.status == status
            if status == 400:
                assert error_of(reply)["message"] == "An Idempotency-Key has 1 to 255 characters."
        assert len(setup.up.requests) == 2


async def test_the_hold_is_in_the_database_before_the_upstream_is_asked(tmp_path: Path) -> None:
    """Not in the journal: only the database can tell who was first."""
    seen: list[list[str]] = []
    setups: list[AccountingSetup] = []

    async def look(_: object) -> None:
        seen.append(await setups[0].open_ids())

    async with keeping([look, *whole(openai_whole())], tmp_path) as setup:
        setups.append(setup)
        secret = await setup.new_key(budget_nano=1000 * MILLI)
        reply = await ask(setup, secret, max_tokens=9)
        assert seen == [[reply.header("x-request-id")]]


async def test_a_caller_that_leaves_during_the_decision_can_use_its_key_again(tmp_path: Path) -> None:
    """Here the database is held up by another process."""
    async with keeping(whole(openai_whole()), tmp_path) as setup:
        secret = await setup.new_key(budget_nano=1000 * MILLI, max_streams=1)
        locker = sqlite3.connect(tmp_path / "streamweir.db", isolation_level=None)
        try:
            locker.execute("BEGIN IMMEDIATE")
            async with await setup.gate.connect() as client:
                await client.send(request(secret, max_tokens=9, headers=NOT_KEPT))
                await until(lambda: bool(setup.gate.gateway._requests))
                await setup.gate.has_read()
            await setup.gate.settled()
        finally:
            locker.execute("ROLLBACK")
            locker.close()
        await until(lambda: not setup.storage.accounting._undo_tasks)
        row = await setup.row()
        assert (row.verdict, row.status, row.error, row.usage) == ("client_gone", 499, None, None)
        assert await setup.spent_and_held() == (0, 0)
        await setup.assert_balanced()
        assert (await ask(setup, secret, max_tokens=9)).status == 200
        assert len(setup.up.requests) == 1
