"""The log of requests as it is read: one by either of its ids, pages of them, and the new ones as they end.

A reader is bound to a workspace by what it is handed: another's id is not found, as one that does
not exist. Pages go from the newest arrival back, each from where the last one ended, so that rows
which come meanwhile neither shift nor repeat any. A filter by an index (time, workspace, key, id) is
cheap however long the log is; for the others rows are looked at one by one, so many for a page and not
more. Nothing is written here, and content is not known.
"""

import base64
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Select, and_, case, func, or_, select, true, tuple_

from streamweir.core.errors import CallerError
from streamweir.store.record import plain
from streamweir.store.tables import open_requests, requests

MOST_ROWS = 1000
"""On a page."""
MOST_LOOKED_AT = 50_000
"""Rows, for a page: a twentieth of a second."""
SHORTEST_BEGINNING = 12
"""Of a request id: what it says is the minute."""
_LARGEST = 2**63 - 1
_columns = requests.c
_newest_first = (_columns.at_ms.desc(), _columns.seq.desc())


class RequestRow(Struct, frozen=True, kw_only=True):
    """The columns of `tables.requests`, those of JSON as what they say."""

    seq: int
    request_id: str
    completion_id: str | None
    at_ms: int
    workspace_id: str | None
    key_id: str | None
    key_name: str | None
    dialect: str | None
    model: str | None
    target: str | None
    attempts: list[Any]
    stream: bool
    status: int
    verdict: str
    error: str | None
    finish: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    usage: dict[str, Any] | None
    usage_source: str | None
    flags: list[Any]
    held: int | None
    cost: int | None
    price_version: str | None
    ttft_ms: int | None
    duration_ms: int
    chunks: int | None
    gap_p50_ms: int | None
    gap_p99_ms: int | None
    gap_max_ms: int | None
    bytes_in: int | None
    bytes_out: int | None
    peer: str | None
    client: str | None
    client_id: str | None
    dropped: list[Any]
    instance: str
    has_content: bool


class RequestFilter(Struct, frozen=True, kw_only=True):
    """What is not given does not count."""

    workspace_id: str | None = None
    """None: every workspace."""
    key_id: str | None = None
    model: str | None = None
    """As asked for."""
    target: str | None = None
    """`{provider}/{model}`, or a provider."""
    verdict: str | None = None
    status_class: int | None = None
    """2, 4, 5."""
    error: str | None = None
    """A code."""
    failed: bool | None = None
    """Whether it has a code at all."""
    stream: bool | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    """The first moment that is too late."""
    id: str | None = None
    """A request id or its beginning, of `SHORTEST_BEGINNING` characters or more, or a completion id."""


class Page(Struct, frozen=True):
    rows: list[RequestRow]
    next: str | None
    """The cursor of the next page, if there is one."""


def find_request(conn: Connection, id: str, workspace_id: str | None = None) -> RequestRow | None:
    """By the request id, else the newest of that completion id: an upstream may have used it more than once."""
    id = plain(id)
    within = _equal({_columns.workspace_id: workspace_id})
    found = read_rows(conn, select(requests).where(_columns.request_id == id, *within))
    if not found:
        by_completion = select(requests).where(_columns.completion_id == id, *within)
        found = read_rows(conn, by_completion.order_by(_columns.seq.desc()).limit(1))
    return found[0] if found else None


def is_running(conn: Connection, request_id: str, workspace_id: str | None = None) -> bool:
    """It has no row yet, for it is not over."""
    statement = select(open_requests.c.request_id).where(open_requests.c.request_id == plain(request_id))
    if workspace_id is not None:
        statement = statement.where(open_requests.c.workspace_id == plain(workspace_id))
    return conn.execute(statement).first() is not None


