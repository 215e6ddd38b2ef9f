"""The playground over real sockets: as the key, it gets what `/v1` would have given it, and pays as much."""

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from sqlalchemy import Connection

from streamweir.core.errors import GatewayFault
from streamweir.core.verdict import Verdict
from streamweir.server.http.security_headers import SECURITY_HEADERS
from streamweir.store.db.clock import now_ms
from streamweir.store.keys.changes import Changes, KeyState
from streamweir.store.requests.content import find_content
from support.accounting_gateway import (
    EACH_DIALECT,
    MILLI,
    MODEL,
    AccountingSetup,
    answers,
    each_form,
    error_of,
    keeping,
    path_of,
)
from support.answers import TEXTS, error_body
from support.console_session import PATH, Page, played, sign_in, uses
from support.deadlines import WAIT_TIMEOUT_S
from support.gateway import KEY, chat_request, text_of, until
from support.raw_client import Reply
from support.script import End, Hang, Head, Send, Step, Wait, whole
from support.serve_process import BEGUN, REST, get, served_before, spread

OWN = re.compile(rb'"(id|created|event_id)":("[^"]*"|\d+)')
"""What no two answers have in common."""
WAIT = re.compile(rb'Try again in \d+ s|"retry_after_s":\d+')
PRIVATE = {"date", "x-request-id", "content-length", "connection"}
STREAM: dict[str, Any] = {"model": "m", "stream": True}
NEVER: list[Step] = [Hang()]


def alike(reply: Reply) -> tuple[int, bytes, dict[str, str]]:
    """All of an answer but what is its own, what the console's answers have besides, and the time to wait: a second may
    have passed between the two."""
    sealed = dict(SECURITY_HEADERS)
    headers = {name: value for name, value in reply.headers if name not in PRIVATE and name not in sealed}
    for name in list(headers):
        if name == "retry-after" or name.startswith("x-ratelimit-re"):
            headers[name] = "-"
    return reply.status, WAIT.sub(b"-", OWN.sub(rb'"\1":"-"', reply.body)), headers


def assert_sealed(reply: Reply) -> None:
    assert all(reply.header(name) == value for name, value in SECURITY_HEADERS)


async def one_of_each(
    setup: AccountingSetup, page: Page, dialect: str, count: int, **members: Any
) -> tuple[Reply, Reply]:
    """The same by `/v1` and by the playground, as two keys that are alike."""
    secrets = [await setup.new_key(f"key {number}") for number in (count, count + 1)]
    by_v1 = await setup.gate.ask(path=path_of(dialect), key=secrets[0], **members)
    return by_v1, await page.chat(setup.key_id(secrets[1]), dialect=dialect, **members)


@each_form
@pytest.mark.parametrize("dialect", EACH_DIALECT)
async def test_it_answers_as_v1_does(tmp_path: Path, dialect: str, is_streamed: bool) -> None:
    async with keeping(answers(is_streamed), tmp_path) as setup:
        page = await sign_in(setup.gate)
        by_v1, reply = await one_of_each(setup, page, dialect, 0, model="m", stream=is_streamed)
        assert by_v1.status == 200
        assert alike(reply) == alike(by_v1)
        assert_sealed(reply)
        record = (await setup.gate.settled(2))[1]
        assert (record.path, record.dialect, record.key, record.id) == (
            PATH,
            dialect,
            "key 1",
            reply.header("x-request-id"),
        )


@pytest.mark.parametrize("dialect", EACH_DIALECT)
async def test_errors_are_those_of_v1_too(tmp_path: Path, dialect: str) -> None:
    bad: list[dict[str, Any]] = [
        {"model": "nowhere/x"},
        {"model": "m", "temperature": "hot"},
        {"model": "m", "messages": []},
        {"model": "m", "stream": True, "n": 0},
    ]
    async with keeping(whole(error_body("no"), 400), tmp_path) as setup:
        page = await sign_in(setup.gate)
        for number, members in enumerate([*bad, {"model": "m"}, {"model": "m", "stream": True}]):
            by_v1, reply = await one_of_each(setup, page, dialect, 2 * number, **members)
            assert by_v1.status >= 400
            assert alike(reply) == alike(by_v1)
            assert_sealed(reply)


