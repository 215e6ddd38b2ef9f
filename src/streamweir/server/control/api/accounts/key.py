"""Keys over the API: create, show, change, rotate, revoke, and erase the stored content of one.

The admin of a workspace can manage its keys, except those with the scopes `admin` and `metrics`: only the operator
creates and changes these, so no key can change itself or create one like itself. Only the operator chooses price
groups, too. A secret is in one answer only. `store.keys.spec` validates the settings of a key.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, structs
from sqlalchemy import Connection

from streamweir.policy.access import APPOINTED, DEFAULT_WORKSPACE
from streamweir.policy.limits.key_limits import NAMES, KeyLimits, LimitChanges
from streamweir.policy.permission import Permission
from streamweir.server.control.api.accounts.workspace import check_limits_are_kept, check_price_group
from streamweir.server.control.api.actor import Actor, forbidden
from streamweir.server.control.api.context import store_errors_mapped
from streamweir.server.control.api.fields import (
    PAGE,
    Cursor,
    Dollars,
    Limit,
    Models,
    Moment,
    Name,
    Period,
    PersonId,
    Scopes,
    WorkspaceName,
    nano,
)
from streamweir.server.control.api.operation import Call, Nothing, Operation, Page, page_of
from streamweir.server.control.api.view import KeyView, NewKeyView, view_key, view_new_key
from streamweir.store.db.counter import CHANGES, advance
from streamweir.store.keys import audit, keys
from streamweir.store.keys.keys import MAX_GRACE_MS, KeyRecord, KeyState, NewSecret
from streamweir.store.keys.spec import KeyChange, KeySpec
from streamweir.store.requests import retention
from streamweir.store.requests.content import mark_erasure
from streamweir.store.requests.key_use import uses_of
from streamweir.store.requests.retention import Erased

_LIMITS = (*NAMES, "budget_usd")


class KeyQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    workspace: WorkspaceName | None = None
    revoked: bool | None = None
    """None: revoked or not."""
    state: Annotated[KeyState, Meta(description="`active`: neither revoked nor expired.")] | None = None
    cursor: Cursor | None = None
    limit: Limit = PAGE


class NewKey(KeyLimits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Name
    workspace: WorkspaceName | None = None
    scopes: Scopes = ("chat", "models")
    models: Models | None = None
    dialect: str | None = None
    budget_usd: Dollars | None = None
    budget_period: Period | None = None
    log_content: bool = False
    show_routing: bool = False
    show_cost: bool = False
    resumable: bool = False
    price_group: Name | None = None
    person: PersonId | None = None
    """Whose key it is, of the people of its workspace."""
    expires_ms: Moment | None = None


class KeyPatch(LimitChanges, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Members that are absent do not change; null removes a limit."""

    name: Name | UnsetType = UNSET
    scopes: Scopes | UnsetType = UNSET
    models: Models | None | UnsetType = UNSET
    dialect: str | None | UnsetType = UNSET
    budget_usd: Dollars | None | UnsetType = UNSET
    budget_period: Period | None | UnsetType = UNSET
    log_content: bool | UnsetType = UNSET
    show_routing: bool | UnsetType = UNSET
    show_cost: bool | UnsetType = UNSET
    resumable: bool | UnsetType = UNSET
    price_group: Name | None | UnsetType = UNSET
    person: PersonId | None | UnsetType = UNSET
    expires_ms: Moment | None | UnsetType = UNSET


