"""The admin API as a test uses it: the real control plane over real books, without a socket.

    async with api_on("sqlite", tmp_path) as api:
        reply = await api.ask("GET", "/api/keys", **api.operator)
        assert reply.status_code == 200

It begins with two workspaces, `one` and `two`, each with keys for every role, requests, contents and
an open request. The clock is the test's own, and stands still.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import httpx2
from msgspec import Struct
from sqlalchemy import Connection
from starlette.applications import Starlette
from starlette.routing import BaseRoute

from streamweir.config.model import Provider as ProviderConfig
from streamweir.core.errors import StreamweirError
from streamweir.frontends.base import Frontend
from streamweir.policy import permission
from streamweir.policy.access import Key, digest_of
from streamweir.policy.permission import Permission
from streamweir.policy.redact import Redactor
from streamweir.policy.secret import csrf_of, make_key
from streamweir.server.accounting.maintenance import Maintenance
from streamweir.server.control.api.authentication import api_gates
from streamweir.server.control.api.context import Context
from streamweir.server.control.api.live_feed import LiveFeed
from streamweir.server.control.api.table import api_routes
from streamweir.server.control.passwords import Cost, PasswordHashing
from streamweir.server.control.readiness import Readiness
from streamweir.server.control.routing import Access, Gate, control_app
from streamweir.server.http.answers import failure_answer, json_answer
from streamweir.server.http.message import Answer, Headers, Request, Response
from streamweir.server.process.bootstrap import AccountingRuntime, open_accounting, prepare_accounting
from streamweir.server.request.admission import Admission
from streamweir.server.request.playground import Playground
from streamweir.server.request.runtime.config import build_runtime_config
from streamweir.store.db.clock import now_ms
from streamweir.store.db.engine import open_store
from streamweir.store.keys.credit import add_credit
from streamweir.store.keys.keys import NewSecret, create_key, revoke_key
from streamweir.store.keys.people import Person, PersonSpec, accept_invitation, create_person
from streamweir.store.keys.sessions import SessionKey, SessionPerson, create_session
from streamweir.store.keys.spec import KeySpec
from streamweir.store.keys.workspaces import Workspace, WorkspaceSpec, create_workspace
from streamweir.store.ledger.posting import apply
from streamweir.store.requests.content import pack, write_contents
from streamweir.upstream.base import Upstream
from support.asgi_client import bridged
from support.common_entries import hold, settle
from support.contents import make_content
from support.gateway import configured
from support.stores import copy_url

HOST = "gateway.test"
PEER = "192.0.2.7"
TOML = """
[[providers]]
name = "up"
kind = "openai"
base_url = "https://api.example.test/v1"
api_key = "sk-upstream-2718281828"
headers = { x-extra = "header-1618033988" }
proxy = "http://user:pass-3141592653@proxy.example.test:3128"

[[providers]]
name = "sim"
kind = "sim"

[[models]]
id = "smart"
targets = [{ provider = "up", model = "gpt-4o" }, { provider = "sim", model = "ok" }]

[[models]]
id = "own"
targets = [{ provider = "up", model = "never-heard-of" }]
price = { input = 0.1, output = 0.000000001 }

[[price_groups]]
name = "resale"

[payments]
webhook_secret = "whsec_5772156649015328"
"""
HIDDEN = ("pass-3141592653", "sk-upstream-2718281828", "header-1618033988", "whsec_5772156649015328")
"""What of the configuration no answer may hold."""
ADDRESSES = ("api.example.test", "proxy.example.test")
"""And what none but the operator's settings may."""
CHEAP = Cost(rounds=1, memory_kib=8)
"""Of the hashes of passwords."""
WRONG_KEY = make_key(bytes(range(32)))
Role = dict[str, Any]
T = TypeVar("T")


class Space(Struct, kw_only=True):
    """A workspace with what is in it."""

    workspace: Workspace
    chat: NewSecret
    models: NewSecret
    metrics: NewSecret
    admin: NewSecret
    expired: NewSecret
    revoked: NewSecret


class Clock:
    def __init__(self) -> None:
        self.at_ms = now_ms()

    def __call__(self) -> int:
        return self.at_ms


