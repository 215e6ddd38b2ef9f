"""Sign-ins that were begun at the identity provider, in the database: begun at one node, they are finished at any.

One belongs to the browser that began it, by a cookie, and to one state; of both only digests are kept. It is taken by
the first answer that has both, once, within ten minutes. How many may be begun is bounded for each address, together
with attempts to log in with a password (`policy.login_limit`); those that end in a login do not count. If there are too
many in all, the oldest go: somebody who begins thousands does not keep others out.
"""

import hmac

from msgspec import Struct
from sqlalchemy import Connection, delete, func, insert, select

from streamweir.policy.access import digest_of
from streamweir.policy.login_limit import WINDOW_MS, network_of, wait_ms
from streamweir.store.db.counter import LOGINS, advance
from streamweir.store.db.tables import login_attempts, sign_ins

LIFETIME_MS = 10 * 60_000
MAX_SIGN_INS = 10_000


class SignIn(Struct, frozen=True, kw_only=True):
    nonce: str
    verifier: str
    issuer: str

    def __repr__(self) -> str:
        return f"SignIn({self.issuer!r})"


def begin_sign_in(conn: Connection, begun: SignIn, cookie: str, state: str, address: str, at_ms: int) -> int:
    """How long this one must wait, in milliseconds. 0: it is begun, and counted."""
    advance(conn, LOGINS)  # one after the other
    attempts, network = login_attempts.c, network_of(address)
    conn.execute(delete(login_attempts).where(attempts.at_ms <= at_ms - WINDOW_MS))
    times = list(conn.execute(select(attempts.at_ms).where(attempts.address == network)).scalars())
    wait = wait_ms((), times, (), is_familiar=True, at_ms=at_ms)
    if wait:
        return wait
    conn.execute(delete(sign_ins).where(sign_ins.c.at_ms <= at_ms - LIFETIME_MS))
    surplus = conn.execute(select(func.count()).select_from(sign_ins)).scalar_one() + 1 - MAX_SIGN_INS
    if surplus > 0:
        oldest = select(sign_ins.c.digest).order_by(sign_ins.c.at_ms, sign_ins.c.digest).limit(surplus)
        conn.execute(delete(sign_ins).where(sign_ins.c.digest.in_(oldest)))
    digest = digest_of(cookie)
    values = {"nonce": begun.nonce, "verifier": begun.verifier, "issuer": begun.issuer, "at_ms": at_ms}
    conn.execute(insert(sign_ins).values(digest=digest, state=digest_of(state), **values))
    conn.execute(insert(login_attempts).values(at_ms=at_ms, account=digest, address=network))
    return 0


def take_sign_in(conn: Connection, cookie: str, state: str, at_ms: int) -> SignIn | None:
    """None: this browser has begun none with this state, or too long ago, or it was taken."""
    digest = digest_of(cookie)
    row = conn.execute(select(sign_ins).where(sign_ins.c.digest == digest)).mappings().one_or_none()
    if row is None or not hmac.compare_digest(row["state"], digest_of(state)) or at_ms - row["at_ms"] >= LIFETIME_MS:
        return None
    if conn.execute(delete(sign_ins).where(sign_ins.c.digest == digest)).rowcount == 0:
        return None  # another answer was first
    return SignIn(nonce=row["nonce"], verifier=row["verifier"], issuer=row["issuer"])


def forget_attempt(conn: Connection, cookie: str) -> None:
    """After a login."""
    conn.execute(delete(login_attempts).where(login_attempts.c.account == digest_of(cookie)))
