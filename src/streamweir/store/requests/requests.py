"""Reading the request log: one request by either of its ids, pages of requests, and new ones as they end.

A reader can be restricted to a workspace: ids of others are not found, as if they did not exist. Pages go backwards
from the newest arrival, each from the end of the last one, so that new rows neither shift nor repeat any. A filter by
time, workspace, key, end user, session or id is fast, however long the log is; other filters scan the entries of an
index (`tables.requests`), or rows (a tag), a limited number per page. So do patterns: in a filter by a model, target,
provider, error, end user or session a `*` stands for any text, and then upper and lower case are the same. Nothing is
written here; content is elsewhere.
"""

import base64
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    UnaryExpression,
    and_,
    case,
    func,
    not_,
    or_,
    select,
    true,
    tuple_,
)

from streamweir.core.errors import CallerError
from streamweir.store.db.request_log import COLUMNS, Row
from streamweir.store.db.tables import open_requests, requests
from streamweir.store.journal.entries import plain
from streamweir.store.requests.instances import names_of
from streamweir.store.requests.ownership import of_person
from streamweir.store.requests.pattern import is_pattern, matches

MAX_ROWS = 1000
"""Per page."""
FIRST_SCANNED = 5_000
"""Rows that are scanned before the end of the scan is determined: most filters have filled their page by then."""
MAX_SCANNED = 200_000
"""Rows per page: a twentieth of a second."""
MIN_ID_PREFIX = 12
"""Characters of a request id: they contain the minute."""
MIN_ID_TAIL = 6
"""Characters of the end of a request id that are searched for: pages show the last eight."""
_TAIL = re.compile(rf"[0-9a-f]{{{MIN_ID_TAIL},27}}")
"""The end of a request id, which no beginning of one and hardly another id looks like."""
_LARGEST = 2**63 - 1
_LISTS = tuple(column.name for column in COLUMNS if column.about.json == "list")
_OBJECTS = tuple(column.name for column in COLUMNS if column.about.json == "dict")
_OWN_RULES = ("target", "stream", "end_user", "session")
_EQUAL = tuple(c.name for c in COLUMNS if c.name in c.about.filters and c.name not in _OWN_RULES)
"""Columns with a filter for equality under their own name."""
_columns = requests.c
_Position = tuple[int, int]
"""A position in the order of pages: the time and the number of a row."""
_Order = Literal["newest", "oldest"]
_NEWEST = (_columns.at_ms.desc(), _columns.seq.desc())
_ORDERS: dict[_Order, tuple[UnaryExpression[Any], UnaryExpression[Any]]] = {
    "newest": _NEWEST,
    "oldest": (_columns.at_ms.asc(), _columns.seq.asc()),
}


class RequestRow(Row, kw_only=True):
    """A row as it is read: JSON columns decoded, and further values."""

    seq: int
    node: str | None
    """The name of the node that ran it; None: not known any more."""
    attempts: list[Any]  # type: ignore[assignment]
    usage: dict[str, Any] | None  # type: ignore[assignment]
    flags: list[Any]  # type: ignore[assignment]
    dropped: list[Any]  # type: ignore[assignment]
    strip: dict[str, Any] | None  # type: ignore[assignment]
    parameters: dict[str, Any] | None  # type: ignore[assignment]
    refusal: dict[str, Any] | None  # type: ignore[assignment]
    tags: list[Any]  # type: ignore[assignment]
    reader_gaps: list[Any]  # type: ignore[assignment]

    def members(self) -> dict[str, Any]:
        """By name, in the order of the table; the node after the process."""
        found: dict[str, Any] = {"seq": self.seq}
        for column in COLUMNS:
            found[column.name] = getattr(self, column.name)
            if column.name == "instance":
                found["node"] = self.node
        return found


