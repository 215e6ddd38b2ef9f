"""From a configuration to accounting that is ready: the database, the journals of dead processes, the own journal.

The steps have a fixed order. First a server that decides about limits alone makes sure that it is alone, so that it
does not change the schema of another's database. Then the schema is updated, under a lock. Then the journals of dead
processes of this machine are applied, and their open requests are settled as orphans. Only then are budgets read and
requests admitted. Every problem becomes one clear line for the operator.
"""

import re
import socket
from functools import partial
from pathlib import Path
from secrets import token_hex

from msgspec import Struct
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from streamweir.background import BackgroundTasks
from streamweir.config.error import ConfigError
from streamweir.config.model import Config
from streamweir.config.secret import secrets_of
from streamweir.policy.redact import Redactor
from streamweir.server.accounting.accounting import Accounting, settle_abandoned
from streamweir.server.accounting.intervals import DEFAULT_INTERVALS, Intervals
from streamweir.server.accounting.keys import KeyDirectory
from streamweir.server.accounting.limiter import Limiter, MemoryLimiter
from streamweir.server.accounting.maintenance import Node, heartbeat, settle_dead_instances
from streamweir.server.accounting.shared_limiter import SharedLimiter
from streamweir.server.accounting.target_limiter import TargetLimiter
from streamweir.server.process.accounting_log import AccountingLog
from streamweir.server.process.background import background_tasks
from streamweir.server.request.runtime.file_keys import key_ring, limit_rules_of
from streamweir.server.streams.frames import Process
from streamweir.server.telemetry.log import log_fault, logger
from streamweir.server.telemetry.process_metrics import AccountingReading
from streamweir.store.db.base import Store, StoreError, StoreUnavailable
from streamweir.store.db.clock import now_ms
from streamweir.store.db.engine import first_line, open_store
from streamweir.store.db.errors import Conflict
from streamweir.store.db.lock import DatabaseLock, lock_database
from streamweir.store.journal.files import make_folder, orphaned_journals
from streamweir.store.journal.journal import Journal
from streamweir.store.keys.changes import changes_since, find_limited
from streamweir.store.keys.file_keys import put_file_keys
from streamweir.store.keys.sessions import ensure_admin_secret
from streamweir.store.keys.workspaces import open_default_workspace
from streamweir.store.ledger.accounts import latest_use
from streamweir.store.ledger.period import HOUR_MS
from streamweir.store.ledger.writer import Writer
from streamweir.store.limits.errors import SharedError
from streamweir.store.limits.shared import SharedLimits, open_shared
from streamweir.store.requests.content_queue import ContentQueue
from streamweir.store.requests.instances import now_of, other_instances, retire

_JOURNAL = "journal"
_WORKERS = "workers"
"""Processes for which the database decides can share it; one that decides by itself cannot share it with them."""
_RENEWALS = 4
"""How often a lease is renewed within its time."""
_START_ERRORS = (StoreError, StoreUnavailable, Conflict, DBAPIError, SharedError, OSError)
"""Errors at the start that the operator has to fix."""


class AccountingRuntime(Struct, kw_only=True):
    """The parts of accounting that live as long as the process. `Gateway` closes the accounting, `close` the rest."""

    store: Store
    accounting: Accounting
    node: Node
    journal: Journal
    contents: ContentQueue
    lock: DatabaseLock | None
    intervals: Intervals
    background: BackgroundTasks

    def reading(self) -> AccountingReading:
        writer = self.accounting.writer
        assert writer is not None  # noqa: S101 (for the type checker)
        return AccountingReading(
            waiting=writer.waiting,
            lag_s=writer.lag_s,
            journal_bytes=self.journal.unapplied_bytes,
            refused=writer.refused + self.journal.refused,
            content_dropped=self.contents.dropped,
            is_degraded=self.accounting.is_degraded,
        )

    async def close(self) -> None:
        await self.contents.close(1.0)
        await self.journal.close()
        await self.store.close()
        if self.lock is not None:
            self.lock.release()


