"""Credit, as operators see it: the credit of a workspace, its balance, and the ledger rows.

The money itself is in `store.ledger.accounts`; here it becomes a change that every process loads, and a row of the
audit log. Credit matters for a prepaid workspace; for any other the balance shows what it has spent beyond its credit.
"""

from msgspec import Struct
from sqlalchemy import Connection, select, update

from streamweir.store.db.counter import CHANGES, advance
from streamweir.store.db.errors import Invalid
from streamweir.store.db.tables import ledger, workspaces
from streamweir.store.journal.entries import plain
from streamweir.store.keys import audit
from streamweir.store.keys.workspaces import Workspace, find_workspace, list_workspaces
from streamweir.store.ledger.accounts import Sums, balance_of, credit

MAX_CREDIT_NANO = 10**18
"""At once: a thousand million dollars."""
MAX_NOTE_LENGTH = 500


class Balance(Struct, frozen=True, kw_only=True):
    workspace: Workspace
    granted_nano: int
    spent_nano: int
    held_nano: int
    balance_nano: int


class LedgerRow(Struct, frozen=True, kw_only=True):
    seq: int
    at_ms: int
    kind: str
    workspace_id: str
    key_id: str | None
    request_id: str | None
    amount_nano: int
    cost_nano: int | None
    price_nano: int | None
    note: str | None


def add_credit(
    conn: Connection, workspace_id: str, amount_nano: int, *, note: str = "", actor: str, at_ms: int
) -> Balance:
    """A negative amount corrects an earlier one. Raises `Invalid`, `NotFound` and `Conflict`."""
    if not -MAX_CREDIT_NANO <= amount_nano <= MAX_CREDIT_NANO:
        raise Invalid("a credit can be at most $1,000,000,000", "amount_nano")
    if len(note) > MAX_NOTE_LENGTH:
        raise Invalid(f"a note can have at most {MAX_NOTE_LENGTH} characters", "note")
    version = advance(conn, CHANGES)
    workspace = find_workspace(conn, workspace_id)
    sums = credit(conn, workspace.id, amount_nano, note, at_ms)
    conn.execute(update(workspaces).where(workspaces.c.id == workspace.id).values(version=version))
    detail = {"amount_nano": amount_nano, "granted_nano": sums.granted, "note": note}
    audit.append(conn, actor, "credit.add", workspace.id, detail, workspace.id, at_ms)
    return _balance(workspace, sums)


def show_balance(conn: Connection, workspace_id: str) -> Balance:
    workspace = find_workspace(conn, workspace_id)
    return _balance(workspace, balance_of(conn, workspace.id))


def list_balances(conn: Connection, *, after: str | None = None, limit: int | None = None) -> list[Balance]:
    """In the order of `list_workspaces`."""
    found = list_workspaces(conn, after=after, limit=limit)
    return [_balance(workspace, balance_of(conn, workspace.id)) for workspace in found]


def list_ledger(
    conn: Connection, workspace_id: str | None, *, before: int | None = None, limit: int = 50
) -> list[LedgerRow]:
    """The newest first, starting before the number `before`. None: of all workspaces."""
    columns = ledger.c
    statement = select(ledger)
    if workspace_id is not None:
        statement = statement.where(columns.workspace_id == plain(workspace_id))
    if before is not None:
        statement = statement.where(columns.seq < before)
    return [
        LedgerRow(
            seq=row["seq"],
            at_ms=row["at_ms"],
            kind=row["kind"],
            workspace_id=row["workspace_id"],
            key_id=row["key_id"],
            request_id=row["request_id"],
            amount_nano=row["amount"],
            cost_nano=row["cost"],
            price_nano=row["price"],
            note=row["note"],
        )
        for row in conn.execute(statement.order_by(columns.seq.desc()).limit(limit)).mappings()
    ]


def _balance(workspace: Workspace, sums: Sums) -> Balance:
    return Balance(
        workspace=workspace,
        granted_nano=sums.granted,
        spent_nano=sums.spent,
        held_nano=sums.held,
        balance_nano=sums.balance,
    )
