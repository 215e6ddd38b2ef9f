"""What others may try: ids of another workspace, members that nobody may set, and text that breaks things.

The calls are generated from the operations, so that a new one is tried without being named here.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from streamweir.server.control.api.authentication import SAFE
from streamweir.server.control.api.operation import Nothing, Operation
from streamweir.server.control.api.table import OPERATIONS
from streamweir.store.journal.entries import plain
from streamweir.store.keys import audit
from support.api import Api, api_on, bearer, in_path
from support.api_calls import is_for_keys, make_call, make_id, name_of
from support.key_store import dump
from support.soak import part_of
from support.untrusted_texts import FOREIGN

WITH_ID = [operation for operation in OPERATIONS if "{id}" in operation.path]
LISTS = [operation for operation in OPERATIONS if operation.method == "GET" and "{id}" not in operation.path]
NOBODYS = {
    "id": "key_1",
    "workspace_id": "two",
    "role": "admin",
    "is_operator": True,
    "actor": "admin",
    "digest": "00",
    "last4": "abcd",
    "origin": "file",
    "version": 1,
    "created_ms": 1,
    "revoked_ms": None,
    "old_until_ms": 1,
    "budget_nano": 1,
    "granted": 1,
    "balance_usd": "1",
    "csrf": "x",
    "Name": "x",
    "name ": "x",
    "__proto__": {"is_operator": True},
}
MEGABYTE = "x" * 1_000_000


def texts_in(schema: dict[str, Any]) -> bool:
    """A text may be sent there, as far as its type goes."""
    if "anyOf" in schema:
        return any(texts_in(each) for each in schema["anyOf"])
    return schema.get("type") == "string" or "enum" in schema


def fields_of(kind: type[msgspec.Struct]) -> Iterator[tuple[str, bool]]:
    """The members that take texts, and whether it is a list of them."""
    _, components = msgspec.json.schema_components([kind])
    for name, schema in components[kind.__name__]["properties"].items():
        options = schema.get("anyOf", [schema])
        if any(option.get("type") == "array" and texts_in(option["items"]) for option in options):
            yield name, True
        elif texts_in(schema):
            yield name, False


def assert_told(reply: httpx2.Response, where: object) -> None:
    """Refused in our words, or done; never a fault."""
    assert reply.status_code < 500, where
    assert len(reply.content) < 100_000, where
    if reply.status_code >= 400:
        assert set(reply.json()["error"]) == {"message", "type", "param", "code"}
        assert len(reply.json()["error"]["message"]) < 400


async def test_an_id_of_another_workspace_is_not_there(tmp_path: Path) -> None:
    """S18. To the letter as one that never was, so that nobody learns what exists."""
    async with api_on("sqlite", tmp_path) as api:
        stranger = bearer(api.two.admin.secret)
        for operation in WITH_ID:
            id = await make_id(api, operation, api.one)
            body = (await make_call(api, operation)).sent
            before = await dump(api.storage.store)
            answers = []
            for each in (id, id[:-4] + "none"):
                reply = await api.ask(operation.method, operation.path.replace("{id}", each), **body, **stranger)
                assert reply.status_code == (403 if not is_for_keys(operation) else 404), operation.path
                answers.append(reply.text.replace(each, "ID"))
            assert answers[0] == answers[1]
            assert await dump(api.storage.store) == before


async def test_no_list_shows_what_is_anothers(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        hidden = [api.one.workspace.id, "for one", "one's key", api.one.chat.key.id, await api.new_request(api.one)]
        hidden.append(await api.new_open(api.one))
        shown = [await api.new_request(api.two), await api.new_open(api.two), "for two", "two's key"]
        seen = ""
        for operation in LISTS:
            if not is_for_keys(operation):
                continue
            text = (await api.ask("GET", operation.path, **bearer(api.two.admin.secret))).text
            assert not [each for each in hidden if each in text], operation.path
            seen += text
            for workspace in ("one", api.one.workspace.id, "default"):
                if "workspace" not in operation.query.__struct_fields__:
                    continue
                reply = await api.ask(
                    "GET", operation.path, params={"workspace": workspace}, **bearer(api.two.admin.secret)
                )
                assert reply.status_code == 404, operation.path
        assert not [each for each in shown if each not in seen]


async def test_members_that_cannot_be_set(tmp_path: Path) -> None:
    """S19."""
    async with api_on("sqlite", tmp_path) as api:
        for operation in OPERATIONS:
            if operation.body is Nothing:
                continue
            made = await make_call(api, operation)
            before = await dump(api.storage.store)
            for name, value in NOBODYS.items():
                if name in operation.body.__struct_encode_fields__:
                    continue
                for role in (api.operator, bearer(api.one.admin.secret)):
                    reply = await api.ask(operation.method, made.path, body={**(made.body or {}), name: value}, **role)
                    if not is_for_keys(operation) and role != api.operator:
                        assert reply.status_code == 403
                        continue
                    error = reply.json()["error"]
                    assert (reply.status_code, error["code"], error["param"]) == (400, "unknown_parameter", name)
            assert await dump(api.storage.store) == before


async def test_parameters_that_are_not_there(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        for operation in OPERATIONS:
            made = await make_call(api, operation)
            before = await dump(api.storage.store)
            for name in ("unknown", "workspace_id", "__proto__", "a" * 300, "\x00"):
                reply = await api.ask(operation.method, made.path, **made.sent, params={name: "1"}, **api.operator)
                error = reply.json()["error"]
                assert (reply.status_code, error["code"]) == (400, "unknown_parameter"), name_of(operation)
                assert len(error["param"]) <= 160
            assert await dump(api.storage.store) == before


def bodies_of(operation: Operation, body: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for name, is_list in fields_of(operation.body):
        for text in (*FOREIGN, MEGABYTE):
            yield name, text, {**body, name: [text] if is_list else text}


async def test_any_text_in_any_member(tmp_path: Path) -> None:
    """Kept as it was sent, or refused."""
    async with api_on("sqlite", tmp_path) as api:
        count = 0
        for operation in OPERATIONS:
            if operation.body is Nothing:
                continue
            made = await make_call(api, operation)
            for number, (name, text, body) in enumerate(bodies_of(operation, made.body or {})):
                if operation.name == "create_key" and name != "name":
                    body["name"] = f"key {number}"
                reply = await api.ask(
                    operation.method, made.path, body=body, **api.operator, peer=f"198.51.100.{number}"
                )
                assert_told(reply, (operation.path, name, text[:20]))
                if reply.status_code < 300 and name in reply.json():
                    kept = reply.json()[name]
                    wanted = plain(text)
                    is_told_otherwise = name in ("workspace", "budget_usd")  # by its id, without useless zeros
                    assert is_told_otherwise or kept in (wanted, [wanted]), (operation.path, name)
                count += 1
        assert count > 200
        await assert_sound(api)


async def test_any_text_in_any_parameter(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        before, count = await dump(api.storage.store), 0
        for operation in OPERATIONS:
            for name, _ in fields_of(operation.query):
                for text in part_of(FOREIGN, 3):
                    reply = await api.ask(operation.method, f"{operation.path}?{name}={in_path(text)}", **api.operator)
                    assert_told(reply, (operation.path, name, text[:20]))
                    count += 1
        assert count > 60
        after = await dump(api.storage.store)
        changed = {name for name in after if after[name] != before[name]}
        assert changed == {"audit", "counters"}, "exports are told, and nothing else changes"
        await assert_sound(api)


async def test_any_text_as_an_id(tmp_path: Path) -> None:
    async with api_on("postgres", tmp_path) as api:
        for operation in WITH_ID:
            body = (await make_call(api, operation)).sent if operation.method not in SAFE else {}
            before = await dump(api.storage.store)
            for text in part_of(FOREIGN, 3):
                path = operation.path.replace("{id}", in_path(text))
                reply = await api.ask(operation.method, path, **body, **api.operator)
                assert_told(reply, (operation.path, text[:20]))
                assert reply.status_code in (404, 405), (operation.path, text[:20])
            assert await dump(api.storage.store) == before


async def test_any_text_in_a_name_comes_back_in_every_list(tmp_path: Path) -> None:
    """What is kept is told as it is, in JSON: nothing of it is obeyed by anyone on the way."""
    names = ["<script>alert(1)</script>", "' OR '1'='1", "=1+1", "[bold]x[/]", "%s ${HOME} {0}", "\U0001f600"]
    async with api_on("postgres", tmp_path) as api:
        for name in names:
            reply = await api.ask("POST", "/api/workspaces", body={"name": name}, **api.operator)
            key = await api.ask("POST", "/api/keys", body={"name": name, "workspace": name}, **api.operator)
            assert (reply.status_code, key.status_code) == (201, 201)
            await api.ask(
                "POST", "/api/credits", body={"workspace": name, "amount_usd": 1, "note": name}, **api.operator
            )
        for path, member in (("workspaces", "name"), ("keys", "name"), ("credits", "name"), ("ledger", "note")):
            data = (await api.ask("GET", f"/api/{path}", **api.operator)).json()["data"]
            assert set(names) <= {row[member] for row in data}
        await assert_sound(api)


async def assert_sound(api: Api) -> None:
    assert await api.storage.store.read(audit.verify) is None
    assert (await api.ask("GET", "/api/check", **api.operator)).json()["agrees"]
    for path in ("/api/workspaces", "/api/keys", "/api/ledger", "/api/audit"):
        assert (await api.ask("GET", path, params={"limit": 1000}, **api.operator)).status_code == 200
