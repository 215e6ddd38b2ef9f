"""Keys that people make for themselves: their number, their budgets together, and what the workspace allows."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from streamweir.policy.access import check
from streamweir.policy.limits.budget import key_account, period_of
from streamweir.policy.permission import Role
from streamweir.store.db.base import Store
from streamweir.store.db.errors import Conflict, Invalid, NotFound
from streamweir.store.keys import own_keys, people
from streamweir.store.keys.changes import changes_since
from streamweir.store.keys.keys import change_key, list_keys, revoke_key, rotate_key, show_key
from streamweir.store.keys.member_keys import MemberKeys, MemberKeysChange, change_member_keys, show_member_keys
from streamweir.store.keys.own_keys import OwnKeySpec, allowance_of, create_own_key, revoke_own_key
from streamweir.store.keys.people import PersonChange, PersonSpec
from streamweir.store.keys.spec import KeyChange
from streamweir.store.ledger.posting import apply
from support.common_entries import hold, settle
from support.key_store import NOW, new_key, new_workspace, refused
from support.stores import store_on

NANO = 10**9
DAY = 86_400_000


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with store_on(request.param, tmp_path) as opened:
        yield opened


async def member(store: Store, name: str, workspace: str) -> people.Person:
    spec = PersonSpec(name=name, role=Role.MEMBER, workspace=workspace)
    return (await store.write(lambda conn: people.create_person(conn, spec, actor="cli", at_ms=NOW))).person


def making(person: people.Person, name: str = "mine", *, at_ms: int = NOW, **more: Any) -> Any:
    def work(conn: Connection) -> Any:
        assert person.workspace_id is not None
        spec = OwnKeySpec(name=name, **more)
        return create_own_key(conn, person.workspace_id, person.id, spec, actor=person.actor, at_ms=at_ms)

    return work


async def allow(store: Store, person: people.Person, **more: Any) -> MemberKeys:
    assert person.workspace_id is not None
    change = MemberKeysChange(**more)
    changing = partial(change_member_keys, workspace_id=person.workspace_id, change=change, actor="cli", at_ms=NOW)
    return await store.write(changing)


async def left(store: Store, person: people.Person, at_ms: int = NOW) -> int | None:
    assert person.workspace_id is not None
    found = await store.read(partial(allowance_of, workspace_id=person.workspace_id, person_id=person.id, at_ms=at_ms))
    return found.left_nano


async def spend(store: Store, key: Any, id: str, nano: int) -> None:
    account = key_account(key.id, period_of(key.budget_period, NOW / 1000))
    members: dict[str, Any] = {"workspace_id": key.workspace_id, "key_id": key.id, "account": account}
    await store.write(lambda conn: apply(conn, [hold(id, nano, **members), settle(id, nano, **members)]))


async def test_a_member_makes_as_many_keys_as_the_workspace_allows(store: Store) -> None:
    await new_workspace(store, "one")
    ada, eve = await member(store, "ada", "one"), await member(store, "eve", "one")
    await allow(store, ada, max_keys=2, rpm=7, models=("gpt-*", "own"))
    first = (await store.write(making(ada, expires_ms=NOW + DAY))).key
    assert (first.person_id, first.scopes, first.models, first.rpm) == (ada.id, ("chat", "models"), ("gpt-*", "own"), 7)
    assert (first.log_content, first.price_group, first.person_since_ms) == (False, None, None)
    second = (await store.write(making(ada, "second"))).key
    await refused(store, Conflict, making(ada, "third"))
    assert (await store.write(making(eve))).key.person_id == eve.id, "the bound is one for each"
    await store.write(making(ada, "third", at_ms=NOW + DAY))  # one has expired
    await refused(store, Conflict, making(ada, "fourth", at_ms=NOW + DAY))
    await store.write(
        partial(revoke_own_key, id=second.id, workspace_id=None, person_id=ada.id, actor=ada.actor, at_ms=NOW)
    )
    await store.write(making(ada, "fourth", at_ms=NOW + DAY))
    await allow(store, ada, max_keys=0)
    found = await refused(store, Conflict, making(eve, "second"))
    assert "ask an admin" in found.message


async def test_keys_that_are_made_anew_spend_no_more(store: Store) -> None:
    """Neither by revoking, nor by many keys."""
    await new_workspace(store, "one")
    ada = await member(store, "ada", "one")
    await allow(store, ada, budget_nano=10 * NANO, budget_period="month")
    first = (await store.write(making(ada))).key
    assert (first.budget_nano, first.budget_period) == (10 * NANO, "month")
    assert await left(store, ada) == 0
    assert (await refused(store, Conflict, making(ada, "second"))).param == "budget_nano"
    await spend(store, first, "r1", 4 * NANO)
    await store.write(partial(revoke_key, key_id=first.id, actor="cli", at_ms=NOW))
    assert await left(store, ada) == 6 * NANO
    await refused(store, Conflict, making(ada, "second", budget_nano=7 * NANO))
    second = (await store.write(making(ada, "second", budget_nano=2 * NANO))).key
    assert (second.budget_nano, second.budget_period, await left(store, ada)) == (2 * NANO, "month", 4 * NANO)
    assert (await refused(store, Invalid, making(ada, "third", budget_period="day"))).param == "budget_period"
    assert (await refused(store, Invalid, making(ada, "third", budget_nano=-1))).param == "budget_nano"
    third = (await store.write(making(ada, "third", expires_ms=NOW + 1))).key
    assert third.budget_nano == 4 * NANO
    assert await left(store, ada, NOW + 1) == 4 * NANO, "what a key that has expired did not spend is free"
    await allow(store, ada, budget_nano=None)
    assert await left(store, ada) is None
    free = (await store.write(making(ada, "free"))).key
    assert (free.budget_nano, free.budget_period) == (None, None)


@pytest.mark.parametrize("ends", ["it expires", "it is revoked"])
async def test_the_budget_of_a_key_is_free_when_its_last_request_is_over(store: Store, ends: str) -> None:
    """A running request may still spend all of it, and its reservation is only a part."""
    await new_workspace(store, "one")
    ada = await member(store, "ada", "one")
    await allow(store, ada, budget_nano=10 * NANO, budget_period="month")
    first = (await store.write(making(ada, "first", expires_ms=NOW + 1, budget_nano=8 * NANO))).key
    account = key_account(first.id, period_of("month", NOW / 1000))
    members: dict[str, Any] = {"workspace_id": first.workspace_id, "key_id": first.id, "account": account}
    await store.write(lambda conn: apply(conn, [hold("long", NANO, **members)]))
    if ends == "it is revoked":
        await store.write(partial(revoke_key, key_id=first.id, actor="cli", at_ms=NOW))
    assert await left(store, ada, NOW + 1) == 2 * NANO
    await refused(store, Conflict, making(ada, "second", at_ms=NOW + 1, budget_nano=3 * NANO))
    await store.write(lambda conn: apply(conn, [settle("long", 5 * NANO, **members)]))
    assert await left(store, ada, NOW + 1) == 5 * NANO


async def test_the_number_of_a_persons_keys_is_bounded_with_the_revoked_ones(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_keys, "MAX_KEYS_EVER", 2)
    await new_workspace(store, "one")
    ada = await member(store, "ada", "one")
    for _ in range(2):
        key = (await store.write(making(ada))).key
        await store.write(partial(revoke_key, key_id=key.id, actor="cli", at_ms=NOW))
    assert "ask an admin" in (await refused(store, Conflict, making(ada))).message


async def test_models_of_a_key_are_among_those_of_the_workspace(store: Store) -> None:
    await new_workspace(store, "one")
    ada = await member(store, "ada", "one")
    good: list[tuple[Any, Any, Any]] = [
        (None, None, None),
        (None, ("x",), ("x",)),
        (("gpt-*", "own"), None, ("gpt-*", "own")),
        (("gpt-*",), ("gpt-4o", "gpt-4*", "gpt-*"), ("gpt-4o", "gpt-4*", "gpt-*")),
        (("gpt-*",), (), ()),
        (("own",), ("own",), ("own",)),
    ]
    for number, (allowed, wanted, made) in enumerate(good):
        await allow(store, ada, models=allowed)
        assert (await store.write(making(ada, f"key {number}", models=wanted))).key.models == made
    bad: list[tuple[Any, Any]] = [
        (("own",), ("own*",)),
        (("gpt-*",), ("gpt*",)),
        (("gpt-*",), ("*",)),
        (("gpt-*",), ("gpt-4o", "claude")),
        ((), ("own",)),
    ]
    for allowed, wanted in bad:
        await allow(store, ada, models=allowed)
        assert (await refused(store, Invalid, making(ada, models=wanted))).param == "models"


async def test_names_of_others_are_neither_told_nor_reserved(store: Store) -> None:
    one = await new_workspace(store, "one")
    ada, eve = await member(store, "ada", "one"), await member(store, "eve", "one")
    await new_key(store, "ci", workspace_id=one.id)
    await store.write(making(eve, "laptop"))
    for name in ("ci", "laptop"):
        await store.write(making(ada, name))
        assert (await refused(store, Conflict, making(ada, name))).param == "name"


async def test_only_ones_own_key_is_revoked_and_a_page_goes_on_behind_ones_own_only(store: Store) -> None:
    one = await new_workspace(store, "one")
    ada, eve = await member(store, "ada", "one"), await member(store, "eve", "one")
    mine, others = (await store.write(making(ada))).key, (await store.write(making(eve, "theirs"))).key
    nobodys = (await new_key(store, "ci", workspace_id=one.id)).key
    said = set()
    for id in (others.id, nobodys.id, "key_none"):
        revoking = partial(revoke_own_key, id=id, workspace_id=one.id, person_id=ada.id, actor="x", at_ms=NOW)
        said.add((await refused(store, NotFound, revoking)).message.replace(id, "ID"))
        listing = partial(list_keys, workspace_id=one.id, person_id=ada.id, after=id)
        said.add((await refused(store, NotFound, listing)).message.replace(id, "ID"))
    assert len(said) == 1
    found = await store.read(partial(list_keys, workspace_id=one.id, person_id=ada.id))
    assert [each.id for each in found] == [mine.id]


async def test_keys_of_a_person_who_is_disabled_are_suspended(store: Store) -> None:
    await new_workspace(store, "one")
    ada = await member(store, "ada", "one")
    key = (await store.write(making(ada))).key
    version = (await store.read(lambda conn: changes_since(conn, 0))).version

    async def told(version: int) -> tuple[int, list[bool]]:
        found = await store.read(lambda conn: changes_since(conn, version))
        return found.version, [check(each.key, NOW / 1000) is not None for each in found.keys if each.key.id == key.id]

    for is_disabled in (True, False, True):
        change = PersonChange(disabled=is_disabled)
        await store.write(partial(people.change_person, id=ada.id, change=change, actor="cli", at_ms=NOW))
        version, states = await told(version)
        assert states == [is_disabled], "every process learns of it"
    rotated = await store.write(partial(rotate_key, key_id=key.id, grace_ms=0, actor="cli", at_ms=NOW))
    version, states = await told(version)
    assert states == [True], "a new secret does not help"
    await store.write(partial(people.remove_person, id=ada.id, actor="cli", at_ms=NOW))
    version, states = await told(version)
    assert states == [True]
    assert (await store.read(lambda conn: show_key(conn, rotated.key.id))).revoked_ms == NOW


async def test_a_key_that_is_given_later_says_since_when(store: Store) -> None:
    one = await new_workspace(store, "one")
    ada, eve = await member(store, "ada", "one"), await member(store, "eve", "one")
    key = (await new_key(store, workspace_id=one.id)).key

    async def give(person: str | None, at_ms: int) -> int | None:
        change = KeyChange(person_id=person)
        changed = await store.write(partial(change_key, key_id=key.id, change=change, actor="cli", at_ms=at_ms))
        return changed.person_since_ms

    assert await give(ada.id, NOW + 5) == NOW + 5
    assert await give(ada.id, NOW + 6) == NOW + 5, "nothing changes"
    assert await give(eve.id, NOW + 7) == NOW + 7
    assert await give(None, NOW + 8) is None


async def test_what_a_workspace_allows_is_checked_as_a_key_is(store: Store) -> None:
    one = await new_workspace(store, "one")
    ada = await member(store, "ada", "one")
    assert await store.read(lambda conn: show_member_keys(conn, one.id)) == MemberKeys()
    bad: list[tuple[dict[str, Any], str]] = [
        ({"max_keys": -1}, "max_keys"),
        ({"max_keys": 101}, "max_keys"),
        ({"models": ("a*b",)}, "models"),
        ({"budget_nano": -1}, "budget_nano"),
        ({"budget_period": "day"}, "budget_period"),
        ({"budget_nano": 1, "budget_period": "hour"}, "budget_period"),
        ({"rpm": 0}, "rpm"),
    ]
    for members, param in bad:
        change = MemberKeysChange(**members)
        changing = partial(change_member_keys, workspace_id=one.id, change=change, actor="cli", at_ms=NOW)
        assert (await refused(store, Invalid, changing)).param == param
    found = await allow(store, ada, max_keys=3, budget_nano=5, rpm=9)
    assert found == MemberKeys(max_keys=3, budget_nano=5, budget_period="total", rpm=9)
    assert await store.read(lambda conn: show_member_keys(conn, one.id)) == found
    assert await allow(store, ada, budget_nano=None) == MemberKeys(max_keys=3, rpm=9)
    missing = partial(change_member_keys, workspace_id="ws_x", change=MemberKeysChange(), actor="cli", at_ms=NOW)
    await refused(store, NotFound, missing)
