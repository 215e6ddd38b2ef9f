"""People of the identity provider in the store: who an account is here, and what it may not become."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from sqlalchemy import Connection, func, select

from streamweir.policy.permission import Role
from streamweir.store.db import tables
from streamweir.store.db.base import Store
from streamweir.store.db.errors import Conflict, Invalid, NotFound
from streamweir.store.keys import audit, people
from streamweir.store.keys.federated_people import Account, NotAdmitted, admit
from streamweir.store.keys.keys import show_key
from streamweir.store.keys.people import Person, PersonChange, PersonSpec
from streamweir.store.keys.sessions import SessionPerson, create_session, find_session
from support.key_store import NOW, new_key, new_workspace, refused
from support.stores import store_on

ISSUER, EMAIL = "https://idp.example", "ada@example.com"
ADA = Account(issuer=ISSUER, subject="1", name="Ada", email=EMAIL, role=None, workspace=None)
EVE = Account(issuer=ISSUER, subject="2", name="Eve", email=None, role=Role.VIEWER, workspace=None)


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with store_on(request.param, tmp_path) as opened:
        yield opened


async def enter(store: Store, account: Account, **changes: Any) -> Person | NotAdmitted:
    wanted = structs.replace(account, **changes)
    return await store.write(lambda conn: admit(conn, wanted, at_ms=NOW))


async def admitted(store: Store, account: Account, **changes: Any) -> Person:
    found = await enter(store, account, **changes)
    assert isinstance(found, Person), found
    return found


async def invited(store: Store, name: str = "Ada", role: Role = Role.OWNER, email: str | None = EMAIL) -> Person:
    spec = PersonSpec(name=name, role=role, email=email)
    return (await store.write(lambda conn: people.create_person(conn, spec, actor="cli", at_ms=NOW))).person


async def change(store: Store, person: Person, **wanted: Any) -> Person:
    return await store.write(changing(person, PersonChange(**wanted)))


def changing(person: Person, wanted: PersonChange) -> Callable[[Connection], Person]:
    return lambda conn: people.change_person(conn, person.id, wanted, actor="cli", at_ms=NOW)


async def actions(store: Store) -> list[str]:
    return [row.action for row in await store.read(audit.list_rows)]


async def test_an_invited_person_is_found_by_the_address_once_and_by_the_subject_from_then_on(store: Store) -> None:
    made = await invited(store, role=Role.OPERATOR, email="ADA@Example.com")
    assert made.email == EMAIL
    person = await admitted(store, ADA)
    assert (person.id, person.role) == (made.id, Role.OPERATOR)
    assert (person.is_federated, person.has_provider_role) == (True, False)
    assert person.invited_until_ms is None, "the invitation is used up"
    assert await actions(store) == ["person.link", "person.create"]
    again = await admitted(store, ADA, email="new@example.com", name="Countess", role=Role.VIEWER)
    assert again == person, "neither name nor address nor group counts any more"
    assert await enter(store, ADA, subject="other") is NotAdmitted.OTHER_ACCOUNT
    changed = await change(store, person, role=Role.VIEWER)
    assert changed.role == Role.VIEWER, "the role is given here"


async def test_without_a_verified_address_or_a_group_nobody_comes_in(store: Store) -> None:
    await invited(store)
    before = await actions(store)
    for account in (structs.replace(ADA, email=None), structs.replace(ADA, email="eve@example.com")):
        assert await enter(store, account) is NotAdmitted.UNINVITED
    assert await enter(store, ADA, email=f"x{EMAIL}") is NotAdmitted.UNINVITED
    assert await actions(store) == before


async def test_a_reset_forgets_the_account_and_takes_the_next_one_with_the_address(store: Store) -> None:
    await invited(store)
    person = await admitted(store, ADA)
    made = await store.write(lambda conn: people.invite_again(conn, person.id, actor="cli", at_ms=NOW))
    assert (made.person.is_federated, made.person.email) == (False, EMAIL)
    other = await admitted(store, ADA, subject="9")
    assert other.id == person.id
    assert await enter(store, ADA) is NotAdmitted.OTHER_ACCOUNT


async def test_another_issuer_takes_over_whom_it_knows_by_address(store: Store) -> None:
    await invited(store)
    person = await admitted(store, ADA)
    assert (await admitted(store, ADA, issuer="https://new.example")).id == person.id
    assert await enter(store, ADA, issuer="https://new.example", subject="5") is NotAdmitted.OTHER_ACCOUNT
    eve = await admitted(store, EVE)
    assert (await admitted(store, EVE, issuer="https://new.example", name="Eve 2")).id != eve.id


async def test_a_group_makes_a_person_and_says_its_role_with_each_login(store: Store) -> None:
    workspace = await new_workspace(store, "one")
    first = await admitted(store, EVE, role=Role.ADMIN, workspace="one")
    assert (first.is_federated, first.has_provider_role, first.has_password) == (True, True, False)
    assert first.workspace_id == workspace.id
    key = (await new_key(store, workspace_id=workspace.id, person_id=first.id)).key
    assert await admitted(store, EVE, name="Another", role=Role.ADMIN, workspace="one") == first
    second = await admitted(store, EVE)
    assert (second.id, second.role, second.workspace_id) == (first.id, Role.VIEWER, None)
    assert await store.read(lambda conn: show_key(conn, key.id).person_id) is None
    for wanted in (PersonChange(role=Role.OWNER), PersonChange(workspace="one")):
        await refused(store, Conflict, changing(first, wanted))
    await refused(store, Conflict, lambda conn: people.invite_again(conn, first.id, actor="cli", at_ms=NOW))
    nowhere = structs.replace(EVE, role=Role.ADMIN, workspace="x")
    await refused(store, NotFound, lambda conn: admit(conn, nowhere, at_ms=NOW))
    holder = SessionPerson(person_id=first.id, workspace_id=None)
    token = await store.write(lambda conn: create_session(conn, actor="x", at_ms=NOW, holder=holder))
    assert await enter(store, EVE, role=None) is NotAdmitted.NO_ROLE
    assert await store.read(lambda conn: find_session(conn, token, NOW)) is None
    assert (await actions(store))[0] == "person.shut_out"


async def test_who_is_disabled_does_not_come_in_and_who_is_removed_is_nobody(store: Store) -> None:
    await invited(store, "root", email=None)
    for name, account in (("Ada", ADA), ("Bea", structs.replace(EVE, email="bea@example.com"))):
        if name == "Ada":
            await invited(store)
        person = await admitted(store, account, name=name)
        await change(store, person, role=Role.OWNER) if not person.has_provider_role else None
        await change(store, await admitted(store, account), disabled=True) if name == "Bea" else None
    assert await enter(store, EVE) is NotAdmitted.DISABLED
    made = await invited(store, "Cid", Role.VIEWER, "cid@example.com")
    await change(store, made, disabled=True)
    cid = structs.replace(EVE, subject="3", email="cid@example.com")
    assert await enter(store, cid) is NotAdmitted.DISABLED, "an address does not bring a disabled person back"
    await store.write(lambda conn: people.remove_person(conn, made.id, actor="cli", at_ms=NOW))
    assert (await admitted(store, cid, name="Cid")).name == "cid@example.com", "the old name is used"


async def test_an_account_cannot_take_the_name_of_another(store: Store) -> None:
    await invited(store, "Root", email=None)
    found = [
        await admitted(store, EVE, subject="a", name="ROOT", email="r@example.com"),
        await admitted(store, EVE, subject="b", name="\uff32oot"),
        await admitted(store, EVE, subject="c", name=" \n\0\u202e x" * 60),
        await admitted(store, EVE, subject="d", name=""),
    ]
    assert [each.name for each in found[:2]] == ["r@example.com", "\uff32oot b"]
    assert all(each.name.isprintable() and len(each.name) <= 64 for each in found)
    assert found[3].name == "d"
    assert await enter(store, EVE, subject="e", name="d") == await admitted(store, EVE, subject="e", name="d")
    assert await enter(store, EVE, subject="", name="Root") is NotAdmitted.NAME_TAKEN
    assert len({each.id for each in found}) == 4


async def test_two_logins_at_once_make_one_person(store: Store) -> None:
    import asyncio

    found = await asyncio.gather(*(enter(store, EVE) for _ in range(4)))
    assert len({each.id for each in found if isinstance(each, Person)}) == 1
    count = select(func.count()).select_from(tables.people)
    assert await store.read(lambda conn: conn.execute(count).scalar_one()) == 1


async def test_an_address_belongs_to_one_person_and_is_written_in_ascii(store: Store) -> None:
    ada = await invited(store)
    eve = await invited(store, "Eve", email=None)
    for wrong in (
        "",
        "x",
        "@example.com",
        "a@",
        "a b@example.com",
        "a@b@c.example",
        "\u212aim@example.com",
        "a@" + "x" * 260,
    ):
        with pytest.raises(Invalid, match="e-mail"):
            await change(store, eve, email=wrong)
    with pytest.raises(Conflict, match="already exists"):
        await change(store, eve, email="ADA@example.com")
    assert (await change(store, ada, email=EMAIL)).email == EMAIL
    assert (await change(store, ada, email=None)).email is None
    assert (await change(store, eve, email=EMAIL)).email == EMAIL
    assert await enter(store, ADA, subject="k", email="\u212aim@example.com") is NotAdmitted.UNINVITED
