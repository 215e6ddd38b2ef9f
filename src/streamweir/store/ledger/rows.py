"""The rows of a batch as they are written, table by table, and their statements."""

from operator import attrgetter
from typing import Any

from msgspec import Struct, structs
from sqlalchemy import (
    BigInteger,
    Connection,
    Insert,
    Integer,
    LargeBinary,
    String,
    Table,
    bindparam,
    delete,
    false,
    or_,
    true,
    update,
)

from streamweir.store.db.request_log import Row
from streamweir.store.db.sql import BatchStatement, insert_columns, upsert
from streamweir.store.db.tables import (
    SUMS,
    TTFT,
    USAGE,
    idempotency,
    ledger,
    open_requests,
    requests,
    usage_days,
    usage_hours,
    usage_minutes,
    usage_quarters,
)
from streamweir.store.ledger.target_sums import add_target_sums
from streamweir.store.requests.attribution import add_attributed

Rows = list[tuple[Any, ...]]

_REQUEST = bindparam("request", type_=String)
_OPEN = (
    "request_id",
    "instance",
    "at_ms",
    "workspace_id",
    "key_id",
    "key_name",
    "dialect",
    "model",
    "target",
    "stream",
    "held",
    "account",
    "prices",
    "prompt_tokens",
    "output_tokens",
    "progress_ms",
    "idempotency",
    "first_ms",
    "last_ms",
    "end_user",
    "session",
    "tags",
    "accounts",
    "readers",
    "reader_gap_count",
    "away_since_ms",
)
_LEDGER = ("at_ms", "kind", "workspace_id", "key_id", "request_id", "amount", "cost", "price")
_IDEMPOTENCY = ("key_id", "digest", "body_digest", "request_id", "until_ms")


def _add_to_sums(table: Table) -> BatchStatement:
    unit = table.primary_key.columns.keys()[0]

    def build(conn: Connection) -> Insert:
        statement = upsert(conn, table)
        sums = {name: table.c[name] + statement.excluded[name] for name in (*SUMS, *TTFT)}
        return statement.on_conflict_do_update(index_elements=(unit, *USAGE), set_=sums)

    return BatchStatement(build, (unit, *USAGE, *SUMS, *TTFT))


def _insert_idempotency(conn: Connection) -> Insert:
    """Unless another request has the same key, which has not expired."""
    values = {name: bindparam(name, type_=idempotency.c[name].type) for name in _IDEMPOTENCY}
    statement = upsert(conn, idempotency).values(**values, is_over=false())
    replaced = {name: statement.excluded[name] for name in (*_IDEMPOTENCY[2:], "is_over")}
    is_past = idempotency.c.until_ms <= bindparam("at", type_=BigInteger)
    return statement.on_conflict_do_update(index_elements=_IDEMPOTENCY[:2], set_=replaced, where=is_past)


