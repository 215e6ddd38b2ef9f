"""Workspaces and keys in the store: made, found, changed, rotated and revoked, on both databases."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import Connection

from streamweir.policy.access import digest_of
from streamweir.policy.secret import is_well_formed
from streamweir.store.db.errors import Conflict, Invalid, NotFound
from streamweir.store.keys import audit
from streamweir.store.keys.keys import NewSecret, change_key, create_key, find_key, list_keys, revoke_key, rotate_key
from streamweir.store.keys.spec import KeyChange, KeySpec
from streamweir.store.keys.workspaces import (
    Workspace,
    WorkspaceChange,
    WorkspaceSpec,
    change_workspace,
    create_workspace,
    find_workspace,
    list_workspaces,
    open_default_workspace,
)
from support.key_store import HOUR, NOW, changes, dump, new_key, new_workspace, objected, refused
from support.stores import each_database, store_on
from support.untrusted_texts import FOREIGN


@each_database
async def test_the_default_workspace_is_made_once(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        for _ in range(2):
            await store.write(lambda conn: open_default_workspace(conn, NOW))
        (only,) = await store.read(list_workspaces)
        assert only == Workspace(id="default", name="default", prepaid=False, created_ms=NOW)


@each_database
async def test_a_workspace_is_found_by_name_or_id_and_changed(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        await store.write(lambda conn: open_default_workspace(conn, NOW))
        team = await new_workspace(store, "team")
        for asked in ("team", team.id):
            assert await store.read(partial(find_workspace, name_or_id=asked)) == team
        change = WorkspaceChange(name="crew", prepaid=True)
        crew = await store.write(lambda conn: change_workspace(conn, team.id, change, actor="admin", at_ms=NOW))
        assert crew == Workspace(id=team.id, name="crew", prepaid=True, created_ms=NOW)
        assert await store.read(lambda conn: find_workspace(conn, "crew")) == crew
        assert [each.name for each in await store.read(list_workspaces)] == ["crew", "default"]

        def rename(name: str) -> Callable[[Connection], object]:
            wanted = WorkspaceChange(name=name)
            return lambda conn: change_workspace(conn, team.id, wanted, actor="admin", at_ms=NOW)

        await refused(store, NotFound, lambda conn: find_workspace(conn, "team"))
        await refused(store, Conflict, rename("default"))
        await refused(store, Invalid, rename(" x"))
        spec = WorkspaceSpec(name=team.id)
        await refused(store, Conflict, lambda conn: create_workspace(conn, spec, actor="admin", at_ms=NOW))


@each_database
async def test_a_key_is_made_and_its_secret_kept_nowhere(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        new = await new_key(
            store,
            scopes=("admin", "chat", "chat"),
            models=("gpt-*", "gpt-*", "sim/hello"),
            dialect="aivene",
            rpm=60,
            tpm=1000,
            max_streams=3,
            budget_nano=5 * 10**9,
            budget_period="month",
            expires_ms=NOW + HOUR,
            log_content=True,
            show_routing=True,
            show_cost=True,
            resumable=True,
        )
        assert is_well_formed(new.secret)
        assert new.secret not in repr(new)
        assert new.key == await store.read(lambda conn: find_key(conn, "ci"))
        assert new.key.last4 == new.secret[-4:]
        assert new.key.scopes == ("chat", "admin"), "in one order, each once"
        assert new.key.models == ("gpt-*", "sim/hello")
        (state,) = (await changes(store)).keys
        assert state.digests == {digest_of(new.secret): None}
        key = state.key
        assert (key.id, key.name, key.workspace_id, key.dialect) == (new.key.id, "ci", "default", "aivene")
        assert (key.rpm, key.tpm, key.max_streams, key.log_content) == (60, 1000, 3, True)
        assert key.show_routing
        assert key.show_cost
        assert key.resumable
        assert (key.budget_nano, key.budget_period) == (5 * 10**9, "month")
        assert (key.expires_at, key.revoked_at) == ((NOW + HOUR) / 1000, None)

        rotated = await store.write(lambda conn: rotate_key(conn, new.key.id, grace_ms=HOUR, actor="admin", at_ms=NOW))
        rows = repr(await dump(store))
        files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        for secret in (new.secret, rotated.secret):
            random_part = secret[6:-6]
            assert random_part not in rows
            assert random_part.encode() not in files


UNUSABLE: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "name"),
    ({"name": "x" * 65}, "name"),
    ({"name": " x"}, "name"),
    ({"name": "a\x00b"}, "name"),
    ({"name": "a\ud800"}, "name"),
    ({"name": "a\u202eb"}, "name"),
    ({"scopes": ()}, "scopes"),
    ({"scopes": ("chat", "root")}, "scopes"),
    ({"models": ("",)}, "models"),
    ({"models": ("a*b",)}, "models"),
    ({"models": ("**",)}, "models"),
    ({"models": ("a\nb",)}, "models"),
    ({"models": ("x" * 257,)}, "models"),
    ({"models": tuple(f"m{number}" for number in range(1001))}, "models"),
    ({"dialect": "openia"}, "dialect"),
    ({"dialect": "\x00" * 100}, "dialect"),
    ({"rpm": 0}, "rpm"),
    ({"rpm": -1}, "rpm"),
    ({"rpm": 10**30}, "rpm"),
    ({"tpm": 0}, "tpm"),
    ({"max_streams": 0}, "max_streams"),
    ({"max_streams": 10**7}, "max_streams"),
    ({"budget_nano": -1}, "budget_nano"),
    ({"budget_nano": 2**63}, "budget_nano"),
    ({"budget_period": "day"}, "budget_period"),
    ({"budget_nano": 1, "budget_period": "year"}, "budget_period"),
    ({"expires_ms": NOW}, "expires_ms"),
    ({"expires_ms": 10**15}, "expires_ms"),
]


async def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    async with store_on("sqlite", tmp_path) as store:
        id = (await new_key(store)).key.id
        before = await dump(store)
        for members, param in UNUSABLE:
            spec, change = KeySpec(**{"name": "other", **members}), KeyChange(**members)
            create = partial(create_key, workspace_id="default", spec=spec, actor="admin", at_ms=NOW)
            made = await objected(store, Invalid, create)
            changed = await objected(
                store, Invalid, partial(change_key, key_id=id, change=change, actor="a", at_ms=NOW)
            )
            assert made.param == changed.param == param, members
            assert made.message == changed.message
        assert await dump(store) == before


def test_neither_an_id_nor_a_workspace_nor_a_secret_can_be_chosen() -> None:
    for member in ("id", "workspace_id", "digest", "secret", "origin", "version", "revoked_ms"):
        for model in (KeySpec, KeyChange):
            with pytest.raises(msgspec.ValidationError, match="unknown field"):
                msgspec.json.decode(msgspec.json.encode({"name": "x", member: "y"}), type=model)


CHANGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"name": "new"}, {"name": "new"}),
    ({"scopes": ("models",)}, {"scopes": ("models",)}),
    ({"models": None}, {"models": None}),
    ({"models": ()}, {"models": ()}),
    ({"dialect": None}, {"dialect": None}),
    ({"rpm": None}, {"rpm": None}),
    ({"tpm": 5, "max_streams": 6}, {"tpm": 5, "max_streams": 6}),
    ({"budget_nano": None}, {"budget_nano": None, "budget_period": None}),
    ({"budget_nano": 7}, {"budget_nano": 7, "budget_period": "week"}),
    ({"budget_period": "day"}, {"budget_period": "day"}),
    ({"budget_period": None}, {"budget_period": "total"}),
    ({"log_content": True}, {"log_content": True}),
    ({"show_routing": True}, {"show_routing": True}),
    ({"price_group": "resale"}, {"price_group": "resale"}),
    ({"show_cost": True}, {"show_cost": True}),
    ({"resumable": True}, {"resumable": True}),
    ({"expires_ms": None}, {"expires_ms": None}),
    ({"expires_ms": NOW + 2}, {"expires_ms": NOW + 2}),
    ({"rpm": 60}, {}),
]


@each_database
async def test_a_change_changes_what_it_names_and_nothing_else(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        for number, (asked, expected) in enumerate(CHANGES):
            new = await new_key(
                store,
                f"key-{number}",
                models=("gpt-*",),
                dialect="openai",
                rpm=60,
                budget_nano=10**9,
                budget_period="week",
                expires_ms=NOW + 1,
            )
            before = await changes(store)
            change, id = KeyChange(**asked), new.key.id
            changed = await store.write(partial(change_key, key_id=id, change=change, actor="admin", at_ms=NOW))
            assert changed == msgspec.structs.replace(new.key, **expected)
            after = await changes(store, before.version)
            assert [state.key.id for state in after.keys] == ([id] if expected else []), "told, where it is one"


@each_database
async def test_an_expiry_that_is_over_stands_until_it_is_changed(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        new = await new_key(store, expires_ms=NOW + 1)
        change = KeyChange(rpm=5)
        later = await store.write(lambda conn: change_key(conn, new.key.id, change, actor="admin", at_ms=NOW + HOUR))
        assert (later.rpm, later.expires_ms) == (5, NOW + 1)


@each_database
async def test_rotation_lets_the_old_secret_last_for_its_grace(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        first = await new_key(store)
        id = first.key.id

        def rotate(grace_ms: int, at_ms: int) -> Callable[[Connection], NewSecret]:
            return lambda conn: rotate_key(conn, id, grace_ms=grace_ms, actor="admin", at_ms=at_ms)

        second = await store.write(rotate(HOUR, NOW))
        assert second.key.old_until_ms == NOW + HOUR
        (state,) = (await changes(store)).keys
        assert state.digests == {digest_of(second.secret): None, digest_of(first.secret): (NOW + HOUR) / 1000}
        third = await store.write(rotate(HOUR, NOW + 1))
        (state,) = (await changes(store)).keys
        assert digest_of(first.secret) not in state.digests, "no more than one before"
        fourth = await store.write(rotate(0, NOW + 2))
        (state,) = (await changes(store)).keys
        assert state.digests == {digest_of(fourth.secret): None}
        assert fourth.key.old_until_ms is None
        assert len({first.secret, second.secret, third.secret, fourth.secret}) == 4
        await refused(store, Invalid, rotate(-1, NOW))
        await refused(store, Invalid, rotate(10**12, NOW))


@each_database
async def test_a_revoked_key_stays_revoked_and_is_listed(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        new = await new_key(store)
        id, version = new.key.id, (await changes(store)).version
        for at_ms in (NOW, NOW + 5):
            revoked = await store.write(partial(revoke_key, key_id=id, actor="admin", at_ms=at_ms))
            assert revoked.revoked_ms == NOW
        (state,) = (await changes(store, version)).keys
        assert (state.key.id, state.key.revoked_at) == (id, NOW / 1000)
        assert digest_of(new.secret) in state.digests, "so that the caller is told why"
        change = KeyChange(rpm=1)
        await refused(store, Conflict, lambda conn: change_key(conn, id, change, actor="admin", at_ms=NOW))
        await refused(store, Conflict, lambda conn: rotate_key(conn, id, grace_ms=0, actor="admin", at_ms=NOW))
        assert await store.read(lambda conn: list_keys(conn, revoked=False)) == []
        again = await new_key(store)
        assert await store.read(lambda conn: find_key(conn, "ci")) == again.key, "the name is free again"
        assert await store.read(lambda conn: find_key(conn, id)) == revoked


@each_database
async def test_names_are_unique_in_a_workspace_and_keys_out_of_reach_are_not_there(
    database: str, tmp_path: Path
) -> None:
    async with store_on(database, tmp_path) as store:
        ours, team = await new_key(store), await new_workspace(store, "team")
        theirs = await new_key(store, "ci", team.id)
        spec, id = KeySpec(name="ci"), ours.key.id
        await refused(store, Conflict, lambda conn: create_key(conn, "default", spec, actor="admin", at_ms=NOW))
        other = await new_key(store, "other")
        rename = KeyChange(name="ci")
        await refused(store, Conflict, lambda conn: change_key(conn, other.key.id, rename, actor="a", at_ms=NOW))
        ambiguous = await refused(store, Conflict, lambda conn: find_key(conn, "ci"))
        assert id in ambiguous.message
        assert theirs.key.id in ambiguous.message
        assert await store.read(lambda conn: find_key(conn, "ci", team.id)) == theirs.key
        assert await store.read(lambda conn: list_keys(conn, team.id)) == [theirs.key]
        for work in (
            lambda conn: find_key(conn, id, team.id),
            lambda conn: change_key(conn, id, KeyChange(rpm=1), workspace_id=team.id, actor="a", at_ms=NOW),
            lambda conn: revoke_key(conn, id, workspace_id=team.id, actor="a", at_ms=NOW),
            lambda conn: rotate_key(conn, id, grace_ms=0, workspace_id=team.id, actor="a", at_ms=NOW),
        ):
            assert "there is no key" in (await refused(store, NotFound, work)).message
        await refused(store, NotFound, lambda conn: create_key(conn, "nowhere", spec, actor="a", at_ms=NOW))


@each_database
async def test_foreign_text_finds_nothing_and_breaks_nothing(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        id = (await new_key(store, "known")).key.id
        for text in FOREIGN:
            await objected(store, NotFound, partial(find_key, name_or_id=text))
            await objected(store, NotFound, partial(find_workspace, name_or_id=text))
            await objected(store, NotFound, partial(revoke_key, key_id=text, actor="admin", at_ms=NOW))
            spec = KeySpec(name=text, models=(text or "x",))
            create = partial(create_key, workspace_id="default", spec=spec, actor=text, at_ms=NOW)
            rename = partial(change_key, key_id=id, change=KeyChange(name=text), actor=text, at_ms=NOW)
            if not 1 <= len(text) <= 64 or not text.isprintable() or text != text.strip():
                for work in (create, rename):
                    assert (await objected(store, Invalid, work)).param == "name"
                continue
            made = await store.write(create)
            assert await store.read(partial(find_key, name_or_id=text)) == made.key
            assert (made.key.name, made.key.models) == (text, (text,))
            await store.write(partial(revoke_key, key_id=made.key.id, actor=text, at_ms=NOW))
            assert (await store.write(rename)).name == text
            back = KeyChange(name="known")
            await store.write(partial(change_key, key_id=id, change=back, actor="admin", at_ms=NOW))
        assert await store.read(audit.verify) is None