@pytest.mark.parametrize("inner", [b'{"model":"m","model":"m"}', b"[]", b"7", b'{"a":"\xff"}'])
async def test_an_invalid_body_gets_the_same_error_as_on_v1(tmp_path: Path, inner: bytes) -> None:
    async with keeping(NEVER, tmp_path) as setup:
        page, secret = await sign_in(setup.gate), await setup.new_key()
        by_v1 = await setup.gate.ask(path=path_of("bitseek"), key=secret, body=inner)
        reply = await page.chat(setup.key_id(secret), dialect="bitseek", inner=inner)
        assert by_v1.status == 400
        assert alike(reply) == alike(by_v1)


async def test_the_key_pays(tmp_path: Path) -> None:
    async with keeping(answers(True, (7, 5)), tmp_path) as setup:
        page = await sign_in(setup.gate)
        secret = await setup.new_key("payer", budget_nano=1000 * MILLI, dialect="opentoken", log_content=True)
        key_id = setup.key_id(secret)
        reply = await page.chat(key_id, model="m", stream=True, max_tokens=50)
        row = await setup.row()
        assert (row.key_id, row.key_name, row.price, row.dialect) == (key_id, "payer", 12 * MILLI, "opentoken")
        assert (row.request_id, row.has_content) == (reply.header("x-request-id"), True)
        held = row.held or 0
        assert await setup.ledger(row.request_id) == [
            ("hold", -held, None),
            ("settle", held - 12 * MILLI, 12 * MILLI),
        ]
        await setup.change(secret, budget_nano=100 * MILLI)
        (used,) = await uses(setup.gate)
        assert (used.actor, used.object, used.workspace_id) == ("admin", key_id, "default")
        assert used.detail == {"request_id": row.request_id, "model": "m"}
        assert (await page.chat(key_id, model="m", max_tokens=90)).status == 429, "of its budget 88 are left"
        assert (
            error_of(await page.chat(key_id, dialect="openai", model="m", max_tokens=90))["code"] == "budget_exceeded"
        )
        await setup.gate.settled(3)


async def test_content_is_stored_as_it_was_sent_to_the_model(tmp_path: Path) -> None:
    async with keeping(answers(False), tmp_path) as setup:
        page, secret = await sign_in(setup.gate), await setup.new_key(log_content=True)
        inner = '{ "model":"m", "messages":[{"role":"user","content":"café"}] }'
        reply = await page.chat(setup.key_id(secret), inner=inner.encode())
        (record,) = await setup.gate.settled()
        assert record.bytes_in == len(inner.encode())
        await setup.gate.gateway._settlements.wait_settled()
        await until(lambda: not setup.storage.contents._waiting)
        kept = await setup.read(lambda conn: find_content(conn, reply.header("x-request-id") or ""))
        assert kept is not None
        assert kept.unpack().prompt == inner
        assert setup.up.requests[0].json["messages"] == [{"role": "user", "content": "café"}]


async def test_what_the_key_may_not_do_it_may_not_do_here(tmp_path: Path) -> None:
    async with keeping(answers(False), tmp_path) as setup:
        page = await sign_in(setup.gate)
        at_ms = now_ms()
        secrets = {
            "insufficient_permissions": await setup.new_key("a", scopes=("models",)),
            "model_not_found": await setup.new_key("b", models=("other",)),
            "key_revoked": await setup.new_key("c"),
            "expired_api_key": await setup.new_key("d", at_ms=at_ms - 10, expires_ms=at_ms - 1),
            "rate_limit_exceeded": await setup.new_key("e", rpm=1),
        }
        await setup.revoke(secrets["key_revoked"])
        assert (await page.chat(setup.key_id(secrets["rate_limit_exceeded"]), model="m")).status == 200
        for number, (code, secret) in enumerate(secrets.items()):
            by_v1 = await setup.gate.ask(key=secret, model="m")
            reply = await page.chat(setup.key_id(secret), model="m")
            assert error_of(by_v1)["code"] == code
            assert alike(reply) == alike(by_v1), code
            record = (await setup.gate.settled(3 + 2 * number))[-1]
            assert (record.key, record.status) == ("abcde"[number], by_v1.status)
        assert [used.object for used in await uses(setup.gate)] == [
            setup.key_id(secrets[code]) for code in ("rate_limit_exceeded", "model_not_found")
        ], "what is refused by its head alone was no use of it"
        assert len(await setup.rows()) == 11


