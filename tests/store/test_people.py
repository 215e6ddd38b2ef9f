"""People in the store: invited, changed, removed, and what ends with each change."""

from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select

from streamweir.policy.login_limit import PER_NAME, PER_NAME_AND_ADDRESS, WINDOW_MS
from streamweir.policy.permission import Role
from streamweir.policy.secret import INVITATION, is_well_formed
from streamweir.store.db import tables
from streamweir.store.db.base import Store
from streamweir.store.db.errors import Conflict, Invalid, NotFound
from streamweir.store.keys import audit, people
from streamweir.store.keys.keys import change_key, list_keys, show_key
from streamweir.store.keys.logins import begin_attempt, forget_attempts
from streamweir.store.keys.people import INVITED_MS, Invitation, Person, PersonChange, PersonSpec
from streamweir.store.keys.sessions import (
    IDLE_MS,
    LIFETIME_MS,
    Client,
    SessionPerson,
    create_session,
    end_session_of_id,
    find_session,
    list_sessions,
    touch_session,
)
from streamweir.store.keys.spec import KeyChange
from support.key_store import NOW, dump, new_key, new_workspace, refused
from support.stores import store_on

HASH, OTHER = "$argon2id$one", "$argon2id$two"


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with store_on(request.param, tmp_path) as opened:
        yield opened


def by_cli(function: Callable[..., Any], *given: Any, **more: Any) -> Callable[[Connection], Any]:
    """The function of the store with these arguments, for a transaction."""
    return partial(_called, function, given, {"actor": "cli", "at_ms": NOW, **more})


def _called(function: Callable[..., Any], given: Any, more: Any, conn: Connection) -> Any:
    return function(conn, *given, **more)


async def invited(store: Store, name: str, role: Role = Role.OWNER, workspace: str | None = None) -> Invitation:
    spec = PersonSpec(name=name, role=role, workspace=workspace)
    return await store.write(lambda conn: people.create_person(conn, spec, actor="cli", at_ms=NOW))


async def joined(store: Store, name: str, role: Role = Role.OWNER, workspace: str | None = None) -> Person:
    made = await invited(store, name, role, workspace)
    person = await store.write(lambda conn: people.accept_invitation(conn, made.token, HASH, NOW))
    assert person is not None
    return person


async def opened(store: Store, person: Person, at_ms: int = NOW, address: str = "192.0.2.1") -> str:
    holder = SessionPerson(person_id=person.id, workspace_id=person.workspace_id)
    client = Client(address=address, browser="Mozilla/5.0")
    return await store.write(
        lambda conn: create_session(conn, actor=person.actor, at_ms=at_ms, holder=holder, client=client)
    )


async def is_open(store: Store, token: str, at_ms: int = NOW) -> bool:
    return await store.read(lambda conn: find_session(conn, token, at_ms)) is not None


async def change(store: Store, person: Person, **wanted: object) -> Person:
    changes = PersonChange(**wanted)  # type: ignore[arg-type]
    return await store.write(lambda conn: people.change_person(conn, person.id, changes, actor="cli", at_ms=NOW))


async def test_an_invitation_is_good_for_one_password(store: Store) -> None:
    made = await invited(store, "Ada")
    assert is_well_formed(made.token, INVITATION)
    assert made.token not in repr(made)
    assert made.token.encode() not in repr(await dump(store)).encode()
    assert (made.person.has_password, made.person.invited_until_ms) == (False, NOW + INVITED_MS)

    async def accepted(token: str, at_ms: int = NOW) -> Person | None:
        return await store.write(lambda conn: people.accept_invitation(conn, token, HASH, at_ms))

    for wrong in ("", made.token[:-1], made.token + "x", made.person.id):
        assert await accepted(wrong) is None
    assert await accepted(made.token, NOW + INVITED_MS) is None, "it has expired"
    person = await accepted(made.token, NOW + INVITED_MS - 1)
    assert person is not None
    assert person.has_password
    assert await accepted(made.token) is None, "it was used"
    found = await store.read(lambda conn: people.find_credentials(conn, " ADA".strip()))
    assert found is not None
    assert found.password == HASH
    assert HASH not in repr(found)
    assert [row.action for row in await store.read(audit.list_rows)] == ["person.accept", "person.create"]