class RequestFilter(Struct, frozen=True, kw_only=True):
    """Absent values do not restrict."""

    workspace_id: str | None = None
    """None: every workspace."""
    key_id: str | None = None
    person_id: str | None = None
    """Only what this person may see: `store.requests.ownership`."""
    key_ids: tuple[str, ...] | None = None
    """Any of these keys. Empty: none."""
    model: str | None = None
    """As requested."""
    target: str | None = None
    """`{provider}/{model}`, or a provider."""
    provider: str | None = None
    dialect: str | None = None
    verdict: str | None = None
    status_class: int | None = None
    """2, 4, 5."""
    error: str | None = None
    """A code."""
    failed: bool | None = None
    """Whether it has an error code."""
    refused: bool | None = None
    """Whether it was refused before anything was reserved for it, and no model was asked."""
    stream: bool | None = None
    min_cost: int | None = None
    """In nano-dollars. A request without a cost does not match."""
    max_cost: int | None = None
    min_price: int | None = None
    """Likewise."""
    max_price: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    """Exclusive."""
    end_user: str | None = None
    """As it is recorded."""
    session: str | None = None
    tag: str | None = None
    """`name=value`, or a name for one without a value."""
    id: str | None = None
    """A request id, its beginning of `MIN_ID_PREFIX` characters or more or its end of `MIN_ID_TAIL`, or a completion
    id."""


class Page(Struct, frozen=True):
    rows: list[RequestRow]
    next: str | None
    """The cursor of the next page, if there is one."""


def find_request(
    conn: Connection,
    id: str,
    workspace_id: str | None = None,
    *,
    key_id: str | None = None,
    person_id: str | None = None,
) -> RequestRow | None:
    """By the request id, else the newest with that completion id: an upstream may have used it more than once."""
    id = plain(id)
    within = _equal({_columns.workspace_id: workspace_id, _columns.key_id: key_id})
    if person_id is not None:
        within.append(of_person(person_id, _columns.key_id, _columns.at_ms))
    found = read_rows(conn, select(requests).where(_columns.request_id == id, *within))
    if not found:
        by_completion = select(requests).where(_columns.completion_id == id, *within)
        found = read_rows(conn, by_completion.order_by(_columns.seq.desc()).limit(1))
    return found[0] if found else None


def is_running(conn: Connection, request_id: str, workspace_id: str | None = None) -> bool:
    """It has no row yet, because it is not over."""
    statement = select(open_requests.c.request_id).where(open_requests.c.request_id == plain(request_id))
    if workspace_id is not None:
        statement = statement.where(open_requests.c.workspace_id == plain(workspace_id))
    return conn.execute(statement).first() is not None


def list_requests(
    conn: Connection,
    wanted: RequestFilter,
    *,
    cursor: str | None = None,
    limit: int = 50,
    order: _Order = "newest",
) -> Page:
    """Raises `CallerError` for an invalid cursor. `order`: what comes first; a cursor leads on in either.

    A page may have fewer rows than requested, or none, and still a next page: it has scanned `MAX_SCANNED` rows.
    """
    limit = max(1, min(limit, MAX_ROWS))
    after = None if cursor is None else _decode_cursor(cursor)
    rows: list[RequestRow] = []
    is_bounded = (wanted.id is None and bool(_other_conditions(wanted))) or is_tail(wanted.id)
    for count in (FIRST_SCANNED, MAX_SCANNED - FIRST_SCANNED) if is_bounded else (None,):
        last = None if count is None else _position_after(conn, wanted, after, count, order)
        statement = select(requests).where(*conditions(wanted, after, last, order)).order_by(*_ORDERS[order])
        rows += read_rows(conn, statement.limit(limit + 1 - len(rows)))
        if len(rows) > limit:
            rows.pop()
            return Page(rows, cursor_of(rows[-1].at_ms, rows[-1].seq))
        after = last
        if last is None:
            return Page(rows, None)
    return Page(rows, None if after is None else cursor_of(*after))


