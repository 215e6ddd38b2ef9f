"""The admin secret and the console's sessions. Only their digests are stored.

There is one admin secret. The first process creates it at the first start and shows it; a new one ends every session.
A session ends after twelve hours without use, and after a week in any case. It belongs to whoever opened it: the admin
secret, a key (then it has the digest of the key's secret, and the caller checks whether that secret is still valid), or
a person. Secrets and tokens are compared by
their whole digests in constant time, and an unknown one gets the same answer as a wrong one. This module knows neither
cookies nor headers. The CSRF token (`policy.secret.csrf_of`) is computed from the session token, and not stored.
"""

import hmac
from collections.abc import Callable, Sequence
from enum import StrEnum
from secrets import token_bytes
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, RowMapping, and_, delete, func, insert, or_, select, update

from streamweir.policy.access import digest_of
from streamweir.policy.secret import RANDOM_BYTES, make_admin_secret, make_session_token
from streamweir.store.db import tables
from streamweir.store.db.errors import NotFound, quoted
from streamweir.store.db.sql import upsert
from streamweir.store.db.tables import keys, people, sessions
from streamweir.store.journal.entries import plain
from streamweir.store.keys import audit

IDLE_MS = 12 * 3_600_000
LIFETIME_MS = 7 * 86_400_000
"""However much it is used."""
TOUCH_MS = 60_000
"""A use is recorded at most once a minute, so that not every request of the console writes."""
MAX_SESSIONS = 1000
"""Of the admin secret, of each key and of each person, so that none can end the sessions of another."""
MAX_TEXT_LENGTH = 200
"""Of what a browser says about itself."""

_ADMIN = "admin"
_NO_DIGEST = bytes(32)


class LoginWay(StrEnum):
    """How a session was opened."""

    SECRET = "secret"  # noqa: S105 (no secret)
    """The admin secret."""
    KEY = "key"
    PASSWORD = "password"  # noqa: S105 (no secret)
    INVITATION = "invitation"
    OIDC = "oidc"


class SessionKey(Struct, frozen=True, kw_only=True):
    """The key that opens a session."""

    key_id: str
    key_digest: bytes
    """The digest of the secret that was used: a key may have two for a while."""
    workspace_id: str


class SessionPerson(Struct, frozen=True, kw_only=True):
    """The person who logs in."""

    person_id: str
    workspace_id: str | None


class Client(Struct, frozen=True, kw_only=True):
    """Where a session is opened from, so that its owner can tell it from others."""

    address: str | None = None
    browser: str | None = None


NO_CLIENT = Client()


class Session(Struct, frozen=True, kw_only=True):
    """Of a key, of a person, or else of the admin secret."""

    digest: bytes
    created_ms: int
    used_ms: int
    key_id: str | None
    key_digest: bytes | None
    person_id: str | None
    address: str | None
    browser: str | None

    @property
    def id(self) -> str:
        """Not a secret: the name of the session in lists and in the audit log."""
        return _name(self.digest)

    def needs_touch(self, at_ms: int) -> bool:
        return at_ms - self.used_ms >= TOUCH_MS


def new_admin_secret() -> str:
    return make_admin_secret(token_bytes(RANDOM_BYTES))


def ensure_admin_secret(conn: Connection, at_ms: int, make: Callable[[], str] = new_admin_secret) -> str | None:
    """The secret if this call created it; None if there was one."""
    if _admin_digest(conn) is not None:
        return None
    secret = make()
    statement = upsert(conn, tables.secrets).values(name=_ADMIN, digest=digest_of(secret), created_ms=at_ms)
    if conn.execute(statement.on_conflict_do_nothing()).rowcount == 0:
        return None  # another process was first
    audit.append(conn, audit.SYSTEM, "secret.create", _ADMIN, {}, None, at_ms)
    return secret