class Rotation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    grace_s: Annotated[int, Meta(ge=0, le=MAX_GRACE_MS // 1000)] = 3600
    """How long the old secret stays valid."""


async def list_keys(call: Call[KeyQuery, Nothing]) -> Page[KeyView]:
    query, actor, at_ms = call.query, call.actor, call.at_ms

    def work(conn: Connection) -> list[KeyView]:
        found = keys.list_keys(
            conn,
            actor.workspace_filter(conn, query.workspace),
            revoked=query.revoked,
            state=query.state,
            at_ms=at_ms,
            after=query.cursor,
            limit=query.limit + 1,
        )
        return _views(conn, found, at_ms)

    await call.context.flush_accounting()
    return page_of(await call.context.read(work), query.limit, lambda view: view, lambda last: last.id)


async def create_key(call: Call[Nothing, NewKey]) -> NewKeyView:
    actor, body, at_ms = call.actor, call.body, call.at_ms
    members = _members(call, body)
    members.pop("workspace")
    spec = KeySpec(**members)

    def work(conn: Connection) -> NewKeyView:
        workspace = actor.workspace_filter(conn, body.workspace) or DEFAULT_WORKSPACE
        return _new_key_view(conn, keys.create_key(conn, workspace, spec, actor=actor.name, at_ms=at_ms), at_ms)

    return await call.context.change(work)


async def show_key(call: Call[Nothing, Nothing]) -> KeyView:
    id, workspace_id, at_ms = call.path["id"], call.actor.allowed_workspace, call.at_ms
    await call.context.flush_accounting()
    return await call.context.read(lambda conn: _key_view(conn, keys.show_key(conn, id, workspace_id), at_ms))


async def change_key(call: Call[Nothing, KeyPatch]) -> KeyView:
    actor, at_ms = call.actor, call.at_ms
    change = KeyChange(**_members(call, call.body))

    def work(conn: Connection) -> KeyView:
        key = _changeable_key(conn, actor, call.path["id"])
        changed = keys.change_key(
            conn, key.id, change, workspace_id=actor.allowed_workspace, actor=actor.name, at_ms=at_ms
        )
        return _key_view(conn, changed, at_ms)

    return await call.context.change(work)


async def revoke_key(call: Call[Nothing, Nothing]) -> KeyView:
    actor, at_ms = call.actor, call.at_ms

    def work(conn: Connection) -> KeyView:
        key = _changeable_key(conn, actor, call.path["id"])
        revoked = keys.revoke_key(conn, key.id, workspace_id=actor.allowed_workspace, actor=actor.name, at_ms=at_ms)
        return _key_view(conn, revoked, at_ms)

    return await call.context.change(work)


async def rotate_key(call: Call[Nothing, Rotation]) -> NewKeyView:
    actor, at_ms, grace_ms = call.actor, call.at_ms, call.body.grace_s * 1000

    def work(conn: Connection) -> NewKeyView:
        key = _changeable_key(conn, actor, call.path["id"])
        new = keys.rotate_key(
            conn, key.id, grace_ms=grace_ms, workspace_id=actor.allowed_workspace, actor=actor.name, at_ms=at_ms
        )
        return _new_key_view(conn, new, at_ms)

    return await call.context.change(work)


async def erase_key(call: Call[Nothing, Nothing]) -> Erased:
    """The audit log gets its row before the erasure, because that takes more than one transaction."""
    context, actor, at_ms = call.context, call.actor, call.at_ms

    def work(conn: Connection) -> str:
        key = _changeable_key(conn, actor, call.path["id"])
        mark_erasure(conn, key.id, at_ms)
        audit.append(conn, actor.name, "content.erase", key.id, {"name": key.name}, key.workspace_id, at_ms)
        return key.id

    await context.flush_accounting()
    key_id = await context.write(work)
    with store_errors_mapped():
        return await retention.erase_key(context.store, key_id, at_ms)


def _key_view(conn: Connection, key: KeyRecord, at_ms: int) -> KeyView:
    (view,) = _views(conn, [key], at_ms)
    return view


def _views(conn: Connection, found: Sequence[KeyRecord], at_ms: int) -> list[KeyView]:
    sums, uses = keys.budget_sums(conn, found, at_ms), uses_of(conn, {key.id: key.workspace_id for key in found}, at_ms)
    return [view_key(key, sums.get(key.id), uses[key.id]) for key in found]


def _new_key_view(conn: Connection, new: NewSecret, at_ms: int) -> NewKeyView:
    key = new.key
    use = uses_of(conn, {key.id: key.workspace_id}, at_ms)[key.id]
    return view_new_key(key, keys.budget_sums(conn, [key], at_ms).get(key.id), use, new.secret)


def _members(call: Call[Any, Any], body: NewKey | KeyPatch) -> dict[str, Any]:
    """The settings of a key under the store's names."""
    members = {name: value for name, value in structs.asdict(body).items() if value is not UNSET}
    if not call.actor.may(Permission.KEYS_APPOINT):
        for scope in APPOINTED.intersection(members.get("scopes", ())):
            raise forbidden(f"Only the operator can grant the scope '{scope}'.")
    if "price_group" in members and (members["price_group"] is not None or isinstance(body, KeyPatch)):
        check_price_group(call, members["price_group"])
    if "person" in members:
        members["person_id"] = members.pop("person")
    for name in _LIMITS:
        check_limits_are_kept(call.context, members.get(name) is not None, name)
    if "budget_usd" in members:
        budget = members.pop("budget_usd")
        members["budget_nano"] = None if budget is None else nano(budget, "budget_usd")
    return members


def _changeable_key(conn: Connection, actor: Actor, key_id: str) -> KeyRecord:
    """A key that this actor may change. It stays so until the end of the transaction: changes are serialized."""
    advance(conn, CHANGES)
    key = keys.show_key(conn, key_id, actor.allowed_workspace)
    if key.id == actor.key_id:
        raise forbidden("A key cannot change itself.")
    if not actor.may(Permission.KEYS_APPOINT):
        for scope in APPOINTED.intersection(key.scopes):
            raise forbidden(f"Only the operator can change keys with the scope '{scope}'.")
    return key


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/keys",
        access=Permission.KEYS_READ,
        about="List the keys, oldest first",
        handler=list_keys,
        query=KeyQuery,
        answer=Page[KeyView],
    ),
    Operation(
        method="POST",
        path="/api/keys",
        access=Permission.KEYS_CHANGE,
        about="Create a key; the response shows its secret once",
        handler=create_key,
        body=NewKey,
        answer=NewKeyView,
        status=201,
    ),
    Operation(
        method="GET",
        path="/api/keys/{id}",
        access=Permission.KEYS_READ,
        about="Show a key",
        handler=show_key,
        answer=KeyView,
    ),
    Operation(
        method="PATCH",
        path="/api/keys/{id}",
        access=Permission.KEYS_CHANGE,
        about="Change a key",
        handler=change_key,
        body=KeyPatch,
        answer=KeyView,
    ),
    Operation(
        method="POST",
        path="/api/keys/{id}/revoke",
        access=Permission.KEYS_CHANGE,
        about="Revoke a key permanently; its streams end",
        handler=revoke_key,
        answer=KeyView,
    ),
    Operation(
        method="POST",
        path="/api/keys/{id}/rotate",
        access=Permission.KEYS_CHANGE,
        about="Create a new secret for a key, shown once; the old one stays valid for `grace_s`",
        handler=rotate_key,
        body=Rotation,
        answer=NewKeyView,
    ),
    Operation(
        method="DELETE",
        path="/api/keys/{id}/content",
        access=Permission.CONTENT_ERASE,
        about="Erase the stored content of a key, and who called",
        handler=erase_key,
        answer=Erased,
    ),
)
