"""The keys of the operator's file as rows: they follow the file, and cannot be changed otherwise."""

from functools import partial
from pathlib import Path

from streamweir.policy.access import Key, digest_of
from streamweir.store.db.base import Store
from streamweir.store.db.errors import Conflict
from streamweir.store.keys import audit
from streamweir.store.keys.file_keys import put_file_keys
from streamweir.store.keys.keys import change_key, create_key, find_key, list_keys, revoke_key, rotate_key
from streamweir.store.keys.spec import KeyChange, KeySpec
from streamweir.store.keys.workspaces import find_workspace
from support.key_store import NOW, changes, dump, new_key, refused
from support.stores import each_database, store_on


def key(name: str, secret: str = "", **more: object) -> Key:
    members = {"name": name, "digest": digest_of(secret or f"secret of {name}"), "last4": "abcd", **more}
    return Key(**members)  # type: ignore[arg-type]


async def put(store: Store, *keys: Key, at_ms: int = NOW) -> list[Key]:
    return await store.write(partial(put_file_keys, file_keys=keys, at_ms=at_ms))


async def states(store: Store) -> dict[str, bool]:
    """Whether each is in force."""
    return {each.name: each.revoked_ms is None for each in await store.read(list_keys)}


@each_database
async def test_they_get_ids_and_workspaces(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        full = key(
            "ci", workspace_id="team", rpm=5, models=("gpt-*",), budget_nano=9, budget_period="day", expires_at=2e9
        )
        ci, plain = await put(store, full, key("plain", scopes=frozenset({"admin"})))
        team = await store.read(partial(find_workspace, name_or_id="team"))
        assert (ci.id, ci.workspace_id) == ("file:ci", team.id)
        assert (plain.id, plain.workspace_id) == ("file:plain", "default")
        row = await store.read(partial(find_key, name_or_id="ci"))
        assert (row.id, row.origin, row.workspace_id) == ("file:ci", "file", team.id)
        assert (row.rpm, row.models, row.budget_nano, row.budget_period) == (5, ("gpt-*",), 9, "day")
        assert (row.expires_ms, row.last4) == (2_000_000_000_000, "abcd")
        known = await changes(store)
        assert known.keys == (), "a process goes by its own file"
        assert {each.name for each in known.workspaces} == {"default", "team"}


@each_database
async def test_what_did_not_change_is_not_written(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        keys = [
            key("a", rpm=5),
            key(
                "b",
                workspace_id="team",
                models=("x", "y*"),
                log_content=True,
                show_routing=True,
                show_cost=True,
                resumable=True,
            ),
        ]
        await put(store, *keys)
        before = await dump(store)
        assert [each.id for each in await put(store, *keys, at_ms=NOW + 5)] == ["file:a", "file:b"]
        assert [each.id for each in await put(store, *reversed(keys), at_ms=NOW + 5)] == ["file:b", "file:a"]
        assert await dump(store) == before


@each_database
async def test_the_rows_follow_the_file(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        await put(store, key("a"), key("b"))
        await put(store, key("b", rpm=7), at_ms=NOW + 1)
        assert await states(store) == {"a": False, "b": True}
        assert (await store.read(partial(find_key, name_or_id="b"))).rpm == 7
        await put(store, key("a", workspace_id="team", budget_nano=1), key("b", rpm=7))
        assert await states(store) == {"a": True, "b": True}
        await put(store)
        assert await states(store) == {"a": False, "b": False}
        actions = [row.action for row in await store.read(audit.list_rows)]
        assert actions.count("key.create") == 2
        assert actions.count("key.revoke") == 3
        assert await store.read(audit.verify) is None


@each_database
async def test_a_secret_may_move_from_entry_to_entry(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        await put(store, key("a", "one"), key("b", "two"))
        await put(store, key("a", "two"), key("b", "one"))
        await put(store, key("c", "one"), key("b", "two"))
        assert await states(store) == {"a": False, "b": True, "c": True}
        await put(store, key("a", "one"))
        assert await states(store) == {"a": True, "b": False, "c": False}


@each_database
async def test_a_secret_that_was_made_here_is_refused(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        made = await new_key(store, "made")
        new = await store.write(partial(rotate_key, key_id=made.key.id, grace_ms=5, actor="admin", at_ms=NOW))
        for secret in (made.secret, new.secret):
            keys = [key("file", secret)]
            objection = await refused(store, Conflict, partial(put_file_keys, file_keys=keys, at_ms=NOW))
            assert "'file'" in objection.message
            assert "'made'" in objection.message
            assert secret[-4:] not in objection.message


@each_database
async def test_only_the_file_changes_them(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        await put(store, key("ci"))
        change, spec = KeyChange(rpm=1), KeySpec(name="ci")
        for work in (
            partial(change_key, key_id="file:ci", change=change, actor="admin", at_ms=NOW),
            partial(revoke_key, key_id="file:ci", actor="admin", at_ms=NOW),
            partial(rotate_key, key_id="file:ci", grace_ms=0, actor="admin", at_ms=NOW),
        ):
            assert "configuration file" in (await refused(store, Conflict, work)).message
        create = partial(create_key, workspace_id="default", spec=spec, actor="admin", at_ms=NOW)
        assert "already" in (await refused(store, Conflict, create)).message