async def test_names_that_look_the_same_are_the_same_and_are_never_used_again(store: Store) -> None:
    await joined(store, "root")
    person = await joined(store, "Ada")
    for name in ("ada", "ADA", "\uff21da"):
        with pytest.raises(Conflict, match="already exists"):
            await invited(store, name)
    await store.write(by_cli(people.remove_person, person.id))
    with pytest.raises(Conflict, match="was removed"):
        await invited(store, "ada")
    assert await store.read(lambda conn: people.find_credentials(conn, "ada")) is None
    for name in ("", "x" * 65, " x", "a\nb", "a\u202eb"):
        with pytest.raises(Invalid):
            await invited(store, name)


@pytest.mark.parametrize(
    ("role", "workspace", "reason"),
    [
        (Role.OWNER, "default", "is for all workspaces"),
        (Role.VIEWER, "default", "is for all workspaces"),
        (Role.ADMIN, None, "needs a workspace"),
        (Role.MEMBER, None, "needs a workspace"),
        (Role.KEY, "default", "a person's role is one of"),
    ],
)
async def test_a_role_and_its_workspace_go_together(
    store: Store, role: Role, workspace: str | None, reason: str
) -> None:
    await new_key(store)  # and the workspace `default`
    spec = PersonSpec(name="x", role=role, workspace=workspace)
    found = await refused(store, Invalid, by_cli(people.create_person, spec))
    assert reason in found.message
    nowhere = PersonSpec(name="x", role=Role.MEMBER, workspace="nowhere")
    await refused(store, NotFound, by_cli(people.create_person, nowhere))


async def test_the_last_owner_who_can_log_in_stays(store: Store) -> None:
    ada = await joined(store, "ada")
    await invited(store, "not yet")  # an owner who has no password is no way in
    operator = await joined(store, "op", Role.OPERATOR)
    for wanted in (PersonChange(role=Role.VIEWER), PersonChange(disabled=True)):
        await refused(store, Conflict, by_cli(people.change_person, ada.id, wanted))
    await refused(store, Conflict, by_cli(people.remove_person, ada.id))
    bob = await joined(store, "bob")
    await change(store, bob, disabled=True)
    await refused(store, Conflict, by_cli(people.remove_person, ada.id))
    await change(store, bob, disabled=False)
    await store.write(by_cli(people.remove_person, ada.id))
    await refused(store, Conflict, by_cli(people.remove_person, bob.id))
    await store.write(by_cli(people.remove_person, operator.id))


async def test_what_ends_the_sessions_of_a_person(store: Store) -> None:
    await joined(store, "root")

    async def disable(person: Person) -> None:
        await change(store, person, disabled=True)

    async def remove(person: Person) -> None:
        await store.write(by_cli(people.remove_person, person.id))

    async def reset(person: Person) -> None:
        await store.write(by_cli(people.invite_again, person.id))

    async def new_password(person: Person) -> None:
        assert await store.write(lambda conn: people.change_password(conn, person.id, HASH, OTHER, NOW))

    other = await opened(store, await joined(store, "other"))
    for number, end in enumerate((disable, remove, reset, new_password)):
        person = await joined(store, f"person {number}")
        tokens = [await opened(store, person) for _ in range(2)]
        await end(person)
        assert [await is_open(store, token) for token in tokens] == [False, False], end
    assert await is_open(store, other)
    person = await joined(store, "lowered")
    token = await opened(store, person)
    await change(store, person, role=Role.VIEWER)
    assert await is_open(store, token), "it has the new role from now on"
    assert (await store.read(lambda conn: people.find_active(conn, person.id))).role is Role.VIEWER  # type: ignore[union-attr]


async def test_a_password_is_changed_only_by_who_has_the_old_one(store: Store) -> None:
    person = await joined(store, "ada")
    assert not await store.write(lambda conn: people.change_password(conn, person.id, OTHER, OTHER, NOW))
    assert await store.write(lambda conn: people.change_password(conn, person.id, HASH, OTHER, NOW))
    assert not await store.write(lambda conn: people.change_password(conn, person.id, HASH, "x", NOW)), "no second time"
    assert HASH not in repr(await store.read(audit.list_rows))


