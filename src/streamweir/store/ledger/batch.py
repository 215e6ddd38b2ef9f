"""Entries into the database, in order, many in one transaction; one bad entry does not stop the others.

A batch is first applied as if all of its entries were new. If a row exists already, or a commit may or may not have
been done, it is repeated with `check_existing`, which costs a look-up. An entry that the database refuses even then is
found by bisection: it goes into the quarantine, and the others are committed. An unavailable database is not handled
here: `StoreUnavailable` is raised, and `done` has been called for what was committed until then.

The quarantine is a file with one line of JSON per entry, for an operator. It is written and synced before the entry
counts as done, so that nothing is lost silently. It is private and bounded: when it is full, it replaces the previous
one. Writing to it blocks.
"""

import asyncio
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, StatementError

from streamweir.store.db.base import Store, StoreUnavailable
from streamweir.store.db.clock import now_ms
from streamweir.store.journal.entries import Entry, Refused, Settle
from streamweir.store.journal.files import make_folder
from streamweir.store.journal.journal import ReportEvent
from streamweir.store.ledger import posting

MAX_BYTES = 8 << 20
"""The maximum size of one file; there are two at most."""


class Quarantine:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "quarantine.jsonl"
        self._older = folder / "quarantine.1.jsonl"

    def add(self, at_ms: int, reason: str, entry: Any) -> None:
        """Raises OSError if it cannot be written: then it must be tried again."""
        line = msgspec.json.encode({"at_ms": at_ms, "reason": reason, "entry": entry}) + b"\n"
        make_folder(self.path.parent)
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size and size + len(line) > MAX_BYTES:
                self.path.rename(self._older)
                os.close(descriptor)
                descriptor = os.open(
                    self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600
                )
                size = 0
            try:
                written = os.write(descriptor, line)
                while written < len(line):
                    written += os.write(descriptor, line[written:])
                os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, size)  # half a line would spoil the next one
                raise
        finally:
            os.close(descriptor)


MAX_BATCH_ENTRIES = 500
"""Entries in one transaction: more would only delay other transactions."""

_FIRST_RETRY_S, _MAX_RETRY_S = 0.1, 5.0

APPLY_S = 5.0

_REFUSED_STATES = ("22", "23", "54")
"""SQLSTATE classes: the data, a constraint, a limit of the program."""


class Batcher:
    """Counters: `applied`, `batches`, `repeats`, `quarantined`. `count` reports the anomalies of a batch."""

    def __init__(
        self, store: Store, quarantine: Quarantine | None, report: ReportEvent, *, timeout_s: float = APPLY_S
    ) -> None:
        self.applied = self.batches = self.repeats = self.quarantined = 0
        self._store = store
        self._quarantine = quarantine
        self._report = report
        self._timeout_s = timeout_s

    async def apply(
        self, entries: Sequence[Entry], done: Callable[[int], None], *, check_existing: bool = False
    ) -> None:
        """Calls `done` with the number of further entries, from the first on, that are applied or quarantined."""
        if not entries:
            return
        try:
            applied = await self._store.write(
                lambda conn: posting.apply(conn, entries, check_existing=check_existing), timeout_s=self._timeout_s
            )
        except (DBAPIError, StatementError, ValueError, OverflowError) as fault:
            if not is_about_rows(fault):
                raise StoreUnavailable(f"the database refuses to work: {reason_of(fault)}") from fault
            reason = reason_of(fault)
        else:
            self.count(len(entries), applied)
            done(len(entries))
            return
        self.repeats += 1
        if not check_existing:
            await self.apply(entries, done, check_existing=True)
        elif len(entries) == 1:
            await self.set_aside(reason, entries[0], request_id_of(entries[0]))
            done(1)
        else:
            half = len(entries) // 2
            await self.apply(entries[:half], done, check_existing=True)
            await self.apply(entries[half:], done, check_existing=True)

    def count(self, entries: int, applied: posting.ApplyResult | None) -> None:
        self.batches += 1
        self.applied += entries
        if applied is not None and applied.late:
            self._report("settled_twice", {"request_ids": applied.late})
        if applied is not None and applied.lost:
            self._report("settled_without_hold", {"request_ids": applied.lost})

    async def set_aside(self, reason: str, entry: Any, request_id: str | None) -> None:
        """Writes the entry to the quarantine. If that fails, it raises StoreUnavailable, so that it is tried again."""
        if self._quarantine is not None:
            try:
                await asyncio.to_thread(self._quarantine.add, now_ms(), reason, entry)
            except OSError as fault:
                raise StoreUnavailable(f"the quarantine cannot be written: {fault.strerror}") from fault
        self.quarantined += 1
        self._report("entry_quarantined", {"request_id": request_id, "reason": reason})


def retry_s(failures: int) -> float:
    """The pause after this many failures in a row, with jitter."""
    return min(_MAX_RETRY_S, _FIRST_RETRY_S * 2.0 ** min(failures - 1, 10)) * random.uniform(0.5, 1.0)  # noqa: S311


def is_about_rows(fault: BaseException) -> bool:
    """The error concerns the rows: another attempt would fail too, and other entries may succeed."""
    if isinstance(fault, DataError | IntegrityError):
        return True
    if isinstance(fault, DBAPIError):
        cause = _cause(fault)
        return isinstance(cause, ValueError) or _state(cause).startswith(_REFUSED_STATES)
    return isinstance(fault, StatementError | ValueError | OverflowError)


def reason_of(fault: BaseException) -> str:
    """The kind of the error only: the database's message may contain values of the row."""
    cause = _cause(fault) if isinstance(fault, DBAPIError) else fault
    return f"{type(cause).__name__} {_state(cause)}".rstrip()


def request_id_of(entry: Entry) -> str | None:
    if isinstance(entry, Settle | Refused):
        return entry.row.request_id
    return getattr(entry, "request_id", None)


def _cause(fault: DBAPIError) -> BaseException:
    """The driver's exception, which SQLAlchemy has wrapped."""
    return fault if fault.orig is None else fault.orig.__cause__ or fault.orig


def _state(cause: BaseException) -> str:
    return getattr(cause, "sqlstate", None) or ""