_is_idempotency_row = (
    idempotency.c.key_id == bindparam("key", type_=String),
    idempotency.c.digest == bindparam("of_key", type_=LargeBinary),
    idempotency.c.request_id == _REQUEST,
)
_ledger = BatchStatement(lambda _: insert_columns(ledger, _LEDGER), _LEDGER)
_requests = BatchStatement(lambda _: insert_columns(requests, Row.__struct_fields__), Row.__struct_fields__)
_SELDOM = (
    *("error", "refusal", "charge_rule", "cost_rates", "flags", "dropped", "end_user", "session", "tags", "client_id"),
    *("resumed", "reader_gap_count", "reader_gaps"),
)
"""Columns that are NULL for most requests. Each column of an insert takes a fifth of a microsecond."""
_USUAL = tuple([name for name in Row.__struct_fields__ if name not in _SELDOM])
_usual_requests = BatchStatement(lambda _: insert_columns(requests, _USUAL), _USUAL)
_seldom_of, _usual_of = attrgetter(*_SELDOM), attrgetter(*_USUAL)
_NOTHING_SELDOM = (None,) * len(_SELDOM)
_replaced = BatchStatement(lambda _: delete(requests).where(requests.c.request_id == _REQUEST), ("request",))
_opened = BatchStatement(lambda _: insert_columns(open_requests, _OPEN), _OPEN)
_closed = BatchStatement(lambda _: delete(open_requests).where(open_requests.c.request_id == _REQUEST), ("request",))
_extended = BatchStatement(
    lambda _: (
        update(open_requests)
        .where(open_requests.c.request_id == _REQUEST)
        .values(held=bindparam("now_held", type_=BigInteger))
    ),
    ("now_held", "request"),
)
_progressed = BatchStatement(
    lambda _: (
        update(open_requests)
        .where(
            or_(
                open_requests.c.progress_ms.is_(None),
                open_requests.c.progress_ms <= bindparam("at", type_=BigInteger),
            ),
            open_requests.c.request_id == _REQUEST,
        )
        .values(
            target=bindparam("now_target", type_=String),
            output_tokens=bindparam("now_tokens", type_=BigInteger),
            progress_ms=bindparam("now", type_=BigInteger),
            first_ms=bindparam("now_first", type_=BigInteger),
            last_ms=bindparam("now_last", type_=BigInteger),
            readers=bindparam("now_readers", type_=Integer),
            reader_gap_count=bindparam("now_gaps", type_=Integer),
            away_since_ms=bindparam("now_away", type_=BigInteger),
        )
    ),
    (
        "now_target",
        "now_tokens",
        "now",
        "now_first",
        "now_last",
        "now_readers",
        "now_gaps",
        "now_away",
        "at",
        "request",
    ),
)
_minutes, _quarters, _hours, _days = map(_add_to_sums, (usage_minutes, usage_quarters, usage_hours, usage_days))
_idempotency_opened = BatchStatement(_insert_idempotency, (*_IDEMPOTENCY, "at"))
_idempotency_completed = BatchStatement(
    lambda _: update(idempotency).where(*_is_idempotency_row).values(is_over=true()), ("key", "of_key", "request")
)
_idempotency_freed = BatchStatement(
    lambda _: delete(idempotency).where(*_is_idempotency_row), ("key", "of_key", "request")
)


class RowBatch(Struct):
    """What a batch writes: the rows of each table, in the order of the column names above; of requests as they are."""

    ledger: Rows = []
    opened: Rows = []
    extended: Rows = []
    progressed: Rows = []
    closed: Rows = []
    replaced: Rows = []
    requests: list[Row] = []
    minutes: Rows = []
    quarters: Rows = []
    hours: Rows = []
    days: Rows = []
    targets: Rows = []
    attributed: Rows = []
    idempotency_opened: Rows = []
    idempotency_completed: Rows = []
    idempotency_freed: Rows = []

    def write(self, conn: Connection) -> None:
        _ledger.run(conn, self.ledger)
        _opened.run(conn, self.opened)
        _extended.run(conn, sorted(self.extended, key=_last))
        _progressed.run(conn, sorted(self.progressed, key=_last))
        _closed.run(conn, sorted(self.closed))
        _replaced.run(conn, self.replaced)
        _insert_requests(conn, self.requests)
        _minutes.run(conn, sorted(self.minutes))
        _quarters.run(conn, sorted(self.quarters))
        _hours.run(conn, sorted(self.hours))
        _days.run(conn, sorted(self.days))
        add_target_sums.run(conn, sorted(self.targets))
        add_attributed.run(conn, sorted(self.attributed, key=_first_five))
        _idempotency_opened.run(conn, self.idempotency_opened)
        _idempotency_completed.run(conn, self.idempotency_completed)
        _idempotency_freed.run(conn, self.idempotency_freed)


def _insert_requests(conn: Connection, rows: list[Row]) -> None:
    """In one statement, because they are numbered in their order."""
    if set(map(_seldom_of, rows)) <= {_NOTHING_SELDOM}:
        _usual_requests.run(conn, list(map(_usual_of, rows)))
    else:
        _requests.run(conn, list(map(structs.astuple, rows)))


def _first_five(row: tuple[Any, ...]) -> Any:
    return row[:5]  # the primary key: a digest may be None


def _last(row: tuple[Any, ...]) -> Any:
    return row[-1]
