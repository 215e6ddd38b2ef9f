"""Workspaces over the API: the operator creates and changes them, the admin of one sees that one.

A workspace is identified by its name or its id. Limits are refused here, and for keys, if several processes serve
without shared state: then no process could enforce them.
"""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from streamweir.core.errors import CallerError
from streamweir.policy.permission import Permission
from streamweir.server.control.api.actor import forbidden
from streamweir.server.control.api.context import Context
from streamweir.server.control.api.fields import PAGE, Cursor, Limit, Name
from streamweir.server.control.api.operation import Call, Nothing, Operation, Page, page_of
from streamweir.store.db.errors import quoted
from streamweir.store.keys import workspaces
from streamweir.store.keys.workspaces import Workspace, WorkspaceChange, WorkspaceSpec, find_workspace


class WorkspaceQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cursor: Cursor | None = None
    limit: Limit = PAGE


class NewWorkspace(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Name
    prepaid: bool = False
    price_group: Name | None = None


class WorkspacePatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Name | UnsetType = UNSET
    prepaid: bool | UnsetType = UNSET
    price_group: Name | None | UnsetType = UNSET


async def list_workspaces(call: Call[WorkspaceQuery, Nothing]) -> Page[Workspace]:
    query, workspace_id = call.query, call.actor.allowed_workspace
    if workspace_id is not None:
        return Page(data=[await call.context.read(lambda conn: find_workspace(conn, workspace_id))])
    found = await call.context.read(
        lambda conn: workspaces.list_workspaces(conn, after=query.cursor, limit=query.limit + 1)
    )
    return page_of(found, query.limit, lambda each: each, lambda last: last.id)


async def create_workspace(call: Call[Nothing, NewWorkspace]) -> Workspace:
    check_limits_are_kept(call.context, call.body.prepaid, "prepaid")
    check_price_group(call, call.body.price_group)
    spec = WorkspaceSpec(name=call.body.name, prepaid=call.body.prepaid, price_group=call.body.price_group)
    actor, at_ms = call.actor.name, call.at_ms
    return await call.context.change(lambda conn: workspaces.create_workspace(conn, spec, actor=actor, at_ms=at_ms))


async def show_workspace(call: Call[Nothing, Nothing]) -> Workspace:
    wanted, actor = call.path["id"], call.actor
    return await call.context.read(lambda conn: find_workspace(conn, actor.find_allowed_workspace(conn, wanted)))


async def change_workspace(call: Call[Nothing, WorkspacePatch]) -> Workspace:
    wanted, actor, at_ms = call.path["id"], call.actor, call.at_ms
    check_limits_are_kept(call.context, call.body.prepaid is True, "prepaid")
    if call.body.price_group is not UNSET:
        check_price_group(call, call.body.price_group)
    change = WorkspaceChange(name=call.body.name, prepaid=call.body.prepaid, price_group=call.body.price_group)
    return await call.context.change(
        lambda conn: workspaces.change_workspace(
            conn, actor.find_allowed_workspace(conn, wanted), change, actor=actor.name, at_ms=at_ms
        )
    )


def check_limits_are_kept(context: Context, is_limited: bool, param: str) -> None:
    """Refuses a limit that could not be enforced."""
    if is_limited and not context.accounting.can_enforce_limits:
        message = (
            "Limits with several workers need [shared] (Valkey or Redis) in the configuration, "
            "or PostgreSQL as the database."
        )
        raise CallerError("conflict", message, param=param)


def check_price_group(call: Call[Any, Any], name: str | None) -> None:
    """Only the operator chooses by what requests are sold, and only what the file has: others would be refused."""
    if not call.actor.may(Permission.PRICE_GROUPS_CHOOSE):
        raise forbidden("Only the operator can choose a price group.")
    if name is not None and name not in call.context.runtime().quotes.groups:
        message = f"There is no price group {quoted(name)} in the configuration."
        raise CallerError("invalid_value", message, param="price_group")


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/workspaces",
        access=Permission.WORKSPACES_READ,
        about="List the workspaces by name",
        handler=list_workspaces,
        query=WorkspaceQuery,
        answer=Page[Workspace],
    ),
    Operation(
        method="POST",
        path="/api/workspaces",
        access=Permission.WORKSPACES_CHANGE,
        about="Create a workspace",
        handler=create_workspace,
        body=NewWorkspace,
        answer=Workspace,
        status=201,
    ),
    Operation(
        method="GET",
        path="/api/workspaces/{id}",
        access=Permission.WORKSPACES_READ,
        about="Show a workspace, by name or id",
        handler=show_workspace,
        answer=Workspace,
    ),
    Operation(
        method="PATCH",
        path="/api/workspaces/{id}",
        access=Permission.WORKSPACES_CHANGE,
        about="Change a workspace",
        handler=change_workspace,
        body=WorkspacePatch,
        answer=Workspace,
    ),
)
