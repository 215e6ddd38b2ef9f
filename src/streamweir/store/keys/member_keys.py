"""What the members of a workspace may give the keys that they make for themselves.

Whoever manages the keys of the workspace sets it. It is for new keys: those that exist stay as they are. A budget is
for all keys of one member together, in each period. It is kept as JSON, so that another rule needs no column.
"""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType, structs
from sqlalchemy import Connection, select, update

from streamweir.policy.limits.key_limits import KINDS, KeyLimits, LimitChanges, limits_of
from streamweir.store.db.counter import CHANGES, advance
from streamweir.store.db.errors import Invalid, NotFound, quoted
from streamweir.store.db.tables import workspaces
from streamweir.store.journal.entries import plain
from streamweir.store.keys import audit
from streamweir.store.keys.spec import KeySpec, checked

MAX_MEMBER_KEYS = 100


class MemberKeys(KeyLimits, frozen=True, kw_only=True):
    """The limits are those of each key."""

    max_keys: int = 10
    """Of one member, in force at the same time. 0: members make none."""
    models: tuple[str, ...] | None = None
    """As for a key. None: every model."""
    budget_nano: int | None = None
    """What the keys of one member may spend together. None: they need no budget."""
    budget_period: str | None = None


class MemberKeysChange(LimitChanges, frozen=True, kw_only=True):
    max_keys: int | UnsetType = UNSET
    models: tuple[str, ...] | None | UnsetType = UNSET
    budget_nano: int | None | UnsetType = UNSET
    budget_period: str | None | UnsetType = UNSET


def show_member_keys(conn: Connection, workspace_id: str) -> MemberKeys:
    row = conn.execute(select(workspaces.c.member_keys).where(workspaces.c.id == plain(workspace_id))).one_or_none()
    if row is None:
        raise NotFound(f"there is no workspace {quoted(workspace_id)}")
    return MemberKeys() if row.member_keys is None else msgspec.json.decode(row.member_keys, type=MemberKeys)


def change_member_keys(
    conn: Connection, workspace_id: str, change: MemberKeysChange, *, actor: str, at_ms: int
) -> MemberKeys:
    advance(conn, CHANGES)
    old = show_member_keys(conn, workspace_id)
    wanted: dict[str, Any] = {name: value for name, value in structs.asdict(change).items() if value is not UNSET}
    if change.budget_nano is None and change.budget_period is UNSET:
        wanted["budget_period"] = None
    new = _checked(structs.replace(old, **wanted))
    if new == old:
        return old
    text = msgspec.json.encode(new).decode()
    conn.execute(update(workspaces).where(workspaces.c.id == workspace_id).values(member_keys=text))
    before, after = structs.asdict(old), structs.asdict(new)
    detail = {name: {"from": before[name], "to": after[name]} for name in after if before[name] != after[name]}
    audit.append(conn, actor, "workspace.member_keys", workspace_id, detail, workspace_id, at_ms)
    return new


def _checked(rules: MemberKeys) -> MemberKeys:
    """Raises `Invalid`, also for what no key may have."""
    if not 0 <= rules.max_keys <= MAX_MEMBER_KEYS:
        raise Invalid(f"the keys of a member are between 0 and {MAX_MEMBER_KEYS}", "max_keys")
    spec = KeySpec(
        name="a member's",
        models=rules.models,
        budget_nano=rules.budget_nano,
        budget_period=rules.budget_period,
        **limits_of(rules),
    )
    found = checked(spec, 0)
    return structs.replace(rules, models=found.models, budget_period=found.budget_period)


def has_enforced_limits(rules: MemberKeys | KeySpec) -> bool:
    """Whether a key made by these rules has a limit or a budget."""
    return rules.budget_nano is not None or any(getattr(rules, kind.name) is not None for kind in KINDS)
