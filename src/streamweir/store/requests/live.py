"""The open requests: shown to operators, stopped by them, and settled if their process is dead."""

from collections.abc import Collection

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Select, func, select, update

from streamweir.store.db.tables import instances, open_requests
from streamweir.store.journal.entries import plain
from streamweir.store.requests.instances import is_alive, now_of
from streamweir.store.requests.ownership import of_person


class OpenRequest(Struct, frozen=True, kw_only=True):
    """A row of `tables.open_requests`."""

    request_id: str
    instance: str
    at_ms: int
    workspace_id: str
    key_id: str
    key_name: str
    dialect: str
    model: str
    target: str | None
    stream: bool
    held: int
    account: str | None
    prices: str
    prompt_tokens: int
    output_tokens: int
    progress_ms: int | None
    """When its progress last changed."""
    cancel_ms: int | None
    first_ms: int | None
    """When the first token of a stream was sent."""
    last_ms: int | None
    """When its last piece was sent, to within a second."""
    end_user: str | None
    """Like the next two: what the caller says about it."""
    session: str | None
    tags: str | None
    accounts: str | None
    """JSON list: of rules under [[limits]]."""
    readers: int | None
    """Of a resumable stream: how many read it, at all nodes."""
    reader_gap_count: int | None
    """How often nobody read it."""
    away_since_ms: int | None
    """Since when nobody reads it."""
    node: str | None
    """The name of the node that runs it."""


class LiveInstances(Struct, frozen=True, kw_only=True):
    """Which processes count as alive: the calling one, and those with a recent heartbeat."""

    own: str
    now_ms: int
    silent_ms: int

    def condition(self, conn: Connection) -> ColumnElement[bool]:
        return is_alive(now_of(conn, self.now_ms) - self.silent_ms, self.own)


_columns = open_requests.c
_joined = open_requests.outerjoin(instances, instances.c.id == _columns.instance)
_own = [_columns[name] for name in OpenRequest.__struct_fields__ if name != "node"]
_rows = select(*_own, instances.c.node).select_from(_joined)


def open_of(
    conn: Connection, workspace_id: str | None, limit: int, alive: LiveInstances | None = None
) -> list[OpenRequest]:
    """The newest first. None: of all workspaces. `alive`: without those of dead processes."""
    statement = _rows.order_by(_columns.request_id.desc()).limit(limit)
    return _load(conn, statement.where(*_wanted(conn, workspace_id, alive)))


def count_open(
    conn: Connection, workspace_id: str | None, alive: LiveInstances | None = None, *, person_id: str | None = None
) -> int:
    """As `open_of`. `person_id`: of what this person may see."""
    statement = select(func.count()).select_from(_joined if alive is not None else open_requests)
    if person_id is not None:
        statement = statement.where(of_person(person_id, _columns.key_id, _columns.at_ms))
    return conn.execute(statement.where(*_wanted(conn, workspace_id, alive))).scalar_one()


def count_on_node(conn: Connection, node: str, alive: LiveInstances) -> int:
    """Of the processes that share this name."""
    statement = select(func.count()).select_from(_joined).where(instances.c.node == plain(node), alive.condition(conn))
    return conn.execute(statement).scalar_one()


def _wanted(conn: Connection, workspace_id: str | None, alive: LiveInstances | None) -> list[ColumnElement[bool]]:
    within = [_columns.workspace_id == plain(workspace_id)] if workspace_id is not None else []
    return within if alive is None else [*within, alive.condition(conn)]


def find_open(
    conn: Connection, request_id: str, workspace_id: str | None = None, *, person_id: str | None = None
) -> OpenRequest | None:
    """Within the workspace, and of what the person may see. None: within all."""
    statement = _rows.where(_columns.request_id == plain(request_id))
    if workspace_id is not None:
        statement = statement.where(_columns.workspace_id == plain(workspace_id))
    if person_id is not None:
        statement = statement.where(of_person(person_id, _columns.key_id, _columns.at_ms))
    return next(iter(_load(conn, statement)), None)


def opened_by(conn: Connection, instances: Collection[str], limit: int) -> list[OpenRequest]:
    """The oldest first."""
    return _load(conn, _rows.where(_columns.instance.in_(instances)).order_by(_columns.request_id).limit(limit))


def cancel(conn: Connection, request_id: str, workspace_id: str | None, now_ms: int) -> bool:
    """Whether there is such a request, within the workspace (None: within all). Its process stops it soon."""
    statement = update(open_requests).where(_columns.request_id == plain(request_id))
    if workspace_id is not None:
        statement = statement.where(_columns.workspace_id == plain(workspace_id))
    return conn.execute(statement.values(cancel_ms=func.coalesce(_columns.cancel_ms, now_ms))).rowcount == 1


def cancelled(conn: Connection, instance: str) -> list[str]:
    """The requests of a process that must be stopped."""
    wanted = select(_columns.request_id).where(_columns.instance == instance, _columns.cancel_ms.is_not(None))
    return list(conn.scalars(wanted.order_by(_columns.request_id)))


def _load(conn: Connection, statement: Select[*tuple[object, ...]]) -> list[OpenRequest]:
    return [OpenRequest(**row) for row in conn.execute(statement).mappings()]
