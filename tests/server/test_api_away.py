"""The API while the database is away: told as 503, in our words, and nothing is half done."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from msgspec import structs
from sqlalchemy import Connection

from streamweir.server.control.api.table import OPERATIONS
from streamweir.store.db.base import Store, StoreUnavailable
from streamweir.store.keys.sessions import TOUCH_MS
from support.api import api_on, app_of, bearer
from support.api_calls import make_call, name_of, named
from support.flaky_store import FlakyStore
from support.key_store import dump

T = TypeVar("T")
WITHOUT_STORE = {
    "show_session",
    "close_session",
    "list_providers",
    "list_models",
    "list_prices",
    "watch_live",
    "show_playground",
    "show_openapi",
}
"""Of a key: they are answered from memory."""
BEFORE_LOGIN = {"show_login": 200, "begin_oidc": 404}
"""Answered from memory for everybody; here no identity provider is configured."""


class AwayStore(Store):
    async def read(self, work: Callable[[Connection], T], *, timeout_s: float = 5.0) -> T:  # noqa: ARG002
        raise StoreUnavailable("the password of the database is wrong")

    async def write(self, work: Callable[[Connection], T], *, timeout_s: float = 5.0) -> T:  # noqa: ARG002
        raise StoreUnavailable("the password of the database is wrong")

    write_content = write

    async def close(self) -> None: ...


async def test_every_operation_says_so(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        calls = [await make_call(api, operation) for operation in OPERATIONS]
        session = await api.session()
        await api.serve(app_of(structs.replace(api.context, store=AwayStore())))
        for made in calls:
            operation = made.operation
            for role in (api.operator, session, bearer(api.one.admin.secret)):
                reply = await api.ask(operation.method, made.path, **made.sent, **role)
                if role not in (api.operator, session) and operation.name in WITHOUT_STORE:
                    assert reply.status_code == 200
                    continue
                if operation.name in BEFORE_LOGIN:
                    assert reply.status_code == BEFORE_LOGIN[operation.name]
                    continue
                if reply.status_code == 403:
                    continue  # a key on what is the operator's
                assert (reply.status_code, reply.json()["error"]["code"]) == (503, "ledger_unavailable"), name_of(
                    operation
                )
                assert reply.headers["retry-after"] == "2"
                assert "password" not in reply.text


async def test_a_change_is_made_though_this_process_cannot_take_it_up(tmp_path: Path) -> None:
    async def look() -> None:
        raise StoreUnavailable("it has just gone")

    async with api_on("sqlite", tmp_path) as api:
        await api.serve(app_of(structs.replace(api.context, refresh=look)))
        made = await make_call(api, named("create_key"))
        reply = await api.ask("POST", made.path, **made.sent, **api.operator)
        assert reply.status_code == 201
        assert (await api.ask("GET", f"/api/keys/{reply.json()['id']}", **api.operator)).status_code == 200


async def test_a_session_is_good_though_its_use_cannot_be_noted(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        session = await api.session()
        flaky = FlakyStore(api.storage.store)
        await api.serve(app_of(structs.replace(api.context, store=flaky)))
        flaky.lost_before, before = 1, await dump(api.storage.store)
        api.clock.at_ms += TOUCH_MS
        assert (await api.ask("GET", "/api/keys", **session)).status_code == 200
        assert flaky.lost_before == 0
        assert await dump(api.storage.store) == before
