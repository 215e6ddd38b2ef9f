"""Credit over the API: credit and balance of workspaces, and the rows of the ledger.

Only the operator grants credit. Entries of this process that the database does not have yet are written before
anything is read, so that sums are current.
"""

from typing import Annotated

from msgspec import Meta, Struct
from sqlalchemy import Connection

from streamweir.policy.permission import Permission
from streamweir.server.control.api.fields import PAGE, Cursor, Dollars, Limit, Note, Seq, WorkspaceName, nano
from streamweir.server.control.api.operation import Call, Nothing, Operation, Page, page_of
from streamweir.server.control.api.view import BalanceView, LedgerView, view_balance, view_ledger
from streamweir.store.keys import credit
from streamweir.store.keys.credit import Balance, LedgerFilter, LedgerRow, list_balances, show_balance
from streamweir.store.keys.names import names_of


class BalanceQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    workspace: WorkspaceName | None = None
    cursor: Cursor | None = None
    limit: Limit = PAGE


class LedgerQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    workspace: WorkspaceName | None = None
    kind: (
        Annotated[
            LedgerFilter,
            Meta(description="Without it: charges and credits. `reservation`: with extensions. `all`: every row."),
        ]
        | None
    ) = None
    before: Seq | None = None
    limit: Limit = PAGE


class Credit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    workspace: WorkspaceName
    amount_usd: Dollars
    """A negative amount corrects an earlier one."""
    note: Note = ""


async def list_credits(call: Call[BalanceQuery, Nothing]) -> Page[BalanceView]:
    query, actor = call.query, call.actor

    def work(conn: Connection) -> list[Balance]:
        wanted = actor.workspace_filter(conn, query.workspace)
        if wanted is not None:
            return [show_balance(conn, wanted)]
        return list_balances(conn, after=query.cursor, limit=query.limit + 1)

    await call.context.flush_accounting()
    return page_of(await call.context.read(work), query.limit, view_balance, lambda last: last.workspace.id)


async def add_credit(call: Call[Nothing, Credit]) -> BalanceView:
    actor, body, at_ms = call.actor, call.body, call.at_ms
    amount = nano(body.amount_usd, "amount_usd")

    def work(conn: Connection) -> Balance:
        workspace = actor.find_allowed_workspace(conn, body.workspace)
        return credit.add_credit(conn, workspace, amount, note=body.note, actor=actor.name, at_ms=at_ms)

    return view_balance(await call.context.change(work))


async def list_ledger(call: Call[LedgerQuery, Nothing]) -> Page[LedgerView]:
    query, actor = call.query, call.actor

    def work(conn: Connection) -> tuple[list[LedgerRow], dict[str, str]]:
        rows = credit.list_ledger(
            conn,
            actor.workspace_filter(conn, query.workspace),
            kind=query.kind,
            before=query.before,
            limit=query.limit + 1,
        )
        return rows, names_of(conn, (row.key_id for row in rows))

    await call.context.flush_accounting()
    rows, names = await call.context.read(work)

    def view(row: LedgerRow) -> LedgerView:
        return view_ledger(row, names, actor.sees_cost)

    return page_of(rows, query.limit, view, lambda last: last.seq)


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/credits",
        access=Permission.CREDIT_READ,
        about="Show credit, spending and balance of each workspace",
        handler=list_credits,
        query=BalanceQuery,
        answer=Page[BalanceView],
    ),
    Operation(
        method="POST",
        path="/api/credits",
        access=Permission.CREDIT_GRANT,
        about="Grant credit to a workspace",
        handler=add_credit,
        body=Credit,
        answer=BalanceView,
        status=201,
    ),
    Operation(
        method="GET",
        path="/api/ledger",
        access=Permission.CREDIT_READ,
        about="List the charges and credits of the ledger, newest first; its reservations by a filter",
        handler=list_ledger,
        query=LedgerQuery,
        answer=Page[LedgerView],
    ),
)