def reset_admin_secret(conn: Connection, *, actor: str, at_ms: int, make: Callable[[], str] = new_admin_secret) -> str:
    """A new one. The old one becomes invalid, and every session ends."""
    secret = make()
    values = {"digest": digest_of(secret), "created_ms": at_ms}
    statement = upsert(conn, tables.secrets).values(name=_ADMIN, **values)
    conn.execute(statement.on_conflict_do_update(index_elements=[tables.secrets.c.name], set_=values))
    ended = conn.execute(delete(sessions)).rowcount
    audit.append(conn, actor, "secret.reset", _ADMIN, {"sessions_ended": ended}, None, at_ms)
    return secret


def is_admin_secret(conn: Connection, secret: str, *, lock: bool = False) -> bool:
    """`lock`: it cannot change until the transaction ends."""
    known = _admin_digest(conn, for_update=lock)
    return hmac.compare_digest(known or _NO_DIGEST, digest_of(secret)) and known is not None


def log_in(
    conn: Connection, secret: str, *, old_token: str | None, actor: str, at_ms: int, client: Client = NO_CLIENT
) -> str | None:
    """The token of a new session. None: the secret is wrong.

    The session of `old_token`, if there is one, ends. The secret cannot be reset between its check and the end of the
    transaction: no session is valid longer than the secret that opened it.
    """
    if not is_admin_secret(conn, secret, lock=True):
        return None
    return replace_session(conn, old_token, actor=actor, at_ms=at_ms, client=client, way=LoginWay.SECRET)


def replace_session(
    conn: Connection,
    old_token: str | None,
    *,
    actor: str,
    at_ms: int,
    holder: SessionKey | SessionPerson | None = None,
    client: Client = NO_CLIENT,
    way: LoginWay | None = None,
) -> str:
    """The token of a new session. The session of `old_token`, if there is one, ends."""
    if old_token is not None:
        end_session(conn, old_token, actor=actor, at_ms=at_ms)
    return create_session(conn, actor=actor, at_ms=at_ms, holder=holder, client=client, way=way)


def create_session(
    conn: Connection,
    *,
    actor: str,
    at_ms: int,
    holder: SessionKey | SessionPerson | None = None,
    client: Client = NO_CLIENT,
    way: LoginWay | None = None,
) -> str:
    """Its token. Expired sessions are removed, and those unused for longest beyond `MAX_SESSIONS`."""
    is_over = or_(sessions.c.used_ms <= at_ms - IDLE_MS, sessions.c.created_ms <= at_ms - LIFETIME_MS)
    conn.execute(delete(sessions).where(is_over))
    owner = _owner(holder)
    is_own = and_(*(sessions.c[name] == owner.get(name) for name in ("key_id", "person_id")))
    if conn.execute(select(func.count()).select_from(sessions).where(is_own)).scalar_one() >= MAX_SESSIONS:
        in_order = select(sessions.c.digest).where(is_own).order_by(sessions.c.used_ms.desc(), sessions.c.digest)
        conn.execute(delete(sessions).where(is_own, sessions.c.digest.not_in(in_order.limit(MAX_SESSIONS - 1))))
    token = make_session_token(token_bytes(RANDOM_BYTES))
    digest = digest_of(token)
    browser = plain(client.browser)[:MAX_TEXT_LENGTH] if client.browser is not None else None
    known = {**owner, "address": client.address, "browser": browser}
    conn.execute(insert(sessions).values(digest=digest, created_ms=at_ms, used_ms=at_ms, **known))
    workspace_id = holder.workspace_id if holder is not None else None
    detail = {"way": way} if way is not None else {}
    audit.append(conn, actor, "session.create", _name(digest), detail, workspace_id, at_ms)
    return token


def _owner(holder: SessionKey | SessionPerson | None) -> dict[str, Any]:
    if isinstance(holder, SessionPerson):
        return {"person_id": holder.person_id}
    return {} if holder is None else {"key_id": holder.key_id, "key_digest": holder.key_digest}