async def test_who_is_disabled_removed_or_reset_has_no_way_in(store: Store) -> None:
    await joined(store, "root")
    made = await invited(store, "ada")
    await change(store, made.person, disabled=True)
    assert await store.write(lambda conn: people.accept_invitation(conn, made.token, HASH, NOW)) is None
    await change(store, made.person, disabled=False)
    again = await store.write(by_cli(people.invite_again, made.person.id))
    assert await store.write(lambda conn: people.accept_invitation(conn, made.token, HASH, NOW)) is None, "replaced"
    assert await store.write(lambda conn: people.accept_invitation(conn, again.token, HASH, NOW)) is not None
    await store.write(by_cli(people.remove_person, made.person.id))
    assert await store.read(lambda conn: people.find_active(conn, made.person.id)) is None
    for work in (people.invite_again, people.remove_person):
        await refused(store, NotFound, by_cli(work, made.person.id))


async def test_a_key_belongs_to_somebody_of_its_workspace(store: Store) -> None:
    await joined(store, "root")
    one, two = await new_workspace(store, "one"), await new_workspace(store, "two")
    ada = await joined(store, "ada", Role.MEMBER, "one")
    eve = await joined(store, "eve", Role.MEMBER, "two")
    key = (await new_key(store, workspace_id=one.id, person_id=ada.id)).key
    assert await store.read(lambda conn: [each.id for each in list_keys(conn, person_id=ada.id)]) == [key.id]

    def give(conn: Connection, person: str) -> None:
        change_key(conn, key.id, KeyChange(person_id=person), actor="cli", at_ms=NOW)

    for person in (eve.id, "psn_nobody", ada.name):
        found = await refused(store, Invalid, partial(give, person=person))
        assert found.param == "person_id"
    second = (await new_key(store, "second", workspace_id=one.id, person_id=ada.id)).key
    await change(store, ada, workspace=two.id)
    left = await store.read(lambda conn: show_key(conn, key.id))
    assert (left.person_id, left.revoked_ms) == (None, NOW), "who leaves takes no key along"
    third = (await new_key(store, "third", workspace_id=two.id, person_id=eve.id)).key
    fourth = (await new_key(store, "fourth", workspace_id=two.id)).key
    await store.write(by_cli(people.remove_person, eve.id))
    states = await store.read(lambda conn: {each.id: each.revoked_ms is not None for each in list_keys(conn)})
    assert states == {key.id: True, second.id: True, third.id: True, fourth.id: False}
    bob = await joined(store, "bob", Role.MEMBER, "two")
    await store.write(lambda conn: change_key(conn, fourth.id, KeyChange(person_id=bob.id), actor="cli", at_ms=NOW + 1))
    await store.write(by_cli(people.remove_person, bob.id, revoke_keys=False))
    kept = await store.read(lambda conn: show_key(conn, fourth.id))
    assert (kept.person_id, kept.person_since_ms, kept.revoked_ms) == (None, None, None)


async def test_within_a_workspace_nobody_else_is_found(store: Store) -> None:
    one, two = await new_workspace(store, "one"), await new_workspace(store, "two")
    ada = await joined(store, "ada", Role.MEMBER, "one")
    await joined(store, "eve", Role.MEMBER, "two")
    owner = await joined(store, "root")
    assert [each.name for each in await store.read(lambda conn: people.list_people(conn, one.id))] == ["ada"]
    for id in (ada.id, owner.id):
        await refused(store, NotFound, partial(people.show_person, id=id, workspace_id=two.id))
        await refused(store, NotFound, by_cli(people.remove_person, id, workspace_id=two.id))
    first, second, third = await store.read(people.list_people)
    assert await store.read(lambda conn: people.list_people(conn, after=first.id, limit=1)) == [second]
    assert await store.read(lambda conn: people.list_people(conn, after=second.id)) == [third]