async def prepare_accounting(config: Config, data_dir: Path, *, workers: int = 1) -> str | None:
    """Once for all workers: the schema, the default workspace, and the admin secret.

    Returns that secret if it was created just now: it is not stored and cannot be shown again. Raises `ConfigError`.
    """
    if config.store.is_none:
        return None
    lock: DatabaseLock | None = None
    store: Store | None = None
    try:
        lock = lock_database(config.store.url, data_dir, node=None if workers == 1 else _WORKERS)
        store = await _open_store(config, data_dir, lock)
        with store.without_time_limit(_log_slow):
            if workers > 1 and config.shared is None and (limited := await store.read(find_limited)):
                reason = f"is required: {limited} has a limit, and {workers} workers need Valkey or Redis to share it"
                raise ConfigError("shared", reason)
            make_folder(data_dir / _JOURNAL)  # only to find out whether it can be created, before any worker is started
            return await store.write(_create_defaults)
    except _START_ERRORS as reason:
        raise _config_error(reason, data_dir) from None
    finally:
        await _release(store, lock, None)


async def open_accounting(
    config: Config,
    data_dir: Path,
    *,
    is_worker: bool = False,
    intervals: Intervals = DEFAULT_INTERVALS,
    background: BackgroundTasks | None = None,
) -> AccountingRuntime:
    """`is_worker`: other processes on this machine use the same database. `background`: of the process, if it has one
    already. Raises `ConfigError`."""
    lock: DatabaseLock | None = None
    store: Store | None = None
    accounting_runtime: AccountingRuntime | None = None
    try:
        lock = lock_database(config.store.url, data_dir, node=_WORKERS if is_worker else None)
        store = await _open_store(config, data_dir, lock)
        accounting_runtime = _make_runtime(
            config, data_dir, store, lock, _node(config), intervals, background or background_tasks()
        )
        with store.without_time_limit(_log_slow):
            await _recover_and_load(accounting_runtime, data_dir)
    except BaseException as reason:  # also when it is cancelled: the database is locked no longer
        await _release(store, lock, accounting_runtime)
        if isinstance(reason, _START_ERRORS):
            raise _config_error(reason, data_dir) from None
        raise
    return accounting_runtime


def _config_error(reason: Exception, data_dir: Path) -> ConfigError:
    if isinstance(reason, OSError):
        return ConfigError("", f"the journal cannot be written: {reason.strerror}", file=str(data_dir))
    if isinstance(reason, SharedError):
        return ConfigError("shared.url", str(reason))
    if isinstance(reason, DBAPIError):
        return ConfigError("store.url", f"the database cannot be used: {first_line(reason)}")
    return ConfigError("store.url", str(reason))


async def _release(
    store: Store | None, lock: DatabaseLock | None, accounting_runtime: AccountingRuntime | None
) -> None:
    """After a failed start nothing stays open."""
    if accounting_runtime is not None:
        await accounting_runtime.accounting.close(0.0)
        await accounting_runtime.journal.close()
    if store is not None:
        await store.close()
    if lock is not None:
        lock.release()


def _create_defaults(conn: Connection) -> str | None:
    open_default_workspace(conn, now_ms())
    return ensure_admin_secret(conn, now_ms())


def node_name(config: Config) -> str:
    """The name by which operators know this node; its workers share it."""
    return config.server.node or socket.gethostname()


def _node(config: Config) -> Node:
    return Node(instance=f"{now_ms():012x}{token_hex(6)}", name=node_name(config))


def _make_runtime(
    config: Config,
    data_dir: Path,
    store: Store,
    lock: DatabaseLock | None,
    node: Node,
    intervals: Intervals,
    background: BackgroundTasks,
) -> AccountingRuntime:
    decides_alone = store.is_sqlite and lock is not None and not lock.shared and config.shared is None
    report = AccountingLog(decides_alone=decides_alone, has_valkey=config.shared is not None)
    journal = Journal(data_dir / _JOURNAL, node.instance, max_bytes=config.store.outbox_bytes, report=report)
    writer = Writer(
        store,
        journal,
        decision_s=intervals.decision_s,
        apply_s=intervals.apply_s,
        settle_abandoned=settle_abandoned,
        report=report,
    )
    shared = _open_shared(config, intervals, node)
    targets = TargetLimiter(shared, lambda: node.peers)
    limiter: Limiter
    if decides_alone:
        limiter = MemoryLimiter(store, writer, intervals.decision_s)
    else:
        limiter = SharedLimiter(store, writer, shared, lambda: node.peers, intervals.decision_s, targets, report=report)
    can_enforce_limits = decides_alone or shared is not None or not store.is_sqlite
    accounting = Accounting(
        node.instance,
        KeyDirectory(key_ring(config), intervals.key_max_age_s),
        limiter,
        writer,
        hold_tokens=config.store.hold_tokens,
        budget_wait_s=config.store.budget_wait_s,
        can_enforce_limits=can_enforce_limits,
        renew_s=intervals.lease_s / _RENEWALS,
        decision_s=intervals.decision_s,
        targets=targets,
    )
    accounting.use_file(accounting.directory.file_keys, limit_rules_of(config))
    contents = ContentQueue(store, redactor_of(config), lambda reason: log_fault(reason, ""))
    return AccountingRuntime(
        store=store,
        accounting=accounting,
        node=node,
        journal=journal,
        contents=contents,
        lock=lock,
        intervals=intervals,
        background=background,
    )