async def test_streams_at_once_are_counted_together(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(BEGUN), Wait(go_on), Send(REST), End()]
    async with keeping(script, tmp_path) as setup:
        page, secret = await sign_in(setup.gate), await setup.new_key(max_streams=1)
        async with await page.begin(setup.key_id(secret), model="m", stream=True) as client:
            await client.read_until(TEXTS[1].encode())
            refused = await setup.gate.ask(key=secret, model="m")
            assert error_of(refused)["code"] == "concurrency_limit_exceeded"
            go_on.set()
            await client.read_until(b"[DONE]")


async def test_a_disconnect_ends_it(tmp_path: Path) -> None:
    script: list[Step] = [Head(), Send(BEGUN), Hang()]
    async with keeping(script, tmp_path, provider="cancel_stops_billing = true") as setup:
        page, secret = await sign_in(setup.gate), await setup.new_key()
        for count, request in enumerate(
            [page.request(setup.key_id(secret), **STREAM), chat_request(key=secret, **STREAM)]
        ):
            async with await setup.gate.connect() as client:
                await client.send(request)
                await client.read_until(TEXTS[1].encode())
            await setup.up.aborted(count + 1)
            await setup.gate.settled(count + 1)
        by_page, by_v1 = await setup.rows()
        assert (by_page.verdict, by_page.usage, by_page.cost) == (by_v1.verdict, by_v1.usage, by_v1.cost)
        assert by_page.verdict == Verdict.CLIENT_GONE


async def test_a_revoked_key_and_the_operator_end_it(tmp_path: Path) -> None:
    script: list[Step] = [Head(), Send(BEGUN), Hang()]
    async with keeping(script, tmp_path, provider="cancel_stops_billing = true") as setup:
        page, secret = await sign_in(setup.gate), await setup.new_key()
        async with await page.begin(setup.key_id(secret), model="m", stream=True) as client:
            await client.read_until(TEXTS[1].encode())
            await setup.revoke(secret)
            assert b"key_revoked" in await client.read_until(b"key_revoked")
        await setup.gate.settled()


async def test_a_session_needs_its_token_and_the_same_origin(tmp_path: Path) -> None:
    async with keeping(NEVER, tmp_path) as setup:
        page, secret = await sign_in(setup.gate), await setup.new_key()
        body = played(setup.key_id(secret), model="m")
        token, cookie, origin = ("x-csrf-token", page.csrf), page.safe_fields[0], ("origin", "http://gateway")
        for fields in ((cookie, origin), (cookie, token), (cookie, token, ("origin", "http://evil.example"))):
            reply = await setup.gate.ask(path=PATH, key=None, headers=fields, body=body)
            assert (reply.status, error_of(reply)["code"]) == (403, "insufficient_permissions")
            assert_sealed(reply)
        assert (await setup.gate.ask(path=PATH, key=None, body=body)).status == 401
        assert (await setup.gate.ask(path=PATH, key=secret, body=body)).status == 403
        assert await uses(setup.gate) == []


async def test_the_cookie_is_nothing_to_v1(tmp_path: Path) -> None:
    async with keeping(NEVER, tmp_path) as setup:
        page = await sign_in(setup.gate)
        for path in ("/v1/chat/completions", path_of("openai")):
            assert (await setup.gate.ask(path=path, key=None, headers=page.fields, model="m")).status == 401
            assert (await setup.gate.ask(path=path, key=page.token, model="m")).status == 401


