"""Whatever callers and upstreams send as text is kept, found again, and never takes a batch with it."""

from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from streamweir.store.db.base import Store
from streamweir.store.db.request_log import COLUMNS
from streamweir.store.db.tables import ledger, open_requests, requests, usage_hours
from streamweir.store.journal.entries import Entry, Hold, Progress, Refused, Settle, plain
from streamweir.store.ledger.accounts import balance_of, credit, used_of
from streamweir.store.ledger.plain_text import INDEXED
from streamweir.store.ledger.posting import apply
from streamweir.store.requests.instances import write_heartbeat
from streamweir.store.requests.live import cancel, open_of
from support.entries import NOW_MS, assert_sound, books_on, hold, open_ids, refused, row, settle
from support.stores import each_database

HOSTILE = {
    "nul": "a\x00b",
    "lone surrogate": "a\ud800b",
    "trailing surrogate": "\udfff",
    "both": "\x00\ud83d",
    "highest": "\U0010ffff",
    "emoji": "\U0001f600",
    "separators": "\u2028\u2029\x85\r\n\t",
    "empty": "",
    "megabyte": "\U0001f600x" * 210_000,
    "longest": "".join(chr(0x10000 + number * 4001) for number in range(256)),  # nothing that could be compressed
}
INJECTIONS = (
    "' OR '1'='1",
    "'; DROP TABLE ledger; --",
    '" OR ""="',
    "1; UPDATE accounts SET granted=1e9",
    "%s %(id)s :id ?1 $1 {0}",
    "\\'; --",
    "/* */ UNION SELECT digest FROM keys --",
    "``$(reboot)${x}",
    "%00' OR 1=1#",
)


def text_fields(kind: type[msgspec.Struct], *but: str) -> list[str]:
    return [field.name for field in msgspec.structs.fields(kind) if "str" in str(field.type) and field.name not in but]


ROW_FIELDS = [column.name for column in COLUMNS if column.type is str and column.name != "request_id"]
HOLD_FIELDS = text_fields(Hold, "request_id", "account", "accounts")


async def applied(store: Store, *entries: Entry, check_existing: bool = False) -> None:
    await store.write(partial(apply, entries=entries, check_existing=check_existing))


def terminal(conn: Connection) -> dict[str, Any]:
    return {row["request_id"]: row for row in conn.execute(select(requests)).mappings()}


@each_database
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=pytest.mark.long_callback("a row of 25 MB, which the gateway cuts before it is stored")
        )
        if name == "megabyte"
        else name
        for name in HOSTILE
    ],
)
async def test_any_text_in_any_field_is_stored(database: str, tmp_path: Path, name: str) -> None:
    text = HOSTILE[name]
    entries: list[Entry] = []
    fields = {field: text for field in ROW_FIELDS if field not in ("workspace_id", "key_id")}
    entries.append(Settle(row=msgspec.structs.replace(row("all"), **fields)))
    if len(text) < 1000:
        entries += [Refused(row=msgspec.structs.replace(row(field), **{field: text})) for field in ROW_FIELDS]
        entries += [hold(f"hold {field}", **{field: text}) for field in HOLD_FIELDS]
        entries.append(Progress(at_ms=NOW_MS, rows=[("hold model", text, 1), (text, text, 1)]))
        entries.append(hold(f"{text}!", account=f"key:{text}:total"))
    else:
        entries += [hold(f"hold {field}", **{field: text}) for field in ("key_name", "prices", "model")]
    async with books_on(database, tmp_path) as store:
        await applied(store, *entries, check_existing=True)
        rows = await store.read(terminal)
        for field, wanted in fields.items():
            assert rows["all"][field] == plain(wanted[: INDEXED.get(field)])
        opened = await store.read(partial(open_of, workspace_id=None, limit=100))
        assert {request.request_id for request in opened} >= {"hold prices", "hold model"}
        if len(text) < 1000:
            assert all(rows[field][field] == plain(text[: INDEXED.get(field)]) for field in ROW_FIELDS)
            assert f"{plain(text)}!" in {request.request_id for request in opened}
        await applied(store, *entries, check_existing=True)
        assert len(await store.read(terminal)) == len(rows)
        await store.read(assert_sound)


@each_database
async def test_what_is_refused_is_taken_with_care(database: str, tmp_path: Path) -> None:
    """Such text should have been made plain before; the rest of its batch does not suffer for it."""
    async with books_on(database, tmp_path) as store:
        batch: list[Entry] = [hold("a"), refused("b", client="\ud800"), settle("a", 4)]
        with pytest.raises((UnicodeError, SQLAlchemyError)):
            await applied(store, *batch)
        await applied(store, *batch, check_existing=True)
        assert (await store.read(terminal))["b"]["client"] == "\ufffd"
        await store.read(assert_sound)


@each_database
@pytest.mark.parametrize("check_existing", [False, True])
async def test_statements_in_text_are_text(database: str, tmp_path: Path, check_existing: bool) -> None:
    async with books_on(database, tmp_path) as store:
        for text in INJECTIONS:
            fields = {field: text for field in ROW_FIELDS if field != "instance"}
            await applied(store, hold(text, **dict.fromkeys(HOLD_FIELDS, text), account=f"key:{text}:total"))
            assert await store.read(open_ids) == [text]
            assert await store.write(partial(cancel, request_id=text, workspace_id=text, now_ms=NOW_MS))
            end = Settle(row=msgspec.structs.replace(row(text, cost=3), **fields), account=f"key:{text}:total")
            await applied(store, end, check_existing=check_existing)
            await store.write(partial(credit, workspace_id=text, amount=5, note=text, at_ms=NOW_MS))
            await store.write(partial(write_heartbeat, instance=text, node=text, now_ms=NOW_MS))
            assert (await store.read(partial(balance_of, workspace_id=text))).balance == 2
            account = f"key:{text}:total"
            assert await store.read(partial(used_of, account_ids=[account])) == {account: 3}
        rows = await store.read(terminal)
        assert sorted(rows) == sorted(INJECTIONS)
        assert all(row[field] == id for id, row in rows.items() for field in ROW_FIELDS if field != "instance")
        notes = await store.read(
            lambda conn: sorted(conn.scalars(select(ledger.c.note).where(ledger.c.kind == "credit")))
        )
        assert notes == sorted(INJECTIONS)
        models = await store.read(lambda conn: set(conn.scalars(select(usage_hours.c.model))))
        assert models == set(INJECTIONS)
        assert await store.read(lambda conn: list(conn.scalars(select(open_requests.c.request_id)))) == []
        await store.read(assert_sound)


@each_database
async def test_numbers_beyond_the_database_are_refused(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        for check_existing in (False, True):
            with pytest.raises((OverflowError, SQLAlchemyError)):
                await applied(store, hold("a", 2**63), check_existing=check_existing)
        await applied(store, hold("b", 2**62), settle("b", 2**62))
        await store.read(assert_sound)


@given(st.text(st.one_of(st.sampled_from("\0\ud800\udfffa"), st.characters()), max_size=20))
def test_plain_text_replaces_what_a_database_refuses_and_nothing_else(text: str) -> None:
    expected = "".join("\ufffd" if each == "\0" or "\ud800" <= each <= "\udfff" else each for each in text)
    assert plain(text) == expected
