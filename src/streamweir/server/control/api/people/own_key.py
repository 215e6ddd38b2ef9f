"""A person's own keys over the API, and what it may still spend.

Everything here belongs to the person who asks. A key of somebody else is not found, as if it did not exist. What a
person may choose for a key is within what the workspace allows its members (`server.control.api.people.member_keys`).
"""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct
from sqlalchemy import Connection

from streamweir.core.errors import CallerError
from streamweir.policy.permission import Permission
from streamweir.server.accounting.accounting import unavailable
from streamweir.server.control.api.accounts.workspace import check_limits_are_kept
from streamweir.server.control.api.fields import PAGE, Cursor, Dollars, Limit, Models, Moment, Name, Period, nano
from streamweir.server.control.api.operation import Call, Nothing, Operation, Page, page_of
from streamweir.server.control.api.people.member_keys import MemberKeysView, view_member_keys
from streamweir.server.control.api.people.own import person_id_of
from streamweir.server.control.api.view import KeyView, NewKeyView, usd, usd_or_none, view_key, view_new_key
from streamweir.store.keys import keys, own_keys
from streamweir.store.keys.credit import show_balance
from streamweir.store.keys.keys import KeyRecord, KeyState
from streamweir.store.keys.member_keys import has_enforced_limits, show_member_keys
from streamweir.store.keys.own_keys import OwnKeySpec, allowance_of
from streamweir.store.requests.key_use import uses_of


class OwnKeyQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    state: Annotated[KeyState, Meta(description="`active`: neither revoked nor expired.")] | None = None
    cursor: Cursor | None = None
    limit: Limit = PAGE