async def test_an_admin_uses_only_the_keys_of_its_own_workspace(tmp_path: Path) -> None:
    async with keeping(answers(False), tmp_path) as setup:
        other = await setup.new_workspace("other", 10_000 * MILLI)
        admin = await setup.new_key("admin", other, scopes=("admin",))
        foreign, own = await setup.new_key("foreign"), await setup.new_key("own", other)
        for id in (setup.key_id(foreign), "key_unknown", "file:test", "\x00"):
            reply = await setup.gate.ask(path=PATH, key=admin, body=played(id, model="m"))
            assert (reply.status, error_of(reply)["code"]) == (404, "not_found")
        reply = await setup.gate.ask(path=PATH, key=admin, body=played(setup.key_id(own), model="m"))
        assert reply.status == 200
        reply = await setup.gate.ask(path=PATH, key=admin, body=played(setup.key_id(admin), model="m"))
        assert reply.status == 403, "its key may not chat"
        (used,) = await uses(setup.gate)
        assert (used.actor, used.object) == (f"key:{setup.key_id(admin)}", setup.key_id(own))
        assert used.workspace_id == other


async def test_what_the_browser_sent_for_the_console_goes_nowhere(tmp_path: Path) -> None:
    async with keeping(answers(False), tmp_path) as setup:
        page, secret = await sign_in(setup.gate), await setup.new_key()
        more = (("user-agent", f"me {page.token} {page.csrf}"), ("x-request-id", page.token), ("x-other", "secret-1"))
        assert (await page.chat(setup.key_id(secret), model="m", more=more)).status == 200
        (record,) = await setup.gate.settled()
        assert (record.client, record.client_id) == ("me *** ***", None)
        (sent,) = setup.up.requests
        row = await setup.row()
        for text in (repr(record), repr(sent.fields), repr(row)):
            assert all(hidden not in text for hidden in (page.token, page.csrf, "secret-1"))


async def test_a_request_that_is_sent_again_is_known_by_its_name(tmp_path: Path) -> None:
    async with keeping(answers(False), tmp_path) as setup:
        page, secret = await sign_in(setup.gate), await setup.new_key()
        named = (("idempotency-key", "once"),)
        assert (await page.chat(setup.key_id(secret), model="m", more=named)).status == 200
        await setup.row()
        again = await page.chat(setup.key_id(secret), model="m", more=named)
        assert (again.status, again.header("idempotent-replayed")) == (200, "true")
        by_v1 = await setup.gate.ask(key=secret, headers=named, model="m")
        assert (by_v1.status, by_v1.header("idempotent-replayed")) == (200, "true")
        assert len(setup.up.requests) == 1


async def test_a_body_may_be_as_large_as_on_v1(tmp_path: Path) -> None:
    bound = f"{MODEL}\n[server.limits]\nbody_bytes = 3000000"
    async with keeping(answers(False), tmp_path, bound) as setup:
        page, secret = await sign_in(setup.gate), await setup.new_key()
        for size, status in ((2_900_000, 200), (3_000_000, 413)):
            reply = await page.chat(setup.key_id(secret), model="m", messages=[{"role": "user", "content": "x" * size}])
            assert reply.status == status
        assert error_of(reply)["code"] == "request_too_large"
        assert len(setup.up.requests[0].json["messages"][0]["content"]) == 2_900_000


async def test_no_viewer_is_admitted_while_the_process_ends_and_open_ones_are_waited_for(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(BEGUN), Wait(go_on), Send(REST), End()]
    async with keeping(script, tmp_path) as setup:
        page, secret = await sign_in(setup.gate), await setup.new_key(dialect="aivene")
        key_id = setup.key_id(secret)
        async with (
            await page.begin(key_id, dialect="openai", model="m", stream=True) as client,
            await setup.gate.connect() as late,
        ):
            await client.read_until(TEXTS[1].encode())
            await late.send(page.request(key_id, model="m")[:-1])
            await setup.gate.has_read()
            setup.gate.gateway.stop_admitting()
            await late.send(page.request(key_id, model="m")[-1:])
            refused, by_v1 = await late.response(), await setup.gate.ask(path=path_of("aivene"), key=secret, model="m")
            assert (refused.status, refused.header("connection")) == (503, "close")
            assert alike(refused)[1] == alike(by_v1)[1]
            draining = asyncio.ensure_future(setup.gate.gateway.drained())
            await setup.gate.has_read()
            assert not draining.done()
            go_on.set()
            await client.read_until(b"[DONE]")
            await draining
        assert len(await uses(setup.gate)) == 1


