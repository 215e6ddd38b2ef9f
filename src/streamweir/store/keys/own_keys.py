"""Keys that people make for themselves, within what their workspace allows (`store.keys.member_keys`).

The budgets of a person's keys in force or with a request that still runs, and what its other keys have spent in their
present period, add up to the allowance at most: making a key anew gives no money anew. The number of a person's keys
is bounded, with the revoked ones, because keys are never deleted. The names of other people's keys are theirs: they
are neither told nor reserved.
"""

from msgspec import Struct
from sqlalchemy import Connection, func, select

from streamweir.policy.limits.key_limits import limits_of
from streamweir.store.db.counter import CHANGES, advance
from streamweir.store.db.errors import Conflict, Invalid, NotFound, quoted
from streamweir.store.db.tables import keys
from streamweir.store.journal.entries import plain
from streamweir.store.keys.keys import (
    KeyRecord,
    NewSecret,
    budget_sums,
    create_key,
    list_keys,
    revoke_key,
    show_key,
)
from streamweir.store.keys.member_keys import MemberKeys, show_member_keys
from streamweir.store.keys.spec import KeySpec

MAX_KEYS_EVER = 1000
"""Of one person, with those that are revoked."""


class OwnKeySpec(Struct, frozen=True, kw_only=True):
    """What a person chooses. None: what the workspace allows."""

    name: str
    models: tuple[str, ...] | None = None
    budget_nano: int | None = None
    budget_period: str | None = None
    expires_ms: int | None = None


class Allowance(Struct, frozen=True, kw_only=True):
    rules: MemberKeys
    in_force: int
    """The number of the person's keys."""
    left_nano: int | None
    """What budgets of further keys may have. None: they need none."""


def allowance_of(conn: Connection, workspace_id: str, person_id: str, at_ms: int) -> Allowance:
    rules = show_member_keys(conn, workspace_id)
    own = list_keys(conn, workspace_id, person_id=person_id)
    in_force = [key for key in own if _is_in_force(key, at_ms)]
    if rules.budget_nano is None:
        return Allowance(rules=rules, in_force=len(in_force), left_nano=None)
    over = {key.id: key.budget_nano or 0 for key in own if not _is_in_force(key, at_ms)}
    sums = budget_sums(conn, [key for key in own if key.id in over], at_ms)
    used = sum(key.budget_nano or 0 for key in in_force)
    # A request that runs on may spend the rest of its key's budget: what it holds is only a part.
    used += sum(max(over[id], each.spent + each.held) if each.held else each.spent for id, each in sums.items())
    return Allowance(rules=rules, in_force=len(in_force), left_nano=max(0, rules.budget_nano - used))


def create_own_key(
    conn: Connection, workspace_id: str, person_id: str, wanted: OwnKeySpec, *, actor: str, at_ms: int
) -> NewSecret:
    advance(conn, CHANGES)
    allowance = allowance_of(conn, workspace_id, person_id, at_ms)
    rules = allowance.rules
    if allowance.in_force >= rules.max_keys:
        raise Conflict(_too_many(rules.max_keys))
    if _count_all(conn, person_id) >= MAX_KEYS_EVER:
        raise Conflict(f"you have made {MAX_KEYS_EVER} keys: ask an admin of the workspace for another one")
    budget, period = _budget(wanted, allowance)
    spec = KeySpec(
        name=wanted.name,
        models=_models(wanted.models, rules.models),
        budget_nano=budget,
        budget_period=period,
        person_id=person_id,
        expires_ms=wanted.expires_ms,
        **limits_of(rules),
    )
    return create_key(conn, workspace_id, spec, is_own=True, actor=actor, at_ms=at_ms)


def show_own_key(conn: Connection, id: str, workspace_id: str | None, person_id: str) -> KeyRecord:
    key = show_key(conn, id, workspace_id)
    if key.person_id != person_id:
        raise NotFound(f"there is no key {quoted(id)}")
    return key


def revoke_own_key(
    conn: Connection, id: str, workspace_id: str | None, person_id: str, *, actor: str, at_ms: int
) -> KeyRecord:
    advance(conn, CHANGES)
    key = show_own_key(conn, id, workspace_id, person_id)
    return revoke_key(conn, key.id, actor=actor, at_ms=at_ms)


def _is_in_force(key: KeyRecord, at_ms: int) -> bool:
    return key.revoked_ms is None and (key.expires_ms is None or at_ms < key.expires_ms)


def _count_all(conn: Connection, person_id: str) -> int:
    return conn.execute(select(func.count()).where(keys.c.person_id == plain(person_id))).scalar_one()


def _too_many(maximum: int) -> str:
    if maximum == 0:
        return "members of this workspace make no keys: ask an admin of the workspace for one"
    return f"a member of this workspace has at most {maximum} keys: revoke one first"


def _models(wanted: tuple[str, ...] | None, allowed: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if wanted is None or allowed is None:
        return allowed if wanted is None else wanted
    for each in wanted:
        if not any(_covers(pattern, each) for pattern in allowed):
            raise Invalid(f"members of this workspace may not use {quoted(each)}", "models")
    return wanted


def _covers(pattern: str, wanted: str) -> bool:
    """Whether every model that `wanted` allows is one of the pattern's."""
    if not pattern.endswith("*"):
        return wanted == pattern
    return wanted.removesuffix("*").startswith(pattern[:-1])


def _budget(wanted: OwnKeySpec, allowance: Allowance) -> tuple[int | None, str | None]:
    left, period = allowance.left_nano, allowance.rules.budget_period
    if left is None:
        return wanted.budget_nano, wanted.budget_period
    if wanted.budget_period not in (None, period):
        raise Invalid(f"budgets of members in this workspace have the period {quoted(period or '')}", "budget_period")
    budget = left if wanted.budget_nano is None else wanted.budget_nano
    if left == 0 or budget > left:
        raise Conflict(
            "the budgets of your keys would exceed what a member of this workspace may spend: "
            "revoke a key, or choose a smaller budget",
            "budget_nano",
        )
    return budget, period
