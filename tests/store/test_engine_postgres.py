"""A store in PostgreSQL, on servers that become unavailable: stopped, killed, frozen, disconnected, or locked."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection, func, select, text

from streamweir.store.db.base import Store, StoreError, StoreUnavailable
from streamweir.store.db.engine import open_store
from streamweir.store.db.tables import counters
from support.deadlines import WAIT_TIMEOUT_S
from support.postgres import PrivatePostgres, postgres_url, shared_postgres
from support.stores import store_on

SOON_S = 0.5


def put(name: str, value: int = 1) -> Callable[[Connection], None]:
    return lambda conn: conn.execute(counters.insert().values(name=name, value=value)).close()


def names(conn: Connection) -> list[str]:
    return list(conn.execute(select(counters.c.name).order_by(counters.c.name)).scalars())


def backend(conn: Connection) -> int:
    return int(conn.execute(select(func.pg_backend_pid())).scalar_one())


def database_of(conn: Connection) -> str:
    return str(conn.execute(select(func.current_database())).scalar_one())


async def activity(store: Store, state: str) -> int:
    """How many of the database's other connections are in a state such as `idle in transaction`."""
    query = text(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE :state"
    )
    return await store.read(lambda conn: int(conn.execute(query, {"state": state}).scalar_one()))


async def settled(store: Store) -> None:
    """Until no connection but idle ones is left; a test that waits here for ever has found a leak."""
    async with asyncio.timeout(WAIT_TIMEOUT_S):
        while await activity(store, "idle in%") or await activity(store, "active"):
            await asyncio.sleep(0.01)


async def test_an_absent_server_is_one_clear_line_without_the_password(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        await open_store("postgresql://someone:canary-secret@127.0.0.1:1/books", tmp_path)
    assert re.fullmatch(r"cannot open the database 127\.0\.0\.1:1/books: .*refused.*", str(caught.value)) is not None
    assert "canary" not in str(caught.value)


async def test_a_host_that_does_not_exist_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"^cannot open the database nowhere\.invalid/books: "):
        await open_store("postgres://someone:canary-secret@nowhere.invalid/books", tmp_path)


async def test_an_absent_database_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r'cannot open the database .*"nothing" does not exist$'):
        await open_store(shared_postgres().url("nothing"), tmp_path)


async def test_a_setting_of_the_url_that_means_nothing_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="sslmode"):
        await open_store("postgresql://127.0.0.1:1/books?sslmode=perhaps", tmp_path)


