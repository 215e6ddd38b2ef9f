"""The playground over the API: which keys and models can be tried, and what is asked before the key has its turn.

What becomes of a chat then is in `test_playground`.
"""

import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec import Struct

from streamweir.core.errors import CallerError
from streamweir.frontends.table import FRONTENDS
from streamweir.policy.permission import Permission
from streamweir.server.control.api.operation import Nothing, Operation, read_body
from streamweir.server.control.api.playground import MAX_KEYS, PlayedChat, read_played
from streamweir.server.request.body_parsing import MAX_BYTES_ON_LOOP
from streamweir.store.keys import audit
from support.api import Api, Role, api_on, bearer
from support.stores import one_database

CHAT = {"model": "smart", "messages": [{"role": "user", "content": "Say hello."}]}


async def look(api: Api, role: Role) -> Any:
    reply = await api.ask("GET", "/api/playground", **role)
    assert reply.status_code == 200
    return reply.json()


async def chat(api: Api, role: Role, **members: Any) -> httpx2.Response:
    return await api.ask("POST", "/api/playground/chat", body={"body": CHAT, **members}, **role)


def code_of(reply: httpx2.Response) -> tuple[int, str, str | None]:
    error = reply.json()["error"]
    return reply.status_code, error["code"], error["param"]