async def test_a_session_ends_after_idle_hours_and_after_a_week_in_any_case(store: Store) -> None:
    person = await joined(store, "ada")
    token = await opened(store, person)
    at_ms = NOW
    while at_ms + IDLE_MS - 1 < NOW + LIFETIME_MS:
        at_ms += IDLE_MS - 1
        found = await store.read(partial(find_session, token=token, at_ms=at_ms))
        assert found is not None
        await store.write(partial(touch_session, digest=found.digest, at_ms=at_ms))
    assert await is_open(store, token, NOW + LIFETIME_MS - 1)
    assert not await is_open(store, token, NOW + LIFETIME_MS)
    assert await store.read(lambda conn: list_sessions(conn, NOW + LIFETIME_MS)) == []
    await opened(store, person, NOW + LIFETIME_MS)
    rows = await store.read(lambda conn: conn.execute(select(tables.sessions.c.created_ms)).scalars().all())
    assert rows == [NOW + LIFETIME_MS], "what is over is removed"


async def test_sessions_are_listed_and_ended_one_by_one(store: Store) -> None:
    ada, bob = await joined(store, "ada"), await joined(store, "bob")
    first = await opened(store, ada)
    second = await opened(store, ada, NOW + 1, "2001:db8::1")
    others = await opened(store, bob)
    listed = await store.read(lambda conn: list_sessions(conn, NOW + 1, person_id=ada.id))
    assert [(each.address, each.browser) for each in listed] == [
        ("2001:db8::1", "Mozilla/5.0"),
        ("192.0.2.1", "Mozilla/5.0"),
    ]
    assert first not in repr(listed)
    of_bob = (await store.read(lambda conn: list_sessions(conn, NOW, person_id=bob.id)))[0].id
    end = partial(end_session_of_id, actor=ada.actor, at_ms=NOW)
    await refused(store, NotFound, lambda conn: end(conn, of_bob, person_id=ada.id))
    await refused(store, NotFound, lambda conn: end(conn, listed[0].id[:-1]))
    await store.write(lambda conn: end(conn, listed[0].id, person_id=ada.id))
    assert [await is_open(store, token) for token in (first, second, others)] == [True, False, True]
    row = (await store.read(audit.list_rows))[0]
    assert (row.actor, row.action, row.object) == ("person:ada", "session.end", listed[0].id)


async def test_what_a_browser_says_is_kept_short_and_plain(store: Store) -> None:
    person = await joined(store, "ada")
    holder, client = SessionPerson(person_id=person.id, workspace_id=None), Client(browser="x\x00\ud800" * 1000)
    await store.write(lambda conn: create_session(conn, actor="a", at_ms=NOW, holder=holder, client=client))
    (session,) = await store.read(lambda conn: list_sessions(conn, NOW, person_id=person.id))
    assert session.browser is not None
    assert len(session.browser) == 200


async def test_attempts_are_counted_for_names_that_nobody_has_as_for_others(store: Store) -> None:
    await joined(store, "ada")
    for name in ("ada", "nobody"):
        waits = [
            await store.write(partial(begin_attempt, name=name, address="192.0.2.1", at_ms=NOW))
            for _ in range(PER_NAME_AND_ADDRESS + 1)
        ]
        assert waits == [*[0] * PER_NAME_AND_ADDRESS, WINDOW_MS]
    kept = repr(await dump(store))
    assert "nobody" not in kept, "a password may be typed there"
    await store.write(lambda conn: forget_attempts(conn, "ADA", "192.0.2.1"))
    assert await store.write(lambda conn: begin_attempt(conn, "ada", "192.0.2.1", NOW)) == 0
    assert await store.write(lambda conn: begin_attempt(conn, "nobody", "192.0.2.1", NOW)) > 0
    assert await store.write(lambda conn: begin_attempt(conn, "nobody", "192.0.2.1", NOW + WINDOW_MS)) == 0
    rows = await store.read(lambda conn: conn.execute(select(tables.login_attempts.c.at_ms)).scalars().all())
    assert rows == [NOW + WINDOW_MS], "what does not count any more is removed"


async def test_nobody_locks_a_person_out_where_it_works(store: Store) -> None:
    person = await joined(store, "ada")
    await opened(store, person, address="192.0.2.1")
    for number in range(PER_NAME):
        assert await store.write(partial(begin_attempt, name="ada", address=f"198.51.100.{number}", at_ms=NOW)) == 0
    assert await store.write(lambda conn: begin_attempt(conn, "ada", "198.51.100.200", NOW)) == WINDOW_MS
    assert await store.write(lambda conn: begin_attempt(conn, "ada", "192.0.2.1", NOW)) == 0