def find_session(conn: Connection, token: str, at_ms: int) -> Session | None:
    """None: there is none, or it has expired."""
    digest = digest_of(token)
    row = conn.execute(select(sessions).where(sessions.c.digest == digest)).mappings().one_or_none()
    if row is None or not hmac.compare_digest(row["digest"], digest) or _is_over(row, at_ms):
        return None
    return Session(**row)


def list_sessions(conn: Connection, at_ms: int, *, person_id: str | None = None) -> list[Session]:
    """Those that are open, the last used first. None: of everyone."""
    statement = select(sessions).order_by(sessions.c.used_ms.desc(), sessions.c.digest)
    if person_id is not None:
        statement = statement.where(sessions.c.person_id == plain(person_id))
    rows = conn.execute(statement.limit(MAX_SESSIONS)).mappings()
    return [Session(**row) for row in rows if not _is_over(row, at_ms)]


def names_of_owners(conn: Connection, found: Sequence[Session]) -> dict[str, str]:
    """The names of people and keys by their ids."""
    names: dict[str, str] = {}
    for table, ids in ((people, {each.person_id for each in found}), (keys, {each.key_id for each in found})):
        wanted = select(table.c.id, table.c.name).where(table.c.id.in_(ids - {None}))
        names |= {row.id: row.name for row in conn.execute(wanted)}
    return names


def _is_over(row: RowMapping, at_ms: int) -> bool:
    return bool(at_ms - row["used_ms"] >= IDLE_MS or at_ms - row["created_ms"] >= LIFETIME_MS)


def touch_session(conn: Connection, digest: bytes, at_ms: int) -> None:
    conn.execute(update(sessions).where(sessions.c.digest == digest, sessions.c.used_ms < at_ms).values(used_ms=at_ms))


def end_session(conn: Connection, token: str, *, actor: str, at_ms: int) -> bool:
    """False: there was none. The end is logged in the same workspace as the beginning."""
    digest = digest_of(token)
    workspace_id = _workspace_of(conn, digest)
    if conn.execute(delete(sessions).where(sessions.c.digest == digest)).rowcount == 0:
        return False
    audit.append(conn, actor, "session.end", _name(digest), {}, workspace_id, at_ms)
    return True


def end_session_of_id(conn: Connection, id: str, *, person_id: str | None = None, actor: str, at_ms: int) -> None:
    """By what a list shows of it. `person_id`: only one of that person. Raises `NotFound`."""
    found = select(sessions.c.digest, sessions.c.person_id)
    rows = [row for row in conn.execute(found) if person_id in (None, row.person_id) and _name(row.digest) == id]
    if not rows:
        raise NotFound(f"there is no session {quoted(id)}")
    digest = rows[0].digest
    workspace_id = _workspace_of(conn, digest)
    conn.execute(delete(sessions).where(sessions.c.digest == digest))
    audit.append(conn, actor, "session.end", _name(digest), {}, workspace_id, at_ms)


def end_sessions_of(conn: Connection, person_id: str) -> int:
    """Ends all of a person. Returns their number; the caller writes to the audit log."""
    return conn.execute(delete(sessions).where(sessions.c.person_id == person_id)).rowcount


def _admin_digest(conn: Connection, *, for_update: bool = False) -> bytes | None:
    statement = select(tables.secrets.c.digest).where(tables.secrets.c.name == _ADMIN)
    statement = statement.with_for_update() if for_update else statement
    digest: bytes | None = conn.execute(statement).scalar_one_or_none()
    return digest


def _workspace_of(conn: Connection, digest: bytes) -> str | None:
    """Of the key or the person whose session it is."""
    of_owner = select(func.coalesce(keys.c.workspace_id, people.c.workspace_id)).select_from(
        sessions.outerjoin(keys, sessions.c.key_id == keys.c.id).outerjoin(people, sessions.c.person_id == people.c.id)
    )
    found: str | None = conn.execute(of_owner.where(sessions.c.digest == digest)).scalar_one_or_none()
    return found


def _name(digest: bytes) -> str:
    """The name of a session in the audit log: enough to distinguish two."""
    return digest.hex()[:12]
