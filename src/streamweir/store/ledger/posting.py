"""A batch of entries in one transaction: what is looked up, what follows from it, and what is written.

Entries are applied in order, and each has an effect once: found again, in this batch or in another, it changes
nothing. A request is reserved (it is open, the ledger has its reservation), extended, and settled (it is no longer
open, the ledger has its settlement, the request log its row), all under the lock of its workspace's account. A
settlement releases what the ledger has reserved, whatever the entry says. Its price is added to every account that its
key has for the time of the request, whichever accounts the reservation named: budgets are added, removed and get
other periods while requests run. The same holds for accounts of rules (`store.ledger.rule_accounts`), and a reservation
is held on all of them as well: its process may not know a rule, or not yet again.

Most entries are new, and a batch is written as if all were. If the database reports that a row exists already, the
caller rolls back and applies the batch again with `check_existing`, which looks existing rows up first. It also cleans
all text again: it is the path for a batch that was refused for any reason.

What is looked up is exact while the locks of the workspaces are held (`store.ledger.request_state`).
"""

from collections.abc import Collection, Sequence
from itertools import repeat
from typing import Any

from msgspec import Struct, structs
from sqlalchemy import Connection

from streamweir.policy.end_user import digest_of_user
from streamweir.policy.limits.budget import key_accounts, workspace_account
from streamweir.policy.limits.limit_rule import RuleScope
from streamweir.store.db.request_log import Row
from streamweir.store.journal.entries import Entry, Extend, Hold, Progress, Settle
from streamweir.store.ledger import accounts, rule_accounts
from streamweir.store.ledger.counting import UsageCounts
from streamweir.store.ledger.period import HOUR_MS
from streamweir.store.ledger.plain_text import with_plain_text
from streamweir.store.ledger.request_state import RequestState, find_logged, find_open, find_posted
from streamweir.store.ledger.rows import RowBatch

_ProgressValues = tuple[str | None, int, int | None, int | None, int | None, int | None, int | None, int | None]
"""The progress of a request: target, tokens, time of the report, of the first token, of the last piece; of a resumable
stream its readers, how often it had none, and since when it has none."""
_NO_TIMES = None, None
_NO_READERS = None, None, None
_UNKNOWN: _ProgressValues = (None, 0, None, *_NO_TIMES, *_NO_READERS)
IDEMPOTENCY_MS = 24 * HOUR_MS
"""How long an Idempotency-Key is remembered."""


class ApplyResult(Struct):
    """What applying a batch found."""

    settled: int = 0
    repeated: int = 0
    """Entries without effect: already applied, or an extension of a request that is not open."""
    late: list[str] = []
    """Requests that already had a different settlement, which is kept: another process had settled them as orphans."""
    lost: list[str] = []
    """Requests without a reservation in the ledger: it was written together with the settlement, with its amount."""


def apply(conn: Connection, entries: Sequence[Entry], *, check_existing: bool = False) -> ApplyResult:
    """The caller must roll the transaction back if this raises."""
    batch = _Batch([with_plain_text(entry) for entry in entries] if check_existing else entries)
    batch.read(conn, check_existing)
    batch.fold()
    batch.write(conn)
    return batch.result


def lock_for(conn: Connection, entries: Collection[Entry]) -> None:
    """Takes all locks that these entries need at once, for a transaction that applies and decides in several steps.
    Taking them step by step could end in a deadlock."""
    workspaces = {entry.workspace_id for entry in entries if isinstance(entry, Hold)}
    workspaces |= {entry.row.workspace_id or "" for entry in entries if isinstance(entry, Settle)}
    extended = [entry.request_id for entry in entries if isinstance(entry, Extend)]
    workspaces |= {state.workspace_id for state in find_open(conn, extended).values()}
    accounts.lock(conn, workspaces)


_Spender = tuple[str, str, str, int]
"""Workspace, key, digest of the end user, and hour."""


def _spender_of(entry: Row | Hold) -> _Spender:
    return entry.workspace_id or "", entry.key_id or "", digest_of_user(entry.end_user), entry.at_ms // HOUR_MS


def _spenders(entries: Sequence[Entry]) -> set[_Spender]:
    """Who reserves or has spent: the existing accounts of rules for them are updated."""
    held = {_spender_of(entry) for entry in entries if isinstance(entry, Hold)}
    return held | {_spender_of(entry.row) for entry in entries if isinstance(entry, Settle)}


