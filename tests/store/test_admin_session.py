"""The operator's secret and the console's sessions."""

import asyncio
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, func, select

from streamweir.policy import secret as form
from streamweir.policy.access import digest_of
from streamweir.policy.secret import csrf_of, is_well_formed
from streamweir.store.db.base import Store
from streamweir.store.db.tables import sessions
from streamweir.store.keys import audit
from streamweir.store.keys.keys import NewSecret
from streamweir.store.keys.sessions import (
    IDLE_MS,
    MAX_SESSIONS,
    TOUCH_MS,
    SessionKey,
    create_session,
    end_session,
    ensure_admin_secret,
    find_session,
    is_admin_secret,
    log_in,
    replace_session,
    reset_admin_secret,
    touch_session,
)
from support.key_store import NOW, dump, new_key
from support.stores import each_database, store_on
from support.untrusted_texts import FOREIGN


async def new_session(store: Store, at_ms: int = NOW) -> str:
    return await store.write(partial(create_session, actor="admin", at_ms=at_ms))


async def is_open(store: Store, token: str, at_ms: int) -> bool:
    return await store.read(partial(find_session, token=token, at_ms=at_ms)) is not None


@each_database
async def test_the_secret_is_created_once_and_shown_once(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        assert not await store.read(partial(is_admin_secret, secret="")), "there is none"
        secret = await store.write(partial(ensure_admin_secret, at_ms=NOW))
        assert secret is not None
        assert is_well_formed(secret, form.ADMIN)
        assert await store.write(partial(ensure_admin_secret, at_ms=NOW)) is None
        assert await store.read(partial(is_admin_secret, secret=secret))
        for wrong in (*FOREIGN, secret[:-1], secret + " ", secret.upper(), form.ADMIN):
            assert not await store.read(partial(is_admin_secret, secret=wrong))
        assert [row.action for row in await store.read(audit.list_rows)] == ["secret.create"]


@each_database
async def test_a_reset_ends_the_old_secret_and_every_session(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        reset = partial(reset_admin_secret, actor="cli", at_ms=NOW)
        first = await store.write(reset)
        tokens = [await new_session(store) for _ in range(3)]
        second = await store.write(reset)
        assert first != second
        assert not await store.read(partial(is_admin_secret, secret=first))
        assert await store.read(partial(is_admin_secret, secret=second))
        for token in tokens:
            assert not await is_open(store, token, NOW)
        newest = (await store.read(audit.list_rows))[0]
        assert (newest.actor, newest.action, newest.detail) == ("cli", "secret.reset", {"sessions_ended": 3})
        assert await store.read(audit.verify) is None


@each_database
async def test_a_session_is_known_by_its_digest_alone(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        one, other = await new_session(store), await new_session(store)
        assert one != other
        assert is_well_formed(one, form.SESSION)
        for wrong in (csrf_of(one), one[:-1], *FOREIGN):
            assert not await is_open(store, wrong, NOW)
        rows = repr(await dump(store))
        for text in (one, csrf_of(one), other, csrf_of(other)):
            assert text.rpartition("-")[2] not in rows


@each_database
async def test_logging_in_takes_the_secret_and_ends_the_session_before(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        enter = partial(log_in, actor="admin", at_ms=NOW)
        for secret in ("", "no secret yet"):
            assert await store.write(partial(enter, secret=secret, old_token=None)) is None
        secret = await store.write(partial(reset_admin_secret, actor="cli", at_ms=NOW))
        for wrong in (*FOREIGN, secret[:-1], form.ADMIN):
            assert await store.write(partial(enter, secret=wrong, old_token=None)) is None
        one = await store.write(partial(enter, secret=secret, old_token=None))
        assert one is not None
        assert await store.write(partial(enter, secret=one, old_token=one)) is None
        assert await is_open(store, one, NOW), "a stranger ends nobody's session"
        two = await store.write(partial(enter, secret=secret, old_token=one))
        three = await store.write(partial(enter, secret=secret, old_token=secret))
        assert two is not None
        assert three is not None
        assert [await is_open(store, token, NOW) for token in (one, two, three)] == [False, True, True]
        reported = [row.action for row in await store.read(audit.list_rows)][::-1]
        assert reported == [
            "secret.reset",
            "session.create",
            "session.end",
            "session.create",
            "session.create",
        ]


@each_database
async def test_no_session_outlives_its_secret(database: str, tmp_path: Path) -> None:
    """Whoever logs in while the secret is reset is out again, or never was in."""
    async with store_on(database, tmp_path) as store:
        secret = await store.write(partial(reset_admin_secret, actor="cli", at_ms=NOW))
        for _ in range(5):
            enter = partial(log_in, secret=secret, old_token=None, actor="admin", at_ms=NOW)
            reset = partial(reset_admin_secret, actor="cli", at_ms=NOW)
            (first, secret), rest = await asyncio.gather(
                asyncio.gather(store.write(enter), store.write(reset)),
                asyncio.gather(*(store.write(enter) for _ in range(4))),
            )
            tokens = [token for token in (first, *rest) if token is not None]
            assert not any([await is_open(store, token, NOW) for token in tokens])


@each_database
async def test_twelve_hours_unused(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        token = await new_session(store)
        assert await is_open(store, token, NOW + IDLE_MS - 1)
        assert not await is_open(store, token, NOW + IDLE_MS)
        session = await store.read(partial(find_session, token=token, at_ms=NOW + TOUCH_MS))
        assert session is not None
        assert session.needs_touch(NOW + TOUCH_MS)
        assert not session.needs_touch(NOW + TOUCH_MS - 1)
        await store.write(partial(touch_session, digest=session.digest, at_ms=NOW + TOUCH_MS))
        await store.write(partial(touch_session, digest=session.digest, at_ms=NOW - 5))
        assert await is_open(store, token, NOW + IDLE_MS)
        assert not await is_open(store, token, NOW + TOUCH_MS + IDLE_MS)


@each_database
async def test_logging_out(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        one, other = await new_session(store), await new_session(store)
        end = partial(end_session, token=one, actor="admin", at_ms=NOW)
        assert await store.write(end)
        assert not await store.write(end)
        assert not await is_open(store, one, NOW)
        assert await is_open(store, other, NOW)
        reported = [(row.action, row.object) for row in await store.read(audit.list_rows)][::-1]
        assert [action for action, _ in reported] == ["session.create"] * 2 + ["session.end"]
        assert reported[0][1] == reported[2][1] != reported[1][1]


@pytest.mark.parametrize(("unused", "left"), [(IDLE_MS, 1), (IDLE_MS - 1, MAX_SESSIONS)])
async def test_what_is_kept_is_bounded(tmp_path: Path, unused: int, left: int) -> None:
    def fill(conn: Connection) -> None:
        rows = [{"digest": number.to_bytes(32), "created_ms": NOW, "used_ms": NOW} for number in range(MAX_SESSIONS)]
        conn.execute(sessions.insert(), rows)

    async with store_on("sqlite", tmp_path) as store:
        await store.write(fill)
        token = await new_session(store, NOW + unused)
        assert await is_open(store, token, NOW + unused)
        count = await store.read(lambda conn: conn.execute(select(func.count()).select_from(sessions)).scalar_one())
        assert count == left


def holder(key: NewSecret) -> SessionKey:
    return SessionKey(key_id=key.key.id, key_digest=digest_of(key.secret), workspace_id=key.key.workspace_id)


@each_database
async def test_a_session_of_a_key_says_whose_it_is(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        key = await new_key(store, scopes=("admin",))
        actor = f"key:{key.key.id}"
        operator = await new_session(store)
        token = await store.write(
            partial(replace_session, old_token=operator, actor=actor, at_ms=NOW, holder=holder(key))
        )
        assert not await is_open(store, operator, NOW), "that before ends"
        found = await store.read(partial(find_session, token=token, at_ms=NOW))
        assert found is not None
        assert (found.key_id, found.key_digest) == (key.key.id, digest_of(key.secret))
        newest = await store.read(partial(find_session, token=await new_session(store), at_ms=NOW))
        assert newest is not None
        assert (newest.key_id, newest.key_digest) == (None, None)
        assert await store.write(partial(end_session, token=token, actor=actor, at_ms=NOW))
        reported = [row for row in await store.read(audit.list_rows) if row.action.startswith("session.")][::-1]
        assert [(row.action, row.actor, row.workspace_id) for row in reported] == [
            ("session.create", "admin", None),
            ("session.end", actor, None),
            ("session.create", actor, "default"),
            ("session.create", "admin", None),
            ("session.end", actor, "default"),
        ]


@each_database
async def test_a_reset_of_the_admin_secret_ends_sessions_of_keys_too(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        key = await new_key(store, scopes=("admin",))
        token = await store.write(partial(create_session, actor="x", at_ms=NOW, holder=holder(key)))
        await store.write(partial(reset_admin_secret, actor="cli", at_ms=NOW))
        assert not await is_open(store, token, NOW)


async def test_nobodys_sessions_end_by_how_many_another_opens(tmp_path: Path) -> None:
    def fill(conn: Connection) -> None:
        rows = [
            {"digest": number.to_bytes(32), "created_ms": NOW, "used_ms": NOW + number, "key_id": f"key_{number % 2}"}
            for number in range(2 * MAX_SESSIONS)
        ]
        conn.execute(sessions.insert(), rows)

    def count(conn: Connection) -> dict[str | None, int]:
        found = conn.execute(select(sessions.c.key_id, func.count()).group_by(sessions.c.key_id))
        return {key_id: number for key_id, number in found}  # noqa: C416 (rows are no pairs to the type checker)

    async with store_on("sqlite", tmp_path) as store:
        operators = await new_session(store)
        await store.write(fill)
        one = SessionKey(key_id="key_1", key_digest=b"", workspace_id="default")
        token = await store.write(partial(create_session, actor="x", at_ms=NOW + 5000, holder=one))
        await new_session(store, NOW + 5000)
        assert await store.read(count) == {None: 2, "key_0": MAX_SESSIONS, "key_1": MAX_SESSIONS}
        assert await is_open(store, operators, NOW)
        assert await is_open(store, token, NOW + 5000)
        oldest = select(func.min(sessions.c.used_ms)).where(sessions.c.key_id == "key_1")
        assert await store.read(lambda conn: conn.execute(oldest).scalar_one()) == NOW + 3, "the longest unused went"