async def test_the_end_of_the_process_is_an_error_frame(tmp_path: Path) -> None:
    script: list[Step] = [Head(), Send(BEGUN), Hang()]
    async with keeping(script, tmp_path) as setup:
        page, secret = await sign_in(setup.gate), await setup.new_key()
        async with await page.begin(setup.key_id(secret), model="m", stream=True) as client:
            await client.read_until(TEXTS[1].encode())
            setup.gate.gateway.end_streams(GatewayFault("server_shutting_down", "The gateway is shutting down."))
            assert b"server_shutting_down" in await client.read_until(b"[DONE]")
        assert (await setup.row()).verdict == Verdict.SHUTDOWN


async def test_each_of_several_workers_has_it(tmp_path: Path) -> None:
    async with (
        served_before(answers(True), tmp_path, "", "--workers", "2") as (program, up),
        AsyncExitStack() as stack,
    ):
        for clients in (await spread(stack, program, 1)).values():
            (client,) = clients
            await client.send(chat_request(path=PATH, body=played("file:test", model="up/m", stream=True)))
            reply = await client.response()
            assert text_of(reply.body) == "".join(TEXTS)
            event = await program.logged("request", id=reply.header("x-request-id"))
            assert (event["key"], event["path"]) == ("test", PATH)
        assert len(up.requests) == 2
        audit = json.loads((await program.answer(get("/api/audit?limit=2", KEY))).body)
        assert [(row["action"], row["object"], row["actor"]) for row in audit["data"]] == [
            ("key.use", "file:test", "key:file:test")
        ] * 2
        program.signal(signal.SIGTERM)
        assert await program.status() == 0


@asynccontextmanager
async def held_up(
    setup: AccountingSetup, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """While the audit log is being written: gives what waits until it is. The end of the block lets it go on."""
    store, reached, go_on = setup.storage.store, asyncio.Event(), asyncio.Event()
    write = store.write

    async def slow(work: Callable[[Connection], Any], **more: Any) -> Any:
        if not go_on.is_set():
            reached.set()
            await go_on.wait()
        return await write(work, **more)

    async def wait() -> None:
        await asyncio.wait_for(reached.wait(), WAIT_TIMEOUT_S)

    with monkeypatch.context() as patch:
        patch.setattr(store, "write", slow)
        yield wait
        go_on.set()
        await until(lambda: len(setup.gate.records) > 0)


async def test_a_caller_that_left_before_it_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with keeping(NEVER, tmp_path) as setup:
        page, secret = await sign_in(setup.gate), await setup.new_key()
        async with held_up(setup, monkeypatch) as reached:
            async with await page.begin(setup.key_id(secret), model="m"):
                await reached()
            await setup.gate.gateway.server.emptied()
        (record,) = setup.gate.records
        assert (record.verdict, record.status, record.key) == (Verdict.CLIENT_GONE, 499, "key")
        assert setup.up.requests == []


async def test_a_key_that_was_revoked_before_it_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with keeping(NEVER, tmp_path) as setup:
        page, secret = await sign_in(setup.gate), await setup.new_key(dialect="bitseek")
        directory = setup.storage.accounting.directory
        key = directory.find_id(setup.key_id(secret))
        assert key is not None
        async with held_up(setup, monkeypatch) as reached:
            client = await page.begin(key.id, model="m")
            await reached()
            state = KeyState(key=structs.replace(key, revoked_at=1.0), digests={key.digest: None})
            directory.apply(Changes(version=directory.version + 1, keys=(state,)))
        async with client:
            reply = await client.response()
            by_v1 = await setup.gate.ask(key=secret, model="m")
            assert (reply.status, alike(reply)) == (401, alike(by_v1))
            assert_sealed(reply)
        await setup.gate.settled(2)


async def test_a_process_that_began_to_end_before_it_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with keeping(NEVER, tmp_path) as setup:
        page, secret = await sign_in(setup.gate), await setup.new_key(dialect="bitseek")
        async with held_up(setup, monkeypatch) as reached:
            client = await page.begin(setup.key_id(secret), **STREAM)
            await reached()
            setup.gate.gateway.stop_admitting()
        async with client:
            assert error_of(await client.response())["code"] == "server_shutting_down"
        assert setup.up.requests == []