def test_without_the_driver_the_extra_is_named(tmp_path: Path) -> None:
    program = (
        "import asyncio, pathlib, sys; sys.modules['asyncpg'] = None\n"
        "from streamweir.store.db.engine import StoreError, open_store\n"
        "try: asyncio.run(open_store('postgresql://host/db', pathlib.Path('.')))\n"
        "except StoreError as fault: print(fault)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout == "PostgreSQL needs a driver: install streamweir[postgres]\n"


async def test_a_user_who_may_not_make_tables_is_one_clear_line(tmp_path: Path) -> None:
    server = shared_postgres()
    url = postgres_url()
    server.execute("CREATE ROLE visitor LOGIN")
    with pytest.raises(StoreError, match=r"^cannot open the database .*permission denied for schema public$"):
        await open_store(url.replace("postgres@", "visitor@"), tmp_path)


async def test_each_kind_of_operation_has_its_settings(tmp_path: Path) -> None:
    def settings(conn: Connection) -> list[str]:
        asked = ("transaction_isolation", "transaction_read_only", "synchronous_commit", "statement_timeout")
        return [str(conn.execute(select(func.current_setting(name))).scalar_one()) for name in asked]

    async with store_on("postgres", tmp_path) as store:
        assert await store.write(settings, timeout_s=10) == ["read committed", "off", "on", "10s"]
        assert await store.write_content(settings, timeout_s=10) == ["read committed", "off", "off", "10s"]
        assert await store.read(settings, timeout_s=10) == ["repeatable read", "on", "on", "10s"]
        assert await store.write(settings, timeout_s=60) == ["read committed", "off", "on", "1min"]
        assert await store.write(settings, timeout_s=10) == ["read committed", "off", "on", "10s"]


async def test_a_connection_that_was_closed_while_idle_is_not_noticed(tmp_path: Path) -> None:
    async with store_on("postgres", tmp_path) as store:
        for number in range(3):
            pid = await store.write(backend)
            shared_postgres().execute(f"SELECT pg_terminate_backend({pid}, 5000)")
            await store.write(put(f"n{number}"))
        assert await store.read(names) == ["n0", "n1", "n2"]


async def test_a_connection_that_is_lost_before_the_commit_is_replaced(tmp_path: Path) -> None:
    lost: list[int] = []

    def lose(conn: Connection) -> None:
        put(f"try{len(lost)}")(conn)
        if not lost:
            lost.append(backend(conn))
            shared_postgres().execute(f"SELECT pg_terminate_backend({lost[0]}, 5000)")
            conn.execute(select(1))

    async with store_on("postgres", tmp_path) as store:
        await store.write(lose)
        assert await store.read(names) == ["try1"]


async def test_a_commit_that_is_lost_may_have_been_done(tmp_path: Path) -> None:
    async with store_on("postgres", tmp_path) as store:
        name = await store.read(database_of)
        shared_postgres().execute(
            "CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NULL; "
            "END $$; CREATE CONSTRAINT TRIGGER late AFTER INSERT ON counters DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION linger()",
            name,
        )
        with pytest.raises(StoreUnavailable) as caught:
            await store.write(put("a"), timeout_s=SOON_S)
        assert caught.value.maybe_committed
        await settled(store)
        assert await store.read(names) == []


async def test_two_that_wait_for_each_other_are_both_done(tmp_path: Path) -> None:
    """In opposite order: the server ends one of them, which is tried again."""
    tries: list[str] = []
    both = asyncio.Barrier(2)

    async with store_on("postgres", tmp_path) as store:
        await store.write(put("a", 0))
        await store.write(put("b", 0))

        def add(first: str, second: str) -> Callable[[Connection], None]:
            def work(conn: Connection) -> None:
                tries.append(first)
                for name in (first, second):
                    conn.execute(
                        counters.update().where(counters.c.name == name).values(value=counters.c.value + 1)
                    ).close()
                    if name == first and len(tries) <= 2:
                        from sqlalchemy.util import await_only

                        await_only(both.wait())

            return work

        await asyncio.gather(store.write(add("a", "b"), timeout_s=30), store.write(add("b", "a"), timeout_s=30))
        values = await store.read(lambda conn: list(conn.execute(select(counters.c.value)).scalars()))
        assert values == [2, 2]
        assert len(tries) > 2


async def test_callers_that_leave_leave_no_transaction_open(tmp_path: Path) -> None:
    def slow(conn: Connection) -> None:
        conn.execute(counters.update().values(value=counters.c.value + 1))
        conn.execute(select(func.pg_sleep(0.003)))

    async with store_on("postgres", tmp_path) as store:
        await store.write(put("a", 0))
        for turn in range(40):
            tasks = [asyncio.create_task(run(slow)) for run in (store.write, store.write, store.write_content)]
            for _ in range(turn % 13):
                await asyncio.sleep(0.0003)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await settled(store)
        assert await activity(store, "%") <= 6
        await store.write(put("b"))


async def test_an_abandoned_statement_does_not_continue_in_the_server(tmp_path: Path) -> None:
    async with store_on("postgres", tmp_path) as store:
        with pytest.raises(StoreUnavailable):
            await store.write(lambda conn: conn.execute(select(func.pg_sleep(60))).close(), timeout_s=SOON_S)
        await settled(store)


async def test_an_outage_is_reported_and_survived(tmp_path: Path) -> None:
    with PrivatePostgres() as server:
        store = await open_store(server.make_database(), tmp_path)
        await store.write(put("a"))
        await store.read(names)
        for end in (server.stop, server.kill):
            end()
            for run in (store.write, store.write_content, store.read):
                with pytest.raises(StoreUnavailable) as caught:
                    await run(names, timeout_s=2)
                assert not caught.value.maybe_committed
            server.start()
            assert await store.read(names) == ["a"]
            await store.write(put("b"))
            await store.write(lambda conn: conn.execute(counters.delete().where(counters.c.name == "b")).close())
        await store.close()


async def test_a_database_that_is_closed_for_connections_is_unavailable(tmp_path: Path) -> None:
    """As an administrator does it for maintenance. It is not an error of the statement."""
    server = shared_postgres()
    url = server.make_database()
    name = url.partition("?")[0].rpartition("/")[2]
    store = await open_store(url, tmp_path)
    server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")  # noqa: S608
    for run in (store.write, store.write_content, store.read):
        with pytest.raises(StoreUnavailable, match="not currently accepting connections"):
            await run(names)
    server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    assert await store.read(names) == []
    await store.close()


async def test_a_frozen_server_is_unavailable_and_then_available_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamweir.store.db.postgres._CLOSE_S", SOON_S)
    with PrivatePostgres() as server:
        store = await open_store(server.make_database(), tmp_path)
        for number in range(2):
            await asyncio.gather(store.write(put(f"n{number}")), store.read(names), store.read(names))
            server.pause()
            ends = await asyncio.gather(
                store.write(put("late"), timeout_s=SOON_S),
                store.read(names, timeout_s=SOON_S),
                store.write_content(put("late"), timeout_s=SOON_S),  # not connected yet
                return_exceptions=True,
            )
            assert [type(end) for end in ends] == [StoreUnavailable] * 3
            server.resume()
            assert await store.read(names) == [f"n{sofar}" for sofar in range(number + 1)]
        server.pause()
        await store.close()
        server.resume()


async def test_a_server_that_shuts_down_takes_what_runs_with_it(tmp_path: Path) -> None:
    begun = asyncio.Event()

    def slow(conn: Connection) -> None:
        put("late")(conn)
        begun.set()
        conn.execute(select(func.pg_sleep(60)))

    with PrivatePostgres() as server:
        store = await open_store(server.make_database(), tmp_path)
        task = asyncio.create_task(store.write(slow))
        await begun.wait()
        await asyncio.to_thread(server.stop)
        with pytest.raises(StoreUnavailable):
            await task
        server.start()
        assert await store.read(names) == []
        await store.close()
