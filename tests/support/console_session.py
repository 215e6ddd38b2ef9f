"""A page of the console, as its server sees it: a session's cookie, its token, and an origin.

page = await sign_in(setup)
reply = await page.chat(setup.key_id(secret), model="m", stream=True)
"""

import json
from typing import Any

from sqlalchemy import Connection

from streamweir.policy.secret import csrf_of
from streamweir.server.process.bootstrap import AccountingRuntime
from streamweir.store.db.clock import now_ms
from streamweir.store.keys.audit import AuditRow, list_rows
from streamweir.store.keys.sessions import create_session
from support.gateway import MESSAGES, Gate, chat_request
from support.raw_client import RawClient, Reply

PATH = "/api/playground/chat"
Fields = tuple[tuple[str, str], ...]


class Page:
    def __init__(self, gate: Gate, token: str) -> None:
        self._gate = gate
        self.token = token
        self.csrf = csrf_of(token)

    @property
    def fields(self) -> Fields:
        """The headers of what changes something."""
        return (*self.safe_fields, ("origin", "http://gateway"), ("x-csrf-token", self.csrf))

    @property
    def safe_fields(self) -> Fields:
        return (("cookie", f"streamweir={self.token}"),)

    def request(self, key_id: str, *, dialect: str | None = None, more: Fields = (), **members: Any) -> bytes:
        return chat_request(
            path=PATH, key=None, headers=(*self.fields, *more), body=played(key_id, dialect=dialect, **members)
        )

    async def chat(self, key_id: str, **members: Any) -> Reply:
        """On a connection of its own, and its whole answer."""
        async with await self.begin(key_id, **members) as client:
            return await client.response()

    async def begin(self, key_id: str, **members: Any) -> RawClient:
        client = await self._gate.connect()
        await client.send(self.request(key_id, **members))
        return client


def played(key_id: str, *, dialect: str | None = None, inner: bytes | None = None, **members: Any) -> bytes:
    """The body: `inner`, or the members of a short conversation."""
    chosen = b"" if dialect is None else b'"dialect":"%b",' % dialect.encode()
    inner = inner if inner is not None else json.dumps({"messages": MESSAGES, **members}).encode()
    return b'{"key":%b,%b"body":%b}' % (json.dumps(key_id).encode(), chosen, inner)


async def sign_in(gate: Gate) -> Page:
    """As the operator."""
    token = await storage_of(gate).store.write(lambda conn: create_session(conn, actor="admin", at_ms=now_ms()))
    return Page(gate, token)


async def uses(gate: Gate) -> list[AuditRow]:
    """What the audit log says of keys that were used by somebody else, the oldest first."""

    def work(conn: Connection) -> list[AuditRow]:
        return [row for row in reversed(list_rows(conn, limit=1000)) if row.action == "key.use"]

    return await storage_of(gate).store.read(work)


def storage_of(gate: Gate) -> AccountingRuntime:
    assert gate.gateway.storage is not None
    return gate.gateway.storage
