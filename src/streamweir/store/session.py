"""The operator's secret and the console's sessions: both known by their digests alone.

There is one admin secret. It is made at the first start, by whichever process comes first, and shown
by that one; a new one ends every session. A session ends by itself when it was not used for twelve
hours. Secrets and tokens are compared by their whole digests in constant time, and what is not
known is answered like what is wrong. Cookies and headers are not known here, and what guards a
session against other sites' pages (`policy.secret.csrf_of`) is made of its token, not kept.
"""

import hmac
from collections.abc import Callable
from secrets import token_bytes

from msgspec import Struct
from sqlalchemy import Connection, delete, func, insert, select, update

from streamweir.policy.access import digest_of
from streamweir.policy.secret import RANDOM_BYTES, make_admin_secret, make_session_token
from streamweir.store import audit, tables
from streamweir.store.tables import sessions
from streamweir.store.upsert import upsert

IDLE_MS = 12 * 3_600_000
TOUCH_MS = 60_000
"""A use is noted once a minute at the most: not every look at the console is a write."""
MOST_SESSIONS = 1000

_ADMIN = "admin"
_NO_DIGEST = bytes(32)


class Session(Struct, frozen=True, kw_only=True):
    digest: bytes
    created_ms: int
    used_ms: int

    def needs_touch(self, at_ms: int) -> bool:
        return at_ms - self.used_ms >= TOUCH_MS


def new_admin_secret() -> str:
    return make_admin_secret(token_bytes(RANDOM_BYTES))


def ensure_admin_secret(conn: Connection, at_ms: int, make: Callable[[], str] = new_admin_secret) -> str | None:
    """The secret, where it was made by this call; None where there was one."""
    if _admin_digest(conn) is not None:
        return None
    secret = make()
    statement = upsert(conn, tables.secrets).values(name=_ADMIN, digest=digest_of(secret), created_ms=at_ms)
    if conn.execute(statement.on_conflict_do_nothing()).rowcount == 0:
        return None  # another process was first
    audit.append(conn, audit.SYSTEM, "secret.create", _ADMIN, {}, None, at_ms)
    return secret


def reset_admin_secret(conn: Connection, *, actor: str, at_ms: int, make: Callable[[], str] = new_admin_secret) -> str:
    """A new one. The old is no longer good, and every session ends."""
    secret = make()
    values = {"digest": digest_of(secret), "created_ms": at_ms}
    statement = upsert(conn, tables.secrets).values(name=_ADMIN, **values)
    conn.execute(statement.on_conflict_do_update(index_elements=[tables.secrets.c.name], set_=values))
    ended = conn.execute(delete(sessions)).rowcount
    audit.append(conn, actor, "secret.reset", _ADMIN, {"sessions_ended": ended}, None, at_ms)
    return secret


def is_admin_secret(conn: Connection, secret: str, *, until_the_end: bool = False) -> bool:
    """`until_the_end`: and it stays so until the transaction ends."""
    known = _admin_digest(conn, is_held=until_the_end)
    return hmac.compare_digest(known or _NO_DIGEST, digest_of(secret)) and known is not None


def log_in(conn: Connection, secret: str, *, old_token: str | None, actor: str, at_ms: int) -> str | None:
    """The token of a new session. None: it is not the secret.

    The session of `old_token`, if there is one, ends. The secret cannot be reset between the look at it and the end of
    the transaction: no session outlives the secret that it was opened with.
    """
    if not is_admin_secret(conn, secret, until_the_end=True):
        return None
    if old_token is not None:
        end_session(conn, old_token, actor=actor, at_ms=at_ms)
    return create_session(conn, actor=actor, at_ms=at_ms)


def create_session(conn: Connection, *, actor: str, at_ms: int) -> str:
    """Its token. Those that are over are removed on the way, and the longest unused beyond `MOST_SESSIONS`."""
    conn.execute(delete(sessions).where(sessions.c.used_ms <= at_ms - IDLE_MS))
    kept = select(sessions.c.digest).order_by(sessions.c.used_ms.desc(), sessions.c.digest).limit(MOST_SESSIONS - 1)
    if conn.execute(select(func.count()).select_from(sessions)).scalar_one() >= MOST_SESSIONS:
        conn.execute(delete(sessions).where(sessions.c.digest.not_in(kept)))
    token = make_session_token(token_bytes(RANDOM_BYTES))
    digest = digest_of(token)
    conn.execute(insert(sessions).values(digest=digest, created_ms=at_ms, used_ms=at_ms))
    audit.append(conn, actor, "session.create", _name(digest), {}, None, at_ms)
    return token


def find_session(conn: Connection, token: str, at_ms: int) -> Session | None:
    """None: there is none, or it was not used for too long."""
    digest = digest_of(token)
    row = conn.execute(select(sessions).where(sessions.c.digest == digest)).mappings().one_or_none()
    if row is None or not hmac.compare_digest(row["digest"], digest) or at_ms - row["used_ms"] >= IDLE_MS:
        return None
    return Session(**row)


def touch_session(conn: Connection, digest: bytes, at_ms: int) -> None:
    conn.execute(update(sessions).where(sessions.c.digest == digest, sessions.c.used_ms < at_ms).values(used_ms=at_ms))


def end_session(conn: Connection, token: str, *, actor: str, at_ms: int) -> bool:
    """False: there was none."""
    digest = digest_of(token)
    if conn.execute(delete(sessions).where(sessions.c.digest == digest)).rowcount == 0:
        return False
    audit.append(conn, actor, "session.end", _name(digest), {}, None, at_ms)
    return True


def end_sessions(conn: Connection, *, actor: str, at_ms: int) -> int:
    """All of them. Gives how many there were."""
    count = conn.execute(delete(sessions)).rowcount
    audit.append(conn, actor, "session.end_all", "*", {"sessions_ended": count}, None, at_ms)
    return count


def _admin_digest(conn: Connection, *, is_held: bool = False) -> bytes | None:
    statement = select(tables.secrets.c.digest).where(tables.secrets.c.name == _ADMIN)
    held = statement.with_for_update() if is_held else statement
    digest: bytes | None = conn.execute(held).scalar_one_or_none()
    return digest


def _name(digest: bytes) -> str:
    """What the audit log calls a session by: enough to tell two apart."""
    return digest.hex()[:12]
