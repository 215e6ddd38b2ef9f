"""The audit log over the API, whether it is unchanged, and whether the ledger is consistent.

The admin of a workspace sees everything that was done in it, by anyone. Operations that read a whole log are for the
operator only, and may take a minute.
"""

from itertools import chain

from msgspec import Struct
from sqlalchemy import Connection

from streamweir.policy.permission import Permission
from streamweir.server.control.api.context import CHECKING_S
from streamweir.server.control.api.fields import PAGE, Limit, Seq, WorkspaceName
from streamweir.server.control.api.operation import Call, Nothing, Operation, Page, page_of
from streamweir.server.control.api.view import AuditView, ids_in_audit, usd_or_none, view_audit
from streamweir.store.keys.audit import AuditRow, list_rows, verify
from streamweir.store.keys.names import names_of
from streamweir.store.ledger.check import check_sums


class AuditQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    workspace: WorkspaceName | None = None
    before: Seq | None = None
    limit: Limit = PAGE


class Verification(Struct, kw_only=True):
    is_as_written: bool
    first_broken_seq: int | None


class FaultView(Struct, kw_only=True):
    object: str
    """The id of a workspace, an account or a request."""
    what: str
    kept_usd: str | None
    found_usd: str | None
    """Computed from the rows."""


class SumCheck(Struct, kw_only=True):
    agrees: bool
    workspaces: int
    rows: int
    faults: list[FaultView]


async def list_audit(call: Call[AuditQuery, Nothing]) -> Page[AuditView]:
    query, actor = call.query, call.actor

    def work(conn: Connection) -> tuple[list[AuditRow], dict[str, str]]:
        within = actor.workspace_filter(conn, query.workspace)
        rows = list_rows(conn, workspace_id=within, before=query.before, limit=query.limit + 1)
        return rows, names_of(conn, chain.from_iterable(map(ids_in_audit, rows)))

    rows, names = await call.context.read(work)
    return page_of(rows, query.limit, lambda row: view_audit(row, names), lambda last: last.seq)


async def verify_audit(call: Call[Nothing, Nothing]) -> Verification:
    broken = await call.context.read(verify, timeout_s=CHECKING_S)
    return Verification(is_as_written=broken is None, first_broken_seq=broken)


async def check_ledger(call: Call[Nothing, Nothing]) -> SumCheck:
    report = await call.context.read(check_sums, timeout_s=CHECKING_S)
    return SumCheck(
        agrees=not report.faults,
        workspaces=report.workspaces,
        rows=report.rows,
        faults=[
            FaultView(
                object=fault.object,
                what=fault.what,
                kept_usd=usd_or_none(fault.kept),
                found_usd=usd_or_none(fault.found),
            )
            for fault in report.faults
        ],
    )


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/audit",
        access=Permission.AUDIT_READ,
        about="List who changed or read what, newest first",
        handler=list_audit,
        query=AuditQuery,
        answer=Page[AuditView],
    ),
    Operation(
        method="GET",
        path="/api/audit/verify",
        access=Permission.ACCOUNTING_CHECK,
        about="Check that no row of the audit log was changed or removed",
        handler=verify_audit,
        answer=Verification,
    ),
    Operation(
        method="GET",
        path="/api/check",
        access=Permission.ACCOUNTING_CHECK,
        about="Recompute every total from the ledger and report those that differ",
        handler=check_ledger,
        answer=SumCheck,
    ),
)