class Api:
    def __init__(
        self, storage: AccountingRuntime, secret: str, context: Context, clock: Clock, stopped: list[str]
    ) -> None:
        self.storage = storage
        self.secret = secret
        self.context = context
        self.clock = clock
        self.stopped = stopped
        """Keys and requests that were stopped."""
        self.app = app_of(context)
        self.one: Space
        self.two: Space
        self._numbers = count(13)
        self._clients: dict[str, httpx2.AsyncClient] = {}

    async def ask(
        self, method: str, path: str, *, body: Any = None, raw: bytes | None = None, peer: str = PEER, **more: Any
    ) -> httpx2.Response:
        """`body` goes as JSON, `raw` as it is. `more`: headers, params."""
        headers = {"host": HOST, **more.pop("headers", {})}
        if raw is None and body is not None:
            raw = json.dumps(body).encode()
            headers.setdefault("content-type", "application/json")
        if peer not in self._clients:
            transport = httpx2.ASGITransport(app=bridged(self.app), client=(peer, 1))
            self._clients[peer] = httpx2.AsyncClient(transport=transport, base_url=f"http://{HOST}")
        reply = await self._clients[peer].request(method, path, content=raw, headers=headers, **more)
        self._clients[peer].cookies.clear()  # the test alone says what is sent
        return reply

    async def serve(self, app: Starlette) -> None:
        """Another one from now on."""
        self.app = app
        await self.close()

    async def use(self, context: Context) -> None:
        """Another one from now on."""
        self.context = context
        await self.serve(app_of(context))

    async def close(self) -> None:
        while self._clients:
            await self._clients.popitem()[1].aclose()

    @property
    def operator(self) -> Role:
        return bearer(self.secret)

    async def session(
        self, key: NewSecret | None = None, *, with_csrf: bool = True, origin: str | None = f"http://{HOST}"
    ) -> Role:
        """As a page of the console asks. `key`: which it was opened with; None: with the admin secret."""
        actor, holder = "admin", None
        if key is not None:
            actor, digest = f"key:{key.key.id}", digest_of(key.secret)
            holder = SessionKey(key_id=key.key.id, key_digest=digest, workspace_id=key.key.workspace_id)
        return await self._page(actor, holder, with_csrf=with_csrf, origin=origin)

    async def _page(
        self, actor: str, holder: SessionKey | SessionPerson | None, *, with_csrf: bool, origin: str | None
    ) -> Role:
        token = await self.storage.store.write(
            lambda conn: create_session(conn, actor=actor, at_ms=self.clock.at_ms, holder=holder)
        )
        headers = {"cookie": f"other=1; streamweir={token}; more=2"}
        if with_csrf:
            headers["x-csrf-token"] = csrf_of(token)
        if origin is not None:
            headers["origin"] = origin
        return {"headers": headers}

    async def new_person(self, role: permission.Role, space: "Space | None" = None) -> Person:
        """Who has accepted the invitation, with a password that nobody knows."""
        name = f"{role} {next(self._numbers)}"
        spec = PersonSpec(name=name, role=role, workspace=space.workspace.id if space is not None else None)

        def work(conn: Connection) -> Person:
            made = create_person(conn, spec, actor="cli", at_ms=self.clock.at_ms)
            person = accept_invitation(conn, made.token, "$argon2id$no-hash", self.clock.at_ms)
            assert person is not None
            return person

        return await self.storage.store.write(work)

    async def person_session(
        self, person: Person, *, with_csrf: bool = True, origin: str | None = f"http://{HOST}"
    ) -> Role:
        """As a page of the console asks that the person has logged in to."""
        holder = SessionPerson(person_id=person.id, workspace_id=person.workspace_id)
        return await self._page(person.actor, holder, with_csrf=with_csrf, origin=origin)

    async def new_key(self, space: Space, **more: Any) -> NewSecret:
        return await self._made(lambda conn: _key(conn, space.workspace, next(self._numbers), self.clock.at_ms, **more))

    async def new_request(self, space: Space, key: NewSecret | None = None, **more: Any) -> str:
        """One that is over, and of which the content is kept; by default with a new key. Its id."""
        number = next(self._numbers)
        key = key or await self.new_key(space, log_content=True)
        members: dict[str, Any] = {
            "workspace_id": space.workspace.id,
            "key_id": key.key.id,
            "at_ms": more.pop("at_ms", self.clock.at_ms),
        }
        id = f"req_{self.clock.at_ms:012x}{number:016x}"
        cost = more.pop("cost", 1_500_000_000)
        frames = {"upstream_frames": more.pop("upstream_frames")} if "upstream_frames" in more else {}
        made = settle(id, cost, **members, completion_id=f"chatcmpl-{number}", has_content=True, **more)
        content = pack(make_content(0, request_id=id, **members, **frames), Redactor(()))

        def work(conn: Connection) -> None:
            apply(conn, [hold(id, 2_000_000_000, **members), made])
            write_contents(conn, [content])

        await self.storage.store.write(work)
        return id

    async def new_open(self, space: Space, key: NewSecret | None = None, **more: Any) -> str:
        number = next(self._numbers)
        id = f"req_{self.clock.at_ms:012x}{number:016x}"
        entry = hold(
            id,
            7,
            workspace_id=space.workspace.id,
            key_id=(key or space.chat).key.id,
            instance=self.storage.node.instance,
            at_ms=self.clock.at_ms,
            **more,
        )
        await self.storage.store.write(lambda conn: apply(conn, [entry]))
        return id

    async def new_workspace(self) -> Workspace:
        spec = WorkspaceSpec(name=f"space {next(self._numbers)}")
        return await self._made(lambda conn: create_workspace(conn, spec, actor="cli", at_ms=self.clock.at_ms))

    async def _made(self, work: Callable[[Connection], T]) -> T:
        made = await self.storage.store.write(work)
        await self.context.refresh()
        return made