class NewOwnKey(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is absent is as the workspace allows."""

    name: Name
    models: Models | None = None
    budget_usd: Dollars | None = None
    budget_period: Period | None = None
    expires_ms: Moment | None = None


class OwnCreditView(Struct, kw_only=True):
    prepaid: bool
    """The workspace can spend only its credit."""
    left_usd: str | None
    """Of the workspace's credit, for all its keys. Null: it is not prepaid."""
    keys: int
    """The person's keys in force."""
    budget_left_usd: str | None
    """What budgets of further keys may have. Null: they need none."""
    allowed: MemberKeysView
    """What the workspace allows each member."""


async def list_own_keys(call: Call[OwnKeyQuery, Nothing]) -> Page[KeyView]:
    query, at_ms, id, within = call.query, call.at_ms, person_id_of(call), call.actor.allowed_workspace

    def work(conn: Connection) -> list[KeyView]:
        found = keys.list_keys(
            conn,
            within,
            state=query.state,
            at_ms=at_ms,
            person_id=id,
            after=query.cursor,
            limit=query.limit + 1,
        )
        return _views(conn, found, at_ms)

    await call.context.flush_accounting()
    return page_of(await call.context.read(work), query.limit, lambda view: view, lambda last: last.id)


async def create_own_key(call: Call[Nothing, NewOwnKey]) -> NewKeyView:
    body, actor, at_ms, person_id = call.body, call.actor, call.at_ms, person_id_of(call)
    workspace_id = _workspace_of(call)
    spec = OwnKeySpec(
        name=body.name,
        models=body.models,
        budget_nano=None if body.budget_usd is None else nano(body.budget_usd, "budget_usd"),
        budget_period=body.budget_period,
        expires_ms=body.expires_ms,
    )

    # What other keys have spent a moment ago is not for this one.
    is_known = await call.context.flush_accounting()

    def work(conn: Connection) -> NewKeyView:
        if not is_known and show_member_keys(conn, workspace_id).budget_nano is not None:
            raise unavailable("It is not known at the moment what your keys have spent. Try again later.")
        new = own_keys.create_own_key(conn, workspace_id, person_id, spec, actor=actor.name, at_ms=at_ms)
        check_limits_are_kept(call.context, has_enforced_limits(new.key.spec), "budget_usd")
        use = uses_of(conn, {new.key.id: workspace_id}, at_ms)[new.key.id]
        return view_new_key(new.key, keys.budget_sums(conn, [new.key], at_ms).get(new.key.id), use, new.secret)

    return await call.context.change(work)


async def show_own_key(call: Call[Nothing, Nothing]) -> KeyView:
    id, within, at_ms, person_id = call.path["id"], call.actor.allowed_workspace, call.at_ms, person_id_of(call)

    def work(conn: Connection) -> KeyView:
        return _views(conn, [own_keys.show_own_key(conn, id, within, person_id)], at_ms)[0]

    await call.context.flush_accounting()
    return await call.context.read(work)


async def revoke_own_key(call: Call[Nothing, Nothing]) -> KeyView:
    id, actor, at_ms, person_id = call.path["id"], call.actor, call.at_ms, person_id_of(call)

    def work(conn: Connection) -> KeyView:
        revoked = own_keys.revoke_own_key(conn, id, actor.allowed_workspace, person_id, actor=actor.name, at_ms=at_ms)
        return _views(conn, [revoked], at_ms)[0]

    return await call.context.change(work)


async def show_own_credit(call: Call[Nothing, Nothing]) -> OwnCreditView:
    person_id, workspace_id, at_ms = person_id_of(call), _workspace_of(call), call.at_ms

    def work(conn: Connection) -> OwnCreditView:
        balance, allowance = show_balance(conn, workspace_id), allowance_of(conn, workspace_id, person_id, at_ms)
        is_prepaid = balance.workspace.prepaid
        return OwnCreditView(
            prepaid=is_prepaid,
            left_usd=usd(balance.balance_nano) if is_prepaid else None,
            keys=allowance.in_force,
            budget_left_usd=usd_or_none(allowance.left_nano),
            allowed=view_member_keys(allowance.rules),
        )

    await call.context.flush_accounting()
    return await call.context.read(work)


def _workspace_of(call: Call[Nothing, Nothing] | Call[Nothing, NewOwnKey]) -> str:
    """Raises `CallerError` for a role of the whole gateway."""
    if call.actor.allowed_workspace is None:
        message = "Only the people of a workspace have keys and credit of their own: use /api/keys and /api/credits."
        raise CallerError("conflict", message)
    return call.actor.allowed_workspace


def _views(conn: Connection, found: Sequence[KeyRecord], at_ms: int) -> list[KeyView]:
    since = {key.id: key.person_since_ms for key in found if key.person_since_ms is not None}
    uses = uses_of(conn, {key.id: key.workspace_id for key in found}, at_ms, since)
    sums = keys.budget_sums(conn, found, at_ms)
    return [view_key(key, sums.get(key.id), uses[key.id]) for key in found]


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/me/keys",
        access=Permission.SELF,
        about="List one's own keys, oldest first",
        handler=list_own_keys,
        query=OwnKeyQuery,
        answer=Page[KeyView],
    ),
    Operation(
        method="POST",
        path="/api/me/keys",
        access=Permission.SELF,
        about="Create a key of one's own; the response shows its secret once",
        handler=create_own_key,
        body=NewOwnKey,
        answer=NewKeyView,
        status=201,
    ),
    Operation(
        method="GET",
        path="/api/me/keys/{id}",
        access=Permission.SELF,
        about="Show a key of one's own",
        handler=show_own_key,
        answer=KeyView,
    ),
    Operation(
        method="POST",
        path="/api/me/keys/{id}/revoke",
        access=Permission.SELF,
        about="Revoke a key of one's own permanently; its streams end",
        handler=revoke_own_key,
        answer=KeyView,
    ),
    Operation(
        method="GET",
        path="/api/me/credit",
        access=Permission.SELF,
        about="Show what one may still spend, and the keys that one may make",
        handler=show_own_credit,
        answer=OwnCreditView,
    ),
)
