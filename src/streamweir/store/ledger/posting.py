"""A batch of entries in one transaction: what is looked up, what follows from it, and what is written.

Entries are applied in order, and each has an effect once: found again, in this batch or in another, it changes
nothing. A request is reserved (it is open, the ledger has its reservation), extended, and settled (it is no longer
open, the ledger has its settlement, the request log its row), all under the lock of its workspace's account. A
settlement releases what the ledger has reserved, whatever the entry says. Its cost is added to every account that its
key has for the time of the request, whichever accounts the reservation named: budgets are added, removed and get
other periods while requests run.

Most entries are new, and a batch is written as if all were. If the database reports that a row exists already, the
caller rolls back and applies the batch again with `careful`, which looks first. That also cleans all text again: it
is the path for a batch that was refused for any reason.

The look-ups find requests by id: those that are open, those in the ledger, those in the log. They are exact for
whoever holds the locks of the workspaces (`store.ledger.accounts`): a request with a reservation and without a
settlement is open, and no other is.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import repeat
from operator import add
from typing import Any

from msgspec import Struct, structs
from sqlalchemy import Connection, select
from sqlalchemy import Row as ResultRow

from streamweir.policy.budget import key_accounts, workspace_account
from streamweir.policy.latency import bucket_of
from streamweir.store.db.request_log import Row
from streamweir.store.db.sql import LookupByIds
from streamweir.store.db.tables import SUMS, TTFT, ledger, open_requests, requests
from streamweir.store.journal.entries import Entry, Extend, Hold, Progress, Settle
from streamweir.store.ledger import accounts
from streamweir.store.ledger.accounts import HOUR_MS
from streamweir.store.ledger.plain_text import with_plain_text
from streamweir.store.ledger.rows import RowBatch, Rows


class RequestState(Struct):
    """One request. `held` is the sum of its hold and its extensions."""

    workspace_id: str
    key_id: str | None
    at_ms: int
    held: int
    account: str | None = None
    idempotency: bytes | None = None
    hold: Hold | None = None
    """Of the batch that is being applied: it is not in the database yet."""
    ending: tuple[int, int | None] | None = None
    """When it was settled, and its cost. None: it is open."""
    kinds: frozenset[str] = frozenset()
    """What the ledger has of it, where that was looked up."""


_open = LookupByIds(
    lambda ids: select(
        open_requests.c.request_id,
        open_requests.c.workspace_id,
        open_requests.c.key_id,
        open_requests.c.at_ms,
        open_requests.c.held,
        open_requests.c.account,
        open_requests.c.idempotency,
    ).where(open_requests.c.request_id.in_(ids))
)
_posted = LookupByIds(
    lambda ids: (
        select(
            ledger.c.request_id,
            ledger.c.kind,
            ledger.c.at_ms,
            ledger.c.workspace_id,
            ledger.c.key_id,
            ledger.c.amount,
            ledger.c.cost,
        )
        .where(ledger.c.request_id.in_(ids))
        .order_by(ledger.c.seq)
    )
)
_logged = LookupByIds(lambda ids: select(requests.c.request_id).where(requests.c.request_id.in_(ids)))


def find_open(conn: Connection, request_ids: Iterable[str]) -> dict[str, RequestState]:
    return {
        id: RequestState(workspace_id, key_id, at_ms, held, account, idempotency)
        for id, workspace_id, key_id, at_ms, held, account, idempotency in _open.run(conn, request_ids)
    }


def find_posted(conn: Connection, request_ids: Iterable[str]) -> dict[str, RequestState]:
    """By the ledger: it knows neither account nor Idempotency-Key."""
    found: dict[str, RequestState] = {}
    for row in _posted.run(conn, request_ids):
        case = found.get(row.request_id)
        if case is None:
            case = found[row.request_id] = RequestState(row.workspace_id, row.key_id, row.at_ms, 0)
        _post(case, row)
    return found


def find_logged(conn: Connection, request_ids: Iterable[str]) -> set[str]:
    return {row[0] for row in _logged.run(conn, request_ids)}


def _post(case: RequestState, row: ResultRow[*tuple[Any, ...]]) -> None:
    case.kinds |= {row.kind}
    if row.kind == "settle":
        case.ending = (row.at_ms, row.cost)
    else:
        case.held -= row.amount


Counts = dict[tuple[Any, ...], list[int]]
"""Of a time, workspace, key, model and provider: the sums and buckets of the tables of usage."""
_Stand = tuple[str | None, int, int | None, int | None, int | None]
"""How far a request is: target, tokens, the moment that this is known of, of the first token, of the last piece."""
_UNKNOWN: _Stand = (None, 0, None, None, None)
MINUTE_MS = 60_000
_COUNTED = len(SUMS) + len(TTFT)
PROMISE_MS = 24 * HOUR_MS
"""How long an Idempotency-Key is remembered."""


class Applied(Struct):
    """What was remarkable about a batch."""

    settled: int = 0
    repeated: int = 0
    """Entries that changed nothing: applied before, or more for a request that is not open."""
    late: list[str] = []
    """Requests that were settled before in another way, which stands: their process had been taken for dead."""
    lost: list[str] = []
    """Requests whose hold never came: it was written with the settlement, as that knew it."""


def apply(conn: Connection, entries: Sequence[Entry], *, careful: bool = False) -> Applied:
    """Where this raises, the transaction must be rolled back."""
    batch = _Batch([with_plain_text(entry) for entry in entries] if careful else entries)
    batch.read(conn, careful)
    batch.fold()
    batch.write(conn)
    return batch.applied


def lock_for(conn: Connection, entries: Collection[Entry]) -> None:
    """The locks that these entries need, all at once, for a transaction that applies and decides in several steps:
    whoever takes them step by step may wait for another who waits for him."""
    workspaces = {entry.workspace_id for entry in entries if isinstance(entry, Hold)}
    workspaces |= {entry.row.workspace_id or "" for entry in entries if isinstance(entry, Settle)}
    extended = [entry.request_id for entry in entries if isinstance(entry, Extend)]
    workspaces |= {case.workspace_id for case in find_open(conn, extended).values()}
    accounts.lock(conn, workspaces)


class _Plan(Struct):
    """What must be locked and looked up before a batch is applied."""

    workspaces: set[str] = set()
    owners: dict[str, str] = {}
    """Accounts of keys that are drawn on, and their workspaces."""
    keys: set[tuple[str, int]] = set()
    """Each with the hour of a request of it: those of its accounts that exist are changed."""
    held: set[str] = set()
    others: dict[str, None] = {}
    """Requests that the batch speaks of before it opens them itself."""
    extended: list[str] = []
    logged: list[str] = []


def _plan(entries: Sequence[Entry]) -> _Plan:
    plan = _Plan()
    workspaces, held, others, logged = plan.workspaces, plan.held, plan.others, plan.logged
    for entry in entries:
        if isinstance(entry, Settle):
            row = entry.row
            workspaces.add(row.workspace_id or "")
            if row.key_id is not None:
                plan.keys.add((row.key_id, row.at_ms // HOUR_MS))
            if row.request_id not in held:
                others[row.request_id] = None
            logged.append(row.request_id)
        elif isinstance(entry, Hold):
            workspaces.add(entry.workspace_id)
            plan.keys.add((entry.key_id, entry.at_ms // HOUR_MS))
            if entry.account is not None:
                plan.owners[entry.account] = entry.workspace_id
            held.add(entry.request_id)
        elif isinstance(entry, Extend):
            if entry.request_id not in held:
                others[entry.request_id] = None
                plan.extended.append(entry.request_id)
        elif not isinstance(entry, Progress):
            logged.append(entry.row.request_id)
    return plan


class _Batch:
    def __init__(self, entries: Sequence[Entry]) -> None:
        self.applied = Applied()
        self._entries = entries
        self._cases: dict[str, RequestState] = {}
        self._rows: dict[str, Row] = {}
        self._logged: set[str] = set()
        self._progress: dict[str, _Stand] = {}
        self._changes: dict[str, list[int]] = {}
        """Spent and held, by the accounts' ids."""
        self._accounts: set[str] = set()
        """Those that exist, of the workspaces and keys of this batch."""
        self._accounts_of: dict[tuple[str, int], list[str]] = {}
        """By a key and an hour, as they are asked for."""
        self._minutes: Counts = {}
        self._book = RowBatch()

    def read(self, conn: Connection, careful: bool) -> None:
        """Takes the locks, makes the accounts, and finds the requests that this batch does not open itself."""
        wanted = _plan(self._entries)
        if wanted.extended:
            wanted.workspaces.update(case.workspace_id for case in find_open(conn, wanted.extended).values())
        self._accounts.update(accounts.lock(conn, wanted.workspaces, wanted.owners, _possible_accounts(wanted.keys)))
        others = wanted.others
        if careful:
            others.update(dict.fromkeys(wanted.held))
            self._logged = find_logged(conn, wanted.logged)
        if not others:
            return
        self._cases = find_open(conn, others)
        absent = [id for id in others if id not in self._cases]
        posted = find_posted(conn, others if careful else [*absent, *wanted.extended])
        lost = {id for id in absent if id not in posted and id not in wanted.held}
        if self._make_unforeseen(conn, wanted.keys, lost):
            self._cases = find_open(conn, others)
        for id, case in posted.items():
            self._cases.setdefault(id, case).kinds = case.kinds

    def _make_unforeseen(self, conn: Connection, keys: Collection[tuple[str, int]], lost: Collection[str]) -> bool:
        """Accounts that an open request has and its settlement did not name, or that a lost hold had. `keys`: those
        whose accounts were looked for."""
        cases, found = self._cases.values(), self._accounts
        owners = {case.account: case.workspace_id for case in cases if case.account is not None}
        for entry in self._entries if lost else ():
            if isinstance(entry, Settle) and entry.account is not None and entry.row.request_id in lost:
                owners[entry.account] = entry.row.workspace_id or ""
        missing = {id: owner for id, owner in owners.items() if id not in found}
        unlocked = {id for id in {case.workspace_id for case in cases} if workspace_account(id) not in found}
        hours = {(case.key_id, case.at_ms // HOUR_MS) for case in cases if case.key_id is not None}
        others = _possible_accounts(hours.difference(keys))
        if missing or unlocked or others:
            found.update(accounts.lock(conn, unlocked, missing, others))
        return bool(missing or unlocked)

    def fold(self) -> None:
        for entry in self._entries:
            if isinstance(entry, Settle):
                self._settle(entry)
            elif isinstance(entry, Hold):
                self._hold(entry)
            elif isinstance(entry, Progress):
                for (id, target, tokens), times in zip(entry.rows, entry.times or repeat((None, None)), strict=False):
                    if entry.at_ms >= (self._progress.get(id, _UNKNOWN)[2] or 0):
                        self._progress[id] = (target or None, tokens, entry.at_ms, *times)
            elif isinstance(entry, Extend):
                self._extend(entry)
            elif entry.row.request_id in self._logged or entry.row.request_id in self._rows:
                self.applied.repeated += 1
            else:
                self._rows[entry.row.request_id] = entry.row

    def _hold(self, entry: Hold) -> None:
        id = entry.request_id
        if id in self._cases:
            self.applied.repeated += 1
            return
        case = self._cases[id] = RequestState(
            entry.workspace_id, entry.key_id, entry.at_ms, entry.amount, entry.account, entry.idempotency, entry
        )
        if case.account is None:  # its key had no budget: an account that there is by now takes it over
            case.account = next(iter(self._key_accounts(case)), None)
        self._book.ledger.append((entry.at_ms, "hold", entry.workspace_id, entry.key_id, id, -entry.amount, None))
        self._change(case, 0, entry.amount)
        if entry.idempotency is not None:
            promise = (entry.key_id, entry.idempotency, entry.body_digest or b"", id)
            self._book.promised.append((*promise, entry.at_ms + PROMISE_MS, entry.at_ms))

    def _extend(self, entry: Extend) -> None:
        case = self._cases.get(entry.request_id)
        kind = f"extend.{entry.number}"
        if case is None or case.ending is not None or kind in case.kinds:
            self.applied.repeated += 1
            return
        case.kinds |= {kind}
        case.held += entry.amount
        row = (entry.at_ms, kind, case.workspace_id, case.key_id, entry.request_id, -entry.amount, None)
        self._book.ledger.append(row)
        self._change(case, 0, entry.amount)
        if case.hold is None:
            self._book.extended.append((case.held, entry.request_id))

    def _settle(self, entry: Settle) -> None:
        row, book = entry.row, self._book
        id, cost, ended_ms = row.request_id, row.cost, row.at_ms + row.duration_ms
        case = self._cases.get(id)
        if case is None:
            case = self._cases[id] = self._find_lost(entry)
        elif case.ending is not None:
            if case.ending == (ended_ms, cost):
                self.applied.repeated += 1
            else:
                self.applied.late.append(id)
            return
        elif case.hold is None:
            book.over.append((id,))
        case.ending = (ended_ms, cost)
        spent, held = cost or 0, case.held
        book.ledger.append((ended_ms, "settle", case.workspace_id, case.key_id, id, held - spent, cost))
        self._change(case, spent, -held)
        if id in self._logged:
            book.replaced.append((id,))
        self._rows[id] = row if row.held == held else structs.replace(row, held=held)
        if case.idempotency is not None:
            (book.freed if entry.frees_idempotency else book.kept).append((case.key_id, case.idempotency, id))
        self._count(entry, case)
        self.applied.settled += 1

    def _find_lost(self, entry: Settle) -> RequestState:
        """No charge without a hold: what should have been there is written now."""
        row = entry.row
        case = RequestState(row.workspace_id or "", row.key_id, row.at_ms, row.held or 0, entry.account)
        hold = (row.at_ms, "hold", case.workspace_id, case.key_id, row.request_id, -case.held, None)
        self._book.ledger.append(hold)
        self._change(case, 0, case.held)
        self.applied.lost.append(row.request_id)
        return case

    def _change(self, case: RequestState, spent: int, held: int) -> None:
        self._add(workspace_account(case.workspace_id), spent, held)
        if case.account is not None:
            self._add(case.account, 0, held)
        if spent:
            for id in self._key_accounts(case):
                self._add(id, spent, 0)

    def _add(self, account_id: str, spent: int, held: int) -> None:
        change = self._changes.get(account_id)
        if change is None:
            self._changes[account_id] = [spent, held]
        else:
            change[0] += spent
            change[1] += held

    def _key_accounts(self, case: RequestState) -> list[str]:
        """Those that the request's key has for the time of the request."""
        if case.key_id is None:
            return []
        key = (case.key_id, case.at_ms // HOUR_MS)
        found = self._accounts_of.get(key)
        if found is None:
            found = self._accounts_of[key] = sorted(_possible_accounts([key]) & self._accounts)
        return found

    def _count(self, entry: Settle, case: RequestState) -> None:
        row = entry.row
        provider = row.target.partition("/")[0] if row.target is not None else ""
        minute = (case.at_ms // MINUTE_MS, case.workspace_id, case.key_id or "", row.model or "", provider)
        sums = self._minutes.get(minute)
        if sums is None:
            sums = self._minutes[minute] = [0] * _COUNTED
        sums[0] += 1
        sums[1] += row.error is not None
        sums[2] += row.prompt_tokens or 0
        sums[3] += entry.cached_tokens
        sums[4] += row.completion_tokens or 0
        sums[5] += entry.reasoning_tokens
        sums[6] += row.cost or 0
        sums[7] += row.cost is None
        if row.stream and row.ttft_ms is not None:
            sums[8 + bucket_of(row.ttft_ms)] += 1

    def write(self, conn: Connection) -> None:
        book = self._book
        book.requests = [structs.astuple(row) for row in self._rows.values()]
        quarters = _coarser(self._minutes, 15)
        hours = _coarser(quarters, 4)
        book.minutes, book.quarters = _usage_rows(self._minutes), _usage_rows(quarters)
        book.hours, book.days = _usage_rows(hours), _usage_rows(_coarser(hours, 24))
        for id, case in self._cases.items():
            if case.hold is not None and case.ending is None:
                book.opened.append(_open_row(case, case.hold, self._progress.pop(id, _UNKNOWN)))
        for id, stand in self._progress.items():
            known = self._cases.get(id)
            if known is None or known.ending is None:
                book.advanced.append((*stand, stand[2], id))
        book.write(conn)
        accounts.change(conn, self._changes)


def _possible_accounts(keys: Collection[tuple[str, int]]) -> set[str]:
    """Of keys, each with an hour: one for each kind of period."""
    return {id for key_id, hour in keys for id in key_accounts(key_id, hour * (HOUR_MS // 1000))}


def _coarser(counts: Counts, times: int) -> Counts:
    """The same by units that are so many times as long."""
    found: Counts = {}
    for (at, *which), sums in counts.items():
        place = (at // times, *which)
        before = found.get(place)
        found[place] = sums if before is None else list(map(add, before, sums))
    return found


def _usage_rows(counts: Counts) -> Rows:
    return [(*place, *sums) for place, sums in counts.items()]


def _open_row(case: RequestState, hold: Hold, stand: _Stand) -> tuple[Any, ...]:
    target, tokens, progress_ms, first_ms, last_ms = stand
    return (
        hold.request_id,
        hold.instance,
        hold.at_ms,
        hold.workspace_id,
        hold.key_id,
        hold.key_name,
        hold.dialect,
        hold.model,
        target,
        hold.stream,
        case.held,
        case.account,
        hold.prices,
        hold.prompt_tokens,
        tokens,
        progress_ms,
        hold.idempotency,
        first_ms,
        last_ms,
    )
