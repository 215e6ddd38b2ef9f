"""The audit log: every change is in it, in the change's own transaction, and a touched row is found."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, delete, insert, select, update

from streamweir.store.db.base import Store
from streamweir.store.db.tables import audit as log
from streamweir.store.db.tables import counters
from streamweir.store.keys import audit
from streamweir.store.keys.keys import change_key, revoke_key, rotate_key
from streamweir.store.keys.spec import KeyChange
from streamweir.store.keys.workspaces import WorkspaceChange, change_workspace
from support.key_store import NOW, new_key, new_workspace
from support.stores import each_database, store_on
from support.untrusted_texts import FOREIGN

COUNT = 6


def appending(*args: Any) -> Callable[[Connection], int]:
    return lambda conn: audit.append(conn, *args)


async def fill(store: Store) -> None:
    for number in range(1, COUNT + 1):
        detail = {"number": number, "what": ["x", None, True]}
        args = ("admin", "thing.change", f"thing-{number}", detail, "default" if number % 2 else None, NOW + number)
        assert await store.write(appending(*args)) == number


def _swap(conn: Connection) -> None:
    for old, new in ((2, 100), (3, 2), (100, 3)):
        conn.execute(update(log).where(log.c.seq == old).values(seq=new))


def _forge(conn: Connection) -> None:
    row = dict(conn.execute(select(log).where(log.c.seq == COUNT)).mappings().one())
    conn.execute(insert(log).values(**{**row, "seq": COUNT + 1, "previous": row["digest"]}))


def _forge_and_count(conn: Connection) -> None:
    _forge(conn)
    conn.execute(update(counters).where(counters.c.name == "audit").values(value=COUNT + 1))


def _set(seq: int, /, **values: object) -> Callable[[Connection], object]:
    return lambda conn: conn.execute(update(log).where(log.c.seq == seq).values(**values))


def _remove(*numbers: int) -> Callable[[Connection], object]:
    return lambda conn: conn.execute(delete(log).where(log.c.seq.in_(numbers)))


def _doing(work: Callable[[Connection], object]) -> Callable[[Connection], None]:
    """What a statement gives is of no use outside of its transaction."""

    def do(conn: Connection) -> None:
        work(conn)

    return do


TAMPERED: list[tuple[str, Callable[[Connection], object], int]] = [
    ("actor", _set(3, actor="nobody"), 3),
    ("action", _set(1, action="thing.view"), 1),
    ("object", _set(6, object="thing-7"), 6),
    ("detail", _set(4, detail="{}"), 4),
    ("workspace", _set(2, workspace_id="default"), 2),
    ("no workspace", _set(1, workspace_id=None), 1),
    ("moment", _set(5, at_ms=NOW), 5),
    ("digest", _set(2, digest=bytes(32)), 2),
    ("digest of no length", _set(2, digest=b""), 2),
    ("previous", _set(2, previous=bytes(32)), 2),
    ("number", _set(6, seq=7), 6),
    ("number below all", _set(1, seq=-5), 1),
    ("two in each other's place", _swap, 2),
    ("the first is gone", _remove(1), 1),
    ("one is gone", _remove(4), 4),
    ("the last is gone", _remove(6), 6),
    ("the last three are gone", _remove(4, 5, 6), 4),
    ("all are gone", _remove(*range(1, COUNT + 1)), 1),
    ("one is added", _forge, COUNT + 1),
    ("one is added and counted", _forge_and_count, COUNT + 1),
]


class Undone(Exception):
    """Ends a transaction, so that the next case finds the log as it was."""


@each_database
async def test_tampering_is_found(database: str, tmp_path: Path) -> None:
    found: dict[str, int | None] = {}

    def work(conn: Connection, name: str, tamper: Callable[[Connection], object]) -> None:
        tamper(conn)
        found[name] = audit.verify(conn)
        raise Undone

    async with store_on(database, tmp_path) as store:
        assert await store.read(audit.verify) is None, "nothing was written yet"
        await fill(store)
        for name, tamper, _ in TAMPERED:
            assert await store.read(audit.verify) is None
            with pytest.raises(Undone):
                await store.write(partial(work, name=name, tamper=tamper))
        assert found == {name: broken for name, _, broken in TAMPERED}


async def test_a_log_of_more_than_one_reading(tmp_path: Path) -> None:
    def many(conn: Connection) -> None:
        for number in range(620):
            audit.append(conn, "admin", "a", str(number), {}, None, NOW)

    async with store_on("sqlite", tmp_path) as store:
        await store.write(many)
        assert await store.read(audit.verify) is None
        for seq in (500, 501, 620):
            await store.write(_doing(_set(seq, at_ms=NOW + 1)))
            assert await store.read(audit.verify) == seq
            await store.write(_doing(_set(seq, at_ms=NOW)))


@each_database
async def test_rows_are_listed_from_the_newest_and_within_a_workspace(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        await fill(store)

        async def listed(**more: Any) -> list[int]:
            return [row.seq for row in await store.read(partial(audit.list_rows, **more))]

        assert await listed() == [6, 5, 4, 3, 2, 1]
        assert await listed(limit=2) == [6, 5]
        assert await listed(limit=2, before=5) == [4, 3]
        assert await listed(before=1) == []
        assert await listed(workspace_id="default") == [5, 3, 1]
        assert await listed(workspace_id="x' OR '1'='1\x00") == []
        (newest,) = await store.read(partial(audit.list_rows, limit=1))
        assert newest == audit.AuditRow(
            seq=6,
            at_ms=NOW + 6,
            actor="admin",
            workspace_id=None,
            action="thing.change",
            object="thing-6",
            detail={"number": 6, "what": ["x", None, True]},
        )


@each_database
async def test_foreign_text_is_kept_as_far_as_it_can_be(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        for text in FOREIGN:
            args = (text, text, text, {text: [text, {"note": text}]}, text, NOW)
            await store.write(appending(*args))
        assert await store.read(audit.verify) is None
        rows = await store.read(partial(audit.list_rows, limit=100))
        for row, text in zip(rows, reversed(FOREIGN), strict=True):
            kept = text.replace("\x00", "\ufffd").replace("\ud800", "\ufffd").replace("\udfff", "\ufffd")
            assert (row.actor, row.detail) == (kept, {kept: [kept, {"note": kept}]})


async def test_a_row_that_somebody_else_wrote_is_shown_too(tmp_path: Path) -> None:
    async with store_on("sqlite", tmp_path) as store:
        await fill(store)
        await store.write(lambda conn: conn.execute(update(log).values(detail="not JSON")).rowcount)
        (row,) = await store.read(partial(audit.list_rows, limit=1))
        assert row.detail == {"unreadable": "not JSON"}


@each_database
async def test_a_change_that_failed_leaves_no_row(database: str, tmp_path: Path) -> None:
    def work(conn: Connection) -> None:
        audit.append(conn, "admin", "a", "b", {}, None, NOW)
        raise KeyError("the change went wrong")

    async with store_on(database, tmp_path) as store:
        await fill(store)
        with pytest.raises(KeyError):
            await store.write(work)
        assert len(await store.read(audit.list_rows)) == COUNT
        assert await store.read(audit.verify) is None


@each_database
async def test_every_change_of_keys_and_workspaces_is_logged_without_its_secret(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        new = await new_key(store, "ci", rpm=5, models=("gpt-*",))
        team = await new_workspace(store, "team")
        id = new.key.id
        await store.write(lambda conn: change_key(conn, id, KeyChange(rpm=None, tpm=9), actor="key:boss", at_ms=NOW))
        new2 = await store.write(lambda conn: rotate_key(conn, id, grace_ms=7, actor="key:boss", at_ms=NOW))
        await store.write(lambda conn: revoke_key(conn, id, actor="key:boss", at_ms=NOW))
        wanted = WorkspaceChange(prepaid=True)
        await store.write(lambda conn: change_workspace(conn, team.id, wanted, actor="key:boss", at_ms=NOW))
        rows = (await store.read(audit.list_rows))[::-1]
        last4, last4_2 = new.key.last4, new2.key.last4
        assert [(row.actor, row.action, row.object, row.workspace_id, row.detail) for row in rows] == [
            ("system", "workspace.create", "default", "default", {"name": "default", "prepaid": False}),
            ("admin", "key.create", id, "default", {"name": "ci", "rpm": 5, "models": ["gpt-*"], "last4": last4}),
            ("admin", "workspace.create", team.id, team.id, {"name": "team", "prepaid": False}),
            ("key:boss", "key.change", id, "default", {"rpm": {"from": 5, "to": None}, "tpm": {"from": None, "to": 9}}),
            (
                "key:boss",
                "key.rotate",
                id,
                "default",
                {"name": "ci", "last4": {"from": last4, "to": last4_2}, "grace_ms": 7},
            ),
            ("key:boss", "key.revoke", id, "default", {"name": "ci", "last4": last4_2}),
            ("key:boss", "workspace.change", team.id, team.id, {"prepaid": {"from": False, "to": True}}),
        ]
        for secret in (new.secret, new2.secret):
            assert secret[6:] not in repr(rows)
