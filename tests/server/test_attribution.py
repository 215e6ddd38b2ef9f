"""Who a request is for: from each API's request to the row, the line of the log, the filters and the sums."""

import json
from pathlib import Path
from typing import Any

import pytest

from streamweir.policy.end_user import hashed
from streamweir.server.telemetry.log_line import line_of
from support.accounting_gateway import MODEL, answers, keeping
from support.api import Api, Role, api_on, bearer
from support.common_entries import hold, settle
from support.stores import one_database

SAID: dict[str, dict[str, Any]] = {
    "chat/completions": {"user": "ann"},
    "messages": {"metadata": {"user_id": "ann"}},
    "responses": {"safety_identifier": "ann", "metadata": {"team": "b"}},
}
HEADERS = (("x-streamweir-tags", "team=a"), ("x-streamweir-session", "s"))


@pytest.mark.parametrize("api", SAID)
async def test_the_row_and_the_line_of_a_request_say_who_it_was_for(api: str, tmp_path: Path) -> None:
    async with keeping(answers(False), tmp_path, MODEL) as setup:
        secret = await setup.new_key()
        reply = await setup.gate.ask(path=f"/v1/{api}", model="m", key=secret, headers=HEADERS, **SAID[api])
        assert reply.status == 200, reply.body
        row = await setup.row()
        assert (row.end_user, row.session, row.tags) == ("ann", "s", ["team=a"])
        (record,) = setup.gate.records
        line = line_of(record, "info", 0.0, None, None)
        assert (line.session, line.tags) == ("s", ("team=a",))


async def test_a_refused_request_says_it_too(tmp_path: Path) -> None:
    async with keeping(answers(False), tmp_path, MODEL) as setup:
        secret = await setup.new_key(budget_nano=1)
        reply = await setup.gate.ask(model="m", key=secret, user="ann")
        assert reply.status == 429
        assert (await setup.row()).end_user == "ann"


async def book(api: Api, number: int, **said: Any) -> None:
    id = f"req_{number:028x}"
    members: dict[str, Any] = {"workspace_id": api.one.workspace.id, "at_ms": api.clock.at_ms}
    writer = api.storage.accounting.writer
    assert writer is not None
    writer.put(hold(id, 5, **members, **said))
    writer.put(settle(id, number, **members, **said), required=True)


async def fetch(api: Api, path: str, role: Role, status: int = 200, **params: Any) -> Any:
    reply = await api.ask("GET", path, params=params, **role)
    assert reply.status_code == status, reply.text
    return reply.json() if path != "/api/requests/export" else reply.text


@one_database
async def test_the_api_filters_and_sums(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:
        admin, other = bearer(api.one.admin.secret), bearer(api.two.admin.secret)
        await book(api, 1, end_user="ann", session="s", tags='["team=a"]')
        await book(api, 2, end_user="bob", tags='["team=a"]')
        await book(api, 4)
        wanted: list[tuple[dict[str, Any], int]] = [
            ({"end_user": "ann"}, 1),
            ({"session": "s"}, 1),
            ({"tag": "team=a"}, 2),
            ({}, 3),
        ]
        for which, count in wanted:
            assert len((await fetch(api, "/api/requests", admin, **which))["data"]) == count
            exported = await fetch(api, "/api/requests/export", admin, format="jsonl", **which)
            assert len([json.loads(line)["request_id"] for line in exported.splitlines()]) == count
            assert (await fetch(api, "/api/requests", other, **which))["data"] == []

        async def groups(**query: Any) -> dict[str | None, int]:
            found = await fetch(api, "/api/usage", admin, step="day", until_ms=api.clock.at_ms + 86_400_000, **query)
            return {each["group"]: each["usage"]["requests"] for each in found["groups"]}

        assert await groups(by="end_user") == {"": 1, "bob": 1, "ann": 1}
        assert await groups(by="tag") == {"team=a": 2}
        assert await groups(by="session") == {"s": 1}
        assert await groups(by="api") == {"openai": 3}
        assert await groups(by="key", tag="team=a") == {"key_1": 2}
        assert await groups(end_user="ann") == {None: 1}
        assert (await fetch(api, "/api/usage", other, step="day", by="end_user"))["groups"] == []
        await fetch(api, "/api/usage", admin, 400, by="tag")
        await fetch(api, "/api/usage", admin, 400, by="tag", step="day", model="m")
        await fetch(api, "/api/usage", admin, 400, end_user="a", step="hour")
        await fetch(api, "/api/usage", admin, 400, step="day", end_user="a", tag="b")
        await fetch(api, "/api/usage", admin, 400, step="day", end_user="a", by="model")


async def test_an_end_user_is_found_by_its_name_where_only_its_digest_is_kept(tmp_path: Path) -> None:
    async with keeping(answers(False), tmp_path, MODEL, store='end_user = "hash"') as setup:
        secret = await setup.new_key()
        assert (await setup.gate.ask(model="m", key=secret, user="ann")).status == 200
        assert (await setup.row()).end_user == hashed("ann")