def _position_after(
    conn: Connection, wanted: RequestFilter, after: _Position | None, count: int, order: _Order
) -> _Position | None:
    """The last of so many rows from there on, if there are as many: where a scan without an index stops."""
    scanned = select(_columns.at_ms, _columns.seq).where(*_owners(wanted), *_span(wanted, after, None, order))
    found = conn.execute(scanned.order_by(*_ORDERS[order]).offset(count - 1).limit(1)).first()
    return None if found is None else (found.at_ms, found.seq)


def conditions(
    wanted: RequestFilter, after: _Position | None = None, last: _Position | None = None, order: _Order = "newest"
) -> list[ColumnElement[bool]]:
    """For rows after `after`, up to `last`, in this order."""
    # The most selective ones come first, because SQLite evaluates in this order.
    found = [*_owners(wanted), *_other_conditions(wanted), *_span(wanted, after, last, order)]
    if wanted.id is None:
        return found
    if is_tail(wanted.id):
        return [*found, _ends_with(plain(wanted.id))]
    # Few rows have the id: SQLite must not choose another index because of the order.
    return [_of_id(plain(wanted.id)), case((and_(true(), *found), 1), else_=0) == 1]


def _owners(wanted: RequestFilter) -> list[ColumnElement[bool]]:
    # From the fewest rows to the most: the index of a later one must not be chosen.
    owners: dict[ColumnElement[Any], str | None] = {
        _columns.session: None if is_pattern(wanted.session) else wanted.session,
        _columns.end_user: None if is_pattern(wanted.end_user) else wanted.end_user,
        _columns.key_id: wanted.key_id,
        _columns.workspace_id: wanted.workspace_id,
    }
    found = _equal(owners)
    return [*found[:1], *(case((each, 1), else_=0) == 1 for each in found[1:])]


def _span(
    wanted: RequestFilter, after: _Position | None, last: _Position | None = None, order: _Order = "newest"
) -> list[ColumnElement[bool]]:
    """One bound at each end: SQLite uses an index between two bounds, and checks any other for every row."""
    position = tuple_(_columns.at_ms, _columns.seq)
    since, until = wanted.since_ms, wanted.until_ms
    is_down = order == "newest"
    upper, lower = (after, last) if is_down else (last, after)
    found: list[ColumnElement[bool]] = []
    if upper is not None and (until is None or upper[0] < until):
        found.append(position < tuple_(*upper) if is_down else position <= tuple_(*upper))
    elif until is not None:
        found.append(_columns.at_ms < _bounded(until))
    if lower is not None and (since is None or lower[0] >= since):
        found.append(position >= tuple_(*lower) if is_down else position > tuple_(*lower))
    elif since is not None:
        found.append(_columns.at_ms >= _bounded(since))
    return found


def _other_conditions(wanted: RequestFilter) -> list[ColumnElement[bool]]:
    found = [matches(_columns[name], value) for name in _EQUAL if (value := getattr(wanted, name)) is not None]
    for name in ("session", "end_user"):
        if (value := getattr(wanted, name)) is not None and is_pattern(value):
            found += [_columns[name].is_not(None), matches(_columns[name], value)]
    if wanted.person_id is not None:
        found.append(of_person(wanted.person_id, _columns.key_id, _columns.at_ms))
    if wanted.key_ids is not None:
        found.append(_columns.key_id.in_([plain(key_id) for key_id in wanted.key_ids]))
    if wanted.target is not None:
        is_whole = "/" in wanted.target or is_pattern(wanted.target)
        found.append(matches(_columns.target, wanted.target) if is_whole else _of_provider(wanted.target))
    if wanted.provider is not None:
        found.append(_of_provider(wanted.provider))
    if wanted.status_class is not None:
        first = 100 * _bounded(wanted.status_class, 0, 9)
        found.append(_columns.status.between(first, first + 99))
    if wanted.failed is not None:
        found.append(_columns.error.is_not(None) if wanted.failed else _columns.error.is_(None))
    if wanted.refused is not None:
        is_refused = and_(_columns.verdict == "rejected", _columns.held.is_(None))
        found.append(is_refused if wanted.refused else not_(is_refused))
    if wanted.stream is not None:
        found.append(_columns.stream.is_(wanted.stream))
    if wanted.min_cost is not None:
        found.append(_columns.cost >= _bounded(wanted.min_cost))
    if wanted.max_cost is not None:
        found.append(_columns.cost <= _bounded(wanted.max_cost))
    if wanted.min_price is not None:
        found.append(_columns.price >= _bounded(wanted.min_price))
    if wanted.max_price is not None:
        found.append(_columns.price <= _bounded(wanted.max_price))
    if wanted.tag is not None:  # as a member of the JSON list; `LIKE` of SQLite ignores the case
        member = msgspec.json.encode(plain(wanted.tag)).decode()
        found += [_columns.tags.is_not(None), func.replace(_columns.tags, member, "") != _columns.tags]
    return found