class _Plan(Struct):
    """What must be locked and looked up before a batch is applied."""

    workspaces: set[str] = set()
    owners: dict[str, str] = {}
    """Accounts of keys and rules that are charged, and their workspaces."""
    keys: set[tuple[str, int]] = set()
    """Keys, each with the hour of one of its requests: its existing accounts are updated."""
    held: set[str] = set()
    others: dict[str, None] = {}
    """Requests that the batch refers to without having opened them before."""
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
            if entry.accounts:
                plan.owners.update(dict.fromkeys(entry.accounts, entry.workspace_id))
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
        self.result = ApplyResult()
        self._entries = entries
        self._states: dict[str, RequestState] = {}
        self._rows: dict[str, Row] = {}
        self._logged: set[str] = set()
        self._progress: dict[str, _ProgressValues] = {}
        self._changes: dict[str, list[int]] = {}
        """Spent and held amounts, by account id."""
        self._accounts: set[str] = set()
        """The existing accounts of the workspaces and keys of this batch."""
        self._accounts_of: dict[tuple[str, int], list[str]] = {}
        """Accounts by key and hour, filled on demand."""
        self._scopes: dict[str, list[RuleScope]] = {}
        self._usage = UsageCounts()
        self._rows_to_write = RowBatch()

    def read(self, conn: Connection, check_existing: bool) -> None:
        """Takes the locks, creates the accounts, and finds the requests that this batch does not open itself."""
        plan = _plan(self._entries)
        if plan.extended:
            plan.workspaces.update(state.workspace_id for state in find_open(conn, plan.extended).values())
        self._accounts.update(accounts.lock(conn, plan.workspaces, plan.owners, _possible_accounts(plan.keys)))
        if plan.held or plan.logged:
            # Under the locks: another transaction may have created the first account of a rule meanwhile.
            self._scopes = rule_accounts.find_scopes(conn, sorted(plan.workspaces))
            if self._scopes:
                of_rules = rule_accounts.possible_accounts(self._scopes, _spenders(self._entries))
                self._accounts.update(accounts.lock(conn, (), others=of_rules))
        others = plan.others
        if check_existing:
            others.update(dict.fromkeys(plan.held))
            self._logged = find_logged(conn, plan.logged)
        if not others:
            return
        self._states = find_open(conn, others)
        absent = [id for id in others if id not in self._states]
        posted = find_posted(conn, others if check_existing else [*absent, *plan.extended])
        lost = {id for id in absent if id not in posted and id not in plan.held}
        if self._lock_missing_accounts(conn, plan.keys, lost):
            self._states = find_open(conn, others)
        for id, state in posted.items():
            self._states.setdefault(id, state).kinds = state.kinds

    def _lock_missing_accounts(
        self, conn: Connection, keys: Collection[tuple[str, int]], lost: Collection[str]
    ) -> bool:
        """Locks the accounts that the entries do not name: of open requests, and of lost reservations. `keys`: those
        whose accounts were already looked up. True if requests must be read again."""
        states, found = self._states.values(), self._accounts
        owners = {state.account: state.workspace_id for state in states if state.account is not None}
        owners |= {account: state.workspace_id for state in states for account in state.accounts}
        for entry in self._entries if lost else ():
            if isinstance(entry, Settle) and entry.row.request_id in lost:
                of_entry = entry.accounts if entry.account is None else (entry.account, *entry.accounts)
                owners |= dict.fromkeys(of_entry, entry.row.workspace_id or "")
        missing = {id: owner for id, owner in owners.items() if id not in found}
        unlocked = {id for id in {state.workspace_id for state in states} if workspace_account(id) not in found}
        hours = {(state.key_id, state.at_ms // HOUR_MS) for state in states if state.key_id is not None}
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
                times, readers = entry.times or repeat(_NO_TIMES), entry.readers or repeat(None)
                for (id, target, tokens), moments, read in zip(entry.rows, times, readers, strict=False):
                    if entry.at_ms >= (self._progress.get(id, _UNKNOWN)[2] or 0):
                        self._progress[id] = (target or None, tokens, entry.at_ms, *moments, *(read or _NO_READERS))
            elif isinstance(entry, Extend):
                self._extend(entry)
            elif entry.row.request_id in self._logged or entry.row.request_id in self._rows:
                self.result.repeated += 1
            else:
                self._rows[entry.row.request_id] = entry.row

    def _hold(self, entry: Hold) -> None:
        id = entry.request_id
        if id in self._states:
            self.result.repeated += 1
            return
        state = self._states[id] = RequestState(
            entry.workspace_id,
            entry.key_id,
            entry.at_ms,
            entry.amount,
            entry.account,
            entry.idempotency,
            entry,
            entry.accounts,
        )
        if state.account is None:  # the key had no budget then; an account that was created since takes it
            state.account = next(iter(self._key_accounts(state)), None)
        if self._scopes:  # likewise
            state.accounts = tuple(dict.fromkeys((*entry.accounts, *sorted(self._rule_accounts(entry)))))
        self._rows_to_write.ledger.append(
            (entry.at_ms, "hold", entry.workspace_id, entry.key_id, id, -entry.amount, None, None)
        )
        self._change(state, 0, entry.amount)
        if entry.idempotency is not None:
            idempotency_row = (entry.key_id, entry.idempotency, entry.body_digest or b"", id)
            self._rows_to_write.idempotency_opened.append((*idempotency_row, entry.at_ms + IDEMPOTENCY_MS, entry.at_ms))

    def _extend(self, entry: Extend) -> None:
        state = self._states.get(entry.request_id)
        kind = f"extend.{entry.number}"
        if state is None or state.settlement is not None or kind in state.kinds:
            self.result.repeated += 1
            return
        state.kinds |= {kind}
        state.held += entry.amount
        row = (entry.at_ms, kind, state.workspace_id, state.key_id, entry.request_id, -entry.amount, None, None)
        self._rows_to_write.ledger.append(row)
        self._change(state, 0, entry.amount)
        if state.hold is None:
            self._rows_to_write.extended.append((state.held, entry.request_id))

    def _settle(self, entry: Settle) -> None:
        row, rows = entry.priced_row(), self._rows_to_write
        id, price, ended_ms = row.request_id, row.price, row.at_ms + row.duration_ms
        state = self._states.get(id)
        if state is None:
            state = self._states[id] = self._restore_lost_hold(entry)
        elif state.settlement is not None:
            if state.settlement == (ended_ms, price):
                self.result.repeated += 1
            else:
                self.result.late.append(id)
            return
        elif state.hold is None:
            rows.closed.append((id,))
        state.settlement = (ended_ms, price)
        spent, held = price or 0, state.held
        settlement = (ended_ms, "settle", state.workspace_id, state.key_id, id, held - spent, row.cost, price)
        rows.ledger.append(settlement)
        self._change(state, spent, -held)
        if spent and self._scopes:
            for account in self._rule_accounts(row):
                self._add(account, spent, 0)
        if id in self._logged:
            rows.replaced.append((id,))
        self._rows[id] = row if row.held == held else structs.replace(row, held=held)
        if state.idempotency is not None:
            (rows.idempotency_freed if entry.frees_idempotency else rows.idempotency_completed).append(
                (state.key_id, state.idempotency, id)
            )
        self._usage.add(entry, row, state.at_ms, state.workspace_id, state.key_id or "")
        self.result.settled += 1

    def _restore_lost_hold(self, entry: Settle) -> RequestState:
        """Writes the missing reservation: nothing is charged without one."""
        row = entry.row
        state = RequestState(
            row.workspace_id or "", row.key_id, row.at_ms, row.held or 0, entry.account, accounts=entry.accounts
        )
        hold = (row.at_ms, "hold", state.workspace_id, state.key_id, row.request_id, -state.held, None, None)
        self._rows_to_write.ledger.append(hold)
        self._change(state, 0, state.held)
        self.result.lost.append(row.request_id)
        return state

    def _change(self, state: RequestState, spent: int, held: int) -> None:
        self._add(workspace_account(state.workspace_id), spent, held)
        if state.account is not None:
            self._add(state.account, 0, held)
        for id in state.accounts:
            self._add(id, 0, held)
        if spent:
            for id in self._key_accounts(state):
                self._add(id, spent, 0)

    def _add(self, account_id: str, spent: int, held: int) -> None:
        change = self._changes.get(account_id)
        if change is None:
            self._changes[account_id] = [spent, held]
        else:
            change[0] += spent
            change[1] += held

    def _key_accounts(self, state: RequestState) -> list[str]:
        """The accounts of the request's key at the time of the request."""
        if state.key_id is None:
            return []
        key = (state.key_id, state.at_ms // HOUR_MS)
        found = self._accounts_of.get(key)
        if found is None:
            found = self._accounts_of[key] = sorted(_possible_accounts([key]) & self._accounts)
        return found

    def _rule_accounts(self, entry: Row | Hold) -> set[str]:
        """The accounts of rules that it counts on, of those that exist."""
        return rule_accounts.possible_accounts(self._scopes, [_spender_of(entry)]) & self._accounts

    def write(self, conn: Connection) -> None:
        rows = self._rows_to_write
        rows.requests = list(self._rows.values())
        self._usage.put_into(rows)
        for id, state in self._states.items():
            if state.hold is not None and state.settlement is None:
                rows.opened.append(_open_row(state, state.hold, self._progress.pop(id, _UNKNOWN)))
        for id, progress in self._progress.items():
            known = self._states.get(id)
            if known is None or known.settlement is None:
                rows.progressed.append((*progress, progress[2], id))
        rows.write(conn)
        accounts.change(conn, self._changes)


def _possible_accounts(keys: Collection[tuple[str, int]]) -> set[str]:
    """The accounts of keys at an hour: one for each kind of period."""
    return {id for key_id, hour in keys for id in key_accounts(key_id, hour * (HOUR_MS // 1000))}


def _open_row(state: RequestState, hold: Hold, progress: _ProgressValues) -> tuple[Any, ...]:
    target, tokens, progress_ms, first_ms, last_ms, *readers = progress
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
        state.held,
        state.account,
        hold.prices,
        hold.prompt_tokens,
        tokens,
        progress_ms,
        hold.idempotency,
        first_ms,
        last_ms,
        hold.end_user,
        hold.session,
        hold.tags,
        rule_accounts.accounts_text(state.accounts),
        *readers,
    )