def as_stream_owner(accounting_runtime: AccountingRuntime | None) -> Process | None:
    """This process among those that share resumable streams. None: without a database it is alone."""
    if accounting_runtime is None:
        return None
    node, intervals = accounting_runtime.node, accounting_runtime.intervals
    return Process(
        instance=node.instance,
        node=node.name,
        lease_s=intervals.stream_lease_s,
        timeout_s=intervals.stream_timeout_s,
    )


def redactor_of(config: Config, before: Config | None = None) -> Redactor:
    """Masks the secrets of the configuration itself, besides those that the operator names or that look like secrets.

    `before`: the previous configuration, which running streams still use.
    """
    known = {*secrets_of(config), *(secrets_of(before) if before is not None else ())}
    return Redactor([*config.store.redact, *map(re.escape, sorted(known))])


def _open_shared(config: Config, intervals: Intervals, node: Node) -> SharedLimits | None:
    if config.shared is None:
        return None
    return open_shared(
        config.shared.url,
        lease_s=intervals.lease_s,
        timeout_s=intervals.shared_timeout_s,
        pause_s=intervals.shared_pause_s,
        instance=node.instance,
        instance_s=intervals.instance_s,
    )


async def _recover_and_load(accounting_runtime: AccountingRuntime, data_dir: Path) -> None:
    store, accounting, node = accounting_runtime.store, accounting_runtime.accounting, accounting_runtime.node
    writer = accounting.writer
    assert writer is not None  # noqa: S101 (for the type checker)
    accounting_runtime.journal.open()
    await heartbeat(store, node, accounting_runtime.intervals.dead_after_s)
    for dead in orphaned_journals(data_dir / _JOURNAL):
        await writer.replay(dead, partial(_settle_dead_instances, store, dead.instance))
        accounting.instance_ended(dead.instance)
    if accounting_runtime.lock is not None and not accounting_runtime.lock.shared:  # no other process can be running
        await settle_dead_instances(store, await store.read(lambda conn: other_instances(conn, node.instance)))
    await store.write(lambda conn: put_file_keys(conn, list(accounting.directory.file_keys), at_ms=now_ms()))
    accounting.directory.file_is_new = False
    accounting.directory.apply(await store.read(lambda conn: changes_since(conn, 0)))
    if accounting_runtime.lock is not None and not accounting_runtime.lock.shared:
        # Not only by this clock: it may have been ahead when others wrote here.
        latest_ms = max(now_ms(), await store.read(latest_use))
        accounting.set_exclusive_from(latest_ms // HOUR_MS + 1)
    writer.start(accounting_runtime.background)
    accounting_runtime.contents.start(accounting_runtime.background)


async def _settle_dead_instances(store: Store, instance: str) -> None:
    """For an instance that is known to be dead, because its lock is free."""
    await settle_dead_instances(store, [instance])
    await store.write(lambda conn: retire(conn, instance, now_of(conn, now_ms())))


async def _open_store(config: Config, data_dir: Path, lock: DatabaseLock | None) -> Store:
    """The lock of an SQLite file, which has one server, proves that no process of an older version uses it."""
    url, is_alone = config.store.url, lock is not None
    return await open_store(url, data_dir, is_alone=is_alone, on_slow=_log_slow, on_upgrade=_log_upgrade)


def _log_upgrade(what: str) -> None:
    logger.warning("upgrade of the database", what=what)


def _log_slow(where: str, seconds: float) -> None:
    logger.warning("database is slow: still waiting", database=where, seconds=round(seconds))