class Furniture(NamedTuple):
    """What is in each of these databases."""

    secret: str
    one: Space
    two: Space


_furniture: dict[str, Furniture] = {}


async def furnished_url(database: str, folder: Path) -> str:
    """Of a new database with the admin secret and both workspaces, as `migrated_url`."""

    async def furnish(url: str, folder: Path) -> None:
        secret = await prepare_accounting(configured(f'[store]\nurl = "{url}"\n'), folder)
        assert secret is not None
        store = await open_store(url, folder)
        one, two = [await store.write(partial(_space, name, numbers)) for name, numbers in _NUMBERS.items()]
        await store.close()
        _furniture[database] = Furniture(secret, one, two)

    return await copy_url(database, folder, "furnished", furnish)


_NUMBERS = {"one": range(1, 7), "two": range(7, 13)}
"""In the names of the keys of each workspace."""


def _space(name: str, numbers: Iterable[int], conn: Connection) -> Space:
    at_ms, number = now_ms(), iter(numbers)
    workspace = create_workspace(conn, WorkspaceSpec(name=name), actor="cli", at_ms=at_ms)
    add_credit(conn, workspace.id, 5_000_000_000, note=f"for {name}", actor="cli", at_ms=at_ms)
    admin = ("chat", "models", "admin")
    space = Space(
        workspace=workspace,
        chat=_key(conn, workspace, next(number), at_ms, scopes=("chat",)),
        models=_key(conn, workspace, next(number), at_ms, scopes=("models",)),
        metrics=_key(conn, workspace, next(number), at_ms, scopes=("metrics",)),
        admin=_key(conn, workspace, next(number), at_ms, scopes=admin),
        expired=_key(conn, workspace, next(number), at_ms - 1000, scopes=admin, expires_ms=at_ms - 1),
        revoked=_key(conn, workspace, next(number), at_ms, scopes=admin),
    )
    revoke_key(conn, space.revoked.key.id, actor="cli", at_ms=at_ms)
    return space


def _key(conn: Connection, workspace: Workspace, number: int, at_ms: int, **more: Any) -> NewSecret:
    spec = KeySpec(name=f"{workspace.name}'s key {number}", **more)
    return create_key(conn, workspace.id, spec, actor="cli", at_ms=at_ms)


def app_of(context: Context, *more: BaseRoute, gates: Mapping[Access | Permission, Gate] | None = None) -> Starlette:
    return control_app(
        readiness=Readiness(),
        metrics=_no_metrics,
        may_read_metrics=lambda _: None,
        routes=[*more, *api_routes(context)],
        gates=api_gates(context) if gates is None else gates,
    )


def bearer(secret: str) -> Role:
    return {"headers": {"authorization": f"Bearer {secret}"}}


def in_path(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")


@asynccontextmanager
async def api_on(
    database: str, folder: Path, toml: str = TOML, *, is_secure: bool = False, is_worker: bool = False
) -> AsyncIterator[Api]:
    """`is_worker`: as one of several."""
    url = await furnished_url(database, folder)
    config = configured(f'{toml}\n[store]\nurl = "{url}"\n')
    storage = await open_accounting(config, folder, is_worker=is_worker)
    runtime = build_runtime_config(config, _no_local)
    stopped: list[str] = []

    def stop_key(key: Key) -> None:
        stopped.append(key.id)

    maintenance = Maintenance(
        storage.store,
        storage.accounting,
        storage.node,
        stop_key=stop_key,
        stop_request=stopped.append,
        retention_days=30,
    )
    clock = Clock()
    context = Context(
        store=storage.store,
        accounting=storage.accounting,
        runtime=lambda: runtime,
        is_secure=is_secure,
        passwords=PasswordHashing(CHEAP),
        playground=Playground(
            accounting=storage.accounting,
            runtime=lambda: runtime,
            why_closed=lambda: None,
            refuse=_refuse,
            begin=_begin,
            is_secure=is_secure,
        ),
        feed=LiveFeed(storage.store, storage.accounting, clock_ms=clock),
        refresh=maintenance.load_changes,
        clock_ms=clock,
    )
    furniture = _furniture[database]
    api = Api(storage, furniture.secret, context, clock, stopped)
    api.one, api.two = furniture.one, furniture.two
    try:
        yield api
    finally:
        await api.close()
        await storage.accounting.close(5.0)
        await storage.close()
        for place in runtime.providers.values():
            await place.upstream.close()


def _begin(request: Request, response: Response, admission: Admission) -> None:
    """In the place of a conversation: says what it would have been."""
    said = {"key": admission.key.id, "dialect": admission.frontend.name, "body": json.loads(request.body)}
    response.send(json_answer({**said, "headers": request.headers}))


def _refuse(_: Request, error: StreamweirError, headers: Headers, frontend: Frontend, _key: Key) -> Answer:
    return failure_answer(error, frontend, headers)


async def _no_metrics() -> bytes:
    return b""


def _no_local(_: ProviderConfig) -> Upstream:
    raise AssertionError("this test has no embedded model")
