"""Attempts to log in with a password, counted for all processes (`policy.login_limit`).

An attempt is written before the password is checked, in one transaction with the check of the bounds, so that many at
the same moment are all counted. A login takes back what was counted for this name from this address. Of the name only a
digest is kept: somebody may have typed the password there.
"""

from sqlalchemy import Connection, delete, insert, select

from streamweir.policy.access import digest_of
from streamweir.policy.login_limit import WINDOW_MS, network_of, wait_ms
from streamweir.store.db.counter import LOGINS, advance
from streamweir.store.db.tables import login_attempts, people, sessions
from streamweir.store.keys.people import login_of

_columns = login_attempts.c


def begin_attempt(conn: Connection, name: str, address: str, at_ms: int) -> int:
    """How long this one must wait, in milliseconds. 0: it may be made, and is counted."""
    advance(conn, LOGINS)  # one after the other
    account, network = digest_of(login_of(name)), network_of(address)
    conn.execute(delete(login_attempts).where(_columns.at_ms <= at_ms - WINDOW_MS))
    of_name = select(_columns.at_ms, _columns.address).where(_columns.account == account)
    tries = conn.execute(of_name).all()
    of_address = select(_columns.at_ms).where(_columns.address == network)
    wait = wait_ms(
        [each.at_ms for each in tries if each.address == network],
        list(conn.execute(of_address).scalars()),
        [each.at_ms for each in tries],
        is_familiar=_is_familiar(conn, name, network),
        at_ms=at_ms,
    )
    if not wait:
        conn.execute(insert(login_attempts).values(at_ms=at_ms, account=account, address=network))
    return wait


def forget_attempts(conn: Connection, name: str, address: str) -> None:
    """After a login."""
    account = digest_of(login_of(name))
    conn.execute(delete(login_attempts).where(_columns.account == account, _columns.address == network_of(address)))


def _is_familiar(conn: Connection, name: str, network: str) -> bool:
    """Whether the person has a session that was opened from there."""
    opened = select(sessions.c.address).join(people, people.c.id == sessions.c.person_id)
    found = conn.execute(opened.where(people.c.login == login_of(name), people.c.removed_ms.is_(None))).scalars()
    return any(address is not None and network_of(address) == network for address in found)
