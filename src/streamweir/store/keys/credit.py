"""Credit, as operators see it: the credit of a workspace, its balance, and the ledger rows.

A row of the ledger is shown as what it means. A settlement is a charge: its amount is the price, negative, and what it
releases of the reservation is apart, so that amounts and releases of all rows add up to the balance. Charges and
credits are what somebody pays; reservations are shown if they are asked for.

The money itself is in `store.ledger.accounts`; here it becomes a change that every process loads, and a row of the
audit log. Credit matters for a prepaid workspace; for any other the balance shows what it has spent beyond its credit.
"""

from typing import Any, Literal

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, RowMapping, or_, select, update

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

LedgerKind = Literal["charge", "credit", "reservation", "extension"]
LedgerFilter = Literal["charge", "credit", "reservation", "all"]
"""`reservation`: with their extensions."""


class Balance(Struct, frozen=True, kw_only=True):
    workspace: Workspace
    granted_nano: int
    spent_nano: int
    held_nano: int
    balance_nano: int


class LedgerRow(Struct, frozen=True, kw_only=True):
    seq: int
    at_ms: int
    kind: LedgerKind
    workspace_id: str
    key_id: str | None
    request_id: str | None
    amount_nano: int
    """Of a charge: the price, negative. Of a reservation and its extension: what they hold, negative."""
    released_nano: int | None
    """Of a charge: what was reserved for it."""
    price_nano: int | None
    """Of a charge: what the request is sold for. None: the model has no price."""
    cost_nano: int | None
    """Of a charge: what the provider asks for it. None: that is not known."""
    note: str | None

    @property
    def margin_nano(self) -> int | None:
        return margin_of(self.price_nano, self.cost_nano)


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
    conn: Connection,
    workspace_id: str | None,
    *,
    kind: LedgerFilter | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[LedgerRow]:
    """The newest first, starting before the number `before`. `workspace_id` None: of all workspaces. `kind` None:
    charges and credits."""
    columns = ledger.c
    statement = select(ledger).where(*_of_kind(kind))
    if workspace_id is not None:
        statement = statement.where(columns.workspace_id == plain(workspace_id))
    if before is not None:
        statement = statement.where(columns.seq < before)
    return [_view(row) for row in conn.execute(statement.order_by(columns.seq.desc()).limit(limit)).mappings()]


def margin_of(price_nano: int | None, cost_nano: int | None) -> int | None:
    """None: one of them is not known."""
    return None if price_nano is None or cost_nano is None else price_nano - cost_nano


def _of_kind(kind: LedgerFilter | None) -> list[ColumnElement[bool]]:
    column = ledger.c.kind
    if kind == "all":
        return []
    if kind == "credit":
        # Few among many. Only they have no request, so the index by request finds them.
        return [ledger.c.request_id.is_(None), column == "credit"]
    if kind == "reservation":
        return [or_(column == "hold", column.startswith("extend."))]
    return [column == "settle" if kind == "charge" else column.in_(("settle", "credit"))]


def _view(row: RowMapping) -> LedgerRow:
    kind, amount = row["kind"], row["amount"]
    shown: dict[str, Any] = {"kind": _KINDS.get(kind, "extension"), "amount_nano": amount, "released_nano": None}
    if kind == "settle":
        price = row["price"] or 0
        shown |= {"amount_nano": -price, "released_nano": amount + price}
    return LedgerRow(
        seq=row["seq"],
        at_ms=row["at_ms"],
        workspace_id=row["workspace_id"],
        key_id=row["key_id"],
        request_id=row["request_id"],
        price_nano=row["price"],
        cost_nano=row["cost"],
        note=row["note"],
        **shown,
    )


_KINDS: dict[str, LedgerKind] = {"hold": "reservation", "settle": "charge", "credit": "credit"}
"""Others are extensions, which are numbered."""


def _balance(workspace: Workspace, sums: Sums) -> Balance:
    return Balance(
        workspace=workspace,
        granted_nano=sums.granted,
        spent_nano=sums.spent,
        held_nano=sums.held,
        balance_nano=sums.balance,
    )
