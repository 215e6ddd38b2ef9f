"""The audit log: who changed or read what. It is append-only, and each row contains a hash of the row before.

A row's digest is SHA-256 over the previous digest and the row itself, including its number. The number of rows is
stored separately. So `verify` finds a row that was changed, moved, removed or cut off at the end. A row is added in the
transaction of the change that it describes, one transaction after the other, because the row of the counter is locked.
A detail is JSON; the caller must leave secrets out.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, RowMapping, func, insert, select

from streamweir.store.db.counter import AUDIT, advance, current
from streamweir.store.db.tables import audit
from streamweir.store.journal.entries import plain

SYSTEM = "system"
"""The actor of changes without a user: at a start."""

_FIRST_PREVIOUS = bytes(32)
_BATCH = 500
_encode = msgspec.json.Encoder(order="deterministic").encode


class AuditRow(Struct, frozen=True, kw_only=True):
    seq: int
    at_ms: int
    actor: str
    workspace_id: str | None
    action: str
    object: str
    detail: dict[str, Any]


def append(
    conn: Connection,
    actor: str,
    action: str,
    object: str,
    detail: Mapping[str, Any],
    workspace_id: str | None,
    at_ms: int,
) -> int:
    """Returns the row's number. All other locks of the transaction must be taken before this."""
    seq = advance(conn, AUDIT)
    before: bytes | None = conn.execute(select(audit.c.digest).where(audit.c.seq == seq - 1)).scalar_one_or_none()
    row: dict[str, Any] = {
        "seq": seq,
        "at_ms": at_ms,
        "actor": plain(actor),
        "workspace_id": plain(workspace_id) if workspace_id is not None else None,
        "action": plain(action),
        "object": plain(object),
        "detail": _encode(_plain(detail)).decode(),
        "previous": before if before is not None else _FIRST_PREVIOUS,
    }
    conn.execute(insert(audit).values(**row, digest=_digest(row)))
    return seq


def verify(conn: Connection) -> int | None:
    """The number of the first row that was changed or is missing. None: the log is intact."""
    newest: int = conn.execute(select(func.max(audit.c.seq))).scalar_one() or 0
    count = current(conn, AUDIT)  # read afterwards, because rows may be added meanwhile
    seen, before = 0, _FIRST_PREVIOUS
    for row in _in_order(conn, count):
        if row["seq"] != seen + 1 or row["previous"] != before or row["digest"] != _digest(row):
            return seen + 1
        seen, before = seen + 1, row["digest"]
    return None if seen == count >= newest else seen + 1


def list_rows(
    conn: Connection, *, workspace_id: str | None = None, before: int | None = None, limit: int = 50
) -> list[AuditRow]:
    """The newest first, starting before the number `before`. `workspace_id`: only rows of that workspace."""
    statement = select(audit).order_by(audit.c.seq.desc()).limit(limit)
    if workspace_id is not None:
        statement = statement.where(audit.c.workspace_id == plain(workspace_id))
    if before is not None:
        statement = statement.where(audit.c.seq < before)
    return [
        AuditRow(
            seq=row["seq"],
            at_ms=row["at_ms"],
            actor=row["actor"],
            workspace_id=row["workspace_id"],
            action=row["action"],
            object=row["object"],
            detail=_decoded(row["detail"]),
        )
        for row in conn.execute(statement).mappings()
    ]


def _in_order(conn: Connection, last: int) -> Iterator[RowMapping]:
    at = None
    while True:
        statement = select(audit).where(audit.c.seq <= last).order_by(audit.c.seq).limit(_BATCH)
        rows = conn.execute(statement if at is None else statement.where(audit.c.seq > at)).mappings().all()
        yield from rows
        if len(rows) < _BATCH:
            return
        at = rows[-1]["seq"]


def _digest(row: Mapping[str, Any] | RowMapping) -> bytes:
    members = ("seq", "at_ms", "actor", "workspace_id", "action", "object", "detail")
    return hashlib.sha256(row["previous"] + _encode([row[name] for name in members])).digest()


def _decoded(detail: str) -> dict[str, Any]:
    """Tolerates a row that was not written by this program."""
    try:
        return msgspec.json.decode(detail, type=dict[str, Any])
    except msgspec.DecodeError:
        return {"unreadable": detail}


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Mapping):
        return {_plain(name): _plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
