"""The admin secret and the console's sessions. Only their digests are stored.

There is one admin secret. The first process creates it at the first start and shows it; a new one ends every session.
A session ends after twelve hours without use. It belongs to the operator, or to the key that opened it: then it has the
digest of the key's secret, and the caller checks whether that secret is still valid. Secrets and tokens are compared by
their whole digests in constant time, and an unknown one gets the same answer as a wrong one. This module knows neither
cookies nor headers. The CSRF token (`policy.secret.csrf_of`) is computed from the session token, and not stored.
"""

import hmac
from collections.abc import Callable
from secrets import token_bytes

from msgspec import Struct
from sqlalchemy import Connection, delete, func, insert, select, update

from streamweir.policy.access import digest_of
from streamweir.policy.secret import RANDOM_BYTES, make_admin_secret, make_session_token
from streamweir.store.db import tables
from streamweir.store.db.sql import upsert
from streamweir.store.db.tables import keys, sessions
from streamweir.store.keys import audit

IDLE_MS = 12 * 3_600_000
TOUCH_MS = 60_000
"""A use is recorded at most once a minute, so that not every request of the console writes."""
MAX_SESSIONS = 1000
"""Of the operator, and of each key, so that no owner can end the sessions of another."""

_ADMIN = "admin"
_NO_DIGEST = bytes(32)


class SessionKey(Struct, frozen=True, kw_only=True):
    """The key that opens a session."""

    key_id: str
    key_digest: bytes
    """The digest of the secret that was used: a key may have two for a while."""
    workspace_id: str


class Session(Struct, frozen=True, kw_only=True):
    digest: bytes
    created_ms: int
    used_ms: int
    key_id: str | None
    """None: the operator's."""
    key_digest: bytes | None

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


def log_in(conn: Connection, secret: str, *, old_token: str | None, actor: str, at_ms: int) -> str | None:
    """The token of a new session. None: the secret is wrong.

    The session of `old_token`, if there is one, ends. The secret cannot be reset between its check and the end of the
    transaction: no session is valid longer than the secret that opened it.
    """
    if not is_admin_secret(conn, secret, lock=True):
        return None
    return replace_session(conn, old_token, actor=actor, at_ms=at_ms)


def replace_session(
    conn: Connection, old_token: str | None, *, actor: str, at_ms: int, holder: SessionKey | None = None
) -> str:
    """The token of a new session. The session of `old_token`, if there is one, ends."""
    if old_token is not None:
        end_session(conn, old_token, actor=actor, at_ms=at_ms)
    return create_session(conn, actor=actor, at_ms=at_ms, holder=holder)


def create_session(conn: Connection, *, actor: str, at_ms: int, holder: SessionKey | None = None) -> str:
    """Its token. Expired sessions are removed, and those unused for longest beyond `MAX_SESSIONS`."""
    conn.execute(delete(sessions).where(sessions.c.used_ms <= at_ms - IDLE_MS))
    is_own = sessions.c.key_id.is_(None) if holder is None else sessions.c.key_id == holder.key_id
    if conn.execute(select(func.count()).select_from(sessions).where(is_own)).scalar_one() >= MAX_SESSIONS:
        in_order = select(sessions.c.digest).where(is_own).order_by(sessions.c.used_ms.desc(), sessions.c.digest)
        conn.execute(delete(sessions).where(is_own, sessions.c.digest.not_in(in_order.limit(MAX_SESSIONS - 1))))
    token = make_session_token(token_bytes(RANDOM_BYTES))
    digest = digest_of(token)
    owner = {} if holder is None else {"key_id": holder.key_id, "key_digest": holder.key_digest}
    conn.execute(insert(sessions).values(digest=digest, created_ms=at_ms, used_ms=at_ms, **owner))
    workspace_id = holder.workspace_id if holder is not None else None
    audit.append(conn, actor, "session.create", _name(digest), {}, workspace_id, at_ms)
    return token


def find_session(conn: Connection, token: str, at_ms: int) -> Session | None:
    """None: there is none, or it has expired."""
    digest = digest_of(token)
    row = conn.execute(select(sessions).where(sessions.c.digest == digest)).mappings().one_or_none()
    if row is None or not hmac.compare_digest(row["digest"], digest) or at_ms - row["used_ms"] >= IDLE_MS:
        return None
    return Session(**row)


def touch_session(conn: Connection, digest: bytes, at_ms: int) -> None:
    conn.execute(update(sessions).where(sessions.c.digest == digest, sessions.c.used_ms < at_ms).values(used_ms=at_ms))


def end_session(conn: Connection, token: str, *, actor: str, at_ms: int) -> bool:
    """False: there was none. The end is logged in the same workspace as the beginning."""
    digest = digest_of(token)
    of_key = select(keys.c.workspace_id).join(sessions, sessions.c.key_id == keys.c.id)
    workspace_id = conn.execute(of_key.where(sessions.c.digest == digest)).scalar_one_or_none()
    if conn.execute(delete(sessions).where(sessions.c.digest == digest)).rowcount == 0:
        return False
    audit.append(conn, actor, "session.end", _name(digest), {}, workspace_id, at_ms)
    return True


def end_sessions(conn: Connection, *, actor: str, at_ms: int) -> int:
    """Ends all of them. Returns their number."""
    count = conn.execute(delete(sessions)).rowcount
    audit.append(conn, actor, "session.end_all", "*", {"sessions_ended": count}, None, at_ms)
    return count


def _admin_digest(conn: Connection, *, for_update: bool = False) -> bytes | None:
    statement = select(tables.secrets.c.digest).where(tables.secrets.c.name == _ADMIN)
    statement = statement.with_for_update() if for_update else statement
    digest: bytes | None = conn.execute(statement).scalar_one_or_none()
    return digest


def _name(digest: bytes) -> str:
    """The name of a session in the audit log: enough to distinguish two."""
    return digest.hex()[:12]
