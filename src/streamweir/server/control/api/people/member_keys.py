"""What a workspace allows the keys that its members make for themselves.

Whoever manages the keys of a workspace sets it, so it opens nothing that could not be given to a member with a key.
"""

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType, structs

from streamweir.policy.limits.key_limits import NAMES, KeyLimits, LimitChanges, limits_of
from streamweir.policy.permission import Permission
from streamweir.server.control.api.accounts.workspace import check_limits_are_kept
from streamweir.server.control.api.fields import Dollars, Models, Period, nano
from streamweir.server.control.api.operation import Call, Nothing, Operation
from streamweir.server.control.api.view import usd_or_none
from streamweir.store.keys import member_keys
from streamweir.store.keys.member_keys import MAX_MEMBER_KEYS, MemberKeys, MemberKeysChange

MaxKeys = Annotated[
    int, Meta(ge=0, le=MAX_MEMBER_KEYS, description="Of one member, in force at the same time. 0: members make none.")
]


class MemberKeysView(KeyLimits, frozen=True, kw_only=True):
    """The limits are those of each key."""

    max_keys: int
    """Of one member, in force at the same time. 0: members make none."""
    models: tuple[str, ...] | None
    """Null: every model."""
    budget_usd: str | None
    """What the keys of one member may spend together in each period. Null: they need no budget."""
    budget_period: str | None


class MemberKeysPatch(LimitChanges, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Members that are absent do not change; null removes a limit."""

    max_keys: MaxKeys | UnsetType = UNSET
    models: Models | None | UnsetType = UNSET
    budget_usd: Dollars | None | UnsetType = UNSET
    budget_period: Period | None | UnsetType = UNSET


def view_member_keys(rules: MemberKeys) -> MemberKeysView:
    return MemberKeysView(
        max_keys=rules.max_keys,
        models=rules.models,
        budget_usd=usd_or_none(rules.budget_nano),
        budget_period=rules.budget_period,
        **limits_of(rules),
    )


async def show_member_keys(call: Call[Nothing, Nothing]) -> MemberKeysView:
    wanted, actor = call.path["id"], call.actor
    found = await call.context.read(
        lambda conn: member_keys.show_member_keys(conn, actor.find_allowed_workspace(conn, wanted))
    )
    return view_member_keys(found)


async def change_member_keys(call: Call[Nothing, MemberKeysPatch]) -> MemberKeysView:
    wanted, actor, at_ms = call.path["id"], call.actor, call.at_ms
    members: dict[str, Any] = {name: value for name, value in structs.asdict(call.body).items() if value is not UNSET}
    for name in (*NAMES, "budget_usd"):
        check_limits_are_kept(call.context, members.get(name) is not None, name)
    if "budget_usd" in members:
        budget = members.pop("budget_usd")
        members["budget_nano"] = None if budget is None else nano(budget, "budget_usd")
    change = MemberKeysChange(**members)
    changed = await call.context.write(
        lambda conn: member_keys.change_member_keys(
            conn, actor.find_allowed_workspace(conn, wanted), change, actor=actor.name, at_ms=at_ms
        )
    )
    return view_member_keys(changed)


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/workspaces/{id}/member-keys",
        access=Permission.KEYS_READ,
        about="Show what keys the members of a workspace may make",
        handler=show_member_keys,
        answer=MemberKeysView,
    ),
    Operation(
        method="PATCH",
        path="/api/workspaces/{id}/member-keys",
        access=Permission.KEYS_CHANGE,
        about="Change what keys the members of a workspace may make",
        handler=change_member_keys,
        body=MemberKeysPatch,
        answer=MemberKeysView,
    ),
)