def _of_provider(name: str) -> ColumnElement[bool]:
    if is_pattern(name):
        return matches(_columns.target, f"{name}/*")
    prefix = plain(name) + "/"
    return func.substr(_columns.target, 1, len(prefix)) == prefix


def _equal(values: Mapping[ColumnElement[Any], str | None]) -> list[ColumnElement[bool]]:
    return [column == plain(value) for column, value in values.items() if value is not None]


def is_tail(id: str | None) -> bool:
    """Whether it is searched for as the end of a request id."""
    return id is not None and _TAIL.fullmatch(id) is not None


def _ends_with(tail: str) -> ColumnElement[bool]:
    start = func.length(_columns.request_id) - len(tail) + 1
    return or_(func.substr(_columns.request_id, start) == tail, _columns.completion_id == tail)


def _of_id(id: str) -> ColumnElement[bool]:
    found = or_(_columns.request_id == id, _columns.completion_id == id)
    if len(id) >= MIN_ID_PREFIX:
        # Request ids continue with hexadecimal digits, which sort before `z` in every collation: the range uses an
        # index, and the comparison is exact.
        within = _columns.request_id.between(id, id + "zz")
        found = or_(found, and_(within, func.substr(_columns.request_id, 1, len(id)) == id))
    return _columns.seq.in_(select(_columns.seq).where(found))  # inside, so that its index is chosen first


def cursor_of(at_ms: int, seq: int) -> str:
    """Of a row: what follows it in an order."""
    return base64.urlsafe_b64encode(f"{at_ms}.{seq}".encode()).decode().rstrip("=")


def _decode_cursor(cursor: str) -> _Position:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        at_ms, seq = base64.b64decode(padded, b"-_", validate=True).split(b".")
        position = int(at_ms), int(seq)
    except ValueError as reason:
        raise CallerError("invalid_value", "The cursor is not valid.", param="cursor") from reason
    return _bounded(position[0]), _bounded(position[1])


def _bounded(number: int, minimum: int = -_LARGEST, maximum: int = _LARGEST) -> int:
    """A database refuses a number beyond the range of its columns."""
    return max(minimum, min(number, maximum))


def read_rows(conn: Connection, statement: Select[Any]) -> list[RequestRow]:
    found = [dict(row) for row in conn.execute(statement).mappings()]
    names = names_of(conn, {row["instance"] for row in found})
    return [_read(row, names.get(row["instance"])) for row in found]


def _read(row: dict[str, Any], node: str | None) -> RequestRow:
    for name in _LISTS:
        row[name] = _json(row[name], list) or []
    for name in _OBJECTS:
        row[name] = _json(row[name], dict)
    return RequestRow(**row, node=node)


def _json(text: str | None, kind: type) -> Any:
    """Written by the gateway; if a row was damaged, it is shown without this value."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:
        return None