async def test_what_can_be_tried(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        one, two = api.one, api.two
        more = await api.new_key(one, models=("own", "gpt-*"), dialect="aivene", log_content=True)
        found = await look(api, bearer(one.admin.secret))
        keys = {key["id"]: key for key in found["keys"]}
        assert keys.keys() == {one.chat.key.id, one.admin.key.id, more.key.id}, "within reach, good now, may chat"
        assert keys[more.key.id] == {
            "id": more.key.id,
            "name": more.key.name,
            "workspace": one.workspace.id,
            "models": ["own", "gpt-*"],
            "dialect": "aivene",
            "log_content": True,
        }
        assert found["models"][:2] == ["smart", "own"]
        assert all(model.startswith("sim/") for model in found["models"][2:])
        assert (found["default_model"], found["dialects"]) == (None, FRONTENDS.in_playground)
        assert "embeddings" not in found["dialects"], "there is nothing to talk about"
        ids = {key["id"] for key in (await look(api, api.operator))["keys"]}
        assert ids == {"file:test", one.chat.key.id, one.admin.key.id, more.key.id, two.chat.key.id, two.admin.key.id}


async def test_not_all_of_many_keys(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        for _ in range(MAX_KEYS):
            await api.new_key(api.one)
        keys = (await look(api, api.operator))["keys"]
        assert len(keys) == MAX_KEYS
        assert [key["name"] for key in keys] == sorted(key["name"] for key in keys)


@one_database
async def test_a_use_is_recorded_in_the_audit_log(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:
        key_id = api.one.chat.key.id
        for role in (api.operator, await api.session(), bearer(api.one.admin.secret)):
            reply = await chat(api, role, key=key_id)
            assert (reply.status_code, reply.json()["key"], reply.json()["body"]) == (200, key_id, CHAT)
        long = await chat(api, api.operator, key=key_id, body={"model": "m\x00" + "x" * 1000, "messages": "not said"})
        assert long.status_code == 200, "what is wrong with it is for the key to hear"
        rows = [row for row in await api.storage.store.read(audit.list_rows) if row.action == "key.use"]
        assert [row.actor for row in reversed(rows)] == ["admin", "admin", f"key:{api.one.admin.key.id}", "admin"]
        assert {(row.object, row.workspace_id) for row in rows} == {(key_id, api.one.workspace.id)}
        assert [row.detail["model"] for row in reversed(rows)] == ["smart"] * 3 + ["m" + "x" * 252 + "..."]
        assert await api.storage.store.read(audit.verify) is None


async def test_a_secret_instead_of_a_model_is_not_stored(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        secret = api.one.chat.secret
        assert (await chat(api, api.operator, key=api.one.chat.key.id, body={"model": secret})).status_code == 200
        (row,) = [row for row in await api.storage.store.read(audit.list_rows) if row.action == "key.use"]
        assert row.detail["model"] == "***"


async def test_a_model_that_is_not_named(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        for body in ({}, {"model": None}, {"model": 7}, {"model": ["smart"]}):
            assert (await chat(api, api.operator, key=api.one.chat.key.id, body=body)).status_code == 200
        rows = [row for row in await api.storage.store.read(audit.list_rows) if row.action == "key.use"]
        assert [row.detail["model"] for row in rows] == [None] * 4


async def test_a_key_of_another_workspace_is_not_found(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        admin = bearer(api.two.admin.secret)
        answers = []
        for id in (api.one.chat.key.id, "file:test", "key_none", "", "\x00", "x" * 200, api.one.chat.secret):
            reply = await chat(api, admin, key=id)
            assert code_of(reply) == (404, "not_found", "key")
            answers.append(reply.text)
        assert api.one.chat.secret not in answers[-1]
        assert "key.use" not in [row.action for row in await api.storage.store.read(audit.list_rows)]


async def test_the_dialect_is_the_chosen_or_the_keys_or_the_gateways(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        own = (await api.new_key(api.one, dialect="bitseek")).key.id
        for key_id, more, dialect in (
            (own, {}, "bitseek"),
            (own, {"dialect": None}, "bitseek"),
            (own, {"dialect": "aivene"}, "aivene"),
            (own, {"dialect": "messages"}, "messages"),
            (api.one.chat.key.id, {}, "openai"),
        ):
            reply = await chat(api, api.operator, key=key_id, **more)
            assert reply.json()["dialect"] == dialect
        reply = await chat(api, api.operator, key=own, dialect="latin")
        assert code_of(reply) == (400, "invalid_value", "dialect")


async def test_what_is_for_the_console_alone_is_not_handed_on(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        role = await api.session()
        token = role["headers"]["x-csrf-token"]
        role["headers"] |= {"user-agent": f"page {token}", "idempotency-key": "once", "x-other": "1"}
        reply = await chat(api, role, key=api.one.chat.key.id)
        assert reply.json()["headers"] == {
            "content-type": "application/json",
            "idempotency-key": "once",
            "user-agent": "page ***",
        }


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b'{"key":"a","key":"b","body":{}}', "duplicate_key"),
        (b'{"key":"a","body":{},"body":{}}', "duplicate_key"),
        (b'{"key":"a","body":{"x":1},"body":{"y":2}}', "duplicate_key"),
        (b'{"key":"a","body":{"body":{"y":2}},"body":{"y":2}}', "duplicate_key"),
        (b'{"key":"a","body":' + b"[" * 5000 + b"]" * 5000 + b"}", "json_too_deep"),
        (b'{"key":"a"}', "missing_required_parameter"),
        (b'{"key":"a","body":{},"more":1}', "unknown_parameter"),
        (b'{"key":"a","body":{}', "invalid_json"),
        (b'{"key":"\xff","body":{}}', "invalid_json"),
        (b"[]", "invalid_value"),
    ],
)
def test_what_is_around_the_body_is_read_in_one_way(raw: bytes, code: str) -> None:
    with pytest.raises(CallerError) as refused:
        read_played(raw, PlayedChat)
    assert refused.value.code == code


@pytest.mark.parametrize(
    "inner",
    [
        b"{}",
        b'{"body":{}}',
        b'{"a":1,"a":2}',
        b'{"x":"\xff"}',
        b'{":":1}',
        b'{ "a" : [1, 2] }',
        b'{"deep":' + b"[" * 100 + b"]" * 100 + b"}",
        b'{"price":1.10000000000000000000001}',
    ],
)
@pytest.mark.parametrize(
    "around",
    [
        b'{"key":"a","body":%b}',
        b'{ "body" :\t%b , "key" : "a" }',
        b'{"key":"a\\"body\\": {}","body":%b}',
        b'{"dialect":"body","body":%b,"key":"{}"}',
    ],
)
def test_the_body_is_handed_on_as_it_came(inner: bytes, around: bytes) -> None:
    members = read_played(around % inner, PlayedChat)
    assert isinstance(members, PlayedChat)
    assert bytes(members.body) == inner


@pytest.mark.parametrize(("size", "is_on_loop"), [(MAX_BYTES_ON_LOOP, True), (MAX_BYTES_ON_LOOP + 1, False)])
async def test_a_large_body_is_read_in_a_thread(size: int, is_on_loop: bool) -> None:
    threads: list[int] = []

    def read(_: bytes, kind: type[Struct]) -> Struct:
        threads.append(threading.get_ident())
        return kind()

    async def handle(_: object) -> None: ...

    operation = Operation(
        method="POST",
        path="/",
        access=Permission.PLAYGROUND,
        about="",
        handler=handle,
        answer=None,
        read=read,
        max_body_bytes=None,
    )
    assert await read_body(operation, bytes(size), "application/json") == Nothing()
    assert (threads == [threading.get_ident()]) is is_on_loop
