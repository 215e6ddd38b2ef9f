"""What was reported last about each subject, and what the processes have seen of providers.

A change is saved only if the condition is still the one that it was derived from: so two processes that find the same
thing report it once. The caller holds the lease, whose row is locked until its transaction ends.
"""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, delete, select

from streamweir.policy.alert import Alert, Change, Condition, ProviderSigns
from streamweir.store.db.sql import LookupByIds, upsert
from streamweir.store.db.tables import alert_conditions as conditions
from streamweir.store.db.tables import instances, provider_signs
from streamweir.store.journal.entries import plain

_columns = (conditions.c.subject, conditions.c.level, conditions.c.basis, conditions.c.until_ms)
_by_subject = LookupByIds(lambda ids: select(*_columns).where(conditions.c.subject.in_(ids)))


def read_conditions(conn: Connection, subjects: Sequence[str]) -> dict[str, Condition]:
    return {
        subject: Condition(subject=subject, level=level, basis=basis, until_ms=until_ms)
        for subject, level, basis, until_ms in _by_subject.run(conn, subjects)
    }


def conditions_of(conn: Connection, prefix: str) -> dict[str, Condition]:
    """All whose subjects begin so."""
    statement = select(*_columns).where(conditions.c.subject.startswith(prefix, autoescape=True))
    return {
        row.subject: Condition(subject=row.subject, level=row.level, basis=row.basis, until_ms=row.until_ms)
        for row in conn.execute(statement)
    }


def save_changes(conn: Connection, changes: Sequence[Change]) -> list[Alert]:
    """The alerts of the changes that were still to be made, in order."""
    known = read_conditions(conn, [change.after.subject for change in changes])
    alerts: list[Alert] = []
    for change in changes:
        after = change.after
        if known.get(after.subject) != change.before:
            continue
        if after.level == 0:
            conn.execute(delete(conditions).where(conditions.c.subject == after.subject))
        else:
            values = {"level": after.level, "basis": after.basis, "until_ms": after.until_ms}
            statement = upsert(conn, conditions).values(subject=after.subject, **values)
            conn.execute(statement.on_conflict_do_update(index_elements=["subject"], set_=values))
        alerts += change.alerts
    return alerts


def read_signs(conn: Connection, alive_since_ms: int, own: str) -> dict[str, dict[str, ProviderSigns]]:
    """By provider and process, of the processes that are alive."""
    is_alive = instances.c.stopped_ms.is_(None) & (instances.c.seen_ms >= alive_since_ms)
    statement = (
        select(provider_signs)
        .outerjoin(instances, instances.c.id == provider_signs.c.instance)
        .where(is_alive | (provider_signs.c.instance == own))
    )
    found: dict[str, dict[str, ProviderSigns]] = {}
    for row in conn.execute(statement):
        found.setdefault(row.provider, {})[row.instance] = ProviderSigns(row.failed_ms, row.answered_ms)
    return found


def write_signs(conn: Connection, instance: str, signs: Mapping[str, ProviderSigns]) -> None:
    for provider, each in signs.items():
        values = {"failed_ms": each.failed_ms, "answered_ms": each.answered_ms}
        statement = upsert(conn, provider_signs).values(provider=plain(provider), instance=instance, **values)
        conn.execute(statement.on_conflict_do_update(index_elements=["provider", "instance"], set_=values))