def list_requests(conn: Connection, wanted: RequestFilter, *, cursor: str | None = None, limit: int = 50) -> Page:
    """Raises `CallerError` for a cursor that no page gave.

    A page may hold fewer rows than were asked for, or none, and have a next one: it has looked at `MOST_LOOKED_AT`.
    """
    limit = max(1, min(limit, MOST_ROWS))
    place = tuple_(_columns.at_ms, _columns.seq)
    after = [] if cursor is None else [place < tuple_(*_decode_cursor(cursor))]
    others = _other_conditions(wanted)
    last = None
    if others and wanted.id is None:
        looked_at = select(_columns.at_ms, _columns.seq).where(*_indexed_conditions(wanted), *after)
        last = conn.execute(looked_at.order_by(*_newest_first).offset(MOST_LOOKED_AT - 1).limit(1)).first()
    statement = select(requests).where(*conditions(wanted), *after).order_by(*_newest_first).limit(limit + 1)
    if last is not None:
        statement = statement.where(place >= tuple_(*last))
    rows = read_rows(conn, statement)
    if len(rows) <= limit:
        return Page(rows, None if last is None else _encode_cursor(*last))
    rows.pop()
    return Page(rows, _encode_cursor(rows[-1].at_ms, rows[-1].seq))


def conditions(wanted: RequestFilter) -> list[ColumnElement[bool]]:
    found = [*_indexed_conditions(wanted), *_other_conditions(wanted)]
    if wanted.id is None:
        return found
    # Few have the id: no other index is to be chosen, as SQLite would for the order's sake.
    return [_of_id(plain(wanted.id)), case((and_(true(), *found), 1), else_=0) == 1]


def _indexed_conditions(wanted: RequestFilter) -> list[ColumnElement[bool]]:
    found = _equal({_columns.workspace_id: wanted.workspace_id, _columns.key_id: wanted.key_id})
    if wanted.since_ms is not None:
        found.append(_columns.at_ms >= _bounded(wanted.since_ms))
    if wanted.until_ms is not None:
        found.append(_columns.at_ms < _bounded(wanted.until_ms))
    return found


def _other_conditions(wanted: RequestFilter) -> list[ColumnElement[bool]]:
    found = _equal({_columns.model: wanted.model, _columns.verdict: wanted.verdict, _columns.error: wanted.error})
    if wanted.target is not None:
        provider = plain(wanted.target) + "/"
        of_provider = func.substr(_columns.target, 1, len(provider)) == provider
        found.append(or_(_columns.target == plain(wanted.target), of_provider))
    if wanted.status_class is not None:
        first = 100 * _bounded(wanted.status_class, 0, 9)
        found.append(_columns.status.between(first, first + 99))
    if wanted.failed is not None:
        found.append(_columns.error.is_not(None) if wanted.failed else _columns.error.is_(None))
    if wanted.stream is not None:
        found.append(_columns.stream.is_(wanted.stream))
    return found


def _equal(values: Mapping[ColumnElement[Any], str | None]) -> list[ColumnElement[bool]]:
    return [column == plain(value) for column, value in values.items() if value is not None]


def _of_id(id: str) -> ColumnElement[bool]:
    found = or_(_columns.request_id == id, _columns.completion_id == id)
    if len(id) >= SHORTEST_BEGINNING:
        # Request ids go on in hexadecimal digits, which sort before `z` in every collation: the range is what an
        # index answers, and the comparison what holds.
        within = _columns.request_id.between(id, id + "zz")
        found = or_(found, and_(within, func.substr(_columns.request_id, 1, len(id)) == id))
    return _columns.seq.in_(select(_columns.seq).where(found))  # inside, so that an index of it is chosen first


def _encode_cursor(at_ms: int, seq: int) -> str:
    return base64.urlsafe_b64encode(f"{at_ms}.{seq}".encode()).decode().rstrip("=")


def _decode_cursor(cursor: str) -> tuple[int, int]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        at_ms, seq = base64.b64decode(padded, b"-_", validate=True).split(b".")
        place = int(at_ms), int(seq)
    except ValueError as reason:
        raise CallerError("invalid_value", "The cursor is not one that a page gave.", param="cursor") from reason
    return _bounded(place[0]), _bounded(place[1])


def _bounded(number: int, least: int = -_LARGEST, most: int = _LARGEST) -> int:
    """A database refuses a number that is beyond its columns."""
    return max(least, min(number, most))


def read_rows(conn: Connection, statement: Select[Any]) -> list[RequestRow]:
    return [_read(dict(row)) for row in conn.execute(statement).mappings()]


def _read(row: dict[str, Any]) -> RequestRow:
    for name in ("attempts", "flags", "dropped"):
        row[name] = _json(row[name], list) or []
    row["usage"] = _json(row["usage"], dict)
    return RequestRow(**row)


def _json(text: str | None, kind: type) -> Any:
    """We wrote it; a row that somebody has spoilt is shown without it."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:
        return None
